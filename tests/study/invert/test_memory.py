"""An inversion keeps within the memory that its plan states."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.slow
@pytest.mark.parametrize(("count", "share"), [(4, 0.0), (32, 0.4)])
def test_memory_stays_within_the_plan(tmp_path: Path, count: int, share: float):
    (tmp_path / "net.yaml").write_text("class_path: verisphere.backbones.MobileFaceNet\ninit_args: {width: 0.5}\n")
    words = [sys.executable, "-c", MEASURED, str(tmp_path / "net.yaml"), str(count)]
    stated, taken = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert taken <= _ROOM * stated + _BESIDE
    assert taken >= share * stated - _BESIDE  # a plan that states far more is of no use
