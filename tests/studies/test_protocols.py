"""Every protocol on small sets in published layouts, beside the answers of a script that shares no code with the house.

The whole run is made once, with raw pixels as embeddings, which is quickest.
"""

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest

from studies.protocols import __main__ as command
from studies.protocols import protocols
from studies.protocols.protocols import Compared, ProtocolsResult, compare, run_protocols
from studies.protocols.published.sets import WRITERS, write_published_sets
from verisphere.cli import main
from verisphere.files.embeddings import read_embeddings

SETS = {
    "lfw", "sllfw", "calfw", "cplfw", "agedb_30", "cfp_ff", "cfp_fp", "xqlfw", "ytf", "rfw", "combined", "tinyface",
    "ijbc", "megaface", "groups",
}  # fmt: skip


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> ProtocolsResult:
    folder = tmp_path_factory.mktemp("protocols")
    model = folder / "pixels.yaml"
    model.write_text("class_path: verisphere.backbones.Pixels\ninit_args: {side: 8}\n")
    return run_protocols(folder / "out", model, device="cpu")


def test_every_figure_is_that_of_the_independent_script(result: ProtocolsResult):
    assert [one for one in result.compared if not one.equal] == []
    assert {one.set for one in result.compared} == SETS
    assert len(result.compared) > 100
    assert not result.suite.unknown


def test_the_figures_are_not_all_alike(result: ProtocolsResult):
    """An equality of rates that are all 0 or 1 would show nothing."""
    for name, figures in result.suite.figures.items():
        rates = [value for figure, value in figures.items() if figure.startswith(("TAR", "rank", "TPIR", "accuracy"))]
        assert any(0 < rate < 1 for rate in rates), name


def test_every_protocol_has_its_figures(result: ProtocolsResult):
    figures = result.suite.figures
    assert {f"{group}: accuracy" for group in ("African", "Asian", "Caucasian", "Indian")} <= figures["rfw"].keys()
    assert {"rank 1", "rank 5", "rank 10", "rank 20"} <= figures["tinyface"].keys()
    assert {"TAR at FAR 1e-2", "rank 1", "rank 10", "TPIR at FPIR 1e-1"} <= figures["ijbc"].keys()
    assert {"rank 1", "TAR at FAR 1e-2"} <= figures["megaface"].keys()
    assert {"East at its own threshold: TAR at FAR 1e-1", "accuracy"} & figures["groups"].keys()


def test_equal_images_of_all_sets_are_embedded_once(result: ProtocolsResult):
    """60 people of 6 images are drawn, in two file formats and, for IJB-C, aligned by points: far fewer than rows."""
    rows = sum(len(read_embeddings(path)) for path in (result.out / "embeddings").glob("*.npz"))
    assert result.suite.embedded + result.suite.reused == rows
    assert result.suite.embedded < rows / 2


@pytest.mark.slow
def test_every_command_by_hand_writes_the_same_json(result: ProtocolsResult, tmp_path: Path, process_as_it_was: None):
    written = json.loads((result.out / "figures.json").read_text())["sets"]
    for name, one in result.suite.sets.items():
        assert main([*one.command[1:], "--json", str(tmp_path / "by_hand.json")]) == 0
        assert json.loads((tmp_path / "by_hand.json").read_text()) == written[name]["result"], name


def test_the_table_says_who_made_the_embeddings(result: ProtocolsResult):
    text = result.text()
    assert f"{len(result.compared)} of {len(result.compared)} figures are equal, in {len(SETS)} sets" in text
    assert "an untrained network" in text
    assert json.loads((result.out / "figures.json").read_text())["sets"].keys() == SETS


def test_a_change_of_one_embedding_is_seen(result: ProtocolsResult, tmp_path: Path):
    """The script reads the same files: with other embeddings its figures are others."""
    shutil.copytree(result.out / "embeddings", tmp_path / "embeddings")
    path = tmp_path / "embeddings" / "lfw.npz"
    with np.load(path) as file:
        arrays = dict(file)
    arrays["embeddings"] = arrays["embeddings"][::-1].copy()
    np.savez(path, **arrays)
    other = compare(result.suite.figures, protocols.answers(result.out / "sets", tmp_path / "embeddings"))
    assert {one.set for one in other if not one.equal} == {"lfw", "combined"}


def test_a_difference_is_shown_and_the_exit_code_says_so(
    result: ProtocolsResult,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    process_as_it_was: None,
):
    wrong = ProtocolsResult(result.suite, (Compared("lfw", "accuracy", 0.5, 0.75),), True, result.out)
    monkeypatch.setattr(command, "run_protocols", lambda *arguments, **named: wrong)
    assert command.main(["--out", str(result.out)]) == 1
    shown = capsys.readouterr()
    assert "-0.25 |" in shown.out
    assert "0 of 1 figures are equal" in shown.out
    assert "1 figures differ from those of the independent script" in shown.err


def test_the_sets_are_the_same_bytes_every_time(result: ProtocolsResult, tmp_path: Path):
    write_published_sets(tmp_path / "again")
    first = {path.relative_to(result.out / "sets"): path for path in (result.out / "sets").rglob("*") if path.is_file()}
    again = {path.relative_to(tmp_path / "again"): path for path in (tmp_path / "again").rglob("*") if path.is_file()}
    assert first.keys() == again.keys()
    assert all(path.read_bytes() == again[name].read_bytes() for name, path in first.items())
    assert {name.parts[0] for name in first} == {*WRITERS, "images.json"}


@pytest.fixture(autouse=True, scope="module")
def _log_as_before():
    log = logging.getLogger("verisphere")
    kept = log.handlers[:], log.level
    yield
    log.handlers[:], log.level = kept[0], kept[1]
