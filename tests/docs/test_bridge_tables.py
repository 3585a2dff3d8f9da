"""The tables and figures of docs/bridge.md and docs/inversion.md are those of benchmarks/bridge.csv."""

from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
MADE_BY = "bridge_page"


def test_the_promises_held(made: ModuleType):
    """In no more draws than 5 %, within two standard errors, a bridge accepted more than it had promised."""
    held = [row for row in made.read_rows() if row["figure"] == "held"]
    assert {row["method"] for row in held} >= {"confident at FAR 1e-1", "confident at FAR 1e-2"}
    for row in held:
        assert int(row["runs"]) == 500
        assert float(row["mean"]) >= 0.95 - 2 * (0.95 * 0.05 / 500) ** 0.5


def test_the_sentences_state_the_figures(made: ModuleType):
    rows, page = made.read_rows(), (ROOT / "docs" / "bridge.md").read_text(encoding="utf-8")
    both = [made.mean(rows, f"{side} against {side}", "", "people") for side in ("old", "new")]
    assert "TAR {} with itself, the new one {}.".format(*both) in page
    images = [made.mean(rows, made.OURS, people, "image pairs") for people in made.PEOPLE]
    assert "the bridge has {}, {} and {}".format(*images) in page
    assert int(made.figure(rows, made.OURS, "50", "people")["runs"]) == 20
