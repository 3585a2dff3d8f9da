"""The people and images that a model was trained on, as digests; and those of another set that are among them.

A threshold that is found on people of the training promises nothing about new people, since the model knows them. So a
run, an exported model and an embeddings file record whom and what they know as digests of 8 bytes: of the names of
people, and of decoded pixels. An image that was encoded again, resized, aligned anew or mirrored has other pixels and
is not recognised.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int64, UInt8

from verisphere.base.identity import NOBODY, folded, form_of
from verisphere.base.words import Names, counted

#: The gaps that are about people: names that are new since the comparison, and a training with people who have none.
RENAMED = "people were renamed after the comparison with the training"
UNNAMED = "people of the training who have no names could not be compared"
_EMPTY = np.empty(0, np.int64)


def image_digests(images: UInt8[np.ndarray, "images channels height width"]) -> Int64[np.ndarray, " images"]:
    """The digest of each image: the first 8 bytes of the SHA-256 of its shape and its pixels.

    >>> grey = np.full((2, 3, 4, 4), 128, np.uint8)
    >>> first, second = image_digests(grey)
    >>> first == second, first == image_digests(grey.reshape(2, 3, 2, 8))[0]
    (np.True_, np.False_)
    """
    shape = str(images.shape[1:]).encode()
    return np.array([_digest(shape, np.ascontiguousarray(image).data) for image in images], np.int64)


def is_name(identity: str) -> bool:
    """Whether an identity is a name and not a number; equal numbers of two sets are not one person.

    Below a folder whose name is a number, what has a digit is a number too: the session of a person, and no person.

    >>> is_name("Ann_Lee"), is_name("0000123"), is_name("casia/0000123"), is_name("0000123/session1")
    (True, False, False, False)
    >>> is_name("2004/Ann_Lee")
    True
    """
    lettered = [any(letter.isalpha() for letter in part) for part in identity.split("/")]
    return lettered[-1] and (all(lettered) or not any(letter.isdigit() for letter in own_name(identity)))


def own_name(identity: str) -> str:
    """An identity without the name of its set, which `verisphere.images.Joined` puts before it.

    >>> own_name("casia/Ann_Lee"), own_name("Ann_Lee")
    ('Ann_Lee', 'Ann_Lee')
    """
    return identity.rpartition("/")[2]


def name_digests(identities: Iterable[str], written: bool = False) -> Int64[np.ndarray, " names"]:
    """The sorted digests of the identities that are names, as `name_digest` has them."""
    names = {own_name(name) for name in set(identities) if is_name(name)}
    return np.unique(np.array([name_digest(name, written) for name in names], np.int64))


def name_digest(name: str, written: bool = False) -> int:
    """The digest of a name, once folded (`verisphere.base.identity`), or as it is written."""
    return _digest(b"", (name if written else folded(name)).encode("utf-8", "surrogatepass"))


def _digest(shape: bytes, content: bytes | memoryview) -> int:
    digest = hashlib.sha256(shape)
    digest.update(content)
    return int.from_bytes(digest.digest()[:8], "little", signed=True)


@dataclass(frozen=True)
class SharedWithTraining:
    """The number of people and images of a set that its model was trained on, as far as that is recorded.

    Attributes:
        people: people of the set with the name of a person of the training.
        images: images of the set whose pixels are those of an image of the training.
        named: whether both sets have names, so that people could be compared; numbers are not names.
        gap: why some images or people, or all, could not be compared; empty if all were.
        nameless: people of the set who have no names, where others have.
        pooled: whether templates of several images each are counted in place of images.
    """

    people: int
    images: int
    of_people: int
    of_images: int
    named: bool
    gap: str = ""
    nameless: int = 0
    pooled: bool = False

    def __post_init__(self) -> None:
        if not (0 <= self.people <= self.of_people and 0 <= self.images <= self.of_images):
            raise ValueError(
                f"{self.people} of {self.of_people} people and {self.images} of {self.of_images} images cannot be"
            )

    def __bool__(self) -> bool:
        """Whether a person or an image is shared."""
        return bool(self.people or self.images)

    def found(self) -> str:
        """The shared people and images, in words; of sets that share none, that there are none.

        >>> SharedWithTraining(2, 0, 60, 120, True).found()
        'the model was trained on 2 of the 60 people (by name)'
        """
        parts = [f"{self.people:,} of the {self.of_people:,} people (by name)"] if self.people else []
        of_all = f"of the {self.of_images:,} {'templates' if self.pooled else 'images'}"
        parts += [f"{'images of ' if self.pooled else ''}{self.images:,} {of_all}"] if self.images else []
        if parts:
            return f"the model was trained on {' and '.join(parts)}"
        none = f"none of the images {of_all}" if self.pooled else f"none {of_all}"
        if self.named:
            rest = f"; {counted(self.nameless, 'person')} without a name could not be compared" if self.nameless else ""
            compared = self.of_people - self.nameless
            return f"{none} and, by name, none of the {compared:,} people were in the training{rest}"
        nameless = "" if self.gap else "; people could not be compared, since the set or the training has no names"
        return f"{none} were in the training{nameless}"

    def not_compared(self) -> str:
        """That images or people could not be compared, and why; empty if all were compared."""
        of_images = f"images could not be compared with those of the training: {self._of_images()}"
        of_people = [gap for gap in (UNNAMED, RENAMED) if gap in self.gap]
        return "; ".join([of_images] * bool(self._of_images()) + of_people)

    def _of_images(self) -> str:
        return "; ".join(gap for gap in self.gap.split("; ") if gap not in (RENAMED, UNNAMED))

    def described(self) -> str:
        """What is shared, and what could not be compared, in words."""
        known = [self.found()] if self or not self._of_images() else []
        return "; ".join([*known, *([self.not_compared()] if self.gap else [])])


@dataclass(frozen=True, eq=False)
class RowsInTraining:
    """For each row of a set of embeddings, whether the model was trained on its person and on its image.

    Attributes:
        named: whether the training has names, and all people of the rows were compared with them.
        digests: digest of each row's image; None where a row stands for several images.
        templates: whether a row stands for several images.
        written: whether people were compared by their names as written.
        other_rule: what `people` is under the other rule, `exact` or not, where the training took names by `exact`.
    """

    people: Bool[np.ndarray, " rows"]
    images: Bool[np.ndarray, " rows"]
    named: bool
    gap: str
    digests: Int64[np.ndarray, " rows"] | None = None
    identities: np.ndarray | None = None
    templates: bool = False
    written: bool = False
    other_rule: Bool[np.ndarray, " rows"] | None = None

    @classmethod
    def unrecorded(cls, rows: int, gap: str) -> "RowsInTraining":
        """Rows of which nothing says whether the model was trained on them."""
        return cls(np.zeros(rows, bool), np.zeros(rows, bool), False, gap)

    def of(self, identities: np.ndarray, how: Names | None = None) -> "RowsInTraining":
        """The record of these people; under other names than before (`how`), of what is known of the new names."""
        if how is not None and self.written != (how == "exact") and self.other_rule is not None:
            return self.taken(how == "exact").of(identities, how)
        if self.identities is None or np.array_equal(identities, self.identities):
            return replace(self, identities=identities)
        before, (names, place) = self.identities.tolist(), np.unique(identities, return_inverse=True)

        def known(flags: Bool[np.ndarray, " rows"], form: Callable[[str], str]) -> list[bool | None]:
            of_form = dict(sorted({*zip(map(form, before), flags.tolist(), strict=True)}))
            return [of_form.get(form(name)) for name in names.tolist()]

        form = folded if self.other_rule is None else form_of(how)  # `exact` has to decide in the training too
        people, other = known(self.people, form), None
        if self.other_rule is not None:
            others = known(self.other_rule, folded if form is str else str)
            other = np.array([one if new is None else new for one, new in zip(people, others, strict=True)], bool)[
                place
            ]
        rows = replace(self, people=np.array(people, bool)[place], other_rule=other, identities=identities)
        if not self.named or not any(one is None and is_name(name) for name, one in zip(names, people, strict=True)):
            return rows
        return replace(rows, named=False, gap="; ".join(filter(None, (self.gap, RENAMED))))

    def taken(self, written: bool) -> "RowsInTraining":
        """The record where people are compared as written, or in any spelling, as far as it says."""
        if self.other_rule is None or written == self.written:
            return self
        return replace(self, people=self.other_rule, other_rule=self.people, written=written)

    def take(self, rows: np.ndarray) -> "RowsInTraining":
        """The rows at these positions, or the rows that are True in a mask."""
        optional = self.digests, self.identities, self.other_rule
        digests, identities, other_rule = (None if column is None else column[rows] for column in optional)
        return RowsInTraining(self.people[rows], self.images[rows], self.named, self.gap, digests, identities,
                              self.templates, self.written, other_rule)  # fmt: skip

    def pooled(self, group: Int64[np.ndarray, " rows"], groups: int) -> "RowsInTraining":
        """For each group of rows, whether the model was trained on any of them."""

        def of_any(column: Bool[np.ndarray, " rows"]) -> Bool[np.ndarray, " groups"]:
            return np.bincount(group, column, groups) > 0

        other_rule = None if self.other_rule is None else of_any(self.other_rule)
        return RowsInTraining(of_any(self.people), of_any(self.images), self.named, self.gap, None, None,
                              self.templates or groups < len(group), self.written, other_rule)  # fmt: skip

    def shared(self, identities: np.ndarray | None) -> SharedWithTraining:
        """The number of people and images that are shared; without identities nobody is known."""
        everyone = [] if identities is None else np.unique(identities[identities != NOBODY]).tolist()
        known = 0 if identities is None else len(np.unique(identities[self.people & (identities != NOBODY)]))
        with_name, images = sum(map(is_name, everyone)), int(self.images.sum())
        named = self.named and with_name > 0
        nameless = len(everyone) - with_name if named else 0
        counts = known, images, len(everyone), len(self.images)
        return SharedWithTraining(*counts, named, self.gap, nameless, self.templates)


def pooled_rows(parts: Sequence[RowsInTraining | None]) -> RowsInTraining | None:
    """The rows of several sets, one set after another; None if a set records nothing."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or not known:
        return None
    written = any(part.written for part in known)
    known = [part.taken(written) for part in known]
    digests = [part.digests for part in known if part.digests is not None]
    return RowsInTraining(
        np.concatenate([part.people for part in known]),
        np.concatenate([part.images for part in known]),
        all(part.named for part in known),
        "; ".join(dict.fromkeys(part.gap for part in known if part.gap)),
        np.concatenate(digests) if len(digests) == len(known) else None,
        templates=any(part.templates for part in known),
        written=written,
        other_rule=np.concatenate([part.people if part.other_rule is None else part.other_rule for part in known])
        if any(part.other_rule is not None for part in known)
        else None,
    )


@dataclass(frozen=True, eq=False)
class TrainedOn:
    """The people and images that a model was trained on, and on which the models that it was started from were trained.

    Attributes:
        people, images: sorted digests of names and of images; see `name_digests` and `image_digests`.
        gap: why some training images or people, or all, are not recorded; empty if all are.
        written: sorted digests of the names as they are written, where `exact` decided in every training; else None.
        classes: sorted digests of the names of all classes, numbers too, as they are written, where the head is beside
            the record; else None.
    """

    people: Int64[np.ndarray, " people"]
    images: Int64[np.ndarray, " images"]
    gap: str = ""
    written: Int64[np.ndarray, " written"] | None = None
    classes: Int64[np.ndarray, " classes"] | None = None

    @classmethod
    def unknown(cls, gap: str) -> "TrainedOn":
        """A training of which nothing is recorded."""
        return cls(_EMPTY, _EMPTY, gap)

    def after(self, earlier: Sequence["TrainedOn"]) -> "TrainedOn":
        """This training together with those before it."""
        every = [*earlier, self]
        gaps = [record.gap for record in every]
        if any(len(one.people) for one in every) and any(len(one.images) and not len(one.people) for one in every):
            gaps.append(UNNAMED)
        written = [record.written for record in every if len(record.people)]
        exact = [names for names in written if names is not None]
        return TrainedOn(
            np.unique(np.concatenate([record.people for record in every])),
            np.unique(np.concatenate([record.images for record in every])),
            "; ".join(dict.fromkeys(filter(None, "; ".join(gaps).split("; ")))),
            np.unique(np.concatenate(exact)) if exact and len(exact) == len(written) else None,
        )

    def rows(
        self, identities: np.ndarray, digests: Int64[np.ndarray, " rows"], how: Names | None = None
    ) -> RowsInTraining:
        """For each row of a set, whether its person and its image were in the training.

        Where `exact` decided here (`how`) and in the training, names that differ only in spelling are different people.
        """
        people, person = np.unique(identities, return_inverse=True)
        known = np.array([is_name(name) for name in people.tolist()], bool)

        def trained(names: Int64[np.ndarray, " names"], written: bool = False) -> Bool[np.ndarray, " rows"]:
            forms = [name_digest(own_name(name), written) for name in people.tolist()]
            return (known & np.isin(np.array(forms, np.int64), names))[person]

        rows = trained(self.people), np.isin(digests, self.images), bool(len(self.people)), self.gap, digests
        other_rule = None if self.written is None else trained(self.written, written=True)
        return RowsInTraining(*rows, other_rule=other_rule).taken(how == "exact")
