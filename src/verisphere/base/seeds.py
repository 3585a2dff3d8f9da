"""Seeds that follow from several numbers, so that no two streams of random numbers share one."""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """The purposes of random numbers; each has a separate stream."""

    AUGMENTATION = 1
    NETWORK = 2
    CENTERS = 3
    CLASSES = 4
    NOISE = 5
    LABELS = 6
    SEARCH = 7
    INVERSION = 8


def seed_start_weights(seed: int) -> None:
    """Seed the random numbers that a network's start weights are drawn from.

    This seed is older than `Stream` and stays unchanged: another one would change the start weights of every recipe.
    """
    import torch  # here, so that importing verisphere does not load it

    torch.manual_seed(seed)


def mixed_seed(stream: Stream, *numbers: int) -> int:
    """A 32-bit seed from a purpose and numbers such as a recipe's seed and a step.

    The seed has 32 bits because PyTorch's CPU generator ignores higher ones: seeds that differ only in those would give
    the same numbers.

    >>> mixed_seed(Stream.NETWORK, 0, 1) == mixed_seed(Stream.NETWORK, 1, 0)
    False
    """
    return int(np.random.SeedSequence((stream, *numbers)).generate_state(1, np.uint32)[0])


_GROUPS = 1  # distinguishes the order of groups from that of images


def image_order_seed(seed: int, epoch: int) -> int:
    """The seed of the order of images in an epoch.

    This seed is older than `Stream` and stays unchanged: another one would change the order of every training. Seed and
    epoch are mixed, not added: seed 0 in epoch 1 must not repeat seed 1 in epoch 0.
    """
    return int(np.random.SeedSequence((seed, epoch)).generate_state(1, np.uint64)[0]) >> 1


def group_order_seed(seed: int, epoch: int) -> int:
    """The seed of the order of groups of images in an epoch; see `image_order_seed`."""
    return int(np.random.SeedSequence((seed, epoch, _GROUPS)).generate_state(1, np.uint32)[0])


def numpy_generator(seed: int) -> np.random.Generator:
    """The generator of a draw that the caller seeds directly, such as a bootstrap or a split."""
    check_seed(seed)
    return np.random.default_rng(seed)


def check_seed(seed: int) -> None:
    """Refuse a negative seed."""
    if seed < 0:
        raise ValueError(f"seed must be 0 or more, got {seed}")
