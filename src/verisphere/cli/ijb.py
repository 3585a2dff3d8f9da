"""IJB-B and IJB-C from the files of InsightFace's kit: `evaluate ijb`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verisphere.base.words import FARS, IJB_FPIRS, RANKS
from verisphere.cli.dry_run import add_cost, cost_of_rows
from verisphere.cli.evaluation_options import (
    add_closed_set,
    add_far,
    add_feature_norm,
    add_fpir,
    add_rank,
    add_rule,
    open_set_fpirs,
)
from verisphere.cli.messages import progress
from verisphere.cli.parsing import Outcome, Verbs, add_names, new_verb, options_as
from verisphere.cli.results import add_input, add_json
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
    asked = options_as(
        IjbOptions,
        options,
        fars=options.far or FARS,
        fpirs=open_set_fpirs(options, IJB_FPIRS),
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
    verb.add_argument("--skip-empty", action="store_true", help="exclude groups without impostor or genuine pairs")
    add_json(verb)
    add_work(verb)
    add_cost(verb, cost_of_rows("ijb", check=_asked, lists=_counted))
