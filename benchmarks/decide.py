"""TAR at six FARs: from ten million scores in memory, and over all pairs of a set."""

import numpy as np
import torch
from harness import compare
from sklearn.metrics import roc_curve

from verisphere import Embeddings, operating_point
from verisphere.decide import SortedScores
from verisphere.measure.protocols.all_pairs import all_pairs

FARS = ("1e-1", "1e-2", "1e-3", "1e-4", "1e-5", "1e-6")


def at_fars(genuine: np.ndarray, impostor: np.ndarray) -> list[float]:
    first, second = SortedScores(genuine), SortedScores(impostor)
    return [operating_point(first, second, far).tar for far in FARS]


def by_sklearn(genuine: np.ndarray, impostor: np.ndarray) -> list[float]:
    labels = np.concatenate([np.ones(len(genuine)), np.zeros(len(impostor))])
    far, tar, _ = roc_curve(labels, np.concatenate([genuine, impostor]), drop_intermediate=False)
    return [tar[np.searchsorted(far, float(target), side="right") - 1] for target in FARS]


def gathered(embeddings: Embeddings) -> list[float]:
    """The usual way: every pair's rows gathered, scored, and handed to roc_curve."""
    unit = embeddings.embeddings / np.linalg.norm(embeddings.embeddings, axis=1, keepdims=True)
    left, right = np.triu_indices(len(unit), 1)
    score = np.concatenate(
        [(unit[left[i : i + 65536]] * unit[right[i : i + 65536]]).sum(1) for i in range(0, len(left), 65536)]
    )
    same = embeddings.identities[left] == embeddings.identities[right]
    return by_sklearn(score[same], score[~same])


def made_up(people: int, images: int, dim: int) -> Embeddings:
    random = np.random.default_rng(0)
    centers = np.repeat(random.normal(size=(people, dim)), images, 0)
    rows = (centers + random.normal(size=centers.shape)).astype(np.float32)
    names = np.array([f"{i:06d}" for i in range(len(rows))])
    return Embeddings(rows, names, np.repeat(names[:people], images))


def main() -> None:
    random = np.random.default_rng(0)
    genuine, impostor = random.normal(2, 1, 100_000), random.normal(0, 1, 10_000_000)
    for theirs, ours in zip(by_sklearn(genuine, impostor), at_fars(genuine, impostor), strict=True):
        assert abs(theirs - ours) < 1e-12
    compare(
        "decide",
        "six FARs, 10 million scores",
        {
            "verisphere": lambda: at_fars(genuine, impostor),
            "scikit-learn roc_curve": lambda: by_sklearn(genuine, impostor),
        },
        len(impostor),
        "scores",
        3,
    )
    small = made_up(500, 8, 128)
    compare(
        "decide",
        "all pairs of 4,000 x 128",
        {
            "verisphere": lambda: all_pairs(small, FARS),
            "numpy gather + roc_curve": lambda: gathered(small),
        },
        len(small) * (len(small) - 1) // 2,
        "pairs",
        3,
    )
    large = made_up(2_000, 8, 128)
    pairs = len(large) * (len(large) - 1) // 2
    compare("decide", "all pairs of 16,000 x 128", {"verisphere": lambda: all_pairs(large, FARS)}, pairs, "pairs", 3)
    double = torch.from_numpy(large.embeddings).double()
    compare(
        "decide", "all pairs of 16,000 x 128", {"float64 product alone": lambda: product(double)}, pairs, "pairs", 3
    )


def product(rows: torch.Tensor) -> None:
    for start in range(0, len(rows), 1024):
        for other in range(start, len(rows), 1024):
            rows[start : start + 1024] @ rows[other : other + 1024].T


if __name__ == "__main__":
    main()
