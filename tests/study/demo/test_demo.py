"""The demo: a small one in the quick tests, the real one with its figures in the slow ones."""

import json
import logging
import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from verisphere.backbones import mobilefacenet
from verisphere.cli.start import main
from verisphere.decide import independent_threshold
from verisphere.files.embeddings import read_embeddings
from verisphere.models.folder import load
from verisphere.ship.face_search import aligned_faces
from verisphere.ship.verify import verify
from verisphere.study.demo.demo import FARS, DemoSize, above_the_promise, run_demo
from verisphere.train.loop import TrainingStopped

SMALL = DemoSize(
    people=12,
    images=4,
    calibration_people=48,
    shipped_fars=("2e-1", "1e-1"),
    guarantee="expected",
    overrides=("--data.people", "16", "--data.images", "4", "--epochs", "1", "--batch_size", "32", "--workers", "0"),
)
MADE = {
    "calibration.json", "calibration_people.npz", "embeddings.npz", "evaluation.json", "faces.png", "figures.json",
    "model", "pair", "report", "run",
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _log_and_signals_as_before():
    log = logging.getLogger("verisphere")
    kept = log.handlers[:], log.level, signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)
    yield
    log.handlers[:], log.level = kept[0], kept[1]
    signal.signal(signal.SIGTERM, kept[2])
    signal.signal(signal.SIGHUP, kept[3])


def figures(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "figures.json").read_text())


@contextmanager
def shallow() -> Iterator[None]:
    """Three bottlenecks in place of fifteen, the strided ones: to export the others takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        strided = [(*one[:2], 1, 2) for one in mobilefacenet.BOTTLENECKS if one[3] == 2]
        patch.setattr(mobilefacenet, "BOTTLENECKS", strided)
        yield


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A small demo's folder, and the text it returns. Takes 5 s: the whole road, with its report."""
    out = tmp_path_factory.mktemp("small") / "demo"
    with shallow():
        return out, run_demo(out, device="cpu", size=SMALL)


def test_the_folder(demo: tuple[Path, str]):
    out, _ = demo
    assert {path.name for path in out.iterdir()} == MADE
    with Image.open(out / "faces.png") as picture:
        picture.load()
        assert min(picture.size) > 200
    page = (out / "report" / "report.html").read_text()
    assert "12 synthetic people" in page
    assert "untrained" in page
    assert {path.suffix for path in (out / "report" / "plots").iterdir()} == {".png", ".svg"}


def test_the_people_are_not_those_of_the_training(demo: tuple[Path, str]):
    out, _ = demo
    embeddings = read_embeddings(out / "embeddings.npz")
    unseen = set(embeddings.identities)
    trained_on = set((out / "run" / "people.txt").read_text().split())
    assert (len(embeddings.names), len(unseen), len(trained_on)) == (48, 12, 16)
    assert not unseen & trained_on
    calibrated_on = set(read_embeddings(out / "calibration_people.npz").identities)
    assert len(calibrated_on) == 48
    assert not calibrated_on & (unseen | trained_on)


def test_the_figures(demo: tuple[Path, str]):
    found = figures(demo[0])
    assert set(found) == {"trained", "untrained"}
    for result in found.values():
        points = result["operating_points"]
        assert [point["far_target"] for point in points] == list(FARS)
        for point in points:
            assert point["genuine_total"] == 12 * math.comb(4, 2)
            assert point["impostor_total"] == math.comb(48, 2) - 12 * math.comb(4, 2)  # 1,056
            assert point["impostor_accepted"] <= float(point["far_target"]) * point["impostor_total"]
            assert point["below_resolution"] == (point["far_target"] == "1e-4")
            assert 0 <= point["tar_lower_95"] <= point["tar"] <= point["tar_upper_95"] <= 1
        assert [common["far_target"] for common in result["one_threshold"]] == list(FARS)
    thresholds = [[point["threshold"] for point in result["operating_points"]] for result in found.values()]
    assert thresholds[0] != thresholds[1]  # two models, not one twice


def test_the_model_folder_decides_at_the_calibrated_threshold(demo: tuple[Path, str]):
    out, text = demo
    with shallow():
        model = load(out / "model")
    calibrated = json.loads((out / "calibration.json").read_text())["thresholds"]
    assert [threshold.far_target for threshold in model.thresholds] == ["2e-1", "1e-1"]
    assert [threshold.threshold for threshold in model.thresholds] == [one["threshold"] for one in calibrated]
    assert model.sha256 == read_embeddings(out / "embeddings.npz").origin.model
    command = next(line for line in text.splitlines() if line.startswith("try: ")).split()[3:]
    left, right = (Path(path) for path in command[:2])
    found = verify(left, right, model, aligned_faces(model.backbone.input_size), far=command[5], accept_drawn=True)
    assert command[6:] == ["--aligned", "--accept-drawn-model"]
    assert found.threshold.threshold == calibrated[1]["threshold"]


def test_the_text_has_the_tables_and_the_paths(demo: tuple[Path, str]):
    out, text = demo
    lines = text.splitlines()
    header = next(line for line in lines if "TAR untrained" in line)
    assert header.index("TAR untrained") < header.index("TAR trained") < header.index("threshold")
    for far in FARS:
        assert any(line.lstrip(" │|").startswith(far) for line in lines)
    impostors = next(one for one in figures(out)["trained"]["operating_points"] if one["far_target"] == "1e-2")
    assert f"{impostors['impostor_accepted']:,} / {impostors['impostor_total']:,}" in text
    assert all(str(out / name) in text for name in ("model", "faces.png", "report/report.html"))
    assert "of comparisons" in text or "accept iff score >" in text  # what the thresholds promise


def test_what_lies_above_the_promise_is_explained_in_the_words_of_its_guarantee():
    scores = [place / 598 for place in range(598)]
    confident = [independent_threshold(scores, far, "confident") for far in ("1e-2", "2e-2")]
    said = above_the_promise(confident)
    assert said.startswith(
        "measured above the promise: 1e-2, 2e-2. What is promised: with 95 % confidence, up to one calibration in "
        "twenty lies above its target; "
    )
    expected = independent_threshold(scores, "1e-2", "expected")
    said = above_the_promise([expected])
    assert f"What is promised: at FAR 1e-2, {expected.meaning()}; " in said
    assert "twenty" not in said


def test_a_demo_that_is_stopped_does_not_advise_an_option_that_it_lacks(tmp_path: Path, monkeypatch, capsys):
    def stopped(*_: object, **__: object) -> None:
        raise TrainingStopped(signal.SIGINT)

    monkeypatch.setattr("verisphere.study.demo.demo.train_run", stopped)
    assert main(["--default-allocator", "demo", "--out", str(tmp_path / "demo")]) == 130
    err = capsys.readouterr().err
    assert "--resume" not in err
    assert "a checkpoint has been saved, but a demo does not continue: the same command starts another" in err


@pytest.mark.slow
def test_a_second_demo_takes_the_next_number_and_finds_the_same(demo: tuple[Path, str]):
    out, _ = demo
    before = (out / "figures.json").stat().st_mtime_ns
    with shallow():
        text = run_demo(out, device="cpu", size=SMALL)
    second = out.with_name("demo-2")
    assert str(second / "report" / "report.html") in text
    assert {path.name for path in out.parent.iterdir()} == {"demo", "demo-2"}
    assert (out / "figures.json").stat().st_mtime_ns == before
    assert figures(second) == figures(out)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_real_demo_learns(tmp_path: Path):
    run_demo(tmp_path / "demo")
    at_1e3 = {
        name: next(point for point in result["operating_points"] if point["far_target"] == "1e-3")
        for name, result in figures(tmp_path / "demo").items()
    }
    assert at_1e3["trained"]["impostor_total"] >= 1_000_000
    assert at_1e3["trained"]["tar"] >= 0.6
    assert at_1e3["untrained"]["tar"] <= 0.1
    calibration = json.loads((tmp_path / "demo" / "calibration.json").read_text())
    assert [one["guarantee"] for one in calibration["thresholds"]] == ["confident", "confident"]
