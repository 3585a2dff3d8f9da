"""Several processes for a test, which meet as those of torchrun do, and never outlive it.

    def worker(number: float) -> float:  # at the top level of a test file
        return total(torch.tensor(number)).item()

    run(worker, 3, 2.0)  # [6.0, 6.0, 6.0]

Loading PyTorch and verisphere takes a process some seconds. One process of this file loads them once and forks those of
every call, which so share its hash seed; tests/train/test_torchrun.py starts whole ones. A test file gets `run` by
`from processes import run`: this folder is on the path of a test run.
"""

import atexit
import ctypes
import faulthandler
import functools
import gc
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import install_import_hook

#: Seconds that the others have to end by themselves once one has failed.
GRACE = 60.0
#: What most workers load, and takes long: torch._dynamo is loaded by the first optimizer.
LOADED = ("torch._dynamo", "pytest", "hypothesis", "verisphere.train.session")
#: Where ranks meet: a full run checks signatures here; elsewhere it does not, since that doubles the time.
CHECKED = ["verisphere.collectives", "verisphere.head.sharded", "verisphere.score.gathered"]
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_WHERE = signal.SIGUSR1


class WorkerFailed(RuntimeError):
    """A process raised, was ended, or did not come back in time.

    Attributes:
        texts: what each process that raised said, its traceback; of one that was ended, what it wrote and where it was.
        killed: the processes that were still running and had to be ended.
        seconds: from the first failure until all had ended, by themselves or not.
    """

    def __init__(self, message: str, texts: dict[int, str], killed: list[int], seconds: float) -> None:
        super().__init__("\n".join([message, *(f"--- process {rank}\n{text}" for rank, text in texts.items())]))
        self.texts, self.killed, self.seconds = texts, killed, seconds


def run(
    worker: Callable[..., Any],
    size: int,
    *arguments: Any,
    timeout: float = 300.0,
    grace: float = GRACE,
    patience: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[Any]:
    """What a function returns in each of several processes, which have met by `verisphere.distributed.joined`.

    Args:
        worker: a function at the top level of its file. That file is imported anew in each process, by its path, with
            the folder `tests` on the path.
        size: how many processes.
        arguments: of it; like what it returns, tensors, numbers, strings, None, and tuples, lists and dicts of those.
        timeout: seconds until all are ended.
        grace: seconds that the others have to end by themselves once one has failed.
        patience: seconds that one waits for another before it gives up; None is `timeout`.
        environment: further variables of theirs.

    Raises:
        WorkerFailed: one of them raised or was ended, or the time was over; by then no process is left.
    """
    assert worker.__qualname__ == worker.__name__, "a worker is a function at the top level of its file"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        torch.save(
            {
                **{"file": worker.__code__.co_filename, "name": worker.__name__, "arguments": arguments},
                "patience": float(timeout if patience is None else patience),
            },
            folder / "job.pt",
        )
        # Held here as a torchrun's is by its agent: a port that nobody else can take in the meantime.
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        shared = {
            **os.environ,
            **{"OMP_NUM_THREADS": "1", "WORLD_SIZE": str(size), "GLOO_SOCKET_IFNAME": "lo"},
            **{"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)},
            **{"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"},
            **(environment or {}),
        }
        processes: list[_Forked] = []
        try:
            processes.extend(
                _Forked(folder, shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(size)
            )
            _wait(processes, folder, timeout, grace)
        finally:
            _end(processes)
        return [torch.load(folder / f"result-{rank}", weights_only=True) for rank in range(size)]


@functools.cache
def _forks() -> subprocess.Popen[str]:
    """The process that forks all others: `_serve` is what it does."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # with one thread, which a fork needs
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, __file__], env=environment, start_new_session=True, **pipes)


def _ask(**what: Any) -> Any:
    """One line to the process that forks, and its answer."""
    server = _forks()
    assert server.stdin is not None
    assert server.stdout is not None
    print(json.dumps(what), file=server.stdin, flush=True)
    return json.loads(server.stdout.readline())


class _Forked:
    """A process, with those of its group; its number and how it ended are asked for."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.pid: int = _ask(folder=str(folder), environment=environment)
        self._ended: int | None = None

    def poll(self) -> int | None:
        """The exit status, negative after a signal; None while it runs."""
        if self._ended is None:
            self._ended = _ask(ended=self.pid)
        return self._ended


def _wait(processes: list[_Forked], folder: Path, timeout: float, grace: float) -> None:
    """Until all have ended well.

    Raises:
        WorkerFailed: see `run`.
    """
    started = time.monotonic()
    failed: float | None = None
    while any(process.poll() is None for process in processes):
        now = time.monotonic()
        if failed is None and any(process.poll() for process in processes):
            failed = now
        if now - started > timeout or (failed is not None and now - failed > grace):
            break
        time.sleep(0.02)
    ended = time.monotonic()
    killed = [rank for rank, process in enumerate(processes) if process.poll() is None]
    bad = [rank for rank, process in enumerate(processes) if process.poll() != 0]
    if bad:
        for rank in killed:
            with suppress(ProcessLookupError):
                os.kill(processes[rank].pid, _WHERE)
        time.sleep(bool(killed))  # a second in which they say where they are
        _end(processes)
        over = f", {killed} after {ended - started:.0f} s" if killed else ""
        raise WorkerFailed(
            f"of {len(processes)} processes {bad} did not end well{over}",
            {rank: (folder / f"said-{rank}").read_text(errors="replace").strip() for rank in bad},
            killed,
            ended - (started if failed is None else failed),
        )


def _end(processes: list[_Forked]) -> None:
    """End all, and what they have started."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        while process.poll() is None:
            time.sleep(0.01)


def _serve() -> Path | None:
    """Load what takes long, then fork a process for each line that asks for one, until the lines end.

    Returns:
        in a forked process, the folder of its job; None in this one.
    """
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    atexit.register(_end_early)  # first, and so called last
    if "CHECK_SIGNATURES" in os.environ:
        install_import_hook(CHECKED, "beartype.beartype")
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()  # or each process copies what was loaded when it looks for garbage
    assert len(threads()) == 1, f"a process with threads must not fork: {threads()}"
    for line in sys.stdin:
        asked = json.loads(line)
        if "ended" in asked:
            pid, status = os.waitpid(asked["ended"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        elif (answer := os.fork()) == 0:
            _become(Path(asked["folder"]), asked["environment"])
            return Path(asked["folder"])
        else:
            os.setpgid(answer, answer)
        print(json.dumps(answer), flush=True)
    return None


def _become(folder: Path, environment: dict[str, str]) -> None:
    """A forked process with its own environment, which reads nothing and writes to a file."""
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    os.environ.clear()
    os.environ.update(environment)
    with open(os.devnull) as nothing, (folder / f"said-{environment['RANK']}").open("w") as said:
        for file, number in ((nothing, 0), (said, 1), (said, 2)):
            os.dup2(file.fileno(), number)


def _work(folder: Path) -> None:
    """What one of the processes is for."""
    faulthandler.register(_WHERE)
    job = torch.load(folder / "job.pt", weights_only=True)
    from verisphere.distributed import joined

    spec = importlib.util.spec_from_file_location(Path(job["file"]).stem, job["file"])
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    warnings.simplefilter("error")
    with joined(patience=job["patience"]) as world:
        result = getattr(module, job["name"])(*job["arguments"])
        torch.save(result, folder / f"result-{world.rank}")


def _end_early() -> None:
    """The last thing before Python's shutdown, which would take a second to free what was loaded.

    A thread of gloo that lives on may abort a process in it.
    """
    if left := [name for name in threads() if "gloo" in name]:
        print(f"threads of a group that was left are still there: {left}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(bool(left))


def threads() -> list[str]:
    """The names of those of this process."""
    names = []
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            names.append((thread / "comm").read_text().strip())
    return names


if __name__ == "__main__":
    if (place := _serve()) is not None:
        try:
            _work(place)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)  # not through the ends of threads that may wait for another process
