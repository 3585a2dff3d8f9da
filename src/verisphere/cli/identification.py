"""Identification of probes in galleries: `evaluate identification`."""

import argparse
from typing import Any

from verisphere.base.words import FPIRS, RANKS
from verisphere.cli.dry_run import add_cost, cost_of_rows
from verisphere.cli.evaluation_options import (
    add_closed_set,
    add_feature_norm,
    add_fpir,
    add_rank,
    add_rule,
    add_screen,
    open_set_fpirs,
)
from verisphere.cli.messages import progress
from verisphere.cli.parsing import Outcome, Verbs, add_names, new_verb, options_as
from verisphere.cli.results import add_input, add_json, add_output, add_plot
from verisphere.cli.working import add_work


def drawn_gallery(options: argparse.Namespace) -> dict[str, Any]:
    """How a gallery is drawn from the probes, as far as the options say; refuses options that exclude each other."""
    from verisphere.measure.identification import gallery_seeds, gallery_titles

    names = ("enrol", "strangers", "seed", "galleries")
    drawing = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.gallery and drawing:
        raise ValueError(f"--{next(iter(drawing))} draws a gallery from one file; omit it beside --gallery")
    if options.distractors and not options.gallery:
        raise ValueError("--distractors are enrolled beside the people of a --gallery, so name one too")
    gallery_seeds(0, drawing.get("galleries", 1))
    gallery_titles(options.probes, options.gallery, options.distractors)
    return drawing


def evaluate_identification(options: argparse.Namespace) -> Outcome:
    """Identification: probes searched in galleries (1:N)."""
    from verisphere.files.gallery_calibration import read_gallery_calibration
    from verisphere.measure.identification import IdentificationOptions, evaluate_galleries, evaluate_split

    if bool(options.top) != (options.candidates is not None):
        raise ValueError("--top says how many candidates --candidates lists: give both or neither")
    drawing = drawn_gallery(options)
    fpirs, ranks = open_set_fpirs(options, FPIRS), options.rank or RANKS
    promised = None if options.calibration is None else read_gallery_calibration(options.calibration)
    if promised is not None and not options.gallery:
        raise ValueError("--calibration is of a gallery, so name this gallery by --gallery")
    about = {"fpirs": fpirs, "ranks": ranks, "calibration": promised, "progress": progress()}
    asked = options_as(IdentificationOptions, options, **about)
    if options.gallery:
        return evaluate_galleries(options.probes, options.gallery, asked, options.distractors)
    return evaluate_split(options.probes, asked, **drawing)


def add_identification(kinds: Verbs) -> None:
    """Add `evaluate identification`."""
    verb = new_verb(
        kinds,
        "identification",
        evaluate_identification,
        examples=(
            "verisphere evaluate identification probes.npz --gallery gallery.npz --fpir 1e-2",
            "verisphere evaluate identification embeddings.npz --galleries 5 --closed-set",
        ),
    )
    add_names(verb)
    add_input(
        verb,
        "probes",
        "embeddings file of the probes; without --gallery, the galleries are drawn from it, too",
        metavar=None,
    )
    add_input(
        verb,
        "--gallery",
        "embeddings file of the enrolled people; repeat for several, whose figures are averaged",
        several=True,
    )
    add_input(
        verb,
        "--distractors",
        "embeddings file of further images for every --gallery, each a person of its own whom no probe shows",
        several=True,
    )
    add_input(
        verb, "--calibration", "also measure the thresholds of this calibration of a gallery, from calibrate --gallery"
    )
    add_fpir(verb, FPIRS)
    add_rank(verb)
    verb.add_argument(
        "--open-rank", type=int, default=1, metavar="R", help="TPIR counts a mate among the R best people (1)"
    )
    add_closed_set(verb, "ranks alone: no probe need be non-mated")
    verb.add_argument(
        "--by-image",
        action="store_true",
        help="also rank images, not people: rank-k rates and mean average precision, as TinyFace has them",
    )
    add_rule(verb)
    add_feature_norm(verb)
    verb.add_argument("--enrol", type=int, metavar="N", help="without --gallery: images of a person enrolled (1)")
    verb.add_argument(
        "--strangers", type=float, metavar="S", help="without --gallery: share of the people not enrolled (0.5)"
    )
    verb.add_argument("--seed", type=int, help="without --gallery: seed of the draw (0)")
    verb.add_argument(
        "--galleries", type=int, metavar="G", help="without --gallery: how many to draw, with the seeds that follow (1)"
    )
    verb.add_argument("--top", type=int, default=0, metavar="K", help="list each probe's K best images in --candidates")
    add_output(verb, "--candidates", metavar="OUT.csv", help="where to list them")
    add_json(verb)
    add_plot(verb, "CMC and TPIR over FPIR")
    add_screen(verb, "float32")
    add_work(verb)
    add_cost(verb, cost_of_rows("identification", "probes", drawn_gallery))
