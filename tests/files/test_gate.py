"""The gate of a gallery: its verdicts in words, and its file."""

import json
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.vocabulary import Origin
from verisphere.files.gate import MEASURES, Gate, Limit, read_gate

GATE = Gate(
    "others.zip",
    people=10,
    photographs=40,
    origin=Origin("ab" * 32, False, "float32", "others.zip"),
    limits=(Limit("size", "least", 24.0), Limit("detail", "least", -31.25), Limit("turned", "most", 40.0)),
    margin=0.05,
)


def test_a_photograph_is_refused_with_each_reason_in_words():
    measured = {"size": np.array([14.0, 24.0, np.nan]), "detail": np.array([-35.5, -31.25, -20.0])}
    assert GATE.reasons(measured) == [
        (
            "the face is 14 pixels between the eyes; this gallery asks for at least 24",
            "its fine detail is at -35.5 dB (blurred, or a small face enlarged); this gallery asks for at least -31.25",
        ),
        (),  # what equals a limit is accepted
        (),  # what was not measured is not asked for
    ]
    (reason,) = GATE.reasons({"turned": np.array([52.0])})[0]
    assert reason == "the head is turned by 52 degrees; this gallery asks for at most 40"


def test_every_measure_has_words_for_its_number():
    for measure, (_, sides) in MEASURES.items():
        assert "12.5" in Limit(measure, sides[0], 1.0).reason(12.5)


def test_a_gate_is_read_as_it_was_written(tmp_path: Path):
    path = tmp_path / "gate.json"
    GATE.write_json(path)
    assert read_gate(path) == GATE
    assert "detail: at least -31.25" in GATE.text()
    assert "from 40 photographs of 10 people" in GATE.text()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kind": "gallery"}, "kind 'gallery', and this version reads kind 'gate'"),
        ({"format": 2}, "format 2, and this version reads format 1"),
        ({"limits": [{"measure": "beauty", "side": "least", "value": 1}]}, "limits[0].measure must be 'size' or"),
        ({"limits": [{"measure": "size", "side": "below", "value": 1}]}, "side must be 'least' or 'most', got 'below'"),
        ({"limits": [{"measure": "size", "side": "least", "value": "24"}]}, "value must be a number, got '24'"),
        ({"margin": None}, "margin must be a number, got null"),
    ],
)
def test_another_file_is_refused_in_one_line(tmp_path: Path, change: dict[str, object], says: str):
    path = tmp_path / "gate.json"
    path.write_text(json.dumps(json.loads(GATE.json()) | change))
    with pytest.raises(ValueError, match="not a gate as `verisphere gate fit` writes it") as refused:
        read_gate(path)
    assert says in str(refused.value)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)


def test_text_that_is_no_json_is_refused(tmp_path: Path):
    path = tmp_path / "gate.json"
    path.write_text("[1, 2")
    with pytest.raises(ValueError, match=r"gate\.json: not a gate"):
        read_gate(path)
