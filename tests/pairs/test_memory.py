"""Memories of pair terms: what is kept where, for how long, and over what the next feature goes."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from verisphere.pairs.memory import EMPTY, FeatureQueue, OnlineSet, stored_centers


def online_set(identities: int = 2, dim: int = 1, **options) -> OnlineSet:
    found = OnlineSet(**options)
    found.prepare(identities, dim)
    return found


def insert(memory: OnlineSet, features: list[float], labels: list[int], step: int) -> list[int]:
    return memory.insert(torch.tensor(features)[:, None], torch.tensor(labels, dtype=torch.int64), step).tolist()


def shown(memory: OnlineSet, step: int) -> list[list[float | None]]:
    """By identity, the features that are usable; None for a place without."""
    stored = memory.stored(step)
    values = [
        None if label == EMPTY else value
        for value, label in zip(stored.rows[:, 0].tolist(), stored.labels, strict=True)
    ]
    each = memory.features_per_identity
    assert all(label in (EMPTY, place // each) for place, label in enumerate(stored.labels.tolist()))
    return [values[first : first + each] for first in range(0, len(values), each)]


# The online-updating set ---------------------------------------------------------------------------------


def test_a_new_set_holds_nothing():
    memory = online_set(features_per_identity=2)
    assert shown(memory, 0) == [[None, None], [None, None]]
    assert memory.fill(0) == 0
    assert memory.remaining(0).tolist() == [[0, 0], [0, 0]]


def test_features_take_the_free_places_of_their_identity():
    memory = online_set(features_per_identity=2)
    assert insert(memory, [0.5, 0.25], [1, 0], 0) == [2, 0]
    assert shown(memory, 0) == [[0.25, None], [0.5, None]]
    assert insert(memory, [0.75], [1], 1) == [3]
    assert shown(memory, 1) == [[0.25, None], [0.5, 0.75]]
    assert memory.fill(1) == 0.75


@pytest.mark.parametrize("valid", [1, 2, 5])
def test_a_feature_is_usable_for_m_steps_the_inserting_one_counted(valid):
    memory = online_set(features_per_identity=1, valid_steps=valid)
    insert(memory, [0.5], [0], 7)
    usable = [step for step in range(7, 20) if shown(memory, step)[0] == [0.5]]
    assert usable == list(range(7, 7 + valid))
    assert memory.remaining(7)[0].tolist() == [valid]
    assert memory.remaining(7 + valid)[0].tolist() == [0]


def test_the_oldest_feature_is_replaced():
    memory = online_set(features_per_identity=3)
    for step, value in enumerate([0.1, 0.2, 0.3, 0.4, 0.5]):
        insert(memory, [value], [0], step)
    assert shown(memory, 4)[0] == pytest.approx([0.4, 0.5, 0.3])


def test_a_place_whose_feature_has_expired_is_free():
    memory = online_set(features_per_identity=2, valid_steps=2)
    insert(memory, [0.1, 0.2], [0, 0], 0)
    insert(memory, [0.3], [0], 1)  # over the first, though both are usable
    assert insert(memory, [0.4], [0], 2) == [1]  # the second has expired
    assert shown(memory, 2)[0] == pytest.approx([0.3, 0.4])
    assert shown(memory, 3)[0] == [None, pytest.approx(0.4)]


def test_of_more_than_k_in_a_batch_the_last_k_stay():
    memory = online_set(features_per_identity=2)
    copies = insert(memory, [0.1, 0.2, 0.9, 0.3, 0.4, 0.5], [0, 0, 1, 0, 0, 0], 0)
    assert shown(memory, 0) == [pytest.approx([0.5, 0.4]), [pytest.approx(0.9), None]]
    assert copies == [-1, -1, 2, -1, 1, 0]


def test_a_row_of_no_identity_finds_no_place():
    memory = online_set(features_per_identity=2)
    assert insert(memory, [0.1, 0.2], [-1, 1], 0) == [-1, 2]
    assert shown(memory, 0) == [[None, None], [pytest.approx(0.2), None]]
    assert insert(memory, [0.1], [-1], 1) == [-1]


def one_by_one(memory: list[list[tuple[float, int]]], batch: list[tuple[float, int]], until: int, step: int) -> None:
    """Algorithm 1, lines 5 to 9, with V held as the step before which a feature is usable.

    Among the smallest V, free places being 0, the one that was inserted first in this batch, else the first place.
    """
    turn: dict[tuple[int, int], int] = {}
    for number, (value, label) in enumerate(batch):
        if label < 0:
            continue
        places = memory[label]
        chosen = min(range(len(places)), key=lambda k: (max(places[k][1] - step, 0), turn.get((label, k), -1), k))
        places[chosen] = value, until
        turn[label, chosen] = number


@settings(max_examples=60, deadline=None)
@given(
    each=st.integers(1, 4),
    valid=st.integers(1, 4),
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.lists(st.integers(-1, 2), min_size=0, max_size=9)), min_size=1, max_size=7
    ),
)
def test_it_is_algorithm_1_one_feature_after_another(each, valid, steps):
    memory = online_set(3, features_per_identity=each, valid_steps=valid)
    naive = [[(0.0, 0)] * each for _ in range(3)]
    step, value = 0, 0
    for ahead, labels in steps:  # a step that is not ahead is another part of the same batch
        step += ahead
        batch = [(float(value := value + 1), label) for label in labels]
        copies = insert(memory, [one for one, _ in batch], labels, step)
        one_by_one(naive, batch, step + valid, step)
        expected = [[value if until > step else None for value, until in places] for places in naive]
        assert shown(memory, step) == expected
        flat = [value for places in expected for value in places]
        assert copies == [flat.index(one) if one in flat else -1 for one, _ in batch]
        assert memory.fill(step) == pytest.approx(sum(one is not None for one in flat) / (3 * each))


@pytest.mark.parametrize("place", ["device", "host"])
def test_bfloat16_keeps_features_rounded(place):
    units = nn.functional.normalize(torch.randn(4, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    memory = online_set(4, 8, features_per_identity=1, storage="bfloat16", place=place)
    memory.insert(units, torch.arange(4), 0)
    assert memory.stored(0).rows.dtype == torch.bfloat16
    assert torch.equal(memory.stored(0).rows, units.bfloat16())


def test_no_gradient_reaches_what_is_stored():
    memory = online_set(1, 2, features_per_identity=1)
    memory.insert(torch.tensor([[0.6, 0.8]], requires_grad=True), torch.tensor([0]), 0)
    assert not memory.stored(0).rows.requires_grad


@pytest.mark.parametrize(("place", "where"), [("device", "meta"), ("host", "cpu")])
def test_host_memory_stays_where_it_is_when_the_model_moves(place, where):
    outer = nn.Sequential(online_set(2, 3, storage="bfloat16", place=place)).to("meta").double()
    assert outer[0].features.device.type == where
    assert outer[0].features.dtype == torch.bfloat16
    assert outer[0].until.device.type == "meta"
    assert set(outer.state_dict()) == {"0.features", "0.until"}


def test_a_checkpoint_of_it_goes_on():
    first, second = (online_set(2, 1, features_per_identity=2, valid_steps=3) for _ in range(2))
    insert(first, [0.1, 0.2, 0.3], [0, 1, 0], 0)
    second.load_state_dict(first.state_dict())
    for memory in (first, second):
        insert(memory, [0.4], [0], 1)
    assert shown(first, 1) == shown(second, 1)


# The queue -----------------------------------------------------------------------------------------------


def enter(queue: FeatureQueue, labels: list[int]) -> tuple[list[int], list[float]]:
    """Enter rows whose one number is their label; what is then held."""
    queue.insert(torch.tensor(labels, dtype=torch.float32)[:, None], torch.tensor(labels))
    stored = queue.stored()
    return stored.labels.tolist(), stored.rows[:, 0].tolist()


def test_the_queue_holds_the_last_batches():
    queue = FeatureQueue(batches=2)
    queue.prepare(2, 1)
    assert queue.stored().labels.tolist() == [EMPTY] * 4
    assert enter(queue, [1, 2])[0] == [1, 2, EMPTY, EMPTY]
    assert queue.fill() == 0.5
    assert enter(queue, [3])[0] == [1, 2, 3, EMPTY]  # a part of a batch
    assert enter(queue, [4, 5]) == ([5, 2, 3, 4], [5.0, 2.0, 3.0, 4.0])
    assert queue.fill() == 1


def test_more_rows_than_the_queue_has_places_are_refused():
    queue = FeatureQueue(batches=1)
    queue.prepare(2, 1)
    with pytest.raises(ValueError, match=r"^a batch of 3 does not fit a queue of 2 places$"):
        enter(queue, [1, 2, 3])


# Class centers -------------------------------------------------------------------------------------------


def test_centers_are_stored_rows_of_their_classes():
    centers = torch.tensor([[[3.0, 4.0], [0.0, 2.0]], [[0.0, 0.0], [-5.0, 0.0]]], requires_grad=True)
    stored = stored_centers(centers, first=7)
    assert stored.labels.tolist() == [7, 7, EMPTY, 8]  # one of length 0 has no direction
    expected: Tensor = torch.tensor([[0.6, 0.8], [0.0, 1.0], [0.0, 0.0], [-1.0, 0.0]])
    torch.testing.assert_close(stored.rows, expected)
    assert not stored.rows.requires_grad


# Errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OnlineSet(features_per_identity=0), "features_per_identity is 0; it must be at least 1"),
        (lambda: OnlineSet(valid_steps=-3), "valid_steps is -3; it must be at least 1"),
        (lambda: FeatureQueue(batches=0), "batches is 0; it must be at least 1"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()
