"""Lists of ids and names: the three published layouts, and lines that are none of them."""

from pathlib import Path

import pytest

from verisphere.files.people_lists import read_ids


def listed(tmp_path: Path, text: str) -> Path:
    (tmp_path / "ids.txt").write_text(text, encoding="utf-8")
    return tmp_path / "ids.txt"


def test_casia_webface(tmp_path: Path):
    path = listed(tmp_path, "0000045 Bruce_Lee\n0000513 William_H._Macy\n")
    assert read_ids(path) == {"0000045": ("Bruce_Lee",), "0000513": ("William_H._Macy",)}


def test_ms_celeb_has_a_line_for_each_language(tmp_path: Path):
    path = listed(tmp_path, 'm.0107_f\t"Zhang Ziyi"@en\nm.0107_f\t"章子怡"@zh-Hant\nm.01\t"A "B" C"@de\n')
    assert read_ids(path) == {"m.0107_f": ("Zhang Ziyi", "章子怡"), "m.01": ('A "B" C',)}


@pytest.mark.parametrize("header", ["", "Class_ID, Name, Sample_Num, Flag, Gender\n"])
def test_vggface2_with_and_without_header(tmp_path: Path, header: str):
    path = listed(tmp_path, f'{header}n000001, "14th_Dalai_Lama",424,0, m,\nn000002, "A_Fine_Frenzy", 315, 1, f\n')
    assert read_ids(path) == {"n000001": ("14th_Dalai_Lama",), "n000002": ("A_Fine_Frenzy",)}


def test_a_missing_value_is_no_name(tmp_path: Path):
    """Two ids without a name were one person to `clean overlap`."""
    path = listed(tmp_path, "n000001, nan, 42\nn000002, NULL, 43\nn000003, Nan_Li, 44\n")
    assert read_ids(path) == {"n000001": (), "n000002": (), "n000003": ("Nan_Li",)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\n", "no ids; the list is empty"),
        ("Class_ID, Name\n", "no ids; the list is empty"),
        ("0000045 Bruce_Lee\n0000046\n", "line 2: '0000046' is none of"),
        ('m.01\t"Ann"@en\nm.02\tBen\n', r"line 2: 'm.02\\tBen' is none of"),
        (f"n000001, Ann\nn000002, {'x' * 140_000}\n", "line 2: 'n000002, xxx"),
        ("n000001, Ann\nn000002,\n", "line 2: 'n000002,' is none of"),
    ],
)
def test_lists_of_another_layout(tmp_path: Path, text: str, says: str):
    with pytest.raises(ValueError, match=rf"ids.txt: {says}"):
        read_ids(listed(tmp_path, text))
