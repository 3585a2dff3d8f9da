"""The parser, the declaration of a verb, and arguments that several verbs share."""

import argparse
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from verisphere.base.words import NAMES, did_you_mean, printable
from verisphere.cli.memory import LESS_MEMORY
from verisphere.cli.messages import bounded, several
from verisphere.cli.threads import threads_argument

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from verisphere.files.results import Result

#: What a set of images is called in every help; a pack alone is not described by a YAML file.
IMAGES = "a set of images: a folder, zip, list or pack"
SET = f"{IMAGES}, or a YAML file that describes one"
TEMPLATES = ("arcface_112x112", "sphereface_112x96", "arcface_144x144")


_EXAMPLES = "examples:\n"


class _Help(argparse.HelpFormatter):
    """Help whose examples keep their lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(_EXAMPLES) else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line with the nearest allowed word, printed by rank 0 alone."""

    def __init__(
        self, *, examples: Iterable[str] = (), hint: Callable[[str], str] = lambda value: "", **settings: Any
    ) -> None:
        """Create a parser with examples at the end of its help, and the settings of argparse, without abbreviations."""
        self._hint = hint
        self.words: list[str] = []
        lines = "".join(f"  {example}\n" for example in examples)
        super().__init__(
            **settings, allow_abbrev=False, formatter_class=_Help, epilog=_EXAMPLES + lines if lines else None
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, and keep the words for the message of an error."""
        self.words = [] if args is None else list(args)
        return super().parse_known_args(args, namespace)

    def options(self) -> list[str]:
        """The options of this verb, with their dashes."""
        return [name for action in self._actions for name in action.option_strings if name.startswith("--")]

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """Write a text. Python's own method raises a closed pipe up to 3.11.2, and hides a full disk from 3.11.3 on."""
        if not several() or os.environ.get("RANK", "0") == "0":
            with suppress(BrokenPipeError):  # a reader that has closed its end, such as `head`
                (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        """Exit with this message and a pointer to the help; names a misspelt word if an option is missing."""
        if "arguments are required" in message and not self.get_default("any_field"):
            names = [word.partition("=")[0] for word in self.words if word.startswith("--")]
            message += "".join(
                f", and {name} is unknown" + near
                for name in names
                if name not in self.options() and (near := did_you_mean(name, self.options()))
            )
        self.exit(2, f"{self.prog}: {bounded(printable(message))} (see {self.prog} --help)\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is not among the choices; the error names the nearest choice."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += did_you_mean(str(value), map(str, action.choices or ())) or self._hint(str(value))
            raise


T = TypeVar("T")
Verbs: TypeAlias = "argparse._SubParsersAction[Parser]"
Outcome: TypeAlias = "Result | str"
Run: TypeAlias = Callable[[argparse.Namespace], Outcome]


def new_verb(
    verbs: Verbs,
    name: str,
    run: Run,
    *,
    examples: Iterable[str] = (),
    shared: bool = False,
    any_field: bool = False,
    less_memory: str = LESS_MEMORY,
    threads: str
    | None = "CPU threads; auto: as many as there are idle cores (those that OMP_NUM_THREADS or PyTorch says)",
) -> argparse.ArgumentParser:
    """Declare a verb; the docstring of its function, which returns its result or a text to print, is the help.

    Args:
        shared: whether all ranks of a launch run the verb; else rank 0 runs it alone.
        any_field: whether further arguments, `--field value`, are allowed and override a recipe: they become
            `overrides`.
    """
    text = run.__doc__ or ""
    verb = verbs.add_parser(name, help=text, description=text, examples=examples)
    verb.set_defaults(verb=run, shared=shared, any_field=any_field, less_memory=less_memory)
    verb.set_defaults(threads=None, threads_here=True, parser=verb, files=(), folders=(), divides=False)
    if threads is not None:
        verb.add_argument("--threads", type=threads_argument, metavar="N|auto", help=threads)
    return verb


def options_as(kind: Callable[..., T], options: argparse.Namespace, /, **others: Any) -> T:
    """What is made with the options of the same names as its arguments, unless they are None, and with the others."""
    names = inspect.signature(kind).parameters
    written = {name: value for name in names if (value := getattr(options, name, None)) is not None}
    return kind(**(written | others))


def refuse_misspelt(options: argparse.Namespace, recipe: type) -> None:
    """Refuse an argument of a verb with `any_field` that is no field of the recipe but nearly an option."""
    fields, flags = [f"--{name}" for name in recipe.__dataclass_fields__], options.parser.options()  # type: ignore[attr-defined]
    for word in options.overrides:
        name = word.partition("=")[0].partition(".")[0]
        if name.startswith("--") and name not in fields:
            near = did_you_mean(name, [*fields, *flags])
            if near in [did_you_mean(flag, [flag]) for flag in flags]:
                raise ValueError(f"there is no option or field {name}{near}")


def add_device(verb: argparse.ArgumentParser) -> None:
    """Add `--device`."""
    verb.add_argument("--device", help="cpu, cuda, cuda:1 ... (a GPU where there is one)")


def add_template(verb: argparse.ArgumentParser) -> None:
    """Add `--template`."""
    verb.add_argument(
        "--template",
        choices=TEMPLATES,
        default=TEMPLATES[0],
        help=f"positions of the five points, and height x width of a crop ({TEMPLATES[0]})",
    )


def add_detector(verb: argparse.ArgumentParser) -> None:
    """Add `--detector`."""
    verb.add_argument(
        "--detector",
        metavar="NAME",
        help="what finds the faces: mtcnn, scrfd or retinaface (extra: insightface; with :PACK or :FILE.onnx), path of "
        "YuNet's ONNX file, or module:function, with --trust-code (mtcnn)",
    )


def add_min_face(verb: argparse.ArgumentParser) -> None:
    """Add `--min-face`."""
    verb.add_argument("--min-face", type=int, default=20, metavar="PIXELS", help="smallest face looked for (20)")


def add_photographs(verb: argparse.ArgumentParser) -> None:
    """Add what finds faces on photographs, or says that they are aligned crops, and what runs the model."""
    aligned = "the photographs are aligned crops: look for no face"
    verb.add_argument("--aligned", action="store_const", const=True, help=aligned)
    add_detector(verb)
    add_min_face(verb)
    verb.set_defaults(min_face=None)
    add_trust_code(verb)
    add_device(verb)


#: What happens to names that are equal but for their spelling where no option decides.
REFUSED = "such names are refused"


def add_names(verb: argparse.ArgumentParser, without: str = REFUSED, exact: bool = True) -> None:
    """Add `--names` to a verb that reads names of people: all its readers take names as the option says."""
    verb.add_argument(
        "--names",
        choices=NAMES if exact else ("merge",),
        help="names that are equal but for case, blanks, Unicode form, invisible letters or the spelling of a number: "
        f"one person, under the spelling of most images (merge){', or different people (exact)' if exact else ''}; "
        f"without it {without}",
    )
    run = verb.get_default("verb")

    @functools.wraps(run)
    def run_so(options: argparse.Namespace) -> Outcome:
        from verisphere.base.identity import names_taken

        with names_taken(options.names, exact):
            return run(options)

    verb.set_defaults(verb=run_so)


def add_trust_code(verb: argparse.ArgumentParser) -> None:
    """Add `--trust-code`."""
    verb.add_argument(
        "--trust-code", action="store_true", help="load classes and functions from outside verisphere: runs their code"
    )
