"""Options that several kinds of `evaluate` take."""

import argparse
from collections.abc import Sequence

from verisphere.base.words import FARS, FEATURE_NORMS, PRECISIONS, RANKS, RULES


def given(options: argparse.Namespace, names: Sequence[str]) -> tuple[str, ...]:
    """Those of these options that the caller wrote; their defaults are None."""
    return tuple(f"--{name.replace('_', '-')}" for name in names if getattr(options, name) is not None)


def refuse_unread(options: argparse.Namespace, names: Sequence[str], reason: str) -> None:
    """Refuse options that were written and that this call does not read."""
    for flag in given(options, names):
        raise ValueError(f"{flag} does nothing here: {reason}; omit it")


def add_far(
    verb: argparse.ArgumentParser, default: Sequence[str] = FARS, what: str = "target FAR, a decimal number"
) -> None:
    """The option `--far`, which may be repeated."""
    verb.add_argument("--far", action="append", metavar="F", help=f"{what}; repeat for several ({' '.join(default)})")


def add_fpir(
    verb: argparse.ArgumentParser, default: Sequence[str], what: str = "target FPIR, a decimal number"
) -> None:
    """The option `--fpir`, which may be repeated."""
    verb.add_argument("--fpir", action="append", metavar="F", help=f"{what}; repeat ({' '.join(default)})")


def add_rank(verb: argparse.ArgumentParser, default: Sequence[int] = RANKS, what: str = "closed-set rank") -> None:
    """The option `--rank`, which may be repeated."""
    ranks = " ".join(map(str, default))
    verb.add_argument("--rank", type=int, action="append", metavar="K", help=f"{what}; repeat for several ({ranks})")


def add_closed_set(verb: argparse.ArgumentParser, what: str) -> None:
    """The option `--closed-set`; see `open_set_fpirs`."""
    verb.add_argument("--closed-set", action="store_true", help=what)


def open_set_fpirs(
    options: argparse.Namespace, default: Sequence[str], read_at_thresholds: Sequence[str]
) -> Sequence[str]:
    """The requested FPIRs; empty with `--closed-set`, which allows none of the options that thresholds alone read."""
    if options.closed_set and options.fpir:
        raise ValueError("--closed-set requests ranks alone, so it cannot be combined with --fpir")
    if options.closed_set:
        refuse_unread(options, read_at_thresholds, "ranks alone, by --closed-set, have no threshold")
    return () if options.closed_set else options.fpir or default


def add_rule(verb: argparse.ArgumentParser) -> None:
    """The option `--rule`, the only option that chooses between rules of thresholds."""
    verb.add_argument(
        "--rule",
        choices=RULES,
        help="how the threshold is chosen; all but at_most exist to compare with published numbers (at_most)",
    )


def add_feature_norm(verb: argparse.ArgumentParser) -> None:
    """The option `--feature-norm`, for verbs that pool templates."""
    verb.add_argument(
        "--feature-norm",
        choices=FEATURE_NORMS,
        default="keep",
        help="where a file has templates or media: pool embeddings as they are (keep), or at length 1 (drop) (keep)",
    )


def add_screen(verb: argparse.ArgumentParser, default: str | None = None) -> None:
    """The option `--screen`."""
    verb.add_argument(
        "--screen",
        choices=PRECISIONS,
        default=default,
        help="type of the products that screen the pairs; the figures are the same "
        f"({default or 'the fastest, by a sample'})",
    )


def add_comparing(verb: argparse.ArgumentParser) -> None:
    """The options for the comparison of pairs: `--processes`, `--screen` and `--device`."""
    verb.add_argument(
        "--processes", type=int, default=1, help="number of processes that compare pairs; the figures are the same (1)"
    )
    add_screen(verb)
    verb.add_argument("--device", default="cpu", help="where the pairs are compared: cpu, cuda or cuda:1 (cpu)")
