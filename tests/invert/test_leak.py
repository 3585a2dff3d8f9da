"""The test of leaks: its three attackers, resumption, the file, and the line of the model card."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from verisphere.files.leak_figures import LeakFigures, read_leak
from verisphere.invert.inversion import Inversion
from verisphere.invert.leak import LeakAsked, leak_text, run_leak
from verisphere.ship.export import export_model

CPU = torch.device("cpu")
SHORT = Inversion(steps=4, batch_size=4, rate=0.1, batch_norm=0.01)


def asked(tiny: Path, **changes: Any) -> LeakAsked:
    given = LeakAsked(tiny / "run", tiny / "judge.yaml", SHORT, tiny / "others.yaml", count=4, fars=("1e-1",))
    return replace(given, **changes)


@pytest.fixture(scope="module")
def tested(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a test with all attackers."""
    out = tmp_path_factory.mktemp("leak") / "out"
    run_leak(asked(tiny, head=tiny / "run", trained=tiny / "data.yaml"), out, CPU)
    return out


def test_every_attacker_has_a_row(tested: Path):
    figures = read_leak(tested / "leak.json")
    assert [row.source for row in figures.rows] == ["photographs", "embeddings", "head", "folder"]
    for row in figures.rows:
        assert [point.far_target for point in row.points] == ["1e-1"]
        assert row.points[0].genuine_total == 4
        assert row.points[0].far <= 0.1
    assert "the head's centers" in leak_text(figures)
    for source in ("embeddings", "head", "folder"):
        findings = json.loads((tested / source / "inversion.json").read_text())
        assert findings["judge"] == "judge.yaml"
    # an image of a random direction stands for whom the model itself finds most alike
    people = json.loads((tested / "folder" / "inversion.json").read_text())["people"]
    assert "nobody" not in people


def test_whole_inversions_are_not_made_again(tiny: Path, tested: Path, monkeypatch: pytest.MonkeyPatch):
    before = (tested / "leak.json").read_bytes()
    monkeypatch.setattr("verisphere.invert.leak.run_inversion", None)
    again = asked(tiny, head=tiny / "run", trained=tiny / "data.yaml")
    run_leak(again, tested, CPU)
    assert (tested / "leak.json").read_bytes() == before
    for changes, named in (
        ({"count": 3}, "count"),
        ({"fars": ("1e-1", "1e-2")}, "far"),
        ({"settings": replace(SHORT, steps=5)}, "settings"),
        ({"faces": tiny / "data.yaml"}, "faces"),
        ({"head": None, "trained": None}, "trained"),
    ):
        with pytest.raises(ValueError, match=f"holds another test of leaks, by its {named}; choose another"):
            run_leak(replace(again, **changes), tested, CPU)


def test_what_is_refused(tiny: Path, tmp_path: Path):
    with pytest.raises(ValueError, match="--head and --trained belong together"):
        asked(tiny, head=tiny / "run")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    with pytest.raises(ValueError, match="full: it holds something, and no test of leaks"):
        run_leak(asked(tiny), tmp_path / "full", CPU)
    with pytest.raises(ValueError, match="an untrained network reveals nobody"):
        run_leak(asked(tiny, model=tiny / "judge.yaml"), tmp_path / "out", CPU)


def test_the_card_has_a_line(tiny: Path, tested: Path, tmp_path: Path):
    pytest.importorskip("onnx", reason="the extra export is not installed")
    export_model(tiny / "run", tmp_path / "model", template="small", leak=tested / "leak.json")
    card = (tmp_path / "model" / "model_card.md").read_text()
    assert "Faces recovered from it were taken for their people by a second model (judge.yaml)" in card
    assert "from class centers" in card
    export_model(tiny / "run", tmp_path / "plain", template="small")
    assert "was not tested" in (tmp_path / "plain" / "model_card.md").read_text()
    stranger = json.loads((tested / "leak.json").read_text()) | {"sha256": "0" * 64}
    (tmp_path / "other.json").write_text(json.dumps(stranger))
    with pytest.raises(ValueError, match=r"what the weights 000000000000\.\.\. reveal, but"):
        export_model(tiny / "run", tmp_path / "wrong", template="small", leak=tmp_path / "other.json")
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "format is 2"),
        ({"rows": []}, "rows is empty"),
        ({"rows": [{"source": "guess", "mean": 0.0, "others": 0.0, "points": []}]}, "source is 'guess'"),
        ({"rows": [{"source": "head", "mean": 0.0, "others": 0.0, "points": []}]}, "head has no points"),
        ({"judge": 3}, "judge"),
    ],
)
def test_a_file_that_is_none(tested: Path, tmp_path: Path, changes: dict[str, Any], message: str):
    whole = json.loads((tested / "leak.json").read_text())
    (tmp_path / "leak.json").write_text(json.dumps(whole | changes))
    with pytest.raises(ValueError, match=message):
        read_leak(tmp_path / "leak.json")
    assert isinstance(read_leak(tested / "leak.json"), LeakFigures)
