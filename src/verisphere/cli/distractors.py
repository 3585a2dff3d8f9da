"""Probes among distractors: `evaluate megaface` and `evaluate trillion-pairs`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from verisphere.cli.evaluation_options import (
    add_far,
    add_feature_norm,
    add_fpir,
    add_rank,
    add_rule,
    add_screen,
)
from verisphere.cli.messages import progress
from verisphere.cli.parsing import Outcome, Run, Verbs, add_names, new_verb, options_as
from verisphere.cli.results import add_json, add_plot
from verisphere.words import MEGAFACE_FARS, TRILLION_FARS, TRILLION_FPIRS

if TYPE_CHECKING:
    from verisphere.measure.distractors import DistractorOptions


def evaluate_megaface(options: argparse.Namespace) -> Outcome:
    """MegaFace: identification with each photo of a probe person as the mate among distractors."""
    from verisphere.measure import distractors

    asked = _options(options, options.far or MEGAFACE_FARS)
    return distractors.evaluate_megaface(options.probes, options.distractors, asked)


def evaluate_trillion_pairs(options: argparse.Namespace) -> Outcome:
    """Trillion-Pairs: identification and verification at very low rates."""
    from verisphere.measure import distractors

    asked = _options(options, options.far or TRILLION_FARS, options.fpir or TRILLION_FPIRS)
    return distractors.evaluate_trillion_pairs(options.probes, options.distractors, asked)


def _options(options: argparse.Namespace, fars: Sequence[str], fpirs: Sequence[str] = ()) -> "DistractorOptions":
    from verisphere.measure.distractors import DistractorOptions

    ranks = options.rank or (1,)
    return options_as(DistractorOptions, options, ranks=ranks, fars=fars, fpirs=fpirs, progress=progress())


def add_distractors(kinds: Verbs) -> None:
    """Add `evaluate megaface` and `evaluate trillion-pairs`."""
    _add(
        kinds,
        "megaface",
        evaluate_megaface,
        MEGAFACE_FARS,
        (
            "verisphere evaluate megaface facescrub.npz --distractors megaface.npz --rank 1 --rank 10",
            "verisphere evaluate megaface facescrub.npz --distractors megaface.npz --noisy-probes facescrub_noises.txt "
            "--noisy-distractors megaface_noises.txt",
        ),
    )
    verb = _add(
        kinds,
        "trillion-pairs",
        evaluate_trillion_pairs,
        TRILLION_FARS,
        (
            "verisphere evaluate trillion-pairs celebrities.npz --distractors flickr.npz",
            "verisphere evaluate trillion-pairs celebrities.npz --distractors part1.npz --distractors part2.npz "
            "--fpir 1e-2",
        ),
    )
    add_fpir(verb, TRILLION_FPIRS, "target FPIR of identification, a decimal number")


def _add(
    kinds: Verbs,
    name: str,
    run: Run,
    fars: Sequence[str],
    examples: Sequence[str],
) -> argparse.ArgumentParser:
    verb = new_verb(kinds, name, run, examples=examples, less_memory="search fewer probes at a time, or a higher --far")
    add_names(verb)
    verb.add_argument("probes", type=Path, help="embeddings file of the probe people, two photos or more of each")
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
    add_far(verb, fars, "target FAR of verification, a decimal number")
    add_rule(verb)
    add_feature_norm(verb)
    add_json(verb)
    add_plot(verb, "the CMC")
    add_screen(verb, "float32")
    return verb
