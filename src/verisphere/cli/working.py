"""A verb at work: all of it, or pieces of it by `--work`, `--part` and `--merge`."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from verisphere.cli.results import add_output, check_outputs, show_result


def add_work(
    verb: argparse.ArgumentParser, merge: bool = True, itself: Callable[[argparse.Namespace], bool] = lambda _: False
) -> None:
    """Add `--work`, `--part` and `--merge`: the ranks of a launch, or parts, divide the work of the verb.

    A verb whose `--merge` is another option has none; it makes the result without `--part`, too. What continues by
    `itself`, with these options, takes parts and no folder.
    """
    what = "keep the finished pieces of the work in this folder, from which the same command continues"
    add_output(verb, "--work", folder=True, metavar="FOLDER", help=f"{what} (docs/distributed.md)")
    what = "compute this part of the pieces alone, such as 3/16; the part that computes the last piece makes the result"
    verb.add_argument("--part", type=_part, metavar="I/N", help=what)
    verb.set_defaults(shared=True, divides=True, merge_parts=False, itself=itself)
    if merge:
        what = "make the result from the pieces of all parts, and refuse if one is missing"
        verb.add_argument("--merge", dest="merge_parts", action="store_true", help=what)


@contextmanager
def work_of(options: argparse.Namespace) -> Iterator[None]:
    """Inside this context the work of a verb is divided as its options say, and else among the ranks of a launch."""
    if not options.divides:
        yield
        return
    itself = options.itself(options)
    if itself and options.work is not None:
        raise ValueError(f"--work {options.work}: a folder of shards ({options.out}) continues by itself; omit --work")
    if options.work is None and (options.part or options.merge_parts) and not itself:
        raise ValueError(f"--{'part' if options.part else 'merge'} takes pieces of a folder: name it by --work")
    if options.part and options.merge_parts:
        raise ValueError("--merge makes the result of all parts, so it takes no --part")
    from verisphere.base.distributed import unhurried
    from verisphere.base.work import shared_by_ranks, working
    from verisphere.files.work import WorkFolder

    with unhurried():
        if options.work is None:
            with shared_by_ranks():
                yield
            return
        task = " ".join([options.parser.prog, *options.parser.words])
        with WorkFolder(options.work, task, options.part, options.merge_parts) as folder, working(folder):
            yield


def run_verb(options: argparse.Namespace, first: bool = True) -> None:
    """Run a verb; rank 0 alone writes and prints what all have found."""
    from verisphere.base.work import PartEnded

    check_outputs(options)
    with work_of(options):
        try:
            result = options.verb(options)
        except PartEnded as ended:
            result = str(ended)
        if first:
            show_result(options, result)


def _part(text: str) -> tuple[int, int]:
    """The number of a part, from 0, and the number of parts."""
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"allowed are 1/N to N/N, such as 3/16, got {text!r}")
    return int(part) - 1, int(parts)
