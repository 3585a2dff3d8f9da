"""A short run of `make fuzz`: the corpus, the seeds, and some mutations; and that it would see a fault."""

import importlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.containers import change_npz, reseal_checkpoint, reseal_model
from fuzz.corpus import FOLDER, KeptInput, keep
from fuzz.junk import CANARY
from fuzz.mutations import change_json, change_table, change_yaml
from fuzz.readers import READERS, Reader, mutated
from fuzz.server import Input, judged
from fuzz.worker import ACCEPTED, REFUSED, Outcome, fault_of

TESTS = Path(__file__).parents[1]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    call = [sys.executable, "-m", "fuzz", "--no-keep", "--processes", "1", *options]
    return subprocess.run(call, env=environment, capture_output=True, text=True, timeout=500)


def test_the_corpus_and_some_mutations_are_accepted_or_refused_in_a_line():
    """Takes over 5 s: to load every reader, and to export a model as a seed; reading takes 2 s."""
    done = run("--inputs", "30")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 findings" in done.stdout


# --- that it would see one --------------------------------------------------------------------------------------------


def _grow(folder: Path) -> None:
    held = [b"x" * (64 << 20) for _ in range(8)]
    raise ValueError(f"{folder}: {len(held)}")


def _hang(folder: Path) -> None:
    while True:
        pass


def _say(text: str):
    def read(folder: Path) -> None:
        raise ValueError(text.format(folder))

    return read


def _execute(folder: Path) -> None:
    os.mkdir(CANARY)


def _import(folder: Path) -> None:
    importlib.import_module("fuzz.canary_module")  # as the junk spells it


def _warn(folder: Path) -> None:
    import warnings

    warnings.warn("odd", stacklevel=1)


FAULTS = {
    "accepted": (lambda folder: None, ACCEPTED),
    "refused": (_say("{}/a.txt: wrong"), REFUSED),
    "hang": (_hang, "a hang"),
    "memory": (_grow, "it took much memory"),
    "dies": (lambda folder: os.abort(), "the process ended"),
    "another error": (lambda folder: {}["x"], "KeyError "),
    "memory error": (lambda folder: bytearray(1 << 44), "MemoryError "),
    "no name": (_say("wrong"), "a line that names no file"),
    "executed": (_execute, "it was executed"),
    "imported": (_import, "it was executed"),
    "warning": (_warn, "a warning reached the user"),
    "talks": (lambda folder: os.write(2, b"libthing: odd\n"), "a library talked to the user"),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What the harness says of readers with one fault each; in a process of its own, since it forks."""
    script = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\n"
        "from fuzz import server\n"
        "from fuzz.test_fuzz import outcomes_of_faults\n"
        "server.PATIENCE = 1.5\n"
        "print(json.dumps(outcomes_of_faults(sys.argv[2])))"
    )
    import json

    room = tmp_path_factory.mktemp("room")
    done = subprocess.run([sys.executable, "-c", script, TESTS, room], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return {name: Outcome(**found) for name, found in json.loads(done.stdout.splitlines()[-1]).items()}


def outcomes_of_faults(room: str) -> dict[str, dict]:
    """The outcome of each faulty reader on one input."""
    from dataclasses import asdict

    seeds = {"seed": {"a.txt": b"text"}}
    found: dict[str, dict] = {}
    READERS.clear()
    READERS.update({name: Reader((), read) for name, (read, _) in FAULTS.items()})
    inputs = [Input(name, "seed", dict, name) for name in FAULTS]
    for one, outcome in judged(inputs, seeds, Path(room), 2):
        found[one.title] = asdict(outcome)
    return found


@pytest.mark.parametrize("name", FAULTS)
def test_what_a_reader_does_is_seen(name: str, outcomes: dict[str, Outcome]):
    assert outcomes[name].verdict == FAULTS[name][1]
    assert outcomes[name].finding == (name not in ("accepted", "refused"))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("a.txt: wrong", ""),
        ("a.txt: \x1b[31m", "a control character in the line"),
        ("a.txt: " + "x" * 1000, "a line of more than a thousand letters"),
        ("wrong", "a line that names no file"),
        (" ", "an empty line"),
    ],
)
def test_what_is_wrong_with_a_line_is_seen(line: str, fault: str):
    assert fault_of(line, ["a.txt"], ()) == fault


# --- mutations --------------------------------------------------------------------------------------------------------


def test_a_mutation_is_the_same_each_time_and_another_by_another_number():
    files = {"scores.csv": b"score,label\n" + b"".join(b"0.%d,%d\n" % (row, row % 2) for row in range(9))}
    reader = READERS["scores csv"]
    first, again, other = (mutated(reader, files, random.Random(seed)) for seed in ("a", "a", "b"))
    assert first == again != other


@pytest.mark.parametrize(
    ("change", "content"),
    [
        (change_json, b'{"a": [1, 2], "b": {"c": "d"}}'),
        (change_yaml, b"a: [1, 2]\nb: {c: d}\n"),
        (change_table, b"a,b\n1,2\n"),
        (change_npz, b"PK"),
    ],
)
def test_mutations_take_what_they_made_themselves(change, content: bytes):
    seen = set()
    for number in range(60):
        chance = random.Random(number)
        changed = content
        for _ in range(3):
            changed = change(changed, chance)
        seen.add(changed)
    assert len(seen) > 40


def test_seals_of_what_is_no_document_are_left_alone():
    for files in ({"model/model.json": b"["}, {"model/model.json": b"[]"}, {}):
        assert reseal_model(files) == files
        assert reseal_checkpoint(files) == files


def test_an_input_comes_back_from_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fuzz.corpus.FOLDER", tmp_path)
    base = {"one.txt": b"1", "two.txt": b"2", "deep/three.txt": b"3"}
    files = {"one.txt": b"1", "deep/three.txt": b"other"}
    path = keep("metrics", "seed", base, files, "a hang; long")
    assert path is not None
    assert KeptInput("metrics", path).files({"seed": base}) == files
    assert keep("metrics", "seed", base, {"one.txt": bytes(1 << 20)}, "a hang") is None


def test_the_corpus_is_small():
    sizes = [path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()]
    assert max(sizes, default=0) <= 128 << 10
    assert sum(sizes) < 2 << 20
