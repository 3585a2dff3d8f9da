import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from verisphere.study.clean.cleaning import Cleaning
from verisphere.study.clean.from_embeddings import Finder, Method, clusters_of, cosines_to_others, found_in_embeddings
from verisphere.study.clean.rules import Rule

METHODS: list[Method] = ["sub-centers", "class-mean", "mean-of-others", "dbscan"]


def at(*degrees: float) -> np.ndarray:
    """Points of the unit circle."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def write(path: Path, rows: np.ndarray, identities: list[str], names: list[str] | None = None) -> Path:
    names = [str(number) for number in range(len(rows))] if names is None else names
    np.savez(path, embeddings=rows, names=np.array(names), identities=np.array(identities))
    return path


def test_sub_centers_of_each_identity(tmp_path: Path) -> None:
    # Ann: 0, 20 and 140 become centers at 10 and 140, where the start (20; then 140) puts them; two rows are dominant.
    # Ben has one row. The lengths of rows do not matter.
    rows = at(0, 20, 45, 140) * np.array([[1.0], [5.0], [0.5], [2.0]], np.float32)
    found = found_in_embeddings(write(tmp_path / "e.npz", rows, ["Ann", "Ann", "Ben", "Ann"]), sub_centers=2)
    assert list(found.names) == ["0", "1", "2", "3"]
    assert list(found.identities) == ["Ann", "Ann", "Ben", "Ann"]
    assert found.people == ("Ann", "Ben")
    assert found.sub.angle == pytest.approx([10, 10, 0, 130], abs=0.05)
    assert found.sub.nearest == pytest.approx([10, 10, 0, 0], abs=0.05)
    assert found.sub.counts.tolist() == [[2, 1], [1, 0]]
    assert found.method == "2 sub-centers of each identity by spherical k-means with 10 restarts, e.npz"


def test_the_class_mean_is_one_sub_center(tmp_path: Path) -> None:
    path = write(tmp_path / "e.npz", at(0, 90), ["Ann", "Ann"])
    assert found_in_embeddings(path, "class-mean").sub.angle == pytest.approx([45, 45])
    assert found_in_embeddings(path, sub_centers=1).sub.angle == pytest.approx([45, 45])


def test_the_mean_of_the_others_leaves_the_row_itself_out(tmp_path: Path) -> None:
    # of two at a right angle each is 90 from the other; of 0, 20 and 90 the others' means are 55, 45 and 10
    path = write(tmp_path / "e.npz", at(0, 90, 0, 20, 90, 7), ["Ann"] * 2 + ["Ben"] * 3 + ["Cy"])
    assert found_in_embeddings(path, "mean-of-others").sub.angle == pytest.approx([90, 90, 55, 25, 80, 0], abs=0.01)


def test_others_that_cancel_are_at_a_right_angle() -> None:
    assert cosines_to_others(at(0, 90, 270), np.zeros(3, int))[0] == 0


def test_dbscan_by_hand(tmp_path: Path) -> None:
    # eps 0.1 is an angle of arccos 0.9 = 25.8 degrees. Ann: 0, 20 and 40 chain to one cluster, 100 and 110 to a smaller
    # one, 200 is alone. The mean of 0, 20 and 40 is 20, that of 100 and 110 is 105.
    # Ben: three at 0, 60 and 120 make no cluster. Cy: one row, fewer than min_samples. Di: two rows, which make none.
    rows = at(100, 0, 20, 40, 110, 200, 0, 60, 120, 5, 0, 60)
    path = write(tmp_path / "e.npz", rows, ["Ann"] * 6 + ["Ben"] * 3 + ["Cy"] + ["Di"] * 2)
    found = found_in_embeddings(path, "dbscan", eps=0.1, min_samples=2)
    assert found.sub.sub_center.tolist() == [1, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0]
    assert found.sub.dominant.tolist() == [0, -1, 0, -1]
    assert found.sub.counts.tolist() == [[3, 2, 1], [3, 0, 0], [1, 0, 0], [2, 0, 0]]
    assert found.sub.angle == pytest.approx(
        [80, 20, 0, 20, 90, 180, *[np.nan] * 3, 0, *[np.nan] * 2], abs=0.05, nan_ok=True
    )
    assert found.sub.nearest == pytest.approx([5, 20, 0, 20, 5, *[0] * 7], abs=0.05)
    cleaning = Cleaning.by(Rule(angle=None, only_dominant=True), found)
    assert cleaning.kept.tolist() == [False, True, True, True, False, False, *[False] * 3, True, False, False]
    assert cleaning.lost == ["Ben", "Di"]


@pytest.mark.parametrize("turn", range(1, 50, 5))
def test_of_equally_large_clusters_the_denser_one_leads_and_of_equally_dense_ones_the_first(turn: int) -> None:
    # Two pairs of rows with 10 degrees between them, and one with 4 degrees in class 0: it leads there. In class 1 all
    # pairs are alike, so that their sums of cosines differ by rounding alone; the order is that of the first numbers.
    degrees = np.array([100, 110, 200, 210, 300, 304, 100, 110, 200, 210, 300, 310])
    rows, labels = at(*(degrees + turn)), np.repeat([0, 1], 6)
    clusters, _ = clusters_of(rows, labels, eps=0.1, min_samples=2)
    assert clusters[4:6].tolist() == [0, 0]
    leftmost = rows[6:, 0].reshape(3, 2).min(axis=1)
    assert clusters[6:].tolist() == np.repeat(leftmost.argsort().argsort(), 2).tolist()


@pytest.mark.parametrize("turn", [1, -1])
def test_an_image_at_the_edge_of_two_clusters_joins_the_one_whose_numbers_come_first(turn: int) -> None:
    # of nine images the one at 13 degrees is within 10.5 degrees of one image on either side, so it is no core itself;
    # the smallest first number is at 26 degrees, so that cluster is found first, has five images and is dominant
    rows = at(*(turn * angle for angle in (0, 1, 2, 3, 13, 23, 24, 25, 26)))
    for order in (np.arange(9), np.arange(9)[::-1], np.random.default_rng(0).permutation(9)):
        finder = Finder("dbscan", eps=1 - np.cos(np.radians(10.5)), min_samples=4)
        found = finder.sub_classes(rows[order], np.zeros(9, np.int64), 1)
        assert found.sub_center[order.argsort()].tolist() == [1] * 4 + [0] * 5


def test_the_larger_cluster_leads_however_wide_it_is() -> None:
    # eps 0.5 is an angle of 60 degrees. Four rows 55 degrees apart sum to 2 cos 27.5 + 2 cos 82.5 = 2.035, three equal
    # ones to 3; and these have the smallest first number.
    rows = at(325, 20, 75, 130, 220, 220, 220)
    assert clusters_of(rows, np.zeros(7, int), eps=0.5, min_samples=2)[0].tolist() == [0] * 4 + [1] * 3


def test_rows_of_a_cluster_that_cancel_are_at_a_right_angle_to_its_mean() -> None:
    # two opposite rows have no mean, though their lengths differ by rounding; of 0 and 178 degrees it is at 89
    rows, labels = at(0, 180, 0, 178), np.array([0, 0, 1, 1])
    rows[1] = [-1 + 2**-24, 0]
    found = Finder("dbscan", eps=2.0).sub_classes(rows, labels, 2)
    assert found.sub_center.tolist() == [0, 0, 0, 0]
    assert found.angle == pytest.approx([90, 90, 89, 89], abs=0.01)


def test_rows_of_nobody_are_of_no_cluster(tmp_path: Path) -> None:
    found = Finder("dbscan").sub_classes(at(0, 1, 0, 1), np.array([-1, 0, 0, -1]), 1)
    assert found.sub_center.tolist() == [-1, 0, 0, -1]
    assert found.known.tolist() == [False, True, True, False]
    assert found.counts.tolist() == [[2]]
    found = found_in_embeddings(write(tmp_path / "e.npz", at(0, 1), ["-1", "-1"]), "dbscan").sub
    assert (found.sub_center.tolist(), found.counts.size) == ([-1, -1], 0)


def test_clusters_from_the_fifteenth_on_share_a_number(tmp_path: Path) -> None:
    degrees = [20.0 * number + offset for number in range(17) for offset in (0, 1)]
    path = write(tmp_path / "e.npz", at(*degrees), ["Ann"] * 34)
    found = found_in_embeddings(path, "dbscan", eps=0.001, min_samples=2)
    assert found.sub.counts.tolist() == [[2] * 15 + [4]]


def test_dbscan_without_scikit_learn_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    path = write(tmp_path / "e.npz", at(0, 90), ["Ann", "Ann"])
    with pytest.raises(ValueError, match=r"DBSCAN needs scikit-learn.*pip install '\.\[clean\]'"):
        found_in_embeddings(path, "dbscan")
    found_in_embeddings(path, "class-mean")  # needs none


def gaussian_people(path: Path, order: np.ndarray | None = None) -> Path:
    random = np.random.default_rng(0)
    person = np.repeat(np.arange(40), random.integers(1, 12, 40))
    rows = (random.normal(size=(40, 8))[person] + random.normal(size=(len(person), 8))).astype(np.float32)
    order = np.arange(len(person)) if order is None else order
    return write(path, rows[order], [f"p{number}" for number in person[order]], [str(place) for place in order])


@pytest.mark.parametrize("method", METHODS)
def test_neither_the_budget_nor_the_order_of_rows_changes_anything(
    tmp_path: Path, method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("verisphere.files.streamed_rows.ROWS_AT_ONCE", 7)  # portions that end inside identities
    found = found_in_embeddings(gaussian_people(tmp_path / "e.npz"), method)
    small = found_in_embeddings(tmp_path / "e.npz", method, budget=20 * 8 * 4)
    assert np.array_equal(small.sub.angle, found.sub.angle, equal_nan=True)
    assert np.array_equal(small.sub.sub_center, found.sub.sub_center)
    order = np.random.default_rng(1).permutation(len(found))
    mixed = found_in_embeddings(gaussian_people(tmp_path / "mixed.npz", order), method, budget=20 * 8 * 4)
    assert list(mixed.names) == [str(place) for place in order]
    assert np.array_equal(mixed.sub.angle, found.sub.angle[order], equal_nan=True)
    assert np.array_equal(mixed.sub.nearest, found.sub.nearest[order], equal_nan=True)
    assert np.array_equal(mixed.sub.sub_center, found.sub.sub_center[order])
    assert np.array_equal(mixed.sub.counts, found.sub.counts)


def passes(path: Path, budget_rows: int) -> int:
    totals = []

    def count(items: object, description: str, total: int | None = None, done: int = 0) -> object:
        totals.append(total)
        return items

    found_in_embeddings(path, "class-mean", budget=budget_rows * 2 * 4, progress=count)
    return totals[0]


def test_a_file_in_order_is_read_once_and_a_mixed_one_once_for_each_budget(tmp_path: Path) -> None:
    people = ["a", "a", "b", "b", "c", "c", "d", "d"]
    grouped = write(tmp_path / "grouped.npz", at(*range(8)), people)
    assert passes(grouped, 4) == 1
    mixed = write(tmp_path / "mixed.npz", at(*range(8)), ["a", "b", "c", "d", "a", "b", "c", "d"])
    assert passes(mixed, 4) == 2
    assert passes(mixed, 1) == 4  # an identity larger than the budget is held all the same


def test_nobody_is_of_no_class_and_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "e.npz", at(0, 90, 180), ["-1", "Ann", "-1"])
    found = found_in_embeddings(path)
    assert found.sub.labels.tolist()[::2] == [-1, -1]
    assert Cleaning.by(Rule(), found).kept.all()


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    path = write(tmp_path / "zero.npz", np.array([[1, 0], [0, 0]], np.float32), ["Ann", "Ann"])
    with pytest.raises(ValueError, match=r"zero\.npz: some embeddings have length zero, the first is '1' \(row 1\)"):
        found_in_embeddings(path)
    path = write(tmp_path / "nan.npz", at(0, 1), ["Ann", "nan"])
    with pytest.raises(
        ValueError, match=r"nan\.npz: 1 of 2 identities is empty or .* the first is 'nan' \('1', row 1\)"
    ):
        found_in_embeddings(path)
    path = write(tmp_path / "e.npz", at(0, 1), ["Ann", "Ann"])
    for options, message in (
        ({"sub_centers": 0}, "sub_centers is 0"),
        ({"restarts": -1}, "restarts is -1"),
        ({"eps": 0.0}, "eps is 0.0"),
        ({"eps": 2.5}, "eps is 2.5"),
        ({"min_samples": 0}, "min_samples is 0"),
        ({"seed": -1}, "seed must be 0 or more"),
    ):
        with pytest.raises(ValueError, match=message):
            found_in_embeddings(path, **options)


def test_numbers_whose_squares_float32_cannot_hold(tmp_path: Path) -> None:
    path = write(tmp_path / "e.npz", at(0, 90) * np.float32(1e30), ["Ann", "Ann"])
    assert found_in_embeddings(path, "class-mean").sub.angle == pytest.approx([45, 45])


def test_lfw(real_data: Path) -> None:
    found = found_in_embeddings(real_data / "lfw_embeddings.npz")
    cleaning = Cleaning.by(Rule(), found)
    assert len(found.people) == 5749
    # 34 of 13,233 when this was written; LFW is nearly clean and the model good
    assert 25 <= (~cleaning.kept).sum() <= 45


def test_the_rows_of_a_file_are_never_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verisphere.files.streamed_rows.ROWS_AT_ONCE", 1024)
    monkeypatch.setattr("verisphere.study.clean.spherical_k_means._AT_ONCE", 1 << 19)
    rows = np.random.default_rng(0).standard_normal((20_000, 384), dtype=np.float32)  # 30.7 MB
    path = write(tmp_path / "e.npz", rows, [str(place % 2000) for place in range(20_000)])
    tracemalloc.start()
    found_in_embeddings(path, budget=2 << 20)  # ten passes
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # a block of 2 MiB, a portion and its copies, columns of 20,000 rows at some 200 bytes each: 10.8 MB
    assert peak < 18_000_000
