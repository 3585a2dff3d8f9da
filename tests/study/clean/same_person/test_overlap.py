"""Overlap by hand: people by name, id and embedding, and what is kept."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from in_plane import in_plane, text
from verisphere.base.identity import names_taken
from verisphere.base.vocabulary import Embeddings, Origin
from verisphere.files.embeddings import write_embeddings
from verisphere.files.label_lists import read_labels
from verisphere.files.people_lists import read_people
from verisphere.study.clean.same_person.overlap import Overlap, find_overlap, open_people


def found(overlap: Overlap) -> list[tuple[str, str, str, str, bool]]:
    return [(m.identity, m.other, m.how, m.grade, m.removed) for m in overlap.matches]


def test_equal_names_are_removed_and_weaker_ones_listed(tmp_path: Path):
    train = open_people(text(tmp_path / "train.txt", "Penélope_Cruz", "Zhang Ziyi", "William_H._Macy", "Ann Lee"))
    test = open_people(text(tmp_path / "test.txt", "Penelope_Cruz", "Ziyi_Zhang", "William_Macy", "Bo Li"))
    overlap = find_overlap(train, test)
    assert found(overlap) == [
        ("Penélope_Cruz", "Penelope_Cruz", "name", "equal", True),
        ("Zhang Ziyi", "Ziyi_Zhang", "name", "same words", False),
        ("William_H._Macy", "William_Macy", "name", "first and last", False),
    ]
    for names, removed in (("none", 0), ("equal", 1), ("words", 2), ("initials", 2), ("loose", 3)):
        assert len(find_overlap(train, test, names=names).removed) == removed
    overlap.write(tmp_path / "out")
    assert read_people(tmp_path / "out" / "kept_people.txt") == ("Ann Lee", "William_H._Macy", "Zhang Ziyi")
    written = json.loads((tmp_path / "out" / "overlap.json").read_text())
    assert (written["people_removed"], written["train_people"], written["test_people"]) == (1, 4, 4)
    assert written["matches"]["name: same words"] == {"matches": 1, "removed": 0}
    with (tmp_path / "out" / "overlap.csv").open(encoding="utf-8") as file:
        assert [row["removed"] for row in csv.DictReader(file)] == ["yes", "no", "no"]


@names_taken("exact")  # as `clean overlap` does
def test_kept_images_of_a_set_with_images(tmp_path: Path):
    train = open_people(text(tmp_path / "train.csv", "name,identity,true_identity", "1,Ann,Ann", "2,Ben,Cy", "3,ann,X"))
    overlap = find_overlap(train, open_people(text(tmp_path / "test.txt", "ANN")))
    assert overlap.removed == ["Ann", "ann"]
    overlap.write(tmp_path / "out")
    kept = read_labels(tmp_path / "out" / "kept.txt")
    assert (kept.names, kept.identities, kept.true_identities) == (("2",), ("Ben",), ("Cy",))
    assert overlap.fields()["images_removed"] == 2
    assert "2 of 3 people are in" in overlap.text()


def test_names_of_ids_and_equal_ids(tmp_path: Path):
    train = open_people(text(tmp_path / "train.txt", "0000045", "0000513", "77"))
    test = open_people(text(tmp_path / "test.txt", "Bruce_Lee", "77", "William_Macy"))
    bare = find_overlap(train, test)
    assert (found(bare), bare.nameless) == ([], (3, 1))
    assert "3 people of the training set and 1 of the test set are numbers without a name" in bare.text()
    ids = {"0000045": ("李小龍", "Bruce Lee"), "0000513": ("William_H._Macy",)}
    named = find_overlap(train, test, ids=ids, names="loose")
    assert found(named) == [
        ("0000045", "Bruce_Lee", "name", "equal", True),
        ("0000513", "William_Macy", "name", "first and last", True),
    ]
    assert named.nameless == (1, 1)
    assert found(find_overlap(train, test, same_ids=True)) == [("77", "77", "id", "", True)]
    with names_taken("exact"):  # as `clean overlap` does
        pointed = open_people(text(tmp_path / "pointed.txt", "45.0", "77.0", "0000513"))
    assert found(find_overlap(pointed, test, same_ids=True)) == [("77.0", "77", "id", "", True)]
    of_list = found(find_overlap(pointed, test, ids={"45": ("Bruce Lee",), "77": ("Ann",)}))
    assert of_list == [
        ("77.0", "77", "id", "", True),
        ("45.0", "Bruce_Lee", "name", "equal", True),
        ("77.0", "77", "name", "equal", True),
    ]
    assert found(find_overlap(train, test, ids={"77.0": ("Ann",)}))[0] == ("77", "77", "id", "", True)
    others = open_people(text(tmp_path / "others.txt", "513.0", "77\u200b"))  # numbers have one spelling in lists too
    numbers = open_people(text(tmp_path / "numbers.txt", "513", "77"))
    assert [match[:2] for match in found(find_overlap(numbers, others, same_ids=True))] == [
        ("513", "513"),
        ("77", "77"),
    ]


def test_equal_ids_of_a_list_are_one_person(tmp_path: Path):
    train = open_people(text(tmp_path / "train.txt", "m.01", "m.02"))
    test = open_people(text(tmp_path / "test.txt", "m.01"))
    # the id is no name as soon as a list has it
    assert ("m.01", "m.01", "id", "", True) in found(find_overlap(train, test, ids={"m.01": ("Ann Lee",)}))


def test_by_embedding_centers_and_single_images(tmp_path: Path):
    # Training: Ann's center lies at 10 degrees, Ben's at 100, Cy's at 200, Dee has no embedding.
    # Test: Anna's center at 15 (5 degrees from Ann's); Eve's images at 95 and 175, so her center lies at 135, 35
    # degrees from Ben's, while her first image is 5 degrees from it; nobody is known at 205, 5 degrees from Cy's.
    train_file = in_plane(
        tmp_path / "train.npz", {"1": ("Ann", 0), "2": ("Ann", 20), "3": ("Ben", 100), "4": ("Cy", 200), "5": ("Z", 15)}
    )
    test_file = in_plane(
        tmp_path / "test.npz", {"a": ("Anna", 15), "e/1": ("Eve", 95), "e/2": ("Eve", 175), "x": ("-1", 205)}
    )
    train = open_people(text(tmp_path / "train.txt", "Ann", "Ben", "Cy", "Dee", "Eve"))
    overlap = find_overlap(
        train, open_people(test_file), names="none", embeddings=(train_file, test_file), threshold=np.cos(np.radians(6))
    )
    assert found(overlap) == [
        ("Ann", "Anna", "center", "", True),
        ("Ben", "Eve", "image", "", True),
        ("Cy", "-1", "image", "", True),
        ("Eve", "Eve", "name", "equal", False),
    ]
    assert [match.score for match in overlap.matches[:3]] == pytest.approx([np.cos(np.radians(5))] * 3, abs=1e-6)
    assert [match.other_name for match in overlap.matches[1:3]] == ["e/1", "x"]
    assert overlap.matches[3].score is None  # Eve of the training set has no embedding, and neither has Dee
    assert overlap.unseen == (2, 0)


def test_each_spelling_of_a_person_whom_the_embeddings_merge_is_found(tmp_path: Path):
    rows = {"1": ("Ann", 0), "2": ("Ann", 2), "3": ("Ben", 90), "4": ("ann", 4)}
    with names_taken("merge"):
        in_plane(tmp_path / "train.npz", rows)
    train = text(tmp_path / "train.csv", "name,identity", *(f"{name},{person}" for name, (person, _) in rows.items()))
    test = in_plane(tmp_path / "test.npz", {"a": ("Maria", 3), "b": ("Cy", 270)})
    with names_taken("exact"):  # as `clean overlap` does
        overlap = find_overlap(open_people(train), open_people(test), embeddings=(tmp_path / "train.npz", test))
    assert found(overlap) == [("Ann", "Maria", "center", "", True), ("ann", "Maria", "center", "", True)]
    assert overlap.unseen == (0, 0)


def test_whole_numbers_of_a_list_are_found_in_its_embeddings(tmp_path: Path, caplog):
    """A list has 10.0, and its embeddings 10; 012 is a code."""
    train = in_plane(tmp_path / "train.npz", {"1": ("10", 0), "2": ("11", 90), "3": ("012", 200)})
    test = in_plane(tmp_path / "test.npz", {"a": ("Ann", 1), "b": ("Ben", 91), "c": ("Cy", 201)})
    with names_taken("exact"):  # as `clean overlap` does
        listed = open_people(text(tmp_path / "train.csv", "name,identity", "1,10.0", "2,+11", "3,012.0"))
        overlap = find_overlap(listed, open_people(test), embeddings=(train, test), threshold=0.9)
    assert [(match.identity, match.other) for match in overlap.matches] == [("+11", "Ben"), ("10.0", "Ann")]
    assert (overlap.unseen, caplog.text) == ((1, 0), "")


def test_people_who_are_written_otherwise_in_their_embeddings_are_found_where_these_merge(tmp_path: Path, caplog):
    train = in_plane(tmp_path / "train.npz", {"1": ("A7", 0), "2": ("B8", 90), "3": ("C9", 200)})
    people = text(tmp_path / "test.txt", "ann", "Ben", "Cleo", "cleo")
    for rule, more, found_now, unseen in (
        ("merge", {"d": ("cleo", 203), "e": ("ANN", 2)}, "A7 ann, B8 Ben, C9 Cleo, C9 cleo", 0),
        ("exact", {"e": ("ANN", 300)}, "B8 Ben, C9 Cleo", 2),
    ):
        caplog.clear()
        with names_taken(rule):
            rows = {"a": ("Ann", 1), "b": ("Ben", 91), "c": ("Cleo", 201), **more}
            test = in_plane(tmp_path / f"{rule}.npz", rows)
        with names_taken("exact"):  # as `clean overlap` does
            overlap = find_overlap(open_people(train), open_people(people), embeddings=(train, test), threshold=0.9)
        assert ", ".join(f"{match.identity} {match.other}" for match in overlap.matches) == found_now
        assert overlap.unseen == (0, unseen)
        assert (": has no row of 2 people of" in caplog.text) == (rule == "exact")


def test_a_match_by_name_states_the_score_of_the_centers(tmp_path: Path):
    train = in_plane(tmp_path / "train.npz", {"1": ("Ann", 0), "2": ("Ben", 90)})
    test = in_plane(tmp_path / "test.npz", {"1": ("ANN", 60)})
    overlap = find_overlap(open_people(train), open_people(test), embeddings=(train, test), threshold=0.9)
    (match,) = overlap.matches
    assert (match.how, match.score) == ("name", pytest.approx(0.5, abs=1e-6))


def test_a_set_whose_people_are_all_in_the_test_set(tmp_path: Path):
    people = open_people(text(tmp_path / "train.txt", "Ann"))
    with pytest.raises(ValueError, match=r"all of its 1 people are in .*: nobody is left"):
        find_overlap(people, people).write(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_embeddings_of_another_set_are_refused(tmp_path: Path):
    file = in_plane(tmp_path / "e.npz", {"1": ("Xy", 0)})
    people = open_people(text(tmp_path / "train.txt", "Ann"))
    with pytest.raises(ValueError, match=r"e.npz: none of its 1 images shows a person who is meant.* like 'Xy'"):
        find_overlap(people, people, embeddings=(file, file))
    with pytest.raises(ValueError, match=r"threshold is 2"):
        find_overlap(people, people, threshold=2.0)


def test_embeddings_of_two_models_are_not_compared(tmp_path: Path):
    files = []
    for letter in "ab":
        origin = Origin(letter * 64, False, "float32", "photos")
        rows = Embeddings(np.eye(2, dtype=np.float32), ["1", "2"], ["Ann", "Ben"], origin=origin)
        write_embeddings(tmp_path / f"{letter}.npz", rows)
        files.append(tmp_path / f"{letter}.npz")
    train, test = map(open_people, files)
    with pytest.raises(ValueError, match=r"b\.npz: not made as .*a\.npz was .*scores compare embeddings of one model"):
        find_overlap(train, test, embeddings=(files[0], files[1]))


def test_a_test_set_of_nobody_who_is_known(tmp_path: Path):
    # as a verification set (.bin) or distractors: its images are compared, and it has no people
    train = in_plane(tmp_path / "train.npz", {"1": ("Ann", 0), "2": ("Ben", 90)})
    test = in_plane(tmp_path / "test.npz", {"x/1": ("-1", 92), "x/2": ("-1", 91), "x/3": ("-1", 200)})
    overlap = find_overlap(open_people(train), open_people(test), embeddings=(train, test), threshold=0.9)
    assert [(m.identity, m.other, m.other_name) for m in overlap.matches] == [("Ben", "-1", "x/2")]  # the nearest one
    with pytest.raises(ValueError, match=r"test.npz: nobody is known in it"):
        find_overlap(open_people(test), open_people(train))


def test_a_text_file_of_images_is_a_data_set(tmp_path: Path):
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "1.png")
    people = open_people(text(tmp_path / "images.txt", "1.png Ann"))
    assert people.identities == ("Ann",)
    assert people.labels is not None


def test_lfw_devtrain_and_devtest_share_people_under_other_names(real_data: Path):
    lists = real_data / "lfw_protocol"
    train, test = (open_people(lists / f"peopleDev{part}.txt") for part in ("Train", "Test"))
    assert {(match.identity, match.other) for match in find_overlap(train, test, names="words").matches[:2]} == {
        ("Choi_Sung-hong", "Sung_Hong_Choi"),
        ("Yingfan_Wang", "Wang_Yingfan"),
    }


@pytest.mark.parametrize("form", ["e.npz", "labels.csv"])
def test_a_crowd_under_one_name_is_noted(tmp_path: Path, caplog: pytest.LogCaptureFixture, form: str):
    people = ["Ann", "Ann", "Ben", "Ben", *["unknown"] * 20]
    names = [f"{place}.png" for place in range(len(people))]
    if form == "e.npz":
        write_embeddings(tmp_path / form, Embeddings(np.eye(len(people)), names, people))
    else:
        lines = (f"{name},{person}" for name, person in zip(names, people, strict=True))
        text(tmp_path / form, "name,identity", *lines)
    assert open_people(tmp_path / form).identities == ("Ann", "Ben", "unknown")
    assert f"{form}: 'unknown' holds 20 images, where the median person has 2" in caplog.text
