"""`evaluate two-sets`: TAR at each FAR over all pairs of an image of one embeddings file and an image of another.

A pair is genuine if both images have the same identity.
"""

import argparse
from pathlib import Path

from verisphere.base.words import FARS
from verisphere.cli.dry_run import add_cost, cost_of_rows
from verisphere.cli.evaluation_options import add_comparing, add_far, add_feature_norm, add_rule
from verisphere.cli.messages import progress
from verisphere.cli.parsing import Outcome, Verbs, add_names, new_verb, options_as
from verisphere.cli.results import add_json
from verisphere.cli.working import add_work


def evaluate_two_sets(options: argparse.Namespace) -> Outcome:
    """Operating points over all pairs of an image of one file and an image of another."""
    from verisphere.measure import two_sets
    from verisphere.measure.evaluate import Options

    asked = options_as(Options, options, fars=options.far or FARS, progress=progress())
    return two_sets.evaluate_two_sets(options.left, options.right, asked)


def add_two_sets(kinds: Verbs) -> None:
    """Add `evaluate two-sets`."""
    verb = new_verb(
        kinds,
        "two-sets",
        evaluate_two_sets,
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
    add_work(verb)
    add_cost(verb, cost_of_rows("two-sets", "left", lists=lambda options: {"others": [options.right]}))
