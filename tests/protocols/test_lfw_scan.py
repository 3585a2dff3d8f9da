"""One scan over LFW's 87 million pairs: the same integers by every way, and those of brute force on a part."""

from pathlib import Path

import numpy as np
import pytest

from verisphere.decide import operating_point
from verisphere.files.embeddings import read_embeddings
from verisphere.protocols import PairsOfSet, all_pairs
from verisphere.vocabulary import Embeddings, Precision

FARS = [f"1e-{digit}" for digit in range(1, 9)]


def lfw(real_data: Path, rows: int | None = None, shuffled: bool = False) -> Embeddings:
    """LFW's embeddings with ten made-up domains, or as many of them, in the file's order or another."""
    whole = read_embeddings(real_data / "lfw_embeddings.npz")
    domains = np.array([f"d{number}" for number in (np.arange(len(whole)) * 7) % 10])
    order = np.random.default_rng(0).permutation(len(whole))
    order = order if shuffled else np.sort(order[:rows])
    return Embeddings(whole.embeddings[order], whole.names[order], whole.identities[order], domains[order])


def test_fifteen_hundred_images_against_every_score(real_data: Path):
    embeddings = lfw(real_data, 1500)
    units = embeddings.embeddings.astype(np.float64)
    units = (units / np.linalg.norm(units, axis=1, keepdims=True)).astype(np.float32).astype(np.float64)
    left, right = np.triu_indices(1500, 1)
    score = np.concatenate(
        [(units[a] * units[b]).sum(1) for a, b in zip(np.array_split(left, 90), np.array_split(right, 90), strict=True)]
    )
    same = embeddings.identities[left] == embeddings.identities[right]
    home = np.where(embeddings.domains[left] == embeddings.domains[right], embeddings.domains[left], "")
    found = all_pairs(embeddings, FARS)
    exact = [operating_point(score[same], score[~same], far) for far in FARS]
    for ours, theirs in zip(found.operating_points, exact, strict=True):
        assert (ours.impostor_accepted, ours.genuine_accepted) == (theirs.impostor_accepted, theirs.genuine_accepted)
        assert ours.threshold == pytest.approx(theirs.threshold, abs=1e-15)  # numpy sums in another order
    assert found.one_threshold is not None
    for one, common in zip(found.one_threshold, exact, strict=True):
        for name, domain in one.domains.items():
            inside = home == name
            own = operating_point(score[same & inside], score[~same & inside], one.far_target)
            assert domain.impostor_accepted == (score[~same & inside] > common.threshold).sum()
            assert domain.genuine_accepted == (score[same & inside] > common.threshold).sum()
            assert (domain.impostor_accepted_own, domain.genuine_accepted_own) == (
                own.impostor_accepted,
                own.genuine_accepted,
            )


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
