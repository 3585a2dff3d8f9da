"""One scan over LFW's 87 million pairs: the same integers by every way, and those of brute force on a part."""

from pathlib import Path

import numpy as np
import pytest

from verisphere.base.vocabulary import Embeddings, Precision
from verisphere.files.embeddings import read_embeddings
from verisphere.measure.protocols.all_pairs import PairsOfSet, all_pairs

FARS = [f"1e-{digit}" for digit in range(1, 9)]


def lfw(real_data: Path, rows: int | None = None, shuffled: bool = False) -> Embeddings:
    """LFW's embeddings with ten made-up domains, or as many of them, in the file's order or another."""
    whole = read_embeddings(real_data / "lfw_embeddings.npz")
    domains = np.array([f"d{number}" for number in (np.arange(len(whole)) * 7) % 10])
    order = np.random.default_rng(0).permutation(len(whole))
    order = order if shuffled else np.sort(order[:rows])
    return Embeddings(whole.embeddings[order], whole.names[order], whole.identities[order], domains[order])


@pytest.mark.slow
def test_all_of_it_by_every_screen_and_order_and_on_two_processes(real_data: Path):
    def found(precision: Precision | None = None, processes: int = 1, shuffled: bool = False):
        pairs = PairsOfSet(lfw(real_data, shuffled=shuffled), processes=processes, precision=precision)
        return all_pairs(pairs, FARS)

    first = found("float32")
    assert [point.impostor_accepted for point in first.operating_points] == [
        int(87_307_271 / 10**digit) for digit in range(1, 9)
    ]
    assert found("bfloat16") == first
    assert found(processes=2) == first
    assert found(shuffled=True) == first
