"""The command line in several processes: one of them talks, and what all have to say is said once.

Whoever has something to say asks the store that the launcher keeps for the processes' first meeting, which answers
without anybody else's doing: the others may wait for this process, or be gone.
"""

import hashlib
import os
import signal
import threading
import time
from datetime import timedelta

import torch.distributed as dist

from verisphere.distributed import launched

_ANSWER = timedelta(seconds=5)
#: Of gloo's, whose errors have no class of their own: where in it something went wrong, and what the system called it.
_LOST = "gloo", "Connection closed by peer", "Connection reset by peer"


def first_of_launch() -> bool:
    """Whether this is the first of the processes that a launcher has started, or the only one."""
    return not launched() or os.environ.get("RANK", "0") == "0"


def first_to_say(text: str) -> bool:
    """Whether none of the others has said this; whoever asks is taken to say it then."""
    store = _store()
    if store is None:
        return True
    try:
        store.add("said", 1)
        return store.add(hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(), 1) == 1
    except RuntimeError:  # its keeper is gone
        return True


def anything_said() -> bool:
    """Whether any process has had something to say; False where nobody can be asked."""
    store = _store()
    try:
        return store is not None and store.add("said", 0) > 0
    except RuntimeError:
        return False


def lost_another(error: BaseException) -> bool:
    """Whether this is what a process meets when one that it exchanges something with has ended."""
    text = str(error)
    return isinstance(error, dist.DistError) or (
        isinstance(error, RuntimeError) and any(sign in text for sign in _LOST)
    )


def gave_up(error: BaseException) -> bool:
    """Whether this is what a process meets that has waited for another too long."""
    return "Timed out" in str(error)


def end_with_launcher(grace: float = 30.0) -> None:
    """End this process once its launcher is gone, as the launcher itself would: by SIGTERM, and for good after a while.

    A launcher that was killed cannot: its processes would train on, beside those of the run's next start.
    """
    launcher = os.getppid()

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _store() -> dist.Store | None:
    """The launcher's store; None without a launcher, or where it cannot be reached."""
    if not launched():
        return None
    try:
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        store = dist.TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=_ANSWER)
    except (KeyError, ValueError, RuntimeError):
        return None
    # one who is started again by torchrun meets the same store
    return dist.PrefixStore(f"verisphere/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
