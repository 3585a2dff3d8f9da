"""What the verbs' parsers are made of: the parser, a verb's place in it, and the arguments that several verbs share."""

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from verisphere.cli.memory import LESS_MEMORY
from verisphere.cli.messages import bounded, several

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

TEMPLATES = ("arcface_112x112", "sphereface_112x96", "arcface_144x144")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and of several processes one's."""

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        if not several() or os.environ.get("RANK", "0") == "0":
            super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        """End with this message, and where to read on."""
        from verisphere.vocabulary import printable

        self.exit(2, f"{self.prog}: {bounded(printable(message))} (see {self.prog} --help)\n")


Verbs: TypeAlias = "argparse._SubParsersAction[Parser]"


def new_verb(
    verbs: Verbs,
    name: str,
    run: Callable[[argparse.Namespace], str],
    *,
    shared: bool = False,
    any_field: bool = False,
    less_memory: str = LESS_MEMORY,
) -> argparse.ArgumentParser:
    """A verb that a function does; its docstring is the help.

    Args:
        verbs: Where it belongs.
        name: As it is typed.
        run: What it does; returns what standard output shows.
        shared: Whether its work is shared by the processes that a launcher starts; else the first does it alone.
        any_field: Whether any further arguments, `--field value`, change a recipe: they become `overrides`.
        less_memory: What to say where memory runs out: what would take less.
    """
    text = run.__doc__ or ""
    verb = verbs.add_parser(name, help=text, description=text, allow_abbrev=False)
    verb.set_defaults(verb=run, shared=shared, any_field=any_field, less_memory=less_memory)
    return verb


def add_device(verb: argparse.ArgumentParser) -> None:
    """Where it computes."""
    verb.add_argument("--device", help="cpu, cuda, cuda:1 ... (a GPU where there is one)")


def add_template(verb: argparse.ArgumentParser) -> None:
    """How faces are aligned."""
    verb.add_argument(
        "--template",
        choices=TEMPLATES,
        default=TEMPLATES[0],
        help=f"where the five points come to lie, and height x width of a crop ({TEMPLATES[0]})",
    )


def add_min_face(verb: argparse.ArgumentParser) -> None:
    """Which faces are looked for."""
    verb.add_argument("--min-face", type=int, default=20, metavar="PIXELS", help="smallest face looked for (20)")


def add_trust_code(verb: argparse.ArgumentParser) -> None:
    """Whether code from outside may run."""
    verb.add_argument(
        "--trust-code", action="store_true", help="build networks from outside verisphere: runs their code"
    )
