"""The independent script: that it is independent, and its parts on cases worked out by hand."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest

from studies.protocols import independent

SOURCE = Path(independent.__file__)
ALLOWED = {"collections", "csv", "fractions", "json", "math", "numpy", "pathlib", "pickletools", "sys"}


def test_it_imports_nothing_of_verisphere():
    """Only the standard library and numpy, by any spelling of an import."""
    imported, calls = set[str](), set[str]()
    for node in ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).split(".")[0])
        elif isinstance(node, ast.Name):
            calls.add(node.id)
    assert imported == ALLOWED
    assert not calls & {"__import__", "exec", "eval", "importlib"}


def test_a_row_of_length_1_is_rounded_to_float32_and_a_score_is_summed_in_float64():
    row = independent.unit(np.array([1.0, 2.0, 2.0], np.float32))
    assert row.dtype == np.float32
    assert row.tolist() == [np.float32(1 / 3), np.float32(2 / 3), np.float32(2 / 3)]
    other = independent.unit(np.array([0.0, 3.0, 4.0], np.float32))
    third, fifth = float(np.float32(2 / 3)), [float(np.float32(value)) for value in (0.6, 0.8)]
    assert independent.cosine(row, other) == pytest.approx(third * fifth[0] + third * fifth[1], abs=1e-16)


@pytest.mark.parametrize(
    ("far", "cut"),
    [("0.25", 0.4), ("0.5", 0.2), ("0.49", 0.4), ("0", 0.5), ("1", -math.inf), ("0.29", 0.4)],
)
def test_the_threshold_is_the_score_behind_those_that_may_pass(far: str, cut: float):
    """Of 4 impostors floor(4 f) may pass: 1 at 0.25, 0.29 and 0.49, 2 at 0.5, none at 0, all at 1."""
    assert independent.threshold([0.1, 0.5, 0.4, 0.2], far) == cut


def test_ties_at_the_threshold_are_rejected():
    figures = independent.at_fars([0.4, 0.6], [0.4, 0.4, 0.1, 0.0], ["0.25"])
    assert (figures["TAR at FAR 0.25"], figures["FAR at FAR 0.25"]) == (0.5, 0.0)


@pytest.mark.parametrize(
    ("pairs", "cut"),
    [
        ([(0.9, True, 0), (0.8, True, 0), (0.2, False, 0), (0.4, False, 0)], 0.4),  # the only one that is right in all
        ([(0.1, True, 0), (0.5, False, 0)], -math.inf),  # -inf and 0.5 are right in one of two, 0.1 in none
        ([(0.5, False, 0), (0.2, True, 0), (0.1, False, 0)], 0.1),  # 0.1 and 0.5 are right in two: the lower one
    ],
)
def test_the_lower_middle_one_of_the_best_cuts(pairs: list[tuple[float, bool, int]], cut: float):
    assert independent.best_cut(pairs) == cut


def test_accuracy_over_folds():
    """Fold 0 is decided at fold 1's cut 0.3, where 0.4 passes: 1 of 2; fold 1 at fold 0's cut 0.4: 1 of 2 (0.35)."""
    pairs = [(0.9, True, 0), (0.4, False, 0), (0.35, True, 1), (0.3, False, 1)]
    figures = independent.of_pairs(pairs, ["0.5"])
    assert (figures["accuracy"], figures["standard deviation"]) == (0.5, 0.0)
    assert figures["TAR at FAR 0.5"] == 1.0  # of 2 impostors one may pass: the threshold is 0.3


def test_a_list_without_folds_is_cut_into_tenths_of_each_kind():
    pairs = [("a", "b", True)] * 20 + [("a", "c", False)] * 10
    folds = [fold for _, _, _, fold in independent.in_tenths(pairs)]
    assert folds == [*np.repeat(np.arange(10), 2).tolist(), *range(10)]


def test_ranks_and_tpir_with_ties_lost():
    """Mate 0.6 among 0.6 and 0: rank 2. Mate 0.8 among 0.6 and 0.0: rank 1. The stranger's best score is 1."""
    gallery = [("a", np.array([1.0, 0.0])), ("b", np.array([0.0, 1.0])), ("b", np.array([0.6, 0.8]))]
    probes = [("a", np.array([0.6, 0.6])), ("b", np.array([0.6, 0.0])), ("z", np.array([1.0, 0.0]))]
    mated, nonmated = independent.searched(probes, gallery, [np.array([0.0, 0.0])])
    # a: own 0.6; b: max(0.6, 0.36 + 0.48 = 0.84). b: own max(0, 0.36); a: 0.6.
    assert [rank for _, rank in mated] == [2, 2]
    assert [score for score, _ in mated] == pytest.approx([0.6, 0.36])
    assert nonmated == [1.0]
    figures = independent.of_galleries([(mated, nonmated), ([(0.9, 1)], [0.5])], ["1"], [1, 2])
    assert figures == {"rank 1": 0.5, "rank 2": 1.0, "TPIR at FPIR 1": 0.5}


def test_lists_of_every_layout(tmp_path: Path):
    path = tmp_path / "list"
    path.write_text("2\t1\nAnn\t1\t4\nAnn\t2\tBo\t1\nCy\t1\t2\nCy\t3\tDi\t10\n")
    assert independent.lfw(path) == [
        ("Ann/Ann_0001.jpg", "Ann/Ann_0004.jpg", True, 0),
        ("Ann/Ann_0002.jpg", "Bo/Bo_0001.jpg", False, 0),
        ("Cy/Cy_0001.jpg", "Cy/Cy_0002.jpg", True, 1),
        ("Cy/Cy_0003.jpg", "Di/Di_0010.jpg", False, 1),
    ]
    path.write_text("1, 1, Ann/1, Ann/5, 1\r\n2, 1, Bo/1, Cy/0, 0")
    assert independent.ytf(path) == [("Ann/1", "Ann/5", True, 0), ("Bo/1", "Cy/0", False, 1)]
    path.write_text("Ann_0001.jpg 1\nAnn_0003.jpg 1\nBo_0002.jpg 0\nCy_0001.jpg 0\n")
    assert [pair[:3] for pair in independent.two_lines(path)] == [
        ("Ann_0001.jpg", "Ann_0003.jpg", True),
        ("Bo_0002.jpg", "Cy_0001.jpg", False),
    ]


def test_templates_of_a_file_are_the_means_of_their_rows(tmp_path: Path):
    rows = np.array([[3, 0], [0, 4], [0, 7]], np.float32)
    np.savez(tmp_path / "rows.npz", embeddings=rows, names=["1", "2", "3"], templates=["v", "v", "w"])
    read = independent.read_rows(tmp_path / "rows.npz")
    assert read["v"].tolist() == [np.float32(0.6), np.float32(0.8)]  # the mean (1.5, 2) has length 2.5
    assert read["w"].tolist() == [0.0, 1.0]
