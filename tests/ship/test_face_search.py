"""Photographs in batches: how many are in memory, what is read ahead, and one that cannot be read among others."""

import io
from functools import partial

import numpy as np
import pytest
from PIL import Image

from verisphere.ship import face_search
from verisphere.ship.face_search import aligned_faces, search_photographs

FIND = aligned_faces((4, 4))


def png(seed: int, height: int = 4, width: int = 4) -> bytes:
    data = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(data, "PNG")
    return data.getvalue()


def photographs(*files: bytes):
    return [f"{number}.png" for number in range(len(files))], [partial(bytes, data) for data in files]


def batch_sizes(names, contents, at_once=32) -> list[int]:
    return [len(batch) for batch in face_search._decoded(names, contents, at_once)]


def test_batches_that_fit(monkeypatch):
    names, contents = photographs(png(1), b"no image", png(2), png(3), png(4))
    assert batch_sizes(names, contents) == [5]
    monkeypatch.setattr(face_search, "_PIXELS_AT_ONCE", 4 * 4 * 2)
    assert batch_sizes(names, contents) == [3, 2]  # the second has no pixels
    assert batch_sizes(names, contents, at_once=1) == [1] * 5


@pytest.mark.parametrize("at_once", [1, 2, 32])
def test_every_photograph_in_order_whatever_the_batches(at_once):
    names, contents = photographs(png(1), b"no image", png(2, width=5), png(3))
    first, broken, large, last = search_photographs(names, contents, FIND, at_once)
    assert [face.status for face in (first, broken, large, last)] == ["aligned", "unreadable", "no face", "aligned"]
    assert [face.faces for face in (first, broken, large, last)] == [1, 0, 0, 1]
    assert (
        broken.reason == "not an image: the file's first bytes match no known format"
    )  # without the name, which the caller has
    assert large.reason.startswith("5 x 4 pixels, but aligned crops are 4 x 4")
    np.testing.assert_array_equal(last.pixels, np.asarray(Image.open(io.BytesIO(contents[3]()))))


def test_reading_is_one_step_ahead_and_no_more():
    made: list[int] = []

    def steps():
        for index in range(5):
            made.append(index)
            yield [index]

    seen = []
    for batch in face_search._one_ahead(steps()):
        seen.append(batch[0])
        assert len(made) <= batch[0] + 2
    assert seen == [0, 1, 2, 3, 4]


def test_an_error_while_reading_ahead_is_raised():
    def gone() -> bytes:
        raise OSError("the disk is gone")

    names, contents = photographs(png(1), b"")
    faces = search_photographs(names, [contents[0], gone], FIND, at_once=1)
    assert next(faces).status == "aligned"
    with pytest.raises(OSError, match="the disk is gone"):
        next(faces)
