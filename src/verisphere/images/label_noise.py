"""Label noise at a stated rate for any set of faces; the true identities are kept."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int64, UInt8, UInt64
from torch import Tensor

from verisphere.base.identity import form_of, rule_of_all
from verisphere.base.seeds import Stream, check_seed, mixed_seed
from verisphere.base.vocabulary import NOBODY, ImageSource
from verisphere.files.images_json import joint_source
from verisphere.files.json_values import shown
from verisphere.images.faces import Faces
from verisphere.images.packs.columns import Coded, coded

OUTSIDE = "outside/"  # prefix of the names of images from another set


@dataclass(frozen=True, eq=False)
class DrawnNoise:
    """The labels of a set with noise, and which are wrong; an image marked `outside` is to show a person outside it."""

    identities: Sequence[str]
    wrong: Bool[np.ndarray, " images"]
    outside: Bool[np.ndarray, " images"]


def draw_noise(
    names: Sequence[str], identities: Sequence[str], rate: float, open_share: float = 0.0, seed: int = 0
) -> DrawnNoise:
    """Draw label noise: the same share of the labels of each class (SphereFace2, Wen et al. 2022, section 3.3).

    Of the n images of an identity, `round(rate * n)` are wrong; as everywhere in Python, a half is rounded to the even
    number. Of all wrong images of the set, `round(open_share * wrong)` are open-set noise. Every other wrong image gets
    an identity that is drawn uniformly from all other people of the set. The paper states that labels are altered at
    random, but not from which distribution. Images of `NOBODY` stay unchanged.

    The draw of an image depends on the seed and its name alone, so neither the order of the images nor the platform
    changes it; the images that are wrong at a rate are wrong at every higher rate, too.

    >>> noise = draw_noise(("a/1", "a/2", "b/1", "b/2"), ("a", "a", "b", "b"), rate=0.5)
    >>> noise.wrong.reshape(2, 2).sum(1).tolist(), sorted(noise.identities)
    ([1, 1], ['a', 'a', 'b', 'b'])
    """
    if not 0 <= rate < 1:
        raise ValueError(f"rate is {rate}; it is a share of the images of each person, at least 0 and below 1")
    if not 0 <= open_share <= 1:
        raise ValueError(f"open_share is {open_share}; it is a share of the wrong images, from 0 to 1")
    check_seed(seed)
    column = coded(identities)
    wrong, outside = np.zeros(len(names), bool), np.zeros(len(names), bool)
    people = sorted({*column.present()} - {NOBODY})
    if rate == 0:
        return DrawnNoise(identities, wrong, outside)
    if len(people) < 2:
        raise ValueError(f"rate is {rate} but the set has {len(people)} people; a wrong identity takes at least two")
    keys = image_keys(names, seed)
    wrong = _share_of_each(column, keys[:, 0], rate)
    drawn = np.flatnonzero(wrong)
    drawn = drawn[np.lexsort((drawn, keys[drawn, 2]))]
    outside[drawn[: round(open_share * len(drawn))]] = True
    flipped = np.flatnonzero(wrong & ~outside)
    # the other people of the set follow a person in a circle, in the order of their names
    number = {person: place for place, person in enumerate(people)}
    person_of_code = np.array([number.get(value, -1) for value in column.values])
    code_of_person = np.argsort(np.where(person_of_code < 0, len(people), person_of_code), kind="stable")
    step = 1 + (keys[flipped, 1] % np.uint64(len(people) - 1)).astype(np.int64)
    codes = column.codes.astype(np.int64)  # a copy
    codes[flipped] = code_of_person[(person_of_code[codes[flipped]] + step) % len(people)]
    return DrawnNoise(Coded(column.values, codes), wrong, outside)


def image_keys(names: Sequence[str], seed: int) -> UInt64[np.ndarray, "images 3"]:
    """Three random numbers for each image, which depend on the seed and the image's name alone."""
    key = mixed_seed(Stream.LABELS, seed).to_bytes(4, "little")
    digests = (hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=24, key=key).digest() for name in names)
    return np.frombuffer(b"".join(digests), "<u8").reshape(-1, 3).astype(np.uint64)


def _share_of_each(column: Coded, keys: UInt64[np.ndarray, " images"], rate: float) -> Bool[np.ndarray, " images"]:
    """The images of each identity with the lowest keys, as many as the rate requires; `NOBODY` has none."""
    counts = column.counts()
    wanted = np.array(
        [0 if value == NOBODY else round(rate * count) for value, count in zip(column.values, counts, strict=True)],
        np.int64,
    )
    order = np.lexsort((np.arange(len(column)), keys, column.codes))
    by_person = column.codes[order]
    place = np.arange(len(column)) - np.searchsorted(by_person, by_person)  # among the images of its person
    wrong = np.zeros(len(column), bool)
    wrong[order] = place < wanted[by_person]
    return wrong


class LabelNoise(Faces):
    """Another set with label noise at a stated rate; `true_identities` has the truth.

    Of each person's n images, `round(rate * n)` are wrong, as in SphereFace2 (Wen et al. 2022, section 3.3). Closed-set
    noise gives an image the identity of another person of the set. Open-set noise puts an image of a person outside the
    set in its place, under the identity of the class; such an image is named `outside/` and its name in that set, is
    used once, and takes the domain of the image that it replaces. At rate 0 nothing changes. The draw does not depend
    on the order of the images; see `draw_noise`.

    >>> from verisphere.images import SyntheticFaces
    >>> faces = LabelNoise(SyntheticFaces(people=4, images=10, size=48), rate=0.4)
    >>> [given == true for given, true in zip(faces.identities, faces.true_identities)].count(False)
    16

    Args:
        faces: the other set, whose labels are assumed to be right.
        rate: share of the images of each person that are wrong, in [0, 1).
        open_share: share of the wrong images of the set that are open-set noise, in [0, 1].
        outside: set that the open-set images come from. Its people who are in `faces`, by equal identities, are
            excluded, also under another spelling (`verisphere.base.identity`) unless `exact` decided for both sets;
            images of `NOBODY`, such as distractors, count as people outside.
        seed: seed of the noise.

    Attributes:
        wrong: whether the label of each image is wrong.

    Raises:
        ValueError: an argument is outside its range; `faces` has labels that are known to be wrong; there are fewer
            than two people; `open_share` is given without `outside` or the reverse; or `outside` has too few images.
            From `images`: the images of the two sets differ in size.
    """

    def __init__(
        self, faces: Faces, rate: float, open_share: float = 0.0, outside: Faces | None = None, seed: int = 0
    ) -> None:
        if (outside is None) != (open_share == 0):
            given = "outside is not given" if outside is None else "outside is given"
            raise ValueError(f"open_share is {open_share} but {given}; open-set noise takes both")
        truth = faces.true_identities
        if truth is not None and any(given != true for given, true in zip(faces.identities, truth, strict=True)):
            raise ValueError("the set has wrong labels already (its true_identities say so); the rate would be another")
        noise = draw_noise(faces.names, faces.identities, rate, open_share, seed)
        self.faces, self.outside = faces, outside
        self.identities, self.wrong = noise.identities, noise.wrong
        self.domains, self.names_rule = faces.domains, faces.names_rule
        if outside is not None and self.names_rule is None:
            self.names_rule = rule_of_all([None, outside.names_rule])
        self._replaced = np.full(len(faces), -1, np.int64)  # position in `outside` of the image that replaces it
        names, true = faces.names, faces.identities
        if outside is not None and noise.outside.any():
            self._replaced[noise.outside] = _drawn_outside(faces, outside, noise.outside, seed)
            names, true = list(names), list(true)
            for place in np.flatnonzero(noise.outside).tolist():
                image = int(self._replaced[place])
                names[place] = f"{OUTSIDE}{outside.names[image]}"
                true[place] = (outside.true_identities or outside.identities)[image]
            if clash := {names[place] for place in np.flatnonzero(noise.outside)} & set(faces.names):
                raise ValueError(
                    f"the set has an image named {shown(min(clash), 200)}, as an image from outside would be"
                )
        self.names, self.true_identities = names, true

    @property
    def source(self) -> ImageSource:
        """Source of the images; with open-set noise, the joint source of both sets."""
        source = self.faces.source
        if self.outside is None:
            return source
        other = self.outside.source
        return joint_source(f"{source.place} with images of {other.place}", [source, other])

    def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
        """The images at these positions; those of open-set noise come from the other set."""
        places = np.asarray(indices, np.int64)
        replaced = self._replaced[places]
        inside = np.flatnonzero(replaced < 0)
        if self.outside is None or len(inside) == len(places):
            return self.faces.images(places.tolist())
        foreign = np.flatnonzero(replaced >= 0)
        others = self.outside.images(replaced[foreign].tolist())
        if not len(inside):
            return others
        ours = self.faces.images(places[inside].tolist())
        if ours.shape[1:] != others.shape[1:]:
            sizes = [" x ".join(map(str, images.shape[-2:])) for images in (ours, others)]
            raise ValueError(
                f"images of the set are {sizes[0]} pixels but those of outside {sizes[1]}; give both one size"
            )
        both, order = torch.cat([ours, others]), np.argsort(np.concatenate([inside, foreign]))
        return both[torch.from_numpy(order)].contiguous(memory_format=torch.channels_last)


def _drawn_outside(
    faces: Faces, outside: Faces, replaced: Bool[np.ndarray, " images"], seed: int
) -> Int64[np.ndarray, " replaced"]:
    """Positions in the other set of the images that take the places of the replaced ones, by ascending place."""
    form = form_of(faces.names_rule, outside.names_rule)
    known = {form(value) for value in {*coded(faces.identities).present()} - {NOBODY}}
    column = coded(outside.true_identities or outside.identities)
    foreign = np.array([form(value) not in known for value in column.values], bool)
    candidates = np.flatnonzero(foreign[column.codes])
    places = np.flatnonzero(replaced)
    if len(candidates) < len(places):
        shared = sum(form(value) in known for value in column.present())
        raise ValueError(
            f"{len(places):,} images of people outside the set are needed, but outside has {len(candidates):,} "
            f"({shared:,} of its people are in the set and excluded); lower rate or open_share, or name a larger set"
        )
    keys = image_keys([outside.names[place] for place in candidates.tolist()], seed)[:, 0]
    chosen = candidates[np.lexsort((candidates, keys))][: len(places)]
    by_key = np.argsort(image_keys([faces.names[place] for place in places.tolist()], seed)[:, 2], kind="stable")
    drawn = np.empty(len(places), np.int64)
    drawn[by_key] = chosen
    return drawn
