"""A cell of a study of rules: noise put into embeddings, and the images of each person that every rule drops."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64

from verisphere.base.seeds import numpy_generator
from verisphere.files.disk import write_whole
from verisphere.files.npz import read_npz
from verisphere.images.label_noise import draw_noise
from verisphere.images.packs.columns import Coded, coded
from verisphere.study.clean.from_embeddings import Finder
from verisphere.study.clean.rules import Reason, Rule
from verisphere.study.clean.sub_classes import SubClasses
from verisphere.study.experiments.arms import folder_name

_OUTSIDE = 1  # distinguishes the draw of images of people outside from that of the noise


@dataclass(frozen=True)
class Cell:
    """A set with one kind and rate of noise at one seed.

    Attributes:
        measured: name of the set.
        kind: kind of noise; "none" where the rate is 0.
        rate: share of each person's images whose label is wrong.
        seed: seed of the noise.
    """

    measured: str
    kind: str
    rate: float
    seed: int

    @property
    def file_name(self) -> str:
        """Name of the file of its counts, without the suffix."""
        return folder_name(f"{self.measured}, {self.kind}, {self.rate}, seed {self.seed}")


@dataclass(frozen=True, eq=False)
class NoisySet:
    """A set that noise is put into.

    Attributes:
        name: name of the set.
        rows: rows of length 1 of the people with enough images.
        names: name of each row.
        identities: person of each row.
        sizes: number of images of each person.
        outside: rows of length 1 of all others.
    """

    name: str
    rows: Float32[np.ndarray, "rows dim"]
    names: Sequence[str]
    identities: Coded
    sizes: Int64[np.ndarray, " people"]
    outside: Float32[np.ndarray, "others dim"]

    @property
    def people(self) -> int:
        """Number of people."""
        return len(self.sizes)


@dataclass(frozen=True, eq=False)
class CellCounts:
    """The numbers of images that the rules drop in a cell, by the person that an image is labelled as.

    Attributes:
        noisy, clean: number of images of each person whose label is wrong, and right.
        noisy_dropped, clean_dropped: numbers of these images that each rule drops.
    """

    noisy: Int64[np.ndarray, " people"]
    clean: Int64[np.ndarray, " people"]
    noisy_dropped: Int64[np.ndarray, "rules people"]
    clean_dropped: Int64[np.ndarray, "rules people"]


def cell_counts(noisy: NoisySet, cell: Cell, open_share: float, rules: Sequence[tuple[Finder, Rule]]) -> CellCounts:
    """Put the noise of a cell into a set, and count what every rule drops.

    Open-set noise replaces an image by one of a person outside the set, drawn without replacement.
    """
    noise = draw_noise(noisy.names, noisy.identities, cell.rate, open_share, cell.seed)
    labels = coded(noise.identities).codes
    rows = noisy.rows
    if noise.outside.any():
        random = numpy_generator(np.random.SeedSequence((cell.seed, _OUTSIDE)).generate_state(1)[0].item())
        rows = rows.copy()
        rows[noise.outside] = noisy.outside[random.permutation(len(noisy.outside))[: noise.outside.sum()]]

    def by_person(images: np.ndarray) -> Int64[np.ndarray, " people"]:
        return np.bincount(labels[images], minlength=noisy.people)

    found: dict[Finder, SubClasses] = {}
    dropped = []
    for finder, rule in rules:
        if finder not in found:
            found[finder] = finder.sub_classes(rows, labels, noisy.people)
        dropped.append(rule.reasons(found[finder]) != Reason.KEPT)
    return CellCounts(
        by_person(noise.wrong),
        by_person(~noise.wrong),
        np.stack([by_person(rows_dropped & noise.wrong) for rows_dropped in dropped]),
        np.stack([by_person(rows_dropped & ~noise.wrong) for rows_dropped in dropped]),
    )


def write_counts(path: Path, counts: CellCounts) -> None:
    """Write the counts of a cell completely, or not at all."""
    write_whole(path, lambda partial: np.savez(partial, **vars(counts)))


def read_counts(path: Path, rules: int, people: int) -> CellCounts:
    """The counts of a cell that `write_counts` wrote.

    Raises:
        ValueError: the file holds something else.
    """
    shapes: dict[str, tuple[int, ...]] = {"noisy": (people,), "clean": (people,)}
    shapes |= {"noisy_dropped": (rules, people), "clean_dropped": (rules, people)}
    arrays = read_npz(path, tuple(shapes))
    if any(name not in arrays or arrays[name].shape != shape for name, shape in shapes.items()):
        raise ValueError(f"{path}: not the counts of this cell; was it changed? Remove it, and it is computed again")
    return CellCounts(**{name: arrays[name].astype(np.int64) for name in shapes})
