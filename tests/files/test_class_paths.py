"""Class paths of earlier versions: every present name is there, and paths are replaced wherever they lie in a file."""

import importlib

import pytest

from verisphere.files.class_paths import MOVED, present_name, present_names


@pytest.mark.parametrize("old", MOVED)
def test_what_has_moved_is_where_the_table_says(old: str):
    assert present_name(f"{old}.Name") == f"{MOVED[old]}.Name"
    importlib.import_module(MOVED[old])


def test_paths_are_replaced_at_any_depth():
    def described(images: str, backbones: str) -> dict[str, object]:
        inner = {"class_path": f"{backbones}.sfnet.SFNet20", "init_args": {"depth": 20}}
        return {"class_path": f"{images}.ByLight", "init_args": {"of": [inner, None, 1.5]}}

    now = described("verisphere.images", "verisphere.backbones")
    assert present_names(described("verisphere.data", "verisphere.embed")) == now
    assert present_names(now) == now


def test_the_longest_name_counts_and_other_texts_stay():
    assert present_name("verisphere.data.synthetic.X") == "verisphere.images.synthetic.synthetic_faces.X"
    for text in ("verisphere.database.X", "my.verisphere.data.X", "photos of verisphere.data", "verisphere", ""):
        assert present_name(text) == text
