"""A linear map from the embeddings of an old model to those of a new one, fitted on photographs that both embedded.

With Y and X the unit rows of the two models less their means, S_y and S_x their covariances and C the cross-covariance,
an old row y becomes M (y - mean) at length 1, where

    M = (S_x + r t_x I)^-p  C  (S_y + r t_y I)^-p

and t is the mean eigenvalue of each covariance. p = 1/2 is the canonical ridge (Vinod 1976, "Canonical ridge and
econometrics of joint production"), p = 1 a ridge regression on both sides. Of `GRID` the pair is taken that separates
held-out people best. The columns of M are orthogonal to the mean of the new rows, so that these are compared as they
are and yet as if they were centred; of few people the means are uncertain and not subtracted. A row weighs one over the
fourth root of its person's number of rows, lest a person with 500 photographs decide.
"""

from base64 import b64decode, b64encode
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from jaxtyping import Float32, Float64, Int64

from verisphere.score.pairs import unit_rows

#: Powers and ridges that are tried.
GRID = tuple(product((0.5, 0.6, 0.75, 0.9), (0.05, 0.1, 0.2, 0.4)))
#: The fewest people to fit on, and the most that are worth their time.
FEWEST_FITTED, MOST_FITTED = 50, 5_000
_FEWEST_CENTRED = 100  # people whose means are known well enough to be subtracted
_FOLDS = 5
_UNRELATED = 1.0  # separation below which the rows of the two models are not of the same photographs


@dataclass(frozen=True)
class LinearMap:
    """A map from the rows of an old model to those of a new one.

    Attributes:
        matrix, mean: M, and the mean of the old unit rows, as float64 with the lowest byte first, in base64.
        power, ridge: p and r.
        separation: the mean score of held-out people with themselves less that of two, in standard deviations of these.
    """

    matrix: str
    mean: str
    people: int
    power: float
    ridge: float
    separation: float

    def __post_init__(self) -> None:
        if not all(part.size and np.isfinite(part).all() for part in self._numbers):
            raise ValueError("its matrix or mean holds NaN, infinity or nothing")

    @cached_property
    def _numbers(self) -> tuple[Float64[np.ndarray, "new old"], Float64[np.ndarray, " means"]]:
        matrix, mean = (np.frombuffer(b64decode(text, validate=True), "<f8") for text in (self.matrix, self.mean))
        return matrix.reshape(-1, max(len(mean), 1)), mean

    def apply(self, rows: Float32[np.ndarray, "rows old"]) -> Float32[np.ndarray, "rows new"]:
        """Rows of the old model as unit rows of the new one; rows of another length are a ValueError."""
        matrix, mean = self._numbers
        if rows.ndim != 2 or rows.shape[1] != len(mean):
            raise ValueError(f"rows of shape {rows.shape}; the bridge takes {len(mean)} numbers a row")
        moved = (unit_rows(rows).numpy().astype(np.float64) - mean) @ matrix.T
        return unit_rows(moved.astype(np.float32)).numpy()


def fit_map(
    old: Float32[np.ndarray, "rows old"], new: Float32[np.ndarray, "rows new"], person: Int64[np.ndarray, " rows"]
) -> LinearMap:
    """The map that separates held-out people best, from embeddings of the same photographs; equal input, equal map."""
    person = np.unique(person, return_inverse=True)[1]
    people = int(person.max(initial=-1)) + 1
    if people < FEWEST_FITTED:
        raise ValueError(f"a map is fitted on at least {FEWEST_FITTED} people, got {people}")
    y, x = (unit_rows(rows).numpy().astype(np.float64) for rows in (old, new))
    separations = np.zeros(len(GRID))
    for hidden in np.array_split(np.random.default_rng(0).permutation(people), _FOLDS):
        out = np.isin(person, hidden)
        mean, matrices = _maps(y[~out], x[~out], person[~out], people >= _FEWEST_CENTRED)
        probes = _means_of_people(x[out], person[out])
        for candidate, matrix in enumerate(matrices):
            rows = (y[out] - mean) @ matrix.T
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            scores = probes @ _means_of_people(rows, person[out]).T  # the mean score of each two people
            strangers = scores[~np.eye(len(scores), dtype=bool)]
            separations[candidate] += (scores.diagonal().mean() - strangers.mean()) / strangers.std() / _FOLDS
    best = int(separations.argmax())
    if separations[best] < _UNRELATED:
        raise ValueError(f"no map separates held-out people ({separations[best]:.2f}); do the names fit the rows?")
    mean, matrices = _maps(y, x, person, people >= _FEWEST_CENTRED)
    numbers, center = (b64encode(part.astype("<f8").tobytes()).decode() for part in (matrices[best], mean))
    return LinearMap(numbers, center, people, *GRID[best], float(separations[best]))


def _maps(
    y: Float64[np.ndarray, "rows old"], x: Float64[np.ndarray, "rows new"], person: np.ndarray, centred: bool
) -> tuple[Float64[np.ndarray, " old"], list[Float64[np.ndarray, "new old"]]]:
    """The mean of the old rows, and M for each candidate of `GRID`."""
    weight = np.bincount(person)[person] ** -0.25
    weight /= weight.sum()
    mean, new_mean = centred * (weight @ y), centred * (weight @ x)
    y, x = y - mean, x - new_mean
    cross, along = (x * weight[:, None]).T @ y, new_mean / (np.linalg.norm(new_mean) or 1.0)
    spectra = [np.linalg.eigh((rows * weight[:, None]).T @ rows) for rows in (x, y)]
    matrices = []
    for power, ridge in GRID:
        left, right = ((axes * (values + ridge * values.mean()) ** -power) @ axes.T for values, axes in spectra)
        matrix = left @ cross @ right
        matrices.append(matrix - np.outer(along, along @ matrix))
    return mean, matrices


def _means_of_people(
    rows: Float64[np.ndarray, "rows dim"], person: Int64[np.ndarray, " rows"]
) -> Float64[np.ndarray, "people dim"]:
    _, place, images = np.unique(person, return_inverse=True, return_counts=True)
    sums = np.zeros((len(images), rows.shape[1]))
    np.add.at(sums, place, rows)
    return sums / images[:, None]
