"""Sets held in memory."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from jaxtyping import UInt8
from torch import Tensor

from verisphere.base.identity import names_taken
from verisphere.images.decoded_faces import InMemory, in_memory
from verisphere.images.faces import Faces
from verisphere.images.joined import Joined
from verisphere.images.loader import batches
from verisphere.images.select import split_people, with_images


class Numbered(Faces):
    """Images that hold their position in two of their bytes; domains and true identities on request."""

    def __init__(self, count: int, domains: bool = False) -> None:
        self.names = tuple(f"{index}.jpg" for index in range(count))
        self.identities = tuple(str(index % 7) for index in range(count))
        self.domains = tuple("ab"[index % 2] for index in range(count)) if domains else None
        self.true_identities = tuple(str(index % 5) for index in range(count)) if domains else None

    def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
        pixels = torch.tensor(indices)[:, None, None, None].expand(-1, 3, 2, 3)
        return torch.where(torch.arange(3) == 0, pixels // 256, pixels % 256).to(torch.uint8)


@pytest.mark.parametrize("workers", [0, 2])
def test_it_gives_the_same_images(workers: int):
    faces = Numbered(600, domains=True)
    held = in_memory(faces, workers)
    assert (held.names, held.identities, held.domains) == (faces.names, faces.identities, faces.domains)
    assert held.true_identities == faces.true_identities
    everything = list(range(600))
    assert torch.equal(held.images(everything), faces.images(everything))
    assert torch.equal(held.images([599, 3, 3]), faces.images([599, 3, 3]))
    assert held.images([1, 2]).is_contiguous(memory_format=torch.channels_last)


def test_people_are_who_the_rule_of_names_says():
    pixels, names = torch.zeros(3, 3, 4, 4, dtype=torch.uint8), ("1", "2", "3")
    with pytest.raises(ValueError, match=r"'Ann' \('1'\) and 'ann' \('2'\) are one name but for case"):
        InMemory(pixels, names, ("Ann", "ann", "Ben"))
    assert InMemory(pixels, names, ("Ann", "ann", "Ben"), names_rule="merge").people == ("Ann", "Ben")
    with names_taken("exact"):
        exact = InMemory(pixels, names, ("Ann", "ann", "Ben"))
    assert (exact.people, exact.names_rule, in_memory(exact).people) == (("Ann", "Ben", "ann"), "exact", exact.people)
    with pytest.raises(ValueError, match=r"1 of 3 identities is empty or the text of a missing value, .* 'N/A'"):
        InMemory(pixels, names, ("Ann", "N/A", "Ben"))
    with pytest.raises(ValueError, match=r"domain.* 'none'"):
        InMemory(pixels, names, ("Ann", "Ann", "Ben"), domains=("day", "none", "day"))


@pytest.mark.parametrize("person", ["P0", "nan"])
def test_a_set_of_a_foreign_class_is_held_to_the_rule_too(person: str):
    """It may give its columns as it likes; what trains on it asks for its people."""
    faces = Numbered(7)
    faces.identities = (person, *(f"p{number}" for number in range(6)))
    with pytest.raises(ValueError, match=r"are one name but for case|the text of a missing value"):
        print(faces.people)
    with pytest.raises(ValueError, match=r"are one name but for case|the text of a missing value"):
        Joined([Numbered(7), faces], ["a", "b"], same="apart")
    with pytest.raises(ValueError, match=r"are one name but for case|the text of a missing value"):
        with_images(faces, 1)
    if person == "P0":
        faces.names_rule = "merge"
        with pytest.raises(ValueError, match="names are merged, but identities give a person in two spellings"):
            split_people(faces, 0.5)
        faces.names_rule = "exact"
        first, second = split_people(faces, 0.5)
        assert len(first.people) + len(second.people) == 7


def test_true_identities_are_held_to_the_rule_of_names():
    pixels, names = torch.zeros(4, 3, 4, 4, dtype=torch.uint8), ("1", "2", "3", "4")
    people, truth = ("Ann", "Ann", "Ben", "Ben"), ("ann", "Ann", "ben", "Cy")
    with pytest.raises(ValueError, match=r"'Ann' .* and 'ann' .* are one name but for case"):
        InMemory(pixels, names, people, true_identities=truth)
    merged = InMemory(pixels, names, people, true_identities=truth, names_rule="merge")
    assert merged.true_identities is not None
    right = [given == true for given, true in zip(merged.identities, merged.true_identities, strict=True)]
    assert right == [True, True, True, False]
    with pytest.raises(ValueError, match="1 of 8 identities is empty or the text of a missing value"):
        InMemory(pixels, names, people, true_identities=("Ann", "Ann", "nan", "Ben"))
    faces = Numbered(4)
    faces.true_identities = ("0", "1", "two", "TWO")
    with pytest.raises(ValueError, match="are one name but for case"):
        print(faces.people)


def test_people_are_spelled_as_their_images_are():
    """An unreadable image leaves its person a class."""
    pixels, names = torch.zeros(3, 3, 4, 4, dtype=torch.uint8), ("1", "2", "3")
    numbers = InMemory(pixels, names, ("52.0", "7.0", "-1"), people=("7.0", "52.0"))
    assert (numbers.people, numbers.labels.tolist()) == (("7", "52"), [1, 0, -1])
    merged = InMemory(pixels, names, ("Ann", "ann", "Ann"), people=("ann",), names_rule="merge")
    assert (merged.people, merged.labels.tolist()) == (("Ann",), [0, 0, 0])


@pytest.mark.usefixtures("unchecked")
def test_columns_may_be_arrays_and_a_set_may_be_frozen():
    pixels = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    assert InMemory(pixels, ("1", "2"), ("a", "b"), domains=np.array(["x", "y"])).people == ("a", "b")

    @dataclass(frozen=True, eq=False)
    class Frozen(Faces):
        names = "1", "2"
        identities = "a", "b"

        def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
            return pixels[list(indices)]

    faces = Frozen()
    faces.take_rule("exact")
    assert (faces.names_rule, faces.people) == ("exact", ("a", "b"))


def test_people_that_lack_somebody_on_an_image_are_refused():
    pixels = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    assert InMemory(pixels, ("1", "2"), ("Ann", "-1"), people=("Ann", "Ben")).labels.tolist() == [0, -1]
    with pytest.raises(ValueError, match="people lacks 'Cy', who is on an image"):
        InMemory(pixels, ("1", "2"), ("Ann", "Cy"), people=("Ann", "Ben"))


def test_numbers_of_a_foreign_class_stay_as_it_writes_them():
    faces = Numbered(7)
    faces.identities = tuple(f"{number}.0" for number in range(7))
    assert faces.people == faces.identities
    faces.true_identities = tuple(map(str, range(7)))
    assert faces.people == faces.identities


def test_what_it_hands_out_is_a_copy():
    held = in_memory(Numbered(3))
    held.images([0]).fill_(9)
    assert torch.equal(held.images([0]), Numbered(3).images([0]))


def test_it_can_be_copied_and_read_by_workers():
    held = in_memory(Numbered(30))
    assert held.domains is held.true_identities is None
    assert torch.equal(pickle.loads(pickle.dumps(held)).images([29]), held.images([29]))
    read = torch.cat([batch.images for batch in batches(held, torch.arange(30), 8, workers=2)])
    assert torch.equal(read, held.pixels)


def test_progress_is_told_the_steps():
    told = []

    def progress(items, description, total=None):
        told.append((description, total))
        yield from items

    in_memory(Numbered(600), progress=progress)
    assert told == [("reading images", 3)]


def test_wrong_sets_are_refused():
    with pytest.raises(ValueError, match="the set is empty"):
        in_memory(Numbered(0))
    with pytest.raises(ValueError, match="identities has 1 entries for 2 images"):
        InMemory(torch.zeros(2, 3, 4, 4, dtype=torch.uint8), ("a", "b"), ("x",))
    with pytest.raises(ValueError, match="true_identities has 3 entries for 2 images"):
        InMemory(torch.zeros(2, 3, 4, 4, dtype=torch.uint8), ("a", "b"), ("x", "y"), true_identities=("x", "y", "z"))
