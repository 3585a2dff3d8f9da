"""The folder of clusters: it is read back as it was written, and a wrong edit is one line with its place."""

import json
from pathlib import Path

import pytest

from verisphere.base.identity import names_taken
from verisphere.decide.purity import ClusterFigures
from verisphere.files.clusters import Cluster, Clusters, Face, Proposal, read_clusters, read_links, read_people
from verisphere.files.results import EvaluatedFile

FACES = (Face("a", 0.7, "2", 0.4), Face("=b", 0.6, None, None, True, alone="2"), Face("c", 0.5, "2", 0.1, before="9"))
MADE = Clusters(
    source=EvaluatedFile("faces.npz", "0" * 64),
    threshold=0.45,
    margin=0.0,
    price=0.1,
    clusters=(
        Cluster("Ann", FACES, (Face("d", 0.5, "2", 0.6, before="Ann"),)),
        Cluster("2", (Face("e", None, None, None),)),
    ),
    proposals=(Proposal("Ann", "2", 0.4, 0.5, "a", "e"),),
    before="1" * 64,
    gone=("x",),
    known=ClusterFigures(5, 2, 3, 1, 0.2, 0.1, 0.9, 0.8, 0.7, 0.6),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    MADE.write(tmp_path)
    return tmp_path


def test_clusters_are_read_as_they_were_written(folder: Path):
    assert read_clusters(folder) == MADE


def test_people_csv_is_a_line_for_each_face_in_cells_that_no_spreadsheet_runs(folder: Path):
    assert (folder / "people.csv").read_text().splitlines() == [
        "name,person,confirmed,unsure,score,nearest,nearest_score,before,alone",
        "a,Ann,,,0.7000,2,0.4000,,",
        "'=b,Ann,yes,,0.6000,,,,2",
        "c,Ann,,,0.5000,2,0.1000,9,",
        "d,,,Ann or 2,0.5000,2,0.6000,Ann,",
        "e,2,,,,,,,",
    ]
    people, confirmed = read_people(folder, ["a", "=b", "c", "d", "e"])
    assert people == {"a": "Ann", "=b": "Ann", "c": "Ann", "d": "", "e": "2"}
    assert confirmed == {"=b": "Ann"}


def test_the_text_lists_what_is_to_be_looked_at(folder: Path):
    assert MADE.text().splitlines() == [
        "faces.npz: 5 faces at threshold 0.45: 1 cluster of two or more, 1 single face, 1 unsure",
        "nothing is promised of a threshold chosen by hand",
        "largest clusters: 1",
        "  Ann: 3 faces",
        "unsure faces, nearer to another cluster than to their own: 1",
        "  d: Ann or 2",
        "clusters that may be one person (200 pairs at most): 1",
        "  Ann and 2: average score 0.400; see a and e",
        "confirmed before, and not in these embeddings: 1",
        "  x",
        "grouped otherwise than before, and not confirmed: 2",
        "  c: 9 before, now Ann",
        "  d: Ann before, now unsure",
        "as confirmed, and grouped otherwise by the embeddings alone: 1",
        "  =b: Ann, else 2",
        "beside the identities of the file (2 people): impurity 0.1000, 1 mixed cluster; B-cubed precision 0.9000, "
        "recall 0.8000, F 0.8471; pairs 0.7000, 0.6000; unsure faces count alone",
    ]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["name,person", "a,Ann"], "line 1: no column 'confirmed' among ['name', 'person']; the file is people.csv of"),
        (["name;person;confirmed"], "line 1: no column 'name'"),
        (["name,person,confirmed", "a,Ann,maybe"], "line 2: confirmed is 'maybe'; allowed are yes, no and nothing"),
        (["name,person,confirmed", "a, ,yes"], "line 2: 'a' is confirmed, and column person names nobody"),
        (["name,person,confirmed", "a,Ann,", "b,Ann,", "a,Ben,"], "line 4: 'a' is already on line 2"),
        (["name,person,confirmed", "a,Ann"], "line 2: 2 values where the header has 3 columns"),
    ],
)
def test_a_wrong_edit_is_one_line_with_its_place(folder: Path, lines: list[str], said: str):
    (folder / "people.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"people\.csv: ") as error:
        read_people(folder, "a")
    assert said in str(error.value)


def test_one_person_in_two_spellings_is_refused_unless_names_decide(folder: Path):
    (folder / "people.csv").write_text("name,person,confirmed\na,Ann,yes\nb,Ann,no\nc,ann ,yes\nd,,\n")
    with pytest.raises(ValueError, match=r"'ann'.*'Ann'|'Ann'.*'ann'"):
        read_people(folder, [])
    with names_taken("merge"):
        assert read_people(folder, [])[1] == {"a": "Ann", "c": "Ann"}
    with names_taken("exact"):
        assert read_people(folder, [])[1] == {"a": "Ann", "c": "ann"}


def test_a_person_whose_name_looks_like_a_formula_is_read_as_it_was(folder: Path):
    (folder / "people.csv").write_text("name,person,confirmed\na,'@ann,yes\nb,@ann,yes\nc,'ann,yes\nd,',\n")
    assert read_people(folder, []) == (
        {"a": "@ann", "b": "@ann", "c": "'ann", "d": "'"},
        {"a": "@ann", "b": "@ann", "c": "'ann"},
    )


@pytest.mark.parametrize(
    ("other", "lines", "said"),
    [
        ("other", ["name,to", "a,b"], "line 1: no column 'other'"),
        ("other", ["name,other", "a,a"], "line 2: 'a,a' is no link of two"),
        ("other", ["name,other", "a,b", "a,"], "line 3: 'a,' is no link of two"),
        ("other", ["name,other", "a,z"], "line 2: 'z' is no face of the embeddings"),
        ("photograph", ["name,photograph", "a,1", "b,1", "a,2"], "line 4: 'a' is already on line 2"),
        ("photograph", ["name,photograph", "a,"], "line 2: 'a,' is no link of two"),
        ("photograph", ["name,photograph", "a,1", "b, NaN"], "line 3: 'b, NaN' is no link of two"),
        (
            "photograph",
            ["name,photograph", "y,1", "z,1"],
            "none of what it names (2 faces) is in the embeddings, first 'y'",
        ),
    ],
)
def test_wrong_links_are_one_line_with_their_place(tmp_path: Path, other: str, lines: list[str], said: str):
    (tmp_path / "links.csv").write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"links\.csv: ") as error:
        read_links(tmp_path / "links.csv", other, {"a": 0, "b": 1})
    assert said in str(error.value)


def test_links_and_photographs_of_faces(tmp_path: Path):
    (tmp_path / "links.csv").write_text("other,name,why\nb,a,twins\n\n")
    assert read_links(tmp_path / "links.csv", "other", {"a": 5, "b": 3}) == [(5, 3)]
    # a photograph may be named like a face; of its faces those are paired that are in the embeddings
    (tmp_path / "links.csv").write_text("name,photograph\na,a\nc,2\nz,a\nd,a\nb,a\ne,2\n")
    rows = {name: row for row, name in enumerate("abcde")}
    assert read_links(tmp_path / "links.csv", "photograph", rows) == [(0, 3), (0, 1), (3, 1), (2, 4)]


def test_other_files_are_no_clusters(folder: Path):
    document = json.loads((folder / "clusters.json").read_text())
    for wrong, said in (
        ("{", "not clusters as `verisphere cluster` writes them"),
        ("[]", "format [], and this version reads format 1"),
        (json.dumps(document | {"format": 2}), "format 2, and this version reads format 1"),
        (json.dumps(document | {"clusters": document["clusters"] * 2}), "the face 'a' is in it twice"),
        (json.dumps({key: document[key] for key in document if key != "proposals"}), "proposals is missing"),
        (json.dumps(document | {"clusters": [{"person": 3}]}), "clusters[0].person must be text, got 3"),
    ):
        (folder / "clusters.json").write_text(wrong)
        with pytest.raises(ValueError, match=r"clusters\.json: ") as error:
            read_clusters(folder)
        assert said in str(error.value)
    (folder / ".work").mkdir()
    for read in (read_clusters, lambda path: read_people(path, [])):
        with pytest.raises(ValueError, match="its clusters are not finished"):
            read(folder)
