"""What counts as the same in `make pinned`: renamed words do, another number does not."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pinned.__main__ import MEANT, SAME, compare
from pinned.commands import RECIPES, commands, write_inputs
from pinned.digests import digest


def arrays(name: str, value: float) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **{name: np.array([value]), "names": np.array([name])})
    return buffer.getvalue()


def picture(value: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (2, 2), value).save(buffer, "PNG")
    return buffer.getvalue()


FILES = {
    "said.txt": (
        b"sweep: 1,000 pairs at FAR 1e-3",
        b"scan: 1,000 pairs at FAR 1e-3",
        b"sweep: 1,001 pairs at FAR 1e-3",
    ),
    "figures.json": (b'{"sweep": [0.5, 12]}', b'{"scan": [0.5, 12]}', b'{"sweep": [0.5, 13]}'),
    "recipe.yaml": (b"class_path: a.embed.B2\nrate: 0.1", b"class_path: a.backbones.B2\nrate: 0.1", b"rate: 0.2"),
    "rows.npz": (arrays("sweep", 0.5), arrays("scan", 0.5), arrays("sweep", 0.25)),
}


@pytest.mark.parametrize("name", FILES)
def test_a_renamed_word_leaves_the_numbers(name: str):
    first, renamed, other = (digest(name, content) for content in FILES[name])
    assert first["numbers"] == renamed["numbers"] != other["numbers"]
    assert len({first["text"], renamed["text"], other["text"]}) == 3


def test_a_renamed_field_is_seen():
    first, renamed, other = (digest("figures.json", content) for content in FILES["figures.json"])
    assert first["keys"] == other["keys"] != renamed["keys"]


def test_times_count_for_nothing():
    first, again = (json.dumps({"loss": 1.5, "images_per_second": speed}).encode() + b"\n" for speed in (70.25, 71.5))
    assert digest("metrics.jsonl", first) == digest("metrics.jsonl", again)
    assert digest("metrics.jsonl", first) != digest("metrics.jsonl", first.replace(b"1.5", b"1.6"))
    assert digest("results.csv", b"base,0,,seconds,,,10.7") == digest("results.csv", b"base,0,,seconds,,,11.5")


def test_pixels_of_a_picture_on_a_page_are_its_numbers():
    import base64

    def page(value: int) -> bytes:
        return b'<img src="data:image/png;base64,' + base64.b64encode(picture(value)) + b'"> 3 people'

    assert digest("page.html", page(3)) == digest("page.html", page(3))
    assert digest("page.html", page(3))["numbers"] != digest("page.html", page(4))["numbers"]


@pytest.mark.parametrize(
    ("now", "strict", "code", "said"),
    [
        ({"train: a.json": {"numbers": "1", "text": "2"}}, True, 0, SAME),
        (
            {"train: a.json": {"numbers": "1", "text": "3"}},
            False,
            0,
            "words differ, numbers are the same: train: a.json",
        ),
        (
            {"train: a.json": {"numbers": "1", "text": "3"}},
            True,
            1,
            "words differ, numbers are the same: train: a.json",
        ),
        ({"train: a.json": {"numbers": "2", "text": "3"}}, False, 1, "NUMBERS DIFFER: train: a.json"),
        ({}, False, 1, "MISSING: train: a.json"),
    ],
)
def test_the_exit_code(now: dict[str, dict[str, str]], strict: bool, code: int, said: str, capsys):
    assert compare({"train: a.json": {"numbers": "1", "text": "2"}}, now, strict) == code
    assert said in capsys.readouterr().out


def test_every_command_finds_its_recipe(tmp_path: Path):
    write_inputs(tmp_path, tmp_path / "absent")
    named = {word for command in commands() for word in command.words if word.endswith(".yaml")}
    assert {f"{name}.yaml" for name in RECIPES} <= named
    assert all((tmp_path / name).is_file() for name in named)


def test_a_number_that_was_meant_to_change_is_named_with_the_reason(capsys, monkeypatch):
    name, reason = "dry run: dry.json", "another step is counted"
    monkeypatch.setitem(MEANT, name, reason)
    assert compare({name: {"numbers": "1"}}, {name: {"numbers": "2"}}, strict=False) == 0
    assert f"numbers differ, as they are meant to: {name} ({reason})" in capsys.readouterr().out
