"""Thresholds by MAPIE and crepes, as their users would choose them from scores of pairs; where they are installed.

Both take their data as independent draws. Given comparisons that share no person, they are; given all pairs of some
people, they are not. MAPIE's `BinaryClassificationController` claims that the FPR is at most the target with a stated
confidence (Learn then Test), crepes' p-value of "an impostor", that a new impostor has a p-value of at most the target
with this chance, on average over calibrations.
"""

import importlib.util
from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit

GRID = 40  # thresholds among which a peer chooses, from five times the target to none accepted
Chosen = Callable[[np.ndarray, float], float]


def peers() -> dict[str, Chosen]:
    """The peers that are installed, by what they claim."""
    found: dict[str, Chosen] = {}
    if importlib.util.find_spec("mapie"):
        found["MAPIE, FPR with 95 % confidence"] = by_mapie
    if importlib.util.find_spec("crepes"):
        found["crepes, p-value, on average"] = by_crepes
    return found


def grid(scores: np.ndarray, far: float) -> np.ndarray:
    """Thresholds from where five times the target is accepted to above all scores."""
    ordered = np.sort(scores)[::-1]
    ranks = np.unique(np.geomspace(1, max(5 * far * len(scores), 2), GRID).astype(int)) - 1
    return np.unique(np.append(ordered[ranks], ordered[0] + 1e-6))


def by_mapie(scores: np.ndarray, far: float) -> float:
    """The lowest threshold that MAPIE holds valid; infinite where it holds none."""
    from mapie.risk_control import BinaryClassificationController

    candidates = grid(scores, far)
    controller = BinaryClassificationController(
        predict_function=lambda column: np.stack([1 - expit(column[:, 0]), expit(column[:, 0])], 1),
        risk="fpr",
        target_level=far,
        confidence_level=0.95,
        list_predict_params=expit(np.nextafter(candidates, np.inf)),  # it accepts at the threshold, too
    )
    controller.calibrate(scores[:, None], np.zeros(len(scores), int))
    valid = np.asarray(controller.valid_predict_params, dtype=float)
    return float(logit(valid.min())) if len(valid) else np.inf


def by_crepes(scores: np.ndarray, far: float) -> float:
    """The lowest score whose p-value, not smoothed, is at most the target; infinite where none is."""
    from crepes import ConformalClassifier

    candidates = grid(scores, far)
    fitted = ConformalClassifier()
    fitted.fit(alphas=scores, seed=0)
    p_values = np.asarray(fitted.predict_p(np.nextafter(candidates, np.inf)[:, None], smoothing=False, seed=0))[:, 0]
    passing = candidates[p_values <= far]
    return float(passing.min()) if len(passing) else np.inf
