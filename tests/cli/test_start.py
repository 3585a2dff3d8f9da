"""The command line: exit codes, one line on standard error for a wrong call, results on standard output."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from verisphere.cli.processes import first_to_say
from verisphere.cli.start import _code_of, _device, parser
from verisphere.files.embeddings import read_embeddings
from verisphere.measure import evaluate

pytestmark = pytest.mark.usefixtures("process_as_it_was")

# A network without weights: the pixels themselves.
RECIPE = "pixels"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--default-allocator",), "arguments are required: VERB"),
        (("evaluate",), "arguments are required: KIND"),
        (("bogus",), "invalid choice: 'bogus'"),
        (("evaluate", "scores"), "arguments are required: scores"),
        (("evaluate", "scores", "scores.csv", "--skip"), "unrecognised arguments: --skip"),  # nothing is guessed
        (("evaluate", "scores", "scores.csv", "--far"), "--far: expected one argument"),
        (("evaluate", "all-pairs", "a.npz", "--against", "a.npz", "--replicates", "0"), "at least 1, got 0"),
        (("evaluate", "all-pairs", "a.npz", "--against", "a.npz", "--replicates", "x"), "invalid int value"),
        (("evaluate", "all-pairs", "a.npz", "a.npz"), "both called 'a'"),
        (
            ("evaluate", "all-pairs", "a.npz", "b.npz", "--against", "a.npz"),
            "--against compares two models on one file, not on 2; omit it",
        ),
        (("evaluate", "all-pairs", "none.npz"), "none.npz: there is no such file"),
    ],
)
def test_a_wrong_call_is_one_line(refused, words: tuple[str, ...], says: str):
    assert says in refused(*words)


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


def test_embed_and_evaluate(says, run, photos: Path, tmp_path: Path):
    out_file = tmp_path / "deep" / "faces.npz"
    out = says("embed", RECIPE, photos, "--out", out_file, "--workers", "0")
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


def test_a_fault_of_ours_is_code_1_with_its_traceback(run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(evaluate, "evaluate_scores", raising(KeyError("a slip of ours")))
    code, out, err = run("evaluate", "scores", "scores.csv")
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
def test_errors_of_the_input_are_one_line(refused, monkeypatch: pytest.MonkeyPatch, error, line: str):
    monkeypatch.setattr(evaluate, "evaluate_scores", raising(error))
    assert refused("evaluate", "scores", "scores.csv") == line + "\n"


def test_the_traceback_can_be_asked_for(run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VERISPHERE_TRACEBACK", "1")
    code, _, err = run("evaluate", "scores", "none.csv")
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


@pytest.mark.parametrize("port", ["abc", "99999"])
def test_an_error_is_said_where_the_port_of_the_others_is_none(monkeypatch: pytest.MonkeyPatch, port: str):
    for name, value in {"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, value)
    assert first_to_say("MASTER_PORT is none")
