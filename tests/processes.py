"""Several processes for a test, which meet as those of torchrun do, and commands; none outlives the test run.

    def worker(number: float) -> float:  # at the top level of a test file
        return total(torch.tensor(number)).item()

    run(worker, 3, 2.0)  # [6.0, 6.0, 6.0]
    subprocess.run([*forked(), "evaluate", "scores", "s.csv"], capture_output=True, text=True)

Loading PyTorch and verisphere takes a process some seconds. One process of this file loads them once and forks those of
every call, which so share its hash seed, and the number of threads with which PyTorch was loaded;
tests/train/test_torchrun.py and tests/cli/test_streams.py start whole ones. A test file gets `run` and `forked` by
`from processes import forked, run`: this folder is on the path of a test run.
"""

import atexit
import ctypes
import faulthandler
import functools
import gc
import importlib
import importlib.util
import itertools
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import types
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from jaxtyping import install_import_hook

import forked_command
from forked_command import Forked

#: Seconds that the others have to end by themselves once one has failed.
GRACE = 100.0
#: What most workers and commands load, and takes long: torch._dynamo is loaded by the first optimizer.
LOADED = (
    *("torch._dynamo", "pytest", "hypothesis", "verisphere.train.session", "verisphere.cli.start"),
    *("verisphere.report.progress", "verisphere.measure.evaluate", "verisphere.study.experiments.run"),
)
#: Where ranks meet: a full run checks signatures here; elsewhere it does not, since that doubles the time.
CHECKED = ["verisphere.base.collectives", "verisphere.head.sharded", "verisphere.score.listed"]
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_WHERE = signal.SIGUSR1
_exit_code = 0  # of this process, once its command has ended


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
    """What a function returns in each of several processes, which have met by `verisphere.base.distributed.joined`.

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
        processes: list[Forked] = []
        try:
            for rank in range(size):
                environment = shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
                with open(os.devnull) as nothing, (folder / f"said-{rank}").open("w") as said:
                    streams = nothing.fileno(), said.fileno(), said.fileno()
                    processes.append(Forked(_address(), streams, folder=place, environment=environment))
            _wait(processes, folder, timeout, grace)
        finally:
            _end(processes)
        return [torch.load(folder / f"result-{rank}", weights_only=True) for rank in range(size)]


def forked() -> list[str]:
    """What stands for `[sys.executable, "-m", "verisphere"]` where it does not matter how a process starts.

    The words of a verb follow; or "-c", code and its arguments, as after `sys.executable`. What the code may import is
    loaded already. forked_command.py says what differs.
    """
    return [sys.executable, "-I", "-S", forked_command.__file__, _address()]


@functools.cache
def _server() -> tuple[Any, Any]:
    """The process that forks all others, `_serve` is what it does; and the folder of its socket."""
    folder = tempfile.TemporaryDirectory(prefix="forks-")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}  # with one thread, which a fork needs
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder.name}/socket")
        listener.listen()
        words = [sys.executable, __file__]
        streams: dict[str, Any] = {"stdin": listener, "stdout": subprocess.DEVNULL}
        return subprocess.Popen(words, env=environment, start_new_session=True, **streams), folder


def _address() -> str:
    """The socket of the process that forks."""
    return f"{_server()[1].name}/socket"


def _wait(processes: list[Forked], folder: Path, timeout: float, grace: float) -> None:
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


def _end(processes: list[Forked]) -> None:
    """End all, and what they have started."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        while process.poll() is None:
            time.sleep(0.01)


def _serve() -> dict[str, Any]:
    """Load what takes long, then fork a process for each that asks for one at the socket, which is the standard input.

    Returns:
        in a forked process, what it has to do; in this one, never.
    """
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    atexit.register(_end_early)  # first, and so called last
    if "CHECK_SIGNATURES" in os.environ:
        install_import_hook(CHECKED, "beartype.beartype")
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()  # or each process copies what was loaded when it looks for garbage
    assert len(threads()) == 1, f"a process with threads must not fork: {threads()}"
    listener = socket.socket(fileno=os.dup(0))
    children: list[_Child] = []
    while True:
        ready = select.select([listener, *itertools.chain(*(child[1:] for child in children))], [], [])[0]
        # Those that ended come before one that asks, which may need that they have ended.
        for child in [child for child in children if child.asked in ready or child.ended in ready]:
            children.remove(child)
            if child.asked in ready:  # whoever asked for it has ended
                os.killpg(child.pid, signal.SIGKILL)
            _answer(child.asked, os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1]))
            os.close(child.ended)
            child.asked.close()
        if listener in ready:
            asked = listener.accept()[0]
            streams = socket.recv_fds(asked, 1, 3)[1]
            with asked.makefile() as lines:
                job: dict[str, Any] = json.loads(lines.readline() or "{}")
            if job and (pid := os.fork()) == 0:
                for file in (listener, asked, *(child.asked for child in children)):
                    file.close()
                for child in children:
                    os.close(child.ended)
                _become(streams, job["environment"])
                return job
            if job:
                os.setpgid(pid, pid)
                children.append(_Child(pid, os.pidfd_open(pid), asked))
                _answer(asked, pid)
            for stream in streams:
                os.close(stream)


class _Child(NamedTuple):
    """A forked process: its number, a file that can be read once it has ended, and the connection of who asked."""

    pid: int
    ended: int
    asked: socket.socket


def _answer(asked: socket.socket, number: int) -> None:
    """Tell a number to who asked, unless that process has ended."""
    with suppress(OSError):
        asked.sendall(f"{number}\n".encode())


def _become(streams: list[int], environment: dict[str, str]) -> None:
    """Give a forked process its own standard streams and environment."""
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    os.environ.clear()
    os.environ.update(environment)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)


def _run_command(
    words: list[str], folder: str, ignored: list[int], closed: list[int], limits: list[tuple[int, tuple[int, int]]]
) -> int:
    """The exit code of `python -m verisphere WORDS`, or of `python -c CODE WORDS`, under these circumstances."""
    for kind, limit in limits:
        resource.setrlimit(kind, limit)
    for stream in closed:
        os.close(stream)
        setattr(sys, ("stdin", "stdout", "stderr")[stream], None)  # as Python does
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        handler = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in ignored else handler)
    os.chdir(folder)
    sys.path[:1] = [folder, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    try:
        if words[:1] == ["-c"]:
            sys.argv = ["-c", *words[2:]]
            sys.modules["__main__"] = main = types.ModuleType("__main__")
            exec(words[1], vars(main))
        else:
            sys.argv[1:] = words
            runpy.run_module("verisphere", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def _work(folder: Path) -> None:
    """What one of the processes is for."""
    faulthandler.register(_WHERE)
    job = torch.load(folder / "job.pt", weights_only=True)
    from verisphere.base.distributed import joined

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
    os._exit(_exit_code or bool(left))


def threads() -> list[str]:
    """The names of those of this process."""
    names = []
    for thread in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            names.append((thread / "comm").read_text().strip())
    return names


if __name__ == "__main__":
    job = _serve()
    try:
        if "words" in job:
            _exit_code = _run_command(**{name: job[name] for name in job if name != "environment"})
        else:
            _work(Path(job["folder"]))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # not through the ends of threads that may wait for another process
