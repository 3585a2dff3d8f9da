"""What is known of rows beside their scores, in average linkage; and near pairs that are found piece by piece."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.work import working
from verisphere.files.work import WorkFolder
from verisphere.score import unit_rows
from verisphere.score.linkage import average_linkage
from verisphere.score.near_pairs import near_pairs


def all_pairs(rows: int) -> np.ndarray:
    return np.stack(np.triu_indices(rows, 1), 1)


def turned(*degrees: float) -> np.ndarray:
    return np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], 1).astype(np.float32)


def groups(units: np.ndarray, threshold: float, **links) -> list[int]:
    tree = average_linkage(units, all_pairs(len(units)), 0.0, **links)
    return replace(tree, price=0.0).labels(threshold).tolist()


def test_rows_that_are_together_are_merged_only_by_their_scores():
    two_looks = turned(0, 10, 80, 90)
    assert groups(two_looks, 0.9, together=[(0, 3)]) == [0, 0, 1, 1]
    assert groups(two_looks, 0.1, together=[(0, 3)]) == [0, 0, 0, 0]


def test_what_is_apart_from_one_look_is_apart_from_the_other():
    # row 4 may not be with row 0, and so not with row 2 either, to which it is nearest
    units = turned(0, 10, 80, 90, 75)
    assert groups(units, 0.9) == [0, 0, 1, 1, 1]
    assert groups(units, 0.9, apart=[(0, 4)]) == [0, 0, 1, 1, 1]
    assert groups(units, 0.9, together=[(0, 3)], apart=[(0, 4)]) == [0, 0, 1, 2, 1]
    assert groups(units, 0.9, together=[(0, 2), (2, 3)], apart=[(0, 4)]) == [0, 0, 1, 1, 2]


def test_two_people_are_never_merged():
    units = turned(0, 1, 2, 3)
    assert groups(units, 0.9, people=np.array([-1, 5, -1, 7])) in ([0, 0, 1, 1], [0, 0, 0, 1], [0, 1, 1, 1])
    assert groups(units, 0.9, people=np.array([-1, 5, -1, 5])) == [0, 0, 0, 0]
    assert groups(units, 0.9, people=np.arange(4)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "links",
    [
        {"together": [(2, 0)], "apart": [(0, 2)]},
        {"together": [(0, 1), (1, 2)], "apart": [(0, 2)]},
        {"together": [(0, 2)], "people": np.array([1, -1, 2])},
        {"together": [(0, 1), (1, 2)], "people": np.array([1, -1, 2])},
        {"together": [(0, 2)], "apart": [(0, 2)], "people": np.array([1, -1, 1])},
    ],
)
def test_a_contradiction_names_two_rows(links):
    said = r"links contradict each other: '[ab]' and 'c' must be together, and may not be"
    with pytest.raises(ValueError, match=said):
        groups(turned(0, 1, 2), 0.9, names=["a", "b", "c"], **links)
    with pytest.raises(ValueError, match=r"'[01]' and '2' must be together"):
        groups(turned(0, 1, 2), 0.9, **links)


def test_a_person_is_known_of_a_whole_group_and_of_its_other_looks():
    units = turned(0, 5, 80, 85, 45, 47)
    assert groups(units, 0.78) == [0, 0, 1, 1, 1, 1]
    people = np.array([7, -1, -1, 9, -1, -1])
    assert groups(units, 0.78, people=people, together=[(1, 4)]) == [0, 0, 1, 1, 2, 2]


def test_near_pairs_in_pieces_are_those_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.score.all_pairs.TILE_ROWS", {"cpu": 16})
    units = unit_rows(np.random.default_rng(0).standard_normal((90, 8)).astype(np.float32))
    whole = near_pairs(units, 0.3)
    assert len(whole) > 100
    for pieces in (1, 3, 40):  # more pieces than tiles, too
        monkeypatch.setattr("verisphere.score.exact.scan.LEAST_PIECES", pieces)
        for _ in range(2):  # compared, then kept
            with working(WorkFolder(tmp_path / str(pieces))):
                found = near_pairs(units, 0.3)
            for column in ("left", "right", "score"):
                np.testing.assert_array_equal(getattr(found, column), getattr(whole, column))
        with pytest.raises(ValueError, match="more than 100 pairs"), working(WorkFolder(tmp_path / f"few {pieces}")):
            near_pairs(units, 0.3, most=100)
