"""The figures of any evaluation by name, and their mean and spread over sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev, stdev
from typing import Any

Figures = dict[str, float]


@dataclass(frozen=True)
class OverSets:
    """A figure over several sets, which have equal weight, by a name such as `TAR at FAR 1e-3`.

    The standard deviation is divided by the number of sets, that of a sample by the number - 1; None with one set.
    """

    figure: str
    mean: float
    std_population: float
    std_sample: float | None
    sets: tuple[str, ...]


def figures_of(fields: Mapping[str, Any]) -> Figures:
    """The figures in the fields of a result, by names that all kinds of evaluation share.

    A TAR or TPIR that too few comparisons can show (`below_resolution`) has no entry.
    """
    figures: Figures = {}
    if (accuracy := fields.get("accuracy")) is not None:
        figures |= {"accuracy": accuracy.mean, "standard deviation": accuracy.std}
    for domain, accuracy in (fields.get("domain_accuracy") or {}).items():
        figures[f"{domain}: accuracy"] = accuracy.mean
    for point in fields.get("operating_points") or ():
        if not point.below_resolution:
            figures[f"TAR at FAR {point.far_target}"] = point.tar
            figures[f"FAR at FAR {point.far_target}"] = point.far
            figures[f"threshold at FAR {point.far_target}"] = point.threshold
    for common in fields.get("one_threshold") or ():
        for name, domain in common["domains"].items():
            figures[f"{name} at the one threshold: TAR at FAR {common['far_target']}"] = domain["tar"]
            figures[f"{name} at the one threshold: FAR at FAR {common['far_target']}"] = domain["far"]
            if not domain["below_resolution"]:
                figures[f"{name} at its own threshold: TAR at FAR {common['far_target']}"] = domain["tar_own"]
    return figures | _searched(fields.get("identification") or fields)


def _searched(fields: Mapping[str, Any]) -> Figures:
    """Ranks and TPIR: the mean over galleries, or those of a single gallery; without galleries, those of the result."""
    galleries = fields.get("galleries") or {}
    only = next(iter(galleries.values())) if len(galleries) == 1 else None
    ranks = fields.get("mean_ranks") or (only.ranks if only is not None else fields.get("ranks") or ())
    points = fields.get("mean_points") or (
        only.operating_points if only is not None else fields.get("identification_points") or ()
    )
    coarse = {
        point.fpir_target
        for gallery in galleries.values()
        for point in gallery.operating_points
        if point.below_resolution
    }
    return {f"rank {rank.rank}": rank.rate for rank in ranks} | {
        f"TPIR at FPIR {point.fpir_target}": point.tpir for point in points if point.fpir_target not in coarse
    }


def over_sets(figures: Mapping[str, Figures]) -> tuple[OverSets, ...]:
    """Mean and spread of accuracy and of TAR at each FAR, over the sets that have them.

    >>> over_sets({"a": {"accuracy": 0.5}, "b": {"accuracy": 1.0}})
    (OverSets(figure='accuracy', mean=0.75, std_population=0.25, std_sample=0.3535533905932738, sets=('a', 'b')),)
    """
    names = dict.fromkeys(name for of_set in figures.values() for name in of_set)
    averaged = [name for name in names if name == "accuracy" or name.startswith("TAR at FAR ")]
    results = []
    for name in averaged:
        sets = tuple(title for title, of_set in figures.items() if name in of_set)
        values: Sequence[float] = [figures[title][name] for title in sets]
        sample = stdev(values) if len(values) > 1 else None
        results.append(OverSets(name, fmean(values), pstdev(values), sample, sets))
    return tuple(results)
