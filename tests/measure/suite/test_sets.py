"""The table of published sets: by which files each is recognised, and where its images are looked for."""

import re
from pathlib import Path

import pytest

from verisphere.base.identity import names_taken
from verisphere.base.words import Names
from verisphere.measure.suite.images import find_images
from verisphere.measure.suite.sets import KNOWN_SETS, find_sets


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("LFW/pairs.txt", "lfw"),
        ("aligned_lfw-112/protocol/pairs.txt", "lfw"),
        ("mine/pairs.txt", "mine"),
        ("sllfw/pairs.txt", "sllfw"),  # by its folder's name
        ("any/pair_SLLFW.txt", "sllfw"),
        ("any/calfw/pairs_CALFW.txt", "calfw"),
        ("any/pairs_CPLFW.txt", "cplfw"),
        ("agedb_30.bin", "agedb_30"),
        ("any/Protocol/Split/FF/01/same.txt", "cfp_ff"),
        ("any/cfp-dataset/Protocol/Split/FP/01/same.txt", "cfp_fp"),
        ("any/xqlfw_pairs.txt", "xqlfw"),
        ("any/splits.txt", "ytf"),
        ("any/test/txts/African/African_pairs.txt", "rfw"),
        ("any/tinyface/Testing_Set/Gallery_Match/1_1.jpg", "tinyface"),
        ("any/meta/ijbb_face_tid_mid.txt", "ijbb"),
        ("any/IJBC/meta/ijbc_face_tid_mid.txt", "ijbc"),
        ("any/facescrub_lst", "megaface"),
        ("mine/pairs.csv", "mine"),
    ],
)
def test_a_set_is_recognised_by_its_published_file(tmp_path: Path, file: str, name: str):
    touch(tmp_path, file)
    tasks, unknown = find_sets(tmp_path)
    assert [task.name for task in tasks] == [name]
    assert unknown == ()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("10\t300\n" + "Ann\t1\t2\n" * 6000, "lfw"),
        ("Ann\t1\t2\n" * 6000, "lfw"),
        ("10\t30\n" + "Ann\t1\t2\n" * 600, "any"),
        ("\xff", "any"),
    ],
)
def test_a_list_called_pairs_is_of_lfw_where_it_has_its_numbers(tmp_path: Path, text: str, name: str):
    touch(tmp_path, "any/pairs.txt")
    (tmp_path / "any" / "pairs.txt").write_bytes(text.encode("latin-1"))
    assert [task.name for task in find_sets(tmp_path)[0]] == [name]


def test_what_lacks_of_a_set_and_a_second_one_in_its_folder_are_noted(tmp_path: Path):
    touch(tmp_path, "rfw/test/txts/African/African_pairs.txt", "rfw/test/txts/Indian/Indian_pairs.txt")
    touch(tmp_path, "ijb/a/meta/ijbc_face_tid_mid.txt", "ijb/b/meta/ijbc_face_tid_mid.txt")
    rfw, ijb = find_sets(tmp_path)[0]
    assert rfw.notes == ("of the published groups, Asian, Caucasian are not there",)
    assert ijb.notes[-1].startswith("b/meta/ijbc_face_tid_mid.txt is a second one of this set and was not measured")


@pytest.mark.parametrize(
    ("points", "says"),
    [
        ("1.jpg 1 2 3 4 5 6 7 8 9 nan 0.9\n", "line 1: '1.jpg 1 2 3 4 5 6 7 8 9 nan 0.9' is not `image x1"),
        ("1.jpg 1 2 3 4 5 6 7 8 9 0.9\n", "line 1: '1.jpg 1 2 3 4 5 6 7 8 9 0.9' is not `image x1"),
        ("1.jpg 1 2 3 4 5 6 7 8 9 10 0.9\n1.jpg 2 2 3 4 5 6 7 8 9 10 0.9\n", "line 2: '1.jpg' has other points on"),
        ("2.jpg 1 2 3 4 5 6 7 8 9 10 0.9\n", "no points of 1 images, the first '1.jpg'"),
    ],
)
def test_points_that_cannot_align_a_loose_crop_are_named_by_line(tmp_path: Path, points: str, says: str):
    touch(tmp_path, "IJBC/loose_crop/1.jpg")
    meta = tmp_path / "IJBC" / "meta"
    meta.mkdir()
    (meta / "ijbc_face_tid_mid.txt").write_text("1.jpg 1 1\n")
    (meta / "ijbc_name_5pts_score.txt").write_text(points)
    (task,), _ = find_sets(tmp_path)
    with pytest.raises(ValueError, match=re.escape(f"{meta / 'ijbc_name_5pts_score.txt'}: {says}")):
        task.parts["ijbc"](tmp_path)


def test_groups_are_a_folder_of_groups_of_people(tmp_path: Path):
    touch(tmp_path, "races/East/Ann/1.jpg", "races/West/Bo/1.jpg", "people/Ann/1.jpg", "people/Bo/1.jpg")
    tasks, unknown = find_sets(tmp_path)
    assert [task.name for task in tasks] == ["races"]
    assert unknown == ("people",)


def test_two_sets_in_one_folder_and_one_set_in_two(tmp_path: Path):
    touch(tmp_path, "lfw a/pairs.txt", "lfw a/pair_SLLFW.txt", "lfw b/pairs.txt", "lfw.bin")
    tasks, _ = find_sets(tmp_path)
    assert [task.name for task in tasks] == ["lfw", "lfw (lfw b)", "sllfw", "lfw (lfw.bin)"]
    parts = [part for task in tasks for part in task.parts]
    assert len(set(parts)) == len(parts), "each has an embeddings file of its own"


def test_no_two_sets_share_an_embeddings_file(tmp_path: Path):
    """One's own list may have the name of a part of TinyFace, or one that another set was given."""
    touch(tmp_path, "tiny/Testing_Set/Gallery_Match/1_1.jpg", "tinyface-probes/pairs.csv")
    touch(tmp_path, "b/pairs.txt", "a/pairs.txt", "lfw (b)/pairs.csv")
    tasks, _ = find_sets(tmp_path)
    parts = [part for task in tasks for part in task.parts]
    assert len(parts) == len(set(parts)) == 7
    assert len({task.name for task in tasks}) == 5


def test_every_list_of_a_folder_is_a_set_with_its_own_images(tmp_path: Path):
    for part in ("masked", "plain"):
        touch(tmp_path, *(f"lfw/{part}/{name}.jpg" for name in ("Ann/Ann_0001", "Ann/Ann_0002", "Bo/Bo_0001")))
        (tmp_path / "lfw" / part / "pairs.txt").write_text("1 1\nAnn 1 2\nAnn 1 Bo 1\n")
    tasks, _ = find_sets(tmp_path)
    assert [task.name for task in tasks] == ["lfw", "lfw (lfw/plain)"]
    assert [list(task.parts) for task in tasks] == [["lfw"], ["lfw-lfw-plain"]]
    for task, part in zip(tasks, ("masked", "plain"), strict=True):
        images = next(iter(task.parts.values()))(tmp_path)
        assert images.files.root == tmp_path / "lfw" / part


def test_a_list_beside_the_folders_is_named(tmp_path: Path):
    touch(tmp_path, "lfw/pairs.txt", "xqlfw_pairs.txt", "readme.txt", "sets.bin")
    tasks, unknown = find_sets(tmp_path)
    assert [task.name for task in tasks] == ["lfw", "sets"]
    assert unknown == ("xqlfw_pairs.txt",)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (("name_5pts_score.txt", "1N_gallery_G1.csv", "1N_gallery_G2.csv", "1N_probe_mixed.csv"), ""),
        (("name_5pts_score.txt", "1N_gallery_G1.csv", "1N_probe_mixed.csv"), "ijbc_1N_gallery_G1.csv is the only"),
        (("name_5pts_score.txt", "1N_probe_mixed.csv"), "the galleries are not there"),
        (("name_5pts_score.txt", "1N_gallery_G1.csv"), "ijbc_1N_probe_mixed.csv is not there"),
        (("1N_gallery_G1.csv", "1N_gallery_G2.csv", "1N_probe_mixed.csv"), "ijbc_name_5pts_score.txt is not there"),
    ],
)
def test_what_a_folder_of_ijb_lacks_is_noted(tmp_path: Path, names: tuple[str, ...], says: str):
    touch(tmp_path, *(f"any/meta/ijbc_{name}" for name in ("face_tid_mid.txt", "template_pair_label.txt", *names)))
    notes = find_sets(tmp_path)[0][0].notes
    assert len(notes) == bool(says)
    assert all(note.startswith(says) for note in notes)


def test_every_entry_of_the_table_is_documented():
    text = (Path(__file__).parents[3] / "docs" / "protocols.md").read_text(encoding="utf-8")
    assert not [known.recognised for known in KNOWN_SETS if f"`{known.recognised.split(',')[0]}`" not in text]


def positions(names: list[str], place: Path, root: Path, folders: bool = False) -> tuple[str, list[list[str]]]:
    where, files, rows = find_images(names, place, root, folders)
    return where.name, [[files.names[row] for row in part] for part in rows]


def test_images_are_looked_for_in_the_own_folder_first_and_then_in_the_others(tmp_path: Path):
    touch(tmp_path, "lfw/images/Ann/Ann_0001.png", "lfw/images/Ann/Ann_0002.png", "sllfw/pair_SLLFW.txt")
    names = ["Ann/Ann_0002.jpg", "Ann/Ann_0001.jpg"]
    found = [["images/Ann/Ann_0002.png"], ["images/Ann/Ann_0001.png"]]
    assert positions(names, tmp_path / "sllfw", tmp_path) == ("lfw", found)
    touch(tmp_path, "sllfw/Ann/Ann_0001.png", "sllfw/Ann/Ann_0002.png")
    assert positions(names, tmp_path / "sllfw", tmp_path)[0] == "sllfw"


def test_of_two_folders_that_with_all_images_counts(tmp_path: Path):
    touch(tmp_path, "set/raw/Ann_1.jpg", "set/aligned images/Ann_1.jpg", "set/aligned images/Bo_1.jpg")
    found = [["aligned images/Ann_1.jpg"], ["aligned images/Bo_1.jpg"]]
    assert positions(["Ann_1.jpg", "Bo_1.jpg"], tmp_path / "set", tmp_path) == ("set", found)


def test_of_files_that_differ_in_their_suffixes_the_listed_one_counts(tmp_path: Path):
    touch(tmp_path, "set/Ann/1.jpg", "set/Ann/1.png", "set/Ann/2.png", "set/Ann/2.bmp", "set/Ann/3.jpg")
    names = ["Ann/1.png", "Ann/3.jpg", "Ann/1.jpg"]
    assert positions(names, tmp_path / "set", tmp_path)[1] == [["Ann/1.png"], ["Ann/3.jpg"], ["Ann/1.jpg"]]
    with pytest.raises(ValueError, match=r"set: 'Ann/2\.jpg' could be 'Ann/2\.bmp' or 'Ann/2\.png'; remove one"):
        find_images(["Ann/3.jpg", "Ann/2.jpg"], tmp_path / "set", tmp_path)
    with pytest.raises(ValueError, match=r"'Ann/3\.png' and 'Ann/3\.bmp' are two images of the list, but both names"):
        find_images(["Ann/3.png", "Ann/3.bmp"], tmp_path / "set", tmp_path)


def test_listed_names_may_have_differing_numbers_of_folders(tmp_path: Path):
    touch(tmp_path, "set/images/1.jpg", "set/images/Ann/1.jpg", "set/images/Ann/day/2.jpg", "set/other/1.jpg")
    names = ["Ann/day/2.jpg", "1.jpg", "Ann/1.jpg"]
    assert positions(names, tmp_path / "set", tmp_path)[1] == [[f"images/{name}"] for name in names]


def test_of_two_equal_folders_the_aligned_one_counts(tmp_path: Path):
    """As XQLFW is downloaded: its original images and the aligned ones, under the same names."""
    names = ["Ann/Ann_0001.jpg"]
    touch(tmp_path, "x/a_original/Ann/Ann_0001.jpg", "x/xqlfw_aligned_112/Ann/Ann_0001.jpg", "x/b/Ann/Ann_0001.jpg")
    assert positions(names, tmp_path / "x", tmp_path)[1] == [["xqlfw_aligned_112/Ann/Ann_0001.jpg"]]


def test_videos_are_folders_of_frames(tmp_path: Path):
    touch(tmp_path, "ytf/frames/Ann/0/0.98.jpg", "ytf/frames/Ann/0/0.100.jpg", "ytf/frames/Ann/1/1.5.jpg")
    _, found = positions(["Ann/1", "Ann/0"], tmp_path / "ytf", tmp_path, folders=True)
    assert found == [["frames/Ann/1/1.5.jpg"], ["frames/Ann/0/0.100.jpg", "frames/Ann/0/0.98.jpg"]]


def test_a_name_with_dots_and_without_a_suffix_stays_whole(tmp_path: Path):
    """RFW's people are called m.0abc12, and two of them may differ behind the dot alone."""
    touch(tmp_path, "rfw/m.0a_0001.jpg", "rfw/m.0b_0001.jpg")
    assert positions(["m.0b_0001.jpg"], tmp_path / "rfw", tmp_path)[1] == [["m.0b_0001.jpg"]]


def test_folders_that_labels_contradict_are_said_to_be_compared_with_nobody(tmp_path: Path, caplog):
    """A suite would else compare no people with the training, and leave that unsaid."""
    touch(tmp_path, "mine/Ann/1.jpg", "mine/Ann/2.jpg", "mine/Bo/1.jpg")
    (tmp_path / "mine" / "pairs.csv").write_text("left,right,label\nAnn/1.jpg,Ann/2.jpg,0\nAnn/1.jpg,Bo/1.jpg,0\n")
    (task,) = find_sets(tmp_path)[0]
    (read,) = task.parts.values()
    assert read(tmp_path).identities == ("-1",) * 3
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "people, which 1 label contradicts, nor compared with the training's people" in said


@pytest.mark.parametrize("folders", [("none", "mask"), ("Left", "left")])
def test_folders_that_are_no_people_are_refused_for_no_spelling(tmp_path: Path, folders: tuple[str, str]):
    one, two = folders
    touch(tmp_path, *(f"mine/{folder}/{number}.jpg" for folder in folders for number in (1, 2)))
    pairs = f"left,right,label\n{one}/1.jpg,{two}/1.jpg,1\n{one}/1.jpg,{one}/2.jpg,0\n"
    (tmp_path / "mine" / "pairs.csv").write_text(pairs)
    (task,) = find_sets(tmp_path)[0]
    (read,) = task.parts.values()
    assert set(read(tmp_path).identities) == {"-1"}


@pytest.mark.parametrize(("rule", "labels"), [
    ("merge", "1 label contradicts"), ("exact", "2 labels contradict"), (None, "2 labels contradict")
])  # fmt: skip
def test_labels_that_contradict_folders_are_counted_by_the_rule_of_names(tmp_path: Path, caplog, rule, labels: str):
    touch(tmp_path, "mine/Ann/1.jpg", "mine/ann/2.jpg", "mine/Bo/1.jpg", "mine/Bo/2.jpg")
    pairs = "left,right,label\nAnn/1.jpg,ann/2.jpg,1\nBo/1.jpg,Bo/2.jpg,0\n"
    (tmp_path / "mine" / "pairs.csv").write_text(pairs)
    (task,) = find_sets(tmp_path)[0]
    (read,) = task.parts.values()
    with names_taken(rule):
        assert set(read(tmp_path).identities) == {"-1"}
    assert f"which {labels}, nor" in caplog.text


def test_folders_in_two_spellings_are_people_as_the_rule_of_names_says(tmp_path: Path):
    touch(tmp_path, "mine/Ann/1.jpg", "mine/ann/2.jpg", "mine/Bo/1.jpg")
    (tmp_path / "mine" / "pairs.csv").write_text("left,right,label\nAnn/1.jpg,ann/2.jpg,1\nAnn/1.jpg,Bo/1.jpg,0\n")
    (task,) = find_sets(tmp_path)[0]
    (read,) = task.parts.values()
    with pytest.raises(ValueError, match=r"pairs\.csv: .*'Ann'.*'ann'.* are one name but for case"):
        read(tmp_path)
    rules: tuple[Names, ...] = ("merge", "exact")
    people = []
    for rule in rules:
        with names_taken(rule):
            people.append(read(tmp_path).identities)
    assert people == [("Ann", "Ann", "Bo"), ("-1",) * 3]  # two people whom a label calls one are none


def test_missing_images_are_counted_and_the_first_is_named(tmp_path: Path):
    touch(tmp_path, "set/Ann/1.jpg")
    with pytest.raises(ValueError, match=r"set: 2 of 3 listed images are not there, the first 'Bo/1\.jpg'"):
        find_images(["Ann/1.jpg", "Bo/1.jpg", "Cy/1.jpg"], tmp_path / "set", tmp_path)
    with pytest.raises(ValueError, match=r"none of the 1 listed images is there, the first 'Dee/1\.jpg'"):
        find_images(["Dee/1.jpg"], tmp_path / "set", tmp_path)
