"""The command line under torchrun: one voice, one output, the figures of one process, and an end when one ends."""

import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
import torch

from processes import run
from verisphere.cli import main
from verisphere.files.embeddings import read_embeddings
from verisphere.models.checkpoint import list_checkpoints, read_checkpoint

OWN = Path(__file__).parents[1] / "train"  # own_parts.py
#: Seconds within which all have ended once one process has been killed. Measured: 4 to 8 s on two busy cores, most of
#: them Python's own end; torchrun itself ends after 30 s whoever does not.
PROMPT = 45.0  # seconds: a few are taken; a rank that waits for another does so for half an hour
RECIPE = """\
data: {class_path: own_parts.Noise, init_args: {people: 7, images: 5}}
backbone: {class_path: own_parts.PlainNet}
loss: {class_path: own_parts.OwnLoss}
epochs: 2
batch_size: 10
workers: 0
"""


@pytest.fixture(autouse=True)
def _process_as_it_was(process_as_it_was):
    pass


def start(*arguments: object, processes: int = 2) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(OWN), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo"}
    call = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes, "-m",
            "verisphere", *arguments]  # fmt: skip
    return subprocess.Popen(
        list(map(str, call)), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def torchrun(*arguments: object, processes: int = 2, seconds: float = 300) -> tuple[int, str, str]:
    """Exit code, standard output and standard error; no process is left after the given time."""
    process = start(*arguments, processes=processes)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        end(process)
        raise
    return process.returncode, out, err


def end(launcher: subprocess.Popen[str]) -> None:
    for worker in [*workers(launcher).values(), launcher.pid]:
        os.kill(worker, signal.SIGKILL)
    launcher.communicate()


def workers(launcher: subprocess.Popen[str]) -> dict[int, int]:
    """Process number of each rank."""
    found = {}
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                variables = (place / "environ").read_text().split("\0")
            except (OSError, UnicodeDecodeError):
                continue
            ranks = [one[5:] for one in variables if one.startswith("RANK=")]
            if parent == launcher.pid and ranks:
                found[int(ranks[0])] = int(place.name)
    return found


def said(err: str) -> list[str]:
    return [line for line in err.splitlines() if line.startswith("verisphere: ")]


@pytest.mark.slow
def test_a_slip_is_one_line_though_every_process_meets_it(recipe, tmp_path):
    code, out, err = torchrun("train", recipe, "--out", tmp_path / "run", "--epoch", "3")
    assert code != 0
    assert out == ""
    assert len(said(err)) == 1
    assert "there is no field 'epoch' (did you mean epochs?)" in said(err)[0]


def test_what_one_process_meets_alone_ends_all_and_is_one_line(recipe, tmp_path):
    # The last image of the set is unreadable, and only one process comes upon it. Takes over 5 s: torchrun and its
    # ranks load PyTorch anew, here alone in the fast suite.
    fields = ["--data.class_path", "own_parts.Spoilt", "--device", "cpu"]
    code, _, err = torchrun("train", recipe, "--out", tmp_path / "run", *fields)
    assert code != 0
    assert said(err) == ["verisphere: p6/4.png: not an image"]
    assert "Traceback (most recent call last)" not in err.partition("torch/distributed/elastic")[0]


def embedded(network: str, faces: str, out: str) -> list:
    """Exit code and standard output of one rank, or of a process alone."""
    options = ["--batch-size", "4", "--workers", "0", "--flip", "--threads", "1", "--device", "cpu"]
    with redirect_stdout(StringIO()) as heard:
        code = main(["--default-allocator", "embed", network, faces, "--out", out, *options])
    return [code, heard.getvalue()]


def test_embeddings_are_those_of_one_process(tmp_path):
    """By ranks that have started already: to start them by torchrun takes seconds, and other tests do."""
    faces, network = str(tmp_path / "faces.zip"), tmp_path / "network.yaml"
    assert main(["--default-allocator", "data", "render", faces, "--people", "6", "--images", "3"]) == 0
    network.write_text("class_path: verisphere.backbones.MobileFaceNet\ninit_args: {width: 0.1, embedding_size: 16}\n")
    one, two = tmp_path / "one.npz", tmp_path / "two.npz"
    threads = torch.get_num_threads()
    try:
        assert embedded(str(network), faces, str(one))[0] == 0
    finally:
        torch.set_num_threads(threads)
    assert run(embedded, 2, str(network), faces, str(two), timeout=300) == [
        [0, f"{two}: 18 images of 6 people, 16 numbers each\n"], [0, ""]
    ]  # fmt: skip
    ours, theirs = read_embeddings(two), read_embeddings(one)
    assert (ours.names == theirs.names).all()
    assert (ours.embeddings == theirs.embeddings).all()


def wait_for_checkpoint(process: subprocess.Popen[str], run: Path) -> None:
    until = time.monotonic() + 300
    while time.monotonic() < until and process.poll() is None and not list_checkpoints(run):
        time.sleep(0.02)
    assert process.poll() is None, process.communicate()[1]
    assert list_checkpoints(run), "no checkpoint in time"


LONG = ("--epochs", "4000", "--save_every", "1", "--log_every", "1000")


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "killed"), [(2, 1), (3, 0)])
def test_one_that_is_killed_ends_all_and_the_run_goes_on_from_its_checkpoint(recipe, tmp_path, processes, killed):
    run = tmp_path / "run"
    process = start("train", recipe, "--out", run, *LONG, processes=processes)
    try:
        wait_for_checkpoint(process, run)
        ranks = workers(process)
        began = time.monotonic()
        os.kill(ranks[killed], signal.SIGKILL)
        _, err = process.communicate(timeout=PROMPT)
        assert time.monotonic() - began < PROMPT
    finally:
        if process.poll() is None:
            end(process)
    assert process.returncode != 0
    assert len(said(err)) == 1
    assert "another process has ended" in said(err)[0]
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks.values())
    for path in list_checkpoints(run):
        checkpoint = read_checkpoint(path)
        for part in ("backbone", "head", "optimizer"):
            checkpoint.tensors(part)


@pytest.mark.slow
def test_processes_whose_launcher_was_killed_end_too_and_hold_the_run_until_then(recipe, tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(OWN)
    run = tmp_path / "run"
    process = start("train", recipe, "--out", run, *LONG)
    ranks = {}
    try:
        wait_for_checkpoint(process, run)
        ranks = workers(process)
        assert main(["train", str(recipe), "--out", str(run), *LONG, "--resume"]) == 2
        assert said(capsys.readouterr().err) == [
            f"verisphere: {run}: another process is writing there; wait for its end, or stop it"
        ]
        os.kill(process.pid, signal.SIGKILL)
        until = time.monotonic() + PROMPT
        while time.monotonic() < until and any(Path(f"/proc/{pid}").exists() for pid in ranks.values()):
            time.sleep(0.1)
        assert not any(Path(f"/proc/{pid}").exists() for pid in ranks.values())
        assert read_checkpoint(run).shards
    finally:
        process.kill()
        process.communicate()
        for pid in ranks.values():
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_one_stops_all_with_a_checkpoint(recipe, tmp_path, number):
    run = tmp_path / "run"
    process = start("train", recipe, "--out", run, *LONG)
    try:
        wait_for_checkpoint(process, run)
        os.kill(workers(process)[1], number)
        _, err = process.communicate(timeout=PROMPT)
    finally:
        if process.poll() is None:
            end(process)
    assert said(err) == ["verisphere: stopped; a checkpoint has been saved, continue with --resume"]
    assert f"exitcode  : {128 + number}" in err
    assert read_checkpoint(run).shards
