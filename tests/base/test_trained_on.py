"""Digests of people and images, and what two sets of them share."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shard_writer import written
from verisphere.base.identity import names_taken
from verisphere.base.trained_on import (
    RENAMED,
    UNNAMED,
    RowsInTraining,
    SharedWithTraining,
    TrainedOn,
    image_digests,
    name_digests,
    pooled_rows,
)
from verisphere.base.vocabulary import Embeddings
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.files.streamed_rows import open_rows, open_templates

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 3, 6, 5), np.uint8)


def test_a_digest_is_of_the_shape_and_the_pixels_alone():
    found = image_digests(PIXELS)
    expected = hashlib.sha256(b"(3, 6, 5)" + PIXELS[1].tobytes()).digest()[:8]
    assert found[1] == int.from_bytes(expected, "little", signed=True)
    apart = np.ascontiguousarray(PIXELS.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)  # as decoders leave them
    assert image_digests(apart).tolist() == found.tolist()
    changed = PIXELS.copy()
    changed[:, 0, 0, 0] += 1
    for others in (changed, PIXELS.reshape(4, 3, 5, 6), PIXELS[..., ::-1]):
        assert not np.isin(image_digests(others), found).any()
    assert image_digests(PIXELS[:0]).shape == (0,)


def test_names_count_and_numbers_do_not():
    assert len(name_digests(["0001", "17", "-1", "Ann"])) == 1
    ann = name_digests(["Ann_Lee"])
    for same in ("ann_lee", " ANN_LEE ", "Ann\u200b_Lee"):
        assert name_digests([same]).tolist() == ann.tolist()
    assert name_digests(["Beyonce\u0301"]).tolist() == name_digests(["Beyonc\u00e9"]).tolist()
    for other in ("Ann Lee", "AnnLee", "Anne_Lee"):
        assert name_digests([other]).tolist() != ann.tolist()


def test_the_name_of_a_joined_set_is_no_part_of_a_name():
    """Sets that are joined with `same: apart` keep their people apart by it."""
    assert name_digests(["one/Ann", "two/0001"]).tolist() == name_digests(["Ann"]).tolist()
    people = np.array(["ann", "0001", "three/Ann", "one/0001", "Bea"])
    for trained in (["one/Ann", "two/0001"], ["Ann", "0001"]):
        known = record(trained, np.empty(0, np.int64)).rows(people, np.arange(5))
        assert known.people.tolist() == [True, False, True, False, False]
    assert not record(["one/0001", "two/0001"], np.empty(0, np.int64)).rows(people, np.arange(5)).shared(people).named


def test_what_has_a_digit_in_a_numbered_folder_is_a_number():
    """Two numbered sets with the same sessions share no person by them; folders of years hide no name."""
    people = np.array(["0001/session1", "0002/session2", "Ann/0003"])
    found = record(["0007/session1", "Ann"], np.empty(0, np.int64)).rows(people, np.arange(3))
    assert (found.people.tolist(), found.shared(people).people) == ([False] * 3, 0)
    assert record(["2003/Ann"], np.empty(0, np.int64)).rows(np.array(["2004/Ann", "Ann"]), np.arange(2)).people.all()


def test_names_are_compared_as_written_where_exact_decided_on_both_sides():
    everyone, nothing = ["AB12", "Ann"], np.empty(0, np.int64)
    exact = replace(record(everyone, nothing), written=name_digests(everyone, written=True))
    rows, digests = np.array(["ab12", "AB12", "ann", "Bea"]), np.arange(4)
    assert exact.rows(rows, digests, "exact").people.tolist() == [False, True, False, False]
    folded = [True, True, True, False]
    assert exact.rows(rows, digests).people.tolist() == folded
    assert record(everyone, nothing).rows(rows, digests, "exact").people.tolist() == folded
    both = exact.after([TrainedOn.unknown("adopted"), exact])
    assert both.rows(rows, digests, "exact").people.tolist() == [False, True, False, False]
    assert exact.after([record(["Cy"], nothing)]).rows(rows, digests, "exact").people.tolist() == folded


def test_names_compared_as_written_are_known_in_any_spelling_once_they_are_merged(tmp_path: Path):
    digests, people = np.arange(3), np.array(["ANN", "ANN", "Bea"])
    exact = replace(record(["Ann", "Bea"], digests[:0]), written=name_digests(["Ann", "Bea"], written=True))
    rows = Embeddings(
        np.eye(3), identities=people, in_training=exact.rows(people, digests, "exact"), names_rule="exact"
    )
    assert rows.shared_with_training == SharedWithTraining(1, 0, 2, 3, True)
    write_embeddings(tmp_path / "exact.npz", rows)
    assert read_embeddings(tmp_path / "exact.npz").shared_with_training == rows.shared_with_training
    with names_taken("merge"):
        merged = read_embeddings(tmp_path / "exact.npz").shared_with_training
        assert open_rows(tmp_path / "exact.npz").source.in_training == merged
        distractors = open_templates(tmp_path / "exact.npz").source  # of which no two are one person
        assert (distractors.in_training, distractors.names_rule) == (merged, "merge")
    assert merged == SharedWithTraining(2, 0, 2, 3, True)


def test_a_set_on_which_nothing_decided_can_be_read_as_exact_later(tmp_path: Path):
    """Until then a name in any spelling counts as one of the training."""
    people, digests = np.array(["ab12", "AB12", "ann", "Bea"]), np.arange(4)
    exact = replace(record(["AB12", "Ann"], digests[:0]), written=name_digests(["AB12", "Ann"], written=True))
    known = exact.rows(people[[0, 2, 3]], digests[[0, 2, 3]])
    rows = Embeddings(np.eye(3), identities=people[[0, 2, 3]], in_training=known)
    write_embeddings(tmp_path / "undecided.npz", rows)
    written(tmp_path / "shards", rows, at_once=2)
    for path in (tmp_path / "undecided.npz", tmp_path / "shards"):
        assert read_embeddings(path).shared_with_training == SharedWithTraining(2, 0, 3, 3, True)
        assert open_rows(path).source.in_training == SharedWithTraining(2, 0, 3, 3, True)
        with names_taken("merge"):
            assert read_embeddings(path).shared_with_training == SharedWithTraining(2, 0, 3, 3, True)
        with names_taken("exact"):
            assert read_embeddings(path).shared_with_training == SharedWithTraining(0, 0, 3, 3, True)
            assert open_rows(path).source.in_training == SharedWithTraining(0, 0, 3, 3, True)
    with names_taken("exact"):
        first = read_embeddings(tmp_path / "undecided.npz").take(np.array([2, 0])).in_training
        parts = [first, exact.rows(people, digests)]
        both = pooled_rows(parts)
        assert both is not None
        together = both.of(np.array(["Bea", "ab12", *people]), "exact")
        assert together.people.tolist() == [False] * 3 + [True, False, False]
        templates = both.pooled(np.array([0, 0, 1, 1, 2, 2]), 3).of(np.array(list("abc")), "exact")
        assert templates.people.tolist() == [False, True, False]


def test_what_people_are_under_the_other_rule_survives_new_names():
    """Those of `clean relabel`, and numbers that get their plain spelling."""
    exact = replace(record(["Al", "Bea"], np.empty(0, np.int64)), written=name_digests(["Al", "Bea"], written=True))
    people = np.array(["AL", "Cy", "Bea", "101.0"])
    for how in ("exact", None):
        rows = exact.rows(people, np.arange(4), how).of(people, how).of(np.array(["AL", "AL", "Bea", "101"]), how)
        assert rows.of(np.array(["AL", "AL", "Bea", "101"]), "merge").people.tolist() == [True, True, True, False]
        assert rows.of(np.array(["AL", "AL", "Bea", "101"]), "exact").people.tolist() == [False, False, True, False]
        assert rows.named
        assert not rows.of(np.array(["AL", "Dora", "Bea", "101"]), how).named


def test_of_two_codes_that_differ_in_case_one_of_the_training_is_not_forgotten():
    people = np.array(["AB12", "ab12"])
    for known in ([True, False], [False, True]):
        rows = RowsInTraining(np.array(known), np.zeros(2, bool), True, "", identities=people)
        assert rows.of(np.array(["Ab12", "new"])).people.tolist() == [True, False]
        both = replace(rows, other_rule=np.array([True, True]), written=True)
        assert both.of(people[::-1], "exact").people.tolist() == known[::-1]


def test_a_set_of_exact_names_is_known_in_any_spelling_where_the_training_took_no_rule():
    """As a set that is embedded under these names is."""
    training, people, new = record(["Al", "Bea"], np.empty(0, np.int64)), np.array(["Al", "Cy"]), np.array(["AL", "cy"])
    for how in (None, "merge", "exact"):
        renamed = training.rows(people, np.arange(2), how).of(people, how).of(new, "exact")
        assert renamed.people.tolist() == training.rows(new, np.arange(2), "exact").people.tolist() == [True, False]
        assert renamed.named


def record(people: list[str], images: np.ndarray, gap: str = "") -> TrainedOn:
    return TrainedOn(name_digests(people), np.unique(images), gap)


def test_rows_are_found_by_name_and_by_image():
    digests = image_digests(PIXELS)
    known = record(["Ann", "0002"], digests[[2]]).rows(np.array(["ann", "0002", "Bea", "Bea"]), digests)
    assert known.people.tolist() == [True, False, False, False]
    assert known.images.tolist() == [False, False, True, False]
    shared = known.shared(np.array(["ann", "0002", "Bea", "Bea"]))
    assert shared == SharedWithTraining(1, 1, 3, 4, True, nameless=1)
    assert shared.found() == "the model was trained on 1 of the 3 people (by name) and 1 of the 4 images"
    rest = known.take(known.digests != digests[2])
    assert rest.shared(np.array(["ann", "0002", "Bea"])) == SharedWithTraining(1, 0, 3, 3, True, nameless=1)
    pooled = known.pooled(np.array([0, 1, 1, 1]), 2)
    assert (pooled.people.tolist(), pooled.images.tolist(), pooled.digests) == ([True, False], [False, True], None)
    shared = pooled.shared(np.array(["ann", "Bea"]))
    assert shared.found() == "the model was trained on 1 of the 2 people (by name) and images of 1 of the 2 templates"
    assert pooled_rows([pooled, known]).shared(None).pooled
    none = replace(pooled, people=~pooled.people & pooled.people, images=pooled.people & pooled.images)
    said = "none of the images of the 2 templates and, by name, none of the 2 people were in the training"
    assert none.shared(np.array(["Cid", "Bea"])).found() == said
    assert not known.pooled(np.arange(4), 4).templates  # of one image each


def test_rows_of_nobody_are_no_person():
    identities = np.array(["Ann", "-1", "-1", "Bo"])
    rows = RowsInTraining(np.array([True, True, False, False]), np.zeros(4, bool), True, "")
    assert (rows.shared(identities).people, rows.shared(identities).of_people) == (1, 2)
    assert not rows.shared(np.full(4, "-1"))


def test_sets_that_share_nothing_say_so_and_what_was_not_compared():
    digests = image_digests(PIXELS)
    people = np.array(["a", "a", "b", "c"])
    nothing = record(["Ann"], digests[:0]).rows(people, digests).shared(people)
    assert not nothing
    assert nothing.described() == "none of the 4 images and, by name, none of the 3 people were in the training"
    numbers = record(["17"], digests[:0]).rows(people, digests).shared(people)
    nameless = "none of the 4 images were in the training; people could not be compared, since the set or the training "
    assert numbers.described() == f"{nameless}has no names"
    some = np.array(["Bea", "17", "18", "18"])
    described = record(["Ann"], digests[:0]).rows(some, digests).shared(some).described()
    none = "none of the 4 images and, by name, none of the 1 people were in the training"
    assert described == f"{none}; 2 people without a name could not be compared"
    listed = record(["Ann"], digests[:0]).rows(np.array(["-1"] * 4), digests).shared(np.array(["-1"] * 4))
    assert listed.described() == numbers.described()
    unknown = TrainedOn.unknown("it was adopted").rows(people, digests).shared(people)
    assert unknown.described() == "images could not be compared with those of the training: it was adopted"
    both = record(["C"], digests[:0], "it was adopted").rows(people, digests).shared(people)
    assert both.described() == f"the model was trained on 1 of the 3 people (by name); {unknown.described()}"


def test_a_training_of_which_some_people_have_no_names_says_so():
    digests, people = image_digests(PIXELS), np.array(["a", "a", "b", "c"])
    none = "none of the 4 images and, by name, none of the 3 people were in the training"
    for after in (
        record(["Ann"], digests[:0], UNNAMED),
        record(["Ann"], digests[:0]).after([record(["17"], np.array([5]))]),
        record(["17"], np.array([5])).after([record(["Ann"], digests[:0])]),
    ):
        assert after.gap == UNNAMED
        assert after.rows(people, digests).shared(people).described() == f"{none}; {UNNAMED}"
    old = record(["Ann"], digests[:0], UNNAMED).after([TrainedOn.unknown("it was adopted")])
    of_images = "images could not be compared with those of the training: it was adopted"
    assert old.rows(people, digests).shared(people).described() == f"{of_images}; {UNNAMED}"
    for alike in (
        record(["17"], np.array([5])).after([record(["18"], np.array([6]))]),
        record(["Ann"], np.array([5])).after([record(["Bea"], np.array([6])), TrainedOn.unknown("")]),
    ):
        assert alike.gap == ""


def test_renamed_people_are_known_by_what_is_known_of_their_new_names():
    digests, people = image_digests(PIXELS), ["Ann", "Ann", "Bea", "17"]
    rows = Embeddings(
        np.eye(4), identities=people, in_training=record(["ann"], digests[:0]).rows(np.array(people), digests)
    )
    assert rows.shared_with_training == SharedWithTraining(1, 0, 3, 4, True, nameless=1)
    moved = replace(rows, identities=["Bea", "ANN", "Bea", "18"])
    assert moved.shared_with_training == SharedWithTraining(1, 0, 3, 4, True, nameless=1)
    assert replace(rows, identities=["Bea", "Bea", "Bea", "17"]).shared_with_training == SharedWithTraining(
        0, 0, 2, 4, True, nameless=1
    )
    renamed = replace(rows, identities=["Cem", "Dan", "Bea", "17"]).take(np.arange(3)).shared_with_training
    assert renamed == SharedWithTraining(0, 0, 3, 3, False, RENAMED)
    assert renamed.described() == f"none of the 3 images were in the training; {RENAMED}"
    again = replace(rows, identities=["Cem", "Ann", "Bea", "17"], in_training=replace(rows.in_training, gap="old"))
    again = replace(again, identities=["Eva", "Ann", "Bea", "17"])
    assert again.shared_with_training == SharedWithTraining(1, 0, 4, 4, False, f"old; {RENAMED}")


def test_a_training_after_others_has_their_people_and_images_and_gaps():
    first, second = record(["Ann"], np.array([5, 9]), "old"), record(["Bea", "Ann"], np.array([1, 9]))
    both = second.after([first, TrainedOn.unknown("old")])
    assert both.people.tolist() == name_digests(["Ann", "Bea"]).tolist()
    assert (both.images.tolist(), both.gap) == ([1, 5, 9], "old")


def test_sets_one_after_another():
    parts = [
        RowsInTraining(np.array([True, False]), np.zeros(2, bool), True, "", np.array([1, 2])),
        RowsInTraining(np.array([False]), np.ones(1, bool), True, "why", np.array([3])),
    ]
    pooled = pooled_rows(parts)
    assert pooled is not None
    assert (pooled.people.tolist(), pooled.images.tolist(), pooled.gap) == (
        [True, False, False],
        [False, False, True],
        "why",
    )
    assert pooled_rows([*parts, None]) is None


@pytest.mark.parametrize("counts", [(3, 0, 2, 9), (0, 3, 2, 2), (-1, 0, 2, 2)])
def test_counts_that_cannot_be_are_refused(counts: tuple[int, int, int, int]):
    with pytest.raises(ValueError, match="cannot be"):
        SharedWithTraining(*counts, named=True)
