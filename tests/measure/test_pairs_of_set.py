"""Accuracy on pairs as a figure of experiments: by hand, of several lists together, and over redrawn people."""

from pathlib import Path

import numpy as np
import pytest

from verisphere.base.vocabulary import Embeddings, Redrawing
from verisphere.decide import accuracy_interval
from verisphere.images import SyntheticFaces
from verisphere.measure.measured_set import MeasuredSet
from verisphere.measure.pairs_of_set import accuracies, pair_rows
from verisphere.measure.set_figures import Figure
from verisphere.study.experiments.compare import figure_title

#: Two folds of a genuine and an impostor pair each, in the layout of tables, and one that has the same images.
FIRST = "left,right,label,fold\na/1,a/2,1,0\na/1,b/1,0,0\nb/1,b/2,1,1\nb/2,c/1,0,1\n"
SECOND = "left,right,label,fold\nc/1,c/2,1,0\na/2,c/2,0,0\na/1,a/3,1,1\nb/1,c/1,0,1\n"


@pytest.fixture
def lists(tmp_path: Path) -> tuple[str, str]:
    for name, text in (("first", FIRST), ("second", SECOND)):
        (tmp_path / f"{name}.csv").write_text(text)
    return str(tmp_path / "first.csv"), str(tmp_path / "second.csv")


def embeddings() -> Embeddings:
    """Cosines of the first list: 1, 0.6 | 0.8, 0.96; of the second: 0, 0.8 | 1, 0.6."""
    rows = {
        "a/1": (1, 0),
        "a/2": (1, 0),
        "a/3": (1, 0),
        "b/1": (0.6, 0.8),
        "b/2": (0, 1),
        "c/1": (0.28, 0.96),
        "c/2": (0.8, 0.6),
    }
    names = np.array([*rows])
    return Embeddings(
        np.array([*rows.values()], np.float32), names, np.array([name.partition("/")[0] for name in names])
    )


def test_one_list_by_hand(lists):
    rows = pair_rows(embeddings(), lists[:1], 0, "faces")
    # fold 0 at the best cut of fold 1, where the genuine pair has 0.8 and the other one 0.96: either all are refused or
    # 0.96 is the cut, and both decide one of two rightly; of the cuts -inf, 0.8 and 0.96, -inf and 0.96 have one right,
    # 0.8 none; the lower middle of the two is -inf: it accepts both pairs of fold 0, of which one is genuine.
    # fold 1 at the best cut of fold 0, 0.6: it accepts both, of which one is genuine
    figure = accuracies(rows, Redrawing(20))
    assert list(figure) == [None]
    assert figure[None].value == pytest.approx((0.5 + 0.5) / 2)


def test_several_lists_are_also_taken_as_one(lists):
    rows = pair_rows(embeddings(), lists, 0, "faces")
    figures = accuracies(rows, Redrawing(20))
    assert list(figures) == [None, "first", "second"]
    assert [len(listed.comparisons) for listed in rows.values()] == [8, 4, 4]
    assert sorted(set(rows[None].comparisons.folds.tolist())) == [0, 1]
    assert np.bincount(rows[None].comparisons.folds).tolist() == [4, 4]


def test_a_pair_of_two_lists_is_refused_in_none_and_a_pair_twice_in_its_own(lists):
    first, second = map(Path, lists)
    second.write_text(SECOND.replace("b/1,c/1,0,1", "b/2,c/1,0,1"))  # as in the first list
    assert list(accuracies(pair_rows(embeddings(), lists, 0, "faces"), Redrawing(2))) == [None, "first", "second"]
    first.write_text(f"{FIRST}c/1,b/2,0,1\n")
    with pytest.raises(ValueError, match="1 of 5 pairs repeat an earlier one"):
        pair_rows(embeddings(), lists, 0, "faces")


def test_replicates_are_those_of_the_interval():
    rows = pair_rows(drawn_embeddings(), (), 40, "faces")
    (figure,) = accuracies(rows, Redrawing(50)).values()
    listed = rows[None]
    # decisions of a model that knows everybody
    assert figure.value == 1.0
    interval = accuracy_interval(np.ones(40), listed.people, redrawing=Redrawing(50))
    assert figure.replicates.tolist() == [1.0] * 50
    assert (interval.lower_95, interval.upper_95) == (pytest.approx(0.025 ** (1 / 8)), 1.0)  # eight people


def drawn_embeddings() -> Embeddings:
    """Eight people with six equal rows each."""
    people = np.repeat(np.arange(8), 6)
    return Embeddings(
        np.eye(8, dtype=np.float32)[people], np.array([f"{row}" for row in range(48)]), people.astype(str)
    )


def test_a_title_names_the_list():
    titles = {"accuracy": "accuracy over folds of pairs", "tar": "TAR at FAR {}"}
    assert figure_title(Figure("x", "accuracy", "", "first"), titles) == "accuracy over folds of pairs, first"
    assert figure_title(Figure("x", "tar", "1e-2"), titles) == "TAR at FAR 1e-2"


def test_a_list_that_does_not_fit_is_known_before_the_first_training(lists):
    faces = SyntheticFaces(people=3, images=2, size=48)
    with pytest.raises(ValueError, match=r"faces: .*a/1"):
        MeasuredSet(faces, pairs=lists)
    with pytest.raises(ValueError, match="drawn_pairs is 40, but 3 people have 3 genuine pairs"):
        MeasuredSet(faces, drawn_pairs=40)
    short = Path(lists[0]).with_name("short.csv")
    short.write_text(f"left,right,label\n{faces.names[0]},{faces.names[1]},1\n{faces.names[0]},{faces.names[2]},0\n")
    with pytest.raises(ValueError, match="1 genuine pairs do not make 10 blocks"):
        MeasuredSet(faces, pairs=(str(short),))
    with pytest.raises(ValueError, match="pairs and drawn_pairs are both given"):
        MeasuredSet(faces, pairs=lists, drawn_pairs=40)
