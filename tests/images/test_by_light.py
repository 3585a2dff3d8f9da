"""Domains by brightness: equal shares, from dark to bright, of any set."""

import pytest
import torch

from verisphere.images import ByLight
from verisphere.images.decoded_faces import InMemory


def faces(levels: list[int]) -> InMemory:
    pixels = torch.tensor(levels, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 4, 4).contiguous()
    names = tuple(f"image {number}" for number in range(len(levels)))
    return InMemory(pixels, names, tuple("ab"[number % 2] for number in range(len(levels))), ("x",) * len(levels))


def test_each_domain_has_its_share_from_dark_to_bright():
    lit = ByLight(faces([200, 10, 90, 30, 250, 100]))
    assert lit.domains == ("bright", "dark", "medium", "dark", "bright", "medium")
    assert lit.names == tuple(f"image {number}" for number in range(6))
    assert torch.equal(lit.images([4])[0], torch.full((3, 4, 4), 250, dtype=torch.uint8))
    assert lit.labels.tolist() == [0, 1] * 3


def test_shares_differ_by_one_where_images_do_not_divide_and_equal_ones_go_in_their_order():
    lit = ByLight(faces([7] * 5), names=("night", "day"))
    assert lit.domains == ("night", "night", "night", "day", "day")


def test_green_counts_most():
    pixels = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    pixels[0, 2], pixels[1, 1] = 250, 120  # blue, green
    assert ByLight(InMemory(pixels, ("blue", "green"), ("a", "b")), ("dark", "bright")).domains == ("dark", "bright")


@pytest.mark.parametrize("names", [["one"], ["one", "one"], []])
def test_what_is_no_division_is_refused(names):
    with pytest.raises(ValueError, match="there must be at least two domains, each named once"):
        ByLight(faces([1, 2]), names)


def test_more_domains_than_images_are_refused():
    with pytest.raises(ValueError, match="2 images cannot be 3 domains"):
        ByLight(faces([1, 2]))
