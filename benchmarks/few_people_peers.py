"""Thresholds by MAPIE and crepes, as their users would choose them from scores of pairs; where they are installed.

Both take their data as independent draws. Given comparisons that share no person, they are; given all pairs of some
people, they are not. MAPIE's `BinaryClassificationController` claims that the FPR is at most the target with a stated
confidence (Learn then Test): by Bonferroni and Holm, its default, or by a fixed sequence from the highest threshold
down. crepes claims that a new impostor's p-value is at most the target with this chance, on average over calibrations.
"""

import importlib.util
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np

GRID = 40  # thresholds among which a peer chooses, from twice the target to none accepted
Chosen = Callable[[np.ndarray, float], float]


def peers() -> dict[str, Chosen]:
    """The peers that are installed, by what they claim."""
    found: dict[str, Chosen] = {}
    if importlib.util.find_spec("mapie"):
        found["MAPIE, FPR with 95 % confidence"] = by_mapie
        found["MAPIE, the same, fixed sequence"] = partial(by_mapie, method="fixed_sequence")
    if importlib.util.find_spec("crepes"):
        found["crepes, p-value, on average"] = by_crepes
    return found


def grid(scores: np.ndarray, far: float) -> np.ndarray:
    """Thresholds from above all scores to where twice the target is accepted, descending."""
    ordered = np.sort(scores)[::-1]
    ranks = np.unique(np.linspace(1, max(2 * far * len(scores), 2), GRID).astype(int)) - 1
    return np.unique(np.append(ordered[ranks], ordered[0] + 1e-6))[::-1]


def by_mapie(scores: np.ndarray, far: float, method: str = "bonferroni_holm") -> float:
    """The lowest threshold that MAPIE holds valid; infinite where it holds none, of which it warns."""
    from mapie.risk_control import BinaryClassificationController

    candidates = grid(scores, far)
    # Steps in place of scores, so that no rounding moves one across a threshold: MAPIE accepts at its own, too.
    steps = np.searchsorted(candidates[::-1], scores, side="left") / (len(candidates) + 1)
    between = (np.arange(len(candidates), 0, -1) - 0.5) / (len(candidates) + 1)
    controller = BinaryClassificationController(
        predict_function=lambda column: np.stack([1 - column[:, 0], column[:, 0]], 1),
        risk="fpr",
        target_level=far,
        confidence_level=0.95,
        list_predict_params=between,
        fwer_method=method,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        controller.calibrate(steps[:, None], np.zeros(len(scores), int))
    valid = np.isin(between, np.asarray(controller.valid_predict_params, dtype=float))
    return float(candidates[valid].min()) if valid.any() else np.inf


def by_crepes(scores: np.ndarray, far: float) -> float:
    """The lowest score whose p-value, not smoothed, is at most the target; infinite where none is."""
    from crepes import ConformalClassifier

    candidates = grid(scores, far)
    fitted = ConformalClassifier()
    fitted.fit(alphas=scores, seed=0)
    p_values = np.asarray(fitted.predict_p(np.nextafter(candidates, np.inf)[:, None], smoothing=False, seed=0))[:, 0]
    passing = candidates[p_values <= far]
    return float(passing.min()) if len(passing) else np.inf
