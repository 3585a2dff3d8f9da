"""Measuring embeddings or scores: `evaluate` and its kinds."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from verisphere.base.words import FARS, REPLICATES, check_titles
from verisphere.cli.dry_run import add_cost, cost_of_rows
from verisphere.cli.evaluation_options import add_comparing, add_far, add_feature_norm, add_rule, given, refuse_unread
from verisphere.cli.messages import progress
from verisphere.cli.parsing import Outcome, Run, Verbs, add_names, new_verb, options_as
from verisphere.cli.results import add_json, add_output, add_plot
from verisphere.cli.working import add_work

if TYPE_CHECKING:
    from verisphere.measure.evaluate import Options


def evaluate_scores(options: argparse.Namespace) -> Outcome:
    """Operating points of a scores file."""
    from verisphere.measure import evaluate

    return evaluate.evaluate_scores(options.scores, _options(options))


def evaluate_pairs(options: argparse.Namespace) -> Outcome:
    """Accuracy and operating points of listed pairs."""
    from verisphere.measure import listed

    return listed.evaluate_pairs(options.embeddings, options.pairs, _options(options), options.against)


def evaluate_all_pairs(options: argparse.Namespace) -> Outcome:
    """Operating points over all pairs; of domains, also at one threshold."""
    from verisphere.measure import evaluate

    _check_sets(options)
    if len(options.embeddings) == 1:
        return evaluate.evaluate_all_pairs(options.embeddings[0], _options(options), options.against)
    return evaluate.evaluate_one_threshold(options.embeddings, _options(options))


def _check_sets(options: argparse.Namespace) -> None:
    """Refuse another model beside several sets, and two sets of one title."""
    from verisphere.files.sharded import title_of

    if options.against and len(options.embeddings) > 1:
        raise ValueError(f"--against compares two models on one file, not on {len(options.embeddings)}; omit it")
    check_titles("embeddings files", [title_of(path) for path in options.embeddings])


def _check_pairs(options: argparse.Namespace) -> None:
    from verisphere.measure.listed import check_lists

    check_lists(options.embeddings, options.pairs, _options(options), options.against)


def _listed(options: argparse.Namespace) -> dict[str, int]:
    from verisphere.measure.listed import read_list

    return {"listed": sum(len(read_list(path).genuine) for path in options.pairs)}


def _options(options: argparse.Namespace) -> "Options":
    from verisphere.base.vocabulary import Redrawing
    from verisphere.measure.evaluate import Options

    if not getattr(options, "intervals", False) and not getattr(options, "against", ()):
        refuse_unread(options, ("replicates", "seed"), "people are redrawn only for --intervals and --against")
    if options.calibration is not None:
        refuse_unread(options, ("union",), "--calibration alone sets the one threshold")
    return options_as(
        Options,
        options,
        fars=options.far or FARS,
        progress=progress(),
        redrawing=Redrawing(REPLICATES if options.replicates is None else options.replicates, options.seed or 0),
        for_domains=given(options, ("union", "skip_empty", "alpha")),
        curve=any(getattr(options, name, None) is not None for name in ("curve", "plot")),
        by_person=getattr(options, "by_person", None) is not None,
    )


def add_scores(kinds: Verbs) -> None:
    """Add `evaluate scores`."""
    verb = _evaluation(
        kinds,
        "scores",
        evaluate_scores,
        examples=(
            "verisphere evaluate scores scores.csv",
            "verisphere evaluate scores scores.csv --far 1e-3 --json figures.json --plot curve.png",
        ),
    )
    verb.add_argument("scores", type=Path, help="CSV with the columns score,label[,domain], or .npz with these arrays")
    _curve(verb)


def add_pairs(kinds: Verbs) -> None:
    """Add `evaluate pairs`."""
    verb = _evaluation(
        kinds,
        "pairs",
        evaluate_pairs,
        examples=(
            "verisphere evaluate pairs embeddings.npz --pairs pairs.txt",
            "verisphere evaluate pairs lfw.npz agedb.npz --pairs lfw.bin --pairs agedb_30.bin",
        ),
    )
    verb.add_argument("embeddings", type=Path, nargs="+", help="embeddings file for all lists, or one for each")
    verb.add_argument(
        "--pairs",
        type=Path,
        action="append",
        required=True,
        metavar="LIST",
        help="a list as LFW, SLLFW, CALFW, CPLFW, XQLFW, YouTube Faces (videos), CFP (folder Split/FP or Split/FF) or "
        "RFW (a group, or the folder of all) publish it, two images and a label a line, CSV with "
        "left,right,label[,fold], or a verification set of InsightFace (.bin); repeat for several, which are also "
        "taken as one",
    )
    verb.add_argument(
        "--points-only",
        action="store_true",
        help="operating points alone, no accuracy: for lists of millions of pairs, most of which then need no score",
    )
    verb.add_argument(
        "--keep-repeated",
        action="store_true",
        help="count pairs of an image with itself, and pairs that are listed twice in either order; both are "
        "otherwise refused",
    )
    _against(verb)
    add_feature_norm(verb)
    _redrawing(verb)
    _curve(verb)
    add_work(verb)
    add_cost(verb, cost_of_rows("pairs", check=_check_pairs, lists=_listed))


def add_all_pairs(kinds: Verbs) -> None:
    """Add `evaluate all-pairs`."""
    verb = _evaluation(
        kinds,
        "all-pairs",
        evaluate_all_pairs,
        examples=(
            "verisphere evaluate all-pairs embeddings.npz --far 1e-4 --intervals --json figures.json",
            "verisphere evaluate all-pairs day.npz night.npz --far 1e-3 --calibration others.npz",
        ),
    )
    verb.add_argument("embeddings", type=Path, nargs="+", help="embeddings file; of several, each is a domain")
    _against(verb)
    add_feature_norm(verb)
    _redrawing(verb)
    _curve(verb)
    _scan(verb)
    add_cost(verb, cost_of_rows("all-pairs", check=_check_sets))


def _evaluation(kinds: Verbs, name: str, run: Run, *, examples: Sequence[str]) -> argparse.ArgumentParser:
    verb = new_verb(
        kinds,
        name,
        run,
        examples=examples,
        less_memory="lower --replicates, drop the lowest --far, or measure fewer images at a time",
    )
    if name != "scores":  # scores name nobody
        add_names(verb)
    add_far(verb)
    add_rule(verb)
    add_json(verb)
    verb.add_argument(
        "--calibration",
        type=Path,
        metavar="FILE",
        help="embeddings (for scores, a scores file) whose impostors alone set the one threshold of the domains",
    )
    verb.add_argument(
        "--union",
        choices=("all", "within"),
        help="whether impostor pairs across domains count for the one threshold (all) or not (within) (all)",
    )
    verb.add_argument(
        "--skip-empty", action="store_true", default=None, help="exclude domains without impostors or genuine pairs"
    )
    verb.add_argument(
        "--alpha",
        type=float,
        metavar="A",
        help="weight of FAR in FDR, IR and GARBE of the domains, FRR has 1 - A (0.5)",
    )
    verb.set_defaults(replicates=None, seed=None)  # of scores, which have no people to redraw
    return verb


def _against(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--against",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="another model's embeddings of the same images: adds the difference, with its interval",
    )


def _redrawing(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--intervals",
        action="store_true",
        help="redraw people: 95 %% intervals of TAR, threshold and FAR, which respect who is in several pairs "
        "(docs/uncertainty.md: how often such intervals hold the truth)",
    )
    verb.add_argument(
        "--replicates", type=int, help=f"bootstrap replicates of --intervals and --against ({REPLICATES})"
    )
    verb.add_argument("--seed", type=int, help="seed of the redrawing (0)")


def _scan(verb: argparse.ArgumentParser) -> None:
    add_output(
        verb,
        "--by-person",
        metavar="OUT.csv",
        help="also write each person's own FAR and FRR, and show how they spread, the worst decile by name, and OPIS",
    )
    add_comparing(verb)
    add_work(verb)


def _curve(verb: argparse.ArgumentParser) -> None:
    add_output(
        verb,
        "--curve",
        metavar="OUT.csv",
        help="also write the ROC and DET curve: threshold, FAR, TAR, FRR and their counts, FAR descending",
    )
    add_plot(verb, "ROC and DET")
