"""Probes among distractors, as MegaFace and Trillion-Pairs have them: `evaluate distractors`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verisphere.base.words import MEGAFACE_FARS, TRILLION_FARS, TRILLION_FPIRS
from verisphere.cli.dry_run import add_cost, cost_of_rows
from verisphere.cli.evaluation_options import add_far, add_feature_norm, add_fpir, add_rank, add_rule, add_screen
from verisphere.cli.messages import progress
from verisphere.cli.parsing import Outcome, Verbs, add_names, new_verb, options_as
from verisphere.cli.results import add_json, add_plot
from verisphere.cli.working import add_work

if TYPE_CHECKING:
    from verisphere.measure.distractors import DistractorOptions

#: The protocols, each with its target FARs of verification and FPIRs of identification.
LAYOUTS = {"megaface": (MEGAFACE_FARS, ()), "trillion-pairs": (TRILLION_FARS, TRILLION_FPIRS)}


def evaluate_distractors(options: argparse.Namespace) -> Outcome:
    """MegaFace and Trillion-Pairs: each photo of a probe person as the mate among distractors."""
    from verisphere.measure.distractors import evaluate_distractors as run

    return run(options.layout, options.probes, options.distractors, _asked(options))


def _asked(options: argparse.Namespace) -> "DistractorOptions":
    from verisphere.measure.distractors import DistractorOptions, check_paths

    fars, fpirs = LAYOUTS[options.layout]
    asked = options_as(
        DistractorOptions,
        options,
        ranks=options.rank or (1,),
        fars=options.far or fars,
        fpirs=options.fpir or fpirs,
        progress=progress(),
    )
    check_paths(options.distractors, asked)
    return asked


def _counted(options: argparse.Namespace) -> dict[str, Any]:
    return {"others": options.distractors, "ending": options.ending}


def add_distractors(kinds: Verbs) -> None:
    """Add `evaluate distractors`."""
    verb = new_verb(
        kinds,
        "distractors",
        evaluate_distractors,
        examples=(
            "verisphere evaluate distractors facescrub.npz --distractors megaface.npz --rank 1 --rank 10",
            "verisphere evaluate distractors celebrities.npz --layout trillion-pairs --distractors flickr.npz",
        ),
        less_memory="search fewer probes at a time, or a higher --far",
    )
    add_names(verb)
    verb.add_argument("probes", type=Path, help="embeddings file of the probe people, two photos or more of each")
    verb.add_argument(
        "--layout",
        choices=tuple(LAYOUTS),
        default="megaface",
        help="the protocol: megaface (FAR 1e-6), or trillion-pairs (FPIR 1e-3, FAR 1e-9) (megaface)",
    )
    verb.add_argument(
        "--distractors",
        type=Path,
        action="append",
        required=True,
        metavar="FILE",
        help="embeddings file, matrix of features (.bin) or folder of MegaFace's feature files; repeat for several",
    )
    verb.add_argument("--noisy-probes", type=Path, metavar="LIST", help="probe photos to exclude, one a line")
    verb.add_argument("--noisy-distractors", type=Path, metavar="LIST", help="distractors to exclude, one a line")
    verb.add_argument(
        "--probe-list",
        type=Path,
        metavar="LIST",
        help="the probe photos to use: MegaFace's JSON with path and id, or one path a line",
    )
    verb.add_argument(
        "--distractor-list", type=Path, metavar="LIST", help="the same for distractors; for a matrix, its rows in order"
    )
    verb.add_argument(
        "--ending", default=".bin", metavar="END", help="what follows a picture's path in its feature file (.bin)"
    )
    add_rank(verb, (1,), "rank")
    add_far(verb, ("those of the layout",), "target FAR of verification, a decimal number")
    add_fpir(verb, ("those of the layout",), "target FPIR of identification, a decimal number")
    add_rule(verb)
    add_feature_norm(verb)
    add_json(verb)
    add_plot(verb, "the CMC")
    add_screen(verb, "float32")
    add_work(verb)
    add_cost(verb, cost_of_rows("distractors", "probes", _asked, _counted))
