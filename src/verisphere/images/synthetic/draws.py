"""Random numbers without state: every draw is a hash of its purpose, so any subset in any order has the same bits.

The hash is SplitMix64 (Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195) on int64 tensors, whose products wrap.
Draws use only integers and single additions and products of floats, which IEEE 754 rounds identically for every batch
size, thread count and vector width; the exp or log of a library does not guarantee that.
"""

from functools import cache

import torch
from jaxtyping import Float, Int64
from torch import Tensor


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


GOLDEN = _signed(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: SplitMix64's step between counters
FIRST_FACTOR = _signed(0xBF58476D1CE4E5B9)
SECOND_FACTOR = _signed(0x94D049BB133111EB)

SIXTEEN_BITS = (1 << 16) - 1
PLATE_BITS = 20


def _shift_right(words: Int64[Tensor, "*shape"], bits: int) -> Int64[Tensor, "*shape"]:
    """The logical right shift; the operator of torch repeats the sign bit."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def scramble(words: Int64[Tensor, "*shape"]) -> Int64[Tensor, "*shape"]:
    """SplitMix64's bijection of 64-bit words, in which every input bit affects every output bit."""
    words = (words ^ _shift_right(words, 30)) * FIRST_FACTOR
    words = (words ^ _shift_right(words, 27)) * SECOND_FACTOR
    return words ^ _shift_right(words, 31)


def keys(parents: Int64[Tensor, "*shape"], numbers: Int64[Tensor, "*shape"]) -> Int64[Tensor, "*shape"]:
    """The keys of the children with these numbers, one level down in a tree such as seed / person / photograph."""
    return scramble(scramble(parents + GOLDEN) + numbers * GOLDEN)


def words(key: Int64[Tensor, " rows"], count: int) -> Int64[Tensor, "rows {count}"]:
    """`count` independent 64-bit words for each key."""
    steps = torch.arange(1, count + 1, device=key.device) * GOLDEN
    return scramble(key[:, None] + steps)


def uniforms(key: Int64[Tensor, " rows"], count: int) -> Float[Tensor, "rows {count}"]:
    """`count` draws for each key, uniform on [0, 1), in multiples of 2^-24."""
    return _shift_right(words(key, count), 40).float() * 2.0**-24


def bells(word: Int64[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """A nearly normal draw (mean 0, variance 1, absolute value at most 3.47) from each 64-bit word.

    The centred and scaled sum of the four 16-bit parts of the word (Irwin-Hall), which is exact.
    """
    total = word & SIXTEEN_BITS
    for part in (1, 2, 3):
        total = total + (_shift_right(word, 16 * part) & SIXTEEN_BITS)
    levels = SIXTEEN_BITS + 1
    scale = (4 * (levels**2 - 1) / 12) ** -0.5
    return (total - 2 * SIXTEEN_BITS).float() * scale


def normals(key: Int64[Tensor, " rows"], count: int) -> Float[Tensor, "rows {count}"]:
    """`count` nearly normal draws (see `bells`) for each key."""
    return bells(words(key, count))


@cache
def _noise_plate() -> Float[Tensor, " plate"]:
    """2^20 nearly normal draws, made once per process; hashing every pixel would cost more than drawing the face."""
    return bells(scramble(torch.arange(1 << PLATE_BITS) * GOLDEN))


def noise(key: Int64[Tensor, " rows"], count: int) -> Float[Tensor, "rows {count}"]:
    """`count` nearly normal draws for each key: a window, at a random place, into one fixed plate of 2^20 draws.

    `count` is at most 2^19. Two rows can share draws at different positions; no model can exploit that in sensor noise.
    """
    if not 0 < count <= 1 << (PLATE_BITS - 1):
        raise ValueError(f"count is {count}; a window of the noise plate holds 1 to {1 << (PLATE_BITS - 1)} draws")
    places = (1 << PLATE_BITS) - count + 1
    start = _shift_right(scramble(key + GOLDEN), 1) % places
    return _noise_plate().to(key.device).unfold(0, count, 1)[start]
