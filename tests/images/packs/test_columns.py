"""Columns of text: sequences that are equal to tuples of the same texts, made from arrays."""

import pickle

import numpy as np
import pytest

from verisphere.base import mapped
from verisphere.images.packs import columns
from verisphere.images.packs.columns import Coded, Column, Numbers, Texts, coded, sorted_positions, take

TEXTS = ("b", "", "Zoë Ann", "b", "7")
COLUMNS = {
    "texts": (Texts.of(TEXTS), TEXTS),
    "coded": (coded(TEXTS), TEXTS),
    "numbers": (Numbers(np.array([3, -1, 20, 3, 0])), ("3", "-1", "20", "3", "0")),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_is_the_sequence_of_its_texts(kind: str):
    column, texts = COLUMNS[kind]
    assert (len(column), tuple(column), column) == (5, texts, texts)
    assert [column[0], column[-1], column[1:4], column[::-2]] == [texts[0], texts[-1], texts[1:4], texts[::-2]]
    assert column != texts[:4]
    assert column != (*texts[:4], "other")
    assert column != "bbbbb"
    assert pickle.loads(pickle.dumps(column)) == column
    with pytest.raises(IndexError):
        column[5]


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("positions", [[4, 0, 0], [], np.array([1, 2])], ids=str)
def test_taken_texts_are_a_column_again(kind: str, positions):
    column, texts = COLUMNS[kind]
    taken = take(column, positions)
    assert isinstance(taken, Column)
    assert taken == tuple(texts[position] for position in positions) == take(texts, positions)


def test_a_column_is_longer_than_what_is_made_at_a_time():
    numbers = np.arange(200_000)
    assert list(Numbers(numbers)) == list(map(str, numbers.tolist()))


def test_codes_number_the_values_in_order_of_appearance():
    column = coded(["b", "a", "b"])
    assert (column.values, column.codes.tolist(), column.counts().tolist()) == (("b", "a"), [0, 1, 0], [2, 1])
    assert coded(column) is column
    assert Coded(("x", "unused"), np.array([0, 0])).take([0]).counts().tolist() == [1, 0]


@pytest.mark.parametrize("texts", [["a", "a", "b", "b"], ["b", "a", "a", "b", "c", "a"], []], ids=str)
@pytest.mark.parametrize("hashes_are_equal", [False, True])
def test_people_are_numbered_as_they_appear_however_often_they_come_again(
    texts: list[str], hashes_are_equal: bool, monkeypatch: pytest.MonkeyPatch
):
    if hashes_are_equal:
        monkeypatch.setattr(columns, "hash", len, raising=False)
    column = coded(iter(texts))
    assert (list(column), list(column.values)) == (texts, list(dict.fromkeys(texts)))


def test_runs_that_are_sorted_by_themselves_are_merged(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(columns, "_SORTED_AT_ONCE", 3)
    texts = ["b", "a", "c", "a", "", "é", "b"]
    assert sorted_positions(Texts.of(texts), str).tolist() == [4, 1, 3, 0, 6, 2, 5]


def test_columns_of_a_large_set_are_mapped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mapped, "_BYTES_IN_MEMORY", 64)
    texts = [f"{number // 2}é" for number in range(100)]
    names, people = Texts.of(texts), coded(texts)
    assert isinstance(people.values, Texts)
    assert all(map(mapped.is_mapped, (names.utf8, names.ends, people.codes, people.values.utf8)))
    assert (names, people, names.take([99, 0]), len(people.values)) == (texts, texts, [texts[99], texts[0]], 50)
    assert not mapped.is_mapped(Texts.of(texts[:2]).utf8)
