"""`serve`: a gallery as a service over HTTP, with a page."""

import argparse
import gc
import logging
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from threading import Thread
from typing import TYPE_CHECKING, Any

from verisphere.base.words import install_extra
from verisphere.cli.calibrating import model_and_faces
from verisphere.cli.messages import message_of
from verisphere.cli.parsing import Verbs, add_photographs, new_verb, options_as
from verisphere.cli.results import add_input
from verisphere.cli.threads import available_cores

if TYPE_CHECKING:
    import uvicorn

    from verisphere.ship.serve.desk import Desk
    from verisphere.ship.serve.guard import Keys

log = logging.getLogger(__name__)
_MOST_WORKERS = 256  # more are a mistake
_BURST = 0.002  # seconds in which connections come together
_CANNOT_START = 2
_COUNTS = "verisphere-serve-"  # of a folder in memory, then the number of the first process
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LIMITS = {
    "most-bytes": "most bytes of a photograph (8388608)",
    "most-pixels": "most pixels of a photograph (25000000)",
    "rate": "requests a second of one key, of which as many as in ten seconds may come at once (20)",
    "seconds": "longest time of an answer (10)",
    "concurrent": "requests that are answered at the same time (64)",
    "batch": "faces that go through the network together (32)",
}


def serve(options: argparse.Namespace) -> str:
    """Answer over HTTP who of a gallery is on a photograph, with a page (extra: serve)."""
    if missing := [name for name in ("fastapi", "uvicorn", "python_multipart") if find_spec(name) is None]:
        raise ValueError(f"serving needs {' and '.join(missing)}, not installed here; {install_extra('serve')}")
    from verisphere.files.disk import IN_MEMORY
    from verisphere.ship.serve.guard import read_keys
    from verisphere.ship.serve.metrics import Metrics

    if options.keys is None and options.host not in _LOOPBACK:
        raise ValueError(f"--host {options.host}: others could reach the gallery, so name a file of keys by --keys")
    if not 1 <= options.workers <= _MOST_WORKERS:
        raise ValueError(f"--workers must be from 1 to {_MOST_WORKERS}, got {options.workers}")
    keys = None if options.keys is None else read_keys(options.keys)
    desk = _desk(options)
    door = _door(options.host, options.port)
    who = "everybody on this machine may do everything" if keys is None else f"{len(keys.keys)} keys"
    host = f"[{options.host}]" if ":" in options.host else options.host
    by = "" if options.workers == 1 else f" by {options.workers} processes"
    log.info("%s: http://%s:%d%s, %s; Ctrl-C ends it", options.gallery, host, door.getsockname()[1], by, who)
    if options.workers == 1:
        _server(desk, keys).run([door])
        return ""
    desk.gallery.store.close()
    del desk  # each process opens the gallery and the model itself
    gc.collect()
    if options.threads is not None or "OMP_NUM_THREADS" not in os.environ:
        os.environ["OMP_NUM_THREADS"] = str(options.threads or max(available_cores() // options.workers, 1))
    _sweep(Path(IN_MEMORY or gettempdir()))
    with TemporaryDirectory(prefix=f"{_COUNTS}{os.getpid()}-", dir=IN_MEMORY) as shared:
        counts = Path(shared) / "counts"
        settings = argparse.Namespace(**{name: value for name, value in vars(options).items() if name != "parser"})
        _keep_running(options.workers, (settings, keys, door, counts), Metrics(counts).ended)
    return ""


def _door(host: str, port: int) -> socket.socket:
    """A socket that listens; on each connection the last part of an answer is sent at once.

    asyncio asks for that on sockets that it has opened itself alone, and the second part would wait for 40 ms until
    the caller has confirmed the first (Nagle's algorithm and delayed acknowledgements).
    """
    try:
        door = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ValueError(f"--host {host} --port {port}: {error.strerror}") from None
    door.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return door


def _sweep(place: Path) -> None:
    """Remove the counts of services whose first process was killed."""
    for left in place.glob(f"{_COUNTS}*"):
        first = left.name.removeprefix(_COUNTS).partition("-")[0]
        if first.isdigit() and not Path(f"/proc/{first}").exists():
            shutil.rmtree(left, ignore_errors=True)


def _desk(options: argparse.Namespace) -> "Desk":
    from verisphere.files.gate import read_gate
    from verisphere.ship.gate import gate_of
    from verisphere.ship.living.gallery import LivingGallery
    from verisphere.ship.serve.desk import Desk
    from verisphere.ship.serve.guard import Limits

    limits = options_as(Limits, options)
    gallery = LivingGallery(options.gallery)
    model, find = model_and_faces(options, [options.gallery], others=False)
    desk = Desk(gallery, model, find, limits, options.far, options.accept_drawn_model)
    if options.gate is not None:
        desk.gate, desk.margin = gate_of(options.gate, model, find), read_gate(options.gate).margin
    return desk


def _server(desk: "Desk", keys: "Keys | None", counts: Path | None = None) -> "uvicorn.Server":
    """What answers in one process; FastAPI holds it, and the desk, until the process ends."""
    import uvicorn

    from verisphere.ship.serve.app import make_app

    settings = uvicorn.Config(
        make_app(desk, keys, counts), log_config=None, access_log=False, server_header=False, ws="none"
    )
    return uvicorn.Server(settings)


def _keep_running(
    number: int,
    about: tuple[argparse.Namespace, "Keys | None", socket.socket, Path],
    ended: Callable[[int | None], None],
) -> None:
    """Keep so many processes answering at one socket until a signal ends this one; they end with it."""
    running = list[BaseProcess]()
    try:
        while True:
            while len(running) < number:
                running.append(get_context("spawn").Process(target=_answer, args=about, daemon=True))
                running[-1].start()
            wait([process.sentinel for process in running])
            for process in [process for process in running if not process.is_alive()]:
                running.remove(process)
                ended(process.pid)
                if process.exitcode == _CANNOT_START:
                    raise ValueError("a process of the service could not start, for the reason above")
                log.warning("process %s of the service has ended; another takes its place", process.pid)
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.join()


def _answer(options: argparse.Namespace, keys: "Keys | None", door: socket.socket, counts: Path) -> None:
    """Answer as one of several processes, by the keys of the first one, until that says so or is gone."""
    from verisphere.base.device import keep_memory
    from verisphere.report.progress import log_to_terminal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C comes to all: the first process ends the others
    Thread(target=_end_with_first, daemon=True).start()
    log_to_terminal()
    if not options.default_allocator:
        keep_memory()
    try:
        server = _server(_desk(options), keys, counts)
    except (ValueError, OSError) as error:
        log.error("%s", message_of(error))
        sys.exit(_CANNOT_START)
    server.run([_SharedDoor(fileno=door.detach())])


class _SharedDoor(socket.socket):
    """A listening socket that leaves the next connections of a burst to other processes.

    asyncio takes all that wait, and connections are kept: one process would answer all of eight clients.
    """

    _taken = -_BURST

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection, after a pause if this process has just taken one."""
        if time.monotonic() < self._taken + _BURST:
            time.sleep(_BURST)
        connection = super().accept()
        self._taken = time.monotonic()
        return connection


def _end_with_first() -> None:
    if (first := parent_process()) is not None:
        first.join()
        signal.raise_signal(signal.SIGTERM)


def add_serve(verbs: Verbs) -> None:
    """Add `serve`."""
    first = "verisphere serve door --model model"
    verb = new_verb(verbs, "serve", serve, examples=(first, f"{first} --host 0.0.0.0 --keys keys.json --workers 4"))
    add_input(verb, "gallery", "the folder, or the address, of gallery create", "GALLERY")
    verb.add_argument("--model", type=Path, required=True, help="exported model folder that embeds the photographs")
    verb.add_argument("--host", default=_LOOPBACK[0], help="address to listen at; others need --keys (127.0.0.1)")
    verb.add_argument("--port", type=int, default=8080, help="port to listen at (8080)")
    workers = "processes, each with its own copy of the model: as many as there are cores serve most (1)"
    verb.add_argument("--workers", type=int, default=1, metavar="N", help=workers)
    add_input(verb, "--keys", "JSON file with the SHA-256 and the role of each key")
    add_input(verb, "--gate", "refuse to enrol what this gate refuses, from gate fit")
    verb.add_argument("--far", metavar="F", help="FAR of the threshold for two photographs, if the model has several")
    verb.add_argument("--accept-drawn-model", action="store_true", help="see verisphere verify")
    for name, what in _LIMITS.items():
        kind = float if name in ("rate", "seconds") else int
        verb.add_argument(f"--{name}", type=kind, metavar="N", help=what)
    add_photographs(verb)
