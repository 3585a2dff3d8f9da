"""MegaFace's figures of 3,530 probes among made-up distractors: ours, the product alone, and rank 1 by NumPy.

The probes are of 80 people, the rows have 512 numbers. What is timed begins with rows in memory and ends with every
mate's rank and the threshold at FAR 1e-6; the peer finds rank 1 alone, block by block in float32, as public scripts do,
which settles no tie and no threshold.

`python benchmarks/distractors.py [--rows N] [--rounds R]`
"""

import argparse

import numpy as np
import torch
from harness import compare

from verisphere.base.vocabulary import Embeddings
from verisphere.measure.protocols.distractors import score_distractors
from verisphere.score import unit_rows

PROBES, PEOPLE, SIZE, BLOCK = 3_530, 80, 512, 2_048


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    person = np.arange(PROBES) % PEOPLE
    rows = random.normal(size=(PEOPLE, SIZE))[person] + random.normal(size=(PROBES, SIZE)) * random.uniform(
        0.7, 2.5, (PROBES, 1)
    )  # clear and poor photos, so that some mates stand behind distractors
    probes = Embeddings(rows.astype(np.float32), identities=person)
    distractors = random.standard_normal((options.rows, SIZE), dtype=np.float32)
    left, right = unit_rows(probes.embeddings), unit_rows(distractors)
    blocks = range(0, options.rows, BLOCK)

    def ours(precision: str) -> None:
        score_distractors(
            probes, (distractors[start : start + 8192] for start in range(0, options.rows, 8192)), options.rows,
            ["1e-6"], precision,
        )  # fmt: skip

    def product() -> None:
        for start in blocks:
            torch.mm(left, right[start : start + BLOCK].T)

    def rank_1_by_numpy() -> None:
        shown, others = left.numpy(), right.numpy()
        best = np.full(PROBES, -1.0, np.float32)
        for start in blocks:
            np.maximum(best, (shown @ others[start : start + BLOCK].T).max(1), out=best)
        own = shown @ shown.T
        ((own > best[:, None]) & (person[:, None] == person)).sum()

    compare(
        "distractors",
        f"{PROBES:,} x {options.rows:,}, d = {SIZE}",
        {
            "ours": lambda: ours("float32"),
            "ours, bfloat16": lambda: ours("bfloat16"),
            "product alone": product,
            "rank 1 by NumPy": rank_1_by_numpy,
        },
        PROBES * options.rows,
        "pairs",
        options.rounds,
    )


if __name__ == "__main__":
    main()
