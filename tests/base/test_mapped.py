"""Rows in mapped files: what is made of them is mapped, and every answer is that of rows in memory."""

import errno
import resource
import tempfile
from dataclasses import replace
from mmap import MADV_NORMAL, MADV_RANDOM, MADV_WILLNEED
from pathlib import Path

import numpy as np
import pytest
import torch

from verisphere.base import mapped as mapped_rows
from verisphere.base.mapped import Growing, few_rows_at, is_mapped, joined, room, rows_at
from verisphere.base.vocabulary import Embeddings
from verisphere.measure.protocols.all_pairs import PairsOfSet, all_pairs
from verisphere.score import pair_scores, top_k, unit_rows
from verisphere.score.exact import tiles
from verisphere.score.pairs import rough_scores


def mapped(rows: np.ndarray) -> np.ndarray:
    kept = room(rows.shape, torch.float32, mapped=True).numpy()
    kept[:] = rows
    return kept


def drawn(rows: int, dim: int = 16) -> Embeddings:
    chance = np.random.default_rng(0)
    people = np.arange(rows) // 4
    numbers = chance.normal(size=(rows // 4 + 1, dim))[people] + chance.normal(size=(rows, dim))
    return Embeddings(numbers, identities=people, domains=np.where(chance.random(rows) < 0.5, "day", "night"))


def test_a_part_of_mapped_rows_is_mapped_and_a_copy_in_memory_is_not() -> None:
    rows = mapped(np.eye(4, dtype=np.float32))
    assert is_mapped(rows)
    assert is_mapped(rows[1:])
    assert is_mapped(np.asarray(rows))
    assert not is_mapped(rows[[0, 1]])
    assert not is_mapped(rows.copy())
    assert not is_mapped(torch.eye(2))


@pytest.mark.parametrize("places", [np.array([3, 0, 0, 2, 1, 3]), np.array([True, False, False, True])])
@pytest.mark.parametrize("together", [1, 2, 5, 99])
def test_chosen_rows_are_those_of_indexing_and_stay_mapped(
    places: np.ndarray, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_rows, "_BYTES_AT_ONCE", 12 * together)
    held = np.arange(12, dtype=np.float32).reshape(4, 3)
    chosen = rows_at(mapped(held), places)
    np.testing.assert_array_equal(chosen, held[places])
    assert is_mapped(chosen)
    assert not is_mapped(rows_at(held, places))


@pytest.mark.parametrize("first", [0, 3])
def test_few_rows_are_those_of_indexing_in_memory(first: int) -> None:
    held = np.arange(4096, dtype=np.float32).reshape(512, 8)[first:]
    for rows in (held, mapped(np.arange(4096, dtype=np.float32).reshape(512, 8))[first:]):
        chosen = few_rows_at(rows, np.array([0, 7, 400]))
        np.testing.assert_array_equal(chosen, held[[0, 7, 400]])
        assert not is_mapped(chosen)


def test_rows_of_several_sets_are_mapped_together_if_one_is() -> None:
    held = np.arange(12, dtype=np.float32).reshape(4, 3)
    whole = joined([held, mapped(held)])
    np.testing.assert_array_equal(whole, np.concatenate([held, held]))
    assert is_mapped(whole)
    assert not is_mapped(joined([held, held]))


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_all_pairs_of_mapped_rows_have_the_figures_of_rows_in_memory(processes: int) -> None:
    held = drawn(300)
    lying = Embeddings(mapped(held.embeddings), held.names, held.identities, held.domains)
    assert is_mapped(lying.embeddings)
    assert is_mapped(lying.take(np.arange(7)).embeddings)
    fars = ("1e-1", "1e-2", "1e-3")
    for precision in ("int8", "bfloat16", "float32", "float64"):
        few, many = (PairsOfSet(rows, precision=precision, processes=n) for rows, n in ((held, 1), (lying, processes)))
        assert all_pairs(few, fars) == all_pairs(many, fars)


def test_the_rounded_rows_of_mapped_rows_are_mapped() -> None:
    units = unit_rows(mapped(drawn(100).embeddings))
    assert is_mapped(units)
    for precision in ("int8", "bfloat16", "float32", "float64"):
        for part in tiles._blocks(units, precision, 32):
            assert is_mapped(part.rows)


def test_top_k_of_mapped_rows_is_that_of_rows_in_memory() -> None:
    held = drawn(300).embeddings
    for one, other in zip(
        top_k(unit_rows(held), unit_rows(held), 3), top_k(*[unit_rows(mapped(held))] * 2, 3), strict=True
    ):
        assert torch.equal(one, other)


def test_a_scan_of_mapped_rows_holds_them_in_mapped_files() -> None:
    held = drawn(300)
    for rows, lies in ((held, False), (replace(held, embeddings=mapped(held.embeddings)), True)):
        side = PairsOfSet(rows, precision="int8")._pairs.left
        assert is_mapped(side.units) is lies  # units in the order of the tiles


def test_no_space_for_a_mapped_file_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(OSError, match="TMPDIR names another disk") as caught:
            room((1 << 16,), torch.float32, mapped=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno in (errno.EFBIG, errno.ENOSPC)
    assert not list(tmp_path.iterdir())


def test_rows_that_are_gathered_are_asked_for_together_and_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    advise = mapped_rows._advise

    def noted(rows: np.ndarray, advice: int, places: np.ndarray | None = None) -> None:
        asked.append((advice, len(rows) if places is None else len(places)))
        advise(rows, advice, places)

    rows = torch.from_numpy(mapped(np.eye(8, dtype=np.float32)))
    left, right = torch.tensor([0, 5]), torch.tensor([0, 6])
    monkeypatch.setattr(mapped_rows, "_advise", noted)
    assert pair_scores(rows, left, right).tolist() == rough_scores(rows, left, right).tolist() == [1, 0]
    of_pairs = [(MADV_RANDOM, 8)] * 2 + [(MADV_WILLNEED, 2)] * 2 + [(MADV_NORMAL, 8)] * 2
    assert asked == 2 * of_pairs
    assert few_rows_at(rows.numpy(), np.array([6, 2])).argmax(1).tolist() == [6, 2]
    assert asked[12:] == [(MADV_RANDOM, 8), (MADV_WILLNEED, 2), (MADV_NORMAL, 8)]


def test_numbers_that_grow_lie_in_a_file_once_they_are_many(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mapped_rows, "_BYTES_IN_MEMORY", 80)
    for count in (0, 1, 10, 11, 25):
        growing = Growing("q")
        for number in range(count):
            growing.append(number)
        growing.extend(np.arange(3))
        assert len(growing) == count + 3
        numbers = growing.array()
        assert numbers.tolist() == [*range(count), 0, 1, 2]
        assert is_mapped(numbers) == (count + 3 > 10)


def test_a_disk_without_space_for_numbers_that_grow(monkeypatch: pytest.MonkeyPatch):
    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(OSError, match=r"No space left.*8,000,000 bytes of rows were to be mapped \(TMPDIR names"):
        Growing("q").extend(np.zeros(1_000_000, np.int64))
