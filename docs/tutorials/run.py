"""Runs a page from top to bottom, as a reader would who types its blocks into an empty folder.

Files are written, python blocks share their names, and bash blocks stop at the first command that fails. What a block
prints on standard output is compared with the page by the rule of `outputs`.
"""

import contextlib
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path

import verisphere
from tutorials.blocks import Block, blocks
from tutorials.outputs import agreed

#: Tables are as wide as this, and every process computes with one thread: with more, sums round differently.
SETTINGS = {"COLUMNS": "120", "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "GLOO_SOCKET_IFNAME": "lo"}


class PageError(Exception):
    """A block failed, or prints something else than its page shows."""


def run(page: Path, folder: Path, *, renew: bool = False) -> str:
    """The page's text with the outputs that its blocks have printed.

    Args:
        page: a page of blocks.
        folder: an empty folder, in which they run.
        renew: take an output that disagrees with the page as the new one.

    Raises:
        PageError: a block fails; or, without `renew`, prints something else than the page shows.
    """
    text, done, new = page.read_text(encoding="utf-8"), 0, []
    names: dict[str, object] = {}
    found = blocks(page)
    for block, after in zip(found, [*found, None][1:], strict=True):
        where = f"{page.name}, line {block.line}"
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        if not block.runs:
            continue
        printed = _printed(block, names, folder, where)
        shows = after is not None and after.language == "output" and not text[block.stop : after.start].strip()
        if not shows and printed and not renew:
            raise PageError(f"{where}: the page has no output block for what the block prints:\n{printed}")
        shown = after.text if shows and after is not None else ""
        lines = agreed(shown.splitlines(), printed.splitlines())
        if lines is None and not renew:
            raise PageError(f"{where}: the page shows\n{shown}and the block prints\n{printed}")
        result = "\n".join(printed.splitlines() if lines is None else lines)
        stop = after.stop if shows and after is not None else block.stop
        new += [text[done : block.stop], f"\n\n```output\n{result}\n```" if result else ""]
        done = stop
    return "".join([*new, text[done:]])


def _printed(block: Block, names: dict[str, object], folder: Path, where: str) -> str:
    """What a block prints on standard output, without spaces at the ends of lines."""
    if block.language == "python":
        out = io.StringIO()
        try:
            with contextlib.chdir(folder), contextlib.redirect_stdout(out), warnings.catch_warnings():
                warnings.simplefilter("default")  # where a test run makes errors of them
                exec(compile(block.text, where, "exec"), names)
        except Exception as error:
            raise PageError(f"{where}: {type(error).__name__}: {error}") from error
        printed = out.getvalue()
    else:
        place = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        source = str(Path(verisphere.__file__).parents[1])
        environment = os.environ | SETTINGS | {"PATH": place, "PYTHONPATH": source}
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", block.text],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise PageError(f"{where}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        printed = done.stdout
    return "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())
