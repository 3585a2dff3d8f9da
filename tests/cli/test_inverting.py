"""The verb `invert`: what it prints, its dry run, and the line of an error."""

from pathlib import Path

import pytest

from tiny_inversion import make

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, its data, other people, and a judge."""
    folder = tmp_path_factory.mktemp("made")
    make(folder)
    return folder


def test_a_dry_run_an_inversion_and_the_same_again(run, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    asked = ["invert", made / "run", "--faces", made / "others.yaml", "--judge", made / "judge.yaml", "--count", 3]
    asked += ["--steps", 4, "--flip", "false", "--save-every", 2, "--trust-code"]
    code, output, errors = run(*asked, "--dry-run")
    assert (code, errors.count("is an untrained network")) == (0, 1)
    assert output.startswith("3 images in 1 batch of 4 steps: 0.0")
    assert list(tmp_path.iterdir()) == []
    code, output, _ = run(*asked, "--out", "out")
    assert code == 0
    lines = output.splitlines()
    assert lines[0].startswith("3 images in 1 batch of 4 steps")
    assert [line.split("|")[1].strip() for line in lines[3:5]] == ["the model itself", "the judge"]
    assert "the 95 % quantile of those to others" in lines[-3]
    assert lines[-2].startswith("the attack ")
    assert lines[-1] == "out: index.html, grid.png, images (marked as generated), inversion.json"
    code, _, errors = run(*asked, "--out", "out")
    assert (code, errors.splitlines()[-1]) == (
        2, "verisphere: out: a folder that is not empty; a result needs a new folder"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--faces", "others.yaml"], "--out is missing"),
        (["--faces", "others.yaml", "--out", "out", "--rate", "0"], "rate is 0"),
        (
            ["--faces", "others.yaml", "--out", "out", "--recipe", "inversions/smal"],
            "inversions/smal: there is no such",
        ),
        (["--faces", "others.yaml", "--out", "out", "--juge", "j"], "--juge (did you mean --judge?)"),
    ],
)
def test_an_error_is_one_line(refused, made: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str):
    monkeypatch.chdir(made)
    assert message in refused("invert", "run", "--trust-code", *words)
    assert not (made / "out").exists()
