"""Options that several kinds of `evaluate` take, and the check of their outputs."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from verisphere.words import FEATURE_NORMS, PRECISIONS, RULES


def check_outputs(options: argparse.Namespace, names: Sequence[str], inputs: Sequence[Path | None]) -> None:
    """Refuse, before any work, an output that cannot be written, or that would replace an input or another output."""
    from verisphere.files.disk import check_writable, real_path, refuse_overwriting

    outputs = [out for name in names if (out := getattr(options, name)) is not None]
    for number, out in enumerate(outputs):
        refuse_overwriting(out, inputs)
        check_writable(out)
        place = real_path(out)
        if place in [real_path(other) for other in outputs[:number]]:
            listed = [f"--{name.replace('_', '-')}" for name in names]
            raise ValueError(f"{out}: two of {', '.join(listed[:-1])} and {listed[-1]} would be written to it")
        for other in outputs:
            if real_path(other) in place.parents:
                raise ValueError(f"{out}: {other} above it is a file to be written, no folder; choose another name")
    if options.plot is not None and options.plot.suffix not in (".png", ".svg"):
        raise ValueError(f"{options.plot}: a picture's name must end in .png or .svg")


def add_rule(verb: argparse.ArgumentParser) -> None:
    """The option `--rule`, the only switch between rules of thresholds."""
    verb.add_argument(
        "--rule",
        choices=RULES,
        default="at_most",
        help="how the threshold is chosen; all but at_most exist to compare with published numbers",
    )


def add_feature_norm(verb: argparse.ArgumentParser) -> None:
    """The option `--feature-norm`, for whatever pools templates."""
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
