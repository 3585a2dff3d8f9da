"""Cosines of generated images with photographs, by hand."""

import numpy as np
import pytest
import torch

from verisphere.images import InMemory
from verisphere.study.invert.findings import Comparison, Cosines, Likeness
from verisphere.study.invert.likeness import Compared
from verisphere.study.invert.photographs import chosen_people, labels_of, photographs_of

PEOPLE = ("a", "a", "b", "b", "b", "c", "d")


def faces() -> InMemory:
    pixels = torch.arange(7, dtype=torch.uint8)[:, None, None, None].expand(7, 3, 8, 8)
    return InMemory(pixels, [f"{person}/{place}" for place, person in enumerate(PEOPLE)], PEOPLE)


def test_photographs_of_an_open_set_do_not_compare_an_image_with_its_own():
    photos = photographs_of(faces(), ["b", "a", "c"], 3, 0, given=[3, 0, 5])
    assert photos.own == ((2, 4), (1,), ())
    assert photos.others == (6,)
    assert photos.people == ("b", "a", "c")


def test_photographs_of_a_closed_set_compare_with_all_of_a_person():
    photos = photographs_of(faces(), ["b", "d"], 3, 0)
    assert (photos.given, photos.own) == ((2, 6), ((2, 3, 4), (6,)))
    assert sorted(photos.others) == [0, 5]
    with pytest.raises(ValueError, match="no photograph of 'z'"):
        photographs_of(faces(), ["z"], 1, 0)


def test_a_copy_of_a_photograph_is_no_other_photograph():
    """It would make an image's target a photograph that was not its target, and two photographs of a person equal."""
    pixels = torch.tensor([0, 0, 2, 3, 2, 5, 6], dtype=torch.uint8)[:, None, None, None].expand(7, 3, 8, 8)
    copies = InMemory(pixels, faces().names, PEOPLE)
    assert photographs_of(copies, ["a", "b"], 2, 0, given=[0, 4]).own == ((), (3,))
    assert photographs_of(copies, ["a", "b"], 2, 0).own == ((0,), (2, 3))


def test_people_with_two_photographs_come_first():
    for seed in range(5):
        assert set(chosen_people(faces(), 2, seed)) == {"a", "b"}
        assert set(chosen_people(faces(), 4, seed)) == {"a", "b", "c", "d"}
    with pytest.raises(ValueError, match="4 people, and 5 images"):
        chosen_people(faces(), 5, 0)


def test_labels_of_people():
    assert labels_of(["b", "a"], ("a", "b")).tolist() == [1, 0]
    with pytest.raises(ValueError, match="'c' is none of the 2 people"):
        labels_of(["c"], ("a", "b"))


def compared() -> Compared:
    photos = photographs_of(faces(), ["a", "b"], 2, 0, given=[0, 2])
    axis = np.eye(3)
    tilted = np.array([0.6, 0.8, 0.0])
    generated, own = np.stack([axis[0], tilted]), np.stack([tilted, axis[1], axis[2]])
    others = np.stack([axis[2]] * len(photos.others))
    return Compared("judge", photos, generated, axis[:2], others, own, np.array([0, 1, 1]))


def test_the_cosines_by_hand():
    found = compared().likeness()
    assert found.same_photo is not None
    assert (found.same_photo.count, found.same_photo.mean) == (2, pytest.approx((1.0 + 0.8) / 2))
    assert found.same_photo.quantile_95 == pytest.approx(0.99)
    assert found.same_person is not None
    assert (found.same_person.count, found.same_person.mean) == (3, pytest.approx((0.6 + 0.8 + 0.0) / 3))
    # the first with b's photographs (0; 0, 0), the second with a's (0.6; 1.0), both with c and d (0)
    assert found.others is not None
    assert (found.others.count, found.others.mean) == (3 + 2 + 4, pytest.approx(1.6 / 9))
    assert found.real_same_person is not None
    assert found.real_same_person.mean == pytest.approx((0.6 + 1.0 + 0.0) / 3)
    assert [entry.tolist() for entry in compared().to_own] == [[0.6], [0.8, 0.0]]


def test_a_pair_of_photographs_is_one_impostor_pair_however_many_images_stand_for_its_people():
    photos = photographs_of(faces(), ["a", "a", "b", "b"], 2, 0, given=[0, 1, 2, 2])
    rows = np.linalg.qr(np.random.default_rng(0).standard_normal((7, 7)))[0]
    own = [place for places in photos.own for place in places]
    owner = np.repeat(np.arange(4), [len(places) for places in photos.own])
    sides = rows[list(photos.given)], rows[list(photos.others)], rows[own]
    found = Compared("judge", photos, rows[:4], *sides, owner).likeness(["0.1"], ["1", "2", "3", "4"])
    assert found.points[0].impostor_total == 2 * 3 + 2 * 2 + 3 * 2 + 1  # of a, b, c and d; 21 pairs, 4 of one person
    assert found.real_points[0].impostor_total == 17


def test_images_of_the_most_similar_person_count_once_for_each_person():
    """All images of noise are given to one person, and would count as so many independent comparisons."""
    photos = photographs_of(faces(), ["a", "a", "b", "b"], 2, 0, given=[0, 1, 2, 2])
    rows = np.linalg.qr(np.random.default_rng(0).standard_normal((7, 7)))[0]
    own = [place for places in photos.own for place in places]
    owner = np.repeat(np.arange(4), [len(places) for places in photos.own])
    sides = rows[list(photos.given)], rows[list(photos.others)], rows[own]
    found = Compared("judge", photos, rows[:4], *sides, owner)
    stranger = Comparison("c", *photos.faces.names[:2], 0.0)
    names = ["1", "2", "3", "4"]
    alone, chosen = found.likeness(["0.1"], names), found.likeness(["0.1"], names, [stranger])
    people = [person for person, places in zip("aabb", photos.own, strict=True) if places]
    assert alone.points[0].genuine_total == len(people)
    assert chosen.points[0].genuine_total == len(set(people))
    assert len(chosen.comparisons) == len(people)
    without = found.likeness(["0.1"], names, [])  # also where no stranger can be compared
    assert without.points[0].genuine_total == len(set(people))
    # each image beside the photograph that the other person is compared with
    assert [found.other_points[0].genuine_total for found in (alone, chosen)] == [4, 2]


@pytest.mark.parametrize(("own", "recognised"), [(0.31, True), (0.29, False), (None, None)])
def test_recognised_is_a_mean_beyond_the_quantile_of_others(own: float | None, recognised: bool | None):
    others = Cosines(100, 0.0, 0.3)
    found = Likeness("judge", None, None if own is None else Cosines(4, own, 0.9), others, None, None)
    assert found.recognised is recognised


def test_distances_are_those_of_as_many_real_photographs():
    (kernel,) = compared().distances()
    assert (kernel.name, kernel.images) == ("kernel", 2)
    assert kernel.real == pytest.approx(1 + 8 - 2 * 1)
