"""Duplicates by hand: centers, images, equal pixels, files, and merging of identities."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from verisphere.base.vocabulary import Embeddings
from verisphere.files.embeddings import write_embeddings
from verisphere.files.label_lists import LabelList
from verisphere.files.streamed_rows import open_rows
from verisphere.images import InMemory, Photos
from verisphere.score import unit_rows
from verisphere.score.near_pairs import near_pairs
from verisphere.study.clean.same_person.centers import class_centers
from verisphere.study.clean.same_person.duplicates import (
    ImagePair,
    duplicates_page,
    equal_images,
    find_duplicates,
    merged_identities,
    merged_labels,
    read_pairs,
)

# Degrees in the plane. Ann's images lie at 0 and 40, so her center lies at 20; Anne's one at 30; Ben's at 90 and 100,
# so his lies at 95; nobody is known at 20. The centers of Ann and Anne: cos 10 = 0.9848, Anne and Ben: cos 65 = 0.4226.
# Images of two identities: Ann/2 and Anne/1 are 10 degrees apart, Ann/1 and Anne/1 30 degrees (0.8660); nobody and each
# of Ann's 20 degrees (0.9397), nobody and Anne 10 degrees.
DEGREES = {"Ann/1": 0, "Ann/2": 40, "Anne/1": 30, "Ben/1": 90, "Ben/2": 100, "x/1": 20}
PEOPLE = ("Ann", "Ann", "Anne", "Ben", "Ben", "-1")


def embeddings(folder: Path) -> Path:
    angles = np.radians(list(DEGREES.values()))
    rows = np.stack([np.cos(angles), np.sin(angles)], 1) * np.array([[1.0], [9.0], [2.0], [1.0], [5.0], [1.0]])
    write_embeddings(folder / "e.npz", Embeddings(rows, names=list(DEGREES), identities=list(PEOPLE)))
    return folder / "e.npz"


def faces(shades: tuple[int, ...] = (1, 2, 3, 4, 5, 6)) -> InMemory:
    pixels = torch.tensor(shades, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 8, 8).contiguous()
    return InMemory(pixels, tuple(DEGREES), PEOPLE)


def test_the_center_is_the_mean_of_unit_rows(tmp_path: Path):
    # Ann's second image is nine times as long; at length 1 both count the same
    centers = class_centers(open_rows(embeddings(tmp_path), ("names", "identities")))
    assert (centers.people, centers.counts.tolist()) == (("Ann", "Anne", "Ben"), [2, 1, 2])
    angles = np.degrees(np.arctan2(centers.units[:, 1].numpy(), centers.units[:, 0].numpy()))
    assert angles == pytest.approx([20, 30, 95], abs=1e-4)


def test_identities_whose_centers_nearly_coincide(tmp_path: Path):
    found = find_duplicates(embeddings(tmp_path), threshold=0.9, image_threshold=None)
    (pair,) = found.people
    assert (pair.identity, pair.other, pair.images, pair.other_images) == ("Ann", "Anne", 2, 1)
    assert pair.score == pytest.approx(np.cos(np.radians(10)), abs=1e-6)
    assert (found.images, found.identities, found.pictures) == (6, 3, [])
    assert len(find_duplicates(embeddings(tmp_path), threshold=0.4, image_threshold=None).people) == 2


def test_images_of_two_identities(tmp_path: Path):
    found = find_duplicates(embeddings(tmp_path), image_threshold=0.9)
    pairs = {frozenset((pair.name, pair.other_name)): pair.score for pair in found.pictures}
    near = {("Ann/2", "Anne/1"): 10, ("Anne/1", "x/1"): 10, ("Ann/1", "x/1"): 20, ("Ann/2", "x/1"): 20}
    assert pairs == {frozenset(names): pytest.approx(np.cos(np.radians(a)), abs=1e-6) for names, a in near.items()}
    assert [pair.score for pair in found.pictures] == sorted((pair.score for pair in found.pictures), reverse=True)


def test_near_pairs_are_those_of_the_matrix_of_all_pairs():
    rows = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)
    units, people = unit_rows(rows), np.arange(300) // 3
    cosines = units.double() @ units.double().T
    pairs = near_pairs(units, 0.7, people)
    expected = [
        (i, j) for i in range(300) for j in range(i + 1, 300) if cosines[i, j] >= 0.7 and people[i] != people[j]
    ]
    assert sorted(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)) == expected
    two = near_pairs(units[:200], 0.7, others=units[200:])
    expected = [(i, j) for i in range(200) for j in range(100) if cosines[i, 200 + j] >= 0.7]
    assert sorted(zip(two.left.tolist(), two.right.tolist(), strict=True)) == expected


def test_too_many_pairs_are_refused():
    units = unit_rows(np.ones((3, 2), np.float32))
    with pytest.raises(ValueError, match=r"more than 2 pairs score 0.5 or more; ask for a higher threshold"):
        near_pairs(units, 0.5, most=2)


def test_embeddings_that_add_up_to_zero(tmp_path: Path):
    rows = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    write_embeddings(tmp_path / "e.npz", Embeddings(rows, identities=["Ann", "Ann", "Ben"]))
    with pytest.raises(ValueError, match=r"e.npz: the embeddings of 'Ann' add up to zero"):
        find_duplicates(tmp_path / "e.npz")


def test_equal_pixels_of_two_identities():
    # shade 7 is on Ann/2, Anne/1 and Ben/2, shade 4 twice on Ben's: each image goes with the first one of its pixels
    assert equal_images(faces((1, 7, 7, 4, 7, 6))) == [(1, 2), (1, 4)]
    assert equal_images(faces((1, 2, 3, 4, 4, 6))) == []


def test_equal_pixels_come_first_and_are_added(tmp_path: Path):
    found = find_duplicates(embeddings(tmp_path), faces((9, 2, 3, 4, 9, 6)), image_threshold=0.98)
    assert found.pictures[0] == ImagePair("Ann/1", "Ben/2", "Ann", "Ben", None, True)
    assert {pair.equal_pixels for pair in found.pictures[1:]} == {False}
    assert len(found.pictures) == 3


def test_files_and_page(tmp_path: Path):
    found = find_duplicates(embeddings(tmp_path), faces(), threshold=0.9, image_threshold=0.98)
    found.write(tmp_path / "out", duplicates_page(found, faces()))
    with (tmp_path / "out" / "pairs.csv").open() as file:
        assert list(csv.DictReader(file)) == [
            {"identity": "Ann", "other": "Anne", "score": "0.984808", "images": "2", "other_images": "1"}
        ]
    assert read_pairs(tmp_path / "out" / "pairs.csv") == [("Ann", "Anne")]
    written = json.loads((tmp_path / "out" / "duplicates.json").read_text())
    assert (len(written["identity_pairs"]), len(written["image_pairs"])) == (1, 2)
    page = (tmp_path / "out" / "index.html").read_text()
    assert "These are merge proposals, not findings" in page
    # three pictures of the pair of identities, and two of each of the two pairs of images
    assert page.count("<img") == 7
    assert "1 merge proposals: pairs of identities" in found.text()
    with pytest.raises(FileExistsError):
        found.write(tmp_path / "out")


def test_clusters_of_identities_take_the_name_of_the_largest():
    counts = {"a": 1, "b": 5, "c": 2, "d": 9, "e": 3, "f": 3, "g": 7}
    # a-b-c is one cluster, of which b is the largest; e and f have as many images, so e, the first, stays
    assert merged_identities(counts, [("a", "b"), ("c", "a"), ("f", "e")]) == {"a": "b", "c": "b", "f": "e"}
    # the order of the pairs and of the names in them does not matter
    assert merged_identities(counts, [("f", "e"), ("a", "c"), ("b", "c")]) == {"a": "b", "c": "b", "f": "e"}
    assert merged_identities(counts, [("a", "c"), ("a", "c"), ("c", "a")]) == {"a": "c"}
    assert merged_identities(counts, []) == {}


def test_a_merged_list_keeps_every_image_and_merges_the_truth():
    labels = LabelList(("1", "2", "3", "4"), ("a", "b", "b", "-1"), None, ("a", "a", "c", "c"))
    merged = merged_labels(labels, [("a", "b")])
    assert merged == LabelList(("1", "2", "3", "4"), ("b", "b", "b", "-1"), None, ("b", "b", "c", "c"))


def test_a_list_of_an_earlier_version_is_merged_too(tmp_path: Path):
    (tmp_path / "pairs.csv").write_text("identity,other,cosine,images,other_images\nAnn,Anne,0.984808,2,1\n")
    assert read_pairs(tmp_path / "pairs.csv") == [("Ann", "Anne")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("identity,score\na,0.5\n", "line 1: no column 'other' among"),
        ("", "line 1: no column 'identity' among"),
        ("identity,other\na,b\nc\n", "line 3: 1 values where the header has 2 columns"),
        ("identity,other\na,a\n", "line 2: 'a,a'; a pair has two different identities"),
        ("identity,other\na,\n", "line 2: 'a,'; a pair has two different identities"),
    ],
)
def test_pairs_that_cannot_be_merged(tmp_path: Path, text: str, says: str):
    (tmp_path / "pairs.csv").write_text(text)
    with pytest.raises(ValueError, match=rf"pairs.csv: {says}"):
        read_pairs(tmp_path / "pairs.csv")


def test_an_identity_that_the_set_lacks_is_not_merged():
    with pytest.raises(ValueError, match=r"1 of 2 identities to merge are not in the set, the first is 'x'.* 'a'"):
        merged_identities({"a": 1}, [("a", "x")])


@pytest.mark.parametrize("threshold", [-1.0, 1.1, float("nan")])
def test_thresholds_that_are_no_cosines(tmp_path: Path, threshold: float):
    with pytest.raises(ValueError, match=r"^threshold is"):
        find_duplicates(embeddings(tmp_path), threshold=threshold)
    with pytest.raises(ValueError, match="image_threshold is"):
        find_duplicates(embeddings(tmp_path), image_threshold=threshold)


def test_lfw_has_people_and_pictures_twice(real_data: Path):
    found = find_duplicates(real_data / "lfw_embeddings.npz")
    pairs = {(pair.identity, pair.other) for pair in found.people}
    assert len(pairs) == 37
    # one picture twice; one person under two names, by spelling, order of words, and title
    assert pairs >= {
        ("Bart_Hendricks", "Ricky_Ray"),
        ("Carlos_Beltran", "Raul_Ibanez"),
        ("Emmy_Rossum", "Eva_Amurri"),
        ("Noer_Moeis", "Noer_Muis"),
        ("Hasan_Wirayuda", "Hassan_Wirajuda"),
        ("Choi_Sung-hong", "Sung_Hong_Choi"),
        ("Felipe_De_Borbon", "Prince_Felipe"),
    }
    assert [pair.identity for pair in found.pictures[:3]] == ["Bart_Hendricks", "Carlos_Beltran", "Emmy_Rossum"]
    assert len(found.pictures) == 10


def test_lfw_pictures_that_are_there_twice_are_not_equal_in_pixels(real_data: Path):
    photos = Photos(real_data / "lfw_112.zip")
    twice = ("Bart_Hendricks", "Ricky_Ray", "Carlos_Beltran", "Raul_Ibanez")
    places = [place for place, person in enumerate(photos.identities) if person in twice]
    assert len(places) == 4
    assert equal_images(photos.select(places)) == []
