"""The command line: one function a verb, which returns what standard output shows. Talk goes to standard error.

Exit codes: 0 done; 2 the call or the input is wrong (one line says how); 1 a fault of ours, or the end of another
process; 130 and 143 after Ctrl-C and SIGTERM.

Of the processes that torchrun starts the first one talks, and another only to say what went wrong on it.
"""

import argparse
import contextlib
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from verisphere import __version__
from verisphere.vocabulary import FARS, RULES

if TYPE_CHECKING:  # loaded by the verbs that need them: `verisphere --help` should not wait for torch
    from _typeshed import SupportsWrite

    from verisphere.embed.model_folder import Model
    from verisphere.vocabulary import Progress
    from verisphere.workflows.evaluate import Evaluation, Options
    from verisphere.workflows.verify import FindFaces

TEMPLATES = ("arcface_112x112", "sphereface_112x96", "arcface_144x144")
SCREENS = ("int8", "bfloat16", "float32", "float64")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    signal.signal(signal.SIGTERM, _terminated)
    return _guarded(lambda: _start(sys.argv[1:] if arguments is None else list(arguments)))


def _start(arguments: list[str]) -> int:
    """Do what is asked for, with the other processes or in place of them."""
    options = _parse(arguments)
    from verisphere.distributed import joined, launched
    from verisphere.report.progress import log_to_terminal
    from verisphere.workflows.device import choose_device, keep_memory
    from verisphere.workflows.processes import end_with_launcher, first_of_launch

    if not options.default_allocator:
        keep_memory()
    first = first_of_launch()
    if first:
        log_to_terminal()
    else:
        logging.getLogger("verisphere").setLevel(logging.CRITICAL)
    if not launched():
        _print(options.verb(options))
        return 0
    end_with_launcher()
    if options.verb in _SHARED:
        with joined(cuda=choose_device(options.device).type == "cuda"):
            # Told before the others are parted from: they ask whether anybody has said why.
            return _guarded(lambda: _print(options.verb(options)) if first else _silently(options))
    elif first:
        _print(options.verb(options))
    return 0


def _silently(options: argparse.Namespace) -> None:
    options.verb(options)


def _guarded(work: Callable[[], int | None]) -> int:
    """The exit code of some work; what is wrong is said here."""
    try:
        return work() or 0
    except (KeyboardInterrupt, Exception) as error:
        if _several():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a launcher ends all once one has gone; let us say why first
        return _code_of(error)


def _code_of(error: BaseException) -> int:
    """The exit code of an error, once it is said."""
    if isinstance(error, KeyboardInterrupt):
        return _fail(128 + signal.SIGINT, "stopped")
    if isinstance(error, (ValueError, OSError)):
        if os.environ.get("VERISPHERE_TRACEBACK"):
            traceback.print_exc()
        from verisphere.train.processes import FailedElsewhere

        return 2 if isinstance(error, FailedElsewhere) else _fail(2, _message(error))
    import torch

    from verisphere.distributed import PATIENCE
    from verisphere.train.loop import TrainingStopped
    from verisphere.workflows.processes import anything_said, gave_up, lost_another
    from verisphere.workflows.sweep.run import RunsFailed

    if isinstance(error, RunsFailed):
        return _fail(1, str(error))
    if isinstance(error, TrainingStopped):
        return _fail(128 + error.reason, "stopped; a checkpoint has been left, go on with --resume")
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return _fail(2, "memory ran out; lower the batch size, or give fewer images at a time")
    if isinstance(error, RuntimeError) and "DataLoader worker" in str(error):
        return _fail(2, f"a process that reads images was ended from outside, perhaps for want of memory: {error}")
    if lost_another(error):
        if anything_said():
            return 1
        if gave_up(error):
            return _fail(1, f"another process did not come for {PATIENCE:.0f} seconds, so this one has given it up")
        advice = "a training goes on from its newest checkpoint with --resume"
        return _fail(1, f"another process has ended, so none can go on; {advice}")
    traceback.print_exc()
    return _fail(1, "this is a fault of verisphere, not of your input; please report it with the lines above")


def _print(text: str) -> None:
    """Print a result; a reader that leaves early, such as `head`, is no error."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding))  # a path need not be Unicode
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _progress() -> "Progress":
    """Progress for a person, from the first of several processes alone."""
    from verisphere.report import progress
    from verisphere.vocabulary import quietly
    from verisphere.workflows.processes import first_of_launch

    return progress.shown if first_of_launch() else quietly


def demo(options: argparse.Namespace) -> str:
    """Render synthetic faces, train on them, and evaluate on people the model has not seen."""
    from verisphere.workflows.demo import run_demo

    return run_demo(options.out, device=options.device, progress=_progress())


def render(options: argparse.Namespace) -> str:
    """Render synthetic faces into a zip archive."""
    from verisphere.data.synthetic import DOMAINS, SyntheticFaces
    from verisphere.workflows.render import render_zip

    faces = SyntheticFaces(
        people=options.people,
        images=options.images,
        seed=options.seed,
        difficulty=options.difficulty,
        label_noise=options.label_noise,
        first_person=options.first_person,
        domains=tuple(options.domain or DOMAINS),
    )
    return render_zip(faces, options.out, options.sheet, _progress())


def train(options: argparse.Namespace) -> str:
    """Train as a recipe says."""
    from verisphere.train.recipe import read_recipe
    from verisphere.workflows.train import train_run

    if options.dry_run:
        return _plan(options)
    planning = [name for name in ("classes", "processes", "memory", "json") if getattr(options, name) is not None]
    if planning:
        raise ValueError(f"--{planning[0]} is for --dry-run; a training finds out for itself")
    if options.out is None:
        raise ValueError("--out is missing: the folder of the run (or ask for --dry-run, which writes none)")
    train_run(
        read_recipe(options.recipe, options.overrides),
        options.out,
        resume=options.resume,
        device=options.device,
        tensorboard=options.tensorboard,
        progress=_progress(),
    )
    return f"{options.out}: trained; next: verisphere embed {options.out} FACES --out EMBEDDINGS.npz"


def _plan(options: argparse.Namespace) -> str:
    """What a training would take, by as many processes as were started; the first of them finds out and writes."""
    from verisphere.data.files import refuse_overwriting
    from verisphere.distributed import world
    from verisphere.workflows.plan.text import dry_run

    if options.out is not None or options.resume or options.tensorboard:
        raise ValueError("--dry-run trains nothing: leave out --out, --resume, --tensorboard (--json keeps the plan)")
    if not world().first:
        return ""
    if options.json is not None:
        refuse_overwriting(options.json, [options.recipe])
    return dry_run(
        options.recipe,
        options.overrides,
        classes=options.classes,
        processes=world().size if options.processes is None else options.processes,
        memory=options.memory,
        device=options.device,
        out=options.json,
    )


def sweep(options: argparse.Namespace) -> str:
    """Train a grid of recipe fields, or the arms of a plan, and say what differs beyond chance."""
    from verisphere.distributed import launched
    from verisphere.workflows.sweep.plan import read_plan
    from verisphere.workflows.sweep.run import Launch
    from verisphere.workflows.sweep.sweep import sweep as run

    if launched():
        raise ValueError("a sweep starts its trainings itself: start it without torchrun (--jobs trains several)")
    result = run(
        read_plan(options.plan, options.overrides, options.grid, options.seeds),
        options.out,
        Launch(options.jobs, options.threads, options.device, options.default_allocator),
        replicates=options.replicates,
        progress=_progress(),
    )
    _print(result.text())  # what is whole is shown, whatever failed
    result.check()
    return f"{options.out}: results.csv, results.json, plots; a run in runs/ARM/seed-S each"


def embed(options: argparse.Namespace) -> str:
    """Embed aligned images with a trained model, or an untrained one."""
    import torch

    from verisphere.workflows.device import choose_device
    from verisphere.workflows.embed import embed_photos

    return embed_photos(
        options.model,
        options.faces,
        options.out,
        people=options.people,
        flip=options.flip,
        batch_size=options.batch_size,
        workers=options.workers,
        precision=torch.bfloat16 if options.bfloat16 else torch.float32,
        device=choose_device(options.device),
        trust=options.trust_code,
        progress=_progress(),
    )


def align(options: argparse.Namespace) -> str:
    """Find the face on each photograph and cut it out, aligned for a model (extra: detect)."""
    from verisphere.workflows.align import align_photos

    return align_photos(
        options.source,
        options.out,
        template=options.template,
        landmarks=options.landmarks,
        image_format=options.format,
        min_face=options.min_face,
        device=options.device,
        progress=_progress(),
    ).text()


def calibrate(options: argparse.Namespace) -> str:
    """Choose the threshold for a FAR on new people, with a guarantee."""
    from verisphere.data.files import refuse_overwriting
    from verisphere.workflows.calibrate import calibrate as run

    refuse_overwriting(options.out, [options.file, *options.check])
    calibration = run(
        options.file,
        options.far,
        options.guarantee,
        independent=options.independent,
        checks=options.check,
        replicates=options.replicates,
        seed=options.seed,
        skip_empty=options.skip_empty,
        progress=_progress(),
    )
    calibration.write_json(options.out)
    return f"{calibration.text()}\n\n{options.out}: to ship it, verisphere export RUN --calibration {options.out} ..."


def export(options: argparse.Namespace) -> str:
    """Make a model folder of a run: ONNX, weights, thresholds and a model card (extra: export)."""
    from verisphere.workflows.export import export_model

    return export_model(
        options.run,
        options.out,
        name=options.name,
        calibration=options.calibration,
        evaluation=options.evaluation,
        flip=options.flip,
        with_head=options.with_head,
        template=options.template,
        trust_code=options.trust_code,
        progress=_progress(),
    ).text()


def verify(options: argparse.Namespace) -> str:
    """Decide whether two photographs, or two folders of them, show the same person."""
    from verisphere.workflows.verify import verify as run

    model, find = _model(options)
    result = run(options.left, options.right, model, find, far=options.far, progress=_progress())
    return result.json() if options.json else result.text()


def identify(options: argparse.Namespace) -> str:
    """Find who of a gallery a photograph shows, or nobody."""
    from verisphere.workflows.verify import identify as run

    model, find = _model(options)
    result = run(options.probe, options.gallery, model, find, far=options.far, top=options.top, progress=_progress())
    return result.json() if options.json else result.text()


def _model(options: argparse.Namespace) -> "tuple[Model, FindFaces]":
    """The model of `verify` and `identify`, and how it gets its faces."""
    from verisphere.embed.model_folder import load
    from verisphere.workflows.device import choose_device
    from verisphere.workflows.verify import aligned_faces, detected_faces

    device = choose_device(options.device)
    model = load(options.model, device, options.trust_code)
    size = model.backbone.input_size
    return model, aligned_faces(size) if options.aligned else detected_faces(model.template, device, options.min_face)


def report(options: argparse.Namespace) -> str:
    """Write a page with figures and plots of runs, which opens anywhere and needs no network."""
    from verisphere.data.files import refuse_overwriting
    from verisphere.workflows.calibrate import read_calibration
    from verisphere.workflows.report import make_report, subjects_of

    refuse_overwriting(options.out, [*options.runs, options.faces, options.calibration])
    return make_report(
        subjects_of(options.runs, options.faces),
        options.out,
        fars=options.far or FARS,
        one_far=options.one_far,
        title=options.title,
        calibration=None if options.calibration is None else read_calibration(options.calibration),
        progress=_progress(),
    ).text()


def evaluate_scores(options: argparse.Namespace) -> str:
    """Operating points of a scores file."""
    from verisphere.workflows import evaluate

    return _show(options, evaluate.evaluate_scores(options.scores, _options(options, options.scores)))


def evaluate_pairs(options: argparse.Namespace) -> str:
    """Accuracy and operating points of listed pairs."""
    from verisphere.workflows import evaluate

    return _show(
        options,
        evaluate.evaluate_pairs(
            options.embeddings,
            options.pairs,
            _options(options, options.embeddings, options.pairs, *options.against),
            options.against,
            options.replicates,
        ),
    )


def evaluate_all_pairs(options: argparse.Namespace) -> str:
    """Operating points over all pairs."""
    from verisphere.workflows import evaluate

    asked = _options(options, options.embeddings, *options.against)
    result = evaluate.evaluate_all_pairs(options.embeddings, asked, options.against, options.replicates)
    return _show(options, result)


def evaluate_one_threshold(options: argparse.Namespace) -> str:
    """Several domains at one threshold."""
    from verisphere.workflows import evaluate

    asked = _options(options, *options.embeddings)
    return _show(options, evaluate.evaluate_one_threshold(options.embeddings, asked, options.replicates))


def evaluate_search(options: argparse.Namespace) -> str:
    """Identification: probes searched in galleries (1:N)."""
    from verisphere.protocols.identification import FPIRS, RANKS
    from verisphere.workflows.search import SearchOptions, search_files, search_split

    _check_outputs(options, ("json", "candidates", "plot"), [options.probes, *options.gallery])
    if bool(options.top) != (options.candidates is not None):
        raise ValueError("--top says how many candidates --candidates lists: give both or neither")
    if options.closed_set and options.fpir:
        raise ValueError("--closed-set asks for ranks alone, so --fpir has no place beside it")
    asked = SearchOptions(
        fpirs=() if options.closed_set else options.fpir or FPIRS,
        ranks=options.rank or RANKS,
        rule=options.rule,
        open_rank=options.open_rank,
        top=options.top,
        screen=options.screen,
        progress=_progress(),
    )
    drawing = {name: getattr(options, name) for name in ("enrol", "strangers", "seed", "galleries")}
    drawing = {name: value for name, value in drawing.items() if value is not None}
    if options.gallery and drawing:
        raise ValueError(f"--{next(iter(drawing))} draws a gallery from one file; leave it out beside --gallery")
    if options.gallery:
        result = search_files(options.probes, options.gallery, asked)
    else:
        result = search_split(options.probes, asked, **drawing)
    for out, write in (
        (options.json, result.write_json),
        (options.candidates, result.write_candidates),
        (options.plot, result.write_plot),
    ):
        if out is not None:
            write(out)
    return result.text()


def _options(options: argparse.Namespace, *inputs: Path) -> "Options":
    """What an evaluation of these files is asked for."""
    from verisphere.workflows.evaluate import Options

    _check_outputs(options, ("json", "curve", "plot", "sweep"), [*inputs, options.calibration])
    return Options(
        fars=options.far or FARS,
        rule=options.rule,
        union=options.union,
        calibration=options.calibration,
        skip_empty=options.skip_empty,
        progress=_progress(),
        intervals=options.intervals,
        seed=options.seed,
        alpha=options.alpha,
        curve=options.curve is not None or options.plot is not None,
        processes=options.processes,
        screen=options.screen,
        device=options.device,
        sweep=options.sweep,
        points_only=options.points_only,
    )


def _check_outputs(options: argparse.Namespace, names: Sequence[str], inputs: Sequence[Path | None]) -> None:
    """Refuse, before any work, an output that cannot be written, or that takes the place of an input or of another."""
    from verisphere.data.files import check_writable, refuse_overwriting

    outputs = [out for name in names if (out := getattr(options, name)) is not None]
    for number, out in enumerate(outputs):
        refuse_overwriting(out, inputs)
        check_writable(out)
        place = out.resolve()
        if place in [other.resolve() for other in outputs[:number]]:
            listed = [f"--{name}" for name in names]
            raise ValueError(f"{out}: two of {', '.join(listed[:-1])} and {listed[-1]} would be written to it")
        for other in outputs:
            if other.resolve() in place.parents:
                raise ValueError(f"{out}: {other} above it is a file to be written, no folder; choose another name")
    if options.plot is not None and options.plot.suffix not in (".png", ".svg"):
        raise ValueError(f"{options.plot}: a picture's name must end in .png or .svg")


def _show(options: argparse.Namespace, result: "Evaluation") -> str:
    from verisphere.distributed import world

    if not world().first:
        return ""  # the first process writes and says what all have found
    if options.json is not None:
        result.write_json(options.json)
    if options.curve is not None:
        result.write_curve(options.curve)
    if options.plot is not None:
        result.write_plot(options.plot)
    return result.text()


def figures(options: argparse.Namespace) -> str:
    """Draw the pictures of docs/losses.md: curves of the losses, and small trainings."""
    from verisphere.workflows.figures import draw_figures

    return draw_figures(options.out, options.only, _progress()).text()


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and of several processes one's."""

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        if not _several() or os.environ.get("RANK", "0") == "0":
            super()._print_message(message, file)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


#: Verbs whose work is shared by the processes that a launcher starts; any other is done by the first of them alone.
_SHARED = train, embed, evaluate_all_pairs, evaluate_one_threshold

Verbs: TypeAlias = "argparse._SubParsersAction[_Parser]"


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = _parser()
    options, unknown = parser.parse_known_args(arguments)
    if options.verb in (train, sweep):
        options.overrides = unknown
    elif unknown:
        parser.error(f"unrecognised arguments: {' '.join(unknown)}")
    return options


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="verisphere", description="Face recognition, trained and measured at one threshold.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"verisphere {__version__}")
    parser.add_argument(
        "--default-allocator",
        action="store_true",
        help="leave glibc's allocator as it is (training on a CPU is two to three times slower)",
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB", parser_class=_Parser)

    verb = _verb(verbs, "demo", demo)
    verb.add_argument("--out", type=Path, default=Path("demo"), help="folder for pictures and figures (demo)")
    _device(verb)

    verb = _verb(verbs, "render", render)
    verb.add_argument("out", type=Path, metavar="OUT.zip", help="archive to write, one folder a person")
    verb.add_argument("--people", type=int, default=200, help="how many people (200)")
    verb.add_argument("--images", type=int, default=10, help="images of each (10)")
    verb.add_argument("--seed", type=int, default=0, help="another seed, other people (0)")
    verb.add_argument("--first-person", type=int, default=0, help="number of the first person (0)")
    verb.add_argument("--domain", action="append", help="capture condition; repeat for several (all)")
    verb.add_argument("--difficulty", default="medium", help="easy, medium or hard (medium)")
    verb.add_argument("--label-noise", type=float, default=0.0, help="share of images under a wrong name (0)")
    verb.add_argument("--sheet", type=Path, help="also write a contact sheet, a PNG")

    verb = _verb(verbs, "align", align)
    verb.add_argument("source", type=Path, metavar="SRC", help="folder or zip archive of photographs, at any depth")
    verb.add_argument(
        "out",
        type=Path,
        metavar="DST",
        help="folder, or .zip archive, for the crops: the photographs' paths, with the suffix of --format",
    )
    _template(verb)
    verb.add_argument(
        "--landmarks", type=Path, metavar="FILE", help="five points a face, JSON or CSV: finds none itself"
    )
    verb.add_argument("--format", choices=("png", "jpg"), default="png", help="of the crops (png)")
    _min_face(verb)
    _device(verb)

    verb = _verb(verbs, "train", train)
    verb.add_argument("recipe", type=Path, help="YAML recipe; any field can follow as --field value")
    verb.add_argument("--out", type=Path, help="folder of the run")
    verb.add_argument("--resume", action="store_true", help="go on from the run's newest checkpoint")
    verb.add_argument("--tensorboard", action="store_true", help="write TensorBoard events too (extra: track)")
    verb.add_argument(
        "--dry-run", action="store_true", help="train nothing; print what it would take in memory, work and exchanges"
    )
    verb.add_argument("--classes", type=int, metavar="N", help="of --dry-run: so many, and no data (those of the data)")
    verb.add_argument("--processes", type=int, metavar="P", help="of --dry-run: so many (as were started; 1)")
    verb.add_argument(
        "--memory", type=float, metavar="GIB", help="of --dry-run: what a process has (what this device has)"
    )
    verb.add_argument("--json", type=Path, metavar="OUT", help="of --dry-run: also write the plan as JSON")
    _device(verb)

    _grids(_verb(verbs, "sweep", sweep))

    verb = _verb(verbs, "embed", embed)
    verb.add_argument(
        "model",
        type=Path,
        help="folder of a run, checkpoint or exported model, or its .onnx; or a recipe, for its untrained network",
    )
    verb.add_argument("faces", type=Path, help="folder Name/image.jpg, zip of the same, or list of images")
    verb.add_argument("--out", type=Path, required=True, metavar="OUT.npz", help="embeddings file to write")
    verb.add_argument("--people", type=Path, help="embed only the people of this list")
    verb.add_argument(
        "--flip",
        action=argparse.BooleanOptionalAction,
        help="add the embedding of the mirror image (as an exported model was calibrated; else not)",
    )
    verb.add_argument("--batch-size", type=int, default=128, help="images at a time (128)")
    verb.add_argument("--workers", type=int, default=1, help="processes that read images (1)")
    verb.add_argument("--bfloat16", action="store_true", help="run the network in bfloat16")
    _trust_code(verb)
    _device(verb)

    text = "Measure embeddings or scores."
    evaluation = verbs.add_parser("evaluate", help=text, description=text, allow_abbrev=False)
    kinds = evaluation.add_subparsers(required=True, metavar="KIND", parser_class=_Parser)
    verb = _evaluation(kinds, "scores", evaluate_scores)
    verb.add_argument("scores", type=Path, help="CSV with the columns score,label[,domain], or .npz with these arrays")
    _curve(verb)
    verb = _evaluation(kinds, "pairs", evaluate_pairs)
    verb.add_argument("embeddings", type=Path, help="embeddings file")
    verb.add_argument("--pairs", type=Path, required=True, help="LFW pairs list, or CSV with left,right,label[,fold]")
    verb.add_argument(
        "--points-only",
        action="store_true",
        help="operating points alone, no accuracy: for lists of millions of pairs, most of which then need no score",
    )
    _against(verb)
    _redrawing(verb)
    _curve(verb)
    verb = _evaluation(kinds, "all-pairs", evaluate_all_pairs)
    verb.add_argument("embeddings", type=Path, help="embeddings file")
    _against(verb)
    _redrawing(verb)
    _curve(verb)
    _sweeping(verb)
    verb = _evaluation(kinds, "one-threshold", evaluate_one_threshold)
    verb.add_argument("embeddings", type=Path, nargs="+", help="embeddings files, each a domain; or one with domains")
    _redrawing(verb)
    _sweeping(verb)
    _search(kinds)
    _shipping(verbs)
    return parser


def _grids(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("plan", type=Path, help="YAML recipe, or plan of arms; any field can follow as --field value")
    verb.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="folder of the sweep")
    verb.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="FIELD=V1,V2,...",
        help="train every combination of these values; repeat for several fields",
    )
    verb.add_argument(
        "--seeds", type=_seeds, metavar="S1,S2,...", help="train each arm at each (the plan's, or the recipe's one)"
    )
    verb.add_argument("--jobs", type=int, default=1, metavar="N", help="trainings at a time (1)")
    verb.add_argument(
        "--threads", type=int, metavar="N", help="of each training (of several, each its share of the cores)"
    )
    verb.add_argument(
        "--replicates", type=int, default=1000, help="of the bootstrap over people, for the differences (1000)"
    )
    _device(verb)


def _seeds(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 0,1,2") from None


def _search(kinds: Verbs) -> None:
    verb = _verb(kinds, "search", evaluate_search)
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
    verb.add_argument(
        "--rule",
        choices=RULES,
        default="at_most",
        help="how the threshold is chosen; all but at_most exist to compare with published numbers",
    )
    verb.add_argument("--enrol", type=int, metavar="N", help="without --gallery: images of a person enrolled (1)")
    verb.add_argument(
        "--strangers", type=float, metavar="S", help="without --gallery: share of the people not enrolled (0.5)"
    )
    verb.add_argument("--seed", type=int, help="without --gallery: of the draw (0)")
    verb.add_argument(
        "--galleries", type=int, metavar="G", help="without --gallery: how many to draw, with the seeds that follow (1)"
    )
    verb.add_argument("--top", type=int, default=0, metavar="K", help="list each probe's K best images in --candidates")
    verb.add_argument("--candidates", type=Path, metavar="OUT.csv", help="where to list them")
    verb.add_argument("--json", type=Path, metavar="OUT", help="also write the figures as JSON")
    verb.add_argument("--plot", type=Path, metavar="OUT.png", help="also draw CMC and TPIR over FPIR (.png or .svg)")
    verb.add_argument(
        "--screen",
        choices=SCREENS,
        default="float32",
        help="type of the products that screen the pairs; the figures are the same (float32)",
    )


def _shipping(verbs: Verbs) -> None:
    """The verbs after a training: threshold, model folder, use, report."""
    verb = _verb(verbs, "calibrate", calibrate)
    verb.add_argument("file", type=Path, help="embeddings file of people the model has not seen; or a scores file")
    verb.add_argument("--out", type=Path, required=True, metavar="OUT.json", help="file for the thresholds")
    verb.add_argument("--far", action="append", required=True, metavar="F", help="target FAR; repeat for several")
    verb.add_argument(
        "--guarantee",
        choices=("expected", "confident", "approximate"),
        default="expected",
        help="expected: mean FAR on new people is at most F; confident: FAR is at most F with 95 %% confidence; "
        "approximate: of few people, by a bootstrap, without a promise (expected)",
    )
    verb.add_argument(
        "--independent", action="store_true", help="of a scores file: no two of its comparisons share a person"
    )
    verb.add_argument(
        "--check",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="also measure the thresholds on this set",
    )
    verb.add_argument("--replicates", type=int, default=1000, help="of the bootstrap of approximate (1000)")
    verb.add_argument("--seed", type=int, default=0, help="of the matching of people, or of the bootstrap (0)")
    verb.add_argument("--skip-empty", action="store_true", help="leave out domains without impostors or genuine pairs")

    verb = _verb(verbs, "export", export)
    verb.add_argument("run", type=Path, help="folder of a run, or of one checkpoint")
    verb.add_argument("--out", type=Path, required=True, metavar="MODEL", help="folder to make")
    verb.add_argument("--name", help="of the model (the run's)")
    verb.add_argument("--calibration", type=Path, metavar="FILE", help="thresholds to ship, from calibrate")
    verb.add_argument(
        "--evaluation",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="figures for the card, from evaluate --json; repeat for several",
    )
    verb.add_argument(
        "--flip",
        action=argparse.BooleanOptionalAction,
        help="the model adds the embedding of the mirror image (as it was calibrated; else not)",
    )
    verb.add_argument("--with-head", action="store_true", help="also ship the centers of the people trained on")
    _template(verb)
    _trust_code(verb)

    verb = _verb(verbs, "verify", verify)
    verb.add_argument("left", type=Path, metavar="A", help="photograph, or folder or zip archive of one person's")
    verb.add_argument("right", type=Path, metavar="B", help="the other")
    _use(verb)

    verb = _verb(verbs, "identify", identify)
    verb.add_argument("probe", type=Path, metavar="PROBE", help="photograph, or folder or archive of one person's")
    verb.add_argument("gallery", type=Path, metavar="GALLERY", help="folder or zip archive: a folder a person")
    verb.add_argument("--top", type=int, default=5, help="how many matches to list (5)")
    _use(verb)

    verb = _verb(verbs, "report", report)
    verb.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of a run, or an embeddings file")
    verb.add_argument("--out", type=Path, default=Path("report"), metavar="FOLDER", help="folder to make (report)")
    verb.add_argument(
        "--faces", type=Path, help="the images of the embeddings, for sample pairs (where embed read them)"
    )
    verb.add_argument("--far", action="append", metavar="F", help=f"target FAR; repeat ({' '.join(FARS)})")
    verb.add_argument("--one-far", default="1e-3", metavar="F", help="target FAR of the one threshold (1e-3)")
    verb.add_argument("--calibration", type=Path, metavar="FILE", help="thresholds to show, from calibrate")
    verb.add_argument("--title", help="of the page")

    verb = _verb(verbs, "figures", figures)
    verb.add_argument("out", type=Path, metavar="OUT", help="folder for the pictures, PNG and SVG")
    verb.add_argument("--only", action="append", default=[], metavar="NAME", help="one picture; repeat for several")


def _use(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--model", type=Path, required=True, help="exported model folder, with a threshold")
    verb.add_argument("--far", metavar="F", help="which of the model's thresholds, where it has several")
    verb.add_argument("--aligned", action="store_true", help="the photographs are aligned crops: look for no face")
    verb.add_argument("--json", action="store_true", help="print the result as JSON")
    _min_face(verb)
    _trust_code(verb)
    _device(verb)


def _template(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--template",
        choices=TEMPLATES,
        default=TEMPLATES[0],
        help=f"where the five points come to lie, and height x width of a crop ({TEMPLATES[0]})",
    )


def _min_face(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--min-face", type=int, default=20, metavar="PIXELS", help="smallest face looked for (20)")


def _trust_code(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--trust-code", action="store_true", help="build networks from outside verisphere: runs their code"
    )


def _verb(verbs: Verbs, name: str, run: Callable[[argparse.Namespace], str]) -> argparse.ArgumentParser:
    text = run.__doc__ or ""
    verb = verbs.add_parser(name, help=text, description=text, allow_abbrev=False)
    verb.set_defaults(verb=run)
    return verb


def _evaluation(kinds: Verbs, name: str, run: Callable[[argparse.Namespace], str]) -> argparse.ArgumentParser:
    verb = _verb(kinds, name, run)
    verb.add_argument(
        "--far",
        action="append",
        metavar="F",
        help=f"target FAR, a decimal number; repeat for several ({' '.join(FARS)})",
    )
    verb.add_argument(
        "--rule",
        choices=RULES,
        default="at_most",
        help="how the threshold is chosen; all but at_most exist to compare with published numbers",
    )
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
    verb.add_argument("--skip-empty", action="store_true", help="leave out domains without impostors or genuine pairs")
    verb.add_argument(
        "--alpha",
        type=float,
        default=0.5,
        metavar="A",
        help="weight of FAR in FDR, IR and GARBE of the domains, FRR has 1 - A (0.5)",
    )
    verb.set_defaults(
        intervals=False, seed=0, curve=None, plot=None, processes=1, screen=None, device="cpu", sweep=None
    )
    verb.set_defaults(points_only=False)
    return verb


def _against(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--against",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="another model's embeddings of the same images: the difference, with its interval",
    )


def _redrawing(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--intervals",
        action="store_true",
        help="redraw people: the 95 %% interval of TAR, threshold and FAR that respects who is in several pairs",
    )
    verb.add_argument(
        "--replicates", type=int, default=1000, help="bootstrap replicates of --intervals and --against (1000)"
    )
    verb.add_argument("--seed", type=int, default=0, help="of the redrawing (0)")


def _sweeping(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--processes", type=int, default=1, help="how many compare the pairs; the figures are the same (1)"
    )
    verb.add_argument(
        "--screen",
        choices=SCREENS,
        help="type of the products that screen the pairs; the figures are the same (the fastest, by a sample)",
    )
    verb.add_argument("--device", default="cpu", help="where the pairs are compared: cpu, cuda or cuda:1 (cpu)")
    verb.add_argument(
        "--sweep",
        type=Path,
        metavar="FILE",
        help="keep the comparison in this file every 20 seconds; an interrupted one goes on from it",
    )


def _curve(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--curve",
        type=Path,
        metavar="OUT.csv",
        help="also write the ROC and DET curve: threshold, FAR, TAR, FRR and their counts, FAR descending",
    )
    verb.add_argument("--plot", type=Path, metavar="OUT.png", help="also draw ROC and DET (.png or .svg)")


def _device(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--device", help="cpu, cuda, cuda:1 ... (a GPU where there is one)")


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


def _fail(code: int, message: str) -> int:
    """The exit code, once the message is on standard error; of several processes that have it, from one of them."""
    from verisphere.workflows.processes import first_to_say

    if first_to_say(message):
        with contextlib.suppress(OSError):
            print(f"verisphere: {message}", file=sys.stderr, flush=True)
    return code


def _several() -> bool:
    """Whether a launcher has started several processes; asked before torch is loaded."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def _terminated(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
