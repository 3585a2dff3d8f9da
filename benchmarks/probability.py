"""What log-likelihood ratios that were fitted on some people of LFW cost on others.

    python benchmarks/probability.py [--data FOLDER]

In each of some random orders of LFW's people the first 300, or 1,000, are calibrated on, and the last 1,500 measured:
every genuine pair with the weight that lets each person count once, and all pairs of one random image of each person.
A few minutes on one core.
"""

import argparse
from pathlib import Path

import numpy as np

import verisphere
from verisphere.decide.probability import WeighedScores

DATA = Path(__file__).parents[2] / "shared" / "data"
ORDERS, MEASURED = 6, 1500


def weighed(units: np.ndarray, person: np.ndarray, seed: int) -> WeighedScores:
    """The scores of a set, not counted in bins."""
    left, right = np.triu_indices(len(person), 1)
    same = person[left] == person[right]
    genuine = np.einsum("ij,ij->i", units[left[same]], units[right[same]])
    weights = 1 / np.bincount(person[left[same]])[person[left[same]]]
    order = np.random.default_rng(seed).permutation(len(person))
    single = units[order[np.unique(person[order], return_index=True)[1]]]
    impostor = (single @ single.T)[np.triu_indices(len(single), 1)]
    scores = np.concatenate([genuine, impostor])
    kinds = np.zeros((2, len(scores)))
    kinds[0, : len(genuine)], kinds[1, len(genuine) :] = weights / weights.sum(), 1 / len(impostor)
    order = np.argsort(scores)
    return WeighedScores(scores[order], *kinds[:, order])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of lfw_embeddings.npz")
    with np.load(parser.parse_args().data / "lfw_embeddings.npz") as rows:
        embeddings, person = rows["embeddings"], np.unique(rows["identities"], return_inverse=True)[1]
    units = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    found: dict[int, list[tuple[float, float]]] = {300: [], 1000: []}
    for seed in range(ORDERS):
        order = np.random.default_rng(seed).permutation(person.max() + 1)
        last = np.isin(person, order[-MEASURED:])
        others = weighed(units[last], person[last], seed)
        for people, costs in found.items():
            first = np.isin(person, order[:people])
            options = {"far": "1e-1", "guarantee": "expected", "probability": True, "replicates": 20}
            line = verisphere.calibrate(embeddings[first], person[first], **options).probability
            costs.append((others.cllr(line.ratios(others.scores)), others.min_cllr()))
            print(f"order {seed}, {people} people: {line.meaning()}; on others {costs[-1][0]:.4f}, {costs[-1][1]:.4f}")
    for people, costs in found.items():
        mean, least = np.mean(costs, axis=0)
        print(f"{people:,} people: Cllr on others {mean:.4f} on average, least {least:.4f}")


if __name__ == "__main__":
    main()
