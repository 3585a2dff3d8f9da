"""The clusters of faces at a threshold are the same for every number of threads; and links hold."""

from typing import Any

import numpy as np
import pytest
import torch

from verisphere.base.vocabulary import Embeddings
from verisphere.decide.purity import UNSURE, figures_of
from verisphere.ship.clusters.face_tree import Cut, FaceTree


def library(faces: int = 400, people: int = 60, seed: int = 0, noise: float = 0.9) -> Embeddings:
    """Faces of people, with some rows that are equal to the last bit."""
    random = np.random.default_rng(seed)
    centers = random.standard_normal((people, 24))
    person = random.integers(0, people, faces)
    rows = (centers[person] + noise * random.standard_normal((faces, 24))).astype(np.float32)
    rows[-5:], person[-5:] = rows[:5], person[:5]
    return Embeddings(rows, [f"face{row:03}" for row in range(faces)], person.astype(str))


def faces_of(rows: object, names: str) -> Embeddings:
    """Faces that are called by a letter each."""
    return Embeddings(np.array(rows, np.float32), list(names), ["?"] * len(names))


def same(left: Cut, right: Cut) -> bool:
    """Whether two cuts are the same to the bit."""
    columns = ("cluster", "own", "other", "nearest")
    return all(getattr(left, name).tobytes() == getattr(right, name).tobytes() for name in columns)


@pytest.mark.parametrize("threads", [1, 2])
def test_no_number_of_threads_changes_a_cluster(threads: int):
    faces = library()
    cut = FaceTree(faces, 0.3).cut(0.4)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        again = FaceTree(faces, 0.3).cut(0.4)
    finally:
        torch.set_num_threads(before)
    assert same(cut, again)


def test_people_who_are_far_apart_are_found():
    faces = library(noise=0.3)
    person = np.unique(faces.identities, return_inverse=True)[1]
    figures = figures_of(FaceTree(faces, 0.3).cut(0.75).cluster, person)
    assert figures.f > 0.99


def test_the_largest_cluster_is_first_and_of_equals_that_with_the_first_row():
    rows = np.repeat(np.eye(4), [1, 2, 3, 2], 0)
    assert FaceTree(faces_of(rows, "abcdefgh"), 0.5).cut(0.5).cluster.tolist() == [3, 1, 1, 0, 0, 0, 2, 2]


def test_averages_with_its_own_and_the_nearest_other_cluster_by_hand():
    cut = FaceTree(faces_of([[1, 0], [0.8, 0.6], [0, 1], [0, 1]], "abcd"), 0.5).cut(0.5)
    assert cut.cluster.tolist() == [0, 0, 1, 1]
    assert cut.own == pytest.approx([0.8, 0.8, 1, 1], abs=1e-6)
    assert cut.other == pytest.approx([-np.inf, 0.6, 0.3, 0.3], abs=1e-6)  # a has no pair with the others
    assert cut.nearest.tolist() == [-1, 1, 0, 0]


def test_a_face_that_is_nearer_to_another_cluster_is_unsure():
    """b scores 0.8 with a and 0.6 with c and d: sure, unless a margin of more than 0.2 is asked for."""
    tree = FaceTree(faces_of([[1, 0], [0.8, 0.6], [0, 1], [0, 1]], "abcd"), 0.5)
    assert tree.cut(0.5, 0.19).cluster.tolist() == [0, 0, 1, 1]
    assert tree.cut(0.5, 0.21).cluster.tolist() == [0, UNSURE, 1, 1]


def test_a_face_is_unsure_whose_cluster_has_grown_away_from_it():
    """b joins a at 0.9, f joins both though it scores 0.585 with b, which has 0.85 with c, d and e."""
    turned = np.deg2rad([0, 25.84, 57.63, 57.63, 57.63, -28.36])
    cut = FaceTree(faces_of(np.stack([np.cos(turned), np.sin(turned)], 1), "abcdef"), 0.6).cut(0.65)
    assert cut.own[1] == pytest.approx((0.9 + 0.585) / 2, abs=1e-3)
    assert cut.other[1] == pytest.approx(0.85, abs=1e-3)
    assert cut.cluster.tolist() == [0, UNSURE, 1, 1, 1, 0]


def test_a_face_alone_is_in_a_cluster_of_its_own():
    cut = FaceTree(faces_of([[3, 4]], "a"), 0.5).cut(0.6)
    assert (cut.cluster.tolist(), cut.nearest.tolist()) == ([0], [-1])
    assert np.isnan(cut.own).all()


def test_two_faces_that_are_apart_are_two_people():
    faces = faces_of([[3, 4]] * 5, "abcde")
    assert FaceTree(faces, 0.5).cut(0.9).cluster.tolist() == [0] * 5
    cut = FaceTree(faces, 0.5, apart=[(0, 1)]).cut(0.9)
    assert cut.cluster[0] != cut.cluster[1]
    assert len(set(cut.cluster.tolist())) == 2


def test_links_hold_by_way_of_others():
    together = [(3, 1), (0, 3)]
    assert FaceTree(faces_of(np.eye(4), "abcd"), 0.5, together).cut(0.6).cluster.tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ({"together": [(0, 1)], "apart": [(1, 0)]}, "links contradict each other: 'a' and 'b' must be together"),
        ({"together": [(0, 1), (1, 2)], "apart": [(0, 2)]}, "links contradict each other: 'b' and 'c'"),
        ({"person": np.array([4, -1, 4]), "apart": [(2, 0)]}, "links contradict each other: 'a' and 'c'"),
        ({"person": np.array([4, 2, -1]), "together": [(2, 0), (1, 2)]}, "links contradict each other: 'b' and 'c'"),
    ],
)
def test_links_that_cannot_hold_are_refused(links: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        FaceTree(faces_of(np.eye(3), "abc"), 0.5, **links)


@pytest.mark.parametrize("floor", [-1.0, 2.0, float("nan")])
def test_a_floor_that_is_no_score_is_refused(floor: float):
    with pytest.raises(ValueError, match="a threshold of scores lies above -1 and"):
        FaceTree(library(10, 2), floor)


def test_a_threshold_below_the_floor_is_refused():
    with pytest.raises(ValueError, match=r"a threshold of 0\.4 is below the floor of these merges, 0\.5"):
        FaceTree(library(10, 2), 0.5).cut(0.4)
