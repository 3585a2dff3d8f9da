"""An inversion that is killed goes on with the same bits, and keeps within the memory that its plan states."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

VERISPHERE = [sys.executable, "-m", "verisphere"]
OWN = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}  # with the network of tiny_inversion
_ROOM = 1.1  # of the plan
_BESIDE = 48 << 20  # bytes by which a process grows without an inversion, such as libraries loaded late

MEASURED = """
import json, sys, torch
from pathlib import Path
from verisphere.study.invert import Inversion, TowardEmbeddings, invert
from verisphere.study.invert.run import plan_of
from verisphere.models.embed import open_model
torch.set_num_threads(1)
count = int(sys.argv[2])
network = open_model(Path(sys.argv[1]), torch.device("cpu")).backbone
settings = Inversion(steps=2, batch_size=count)
stated = plan_of(network, count, settings).bytes
def peak():  # not `ru_maxrss`, which begins with the memory of the process that started this one
    status = open("/proc/self/status").read().split()
    return int(status[status.index("VmHWM:") + 1]) * 1024
before = peak()
invert(network, TowardEmbeddings(torch.randn(count, network.embedding_size)), settings)
print(json.dumps([stated, peak() - before]))
"""


def command(tiny: Path, out: Path) -> list[str]:
    words = ["invert", str(tiny / "run"), "--faces", str(tiny / "others.yaml"), "--count", "4", "--batch_size", "2"]
    words += ["--steps", "60", "--save-every", "5", "--threads", "1", "--trust-code"]
    return [*VERISPHERE, *words, "--out", str(out)]


@pytest.mark.slow
def test_killed_at_several_moments_it_ends_with_the_same_bits(tiny: Path, tmp_path: Path):
    subprocess.run(command(tiny, tmp_path / "whole"), check=True, capture_output=True, env=OWN)
    out = tmp_path / "out"
    kills = 0
    for saved in ("00000000.state.npz", "00000000.npz", "00000001.state.npz"):
        process = subprocess.Popen(command(tiny, out), env=OWN, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not [*out.glob(f".work/*/{saved}")]:
            time.sleep(0.01)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills >= 2
    subprocess.run(command(tiny, out), check=False, capture_output=True, env=OWN)
    assert not (out / ".work").exists()
    images = sorted((tmp_path / "whole" / "images").iterdir())
    assert len(images) == 4
    for image in images:
        assert image.read_bytes() == (out / "images" / image.name).read_bytes()
    ours, theirs = (json.loads((folder / "inversion.json").read_text()) for folder in (tmp_path / "whole", out))
    assert ours == theirs


@pytest.mark.slow
@pytest.mark.parametrize(("count", "share"), [(4, 0.0), (32, 0.4)])
def test_memory_stays_within_the_plan(tmp_path: Path, count: int, share: float):
    (tmp_path / "net.yaml").write_text("class_path: verisphere.backbones.MobileFaceNet\ninit_args: {width: 0.5}\n")
    words = [sys.executable, "-c", MEASURED, str(tmp_path / "net.yaml"), str(count)]
    stated, taken = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert taken <= _ROOM * stated + _BESIDE
    assert taken >= share * stated - _BESIDE  # a plan that states far more is of no use
