"""The best people of each probe against a search of all pairs, for few and many rows, people and excluded rows."""

import importlib

import numpy as np
import pytest
import torch

from verisphere.score import pair_scores, unit_rows
from verisphere.score.top_k import best_people

module = importlib.import_module("verisphere.score.top_k")  # whose name is that of a function in its room


def expected(probes, rows, person, count):
    """Scores and rows of the best people, from every pair."""
    answers = []
    for number in range(len(probes)):
        left = torch.full((len(rows),), number)
        scores = pair_scores(probes, left, torch.arange(len(rows)), rows).tolist()
        best = {}
        for row in sorted(range(len(rows)), key=lambda row: (-scores[row], row)):
            if person[row] >= 0:
                best.setdefault(person[row], (scores[row], row))
        answers.append((list(best.values()) + [(-np.inf, -1)] * count)[:count])
    return answers


@pytest.mark.parametrize(
    ("rows", "people", "dim"), [(1, 1, 4), (3, 2, 8), (63, 5, 8), (64, 64, 8), (500, 60, 16), (2000, 1900, 32)]
)
@pytest.mark.parametrize("probes", [1, 7])
def test_equals_a_search_of_all_pairs(rows, people, dim, probes):
    random = np.random.default_rng(rows)
    gallery = unit_rows(random.standard_normal((rows, dim)).astype(np.float32))
    asked = unit_rows(random.standard_normal((probes, dim)).astype(np.float32))
    person = random.integers(-1, people, rows)
    scores, found = best_people(asked, gallery, person, 4)
    wanted = expected(asked, gallery, person, 4)
    assert [list(zip(*pair, strict=True)) for pair in zip(scores.tolist(), found.tolist(), strict=True)] == wanted


@pytest.mark.parametrize("rows", [50, 500])
def test_products_of_many_probes_are_of_a_bounded_size(rows, monkeypatch):
    """Also in a small gallery, where so many maxima would allow products of many more numbers."""
    sizes, products_of = [], module._products

    def products(block, probes, gone):
        sizes.append(len(block) * len(probes) if len(probes) > 1 else 0)
        return products_of(block, probes, gone)

    for name, value in (("_products", products), ("_BLOCK", 64), ("_NUMBERS", 256)):
        monkeypatch.setattr(module, name, value)
    random = np.random.default_rng(rows)
    gallery, asked = (unit_rows(random.standard_normal((count, 16)).astype(np.float32)) for count in (rows, 30))
    person = random.integers(-1, 20, rows)
    scores, found = best_people(asked, gallery, person, 4)
    wanted = expected(asked, gallery, person, 4)
    assert [list(zip(*pair, strict=True)) for pair in zip(scores.tolist(), found.tolist(), strict=True)] == wanted
    assert 128 < max(sizes) <= 256


def test_of_equal_rows_the_lower_one_is_named():
    rows = torch.eye(2)[[0, 0, 1, 1, 0]]
    scores, found = best_people(torch.eye(2)[:1], rows, np.array([3, 4, 5, 5, 3]), 3)
    assert (scores.tolist(), found.tolist()) == ([[1.0, 1.0, 0.0]], [[0, 1, 2]])


def test_a_person_of_many_rows_hides_nobody():
    random = np.random.default_rng(0)
    crowd = np.array([1.0, 0.0, 0.0]) + 0.01 * random.standard_normal((3000, 3))
    rows = unit_rows(np.concatenate([crowd, [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]).astype(np.float32))
    person = np.array([0] * 3000 + [1, 2])
    scores, found = best_people(unit_rows(np.array([[1.0, 0.2, 0.1]], np.float32)), rows, person, 3)
    assert person[found[0]].tolist() == [0, 1, 2]
    assert (np.diff(scores[0]) < 0).all()


def test_finds_nobody_among_removed_rows():
    scores, found = best_people(torch.eye(3), torch.eye(3), np.array([-1, -1, -1]), 2)
    assert (found == -1).all()
    assert np.isneginf(scores).all()
