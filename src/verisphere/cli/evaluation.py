"""Measuring embeddings or scores: `evaluate` and its kinds."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from verisphere.cli.messages import progress
from verisphere.cli.parsing import Parser, Verbs, new_verb
from verisphere.words import FARS, PRECISIONS, REPLICATES, RULES

if TYPE_CHECKING:
    from verisphere.measure.evaluate import Evaluation, Options


def evaluate_scores(options: argparse.Namespace) -> str:
    """Operating points of a scores file."""
    from verisphere.measure import evaluate

    return _show(options, evaluate.evaluate_scores(options.scores, _options(options, options.scores)))


def evaluate_pairs(options: argparse.Namespace) -> str:
    """Accuracy and operating points of listed pairs."""
    from verisphere.measure import evaluate

    return _show(
        options,
        evaluate.evaluate_pairs(
            options.embeddings,
            options.pairs,
            _options(options, options.embeddings, options.pairs, *options.against),
            options.against,
        ),
    )


def evaluate_all_pairs(options: argparse.Namespace) -> str:
    """Operating points over all pairs."""
    from verisphere.measure import evaluate

    asked = _options(options, options.embeddings, *options.against)
    return _show(options, evaluate.evaluate_all_pairs(options.embeddings, asked, options.against))


def evaluate_one_threshold(options: argparse.Namespace) -> str:
    """Several domains at one threshold."""
    from verisphere.measure import evaluate

    asked = _options(options, *options.embeddings)
    return _show(options, evaluate.evaluate_one_threshold(options.embeddings, asked))


def evaluate_identification(options: argparse.Namespace) -> str:
    """Identification: probes searched in galleries (1:N)."""
    from verisphere.measure.identification import IdentificationOptions, evaluate_galleries, evaluate_split
    from verisphere.protocols.identification import FPIRS, RANKS

    _check_outputs(options, ("json", "candidates", "plot"), [options.probes, *options.gallery])
    if bool(options.top) != (options.candidates is not None):
        raise ValueError("--top says how many candidates --candidates lists: give both or neither")
    if options.closed_set and options.fpir:
        raise ValueError("--closed-set asks for ranks alone, so --fpir has no place beside it")
    asked = IdentificationOptions(
        fpirs=() if options.closed_set else options.fpir or FPIRS,
        ranks=options.rank or RANKS,
        rule=options.rule,
        open_rank=options.open_rank,
        top=options.top,
        screen=options.screen,
        progress=progress(),
    )
    names = ("enrol", "strangers", "seed", "galleries")
    drawing = {name: value for name in names if (value := getattr(options, name)) is not None}
    if options.gallery and drawing:
        raise ValueError(f"--{next(iter(drawing))} draws a gallery from one file; leave it out beside --gallery")
    if options.gallery:
        result = evaluate_galleries(options.probes, options.gallery, asked)
    else:
        result = evaluate_split(options.probes, asked, **drawing)
    for out, write in (
        (options.json, result.write_json),
        (options.candidates, result.write_candidates),
        (options.plot, result.write_plot),
    ):
        if out is not None:
            write(out)
    return result.text()


def _options(options: argparse.Namespace, *inputs: Path) -> "Options":
    """The options of an evaluation of these files."""
    from verisphere.measure.evaluate import Options
    from verisphere.vocabulary import Redrawing

    _check_outputs(options, ("json", "curve", "plot", "state"), [*inputs, options.calibration])
    return Options(
        fars=options.far or FARS,
        rule=options.rule,
        union=options.union,
        calibration=options.calibration,
        skip_empty=options.skip_empty,
        progress=progress(),
        intervals=options.intervals,
        redrawing=Redrawing(options.replicates, options.seed),
        alpha=options.alpha,
        curve=options.curve is not None or options.plot is not None,
        processes=options.processes,
        screen=options.screen,
        device=options.device,
        state=options.state,
        points_only=options.points_only,
        keep_repeated=options.keep_repeated,
    )


def _check_outputs(options: argparse.Namespace, names: Sequence[str], inputs: Sequence[Path | None]) -> None:
    """Refuse, before any work, an output that cannot be written, or that would replace an input or another output."""
    from verisphere.files.disk import check_writable, real_path, refuse_overwriting

    outputs = [out for name in names if (out := getattr(options, name)) is not None]
    for number, out in enumerate(outputs):
        refuse_overwriting(out, inputs)
        check_writable(out)
        place = real_path(out)
        if place in [real_path(other) for other in outputs[:number]]:
            listed = [f"--{name}" for name in names]
            raise ValueError(f"{out}: two of {', '.join(listed[:-1])} and {listed[-1]} would be written to it")
        for other in outputs:
            if real_path(other) in place.parents:
                raise ValueError(f"{out}: {other} above it is a file to be written, no folder; choose another name")
    if options.plot is not None and options.plot.suffix not in (".png", ".svg"):
        raise ValueError(f"{options.plot}: a picture's name must end in .png or .svg")


def _show(options: argparse.Namespace, result: "Evaluation") -> str:
    from verisphere.distributed import world

    if not world().first:
        return ""  # the first rank writes and prints the result of all
    if options.json is not None:
        result.write_json(options.json)
    if options.curve is not None:
        result.write_curve(options.curve)
    if options.plot is not None:
        result.write_plot(options.plot)
    return result.text()


def add_evaluate(verbs: Verbs) -> None:
    """Add `evaluate` and its kinds."""
    text = "Measure embeddings or scores."
    evaluation = verbs.add_parser(
        "evaluate",
        help=text,
        description=text,
        examples=(
            "verisphere evaluate all-pairs embeddings.npz --far 1e-3",
            "verisphere evaluate pairs embeddings.npz --pairs pairs.txt",
        ),
    )
    kinds = evaluation.add_subparsers(required=True, metavar="KIND", parser_class=Parser)
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
    verb = _evaluation(
        kinds,
        "pairs",
        evaluate_pairs,
        examples=(
            "verisphere evaluate pairs embeddings.npz --pairs pairs.txt",
            "verisphere evaluate pairs new.npz --pairs pairs.csv --against old.npz --far 1e-3",
        ),
    )
    verb.add_argument("embeddings", type=Path, help="embeddings file")
    verb.add_argument(
        "--pairs",
        type=Path,
        required=True,
        help="LFW pairs list, CSV with left,right,label[,fold], or a verification set of InsightFace (.bin)",
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
    _redrawing(verb)
    _curve(verb)
    verb = _evaluation(
        kinds,
        "all-pairs",
        evaluate_all_pairs,
        shared=True,
        examples=(
            "verisphere evaluate all-pairs embeddings.npz",
            "verisphere evaluate all-pairs embeddings.npz --far 1e-4 --intervals --json figures.json",
        ),
    )
    verb.add_argument("embeddings", type=Path, help="embeddings file")
    _against(verb)
    _redrawing(verb)
    _curve(verb)
    _scan(verb)
    verb = _evaluation(
        kinds,
        "one-threshold",
        evaluate_one_threshold,
        shared=True,
        examples=(
            "verisphere evaluate one-threshold day.npz night.npz --far 1e-3",
            "verisphere evaluate one-threshold domains.npz --calibration others.npz",
        ),
    )
    verb.add_argument("embeddings", type=Path, nargs="+", help="embeddings files, each a domain; or one with domains")
    _redrawing(verb)
    _scan(verb)
    _identification(kinds)


def _evaluation(
    kinds: Verbs,
    name: str,
    run: Callable[[argparse.Namespace], str],
    *,
    examples: Sequence[str],
    shared: bool = False,
) -> argparse.ArgumentParser:
    verb = new_verb(
        kinds,
        name,
        run,
        examples=examples,
        shared=shared,
        less_memory="lower --replicates, drop the lowest --far, or measure fewer images at a time",
    )
    verb.add_argument(
        "--far",
        action="append",
        metavar="F",
        help=f"target FAR, a decimal number; repeat for several ({' '.join(FARS)})",
    )
    _rule(verb)
    verb.add_argument("--json", type=Path, metavar="OUT", help="also write the figures as JSON")
    verb.add_argument(
        "--calibration",
        type=Path,
        metavar="FILE",
        help="set the one threshold of the domains on this file's impostors alone",
    )
    verb.add_argument(
        "--union",
        choices=("all", "within"),
        default="all",
        help="impostor pairs across domains count for the one threshold (all), or do not (within)",
    )
    verb.add_argument("--skip-empty", action="store_true", help="exclude domains without impostors or genuine pairs")
    verb.add_argument(
        "--alpha",
        type=float,
        default=0.5,
        metavar="A",
        help="weight of FAR in FDR, IR and GARBE of the domains, FRR has 1 - A (0.5)",
    )
    verb.set_defaults(
        intervals=False,
        replicates=REPLICATES,
        seed=0,
        curve=None,
        plot=None,
        processes=1,
        screen=None,
        device="cpu",
        state=None,
    )
    verb.set_defaults(points_only=False, keep_repeated=False)
    return verb


def _rule(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--rule",
        choices=RULES,
        default="at_most",
        help="how the threshold is chosen; all but at_most exist to compare with published numbers",
    )


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
        help="redraw people: the middle 95 %% of TAR, threshold and FAR, which respects who is in several pairs; the "
        "table says how often such intervals held the truth in simulations",
    )
    verb.add_argument(
        "--replicates", type=int, default=1000, help="bootstrap replicates of --intervals and --against (1000)"
    )
    verb.add_argument("--seed", type=int, default=0, help="seed of the redrawing (0)")


def _scan(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--processes", type=int, default=1, help="number of processes that compare pairs; the figures are the same (1)"
    )
    _screen(verb)
    verb.add_argument("--device", default="cpu", help="where the pairs are compared: cpu, cuda or cuda:1 (cpu)")
    verb.add_argument(
        "--state",
        type=Path,
        metavar="FILE",
        help="save the state of the comparison in this file every 20 seconds; an interrupted one continues from it",
    )


def _screen(verb: argparse.ArgumentParser, default: str | None = None) -> None:
    verb.add_argument(
        "--screen",
        choices=PRECISIONS,
        default=default,
        help="type of the products that screen the pairs; the figures are the same "
        f"({default or 'the fastest, by a sample'})",
    )


def _curve(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--curve",
        type=Path,
        metavar="OUT.csv",
        help="also write the ROC and DET curve: threshold, FAR, TAR, FRR and their counts, FAR descending",
    )
    verb.add_argument("--plot", type=Path, metavar="OUT.png", help="also draw ROC and DET (.png or .svg)")


def _identification(kinds: Verbs) -> None:
    verb = new_verb(
        kinds,
        "identification",
        evaluate_identification,
        examples=(
            "verisphere evaluate identification probes.npz --gallery gallery.npz --fpir 1e-2",
            "verisphere evaluate identification embeddings.npz --galleries 5 --closed-set",
        ),
    )
    verb.add_argument("probes", type=Path, help="embeddings file to search with; without --gallery to draw one from")
    verb.add_argument(
        "--gallery",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="embeddings file of the enrolled people; repeat for several, whose figures are averaged",
    )
    verb.add_argument(
        "--fpir", action="append", metavar="F", help="target FPIR, a decimal number; repeat (1e-1 1e-2 1e-3)"
    )
    verb.add_argument(
        "--rank", type=int, action="append", metavar="K", help="closed-set rank; repeat for several (1 5 10)"
    )
    verb.add_argument(
        "--open-rank", type=int, default=1, metavar="R", help="TPIR counts a mate among the R best people (1)"
    )
    verb.add_argument("--closed-set", action="store_true", help="ranks alone: no probe need be non-mated")
    _rule(verb)
    verb.add_argument("--enrol", type=int, metavar="N", help="without --gallery: images of a person enrolled (1)")
    verb.add_argument(
        "--strangers", type=float, metavar="S", help="without --gallery: share of the people not enrolled (0.5)"
    )
    verb.add_argument("--seed", type=int, help="without --gallery: seed of the draw (0)")
    verb.add_argument(
        "--galleries", type=int, metavar="G", help="without --gallery: how many to draw, with the seeds that follow (1)"
    )
    verb.add_argument("--top", type=int, default=0, metavar="K", help="list each probe's K best images in --candidates")
    verb.add_argument("--candidates", type=Path, metavar="OUT.csv", help="where to list them")
    verb.add_argument("--json", type=Path, metavar="OUT", help="also write the figures as JSON")
    verb.add_argument("--plot", type=Path, metavar="OUT.png", help="also draw CMC and TPIR over FPIR (.png or .svg)")
    _screen(verb, "float32")
