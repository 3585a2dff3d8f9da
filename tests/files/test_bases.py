"""Files over bases: what goes over what, circles, names that are not there, and where a value was set."""

from pathlib import Path

import pytest

from verisphere.files.definitions import merge, read_based
from verisphere.files.documents import LARGEST_YAML


@pytest.fixture
def write(tmp_path: Path):
    def written(**texts: str) -> Path:
        """Files by these names; the path of the first."""
        for name, text in texts.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        return tmp_path / f"{next(iter(texts))}.yaml"

    return written


ARCFACE = {"class_path": "ArcFace", "init_args": {"margin": 0.5, "scale": 64}}


@pytest.mark.parametrize(
    ("base", "over", "merged"),
    [
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 4}, "e": 5}, {"a": 1, "b": {"c": 4, "d": 3}, "e": 5}),
        ([{"x": 1}, {"y": 2}], [{"z": 3}], [{"z": 3}]),
        ({"a": {"b": 1}}, {"a": None}, {"a": None}),
        ({"a": None}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": {"b": 1}}, {"a": 2}, {"a": 2}),
        (ARCFACE, {"init_args": {"margin": 0.3}}, {"class_path": "ArcFace", "init_args": {"margin": 0.3, "scale": 64}}),
        (ARCFACE, {"class_path": "ArcFace", "init_args": {"t": 3}},
         {"class_path": "ArcFace", "init_args": {"margin": 0.5, "scale": 64, "t": 3}}),
        (ARCFACE, {"class_path": "CosFace"}, {"class_path": "CosFace"}),
        (ARCFACE, "CosFace", "CosFace"),
        ("ArcFace", {"init_args": {"t": 3}}, {"class_path": "ArcFace", "init_args": {"t": 3}}),
    ],
)  # fmt: skip
def test_what_goes_over_what(base: object, over: object, merged: object):
    assert merge(base, over) == merged


def test_bases_at_any_depth_by_path_and_by_name(write, tmp_path: Path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "deep.yaml").write_text("base: photos\nepochs: 7\n")
    path = write(mine="base: shared/middle.yaml\nseed: 3\n")
    (tmp_path / "shared" / "middle.yaml").write_text("base: deep.yaml\nbatch_size: 9\n")  # relative to this file
    based = read_based(path)
    assert [file.path.name for file in based.files] == ["mine.yaml", "middle.yaml", "deep.yaml", "photos.yaml"]
    fields = based.content
    assert (fields["seed"], fields["batch_size"], fields["epochs"], fields["save_every"]) == (3, 9, 7, 5)
    assert "base" not in fields


def test_a_file_beside_goes_before_a_packaged_recipe_and_a_folder_does_not(write, tmp_path: Path):
    path = write(mine="base: photos\n")
    (tmp_path / "photos").mkdir()
    assert read_based(path).content["epochs"] == 40
    (tmp_path / "photos").rmdir()
    (tmp_path / "photos").write_text("epochs: 1\n")
    assert read_based(path).content == {"epochs": 1}


def test_a_class_path_of_old_is_the_present_one(write):
    path = write(
        mine="base: other.yaml\nbackbone: {class_path: verisphere.backbones.Pixels, init_args: {side: 7}}\n",
        other="backbone: {class_path: verisphere.embed.Pixels, init_args: {grey: true}}\n",
    )
    assert read_based(path).content["backbone"]["init_args"] == {"grey": True, "side": 7}


def test_where_a_value_was_set(write, tmp_path: Path):
    path = write(
        mine="base: other.yaml\nloss:\n  init_args:\n    margin: 1\n",
        other="epochs: 3\nloss:\n  init_args: {margin: 2,\n    scale: 4}\nterms:\n  - far: 5\n",
    )
    based, other = read_based(path), tmp_path / "other.yaml"
    assert based.origin(["loss", "init_args", "margin"]) == (path, 4)
    assert based.origin(["loss", "init_args", "scale"]) == (other, 4)
    assert based.origin(["terms", "0", "far"]) == (other, 6)
    assert based.origin(["terms", "1"]) is None
    assert based.origin(["seed"]) is None


def test_a_circle_is_refused_with_its_chain(write, tmp_path: Path):
    path = write(a="base: b.yaml\n", b="base: c.yaml\n", c="base: b.yaml\n")
    chain = " > ".join(str(tmp_path / f"{name}.yaml") for name in "bcb")
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        read_based(path)
    assert str(caught.value) == f"{path}: its bases form a circle: {chain}"
    path.write_text("base: a.yaml\n")
    with pytest.raises(ValueError, match=r"a\.yaml > .*a\.yaml\Z"):
        read_based(path)


@pytest.mark.parametrize(
    ("base", "kind", "message"),
    [
        (
            "losses/arcfaze",
            FileNotFoundError,
            "base 'losses/arcfaze': there is no such file or recipe (did you mean losses/arcface",
        ),
        ("recipes/photos.yaml", FileNotFoundError, "verisphere has it under the name photos"),
        ("absent.yaml", FileNotFoundError, "base 'absent.yaml': there is no such file or recipe"),
        ("[photos]", ValueError, "base is ['photos']; expected the name of a recipe, or a path relative to this file"),
        ("", ValueError, "base is None; expected"),
        ("/", FileNotFoundError, "base '/': there is no such file or recipe"),
        ("x" * 5000, FileNotFoundError, "there is no such file or recipe"),
        ("/dev/null", ValueError, "/dev/null"),
    ],
)
def test_a_base_that_is_not_there(write, base: str, kind: type, message: str):
    path = write(mine=f"epochs: 1\nbase: {base}\n")
    with pytest.raises(kind) as caught:
        read_based(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1\n", "a base has fields and their values, not [1]"),
        ("a: 1\na: 2\n", "'a' is there twice, in line 1 and in line 2"),
    ],
)
def test_a_base_that_cannot_be_read_is_named(write, tmp_path: Path, text: str, message: str):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        read_based(write(mine="base: other.yaml\n", other=text))
    assert str(caught.value).startswith(f"{tmp_path / 'other.yaml'}: {message}")


def test_the_limit_counts_all_bases(write):
    long = f"# {'x' * (LARGEST_YAML // 2)}\n"
    with pytest.raises(ValueError, match=r"mine\.yaml: [0-9,]+ letters of YAML with its bases; at most 262,144"):
        read_based(write(mine=f"base: other.yaml\n{long}", other=long))
