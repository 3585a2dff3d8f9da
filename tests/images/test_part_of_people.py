"""Parts of a set by person: disjoint, complete, and the same whatever images there are."""

from itertools import pairwise

import pytest
import torch

from verisphere.images import InMemory, PartOfPeople

SHARES = [0.0, 0.5, 0.75, 1.0]


def faces(images: int) -> InMemory:
    people = (*(f"p{person}" for person in range(9) for _ in range(images)), "-1")
    names = tuple(f"{number}.png" for number in range(len(people)))
    return InMemory(torch.zeros(len(people), 3, 4, 4, dtype=torch.uint8), names, people)


def parts(images: int, seed: int = 0) -> list[set[str]]:
    of = faces(images)
    return [set(PartOfPeople(of, first, last, seed).people) for first, last in pairwise(SHARES)]


def test_parts_share_nobody_and_leave_nobody_out():
    divided = parts(images=3)
    assert [len(part) for part in divided] == [4, 3, 2]  # round(4.5) = 4, round(6.75) = 7
    assert set.union(*divided) == {f"p{person}" for person in range(9)}
    assert len(PartOfPeople(faces(3), 0.0, 0.5)) == 12  # all their images, and none of nobody


def test_they_depend_on_the_people_and_the_seed_alone():
    assert parts(images=1) == parts(images=3)
    assert parts(images=3) != parts(images=3, seed=1)


@pytest.mark.parametrize(("first", "last"), [(0.5, 0.5), (0.5, 0.2), (-0.1, 1.0), (0.0, 1.1), (0.0, float("nan"))])
def test_other_shares_are_refused(first: float, last: float):
    with pytest.raises(ValueError, match=r"allowed are two shares in \[0, 1\] in this order"):
        PartOfPeople(faces(2), first, last)


def test_a_part_without_people_is_refused():
    with pytest.raises(ValueError, match=r"of 9 people none lies between the shares 0.0 and 0.01"):
        PartOfPeople(faces(2), 0.0, 0.01)
