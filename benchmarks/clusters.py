"""Ours beside other ways of grouping faces, on LFW with corrected labels and on ORL, with two models.

Each method is tried at every parameter. Its best point is that of the highest B-cubed F. What it gives with a parameter
found on other people is measured too: the people are split in two halves at random, the parameter is the best for the
faces of one half, the figures are those of the other half's faces, both ways, for several splits.

`python benchmarks/clusters.py FOLDER` reads lfw_pretrained.npz, lfw_second.npz, orl_pretrained.npz and orl_second.npz
there, embeddings of both sets by the two public models of docs/adopt.md; it needs scikit-learn and infomap, and adds to
clusters.csv the methods that it lacks. Half an hour on one core.
"""

import csv
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from clusters_methods import FLOOR, METHODS, Faces, Labelled, thresholds

from verisphere.base.vocabulary import Embeddings
from verisphere.decide.purity import UNSURE, figures_of
from verisphere.files.embeddings import read_embeddings
from verisphere.ship.clusters.face_tree import FaceTree

ROWS = Path(__file__).with_name("clusters.csv")
NOISE = Path(__file__).parents[1] / "docs" / "lab" / "lfw_noise"
FIELDS = ("set", "labels", "model", "method", "point", "setting", "f", "lower", "upper", "precision", "recall",
          "mixed", "fewest_mixed", "most_mixed", "clusters", "impurity", "unsure", "pair_precision", "pair_recall",
          "other_pair_precision", "other_pair_recall",
          "difference", "difference_lower", "difference_upper")  # fmt: skip
SPLITS, REPLICATES, RECALL = 20, 400, 0.96
SETS = ("ORL", "as published"), ("LFW", "corrected"), ("LFW", "as published")
OURS = "verisphere"
PRICES = (0.0, 0.04, 0.08, 0.12, 0.16)  # beside 0.1, which is ours
WITH_RAW_LABELS = (OURS, "single link", "immich's rule")


def corrected(faces: Embeddings) -> Embeddings:
    """LFW without the images that were looked at and are wrong, and with the double names merged."""
    wrong = (NOISE / "confirmed.txt").read_text(encoding="utf-8").split()
    with (NOISE / "double_names.csv").open(newline="", encoding="utf-8") as file:
        names = {row["other"]: row["identity"] for row in csv.DictReader(file)}
    kept = np.flatnonzero(~np.isin(faces.names, wrong))
    identities = [names.get(name, name) for name in faces.identities[kept].tolist()]
    return Embeddings(faces.embeddings[kept], faces.names[kept], identities)


@dataclass(frozen=True, eq=False)
class Point:
    """A method at a parameter.

    Attributes:
        setting: the parameter in words.
        terms: sums of the faces' B-cubed precision and recall, for each person; means over orders.
        figures: all figures of the set, means over orders.
    """

    setting: str
    terms: np.ndarray
    figures: dict[str, float]


def face_terms(cluster: np.ndarray, person: np.ndarray) -> np.ndarray:
    """B-cubed precision and recall of each face."""
    alone = cluster == UNSURE
    cluster = np.where(alone, cluster.max() + 1 + alone.cumsum(), cluster)
    _, both, together = np.unique(np.stack([cluster, person], 1), axis=0, return_inverse=True, return_counts=True)
    shared = together[both.ravel()]
    return np.stack([shared / np.bincount(cluster)[cluster], shared / np.bincount(person)[person]], 1)


def point_of(setting: str, labels: Sequence[np.ndarray], person: np.ndarray) -> Point:
    """The figures of a method at a parameter."""
    terms, seen = [], []
    most = np.bincount(person).argmax()
    for cluster in labels:
        of_person = np.zeros((person.max() + 1, 2))
        np.add.at(of_person, person, face_terms(cluster, person))
        terms.append(of_person)
        figures, others = (figures_of(cluster[rows], person[rows]) for rows in (person >= 0, person != most))
        seen.append({
            "mixed": figures.mixed, "clusters": figures.clusters, "impurity": figures.impurity,
            "unsure": figures.unsure, "precision": figures.precision, "recall": figures.recall,
            "pair_precision": figures.pair_precision, "pair_recall": figures.pair_recall,
            "other_pair_precision": others.pair_precision, "other_pair_recall": others.pair_recall,
        })  # fmt: skip
    mean = {name: float(np.mean([one[name] for one in seen])) for name in seen[0]}
    mixed = [one["mixed"] for one in seen]
    return Point(setting, np.mean(terms, axis=0), {**mean, "fewest_mixed": min(mixed), "most_mixed": max(mixed)})


def rates(terms: np.ndarray, images: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """B-cubed F, precision and recall of the faces of people, each person with a weight, a row for each weighting."""
    precision, recall = np.moveaxis(weight @ terms, -1, 0) / (weight @ images)
    return np.stack([2 * precision * recall / (precision + recall), precision, recall], -1)


class Measured:
    """All methods on one set with one model."""

    def __init__(self, faces: Embeddings) -> None:
        self.person = np.unique(faces.identities, return_inverse=True)[1].ravel()
        self.images = np.bincount(self.person)
        people = len(self.images)
        random = np.random.default_rng(0)
        self.drawn = random.multinomial(people, np.full(people, 1 / people), REPLICATES).astype(float)
        halves = [random.permutation(people) < people // 2 for _ in range(SPLITS)]
        self.halves = np.array([side for half in halves for side in (half, ~half)], float)
        self.best_of_ours: np.ndarray | None = None

    def rows(self, found: Iterable[Labelled], ours: bool) -> Iterator[dict[str, str | float]]:
        """The best point, that found on other people and, of ours, the strictest with a recall of 0.96."""
        points = [point_of(setting, labels, self.person) for _, setting, labels in found]
        everybody = np.ones(len(self.images))
        whole = [rates(point.terms, self.images, everybody) for point in points]
        best = int(np.argmax([f for f, _, _ in whole]))
        drawn = rates(points[best].terms, self.images, self.drawn)[:, 0]
        lower, upper = np.quantile(drawn, (0.025, 0.975))
        row = {"point": "best", "setting": points[best].setting, "f": whole[best][0], "lower": lower, "upper": upper}
        if ours:
            self.best_of_ours = drawn, whole[best][0]
        if self.best_of_ours is not None:
            ends = np.quantile(self.best_of_ours[0] - drawn, (0.025, 0.975))
            difference = self.best_of_ours[1] - whole[best][0]
            row |= {"difference": difference, "difference_lower": ends[0], "difference_upper": ends[1]}
        yield row | points[best].figures
        chosen, other = (
            np.stack([rates(point.terms, self.images, side) for point in points])
            for side in (self.halves, 1 - self.halves)
        )
        picked = chosen[:, :, 0].argmax(0)
        f, precision, recall = other[picked, np.arange(len(picked))].mean(0)
        seen = {name: float(np.mean([points[one].figures[name] for one in picked])) for name in points[0].figures}
        settings = [points[one].setting for one in sorted(set(picked.tolist()))]
        setting = settings[0] if len(settings) == 1 else f"{settings[0]} to {settings[-1]}"
        yield {"point": "other people", "setting": setting, **seen, "f": f, "precision": precision, "recall": recall}
        if ours:
            strict = [number for number, (_, _, recall) in enumerate(whole) if recall >= RECALL]
            if strict:
                number = strict[-1]
                yield {
                    "point": f"recall {RECALL:g}",
                    "setting": points[number].setting,
                    "f": whole[number][0],
                    **points[number].figures,
                }


def ours_at(faces: Faces, setting: str) -> Iterator[Labelled]:
    """Ours at its best threshold, where its rows are known and further methods are compared with it."""
    threshold = float(setting.removeprefix("threshold "))
    yield threshold, setting, [FaceTree(faces.embeddings, threshold).cut(threshold).cluster]


def at_prices(faces: Embeddings) -> Iterator[tuple[str, Iterator[Labelled]]]:
    """Ours with other prices of a merge of small groups."""
    trees = list[FaceTree]()  # one, made for the first price that is measured

    def at(price: float) -> Iterator[Labelled]:
        if not trees:
            trees.append(FaceTree(faces, FLOOR))
        (tree,) = trees
        tree.tree = replace(tree.tree, price=price)
        for threshold in thresholds(0.36, 0.52):
            yield threshold, f"threshold {threshold:.2f}", [tree.cut(float(threshold)).cluster]

    for price in PRICES:
        yield f"price {price:g}", at(price)


def main() -> None:
    folder = Path(sys.argv[1])
    new = not ROWS.exists()
    with ROWS.open("a+", newline="", encoding="utf-8") as file:
        file.seek(0)
        rows = [row for row in csv.DictReader(file) if row["point"] == "best"]
        known = {(row["set"], row["labels"], row["model"], row["method"]): row["setting"] for row in rows}
        out = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if new:
            out.writeheader()

        def measure(title: str, found: Iterable[Labelled], about: dict[str, str], measured: Measured) -> None:
            if title == OURS or (*about.values(), title) not in known:
                for row in measured.rows(found, title == OURS):
                    if (*about.values(), title) not in known:
                        rounded = {key: one if isinstance(one, str) else f"{one:.5f}" for key, one in row.items()}
                        out.writerow(about | {"method": title} | rounded)
                        print(*about.values(), title, *list(rounded.values())[:7], flush=True)
                file.flush()

        sets = list[tuple[dict[str, str], Faces, Measured]]()
        for (name, labels), model in itertools.product(SETS, ("pretrained", "second")):
            embeddings = read_embeddings(folder / f"{name.lower()}_{model}.npz")
            faces = Faces(corrected(embeddings) if labels == "corrected" else embeddings)
            sets.append(({"set": name, "labels": labels, "model": model}, faces, Measured(faces.embeddings)))
        for title, method in METHODS.items():
            for about, faces, measured in sets:
                if about["set"] == "ORL" or about["labels"] == "corrected" or title in WITH_RAW_LABELS:
                    setting = known.get((*about.values(), title)) if title == OURS else None
                    found = method(faces) if setting is None else ours_at(faces, setting)
                    measure(title, found, about, measured)
        for about, faces, measured in sets:
            if about["labels"] == "corrected":
                for title, found in at_prices(faces.embeddings):
                    measure(title, found, about, measured)


if __name__ == "__main__":
    main()
