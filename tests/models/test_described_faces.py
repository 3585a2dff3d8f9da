"""Any data set from the command line: photographs on disk, or a class that a YAML file describes."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from verisphere.base.identity import names_taken
from verisphere.images import ByLight, Photos, SyntheticFaces
from verisphere.models.described_faces import open_faces
from verisphere.report.plots import save_image

DRAWN = "class_path: verisphere.images.SyntheticFaces\ninit_args: {people: 4, images: 2, size: 48, domains: [studio]}\n"
PIXELS = "class_path: verisphere.backbones.Pixels\ninit_args: {side: 8}\n"


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    path = tmp_path / "drawn.yaml"
    path.write_text(DRAWN)
    return path


def test_a_described_data_set_is_the_one_that_a_recipe_would_train_on(drawn: Path):
    expected = SyntheticFaces(people=4, images=2, size=48, domains=["studio"])
    faces = open_faces(drawn)
    assert (faces.names, faces.identities, faces.domains) == (expected.names, expected.identities, expected.domains)
    assert torch.equal(faces.images([5]), expected.images([5]))


def test_the_data_of_a_recipe(tmp_path: Path):
    indented = DRAWN.replace("\n", "\n  ")
    (tmp_path / "recipe.yaml").write_text(f"epochs: 1\ndata:\n  {indented}")
    assert len(open_faces(tmp_path / "recipe.yaml")) == 8


def test_a_data_set_made_of_another(tmp_path: Path):
    inner = "{class_path: verisphere.images.SyntheticFaces, init_args: {people: 2, images: 3, size: 48}}"
    (tmp_path / "set.yml").write_text(
        f"class_path: verisphere.images.ByLight\ninit_args: {{faces: {inner}, names: [dark, bright]}}\n"
    )
    faces = open_faces(tmp_path / "set.yml")
    assert isinstance(faces, ByLight)
    assert sorted(faces.domains) == ["bright"] * 3 + ["dark"] * 3


def test_the_list_of_people_is_read_as_the_set_takes_its_names(tmp_path: Path):
    for name in ("AB", "ab", "Cy"):
        (tmp_path / "codes" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "codes" / name / "1.png")
    described = f"class_path: verisphere.images.Photos\ninit_args: {{path: {tmp_path}/codes, names: exact}}\n"
    (tmp_path / "codes.yaml").write_text(described)
    (tmp_path / "people.txt").write_text("AB\nCy\n")
    assert open_faces(tmp_path / "codes.yaml", tmp_path / "people.txt").people == ("AB", "Cy")


def test_only_the_listed_people(drawn: Path, tmp_path: Path):
    (tmp_path / "people.txt").write_text("studio-p00002\nstudio-p00000\n")
    assert open_faces(drawn, tmp_path / "people.txt").people == ("studio-p00000", "studio-p00002")
    (tmp_path / "people.txt").write_text("Nobody\n")
    with pytest.raises(ValueError, match=r"people\.txt, the list of people \(--people\): 1 of 1 people are not in"):
        open_faces(drawn, tmp_path / "people.txt")


@pytest.mark.parametrize(
    ("name", "more"), [("rows.npz", "; if it holds embeddings, `verisphere evaluate`"), ("a", "$")]
)
def test_a_file_of_another_kind_is_refused_with_all_that_are_allowed(name: str, more: str, tmp_path: Path):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match=rf"{name}: no set of images; .* and a YAML file .* \(\.yaml \.yml\){more}"):
        open_faces(tmp_path / name)


def test_a_folder_is_photographs(tmp_path: Path):
    save_image(SyntheticFaces(1, 1, size=48).images([0])[0], tmp_path / "faces" / "Ann" / "1.png")
    faces = open_faces(tmp_path / "faces", size=(64, 48))
    assert isinstance(faces, Photos)
    assert faces.images([0]).shape == (1, 3, 64, 48)


def test_classes_from_elsewhere_need_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "foreign_faces.py").write_text("from verisphere.images import SyntheticFaces as Mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine.yaml").write_text("class_path: foreign_faces.Mine\ninit_args: {people: 2, size: 48}\n")
    with pytest.raises(ValueError, match=r"mine\.yaml: data set: 'foreign_faces\.Mine' is not part of .* --trust-code"):
        open_faces(tmp_path / "mine.yaml")
    assert len(open_faces(tmp_path / "mine.yaml", trust=True)) == 20


def test_a_class_from_elsewhere_takes_names_as_the_rule_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "spelled_faces.py").write_text(
        "from verisphere.images import SyntheticFaces\n\n\nclass Spelled(SyntheticFaces):\n"
        "    def __init__(self):\n        super().__init__(2, 2, size=48)\n"
        "        self.identities = ('Ann', 'ann', 'Ben', 'Ben')\n"
        "        self.true_identities = ('ANN', 'Ann', 'Ben', 'Ann')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine.yaml").write_text("class_path: spelled_faces.Spelled\n")
    with pytest.raises(ValueError, match=r"mine\.yaml: 'Ann' .* and 'ann' .* are one name but for case"):
        open_faces(tmp_path / "mine.yaml", trust=True)
    for rule, people, right in (("merge", ("Ann", "Ben"), 3), ("exact", ("Ann", "Ben", "ann"), 1)):
        with names_taken(rule):
            faces = open_faces(tmp_path / "mine.yaml", trust=True)
            assert faces.people == people
            assert faces.names_rule == rule
            assert faces.true_identities is not None
            pairs = zip(faces.identities, faces.true_identities, strict=True)
            assert sum(given == true for given, true in pairs) == right
            assert faces.images([0]).shape == (1, 3, 48, 48)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1\n", "names no data set"),
        (
            "class_path: verisphere.images.Augment\n",
            "verisphere.images.Augment does not correspond to a subclass of Faces",
        ),
        ("class_path: verisphere.images.Absent\n", "data set: verisphere.images.Absent: .* no attribute"),
        (PIXELS, "data set: 'verisphere.backbones.Pixels' is not part of verisphere"),
        (DRAWN.replace("people: 4", "people: many"), "people must be a whole number, got 'many'"),
        (DRAWN.replace("people: 4", "people: 0"), "people is 0; a set has at least 1"),
        (DRAWN.replace("people", "persons"), "there is no field 'persons'"),
    ],
)
def test_what_describes_no_data_set(tmp_path: Path, text: str, message: str):
    (tmp_path / "set.yaml").write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        open_faces(tmp_path / "set.yaml")
    assert str(caught.value).startswith(f"{tmp_path / 'set.yaml'}: ")


def test_nothing_there(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"set\.yaml: there is no such file"):
        open_faces(tmp_path / "set.yaml")
