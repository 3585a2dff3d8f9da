"""Parts of a set chosen by person."""

from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from jaxtyping import UInt8
from torch import Tensor

from verisphere.images.decoded_faces import InMemory
from verisphere.images.faces import Faces
from verisphere.images.select import require_people, split_people, with_images, with_people


class Numbered(Faces):
    """Images of one pixel that hold their position."""

    def __init__(self, identities: str) -> None:
        self.identities = tuple(identities)
        self.names = tuple(f"{person}/{index}" for index, person in enumerate(identities))

    def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
        return torch.tensor(indices, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 1, 1)


FACES = Numbered("abacadb")


def test_named_people_in_the_sets_order():
    chosen = with_people(FACES, ("d", "b"))
    assert chosen.names == ("b/1", "d/5", "b/6")
    assert chosen.people == ("b", "d")
    assert chosen.images([1, 2])[:, 0, 0, 0].tolist() == [5, 6]


def test_missing_people_are_counted():
    with pytest.raises(ValueError, match="2 of 3 people are not in the set, first 'x'; names there look like 'a'"):
        with_people(FACES, ["x", "a", "y"])


def test_people_in_another_spelling_are_those_of_a_set_that_merges_names():
    pixels = torch.zeros(4, 3, 8, 8, dtype=torch.uint8)
    names, people = tuple("1234"), ("Ann", "Ben", "Ann", "52")
    merged = InMemory(pixels, names, people, names_rule="merge")
    assert with_people(merged, ["ANN", "52.0"]).identities == ("Ann", "Ann", "52")
    with pytest.raises(ValueError, match=r"'ANN' \(entry 1 of the list\) and 'Ann' \(in the set\) are one name but"):
        with_people(InMemory(pixels, names, people), ["ANN"])
    with pytest.raises(ValueError, match="1 of 1 people are not in the set, first 'ANN'"):
        with_people(InMemory(pixels, names, people, names_rule="exact"), ["ANN"])


def test_enough_images():
    assert with_images(FACES, 2).names == ("a/0", "b/1", "a/2", "a/4", "b/6")
    assert with_images(FACES, 2, 2).names == ("a/0", "b/1", "a/2", "b/6")
    assert with_images(FACES, 1, 1).names == ("a/0", "b/1", "c/3", "d/5")
    assert with_images(FACES).names == FACES.names


def test_impossible_numbers_of_images():
    with pytest.raises(ValueError, match="no person has at least 4 images; the most that one has is 3"):
        with_images(FACES, 4)
    for at_least, at_most, seen in ((0, None, "at least 0 images"), (2, 1, "at least 2 and at most 1 images")):
        with pytest.raises(ValueError, match=f"people with {seen}; allowed are 1 or more, and a most that is no less"):
            with_images(FACES, at_least, at_most)


@pytest.mark.parametrize("share", [0.01, 0.25, 0.5, 0.99])
def test_a_split_shares_no_person_and_loses_no_image(share: float):
    first, second = split_people(FACES, share, seed=3)
    assert not set(first.people) & set(second.people)
    assert sorted(first.names + second.names) == sorted(FACES.names)
    assert len(first.people) == min(max(round(share * 4), 1), 3)


def test_a_split_depends_on_the_seed_and_the_people_alone():
    assert split_people(FACES, 0.5, 1)[0].people == split_people(Numbered("dcbaabcd"), 0.5, 1)[0].people
    drawn = Counter(split_people(FACES, 0.5, seed)[0].people for seed in range(60))
    assert len(drawn) == 6  # every pair out of four


def test_impossible_splits():
    for share in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError, match=r"share is .* between 0 and 1"):
            split_people(FACES, share, 0)
    with pytest.raises(ValueError, match="1 people found"):
        split_people(Numbered("aaa"), 0.5, 0)


def test_too_few_people():
    require_people(FACES, 4)
    with pytest.raises(ValueError, match=r"1 people found \('a'\) but at least 2 are needed; is each person's folder"):
        require_people(Numbered("aa"))
    with pytest.raises(ValueError, match=r"0 people found \(none\)"):
        require_people(Numbered(""), 1)


def test_images_of_nobody_are_all_kept():
    faces = InMemory(torch.zeros(5, 3, 1, 1, dtype=torch.uint8), tuple("vwxyz"), ("-1", "a", "-1", "b", "a"))
    assert (faces.people, faces.labels.tolist()) == (("a", "b"), [-1, 0, -1, 1, 0])
    assert with_images(faces, 2).names == ("v", "w", "x", "z")
    assert with_images(faces, 1, 1).names == ("v", "w", "x", "y")


def test_a_set_of_nobody_alone_says_so():
    faces = InMemory(torch.zeros(2, 3, 1, 1, dtype=torch.uint8), ("a", "b"), ("-1", "-1"))
    for refused in (lambda: require_people(faces), lambda: with_images(faces, 2)):
        with pytest.raises(ValueError, match=r"nobody is known on any of 2 images \(identity -1\); a verification set"):
            refused()
