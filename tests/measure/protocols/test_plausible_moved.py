"""Labels that were moved by several rows, and rows that are better images of the same people."""

import numpy as np
import pytest

from verisphere.base.vocabulary import Comparisons, Embeddings
from verisphere.decide.plausible import implausible_list, moved_by
from verisphere.measure.protocols.plausible import implausible_pairs, implausible_set


def faces(images: np.ndarray, noise: float = 0.6, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of people with so many images each, side by side, and the number of the person of each."""
    random = np.random.default_rng(seed)
    person = np.repeat(np.arange(len(images)), images)
    rows = random.normal(size=(len(images), 32))[person] + noise * random.normal(size=(len(person), 32))
    return rows.astype(np.float32), person


def of_set(rows: np.ndarray, person: np.ndarray) -> tuple[str, ...]:
    return implausible_set(Embeddings(rows, np.arange(len(rows)).astype(str), person.astype(str)))


UNEQUAL = np.random.default_rng(5).integers(2, 9, 100)


@pytest.mark.parametrize("by", [2, -3, 32, 64])
def test_labels_that_were_moved_by_several_rows(by: int):
    rows, person = faces(UNEQUAL)
    (found,) = of_set(rows, np.roll(person, by))
    assert found.startswith(f"with the labels moved by {abs(by)} rows, TAR at FAR 0.1 rises from 0.")
    assert found.endswith("to 1.000, as if they were in another order than the rows")


@pytest.mark.parametrize("by", [0, 1_000, -2_700])
def test_labels_of_people_with_more_images_than_the_rows_looked_at(by: int):
    rows, person = faces(np.full(12, 8_200))
    found = of_set(rows, np.roll(person, by))
    assert bool(found) == bool(by)
    assert all(reason.startswith("with the labels moved by about ") for reason in found)


@pytest.mark.parametrize("by", [2, 5])
def test_labels_that_were_moved_by_several_rows_from_the_middle_on(by: int):
    rows, person = faces(UNEQUAL)
    middle = len(person) // 2
    (found,) = of_set(rows, np.concatenate([person[:middle], np.roll(person[middle:], by)]))
    assert f"with the labels moved by {by} rows from row {middle} on" in found


@pytest.mark.parametrize("noise", [0.2, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("images", [UNEQUAL, np.full(40, 4), np.full(300, 2), np.array([500] + [2] * 80)])
def test_right_labels_in_any_order_are_no_alarm(images: np.ndarray, noise: float):
    rows, person = faces(images, noise, seed=len(images))
    assert of_set(rows, person) == ()
    order = np.random.default_rng(0).permutation(len(rows))
    assert of_set(rows[order], person[order]) == ()


BLOCKS = np.tile(np.repeat([True, False], 150), 6)


@pytest.mark.parametrize("by", [0, 20, -64])
@pytest.mark.parametrize("order", [BLOCKS, np.random.default_rng(1).permutation(BLOCKS)])
def test_labels_of_a_list_that_were_moved_by_several_rows(order: np.ndarray, by: int):
    scores = np.random.default_rng(2).normal(size=len(order)) + 3.0 * order
    scores[0] = np.inf
    found = implausible_list(np.roll(order, by), lambda rows: scores[rows])
    if order is BLOCKS and by:
        assert f"with the labels moved by {abs(by)} rows, TAR at FAR 0.1 rises" in found[0]
    else:
        assert bool(found) == bool(by)  # labels in no order are as mixed ones


@pytest.mark.parametrize("by", [0, 1_500, -1_500, 4_000, -4_000])
@pytest.mark.parametrize("genuine_first", [True, False])
def test_labels_of_a_long_list_that_were_moved_in_blocks_longer_than_the_rows_looked_at(genuine_first: bool, by: int):
    order = (np.arange(20_000) < 10_000) == genuine_first
    scores = np.random.default_rng(5).normal(size=len(order)) + 3.0 * order
    found = implausible_list(np.roll(order, by), lambda rows: scores[rows])
    assert bool(found) == bool(by)
    assert all("with the labels moved by " in reason and " rows, TAR at FAR 0.1 rises" in reason for reason in found)


def test_labels_that_are_all_equal_were_not_moved():
    assert moved_by(np.ones(5, bool), np.arange(5.0)) == 0


@pytest.mark.parametrize("by", [0, 1, -1])
def test_each_row_beside_a_better_one_of_its_person(by: int):
    """A list compares masked faces, each of which has the same face without a mask in the next row."""
    plain, person = faces(np.full(120, 2))
    masked = plain + 3.0 * np.random.default_rng(3).normal(size=plain.shape).astype(np.float32)
    rows = np.stack([masked, plain], axis=1).reshape(-1, plain.shape[1])
    first = 4 * np.arange(120)
    pairs = Comparisons(np.tile(first, 2), np.concatenate([first + 2, np.roll(first, 7)]), np.arange(240) < 120)
    people = np.repeat(person, 2).astype(str)
    found = implausible_pairs(Embeddings(np.roll(rows, by, 0), np.arange(480).astype(str), people), pairs)
    assert bool(found) == bool(by)
