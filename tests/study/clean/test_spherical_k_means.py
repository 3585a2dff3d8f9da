import numpy as np
import pytest

from verisphere.study.clean.spherical_k_means import (
    cosines_to_sub_centers,
    farthest_first,
    spherical_k_means,
    unit_rows,
)


def at(*degrees: float) -> np.ndarray:
    """Points of the unit circle."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def directions(centers: np.ndarray) -> list[float]:
    return np.degrees(np.arctan2(centers[:, 1], centers[:, 0])).round(3).tolist()


def test_the_start_is_the_row_nearest_to_the_mean_and_then_the_farthest_rows() -> None:
    # the mean of 0, 10, 20, 90 and 200 degrees: x = 1 + 0.9848 + 0.9397 + 0 - 0.9397 = 1.9848,
    # y = 0 + 0.1736 + 0.3420 + 1 - 0.3420 = 1.1736, so 30.6 degrees: 20 is nearest. Farthest from 20 is 200. From both,
    # 90 is farthest: 70 degrees from 20; 0 is 20 from 20, and 10 is 10.
    start = farthest_first(at(0, 10, 20, 90, 200)[None], 3)[0]
    assert directions(start) == pytest.approx([20, -160, 90], abs=1e-3)


def test_centers_are_the_directions_of_the_means_of_their_rows() -> None:
    # start: the mean of 0, 20, 100, 140 is at x = 1 + 0.9397 - 0.1736 - 0.7660 = 1,
    # y = 0.3420 + 0.9848 + 0.6428 = 1.9696, so 63.1 degrees, nearest to 100 (36.9; 20 is at 43.1); farthest from 100
    # is 0. Rows 0, 20 are nearer to 0, and 140 to 100: the means of two unit rows lie halfway, at 10 and 120 degrees,
    # and nothing moves after that.
    centers = spherical_k_means(at(0, 20, 100, 140)[None], 2)[0]
    assert directions(centers) == pytest.approx([120, 10], abs=1e-3)
    assert np.linalg.norm(centers, axis=1) == pytest.approx([1, 1])


def test_cosines_are_those_to_the_own_class_alone() -> None:
    rows, labels = at(0, 20, 100, 140, 0, 60), np.array([3, 3, 3, 3, 1, 1])
    cosines = cosines_to_sub_centers(rows, labels, 1)
    # class 1: the mean of 0 and 60 is at 30. Class 3: at 63.083 (above), arctan(1.9696 / 1)
    expected = np.cos(np.radians([63.083, 43.083, 36.917, 76.917, 30, 30]))
    assert cosines[:, 0] == pytest.approx(expected, abs=1e-4)


def test_a_class_with_fewer_rows_than_sub_centers_has_fewer() -> None:
    cosines = cosines_to_sub_centers(at(0, 90, 45), np.array([0, 0, 1]), 3)
    # two rows at a right angle are two centers; both rows are as near to their mean, and the first of them leads
    assert cosines[:2, :2].tolist() == pytest.approx(np.array([[0, 1], [1, 0]]), abs=1e-6)
    assert np.isnan(cosines[:2, 2]).all()
    assert cosines[2, 0] == pytest.approx(1)
    assert np.isnan(cosines[2, 1:]).all()


def test_equal_rows_are_one_sub_center() -> None:
    cosines = cosines_to_sub_centers(at(30, 30, 30, 30), np.zeros(4, int), 3)
    assert cosines[:, 0] == pytest.approx([1] * 4)
    assert np.isnan(cosines[:, 1:]).all()


def test_a_center_without_rows_takes_the_row_farthest_from_its_own_center() -> None:
    # two equal centers at 0: all rows go to the first. The farthest row, at 80, moves to the second; then the first
    # center is at the mean of 0, 10 and 20, which is 10
    start = at(0, 0)[None]
    centers = spherical_k_means(at(0, 10, 20, 80)[None], 2, start)[0]
    assert directions(centers) == pytest.approx([10, 80], abs=1e-3)


def test_rows_that_cancel_leave_their_center_where_it_was() -> None:
    centers = spherical_k_means(at(0, 180)[None], 1)
    assert directions(centers[0]) in ([0.0], [180.0], [-180.0])


def test_a_row_of_length_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="length zero"):
        cosines_to_sub_centers(np.zeros((1, 2), np.float32), np.array([0]), 1)


def test_rows_of_no_class_have_no_cosines() -> None:
    assert np.isnan(cosines_to_sub_centers(at(0, 10), np.array([-1, 0]), 1)[0]).all()


@pytest.mark.parametrize(("name", "number"), [("sub_centers", 0), ("restarts", -1), ("iterations", 0)])
def test_numbers_outside_their_ranges_are_refused(name: str, number: int) -> None:
    options = {"sub_centers": 2, name: number}
    with pytest.raises(ValueError, match=f"{name} is {number}"):
        cosines_to_sub_centers(at(0, 10), np.array([0, 0]), **options)


def gaussian_classes() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(30), random.integers(1, 20, 30))
    return unit_rows(random.normal(size=(len(labels), 16)).astype(np.float32)), labels


@pytest.mark.parametrize("restarts", [0, 2])
@pytest.mark.parametrize("zeros", [0, 5, 15])
def test_the_order_of_rows_and_other_classes_change_nothing(restarts: int, zeros: int) -> None:
    rows, labels = gaussian_classes()
    # the first numbers of many rows are equal, as those of a network that ends in a rectifier can be
    rows[::2, :zeros] = 0
    rows = unit_rows(rows)
    cosines = cosines_to_sub_centers(rows, labels, 3, restarts=restarts)
    order = np.random.default_rng(1).permutation(len(rows))
    assert np.array_equal(
        cosines_to_sub_centers(rows[order], labels[order], 3, restarts=restarts), cosines[order], True
    )
    some = labels % 3 == 0
    for numbers in (labels[some], labels[some] // 3):  # classes that are absent change no draw, nor do their numbers
        assert np.array_equal(cosines_to_sub_centers(rows[some], numbers, 3, restarts=restarts), cosines[some], True)


def test_further_starts_never_lower_the_sum_of_cosines_and_depend_on_the_seed() -> None:
    rows, labels = gaussian_classes()

    def sums(restarts: int, seed: int = 0) -> np.ndarray:
        cosines = cosines_to_sub_centers(rows, labels, 3, restarts=restarts, seed=seed)
        return np.bincount(labels, np.nanmax(cosines, axis=1).astype(float))

    alone, several = sums(0), sums(5)
    assert (several >= alone - 1e-4).all()
    assert (several > alone + 1e-3).any()
    assert not np.array_equal(sums(1, 0), sums(1, 1))


def test_restarts_change_nothing_where_every_row_is_a_center() -> None:
    rows, labels = gaussian_classes()
    most = int(np.bincount(labels).max())
    for sub_centers in (1, most):
        once = cosines_to_sub_centers(rows, labels, sub_centers)
        assert np.array_equal(cosines_to_sub_centers(rows, labels, sub_centers, restarts=3), once, equal_nan=True)
