"""Average linkage from near pairs alone is that of all pairs, whatever the order of the rows; and links hold."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import fcluster, linkage

from verisphere.score import unit_rows
from verisphere.score.linkage import Tree, average_linkage
from verisphere.score.near_pairs import near_pairs


def rows_of(count: int, people: int, seed: int, dim: int = 12) -> np.ndarray:
    random = np.random.default_rng(seed)
    centers = random.standard_normal((people, dim))
    rows = centers[random.integers(0, people, count)] + random.standard_normal((count, dim))
    return unit_rows(rows.astype(np.float32)).numpy()


def pairs_of(units: np.ndarray, floor: float) -> np.ndarray:
    near = near_pairs(torch.from_numpy(units), floor)
    return np.stack([near.left, near.right], 1)


def tree_of(units: np.ndarray, floor: float, **links: list[tuple[int, int]]) -> Tree:
    return average_linkage(units, pairs_of(units, floor), floor, **links)


def labels_of(tree: Tree, threshold: float, price: float = 0.0) -> list[int]:
    return replace(tree, price=price).labels(threshold).tolist()


def renumbered(labels: np.ndarray) -> list[int]:
    """Labels numbered by their first row."""
    numbers: dict[int, int] = {}
    return [numbers.setdefault(label, len(numbers)) for label in labels.tolist()]


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_tree_of_all_pairs(seed: int):
    units = rows_of(150, 30, seed)
    rows = units.astype(np.float64)
    distances = 1 - (rows @ rows.T)[np.triu_indices(150, 1)]
    merges = linkage(distances, "average")
    tree = tree_of(units, 0.2)
    reached = merges[:, 2] <= 0.8
    assert 0 < reached.sum() < 149
    assert np.sort(1 - tree.scores) == pytest.approx(merges[reached, 2], abs=1e-12)
    for threshold in np.arange(0.2, 0.9, 0.03):
        assert labels_of(tree, threshold) == renumbered(fcluster(merges, 1 - threshold, "distance")), threshold


@pytest.mark.parametrize("seed", range(4))
def test_further_pairs_and_their_order_change_nothing(seed: int):
    units = rows_of(80, 12, seed)
    pairs = pairs_of(units, -1.0)
    tree = tree_of(units, 0.3)
    again = average_linkage(units, np.random.default_rng(seed).permutation(pairs), 0.3)
    assert again.children.tolist() == tree.children.tolist()
    assert again.scores.tolist() == tree.scores.tolist()
    assert again.sizes.tolist() == tree.sizes.tolist()


def test_each_merge_by_hand():
    units = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1]], np.float32)
    tree = tree_of(units, 0.5)
    # rows 1 and 2 score 0.96; row 0 scores 0.8 and 0.6 with them, and so does row 3; then 3 has 0, 0.6 and 0.8
    assert tree.children.tolist() == [[1, 2], [0, 4]]
    assert tree.scores == pytest.approx([0.96, 0.7], abs=1e-6)
    assert tree.sizes.tolist() == [1, 2]
    assert labels_of(tree, 0.97) == [0, 1, 2, 3]
    assert labels_of(tree, 0.9) == [0, 1, 1, 2]
    assert labels_of(tree, 0.6) == [0, 0, 0, 1]


def test_a_merge_of_small_groups_must_score_more():
    """At a price of 0.1, two single rows that score 0.96 hold to 0.86, and a row and two rows of 0.7 to 0.65."""
    units = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1]], np.float32)
    tree = tree_of(units, 0.5)
    assert tree.heights == pytest.approx([0.86, 0.65], abs=1e-6)
    assert replace(tree, price=0.0).heights == pytest.approx([0.96, 0.7], abs=1e-6)
    assert labels_of(tree, 0.87, 0.1) == [0, 1, 2, 3]
    assert labels_of(tree, 0.85, 0.1) == [0, 1, 1, 2]
    assert labels_of(tree, 0.66, 0.1) == [0, 1, 1, 2]
    assert labels_of(tree, 0.64, 0.1) == [0, 0, 0, 1]


def test_a_later_merge_of_larger_groups_holds_what_is_inside():
    """Two pairs at 0.70 less 0.1 are below their own merge at 0.68 less 0.05, so all four rows come together there."""
    tree = Tree(4, np.array([[0, 1], [2, 3], [4, 5]]), np.array([0.70, 0.69, 0.68]), np.array([1, 1, 2]))
    assert tree.heights == pytest.approx([0.63, 0.63, 0.63])
    assert labels_of(tree, 0.62, 0.1) == [0, 0, 0, 0]
    assert labels_of(tree, 0.64, 0.1) == [0, 1, 2, 3]


def test_groups_at_a_lower_threshold_contain_those_at_a_higher_one():
    tree = tree_of(rows_of(200, 30, 9), 0.2)
    before = np.arange(200)
    for threshold in np.arange(0.9, 0.2, -0.02):
        now = np.array(labels_of(tree, threshold, 0.1))
        assert all(len(set(now[before == group])) == 1 for group in set(before.tolist())), threshold
        before = now
    assert len(set(before.tolist())) < 100


def test_of_equal_scores_the_pair_of_the_lower_rows_is_first():
    units = np.array([[1, 0], [0, 1], [1, 0], [0, 1], [1, 0]], np.float32)
    tree = tree_of(units, 0.5)
    assert tree.children.tolist() == [[0, 2], [5, 4], [1, 3]]
    assert tree.scores.tolist() == [1, 1, 1]


def test_all_rows_equal_are_one_group():
    units = np.repeat(unit_rows(np.ones((1, 8), np.float32)).numpy(), 60, 0)
    tree = tree_of(units, 0.5)
    assert tree.scores == pytest.approx(np.ones(59))
    assert labels_of(tree, 0.99) == [0] * 60


@pytest.mark.parametrize("rows", [1, 3])
def test_rows_without_near_pairs_stay_alone(rows: int):
    units = np.eye(rows, 4, dtype=np.float32)
    tree = tree_of(units, 0.5)
    assert tree.children.shape == (0, 2)
    assert labels_of(tree, 0.5) == list(range(rows))


def test_the_floor_ends_the_tree():
    units = rows_of(60, 6, 3)
    low, high = tree_of(units, 0.1), tree_of(units, 0.5)
    assert high.scores.min() >= 0.5 > low.scores.min()
    assert len(high.scores) == (low.scores >= 0.5).sum()
    assert labels_of(high, 0.5) == labels_of(low, 0.5)


def test_rows_that_may_not_be_merged_are_never_in_one_group():
    units = rows_of(120, 8, 5)
    free = np.array(labels_of(tree_of(units, 0.1), 0.1))
    first = np.flatnonzero(free == np.bincount(free).argmax())
    apart = [(int(first[0]), int(row)) for row in first[1:]]
    label = np.array(labels_of(tree_of(units, 0.1, apart=apart), 0.1))
    assert (label[first[1:]] != label[first[0]]).all()
    between = [(int(left), int(right)) for left, right in zip(first[::2], first[1::2], strict=False)]
    label = np.array(labels_of(tree_of(units, 0.1, apart=between), 0.1))
    assert all(label[left] != label[right] for left, right in between)


def test_with_rows_that_may_not_be_merged_the_order_of_rows_changes_nothing():
    units = rows_of(120, 8, 6)
    random = np.random.default_rng(0)
    apart = random.integers(0, 120, (60, 2))
    apart = apart[apart[:, 0] != apart[:, 1]]
    wanted = labels_of(tree_of(units, 0.1, apart=[tuple(pair) for pair in apart.tolist()]), 0.15, 0.1)
    for _ in range(10):
        order = random.permutation(120)
        moved = [tuple(pair) for pair in np.argsort(order)[apart].tolist()]
        label = np.array(labels_of(tree_of(units[order], 0.1, apart=moved), 0.15, 0.1))
        assert renumbered(label[np.argsort(order)]) == wanted


def test_a_higher_score_is_merged_first_where_it_forbids_another_merge():
    """Rows 1 and 2 score more than 0 and 4; as 1 is with 4 by a link, and 0 apart from 2, only one merge can be."""
    units = unit_rows(
        np.array([[0, 0, 1, 0], [1, 0, 0, 0], [0.9, 0.4, 0, 0], [0, 0, 0, 1], [0, 0, 0.7, 0.7]], np.float32)
    )
    tree = tree_of(units.numpy(), 0.5, together=[(1, 4)], apart=[(0, 2)])
    assert tree.children.tolist() == [[1, 2], [3, 4]]
    assert tree.scores[0] > tree.scores[1]


def test_with_rows_that_must_be_together_the_order_of_rows_changes_nothing():
    for seed in range(20):
        units, random = rows_of(30, 5, seed, dim=4), np.random.default_rng(seed)
        links = {
            "together": random.permutation(30)[:10].reshape(-1, 2),
            "apart": random.integers(0, 15, (4, 2)) * 2 + 1,
        }
        links["apart"][:, 0] -= 1
        labels = []
        for order in (np.arange(30), np.arange(30)[::-1], random.permutation(30)):
            back = np.argsort(order)
            moved = {kind: list(map(tuple, back[rows].tolist())) for kind, rows in links.items()}
            try:
                labels.append(renumbered(np.array(labels_of(tree_of(units[order], 0.1, **moved), 0.2))[back]))
            except ValueError:
                labels.append([])
        assert labels[0] == labels[1] == labels[2], seed


@pytest.mark.parametrize(
    ("together", "apart"),
    [([(0, 1)], [(1, 0)]), ([(0, 1), (1, 2)], [(0, 2)]), ([(0, 1), (2, 3), (1, 3)], [(0, 2)])],
)
def test_links_that_contradict_each_other_are_refused(together: list[tuple[int, int]], apart: list[tuple[int, int]]):
    with pytest.raises(ValueError, match="must be together, and may not be"):
        tree_of(np.eye(4, dtype=np.float32), 0.5, together=together, apart=apart)
