"""Replaces itself by another command, to which Linux sends SIGTERM when the process that started it has ended.

An experiment that is killed outright cannot pass a signal on: its trainings would continue beside those of its next
start. This file is run by its path, as `python child.py PARENT COMMAND...`, so that no module of verisphere is loaded.
"""

import ctypes
import os
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1  # of prctl(2); outlives execve


def become(command: list[str], parent: int) -> None:
    """Replace this process by a command that ends with its parent; returns only if the parent has ended already."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGTERM))
    if os.getppid() == parent:
        os.execv(command[0], command)


if __name__ == "__main__":
    become(sys.argv[2:], int(sys.argv[1]))
