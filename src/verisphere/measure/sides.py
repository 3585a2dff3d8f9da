"""The two sides of a comparison: one model made both, no image is on both; and galleries with distractors."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from verisphere.base.provenance import check_same_origin
from verisphere.base.vocabulary import Embeddings, Origin

ONE_WAY = "scores compare embeddings of one model, made in one way"
#: Relative distance between two embeddings of one image: another batch size or number of threads rounds differently.
_ROUNDING = 1e-4


def check_alike(
    probes: str | Path, dim: int, origin: Origin | None, other: str | Path, other_dim: int, other_origin: Origin | None
) -> None:
    """Refuse embeddings whose size or origin shows that another model than that of the probes made them."""
    if other_dim != dim:
        raise ValueError(f"{other}: {other_dim} numbers a row, but {probes} has {dim}; {ONE_WAY}")
    check_same_origin(f"{probes} was", origin, other, other_origin, ONE_WAY)


def check_one_model(origins: Mapping[Path, Origin | None]) -> None:
    """Refuse embeddings of two models, or of one in two ways: their scores share no threshold."""
    known = [(file, origin) for file, origin in origins.items() if origin is not None]
    for file, origin in origins.items():
        if origin is None and known:
            check_same_origin(f"{known[0][0]} was", known[0][1], file, origin, ONE_WAY)
    for place, (file, origin) in enumerate(known):
        for first, other in known[:place]:  # each with each: one of them may not record what two others do
            check_same_origin(f"{first} was", other, file, origin, ONE_WAY)


def note_kinds(sets: Iterable[tuple[str, Embeddings]]) -> tuple[str, ...]:
    """A note on sets of which some are templates, of several photographs each, and others are photographs."""
    pooled = {title: rows.pooled_from is not None for title, rows in sets}
    if len({*pooled.values()}) < 2:
        return ()
    kinds = "templates of several photographs each, and the rows of the other files are single photographs"
    templates = ", ".join(title for title, of_several in pooled.items() if of_several)
    return (f"{templates}: {kinds}: no threshold is right for both; name files of one kind",)


def check_sides(probes: Path, shown: Embeddings, gallery: Path, enrolled: Embeddings, any_person: bool = False) -> None:
    """Refuse two sides of a comparison that were made differently, or that have an image in common."""
    check_alike(probes, shown.embeddings.shape[1], shown.origin, gallery, enrolled.embeddings.shape[1], enrolled.origin)
    _, left, right = np.intersect1d(shown.names, enrolled.names, assume_unique=True, return_indices=True)
    before, after = shown.embeddings[left], enrolled.embeddings[right]
    same = np.linalg.norm(before - after, axis=1) <= _ROUNDING * np.linalg.norm(before, axis=1)
    if not any_person:
        same &= shown.identities[left] == enrolled.identities[right]
    on_both = _equal_pixels(shown, enrolled)
    on_both[right[same]] = True
    if on_both.any():
        first = str(enrolled.names[on_both.argmax()])
        raise ValueError(
            f"{gallery}: {on_both.sum()} of its images are probes in {probes} too, the first is {first!r}; an image "
            "that meets itself is always found"
        )


def _equal_pixels(shown: Embeddings, enrolled: Embeddings) -> Bool[np.ndarray, " enrolled"]:
    """Which images of the gallery are, by their pixels, images of the same person among the probes."""
    records = [side.in_training for side in (shown, enrolled)]
    digests = [record.digests for record in records if record is not None and record.digests is not None]
    if len(digests) < 2:
        return np.zeros(len(enrolled), bool)
    person = np.unique(np.concatenate([shown.identities, enrolled.identities]), return_inverse=True)[1]
    image = np.unique(np.stack([np.concatenate(digests), person], 1), axis=0, return_inverse=True)[1]
    return np.isin(image[len(shown) :], image[: len(shown)])


def with_distractors(enrolled: Embeddings, others: Sequence[tuple[str, Embeddings]], shown: np.ndarray) -> Embeddings:
    """A gallery with further images, each of a person of its own, with an identity that no other image or probe has."""
    if not others:
        return enrolled
    person = "distractor"
    while np.char.startswith(np.concatenate([enrolled.identities, shown]), person).any():
        person += "_"
    names = [enrolled.names]
    for title, rows in others:
        taken = np.isin(rows.names, np.concatenate(names)).any()
        names.append(np.char.add(f"{title}/", rows.names) if taken else rows.names)
    count = sum(len(rows) for _, rows in others)
    return Embeddings(
        np.concatenate([enrolled.embeddings, *(rows.embeddings for _, rows in others)]),
        names=np.concatenate(names),
        identities=np.concatenate([enrolled.identities, np.char.add(f"{person} ", np.arange(count).astype(str))]),
        origin=enrolled.origin,
        names_rule=enrolled.names_rule,
    )
