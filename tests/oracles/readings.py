"""What others call TAR at a FAR: seven readings in use, each with what it accepts, to be set beside ours.

The figures in docs/lab/oracles.md are counted by test_readings.py from these.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from sklearn.metrics import roc_curve
from torchmetrics.functional.classification import binary_sensitivity_at_specificity

from .cases import Case


class Reading(NamedTuple):
    """TAR, and the FAR it comes with; None where the reading gives no such number."""

    tar: float
    far: float | None


def by_curve(case: Case, drop_intermediate: bool) -> tuple[np.ndarray, np.ndarray]:
    """FAR and TAR of scikit-learn's curve."""
    return _curve(tuple(case.genuine), tuple(case.impostor), drop_intermediate)


@cache
def _curve(
    genuine: tuple[float, ...], impostor: tuple[float, ...], drop_intermediate: bool
) -> tuple[np.ndarray, np.ndarray]:
    labels = np.repeat([1, 0], [len(genuine), len(impostor)])
    far, tar, _ = roc_curve(labels, genuine + impostor, drop_intermediate=drop_intermediate)
    return far, tar


def last_not_above(case: Case, target: str, drop_intermediate: bool) -> Reading:
    """The last point of the curve whose FAR is not above the target."""
    far, tar = by_curve(case, drop_intermediate)
    at = np.searchsorted(far, float(target), side="right") - 1
    return Reading(tar[at], far[at])


def on_the_curve(case: Case, target: str) -> Reading:
    """TAR on the straight line between the points of the curve."""
    far, tar = by_curve(case, drop_intermediate=False)
    return Reading(float(np.interp(float(target), far, tar)), None)


def nearest_point(case: Case, target: str) -> Reading:
    """The point of the curve (with its points on straight lines left out) whose FAR is nearest, from the far end."""
    far, tar = (rates[::-1] for rates in by_curve(case, drop_intermediate=True))
    at = np.abs(far - float(target)).argmin()
    return Reading(tar[at], far[at])


def at_specificity(case: Case, target: str) -> Reading:
    """torchmetrics' sensitivity at the specificity 1 - f."""
    scores = np.array(case.genuine + case.impostor)
    distinct, places = np.unique(scores, return_inverse=True)
    labels = torch.from_numpy(np.repeat([1, 0], [len(case.genuine), len(case.impostor)]))
    cosines = torch.from_numpy(places / len(distinct))  # in [0, 1], where it takes scores as they are
    tar, threshold = binary_sensitivity_at_specificity(cosines, labels, min_specificity=1 - float(target))
    far = (cosines[labels == 0] >= threshold).double().mean()
    return Reading(tar.item(), far.item())


def strictly_above(case: Case, threshold: float) -> Reading:
    return Reading(float(np.mean(np.array(case.genuine) > threshold)), float(np.mean(case.impostor > threshold)))


def entry_of_the_sorted(case: Case, target: str) -> Reading:
    """score > the impostor score with index int(f * n), in floating point, counted from the highest."""
    descending = np.sort(case.impostor)[::-1]
    return strictly_above(case, descending[min(int(float(target) * len(descending)), len(descending) - 1)])


def quantile(case: Case, target: str) -> Reading:
    """score > the (1 - f)-quantile of the impostor scores, as numpy interpolates it."""
    return strictly_above(case, np.quantile(case.impostor, 1 - float(target)))


#: By the words of docs/lab/oracles.md. The remaining one there, bob.measure, is read from its answers.
READINGS: dict[str, Callable[[Case, str], Reading]] = {
    "scikit-learn `roc_curve(drop_intermediate=False)`, last point with FAR <= f": lambda case, target: last_not_above(
        case, target, drop_intermediate=False
    ),
    "the same with `roc_curve`'s default, `drop_intermediate=True`": lambda case, target: last_not_above(
        case, target, drop_intermediate=True
    ),
    "`numpy.interp(f, far, tar)` on the full curve": on_the_curve,
    "point of `roc_curve`'s default with the nearest FAR": nearest_point,
    "torchmetrics `binary_sensitivity_at_specificity(min_specificity=1 - f)`": at_specificity,
    "score > `sorted(impostors)[int(f * n)]`, from the highest": entry_of_the_sorted,
    "score > `numpy.quantile(impostors, 1 - f)`": quantile,
}
