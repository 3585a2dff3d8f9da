"""How well, and how surely, a bridge carries the rows of one model over to another (docs/bridge.md).

`python benchmarks/bridge.py OLD.npz NEW.npz` takes embeddings of one set by two models, writes bridge.csv beside this
file, the source of the tables in docs/bridge.md, and takes half an hour on one core. Seeds are fixed.

Two halves of the people are drawn: maps are fitted on some of the first half and tested on the second, each person
alike: a genuine rate is a mean over people, a false accept rate is over one photograph of each. No photograph is on
both sides of a comparison. `image pairs` takes the threshold over all impostor pairs of photographs instead.
"""

import argparse
import csv
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from verisphere.base.vocabulary import Embeddings
from verisphere.decide.sample_size import Guarantee, people_needed
from verisphere.files.embeddings import read_embeddings
from verisphere.score.bridge import FEWEST_FITTED, fit_map
from verisphere.ship.bridge import promised_map

ROWS = Path(__file__).with_name("bridge.csv")
FAR = 1e-3
PEOPLE = (50, 200, 500)
SPLITS, TRIALS, DRAWS = 20, 5, 500  # of all but the main methods the first splits only
OURS = "`verisphere bridge`"
TESTED = 1_000  # people by whom the FAR of a promised threshold is measured
Move = Callable[[np.ndarray], np.ndarray]
Fitted = tuple[Move, Move]  # what is done to old rows, and to new ones


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows at length 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def same(rows: np.ndarray) -> np.ndarray:
    """Rows as they are."""
    return rows


class Statistics:
    """Means, covariances and cross-covariance of the rows of two models, by weights of people."""

    def __init__(self, old: np.ndarray, new: np.ndarray, person: np.ndarray, power: float) -> None:
        weight = np.bincount(person)[person] ** -power
        weight = (weight / weight.sum())[:, None]
        self.old, self.new = (weight * old).sum(0), (weight * new).sum(0)
        y, x = old - self.old, new - self.new
        self.of_old, self.of_new, self.cross = (weight * y).T @ y, (weight * x).T @ x, (weight * x).T @ y

    def map(self, power: float, ridge: float) -> np.ndarray:
        """M of `verisphere.score.bridge`, before it is made orthogonal to the mean."""
        return raised(self.of_new, -power, ridge) @ self.cross @ raised(self.of_old, -power, ridge)


def raised(covariance: np.ndarray, power: float, ridge: float) -> np.ndarray:
    """A power of a covariance, with a ridge in its mean eigenvalue."""
    values, axes = np.linalg.eigh(covariance)
    return (axes * (np.maximum(values, 0) + ridge * values.mean()) ** power) @ axes.T


def nothing(old: np.ndarray, new: np.ndarray, person: np.ndarray, everybody: np.ndarray) -> Fitted:
    """The rows of both models as they are."""
    return same, same


def procrustes(old: np.ndarray, new: np.ndarray, person: np.ndarray, everybody: np.ndarray) -> Fitted:
    """The nearest rotation."""
    left, _, right = np.linalg.svd(new.T @ old)
    return lambda rows: rows @ (left @ right).T, same


def least_squares(ridge: float, squared: float = 0.0) -> Callable[..., Fitted]:
    """Ridge regression of new rows on old ones, on request with a quadratic kernel beside the linear one."""

    def fit(old: np.ndarray, new: np.ndarray, person: np.ndarray, everybody: np.ndarray) -> Fitted:
        kernel = lambda left, right: left @ right.T + squared * (left @ right.T) ** 2  # noqa: E731
        gram = kernel(old, old)
        shift = new.mean(0)
        coefficients = np.linalg.solve(gram + ridge * len(old) / old.shape[1] * np.eye(len(old)), new - shift)
        return lambda rows: kernel(rows, old) @ coefficients, lambda rows: rows - shift

    return fit


def canonical(ridge: float, power: float) -> Callable[..., Fitted]:
    """Both sides in canonical variates (power 1/2), each weighed by a power of its correlation."""

    def fit(old: np.ndarray, new: np.ndarray, person: np.ndarray, everybody: np.ndarray) -> Fitted:
        of = Statistics(old, new, person, 0.0)
        of.of_old, of.of_new = (rows.T @ rows / len(rows) for rows in (old, new))
        of.cross = new.T @ old / len(old)
        left, correlation, right = np.linalg.svd(of.map(0.5, ridge))
        weight = correlation ** (power / 2)
        whiten = raised(of.of_old, -0.5, ridge), raised(of.of_new, -0.5, ridge)
        return lambda rows: rows @ whiten[0] @ right.T * weight, lambda rows: rows @ whiten[1] @ left * weight

    return fit


def one_sided(
    weight: float, power: float, ridge: float, of_everybody: bool = False, spread: float = 0
) -> Callable[..., Fitted]:
    """M with this power and ridge; with the old covariance of everybody, or rows scaled by strangers' spread."""

    def fit(old: np.ndarray, new: np.ndarray, person: np.ndarray, everybody: np.ndarray) -> Fitted:
        of = Statistics(old, new, person, weight)
        if of_everybody:
            of.of_old = np.cov(everybody, rowvar=False)
        matrix = of.map(power, ridge)

        def move(rows: np.ndarray) -> np.ndarray:
            moved = (rows - of.old) @ matrix.T
            length = np.linalg.norm(moved, axis=1)
            deviation = np.sqrt(((moved @ of.of_new) * moved).sum(axis=1))
            return moved / (length ** (1 - spread) * deviation**spread)[:, None]

        return move, lambda rows: unit(rows - of.new)

    return fit


def ours(old: np.ndarray, new: np.ndarray, person: np.ndarray, everybody: np.ndarray) -> Fitted:
    """What the command fits."""
    found = fit_map(old.astype(np.float32), new.astype(np.float32), person)
    return lambda rows: found.apply(rows.astype(np.float32)), same


METHODS: dict[str, Callable[..., Fitted]] = {
    "no map": nothing,
    "rotation (Procrustes)": procrustes,
    "ridge regression, 0.3": least_squares(0.3),
    "ridge regression with a quadratic kernel, 0.3": least_squares(0.3, 0.5),
    "whitening, then rotation, 1": canonical(1.0, 0.0),
    "canonical variates on both sides, 1": canonical(1.0, 1.0),
    "power 1/2, ridge 0.1, rows alike": one_sided(0.0, 0.5, 0.1),
    "power 1/2, ridge 0.1, people alike": one_sided(1.0, 0.5, 0.1),
    "power 1/2, ridge 0.1": one_sided(0.25, 0.5, 0.1),
    "power 3/4, ridge 0.1": one_sided(0.25, 0.75, 0.1),
    "power 1, ridge 0.3": one_sided(0.25, 1.0, 0.3),
    "power 3/4, ridge 0.1, old covariance of everybody": one_sided(0.25, 0.75, 0.1, of_everybody=True),
    "power 3/4, ridge 0.1, rows scaled by strangers' spread": one_sided(0.25, 0.75, 0.1, spread=0.5),
    OURS: ours,
}


MAIN = ("rotation (Procrustes)", "canonical variates on both sides, 1", OURS)


class Faces:
    """Unit rows of one set by two models, and its people."""

    def __init__(self, old: Embeddings, new: Embeddings) -> None:
        self.sides = old, new
        self.old, self.new = (unit(side.embeddings.astype(np.float64)) for side in (old, new))
        self.names, self.person = np.unique(old.identities, return_inverse=True)

    def rows(self, people: np.ndarray) -> np.ndarray:
        """The rows of some people."""
        return np.flatnonzero(np.isin(self.person, people))


def tar(
    probes: np.ndarray, enrolled: np.ndarray, person: np.ndarray, by_images: bool, random: np.random.Generator
) -> float:
    """The mean over people of the share of their pairs of two photographs that pass at the FAR."""
    shown, stored = (torch.from_numpy(np.ascontiguousarray(rows, np.float32)) for rows in (probes, enrolled))
    if by_images:
        chosen = np.arange(len(person))
    else:
        order = random.permutation(len(person))
        chosen = order[np.unique(person[order], return_index=True)[1]]
    of, total, low, kept = torch.from_numpy(person[chosen]), 0, -2.0, []
    for part in torch.from_numpy(chosen).split(1024):
        scores = shown[part] @ stored[chosen].T
        own = torch.from_numpy(person[part.numpy()])[:, None] == of
        scores[own] = -2.0
        if not kept:  # far below the threshold that is sought; topk, not sort
            low = float(scores[:256].flatten().topk(int(8 * FAR * 256 * len(chosen))).values[-1])
        total += scores.numel() - int(own.sum())
        kept.append(scores[scores > low])
    threshold = torch.cat(kept).topk(int(FAR * total) + 1).values[-1].item()
    shares = []
    for rows in np.split(np.argsort(person, kind="stable"), np.cumsum(np.bincount(person))[:-1]):
        if len(rows) > 1:
            passed = (shown[rows] @ stored[rows].T > threshold).numpy()
            shares.append((passed.sum() - passed.diagonal().sum()) / (len(rows) * (len(rows) - 1)))
    return float(np.mean(shares))


def rank_1(probes: np.ndarray, enrolled: np.ndarray, person: np.ndarray, random: np.random.Generator) -> float:
    """The share of people with two photographs whose second is nearest to their first among one row of everybody."""
    order = random.permutation(len(person))
    first = np.unique(person[order], return_index=True)[1]
    gallery, rest = order[first], np.delete(order, first)
    shown = rest[np.unique(person[rest], return_index=True)[1]]
    return float((person[gallery][(probes[shown] @ enrolled[gallery].T).argmax(1)] == person[shown]).mean())


def translated(faces: Faces) -> Iterator[tuple[str, str, int | str, str, list[float]]]:
    """TAR of each method by the number of people, over splits."""
    found: dict[tuple[str, int | str, str], list[float]] = {}
    for split in range(SPLITS):
        order = np.random.default_rng(split).permutation(len(faces.names))
        tested = faces.rows(order[len(order) // 2 :])
        person = np.unique(faces.person[tested], return_inverse=True)[1]
        old, new = faces.old[tested], faces.new[tested]
        cases: list[tuple[str, int | str, np.ndarray, np.ndarray, bool]] = []
        cases += [("old against old", "", old, old, True), ("new against new", "", new, new, True)]
        for people in PEOPLE:
            rows = faces.rows(order[:people])
            number = np.unique(faces.person[rows], return_inverse=True)[1]
            everybody = faces.old[faces.rows(order[: len(order) // 2])]
            for name in METHODS if split < TRIALS else MAIN:
                method = METHODS[name]
                of_old, of_new = method(faces.old[rows], faces.new[rows], number, everybody)
                enrolled, probes = of_old(old), unit(of_new(new))
                cases.append((name, people, probes, enrolled if "scaled" in name else unit(enrolled), name == OURS))
                if name == OURS:
                    value = rank_1(probes, enrolled, person, np.random.default_rng(split))
                    found.setdefault(("first of a gallery, " + name, people, "rank 1"), []).append(value)
        for name, fitted, probes, enrolled, by_images in cases:
            for kind in ("people", "image pairs")[: 1 + by_images]:
                value = tar(probes, enrolled, person, kind == "image pairs", np.random.default_rng(split))
                found.setdefault((name, fitted, kind), []).append(value)
        means = {key[1]: f"{np.mean(values):.4f}" for key, values in found.items() if key[0] == OURS}
        print(split, means, flush=True)
    yield from (("tar", *about, values) for about, values in found.items())


def covered(faces: Faces) -> Iterator[tuple[str, str, int | str, str, list[float]]]:
    """The FAR of promised thresholds on everybody else, in the target FAR."""
    old, new = faces.sides
    cases: tuple[tuple[str, Guarantee], ...] = (("1e-1", "confident"), ("1e-2", "confident"))
    for far, guarantee in cases:
        people = people_needed(far, guarantee) + FEWEST_FITTED
        ratios = []
        for draw in range(DRAWS):
            order = np.random.default_rng([people, draw]).permutation(len(faces.names))
            rows, rest = faces.rows(order[:people]), faces.rows(order[people : people + TESTED])
            found, promise = promised_map(old.take(rows), new.take(rows), far, guarantee, draw)
            shuffled = np.random.default_rng(draw).permutation(rest)
            one = shuffled[np.unique(faces.person[shuffled], return_index=True)[1]]
            enrolled = torch.from_numpy(found.apply(old.embeddings[one]))
            passed = torch.from_numpy(faces.new[one].astype(np.float32)) @ enrolled.T > promise.threshold
            accepted = int(passed.sum()) - int(passed.diagonal().sum())
            ratios.append(accepted / (len(one) * (len(one) - 1)) / float(far))
        print(far, guarantee, people, np.mean(np.array(ratios) <= 1), np.mean(ratios), flush=True)
        yield "promise", f"{guarantee} at FAR {far}", people, "FAR / target", ratios
        yield "promise", f"{guarantee} at FAR {far}", people, "held", [float(ratio <= 1) for ratio in ratios]


def main() -> None:
    """Write bridge.csv."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    faces = Faces(read_embeddings(options.old), read_embeddings(options.new))
    with ROWS.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["part", "method", "people", "figure", "mean", "deviation", "least", "most", "runs"])
        for part in (translated, covered):
            for *about, values in part(faces):
                figures = np.mean(values), np.std(values, ddof=1), min(values), max(values)
                rows.writerow([*about, *(f"{figure:.4g}" for figure in figures), len(values)])
            file.flush()


if __name__ == "__main__":
    main()
