"""Parts of a set of faces by person: named people, people with enough images, a seeded split."""

import logging
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64

from verisphere.base.identity import decided, folded, form_of, spellings
from verisphere.base.trained_on import is_name, own_name
from verisphere.base.vocabulary import NOBODY, printable
from verisphere.base.words import Names
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.people_lists import read_people
from verisphere.images.faces import Faces, Selection
from verisphere.images.packs.columns import coded

log = logging.getLogger(__name__)

_NOBODY = (
    f"nobody is known on any of {{}} images (identity {NOBODY}); a verification set (.bin) states pairs, not people"
)


def with_people(faces: Faces, people: Collection[str]) -> Faces:
    """The images of these people, in the order of the set.

    >>> from verisphere.images import InMemory
    >>> pixels = torch.zeros(4, 3, 112, 112, dtype=torch.uint8)
    >>> faces = InMemory(pixels, ("a/1", "a/2", "b/1", "c/1"), ("a", "a", "b", "c"))
    >>> with_people(faces, ["a"]).names
    ('a/1', 'a/2')

    Raises:
        ValueError: the set does not have some of the people; states their number and the first one. Or it has one in
            another spelling, and its rule of names is not `merge`.
    """
    return faces.select(positions_of_people(faces.settled(), people, decided(faces.names_rule)))


def with_images(faces: Faces, at_least: int = 1, at_most: int | None = None) -> Faces:
    """The people with `at_least` images or more; of people with more than `at_most`, the first `at_most` images.

    Images without a known person (identity `NOBODY`) are all kept.

    >>> from verisphere.images import InMemory
    >>> pixels = torch.zeros(4, 3, 112, 112, dtype=torch.uint8)
    >>> faces = InMemory(pixels, ("a/1", "a/2", "b/1", "c/1"), ("a", "a", "b", "c"))
    >>> with_images(faces, at_least=2).people, with_images(faces, at_most=1).names
    (('a',), ('a/1', 'b/1', 'c/1'))

    Raises:
        ValueError: no person has `at_least` images, or `at_least` is below 1 or above `at_most`.
    """
    return faces.select(positions_with_images(faces.settled(), at_least, at_most))


def split_people(faces: Faces, share: float, seed: int = 0) -> tuple[Faces, Faces]:
    """Two parts that share no person: `round(share * people)` people drawn by `seed`, and all other people.

    The draw depends on the seed and the names of the people alone, not on the order of images. Each part keeps the
    order of the set and has at least one person.

    >>> from verisphere.images import InMemory
    >>> pixels = torch.zeros(4, 3, 112, 112, dtype=torch.uint8)
    >>> faces = InMemory(pixels, ("a/1", "a/2", "b/1", "c/1"), ("a", "a", "b", "c"))
    >>> first, second = split_people(faces, share=0.67, seed=0)
    >>> len(first.people), len(second.people), set(first.people) & set(second.people)
    (2, 1, set())

    Raises:
        ValueError: share outside (0, 1), or fewer than two people.
    """
    if not 0 < share < 1:
        raise ValueError(f"share is {share}; allowed is a number between 0 and 1, both excluded")
    require_people(faces, at_least=2)
    count = min(max(round(share * len(faces.people)), 1), len(faces.people) - 1)
    drawn = torch.randperm(len(faces.people), generator=torch.Generator().manual_seed(seed))[:count]
    first = {faces.people[label] for label in drawn.tolist()}
    inside = [person in first for person in faces.settled()]
    return (
        faces.select([index for index, chosen in enumerate(inside) if chosen]),
        faces.select([index for index, chosen in enumerate(inside) if not chosen]),
    )


def require_people(faces: Faces, at_least: int = 2) -> None:
    """Refuses a set with too few people.

    >>> from verisphere.images import InMemory
    >>> pixels = torch.zeros(4, 3, 112, 112, dtype=torch.uint8)
    >>> faces = InMemory(pixels, ("a/1", "a/2", "b/1", "c/1"), ("a", "a", "b", "c"))
    >>> require_people(faces, at_least=4)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: 3 people found ('a', 'b', 'c') but at least 4 are needed; ...

    Raises:
        ValueError: the set has fewer than `at_least` people; names the first few.
    """
    if len(faces) and not faces.people:
        raise ValueError(_NOBODY.format(f"{len(faces):,}"))
    if len(faces.people) < at_least:
        seen = ", ".join(repr(person) for person in faces.people[:3]) or "none"
        raise ValueError(
            f"{len(faces.people)} people found ({seen}) but at least {at_least} are needed; is each person's folder "
            "inside the folder that was given?"
        )


def even_steps(length: int, most: int) -> Int64[np.ndarray, " chosen"]:
    """Positions at even steps from the first to the last, at most the given number.

    >>> even_steps(3, 10).tolist(), even_steps(10, 4).tolist()
    ([0, 1, 2], [0, 3, 6, 9])
    """
    return np.linspace(0, length - 1, min(length, most)).round().astype(np.int64)


def shared_people(faces: Faces, training: Faces) -> list[str]:
    """The people of a set who are people of the training; numbers are, if both sets are of one file."""
    files = {_file_of(faces), _file_of(training)} - {None}
    same_place = faces.source.place == training.source.place and len(files) < 2
    form = form_of(faces.names_rule, training.names_rule)
    trained = {form(person) for person in training.people}
    named = {form(own_name(person)) for person in training.people}
    return [
        person
        for person in faces.people
        if (form(own_name(person)) in named if is_name(person) else same_place and form(person) in trained)
    ]


def _file_of(faces: Any) -> Path | None:
    """The file or folder of a set, or of the set that it is a part of; None if it has none."""
    while (whole := getattr(faces, "faces", None)) is not None:
        faces = whole
    path = getattr(faces, "path", None)
    return path.resolve() if isinstance(path, Path) else None


def warn_of_shared_people(faces: Faces, what: str, training: Faces, figures: str) -> None:
    """Warns where people of a set that is measured are people of the training."""
    if both := shared_people(faces, training):
        log.warning(
            "%s: %d of its %d people are people of the training, such as %s; a network knows those, so %s says little "
            "of others",
            what, len(both), len(faces.people), printable(both[0]), figures,
        )  # fmt: skip


def positions_of_people(identities: Sequence[str], people: Collection[str], how: Names | None = None) -> list[int]:
    """Positions of the images of these people; raises the errors of `with_people`."""
    forms, listed = {folded(person) for person in people}, [*people]
    set_has = [person for person in coded(identities).present() if folded(person) in forms]
    both = (*listed, *set_has)
    new = spellings(both, both, lambda row: _where(row, len(listed)), how, (listed, set_has))
    if new:
        identities = [new.get(person, person) for person in identities]
        people = tuple(dict.fromkeys(new.get(person, person) for person in listed))
    present = set(identities)
    missing = [person for person in people if person not in present]
    if missing:
        raise ValueError(
            f"{len(missing)} of {len(people)} people are not in the set, first {shown(missing[0], 200)}; "
            f"names there look like {shown(min(present, default=''), 200)}"
        )
    wanted = set(people)
    return [index for index, person in enumerate(identities) if person in wanted]


def positions_of_listed(identities: Sequence[str], people: str | Path) -> list[int]:
    """Positions of the images of the people whom a file lists; see `verisphere.files.people_lists.read_people`."""
    listed = read_people(Path(people).expanduser())
    with errors_naming(f"{people}, the list of people (--people)"):
        return positions_of_people(identities, listed, decided())


def _where(row: int, listed: int) -> str:
    return f"entry {row + 1} of the list" if row < listed else "in the set"


def positions_with_images(identities: Sequence[str], at_least: int = 1, at_most: int | None = None) -> list[int]:
    """Positions of the images that `with_images` keeps; raises its errors."""
    if at_least < 1 or (at_most is not None and at_most < at_least):
        most_allowed = "" if at_most is None else f" and at most {at_most}"
        raise ValueError(
            f"people with at least {at_least}{most_allowed} images; allowed are 1 or more, and a most that is no less"
        )
    column = coded(identities)
    counts = column.counts()
    nobody = np.array([value == NOBODY for value in column.values], bool)
    counts[nobody] = 0
    most = int(counts.max(initial=0))
    if nobody.any() and most == 0:
        raise ValueError(_NOBODY.format(f"{len(column):,}"))
    if most < at_least:
        raise ValueError(f"no person has at least {at_least} images; the most that one has is {most}")
    chosen = ((counts >= at_least) | nobody)[column.codes]
    if at_most is not None:
        by_person = column.codes.argsort(kind="stable")
        place = np.empty(len(column), np.int64)  # number of each image among the images of its person
        place[by_person] = np.arange(len(column)) - np.searchsorted(column.codes[by_person], column.codes[by_person])
        chosen &= (place < at_most) | nobody[column.codes]
    return chosen.nonzero()[0].tolist()


class PartOfPeople(Selection):
    """The people of another set whose position in a random order lies between two shares, with all their images.

    Parts of one set by one seed, such as 0 to 0.5, 0.5 to 0.75 and 0.75 to 1, share no person and exclude none. The
    order depends on the seed and the names of the people alone, so sets of the same people with other images are
    divided in the same way. Images without a known person (identity -1) are in no part.

    >>> from verisphere.images import InMemory
    >>> pixels = torch.zeros(4, 3, 112, 112, dtype=torch.uint8)
    >>> faces = InMemory(pixels, ("a/1", "a/2", "b/1", "c/1"), ("a", "a", "b", "c"))
    >>> PartOfPeople(faces, 0.0, 0.67).people, PartOfPeople(faces, 0.67, 1.0).people
    (('a', 'c'), ('b',))

    Args:
        faces: the other set.
        first: share of the people that come before this part.
        last: share of the people up to the end of this part.
        seed: seed of the order.

    Raises:
        ValueError: shares outside [0, 1] or not in order, or a part without people.
    """

    def __init__(self, faces: Faces, first: float = 0.0, last: float = 1.0, seed: int = 0) -> None:
        if not 0 <= first < last <= 1:
            raise ValueError(f"first is {first} and last {last}; allowed are two shares in [0, 1] in this order")
        require_people(faces)
        count = len(faces.people)
        order = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
        people = {faces.people[label] for label in order[round(first * count) : round(last * count)]}
        if not people:
            raise ValueError(f"of {count} people none lies between the shares {first} and {last}")
        super().__init__(faces, [index for index, person in enumerate(faces.settled()) if person in people])
