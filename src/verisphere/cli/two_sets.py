"""Two sets of images compared with each other: `evaluate two-sets`."""

import argparse
from pathlib import Path

from verisphere.cli.evaluation_options import (
    add_comparing,
    add_far,
    add_feature_norm,
    add_json,
    add_rule,
    check_outputs,
)
from verisphere.cli.messages import progress
from verisphere.cli.parsing import Verbs, add_names, new_verb
from verisphere.words import FARS


def evaluate_two_sets(options: argparse.Namespace) -> str:
    """Operating points over all pairs of an image of one file and an image of another."""
    from verisphere.distributed import world
    from verisphere.measure import two_sets
    from verisphere.measure.evaluate import Options

    check_outputs(options, ("json",), [options.left, options.right])
    asked = Options(
        fars=options.far or FARS,
        rule=options.rule,
        progress=progress(),
        processes=options.processes,
        screen=options.screen,
        device=options.device,
        feature_norm=options.feature_norm,
    )
    result = two_sets.evaluate_two_sets(options.left, options.right, asked)
    if not world().first:
        return ""  # the first rank writes and prints the result of all
    if options.json is not None:
        result.write_json(options.json)
    return result.text()


def add_two_sets(kinds: Verbs) -> None:
    """Add `evaluate two-sets`."""
    verb = new_verb(
        kinds,
        "two-sets",
        evaluate_two_sets,
        shared=True,
        examples=(
            "verisphere evaluate two-sets masked.npz unmasked.npz --far 1e-4",
            "verisphere evaluate two-sets visa.npz kiosk.npz --far 1e-6 --json figures.json",
        ),
        less_memory="drop the lowest --far, or compare fewer images at a time",
    )
    add_names(verb)
    verb.add_argument("left", type=Path, help="embeddings file")
    verb.add_argument("right", type=Path, help="another, of the same people; no two images of one file are compared")
    add_far(verb)
    add_rule(verb)
    add_feature_norm(verb)
    add_json(verb)
    add_comparing(verb)
