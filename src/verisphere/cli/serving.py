"""`serve`: a gallery as a service over HTTP, with a page."""

import argparse
import logging
import socket
from importlib.util import find_spec
from pathlib import Path

from verisphere.base.words import install_extra
from verisphere.cli.calibrating import model_and_faces
from verisphere.cli.parsing import Verbs, add_photographs, new_verb, options_as
from verisphere.cli.results import add_input

log = logging.getLogger(__name__)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LIMITS = {
    "most-bytes": "most bytes of a photograph (8388608)",
    "most-pixels": "most pixels of a photograph (25000000)",
    "most-faces": "most faces on a photograph (8)",
    "rate": "requests a second of one key, of which as many as in ten seconds may come at once (20)",
    "seconds": "longest time of an answer (10)",
    "concurrent": "requests that are answered at the same time (64)",
    "batch": "faces that go through the network together (32)",
}


def serve(options: argparse.Namespace) -> str:
    """Answer over HTTP who of a gallery is on a photograph, with a page (extra: serve)."""
    if missing := [name for name in ("fastapi", "uvicorn", "python_multipart") if find_spec(name) is None]:
        raise ValueError(f"serving needs {' and '.join(missing)}, not installed here; {install_extra('serve')}")
    import uvicorn

    from verisphere.files.gate import read_gate
    from verisphere.ship.gate import gate_of
    from verisphere.ship.living.gallery import LivingGallery
    from verisphere.ship.serve.app import make_app
    from verisphere.ship.serve.desk import Desk
    from verisphere.ship.serve.guard import Limits
    from verisphere.ship.serve.keys import read_keys

    if options.keys is None and options.host not in _LOOPBACK:
        raise ValueError(f"--host {options.host}: others could reach the gallery, so name a file of keys by --keys")
    limits = options_as(Limits, options)
    keys = None if options.keys is None else read_keys(options.keys)
    gallery = LivingGallery(options.gallery)
    model, find = model_and_faces(options, [options.gallery], others=False)
    desk = Desk(gallery, model, find, limits, options.far, options.accept_drawn_model)
    if options.gate is not None:
        desk.gate, desk.margin = gate_of(options.gate, model, find), read_gate(options.gate).margin
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        door = socket.create_server((options.host, options.port), family=family)
    except OSError as error:
        raise ValueError(f"--host {options.host} --port {options.port}: {error.strerror}") from None
    settings = uvicorn.Config(make_app(desk, keys), log_config=None, access_log=False, server_header=False, ws="none")
    who = "everybody on this machine may do everything" if keys is None else f"{len(keys.keys)} keys"
    host = f"[{options.host}]" if ":" in options.host else options.host
    log.info("%s: http://%s:%d, %s; Ctrl-C ends it", options.gallery, host, door.getsockname()[1], who)
    uvicorn.Server(settings).run([door])
    return ""


def add_serve(verbs: Verbs) -> None:
    """Add `serve`."""
    first = "verisphere serve door --model model"
    verb = new_verb(verbs, "serve", serve, examples=(first, f"{first} --host 0.0.0.0 --keys keys.json --threads 1"))
    add_input(verb, "gallery", "the folder, or the address, of gallery create", "GALLERY")
    verb.add_argument("--model", type=Path, required=True, help="exported model folder that embeds the photographs")
    verb.add_argument("--host", default=_LOOPBACK[0], help="address to listen at; others need --keys (127.0.0.1)")
    verb.add_argument("--port", type=int, default=8080, help="port to listen at (8080)")
    add_input(verb, "--keys", "JSON file with the SHA-256 and the role of each key")
    add_input(verb, "--gate", "refuse to enrol what this gate refuses, from gate fit")
    verb.add_argument("--far", metavar="F", help="FAR of the threshold for two photographs, if the model has several")
    verb.add_argument("--accept-drawn-model", action="store_true", help="see verisphere verify")
    for name, what in _LIMITS.items():
        kind = float if name in ("rate", "seconds") else int
        verb.add_argument(f"--{name}", type=kind, metavar="N", help=what)
    add_photographs(verb)
