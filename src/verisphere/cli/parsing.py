"""The parser, the declaration of a verb, and arguments that several verbs share."""

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
    """A parser whose errors are one line, printed by rank 0 alone."""

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        if not several() or os.environ.get("RANK", "0") == "0":
            super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        """Exit with this message and a pointer to the help."""
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
    """Declare a verb; the docstring of its function is the help.

    Args:
        verbs: subparsers that receive the verb.
        name: name of the verb.
        run: function of the verb; returns the text for standard output.
        shared: whether all ranks of a launch run the verb; else rank 0 runs it alone.
        any_field: whether further arguments, `--field value`, are allowed and override a recipe: they become
            `overrides`.
        less_memory: advice if memory runs out.
    """
    text = run.__doc__ or ""
    verb = verbs.add_parser(name, help=text, description=text, allow_abbrev=False)
    verb.set_defaults(verb=run, shared=shared, any_field=any_field, less_memory=less_memory)
    return verb


def add_device(verb: argparse.ArgumentParser) -> None:
    """Add `--device`."""
    verb.add_argument("--device", help="cpu, cuda, cuda:1 ... (a GPU where there is one)")


def add_template(verb: argparse.ArgumentParser) -> None:
    """Add `--template`."""
    verb.add_argument(
        "--template",
        choices=TEMPLATES,
        default=TEMPLATES[0],
        help=f"where the five points come to lie, and height x width of a crop ({TEMPLATES[0]})",
    )


def add_min_face(verb: argparse.ArgumentParser) -> None:
    """Add `--min-face`."""
    verb.add_argument("--min-face", type=int, default=20, metavar="PIXELS", help="smallest face looked for (20)")


def add_trust_code(verb: argparse.ArgumentParser) -> None:
    """Add `--trust-code`."""
    verb.add_argument(
        "--trust-code",
        action="store_true",
        help="build classes from outside verisphere: runs their code",
    )
