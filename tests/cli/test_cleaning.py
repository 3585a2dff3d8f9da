"""`clean run`, `embeddings` and `loop`: what they leave, and bad input."""

import csv
import json
from functools import wraps
from pathlib import Path

import pytest

from tiny_cleaning import DATA, DEGREES, angles_run
from tiny_runs import OWN, RECIPE
from verisphere.files.label_lists import read_labels
from verisphere.study.clean import from_embeddings, from_run
from verisphere.train.recipe import read_recipe

pytestmark = pytest.mark.usefixtures("process_as_it_was")

KEPT = ("Ann/1", "Ann/2", "Ann/3", "Ben/1", "Ben/2", "street")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run and its data, which is the working folder."""
    angles_run(tmp_path / "run")
    (tmp_path / "data.yaml").write_text(DATA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plots take seconds, and most tests look at none."""
    monkeypatch.setattr("verisphere.study.clean.page.write_page", lambda *_: None, raising=False)


def cleaned(run, *options: object) -> tuple[int, str, str]:
    return run("clean", "run", "run", "data.yaml", "--out", "out", "--trust-code", "--workers", 0, *options)


def test_the_folder_of_a_cleaning(run, made: Path):
    code, output, errors = cleaned(run, "--rank-1")
    assert (code, errors) == (0, "")
    assert {entry.name for entry in (made / "out").iterdir()} >= {"kept.txt", "clean.json"}
    assert not (made / "out" / ".work").exists()
    assert read_labels(made / "out" / "kept.txt").names == KEPT
    result = json.loads((made / "out" / "clean.json").read_text())
    assert result["dropped"] == {"angle": 3, "sub_center": 0, "few_images": 0}
    assert result["rank_1"]["all"] == {"all_sub_centers": 7 / 8, "dominant_only": 6 / 8}
    assert output.splitlines()[0] == "sub-centers of run: 6 of 9 images kept, 3 dropped (33.3%)"
    assert output.splitlines()[-1] == (
        "out: kept.txt, clean.json, index.html; next: verisphere train RECIPE --data.labels out/kept.txt"
    )
    # a result is never overwritten
    code, _, errors = cleaned(run)
    assert (code, errors) == (
        2, "verisphere: out: a folder that is not empty; a result needs a new folder\n"
    )  # fmt: skip


@pytest.mark.usefixtures("no_page")
def test_the_rules_and_the_truth(run, made: Path):
    # without an angle and with --only-dominant the two images at Ann's second sub-center go
    code, output, _ = cleaned(run, "--angle", "none", "--only-dominant")
    assert (code, "7 of 9 images kept" in output, "2 outside the dominant sub-class" in output) == (0, True, True)
    # a minimum of four drops three images of Ann's and three of Ben's, too; three of the eight are noisy
    noisy = {"Ann/4", "Ben/3", "Ann/1"}
    with (made / "truth.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("name", "identity", "true_identity")]
            + [(name, "x", "Cid" if name in noisy else name.split("/")[0].replace("street", "-1")) for name in DEGREES]
        )
    few = ["--trust-code", "--workers", 0, "--min-images", 4, "--truth", "truth.csv"]
    code, output, _ = run("clean", "run", "run", "data.yaml", "--out", "known", *few)
    assert (code, "1 of 9 images kept" in output, "2 of 2 identities lost" in output) == (0, True, True)
    assert "precision 0.3750, recall 1.0000" in output


@pytest.mark.usefixtures("no_page")
def test_embeddings_of_the_run(says, run, made: Path):
    assert run("embed", "run", "data.yaml", "--out", "rows.npz", "--trust-code", "--workers", 0)[0] == 0
    words = ("clean", "run", "run", "--embeddings", "rows.npz", "--trust-code", "--out", "out")
    assert "6 of 9 images kept" in says(*words)


@pytest.mark.usefixtures("no_page")
def test_embeddings_alone(says, run, made: Path, monkeypatch: pytest.MonkeyPatch):
    asked = {}

    @wraps(from_embeddings.found_in_embeddings)
    def found_in_embeddings(path, **given):
        given.pop("progress")
        asked.update(given, path=path)
        return from_run.found_by_centers(made / "run", path, trust=True)

    assert run("embed", "run", "data.yaml", "--out", "rows.npz", "--trust-code", "--workers", 0)[0] == 0
    monkeypatch.setattr(from_embeddings, "found_in_embeddings", found_in_embeddings)
    output = says("clean", "embeddings", "rows.npz", "--out", "out", "--sub-centers", 5, "--seed", 2)
    assert "6 of 9 images kept" in output
    assert asked == {"path": Path("rows.npz"), "method": "sub-centers", "sub_centers": 5, "seed": 2}
    # a cluster has no angle: by default every image outside of the largest cluster goes
    asked.clear()
    assert "7 of 9 images kept" in says(
        "clean", "embeddings", "rows.npz", "--out", "by_cluster", "--method", "dbscan", "--eps", 0.4
    )
    assert asked == {"path": Path("rows.npz"), "method": "dbscan", "eps": 0.4}


@pytest.mark.usefixtures("no_page")
def test_the_loop(run, made: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(OWN)
    (made / "recipe.yaml").write_text(RECIPE)
    words = ["clean", "loop", "recipe.yaml", "--out", "loop", "--device", "cpu"]
    words += ["--angle", 100, "--only-dominant", "--epochs", 1, "--seed", 4, "--subcenters", 2]
    code, output, _ = run(*words)
    assert code == 0
    assert output.startswith("sub-centers of loop/first: ")
    assert output.splitlines()[-1] == "loop: first (a run), cleaned, second (a run)"
    first, second = (read_recipe(made / "loop" / name / "recipe.yaml", []).recipe for name in ("first", "second"))
    assert (first.subcenters, second.subcenters, first.seed, second.seed, second.epochs) == (2, 1, 4, 4, 1)
    assert second.data.names == read_labels(made / "loop" / "cleaned" / "kept.txt").names
    code, output, _ = run(*words)
    assert (code, output.splitlines()[0]) == (0, "cleaned: finished before, see loop/cleaned/clean.json")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "run"], "one of the arguments DATA --embeddings is required"),
        (["run", "run", "data.yaml", "--embeddings", "rows.npz"], "--embeddings: not allowed with argument DATA"),
        (
            ["run", "run", "data.yaml", "--faces", "data.yaml"],
            "--faces does nothing here: the pictures are those of DATA",
        ),
        (["run", "run", "--embeddings", "rows.npz", "--workers", "2"], "--workers does nothing here: --embeddings"),
        (
            ["embeddings", "rows.npz", "--eps", "0.4"],
            "--eps does nothing here: it is for --method dbscan, not for sub-",
        ),
        (
            ["embeddings", "rows.npz", "--method", "dbscan", "--only-dominant"],
            "--only-dominant does nothing here: it is for --method sub-centers, not for dbscan",
        ),
        (["run", "run", "data.yaml"], "'tiny_cleaning.TwoPixels' is not part of verisphere; building it runs its code"),
        (["run", "run", "data.yaml", "--workers", "999"], "--workers 999: allowed are 0 to 256"),
        (["run", "run", "data.yaml", "--angle", "wide"], "'wide' is neither a number of degrees nor none"),
        (["run", "absent", "data.yaml"], "absent: neither a checkpoint (no state.json) nor a run that has one; `veris"),
        (["loop", "recipe.yaml", "--batch-size", "-1"], "--batch-size -1: allowed is 1 image at a time or more"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(refused, made: Path, words: list[str], message: str):
    assert message in refused("clean", *words, "--out", "new/out")
    assert not (made / "new").exists()
