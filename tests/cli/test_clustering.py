"""`verisphere cluster` as it is typed: what it says, and one line for each wrong call or input."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from made_library import edited, library, saved, table
from verisphere.base.vocabulary import Embeddings
from verisphere.files.clusters import read_clusters

pytestmark = pytest.mark.usefixtures("process_as_it_was")


def test_a_library_is_grouped_confirmed_and_grouped_again(tmp_path: Path, says):
    faces, first = library(), tmp_path / "first"
    path = saved(tmp_path, faces.take(~np.char.endswith(faces.names, "/4")))
    out = says("cluster", path, "--threshold", 0.45, "--out", first)
    lines = out.splitlines()
    head = "library.npz: 32 faces at threshold 0.45: 8 clusters of two or more, 0 single faces, 0 unsure"
    assert lines[:2] == [head, "nothing is promised of a threshold chosen by hand"]
    assert lines[2:4] == ["largest clusters: 8", "  1: 4 faces"]
    assert lines[-1].startswith(f"{first}: people.csv, clusters.json; next: in people.csv write a name into person")
    assert "identities" not in out
    edited(first, {"p3/0": ("Ann", "yes"), "p4/0": ("Ann", "yes")})
    path = saved(tmp_path, faces)
    out = says("cluster", path, "--threshold", 0.45, "--before", first, "--out", tmp_path / "later", "--known")
    assert out.splitlines()[3] == "  Ann: 10 faces"
    assert "as confirmed, and grouped otherwise by the embeddings alone: 1\n  p4/0: Ann, else another\n" in out
    assert "beside the identities of the file (8 people): impurity 0.1250, 1 mixed cluster" in out
    rows = table(tmp_path / "later" / "people.csv")
    assert {rows[f"p{who}/{face}"]["person"] for who in (3, 4) for face in range(5)} == {"Ann"}
    assert read_clusters(tmp_path / "later").before is not None


def test_identities_matter_only_where_they_are_compared(tmp_path: Path, says, run, refused):
    faces = library()
    spelt = np.array([("P" if face % 2 else "p") + name[1:] for face, name in enumerate(faces.identities)])
    arrays = {"embeddings": faces.embeddings, "names": faces.names, "identities": spelt}
    np.savez(tmp_path / "library.npz", **arrays)
    call = ("cluster", tmp_path / "library.npz", "--threshold", 0.45, "--out")
    assert run(*call, tmp_path / "out")[0] == 0
    assert "'P0'" in refused(*call, tmp_path / "known", "--known")
    out = says(*call, tmp_path / "merged", "--known", "--names", "merge")
    assert "(8 people): impurity 0.0000, 0 mixed" in out
    nobody = replace(faces, identities=np.where(faces.identities == "p0", "-1", faces.identities))
    _, out, _ = run("cluster", saved(tmp_path, nobody), "--threshold", 0.45, "--out", tmp_path / "nobody", "--known")
    assert "(7 people)" in out


def test_small_and_equal_libraries(tmp_path: Path, says):
    one = saved(tmp_path, Embeddings([[1.0, 2.0]], names=["a"], identities=["x"]), "one.npz")
    out = says("cluster", one, "--threshold", 0.45, "--out", tmp_path / "one")
    assert out.startswith("one.npz: 1 face at threshold 0.45: 0 clusters of two or more, 1 single face, 0 unsure\n")
    equal = saved(tmp_path, Embeddings(np.ones((300, 8)), identities=["x"] * 300), "equal.npz")
    out = says("cluster", equal, "--threshold", 0.45, "--out", tmp_path / "equal")
    assert "1 cluster of two or more, 0 single faces, 0 unsure\n" in out


def test_wrong_calls_and_inputs_are_one_line_and_leave_nothing(tmp_path: Path, refused, monkeypatch):
    path, out = saved(tmp_path, library()), tmp_path / "out"

    def call(*words: object, of: Path = path) -> str:
        line = refused("cluster", of, "--threshold", 0.45, "--out", out, *words)
        assert not out.exists()
        return line

    def file(name: str, *lines: str) -> Path:
        (tmp_path / name).write_text("\n".join(lines))
        return tmp_path / name

    assert "--threshold" in refused("cluster", path, "--out", out)
    assert "--threshold 1: allowed are scores above -1 and below 1" in call("--threshold", 1)
    assert "--threshold nan: allowed" in call("--threshold", "nan")
    assert "--margin -0.1: allowed are differences of scores from 0 on" in call("--margin", -0.1)
    links = file("links.csv", "name,other", "p0/0,p0/9")
    assert "links.csv: line 2: 'p0/9' is no face of the embeddings" in call("--together", links)
    same, two = file("same.csv", "name,other", "p0/0,p0/1"), file("two.csv", "name,other", "p0/1,p0/0")
    said = call("--together", same, "--apart", two)
    assert f"{path}: links contradict each other: 'p0/0' and 'p0/1' must be together, and may not be" in said
    photographs = file("photographs.csv", "name,photograph", "p0/0,x", "p0/0,y")
    assert "photographs.csv: line 3: 'p0/0' is already on line 2" in call("--photographs", photographs)
    assert "people.csv: there is no such file" in call("--before", tmp_path)
    empty = {"embeddings": np.zeros((1_000_000, 4), np.float32), "names": np.arange(1_000_000)}
    np.savez(tmp_path / "empty.npz", identities=np.zeros(1_000_000, int), **empty)
    said = call(of=tmp_path / "empty.npz")
    assert "empty.npz: 1000000 of 1000000 embeddings have length zero, the first is '0' (row 0)" in said
    monkeypatch.setattr("verisphere.ship.clusters.face_tree.MOST_PAIRS", 10)
    assert f"{path}: more than 10 pairs" in call()


def test_no_folder_is_overwritten(tmp_path: Path, run, refused):
    path, out = saved(tmp_path, library()), tmp_path / "out"
    assert run("cluster", path, "--threshold", 0.45, "--out", out)[0] == 0
    held = (out / "people.csv").read_bytes()
    call = ("cluster", path, "--threshold", 0.45, "--out", out)
    assert "out: a folder that is not empty; a result needs a new folder" in refused(*call)
    assert "which is read here" in refused(*call, "--before", out)
    assert (out / "people.csv").read_bytes() == held


def test_a_page_is_made_where_there_are_images(tmp_path: Path, says, refused):
    names = [f"p{who}/{face}.png" for who in range(2) for face in range(2)]
    for shade, name in enumerate(names):
        (tmp_path / "faces" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (shade, 9, 9)).save(tmp_path / "faces" / name)
    faces = Embeddings(np.eye(4)[[0, 0, 1, 1]], names=names, identities=["x"] * 4)
    call = ("cluster", saved(tmp_path, faces), "--threshold", 0.45, "--out")
    out = says(*call, tmp_path / "out", "--faces", tmp_path / "faces")
    assert f"{tmp_path / 'out'}: people.csv, clusters.json, index.html; next:" in out
    assert (tmp_path / "out" / "index.html").read_text().count(
        "<img"
    ) == 8  # each cluster, and one face beside each medoid
    (tmp_path / "faces" / names[3]).unlink()
    (tmp_path / "faces" / "p1" / "other.png").write_bytes((tmp_path / "faces" / names[0]).read_bytes())
    line = refused(*call, tmp_path / "later", "--faces", tmp_path / "faces")
    assert "1 of 4 images of" in line
    assert names[3] in line
