"""The batches of a training: what comes with each image."""

from pathlib import Path

import numpy as np
import torch

from tiny_runs import read
from verisphere.images import InMemory
from verisphere.images.loader import UnreadableImages
from verisphere.images.packs.columns import Coded
from verisphere.train.preparation import length_of
from verisphere.train.processes import divided
from verisphere.train.samples import samples


def test_domains_are_numbered_alike_whether_or_not_their_column_keeps_others(recipe: Path):
    made, rows = read(recipe).recipe, np.arange(20) % 2
    pixels = torch.arange(20, dtype=torch.uint8).view(20, 1, 1, 1).expand(-1, 3, 16, 16)
    texts = tuple(map(str, rows))
    numbers = []
    for domains in (("dark", "light"), Coded(("bright", "dark", "light"), rows + 1)):
        column = domains if isinstance(domains, Coded) else tuple(domains[row] for row in rows)
        faces = InMemory(pixels, tuple(map(str, range(20))), texts, column)
        given = samples(made, faces, torch.device("cpu"), length_of(made), divided(6), 0, UnreadableImages(0))
        numbers.append(next(given).domains.tolist())
    assert numbers[0] == numbers[1]
    assert set(numbers[0]) == {0, 1}


def test_a_shuffle_buffer_gives_another_order_in_every_epoch(recipe: Path):
    made = read(recipe, "--shuffle_buffer", "5", "--augment.flip", "0").recipe
    pixels = torch.arange(20, dtype=torch.uint8).view(20, 1, 1, 1).expand(-1, 3, 16, 16)
    faces = InMemory(pixels, tuple(map(str, range(20))), tuple(str(row % 5) for row in range(20)))
    length = length_of(made)
    given = samples(made, faces, torch.device("cpu"), length, divided(6), 0, UnreadableImages(0))
    batches = [sample.records(range(6)) for sample in given]
    assert len(batches) >= 2 * length.steps_per_epoch
    assert batches[: length.steps_per_epoch] != batches[length.steps_per_epoch : 2 * length.steps_per_epoch]
