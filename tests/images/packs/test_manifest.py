"""The manifest beside a pack: at most a size, and every fault of it names the file."""

import json
from pathlib import Path

import pytest

from verisphere.images.packs.manifest import manifest_path, read_manifest

FIELDS = {"format": 1, "pack": "tar", "images": 2, "sha256": {}, "source": {"place": "x"}}


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    (tmp_path / "faces.tar").write_bytes(b"")
    return tmp_path / "faces.tar"


def test_a_manifest_has_at_most_a_size_that_grows_with_its_pack(pack: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.images.packs.manifest.LARGEST_JSON", 1000)
    path = manifest_path(pack)
    path.write_text(json.dumps(FIELDS) + " " * 2500)
    size = path.stat().st_size
    for images, most in ((None, "1,000"), (0, "1,000"), (1, "2,024")):
        with pytest.raises(ValueError, match=rf"{path}: {size:,} bytes, more than the {most} allowed"):
            read_manifest(pack, images)
    assert read_manifest(pack, 2) is not None


def test_a_manifest_of_gigabytes_is_refused_by_its_size(pack: Path):
    with manifest_path(pack).open("wb") as file:
        file.truncate(8 << 30)  # sparse: it takes no room
    with pytest.raises(ValueError, match=r"faces\.tar\.manifest\.json: 8,589,934,592 bytes, more than the 67,108,864"):
        read_manifest(pack)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "Expecting"),
        ('{"format": 1, "format": 1}', "'format' stands in it twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"images": 1' + "0" * 50 + "}", "a whole number of 51 letters"),
        (json.dumps(FIELDS | {"names": ["a"]}), "names has 1 entries for 2 images"),
        ("[]", "must be an object"),
    ],
)
def test_every_fault_names_the_file(pack: Path, text: str, says: str):
    manifest_path(pack).write_text(text)
    with pytest.raises(ValueError, match=r"faces\.tar\.manifest\.json: not the manifest of faces\.tar: ") as refused:
        read_manifest(pack, 2)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
