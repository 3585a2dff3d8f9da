"""Several processes for a test, which meet as those of torchrun do, and never outlive it.

    def worker(number: float) -> float:  # at the top level of a test file
        return total(torch.tensor(number)).item()

    run(worker, 3, 2.0)  # [6.0, 6.0, 6.0]

A call costs some seconds, so a file's whole matrix should go through one for each number of processes. A test file gets
`run` by `from processes import run`: this folder is on the path of a test run.
"""

import atexit
import ctypes
import faulthandler
import importlib.util
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
GRACE = 20.0
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
    timeout: float = 60.0,
    grace: float = GRACE,
    patience: float | None = None,
    checked: bool = True,
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
        checked: whether every annotated signature is checked there as it is here; that doubles the time.
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
                "checked": checked,
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
        processes = []
        try:
            for rank in range(size):
                with (folder / f"said-{rank}").open("w") as said:
                    own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                    command = [sys.executable, __file__, str(folder)]
                    processes.append(
                        subprocess.Popen(command, env=shared | own, stdout=said, stderr=said, start_new_session=True)
                    )
            _wait(processes, folder, timeout, grace)
        finally:
            _end(processes)
        return [torch.load(folder / f"result-{rank}", weights_only=True) for rank in range(size)]


def _wait(processes: list[subprocess.Popen], folder: Path, timeout: float, grace: float) -> None:
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
                processes[rank].send_signal(_WHERE)
        time.sleep(bool(killed))  # a second in which they say where they are
        _end(processes)
        over = f", {killed} after {ended - started:.0f} s" if killed else ""
        raise WorkerFailed(
            f"of {len(processes)} processes {bad} did not end well{over}",
            {rank: (folder / f"said-{rank}").read_text(errors="replace").strip() for rank in bad},
            killed,
            ended - (started if failed is None else failed),
        )


def _end(processes: list[subprocess.Popen]) -> None:
    """End all, and what they have started."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _work(folder: Path) -> None:
    """One of the processes, from its start to its end."""
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    faulthandler.register(_WHERE)
    atexit.register(_nothing_left)  # first, and so called last
    job = torch.load(folder / "job.pt", weights_only=True)
    if job["checked"]:
        install_import_hook("verisphere", "beartype.beartype")
    from verisphere.distributed import joined

    spec = importlib.util.spec_from_file_location(Path(job["file"]).stem, job["file"])
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    with joined(patience=job["patience"]) as world:
        result = getattr(module, job["name"])(*job["arguments"])
        torch.save(result, folder / f"result-{world.rank}")


def _nothing_left() -> None:
    """The last thing before Python's shutdown: a thread of gloo that lives on may abort the process in it."""
    if left := [name for name in threads() if "gloo" in name]:
        print(f"threads of a group that was left are still there: {left}", file=sys.stderr, flush=True)
        os._exit(1)


def threads() -> list[str]:
    """The names of those of this process."""
    names = []
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            names.append((thread / "comm").read_text().strip())
    return names


if __name__ == "__main__":
    try:
        _work(Path(sys.argv[1]))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # not through the ends of threads that may wait for another process
