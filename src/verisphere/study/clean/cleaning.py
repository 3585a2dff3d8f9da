"""The result of cleaning: the dropped samples and the reasons, as text, JSON and a list that `train` reads."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import repeat
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int8, Int64

from verisphere.files.disk import write_whole
from verisphere.files.label_lists import LabelList, write_labels
from verisphere.files.results import to_json
from verisphere.images.packs.columns import take
from verisphere.report.tables import table
from verisphere.study.clean.rules import ANGLES, Reason, Rule, images_left
from verisphere.study.clean.sub_classes import SamplesInSubClasses
from verisphere.study.clean.truth import NoiseDropped, agreement, noisy_labels

KEPT, JSON = "kept.txt", "clean.json"
_AT_ONCE = 1 << 16  # samples


@dataclass(frozen=True)
class AtAngle:
    """The samples beyond one of the compared angles, in degrees, and the identities of which no sample remains."""

    angle: float
    dropped: int
    identities_lost: int
    agreement: NoiseDropped | None = None  # None if the truth is not known


@dataclass(frozen=True, eq=False)
class Cleaning:
    """A rule on samples in their sub-classes: the reason for which each was dropped, as a number of `Reason`."""

    found: SamplesInSubClasses
    rule: Rule
    reasons: Int8[np.ndarray, " samples"]

    @classmethod
    def by(cls, rule: Rule, found: SamplesInSubClasses) -> "Cleaning":
        """Apply a rule."""
        return cls(found, rule, rule.reasons(found.sub))

    @cached_property
    def kept(self) -> Bool[np.ndarray, " samples"]:
        """Whether each sample was kept."""
        return self.reasons == Reason.KEPT

    @cached_property
    def noisy(self) -> Bool[np.ndarray, " samples"] | None:
        """Whether the label of each sample is wrong; None if the truth is not known."""
        truth = self.found.true_identities
        return None if truth is None else noisy_labels(self.found.identities, truth)

    @property
    def counts(self) -> dict[str, int]:
        """Number of samples that were dropped for each reason, with zeros."""
        return {reason.word: int((self.reasons == reason).sum()) for reason in Reason if reason}

    @cached_property
    def images(self) -> Int64[np.ndarray, " classes"]:
        """Number of samples of each identity."""
        labels = self.found.sub.labels
        return np.bincount(labels[labels >= 0], minlength=len(self.found.people))

    @cached_property
    def is_lost(self) -> Bool[np.ndarray, " classes"]:
        """Whether each identity has samples, of which none remains."""
        return (self.images > 0) & (images_left(self.found.sub, self.reasons) == 0)

    @property
    def lost(self) -> list[str]:
        """Identities without a remaining sample."""
        return [self.found.people[place] for place in np.flatnonzero(self.is_lost).tolist()]

    @property
    def agreement(self) -> NoiseDropped | None:
        """Dropped samples compared with noisy ones; None if the truth is not known."""
        return None if self.noisy is None else agreement(~self.kept, self.noisy)

    @property
    def rank_1(self) -> dict[str, dict[str, float]] | None:
        """Share of the samples whose nearest class is their own: of all, and of the kept ones; see `NearestClass`."""
        nearest = self.found.nearest_class
        if nearest is None:
            return None
        known = self.found.sub.known
        return {"all": nearest.shares(known), "kept": nearest.shares(known & self.kept)}

    @property
    def empty(self) -> int:
        """Number of sub-centers of identities with samples that no sample is nearest to."""
        return int((self.found.sub.counts[self.images > 0] == 0).sum())

    def at_angles(self) -> tuple[AtAngle, ...]:
        """The samples that the angle alone would drop, for the angles of ArcFace's table 3."""
        results = []
        for angle in ANGLES:
            alone = Cleaning.by(Rule(angle), self.found)
            results.append(AtAngle(angle, int((~alone.kept).sum()), len(alone.lost), alone.agreement))
        return tuple(results)

    @cached_property
    def categories(self) -> dict[str, Bool[np.ndarray, " samples"]]:
        """The samples in dominant and in other sub-classes; the clean and the noisy ones where the truth is known."""
        dominant = self.found.sub.in_dominant
        groups = {"dominant": dominant, "non_dominant": self.found.sub.known & ~dominant}
        if self.noisy is None:
            return groups
        kinds = {"clean": ~self.noisy, "noisy": self.noisy}
        return {f"{name}_{kind}": rows & of_kind for name, rows in groups.items() for kind, of_kind in kinds.items()}

    def summary(self) -> dict[str, Any]:
        """All of `clean.json` except its samples."""
        per_class = self.found.sub.counts
        fields: dict[str, Any] = {
            "method": self.found.method,
            "rule": asdict(self.rule),
            "images": len(self.found),
            "identities": int((self.images > 0).sum()),
            "names_rule": self.found.names_rule,
            "images_kept": int(self.kept.sum()),
            "dropped": self.counts,
            "identities_lost": self.lost,
            "sub_centers": per_class.shape[1],
            "empty_sub_centers": self.empty,
            "sub_classes": {name: int(rows.sum()) for name, rows in self.categories.items()},
            "at_angles": [asdict(at) for at in self.at_angles()],
        }
        if (rank_1 := self.rank_1) is not None:
            fields["rank_1"] = rank_1
        if (found := self.agreement) is not None:
            fields["truth"] = asdict(found) | {
                name: getattr(found, name) for name in ("precision", "recall", "noise_before", "noise_after")
            }
        return fields

    def samples(self) -> Iterator[dict[str, Any]]:
        """Each sample as an entry of `clean.json`, in the order of the set."""
        found, words = self.found, [reason.word for reason in Reason]
        names, identities = iter(found.names), iter(found.identities)
        truth = repeat(None) if found.true_identities is None else iter(found.true_identities)
        for start in range(0, len(found), _AT_ONCE):  # samples that are converted to numbers of Python at a time
            part = slice(start, start + _AT_ONCE)
            columns = (found.sub.sub_center, found.sub.angle, found.sub.nearest, self.reasons)
            numbers = zip(*(column[part].tolist() for column in columns), strict=True)
            for (sub_center, angle, nearest, reason), name, identity, true in zip(
                numbers, names, identities, truth, strict=False
            ):
                entry: dict[str, Any] = {
                    "name": name,
                    "identity": identity,
                    "sub_center": sub_center,
                    "angle_deg": _rounded(angle),
                    "nearest_deg": _rounded(nearest),
                    "kept": reason == Reason.KEPT,
                    "reason": words[reason],
                }
                yield entry if true is None else entry | {"true_identity": true}

    def write(self, folder: Path) -> None:
        """Write `kept.txt` and `clean.json` into a folder, each completely or not at all."""
        rows = np.flatnonzero(self.kept)
        found = self.found
        kept = LabelList(
            take(found.names, rows),
            take(found.identities, rows),
            None if found.domains is None else take(found.domains, rows),
            None if found.true_identities is None else take(found.true_identities, rows),
        )
        write_labels(folder / KEPT, kept)
        write_whole(folder / JSON, self._write_json)

    def _write_json(self, path: Path) -> None:
        """The summary and a line for each sample, one after the other, so that millions are never held as text."""
        head = json.dumps(to_json(self.summary()), indent=2, ensure_ascii=False, allow_nan=False)
        with path.open("w", encoding="utf-8") as file:
            file.write(head.removesuffix("\n}") + ',\n  "samples": [')
            encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode  # one for all samples
            for place, sample in enumerate(self.samples()):
                file.write(f"{',' if place else ''}\n    {encode(sample)}")
            file.write("\n  ]\n}\n")

    def text(self) -> str:
        """The counts as text."""
        total, kept = len(self.found), int(self.kept.sum())
        lines = [
            f"{self.found.method}: {kept:,} of {total:,} images kept, {total - kept:,} dropped "
            f"({(total - kept) / total:.1%})"
        ]
        lines += [
            f"  {count:,} {because.format(rule=self.rule)}"
            for reason, because in _BECAUSE.items()
            if (count := self.counts[reason.word])
        ]
        lost = self.lost
        if lost:
            lines.append(f"  {len(lost):,} of {int((self.images > 0).sum()):,} identities lost, the first is {lost[0]}")
        lines.append(table(*_angles_table(self.at_angles())))
        if (rank_1 := self.rank_1) is not None:
            lines.append(
                "nearest class is the own one (all sub-centers / dominant ones alone): "
                + "; ".join(
                    f"{images} images {shares['all_sub_centers']:.4f} / {shares['dominant_only']:.4f}"
                    for images, shares in rank_1.items()
                )
            )
        if (found := self.agreement) is not None:
            lines.append(
                f"truth: {found.noisy:,} labels wrong ({found.noise_before:.1%}); precision {found.precision:.4f}, "
                f"recall {found.recall:.4f}; wrong labels among the kept images {found.noise_after:.2%}"
            )
        return "\n".join(lines)


def cleaned_data(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The `data` of a recipe, restricted to the `kept.txt` of a cleaning's folder."""
    inside = {"faces": dict(data), "path": str(folder / KEPT)}
    return {"class_path": "verisphere.images.Relabelled", "init_args": inside}


_BECAUSE = {
    Reason.ANGLE: "beyond {rule.angle:g} degrees",
    Reason.SUB_CENTER: "outside the dominant sub-class",
    Reason.FEW_IMAGES: "of identities with fewer than {rule.min_images} images left",
}


def _angles_table(at_angles: Sequence[AtAngle]) -> tuple[list[str], list[list[str]]]:
    header = ["angle", "dropped", "identities lost"]
    rows = [[f"{at.angle:g}", f"{at.dropped:,}", f"{at.identities_lost:,}"] for at in at_angles]
    if any(at.agreement is not None for at in at_angles):
        header += ["precision", "recall"]
        for row, at in zip(rows, at_angles, strict=True):
            assert at.agreement is not None
            row += [f"{at.agreement.precision:.4f}", f"{at.agreement.recall:.4f}"]
    return header, rows


def _rounded(angle: float) -> float | None:
    return None if isnan(angle) else round(angle, 3)
