"""The first run of a network from elsewhere, which tests that it returns an embedding of each image."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from verisphere.files.limited_run import SAME, SAME_AGAIN, run_limited
from verisphere.models.callable_network import vectors_of

_BATCHES = (1, 2)
_OF_CHANCE = "gives other numbers for the same image in a second run: it draws them at random"
_OF_OTHERS = "an image's embedding depends on the other images of its batch"
#: The error for a network that does not depend on the image.
OF_NO_IMAGE = "gives the same numbers for every image, for noise as for black"
_IN_TRAINING = "a network in training mode does that: export it in evaluation mode"


@dataclass(frozen=True)
class FirstRun:
    """The results of a graph on its first images, and the seconds of one, after one for warm-up.

    It may take only one number of images at a time (`batch`); None if it takes one and two.
    """

    embedding_size: int
    batch: int | None
    seconds: float


def first_run(
    content: bytes, file: Path, asked: dict[str, Any], declared: int | None, memory: int | None = None
) -> FirstRun:
    """Run a graph on images of noise, one, two, and as many as it declares.

    `asked` holds `input`, `output`, `shape` of one image, `numbers`, and `mean` and `scale` of the pixels.
    """
    batches = [*_BATCHES, *([declared] if declared and declared not in _BATCHES else [])]
    words = {name: value for name, value in asked.items() if name != "output"} | {"outputs": [asked["output"]]}
    ran = run_limited(content, file, words, batches, memory)
    for batch, one in ran.items():
        if len(one["shape"]) != 2 or one["shape"][0] != batch:
            raise ValueError(
                f"{file}: gives numbers of shape {one['shape']} for {batch} images; embeddings have a row each"
            )
        if not one["finite"]:
            raise ValueError(f"{file}: gives NaN or infinity for images of noise")
        if not one.get("repeats", True):
            raise ValueError(f"{file}: {_OF_CHANCE}; {_IN_TRAINING}")
    many = max(ran)
    if 1 in ran and many > 1 and not ran[many]["same"]:
        raise ValueError(f"{file}: {_OF_OTHERS}; {_IN_TRAINING}")
    if not all(one.get("varies", True) for one in ran.values()):
        raise ValueError(f"{file}: {OF_NO_IMAGE}")
    free = all(batch in ran for batch in _BATCHES)
    return FirstRun(ran[many]["shape"][1], None if free else min(ran), ran[many]["seconds"])


def first_calls(call: Callable[[np.ndarray], Any], function: str, size: tuple[int, int]) -> FirstRun:
    """Call a function on images of noise, uint8 RGB (n, height, width, 3), one and two, and on black ones."""
    pixels = np.random.default_rng(0).integers(0, 256, (2, *size, 3), dtype=np.uint8)
    (alone,) = vectors_of(call, function, pixels[:1].copy())
    began = time.perf_counter()
    rows = vectors_of(call, function, pixels.copy())
    seconds = (time.perf_counter() - began) / len(pixels)
    largest = np.abs(rows).max()
    again, black = (vectors_of(call, function, images) for images in (pixels.copy(), np.zeros_like(pixels)))
    if not np.abs(rows - again).max() <= SAME_AGAIN * largest:
        raise ValueError(f"{function}: {_OF_CHANCE}")
    if not np.abs(alone - rows[0]).max() <= SAME * largest:
        raise ValueError(f"{function}: {_OF_OTHERS}")
    if np.array_equal(rows, black):
        raise ValueError(f"{function}: {OF_NO_IMAGE}")
    return FirstRun(rows.shape[1], None, seconds)
