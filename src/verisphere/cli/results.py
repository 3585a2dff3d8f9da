"""What a verb finds, and the files that its options name: refused before any work where they cannot be written."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from verisphere.cli.messages import show
from verisphere.cli.parsing import Outcome


def add_output(verb: argparse.ArgumentParser, name: str, *, folder: bool = False, **settings: Any) -> None:
    """An option that names a file, or a folder, to write; every other path of the verb is taken as read."""
    action = verb.add_argument(name, type=Path, **settings)
    kind = "folders" if folder else "files"
    verb.set_defaults(**{kind: (*(verb.get_default(kind) or ()), action.dest)})


def add_input(
    verb: argparse.ArgumentParser, name: str, what: str, metavar: str | None = "FILE", several: bool = False
) -> None:
    """An argument that names a file or a folder to read; or `several` ones, as often as it is repeated."""
    repeated: dict[str, Any] = {"action": "append", "default": []} if several else {}
    verb.add_argument(name, type=Path, metavar=metavar, help=what, **repeated)


def add_json(verb: argparse.ArgumentParser, what: str = "also write the figures as JSON") -> None:
    """The option `--json`."""
    add_output(verb, "--json", metavar="OUT", help=what)


def add_plot(verb: argparse.ArgumentParser, what: str) -> None:
    """The option `--plot`."""
    add_output(verb, "--plot", metavar="OUT.png", help=f"also draw {what} (.png or .svg)")


def show_result(options: argparse.Namespace, result: Outcome) -> None:
    """Write a result into the files of the options, and print it."""
    if isinstance(result, str):
        show(result)
        return
    for name in options.files:
        write = getattr(result, f"write_{name}", None)
        if write is not None and getattr(options, name) is not None:
            write(getattr(options, name))
    show(result.text())


def check_outputs(options: argparse.Namespace) -> None:
    """Refuse, before any work, an output that cannot be written, or that would replace an input or another output."""
    from verisphere.files.disk import check_writable, real_path, refuse_overwriting

    named = {name: path for name in options.files if (path := getattr(options, name)) is not None}
    folders = [path for name in options.folders if (path := getattr(options, name)) is not None]
    inputs = [*_paths(options, {*options.files, *options.folders})] if named or folders else []
    for folder in folders:
        refuse_overwriting(folder, inputs)
    outputs = list(named.values())
    for number, out in enumerate(outputs):
        refuse_overwriting(out, inputs)
        check_writable(out)
        place = real_path(out)
        if place in [real_path(other) for other in outputs[:number]]:
            names = sorted(options.files, key="json".__ne__)  # the figures first
            listed = [f"--{name.replace('_', '-')}" for name in names]
            raise ValueError(f"{out}: two of {', '.join(listed[:-1])} and {listed[-1]} would be written to it")
        for other in outputs:
            if real_path(other) in place.parents:
                raise ValueError(f"{out}: {other} above it is a file to be written, no folder; choose another name")
    plot = named.get("plot")
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise ValueError(f"{plot}: a picture's name must end in .png or .svg")


def _paths(options: argparse.Namespace, written: set[str]) -> Iterator[Path]:
    """Every path that the options name, but for those that are written."""
    for name, value in vars(options).items():
        if name not in written:
            yield from (path for path in (value if isinstance(value, list) else [value]) if isinstance(path, Path))
