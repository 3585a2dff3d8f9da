"""Kinds of `evaluate`: scores, pairs, all pairs, two sets, distractors, and every set of a folder; see `evaluating`."""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verisphere.base.words import (
    FARS,
    MEGAFACE_FARS,
    REPLICATES,
    TRILLION_FARS,
    TRILLION_FPIRS,
    check_titles,
    printable,
)
from verisphere.cli.dry_run import add_cost, cost_of_images, cost_of_rows
from verisphere.cli.evaluation_options import (
    add_comparing,
    add_far,
    add_feature_norm,
    add_fpir,
    add_rank,
    add_rule,
    add_screen,
    given,
    refuse_unread,
)
from verisphere.cli.images import add_embedding_options, embedding_options
from verisphere.cli.messages import progress
from verisphere.cli.parsing import Outcome, Run, Verbs, add_names, new_verb, options_as
from verisphere.cli.results import add_json, add_output, add_plot, show_result
from verisphere.cli.working import add_work

if TYPE_CHECKING:
    from verisphere.measure.distractors import DistractorOptions
    from verisphere.measure.evaluate import Options
    from verisphere.measure.suite.result import SuiteResult

log = logging.getLogger(__name__)


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


#: The protocols, each with its target FARs of verification and FPIRs of identification.
LAYOUTS = {"megaface": (MEGAFACE_FARS, ()), "trillion-pairs": (TRILLION_FARS, TRILLION_FPIRS)}


def evaluate_distractors(options: argparse.Namespace) -> Outcome:
    """MegaFace and Trillion-Pairs: each photo of a probe person as the mate among distractors."""
    from verisphere.measure.distractors import evaluate_distractors as run

    return run(options.layout, options.probes, options.distractors, _asked(options))


def _asked(options: argparse.Namespace) -> "DistractorOptions":
    from verisphere.files.streamed_rows import is_features
    from verisphere.measure.distractors import DistractorOptions, check_paths

    if not any(path.is_dir() and is_features(path) for path in (options.probes, *options.distractors)):
        refuse_unread(options, ("ending",), "no folder of feature files is read")
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
    return {"others": options.distractors} | ({} if options.ending is None else {"ending": options.ending})


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
    verb.add_argument("--ending", metavar="END", help="what follows a picture's path in its feature file (.bin)")
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


def evaluate_suite(options: argparse.Namespace) -> Outcome:
    """Every published set in a folder, each image embedded once, in one table with the mean over sets."""
    from verisphere.base.distributed import world

    if options.json is not None:
        _refuse_to_replace_what_is_read(options.json, options.folder, options.embeddings)
    result = _run(options)
    if not result.failed or not world().first:
        return result
    show_result(options, result)
    failed = [f"{name} ({result.sets[name].error})" for name in result.failed]
    raise ValueError(
        f"{options.folder}: {len(failed)} of {len(result.sets)} sets could not be evaluated: "
        f"{printable(', '.join(failed))}"
    )


def _up_to_first_pieces(options: argparse.Namespace) -> None:
    """Run in a dry run; sets that are not counted, since they cannot be evaluated at all, are named."""
    from verisphere.measure.cost import NotComputed
    from verisphere.measure.suite.result import COMBINED

    for name, found in _run(options).sets.items():
        if found.error is not None and NotComputed.text not in found.error and name != COMBINED:
            log.warning("%s is not counted: %s", printable(name), printable(found.error))


def _run(options: argparse.Namespace) -> "SuiteResult":
    from verisphere.measure.suite.run import run_suite
    from verisphere.measure.suite.task import SuiteOptions

    if options.model is None:
        refuse_unread(options, ("flip", "batch_size", "bfloat16"), "nothing is embedded without --model")
    asked = options_as(SuiteOptions, options, fars=tuple(options.far or ()), progress=progress())
    return options_as(run_suite, options, model=options.model, options=asked, **embedding_options(options))


def _refuse_to_replace_what_is_read(out: Path, *folders: Path | None) -> None:
    """Refuse to replace a list, an image or embeddings; a JSON directly in a folder counts as an earlier result."""
    from verisphere.files.disk import real_path

    place = real_path(out)
    for folder in [real_path(path) for path in folders if path is not None]:
        earlier = place.parent == folder and place.suffix == ".json"
        if place.exists() and place.is_relative_to(folder) and not earlier:
            raise FileExistsError(f"{out}: a file of {folder.name}, which is read here; write to another name")


def add_suite(kinds: Verbs) -> None:
    """Add `evaluate suite`."""
    verb = new_verb(
        kinds,
        "suite",
        evaluate_suite,
        less_memory="lower --batch-size or --workers",
        examples=(
            "verisphere evaluate suite sets --model model --json suite.json",
            "verisphere evaluate suite sets --model model --embeddings embeddings --far 1e-3",
        ),
    )
    add_names(verb)
    verb.add_argument(
        "folder", type=Path, help="a sub-folder for each set as it is published, and .bin files (docs/protocols.md)"
    )
    verb.add_argument(
        "--model",
        type=Path,
        help="the model that embeds the images, as `embed` takes it; without it, --embeddings must have the files",
    )
    verb.add_argument(
        "--embeddings",
        type=Path,
        metavar="DIR",
        help="keep the embeddings files here, and use those of earlier runs by the same model (a temporary folder)",
    )
    add_far(verb, ("the published ones of each set",), "target FAR of every set")
    add_rule(verb)
    add_feature_norm(verb)
    add_json(verb)
    add_embedding_options(verb)
    add_work(verb)
    add_cost(verb, cost_of_images("folder", _up_to_first_pieces, uncounted="the evaluation of the sets"))


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
