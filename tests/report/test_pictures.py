"""Pictures on a page: nobody fills it alone, and pictures are the images they are called after."""

import base64
import io

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from verisphere.images.decoded_faces import InMemory
from verisphere.report.pictures import PICTURE_SIDE, data_uri, pictures, varied


def decoded(uri: str) -> np.ndarray:
    head, data = uri.split(",")
    assert head == "data:image/jpeg;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


def test_the_first_pairs_of_different_people_are_chosen():
    people = np.array([[0, 1], [1, 2], [2, 3], [0, 3], [4, 5], [6, 6]])
    assert varied(people, 4) == [0, 2, 4, 5]
    assert varied(people, 2) == [0, 2]
    assert varied(people, 9, per_person=2) == [0, 1, 2, 3, 4, 5]
    assert varied(np.empty((0, 2), np.int64), 3) == []


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40),
    st.integers(1, 8),
    st.integers(1, 3),
)
def test_nobody_is_in_more_pairs_than_allowed(pairs: list[tuple[int, int]], count: int, per_person: int):
    people = np.array(pairs)
    chosen = varied(people, count, per_person)
    assert chosen == sorted(chosen)
    assert len(chosen) <= count
    seen = [sum(person in pair for pair in people[chosen].tolist()) for person in range(7)]
    assert max(seen) <= per_person
    if len(chosen) < count:  # whatever was passed over has someone who was shown often enough
        for position in set(range(len(people))) - set(chosen):
            before = people[[at for at in chosen if at < position]].tolist()
            assert any(sum(person in pair for pair in before) == per_person for person in people[position])


def test_a_picture_is_the_image_of_its_name():
    colours = torch.tensor([[250, 5, 5], [5, 250, 5], [5, 5, 250]], dtype=torch.uint8)
    pixels = colours[:, :, None, None].expand(3, 3, 16, 12)
    faces = InMemory(pixels, ("red", "green", "blue"), ("a", "b", "c"))
    found = pictures(faces, ["blue", "red", "blue"])
    assert set(found) == {"blue", "red"}
    for name, colour in (("red", colours[0]), ("blue", colours[2])):
        image = decoded(found[name])
        assert image.shape == (16, 12, 3)
        assert np.abs(image.astype(int) - colour.numpy()).max() < 8  # JPEG


def test_a_large_image_is_shrunk():
    uri = data_uri(torch.zeros(3, 400, 300, dtype=torch.uint8))
    assert decoded(uri).shape == (PICTURE_SIDE, PICTURE_SIDE * 3 // 4, 3)


def test_an_image_that_is_not_there_is_named():
    faces = InMemory(torch.zeros(1, 3, 4, 4, dtype=torch.uint8), ("red",), ("a",))
    with pytest.raises(ValueError, match=r"1 of 2 images are not in it, the first is 'blue'; are these the images"):
        pictures(faces, ["red", "blue"])
