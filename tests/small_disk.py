"""A disk of a few kilobytes, mounted for a test."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(place: Path, kilobytes: int) -> Iterator[Path]:
    """A file system of that size at a new folder; the test is skipped where none can be mounted."""
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("only the superuser can mount a small disk")
    place.mkdir()
    call = [mount, "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", place]
    made = subprocess.run(call, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here ({made.stderr.strip()})")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def enlarged(place: Path, kilobytes: int) -> None:
    """Give a mounted disk another size; its files stay."""
    subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", place], check=True)
