"""The wheel and the sdist: the same bytes from the same files, and a tool that works where nothing else is."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from PIL import Image

import verisphere

ROOT = Path(__file__).parents[2]
EPOCH = "1700000000"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(shutil.which("git") is None or not (ROOT / ".git").exists(), reason="this is no checkout"),
]


def tracked() -> list[str]:
    """The files of the checkout that git knows and that are there, relative to its root."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return [name for name in listed.split("\0") if (ROOT / name).is_file()]


def built(folder: Path, mode: int) -> list[Path]:
    """The sdist, and the wheel made from it, of a copy of the checkout whose files have other modes and times."""
    for name in tracked():
        copy = folder / "checkout" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, copy)
        copy.chmod(mode | (os.stat(ROOT / name).st_mode & 0o111))
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist"],
        cwd=folder / "checkout",
        env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
        check=True,
        timeout=300,
        capture_output=True,
    )
    return sorted((folder / "dist").iterdir())


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return built(tmp_path_factory.mktemp("first"), 0o644)


@pytest.fixture(scope="module")
def wheel(first: Sequence[Path]) -> Path:
    return next(path for path in first if path.suffix == ".whl")


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and what it requires, in the tested versions, and no extra."""
    folder = tmp_path_factory.mktemp("bare")
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    subprocess.run([base, "-m", "venv", folder], env=own(), check=True, timeout=300)
    install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "--constraint", ROOT / "constraints.txt", wheel], env=own(), check=True, timeout=1500)
    return folder / "bin"


def own(further: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment's variables without those that could lead to the checkout or to another environment."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    return {**{name: value for name, value in os.environ.items() if name not in hidden}, **(further or {})}


def call(bare: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One call of a program of the bare environment, in a folder."""
    program, *rest = arguments
    return subprocess.run([bare / program, *rest], cwd=folder, env=own(), capture_output=True, text=True, timeout=600)


def test_the_same_files_make_the_same_bytes(first: Sequence[Path], tmp_path: Path):
    second = built(tmp_path, 0o664)
    assert [path.name for path in second] == [path.name for path in first]
    assert {path.suffix for path in first} == {".gz", ".whl"}
    assert [path.read_bytes() for path in second] == [path.read_bytes() for path in first]


def test_the_wheel_has_every_file_of_the_package_and_no_other(wheel: Path):
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert inside == {name.removeprefix("src/") for name in tracked() if name.startswith("src/verisphere/")}


def test_it_is_installed_without_the_checkout_and_without_extras(bare: Path, tmp_path: Path):
    code = "import verisphere; print(verisphere.__file__, verisphere.__version__)"
    done = call(bare, tmp_path, "python", "-W", "error", "-c", code)
    path, version = done.stdout.split()
    assert (done.returncode, version) == (0, verisphere.__version__), done.stderr
    assert Path(path).is_relative_to(bare.parent)
    listed = call(bare, tmp_path, "python", "-m", "pip", "list", "--format", "freeze").stdout.lower()
    there = {line.partition("==")[0] for line in listed.splitlines()}
    assert {"torch", "verisphere"} <= there
    assert there.isdisjoint({"pytest", "onnx", "mtcnn", "pyarrow", "scikit-learn", "optuna", "tensorboard"})


def test_the_help_lists_the_verbs(bare: Path, tmp_path: Path):
    done = call(bare, tmp_path, "verisphere", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert all(f"\n    {verb} " in done.stdout for verb in ("train", "evaluate", "calibrate", "verify"))


FACES = """\
class_path: verisphere.images.SyntheticFaces
init_args: {people: 20, images: 3, seed: 1, first_person: 900}
"""


@pytest.fixture(scope="module")
def run(bare: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `run`, a training by a packaged recipe, and `set.npz`, embeddings of people it has not seen."""
    folder = tmp_path_factory.mktemp("training")
    few = ["--data.init_args.people", "20", "--epochs", "1"]
    done = call(bare, folder, "verisphere", "train", "synthetic/arcface", "--out", "run", *few)
    assert done.returncode == 0, done.stderr
    (folder / "faces.yaml").write_text(FACES)
    done = call(bare, folder, "verisphere", "embed", "run", "faces.yaml", "--out", "set.npz")
    assert done.returncode == 0, done.stderr
    return folder


def test_it_trains_by_a_packaged_recipe_and_measures_the_run(bare: Path, run: Path):
    assert call(bare, run, "verisphere", "recipes", "synthetic/arcface").stdout.startswith("# ArcFace")
    done = call(bare, run, "verisphere", "evaluate", "all-pairs", "set.npz", "--far", "1e-1")
    assert done.returncode == 0, done.stderr
    assert "TAR" in done.stdout


SEARCH = """\
recipe: synthetic/cosface
space: {loss.init_args.margin: {class_path: verisphere.study.search.Linear, init_args: {low: 0, high: 0.4}}}
method: {class_path: verisphere.study.search.Optuna}
schedule: {class_path: verisphere.study.search.WholeTrainings, init_args: {trainings: 1}}
reward: {faces: {class_path: verisphere.images.SyntheticFaces, init_args: {people: 9, images: 2}}, far: ["1e-1"]}
"""


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("detect", ["align", "drawn", "aligned.zip"]),
        ("insightface", ["align", "drawn", "aligned.zip", "--detector", "scrfd"]),
        ("heif", ["embed", "run", "photos", "--out", "photos.npz"]),
        ("data", ["evaluate", "all-pairs", "set.parquet", "--far", "1e-1"]),
        ("export", ["export", "run", "--out", "model"]),
        ("tune", ["search", "search.yaml", "--out", "search"]),
        ("track", ["train", "synthetic/arcface", "--out", "other", "--tensorboard"]),
        ("clean", ["clean", "embeddings", "set.npz", "--method", "dbscan", "--out", "cleaned"]),
    ],
)
def test_a_missing_extra_is_named_in_one_line(bare: Path, run: Path, extra: str, arguments: list[str]):
    for folder in ("photos", "drawn"):
        (run / folder / "one").mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (160, 160)).save(run / "drawn" / "one" / "1.png")
    (run / "photos" / "one" / "1.heic").write_bytes(b"\0\0\0\x18ftypheic")
    (run / "search.yaml").write_text(SEARCH)
    (run / "set.parquet").write_bytes(b"PAR1")
    done = call(bare, run, "verisphere", *arguments)
    assert f"pip install '.[{extra}]', else pip install 'WHEEL[{extra}]'" in done.stderr
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
