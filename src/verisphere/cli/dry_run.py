"""`--dry-run`: the options of that of trainings, and what does not go with it; and that of measurements."""

import argparse
import functools
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verisphere.cli.parsing import Outcome, options_as
from verisphere.cli.results import add_json

if TYPE_CHECKING:
    from verisphere.measure.cost import Kind
    from verisphere.train.dry_run.one_training import DryRunOptions

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


def add_cost(verb: argparse.ArgumentParser, cost: Callable[[argparse.Namespace], Outcome]) -> None:
    """Add `--dry-run` to a verb that measures, which asks a function what the verb would take."""
    what = "compute nothing; print pieces, pairs, bytes, CPU hours, memory, and which of them ends first"
    verb.add_argument("--dry-run", action="store_true", help=what)
    run = verb.get_default("verb")

    @functools.wraps(run)
    def run_or_say(options: argparse.Namespace) -> Outcome:
        if not options.dry_run:
            return run(options)
        named = (*options.files, *options.folders)
        useless = [name for name in named if getattr(options, name) and name not in _OF_COST]
        if useless:
            figures = " (--json writes figures)" if "json" in options.files else ""
            raise ValueError(f"--dry-run computes nothing: omit --{useless[0].replace('_', '-')}{figures}")
        return cost(options)

    verb.set_defaults(verb=run_or_say)


def cost_of_rows(
    kind: "Kind",
    of: str = "embeddings",
    check: Callable[[argparse.Namespace], object] = vars,
    lists: Callable[[argparse.Namespace], dict[str, Any]] = lambda options: {},
) -> Callable[[argparse.Namespace], Outcome]:
    """What a verb would take whose rows are in this option, once its options are checked and its lists counted."""

    def cost(options: argparse.Namespace) -> Outcome:
        from verisphere.measure.cost import cost_of

        check(options)
        named, against = getattr(options, of), getattr(options, "against", [])
        paths = named if isinstance(named, list) else [named]
        galleries = getattr(options, "gallery", None) or []
        if isinstance(galleries, Path):  # of a calibration
            return cost_of("gallery", paths, [galleries])
        counted = lists(options)
        others = counted.pop("others", [*galleries, *getattr(options, "distractors", []) * len(galleries)])
        redrawn = getattr(options, "intervals", kind == "report") or against
        again = redrawn or any(getattr(options, name, None) for name in ("by_person", "by_image"))
        passes = (getattr(options, "galleries", None) or 1) * (2 if again else 1)
        compared: Kind = "people" if getattr(options, "no_images", False) else kind
        fars = getattr(options, "far", None) or ()
        cost = cost_of(compared, counted.pop("paths", paths), others, fars, passes, against, **counted)
        return replace(cost, uncounted="the bootstrap's replicates" if redrawn else "")

    return cost


def cost_of_images(
    of: str, run: Callable[[argparse.Namespace], object], held: bool = True, uncounted: str = ""
) -> Callable[[argparse.Namespace], Outcome]:
    """What a verb would take of the images in this option, which runs up to the first piece of each step."""

    def cost(options: argparse.Namespace) -> Outcome:
        from verisphere.base.work import working
        from verisphere.measure.cost import FirstPieces, NotComputed

        work, options.workers = FirstPieces(), 0  # processes that read images are not timed
        with working(work), suppress(NotComputed):
            run(options)
        return replace(work.cost(str(getattr(options, of)), held), uncounted=uncounted)

    return cost


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
    from verisphere.train.dry_run.one_training import DryRunOptions

    number = getattr(options, "processes", None)
    return options_as(DryRunOptions, options, processes=processes if number is None else number)
