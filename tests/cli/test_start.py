"""The command line: exit codes, one line on standard error for a wrong call, results on standard output."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from verisphere.base.vocabulary import FARS
from verisphere.cli.start import _code_of, _device, parser
from verisphere.files.embeddings import read_embeddings
from verisphere.measure import evaluate

pytestmark = pytest.mark.usefixtures("process_as_it_was")

# A network without weights: the pixels themselves.
RECIPE = "pixels"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Small files to evaluate: embeddings of 12 people in two domains, without domains, of one person, and scores."""
    generator = np.random.default_rng(0)
    people = np.repeat([f"p{number}" for number in range(12)], 4)
    rows = np.repeat(generator.normal(size=(12, 16)), 4, 0) + 0.8 * generator.normal(size=(48, 16))
    columns = {
        "embeddings": rows.astype(np.float32),
        "names": np.array([f"{person}/{image}.jpg" for image, person in enumerate(people)]),
        "identities": people,
    }
    np.savez(tmp_path / "plain.npz", **columns)
    np.savez(tmp_path / "domains.npz", **columns, domains=np.array(["day", "night"])[np.arange(48) % 2])
    np.savez(tmp_path / "one.npz", **{name: column[:4] for name, column in columns.items()})
    (tmp_path / "scores.csv").write_text("score,label,domain\n0.9,1,a\n0.5,0,a\n0.1,0,a\n0.8,1,b\n0.7,0,b\n0.6,0,\n")
    (tmp_path / "pairs.csv").write_text(
        "left,right,label,fold\n"
        + "".join(f"p{n}/{4 * n}.jpg,p{n}/{4 * n + 1}.jpg,1,{n % 3}\n" for n in range(12))
        + "".join(f"p{n}/{4 * n}.jpg,p{n + 1}/{4 * n + 4}.jpg,0,{n % 3}\n" for n in range(11))
    )
    return tmp_path


KINDS = {
    "scores": ("scores", "scores.csv"),
    "pairs": ("pairs", "plain.npz", "--pairs", "pairs.csv"),
    "all-pairs": ("all-pairs", "domains.npz"),
    "all-pairs of files": ("all-pairs", "domains.npz", "plain.npz"),
}


def placed(arguments: tuple[str, ...], folder: Path) -> list[str]:
    """File names become paths; options and numbers stay."""
    return [str(folder / word) if word.endswith((".npz", ".csv", ".json")) else word for word in arguments]


# --- what is done ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_evaluation_prints_and_writes_its_figures(run, files: Path, kind: str):
    out_file = files / "deep" / "out.json"
    code, out, err = run("evaluate", *placed(KINDS[kind], files), "--json", out_file)
    assert (code, err) == (0, "")
    read = json.loads(out_file.read_text())
    assert [point["far_target"] for point in read["operating_points"]] == list(FARS)
    assert ("accuracy" in read) == (kind == "pairs")
    assert ("one_threshold" in read) == (kind != "pairs")
    for far in FARS:
        assert f"| {far}" in out
    assert "below resolution" in out


def test_far_replaces_the_defaults_and_keeps_its_text(run, files: Path):
    out_file = files / "out.json"
    fars = ["0.0010", "1E-2", "0.5"]
    words = [word for far in fars for word in ("--far", far)]
    assert run("evaluate", "all-pairs", files / "domains.npz", *words, "--json", out_file)[0] == 0
    read = json.loads(out_file.read_text())
    assert [point["far_target"] for point in read["operating_points"]] == fars
    assert [result["far_target"] for result in read["one_threshold"]] == fars


def test_options_reach_the_evaluation(run, files: Path):
    out_file = files / "out.json"
    run("evaluate", "all-pairs", files / "domains.npz", "--union", "within", "--rule", "nearest", "--json", out_file)
    read = json.loads(out_file.read_text())
    assert (read["one_threshold"][0]["union"], read["one_threshold"][0]["rule"]) == ("within", "nearest")
    run("evaluate", "all-pairs", files / "domains.npz", "--calibration", files / "plain.npz", "--json", out_file)
    assert json.loads(out_file.read_text())["one_threshold"][0]["union"] == "calibration"


# --- what is wrong with the call -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--default-allocator",), "arguments are required: VERB"),
        (("evaluate",), "arguments are required: KIND"),
        (("bogus",), "invalid choice: 'bogus'"),
        (("evaluate", "scores"), "arguments are required: scores"),
        (("evaluate", "pairs", "plain.npz"), "required: --pairs"),
        (("evaluate", "scores", "scores.csv", "--skip"), "unrecognised arguments: --skip"),  # nothing is guessed
        (("evaluate", "scores", "scores.csv", "--rule", "loose"), "invalid choice: 'loose'"),
        (("evaluate", "scores", "scores.csv", "--far"), "--far: expected one argument"),
        (("evaluate", "all-pairs", "plain.npz", "--against", "plain.npz", "--replicates", "0"), "at least 1, got 0"),
        (("evaluate", "all-pairs", "plain.npz", "--against", "plain.npz", "--replicates", "x"), "invalid int value"),
        (("evaluate", "all-pairs", "plain.npz", "plain.npz"), "both called 'plain'"),
        (
            ("evaluate", "all-pairs", "plain.npz", "one.npz", "--against", "plain.npz"),
            "--against compares two models on one file, not on 2; omit it",
        ),
        (("evaluate", "all-pairs", "none.npz"), "none.npz: there is no such file"),
        (("evaluate", "all-pairs", "plain.npz", "--json", "scores.csv/deep.json"), "scores.csv"),
    ],
)
def test_a_wrong_call_is_one_line(refused, files: Path, words: tuple[str, ...], says: str):
    assert says in refused(*placed(words, files))


# --- images ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for person, images in (("ann", 2), ("bob", 2)):
        for number in range(images):
            path = tmp_path / "photos" / person / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = np.random.default_rng(len(person) + number).integers(0, 256, (112, 112, 3), np.uint8)
            Image.fromarray(pixels).save(path)
    return tmp_path / "photos"


def test_embed_and_evaluate(run, photos: Path, tmp_path: Path):
    out_file = tmp_path / "deep" / "faces.npz"
    code, out, err = run("embed", RECIPE, photos, "--out", out_file, "--workers", "0")
    assert (code, err) == (0, "")
    assert out.startswith(f"{out_file}: 4 images of 2 people")
    assert read_embeddings(out_file).names.tolist() == ["ann/0.png", "ann/1.png", "bob/0.png", "bob/1.png"]
    assert run("evaluate", "all-pairs", out_file, "--far", "0.5")[0] == 0


def test_images_that_cannot_be_embedded(refused, photos: Path, tmp_path: Path):
    out_file = tmp_path / "faces.npz"

    def embed(faces: Path) -> str:
        line = refused("embed", RECIPE, faces, "--out", out_file, "--workers", "0")
        assert not list(tmp_path.glob("*faces.npz"))  # nothing half-written either
        return line

    assert "no such folder" in embed(tmp_path / "none")
    (photos / "bob" / "1.png").write_text("not an image")
    assert "bob/1.png: " in embed(photos)


def test_a_model_that_is_none(refused, photos: Path, tmp_path: Path):
    assert "nothing" in refused("embed", tmp_path / "nothing", photos, "--out", tmp_path / "faces.npz")
    assert "ends in .npz" in refused("embed", RECIPE, photos, "--out", tmp_path / "faces.csv")


# --- faults and signals ----------------------------------------------------------------------------------------------


def raising(error: BaseException):
    def raise_it(*_: object) -> None:
        raise error

    return raise_it


def test_a_fault_of_ours_is_code_1_with_its_traceback(run, files: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(evaluate, "evaluate_scores", raising(KeyError("a slip of ours")))
    code, out, err = run("evaluate", "scores", files / "scores.csv")
    assert (code, out) == (1, "")
    assert "KeyError: 'a slip of ours'" in err
    assert err.splitlines()[-1].startswith("verisphere: this is a fault of verisphere, not of your input")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("two\n  lines"), "verisphere: two lines"),
        (PermissionError(13, "Permission denied", "faces.npz"), "verisphere: faces.npz: Permission denied"),
        (OSError(28, "No space left on device"), "verisphere: [Errno 28] No space left on device"),
        (FileNotFoundError("faces.npz: there is no such file"), "verisphere: faces.npz: there is no such file"),
    ],
)
def test_errors_of_the_input_are_one_line(refused, files: Path, monkeypatch: pytest.MonkeyPatch, error, line: str):
    monkeypatch.setattr(evaluate, "evaluate_scores", raising(error))
    assert refused("evaluate", "scores", files / "scores.csv") == line + "\n"


def test_the_traceback_can_be_asked_for(run, files: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VERISPHERE_TRACEBACK", "1")
    code, _, err = run("evaluate", "scores", files / "none.csv")
    assert (code, "Traceback" in err, err.splitlines()[-1][:11]) == (2, True, "verisphere:")


def test_the_advice_after_a_lost_process_names_the_verbs_that_have_resume(run, capsys: pytest.CaptureFixture[str]):
    verbs = (("train",), ("search",), ("clean", "run"))
    assert [verb for verb in verbs if "\n  --resume " in run(*verb, "--help")[1]] == [("train",)]
    assert _code_of(RuntimeError("Connection closed by peer"), "") == 1
    err = capsys.readouterr().err
    assert "`train` continues with --resume, `search` and `clean` by the same command" in err


@pytest.mark.parametrize(
    ("words", "device"),
    [
        (["calibrate", "a.npz", "--far", "1e-2", "--out", "t.json"], "cpu"),  # photographs of a gallery need a model
        (["calibrate", "a.npz", "--gallery", "people", "--model", "m", "--fpir", "1e-2", "--out", "t.json"], None),
        (["embed", "m", "faces", "--out", "e.npz", "--device", "cuda:1"], "cuda:1"),
        (["cluster", "a.npz", "--threshold", "0.5", "--out", "c"], "cpu"),
    ],
)
def test_ranks_need_a_gpu_each_where_a_model_runs_on_it(words: list[str], device: str | None):
    assert _device(parser(words).parse_args(words)) == device
