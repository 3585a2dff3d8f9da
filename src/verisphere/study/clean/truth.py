"""How well a rule that drops images finds wrong labels, where the true ones are known."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from verisphere.base.identity import decided, names_taken, spellings
from verisphere.base.words import Names
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.label_lists import read_labels
from verisphere.images.packs.columns import coded


@dataclass(frozen=True)
class NoiseDropped:
    """Dropped samples compared with noisy ones."""

    noisy: int
    clean: int
    noisy_dropped: int
    clean_dropped: int

    @property
    def dropped(self) -> int:
        """Number of dropped samples."""
        return self.noisy_dropped + self.clean_dropped

    @property
    def precision(self) -> float:
        """Share of the dropped samples that are noisy; NaN where none was dropped."""
        return self.noisy_dropped / self.dropped if self.dropped else float("nan")

    @property
    def recall(self) -> float:
        """Share of the noisy samples that were dropped; NaN where none is noisy."""
        return self.noisy_dropped / self.noisy if self.noisy else float("nan")

    @property
    def noise_before(self) -> float:
        """Share of all samples that are noisy."""
        return self.noisy / (self.noisy + self.clean)

    @property
    def noise_after(self) -> float:
        """Share of the kept samples that are noisy; NaN where none was kept."""
        left = self.noisy - self.noisy_dropped
        kept = left + self.clean - self.clean_dropped
        return left / kept if kept else float("nan")


def agreement(dropped: Bool[np.ndarray, " samples"], noisy: Bool[np.ndarray, " samples"]) -> NoiseDropped:
    """Count the dropped samples with a wrong and with a right label.

    >>> found = agreement(np.array([True, True, False, False]), np.array([True, False, True, False]))
    >>> found.precision, found.recall, found.noise_after
    (0.5, 0.5, 0.5)
    """
    counts = (noisy, ~noisy, dropped & noisy, dropped & ~noisy)
    return NoiseDropped(*(int(rows.sum()) for rows in counts))


def noisy_labels(identities: Sequence[str], true_identities: Sequence[str]) -> Bool[np.ndarray, " samples"]:
    """Whether the identity of each sample differs from the true one."""
    return np.array([given != true for given, true in zip(identities, true_identities, strict=True)], bool)


def truth_of_list(path: Path, names: Sequence[str], identities: Sequence[str], how: Names | None) -> list[str]:
    """The true identities of some images, from a list of labels that states them; the list may have further images.

    They are spelled as the given identities, whose set took names by the rule `how`.
    """
    with names_taken(decided(how)):
        labels = read_labels(path)
    if labels.true_identities is None:
        raise ValueError(f"{path}: no column true_identity; `verisphere clean noise` writes such lists")
    truth = dict(zip(labels.names, labels.true_identities, strict=True))
    absent = [name for name in names if name not in truth]
    if absent:
        raise ValueError(
            f"{path}: {len(absent):,} of {len(names):,} images are not in the list, the first is "
            f"{shown(absent[0], 200)}; names there look like {shown(labels.names[0], 200)}"
        )
    given, true = coded(identities).present(), tuple(dict.fromkeys(truth[name] for name in names))
    with errors_naming(path):
        where = ("in the set",) * len(given) + ("a true identity",) * len(true)
        new = spellings((*given, *true), (*given, *true), where.__getitem__, decided(how), (given, true))
    return [new.get(truth[name], truth[name]) for name in names]
