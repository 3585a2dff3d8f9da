"""Kinds of `evaluate`: probes searched in galleries (`identification`), and the templates of `ijb`, 1:1 and 1:N."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verisphere.base.words import FARS, FPIRS, IJB_FPIRS, RANKS
from verisphere.cli.dry_run import add_cost, cost_of_rows
from verisphere.cli.evaluation_options import (
    add_closed_set,
    add_far,
    add_feature_norm,
    add_fpir,
    add_rank,
    add_rule,
    add_screen,
    open_set_fpirs,
    refuse_unread,
)
from verisphere.cli.messages import progress
from verisphere.cli.parsing import Outcome, Verbs, add_names, new_verb, options_as
from verisphere.cli.results import add_input, add_json, add_output, add_plot
from verisphere.cli.working import add_work

if TYPE_CHECKING:
    from verisphere.files.ijb import IjbFiles
    from verisphere.measure.ijb import IjbOptions


def evaluate_ijb(options: argparse.Namespace) -> Outcome:
    """IJB-B and IJB-C: templates compared 1:1 over a list, and 1:N in galleries."""
    from verisphere.measure import ijb

    return ijb.evaluate_ijb(options.embeddings, *_asked(options))


def _asked(options: argparse.Namespace) -> "tuple[IjbFiles, IjbOptions]":
    from verisphere.files.ijb import IjbFiles
    from verisphere.measure.ijb import IjbOptions

    files = IjbFiles(
        options.meta, options.pairs, options.scores, tuple(options.gallery), options.probes, options.covariates
    )
    _refuse_without(options, ("fpir", "rank", "closed_set"), files.galleries, "1:N, which takes --gallery and --probes")
    _refuse_without(options, ("far", "keep_repeated", "group_by"), files.pairs, "1:1, which takes --pairs")
    if options.group_by is None:
        refuse_unread(options, ("skip_empty",), "it is for the groups of --group-by")
    asked = options_as(
        IjbOptions,
        options,
        fars=options.far or FARS,
        fpirs=open_set_fpirs(options, IJB_FPIRS, () if files.pairs else ("rule",)),
        ranks=options.rank or RANKS,
        group_names=_group_names(options.group_name),
        progress=progress(),
    )
    return files, asked


def _counted(options: argparse.Namespace) -> dict[str, Any]:
    """The listed pairs and the pairs of a probe and an enrolled template, and the templates."""
    from verisphere.files.ijb.images import read_images
    from verisphere.files.ijb.people import read_people

    pairs, listed = 0, 0
    if options.pairs is not None:
        with options.pairs.open("rb") as lines:
            listed = sum(1 for line in lines if line.strip())
    if options.gallery:
        pairs = len(read_people(options.probes).templates) * sum(
            len(read_people(path).templates) for path in options.gallery
        )
    templates = read_images(options.meta).numbered()[0]
    return {"others": [], "listed": listed, "products": pairs, "held": len(templates)}


def _refuse_without(options: argparse.Namespace, names: Sequence[str], given: object, what: str) -> None:
    """Refuse options for a part of the protocol whose files are not given; the options would be ignored."""
    useless = next((name for name in names if getattr(options, name)), None)
    if not given and useless is not None:
        raise ValueError(f"--{useless.replace('_', '-')} is for {what}; give them, or omit it")


def _group_names(words: list[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for word in words:
        value, equals, name = (part.strip() for part in word.partition("="))
        if not (value and equals and name):
            raise ValueError(f"--group-name is {word!r}; it takes VALUE=NAME, such as 0=F")
        if names.setdefault(value, name) != name:
            raise ValueError(f"--group-name names {value!r} twice, {names[value]!r} and {name!r}")
    return names


def add_ijb(kinds: Verbs) -> None:
    """Add `evaluate ijb`."""
    verb = new_verb(
        kinds,
        "ijb",
        evaluate_ijb,
        examples=(
            "verisphere evaluate ijb e.npz --meta ijbc_face_tid_mid.txt --pairs ijbc_template_pair_label.txt",
            "verisphere evaluate ijb e.npz --meta meta.txt --gallery G1.csv --gallery G2.csv --probes mixed.csv",
        ),
        less_memory="evaluate 1:1 and 1:N in two calls",
    )
    add_names(verb)
    verb.add_argument("embeddings", type=Path, help="embeddings file with a row for each image, by its name")
    verb.add_argument(
        "--meta", type=Path, required=True, metavar="FILE", help="`image template medium` a line: *_face_tid_mid.txt"
    )
    add_input(verb, "--pairs", "1:1: `template template 0|1` a line: *_template_pair_label.txt")
    add_input(
        verb,
        "--scores",
        "weigh each face by its detector score: `image 10 numbers score` a line: *_name_5pts_score.txt",
    )
    add_input(
        verb,
        "--gallery",
        "1:N: CSV with TEMPLATE_ID and SUBJECT_ID; repeat for several, whose figures are averaged",
        several=True,
    )
    add_input(verb, "--probes", "1:N: CSV of the probes with the same columns: *_1N_probe_mixed.csv")
    add_far(verb)
    add_fpir(verb, IJB_FPIRS)
    add_rank(verb)
    add_closed_set(verb, "1:N by ranks alone: no probe need be non-mated")
    add_rule(verb)
    add_feature_norm(verb)
    verb.add_argument(
        "--keep-repeated",
        action="store_true",
        help="count pairs of a template with itself, and pairs that are listed twice; both are otherwise refused",
    )
    add_input(verb, "--covariates", "CSV with TEMPLATE_ID or SUBJECT_ID and a column of groups")
    verb.add_argument("--group-by", metavar="COLUMN", help="the column of groups, such as GENDER")
    verb.add_argument(
        "--group-name",
        action="append",
        default=[],
        metavar="VALUE=NAME",
        help="what a value of that column is called, such as 0=F; repeat for several (the value itself)",
    )
    what = "exclude groups without impostor or genuine pairs"
    verb.add_argument("--skip-empty", action="store_const", const=True, help=what)
    add_json(verb)
    add_work(verb)
    add_cost(verb, cost_of_rows("ijb", check=_asked, lists=_counted))


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
    fpirs, ranks = open_set_fpirs(options, FPIRS, ("rule", "open_rank")), options.rank or RANKS
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
    verb.add_argument("--open-rank", type=int, metavar="R", help="TPIR counts a mate among the R best people (1)")
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
