"""Becomes another command, which Linux sends SIGTERM once the process that started it is gone.

A sweep that is killed outright can pass no signal on; its trainings would go on beside those of its next start. Run by
its path, as `python tied.py PARENT COMMAND...`, so that nothing of the house is loaded for it.
"""

import ctypes
import os
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1  # of prctl(2); outlives execve


def become(command: list[str], parent: int) -> None:
    """Go on as this command; returns only where the parent is gone already.

    Args:
        command: its first word is the path of a program.
        parent: number of the process to end with.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGTERM))
    if os.getppid() == parent:
        os.execv(command[0], command)


if __name__ == "__main__":
    become(sys.argv[2:], int(sys.argv[1]))
