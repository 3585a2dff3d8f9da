"""Lists of labels: what they hold, and which faults are named by their line."""

from pathlib import Path

import pytest

from verisphere.files.label_lists import LabelList, read_labels, write_labels

FULL = LabelList(("a b/1.jpg", 'quoted "x"\n,y'), ("Ann", "Ben"), ("day", "night"), ("Ann", "Cid"))


@pytest.mark.parametrize("labels", [FULL, LabelList(("a/1",), ("Ann",)), LabelList(("a/1",), ("Ann",), None, ("Ben",))])
def test_what_is_written_reads_back(tmp_path: Path, labels: LabelList):
    write_labels(tmp_path / "kept.txt", labels)
    assert read_labels(tmp_path / "kept.txt") == labels


def test_an_identity_is_held_once(tmp_path: Path):
    (tmp_path / "list.csv").write_text("name,identity,true_identity\na/1,Ann,Ann\na/2,Ann,Ben\n")
    labels = read_labels(tmp_path / "list.csv")
    assert labels.true_identities is not None
    assert labels.identities[0] is labels.identities[1] is labels.true_identities[0]


def test_other_columns_are_ignored_and_columns_come_in_any_order(tmp_path: Path):
    (tmp_path / "list.csv").write_text("identity,score,name\nAnn,0.5,a/1\n")
    assert read_labels(tmp_path / "list.csv") == LabelList(("a/1",), ("Ann",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: no column 'name' among"),
        (
            "a/1,Ann\n",
            "line 1: no column 'name' among .*; a list of labels begins with a line that names .* name, identity",
        ),
        ("name,identity,name\na/1,Ann,x\n", "line 1: two columns are named 'name'"),
        ("name,identity\n", "no images below the header"),
        ("name,identity\na/1\n", "line 2: 1 values where the header has 2 columns"),
        ("name,identity\na/1,\n", "line 2: identity '' has 0 characters; allowed are 1 to 255"),
        ("name,identity\na/1," + "x" * 256, "line 2: identity .* has 256 characters"),
        ("name,identity\na/1,Ann\nb/1,Ben\na/1,Ben\n", "line 4: 'a/1' is already on line 2"),
    ],
)
def test_faults_name_the_line(tmp_path: Path, text: str, message: str):
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(ValueError, match=f"list.csv: {message}"):
        read_labels(tmp_path / "list.csv")


@pytest.mark.parametrize("name", ["a\rb", "a\udc80b", "x" * 200_000])
def test_a_value_that_could_not_be_read_back_is_not_written(tmp_path: Path, name: str):
    with pytest.raises(ValueError, match="cannot stand in a list of labels"):
        write_labels(tmp_path / "kept.txt", LabelList((name,), ("Ann",)))
    assert not (tmp_path / "kept.txt").exists()
