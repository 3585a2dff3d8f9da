"""`--dry-run`: the options of that of trainings, and what does not go with it; and that of measurements."""

import argparse
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from verisphere.cli.parsing import Outcome, options_as
from verisphere.cli.results import add_json

if TYPE_CHECKING:
    from verisphere.measure.cost import Kind
    from verisphere.train.dry_run.text import DryRunOptions

_OF_COST = ("out", "json", "by_person")
_OF_DRY_RUN = ("classes", "images", "processes", "memory", "json")


def add_dry_run(verb: argparse.ArgumentParser, what: str, processes: bool = True) -> None:
    """Add `--dry-run`, which reports what is said, and its options; of processes where there can be several."""
    verb.add_argument("--dry-run", action="store_true", help=f"train nothing; print {what}")
    verb.add_argument(
        "--classes",
        type=int,
        metavar="N",
        help="with --dry-run: number of classes, instead of reading the data (as in the data)",
    )
    verb.add_argument(
        "--images", type=int, metavar="N", help="with --dry-run and --classes: number of images, which tells the steps"
    )
    if processes:
        verb.add_argument(
            "--processes",
            type=int,
            metavar="P",
            help="with --dry-run: number of processes (as many as were started; 1)",
        )
    verb.add_argument(
        "--memory", type=float, metavar="GIB", help="with --dry-run: memory of one process (that of this device)"
    )
    add_json(verb, "with --dry-run: also write the figures as JSON")


def add_cost(
    verb: argparse.ArgumentParser,
    kind: "Kind",
    of: str = "embeddings",
    check: Callable[[argparse.Namespace], object] = vars,
) -> None:
    """Add `--dry-run` to a verb that compares embeddings, which are in this option, once its options are checked."""
    what = "compare nothing; print pairs, bytes, CPU hours by measured rates, and memory"
    verb.add_argument("--dry-run", action="store_true", help=what)
    run = verb.get_default("verb")

    @functools.wraps(run)
    def run_or_say(options: argparse.Namespace) -> Outcome:
        if not options.dry_run:
            return run(options)
        from verisphere.measure.cost import cost_of

        refuse_outputs(options, "compares")
        check(options)
        named, against = getattr(options, of), getattr(options, "against", [])
        paths = named if isinstance(named, list) else [named]
        galleries = getattr(options, "gallery", None) or []
        if isinstance(galleries, Path):  # of a calibration
            return cost_of("gallery", paths, [galleries])
        others = [*galleries, *getattr(options, "distractors", []) * len(galleries)]
        redrawn = getattr(options, "intervals", False) or getattr(options, "by_person", None) or against
        passes = (getattr(options, "galleries", None) or 1) * (2 if redrawn else 1)
        compared: Kind = "people" if getattr(options, "no_images", False) else kind
        return cost_of(compared, paths, others, getattr(options, "far", None) or (), passes, against)

    verb.set_defaults(verb=run_or_say)


def refuse_outputs(options: argparse.Namespace, does: str) -> None:
    """Refuse a dry run with a file or a folder that it does not write."""
    useless = [name for name in (*options.files, *options.folders) if getattr(options, name) and name not in _OF_COST]
    if useless:
        figures = " (--json writes figures)" if "json" in options.files else ""
        raise ValueError(f"--dry-run {does} nothing: omit --{useless[0].replace('_', '-')}{figures}")


def is_dry_run(options: argparse.Namespace, useless: Sequence[str]) -> bool:
    """Whether a dry run is asked for; refuses options that do nothing in it, or nothing without it."""
    if options.dry_run:
        given = [f"--{name.replace('_', '-')}" for name in useless if getattr(options, name) not in (None, False)]
        if given:
            raise ValueError(f"--dry-run trains nothing: omit {', '.join(given)} (--json writes figures)")
        return True
    of_dry_run = [name for name in _OF_DRY_RUN if getattr(options, name, None) is not None]
    if of_dry_run:
        raise ValueError(f"--{of_dry_run[0]} belongs to --dry-run; a training finds out for itself")
    if options.out is None:
        raise ValueError("--out is missing: the folder to make (or ask for --dry-run, which makes none)")
    return False


def dry_run_options(options: argparse.Namespace, processes: int = 1) -> "DryRunOptions":
    """What the options say of the data and the machine; `processes` is used where they do not say how many."""
    from verisphere.train.dry_run.text import DryRunOptions

    number = getattr(options, "processes", None)
    return options_as(DryRunOptions, options, processes=processes if number is None else number)
