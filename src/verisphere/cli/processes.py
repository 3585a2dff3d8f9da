"""The command line on several ranks: rank 0 prints, and a message that several ranks have is printed once.

The printed messages are recorded in the launcher's rendezvous store. The store answers without the other ranks, which
may be waiting for this rank or may have ended.
"""

import hashlib
import os
import signal
import threading
import time
from datetime import timedelta

import torch.distributed as dist

from verisphere.base.distributed import launched

_STORE_TIMEOUT = timedelta(seconds=5)
#: Parts of messages of gloo, whose errors have no class of their own.
_LOST_CONNECTION = "gloo", "Connection closed by peer", "Connection reset by peer"


def first_of_launch() -> bool:
    """Whether this is rank 0 of a launch, or the only process."""
    return not launched() or os.environ.get("RANK", "0") == "0"


def first_to_say(text: str) -> bool:
    """Whether no rank has printed this text yet; if so, the caller is recorded as the rank that prints it."""
    store = _store()
    if store is None:
        return True
    try:
        store.add("said", 1)
        return store.add(hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(), 1) == 1
    except RuntimeError:  # the launcher has ended
        return True


def anything_said() -> bool:
    """Whether any rank has printed a message; False if the store cannot be reached."""
    store = _store()
    try:
        return store is not None and store.add("said", 0) > 0
    except RuntimeError:
        return False


def lost_another(error: BaseException) -> bool:
    """Whether an error was raised by a collective because another rank has ended."""
    text = str(error)
    return isinstance(error, dist.DistError) or (
        isinstance(error, RuntimeError) and any(sign in text for sign in _LOST_CONNECTION)
    )


def gave_up(error: BaseException) -> bool:
    """Whether an error was raised because another rank did not answer in time."""
    return "Timed out" in str(error)


def end_with_launcher(grace: float = 30.0) -> None:
    """End this process when its launcher has ended: by SIGTERM, and by SIGKILL after `grace` seconds."""
    launcher = os.getppid()

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _store() -> dist.Store | None:
    """The launcher's store; None without a launcher, or if it cannot be reached."""
    if not launched():
        return None
    try:
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = dist.TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=_STORE_TIMEOUT)
    except (KeyError, ValueError, TypeError, RuntimeError):  # TypeError for a port that is none
        return None
    # a process that torchrun has restarted finds the same store
    return dist.PrefixStore(f"verisphere/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
