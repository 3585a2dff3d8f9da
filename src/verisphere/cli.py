"""The command line: one function a verb, which returns what standard output shows. Talk goes to standard error.

Exit codes: 0 done; 2 the call or the input is wrong (one line says how); 1 a fault of ours; 130 and 143 after Ctrl-C
and SIGTERM.
"""

import argparse
import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from verisphere import __version__
from verisphere.vocabulary import RULES

if TYPE_CHECKING:  # loaded by the verbs that need them: `verisphere --help` should not wait for torch
    from verisphere.workflows.evaluate import Evaluation, Options

DEFAULT_FARS = ("1e-1", "1e-2", "1e-3", "1e-4", "1e-5", "1e-6")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        options = _parse(sys.argv[1:] if arguments is None else list(arguments))
        from verisphere.report.progress import log_to_terminal
        from verisphere.workflows.device import keep_memory

        if not options.default_allocator:
            keep_memory()
        log_to_terminal()
        _print(options.verb(options))
    except KeyboardInterrupt:
        return _fail(128 + signal.SIGINT, "stopped")
    except (ValueError, OSError) as error:
        if os.environ.get("VERISPHERE_TRACEBACK"):
            traceback.print_exc()
        return _fail(2, _message(error))
    except Exception as error:
        return _unforeseen(error)
    return 0


def _unforeseen(error: Exception) -> int:
    """The exit code of what is no plain error of the input."""
    import torch

    from verisphere.train.loop import TrainingStopped

    if isinstance(error, TrainingStopped):
        return _fail(128 + error.reason, "stopped; a checkpoint has been left, go on with --resume")
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return _fail(2, "memory ran out; lower the batch size, or give fewer images at a time")
    if isinstance(error, RuntimeError) and "DataLoader worker" in str(error):
        return _fail(2, f"a process that reads images was ended from outside, perhaps for want of memory: {error}")
    traceback.print_exc()
    return _fail(1, "this is a fault of verisphere, not of your input; please report it with the lines above")


def _print(text: str) -> None:
    """Print a result; a reader that leaves early, such as `head`, is no error."""
    try:
        print(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def demo(options: argparse.Namespace) -> str:
    """Render synthetic faces, train on them, and evaluate on people the model has not seen."""
    from verisphere.report.progress import shown
    from verisphere.workflows.demo import run_demo

    return run_demo(options.out, device=options.device, progress=shown)


def render(options: argparse.Namespace) -> str:
    """Render synthetic faces into a zip archive."""
    from verisphere.data.synthetic import DOMAINS, SyntheticFaces
    from verisphere.report.progress import shown
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
    return render_zip(faces, options.out, options.sheet, shown)


def train(options: argparse.Namespace) -> str:
    """Train as a recipe says."""
    from verisphere.report.progress import shown
    from verisphere.train.recipe import read_recipe
    from verisphere.workflows.train import train_run

    train_run(
        read_recipe(options.recipe, options.overrides),
        options.out,
        resume=options.resume,
        device=options.device,
        tensorboard=options.tensorboard,
        progress=shown,
    )
    return f"{options.out}: trained; next: verisphere embed {options.out} FACES --out EMBEDDINGS.npz"


def embed(options: argparse.Namespace) -> str:
    """Embed images with a trained model, or an untrained one."""
    import torch

    from verisphere.data.embeddings_file import write_embeddings
    from verisphere.data.photos import Photos
    from verisphere.embed.extract import extract
    from verisphere.report.progress import shown
    from verisphere.workflows.device import choose_device
    from verisphere.workflows.embed import open_backbone

    if options.out.suffix != ".npz":
        raise ValueError(f"--out {options.out}: an embeddings file ends in .npz")
    backbone = open_backbone(options.model, choose_device(options.device), options.trust_code)
    faces = Photos(options.faces, options.people, size=backbone.input_size)
    embeddings = extract(
        backbone,
        faces,
        batch_size=options.batch_size,
        workers=options.workers,
        flip=options.flip,
        precision=torch.bfloat16 if options.bfloat16 else torch.float32,
        progress=shown,
    )
    write_embeddings(options.out, embeddings)
    found = f"{len(faces)} images of {len(faces.people)} people, {backbone.embedding_size} numbers each"
    return f"{options.out}: {found}"


def evaluate_scores(options: argparse.Namespace) -> str:
    """Operating points of a scores file."""
    from verisphere.workflows import evaluate

    return _show(options, evaluate.evaluate_scores(options.scores, _options(options)))


def evaluate_pairs(options: argparse.Namespace) -> str:
    """Accuracy and operating points of listed pairs."""
    from verisphere.workflows import evaluate

    return _show(
        options,
        evaluate.evaluate_pairs(
            options.embeddings, options.pairs, _options(options), options.against, options.replicates
        ),
    )


def evaluate_all_pairs(options: argparse.Namespace) -> str:
    """Operating points over all pairs."""
    from verisphere.workflows import evaluate

    result = evaluate.evaluate_all_pairs(options.embeddings, _options(options), options.against, options.replicates)
    return _show(options, result)


def evaluate_one_threshold(options: argparse.Namespace) -> str:
    """Several domains at one threshold."""
    from verisphere.workflows import evaluate

    return _show(options, evaluate.evaluate_one_threshold(options.embeddings, _options(options)))


def _options(options: argparse.Namespace) -> "Options":
    from verisphere.report.progress import shown
    from verisphere.workflows.evaluate import Options

    return Options(
        fars=options.far or DEFAULT_FARS,
        rule=options.rule,
        union=options.union,
        calibration=options.calibration,
        skip_empty=options.skip_empty,
        progress=shown,
    )


def _show(options: argparse.Namespace, result: "Evaluation") -> str:
    if options.json is not None:
        result.write_json(options.json)
    return result.text()


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


Verbs: TypeAlias = "argparse._SubParsersAction[_Parser]"


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = _parser()
    options, unknown = parser.parse_known_args(arguments)
    if options.verb is train:
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

    verb = _verb(verbs, "train", train)
    verb.add_argument("recipe", type=Path, help="YAML recipe; any field can follow as --field value")
    verb.add_argument("--out", type=Path, required=True, help="folder of the run")
    verb.add_argument("--resume", action="store_true", help="go on from the run's newest checkpoint")
    verb.add_argument("--tensorboard", action="store_true", help="write TensorBoard events too (extra: track)")
    _device(verb)

    verb = _verb(verbs, "embed", embed)
    verb.add_argument("model", type=Path, help="folder of a run or checkpoint; or a recipe, for its untrained network")
    verb.add_argument("faces", type=Path, help="folder Name/image.jpg, zip of the same, or list of images")
    verb.add_argument("--out", type=Path, required=True, metavar="OUT.npz", help="embeddings file to write")
    verb.add_argument("--people", type=Path, help="embed only the people of this list")
    verb.add_argument("--flip", action="store_true", help="add the embedding of the mirror image")
    verb.add_argument("--batch-size", type=int, default=128, help="images at a time (128)")
    verb.add_argument("--workers", type=int, default=1, help="processes that read images (1)")
    verb.add_argument("--bfloat16", action="store_true", help="run the network in bfloat16")
    verb.add_argument(
        "--trust-code", action="store_true", help="build networks from outside verisphere: runs their code"
    )
    _device(verb)

    text = "Measure embeddings or scores."
    evaluation = verbs.add_parser("evaluate", help=text, description=text, allow_abbrev=False)
    kinds = evaluation.add_subparsers(required=True, metavar="KIND", parser_class=_Parser)
    verb = _evaluation(kinds, "scores", evaluate_scores)
    verb.add_argument("scores", type=Path, help="CSV with the columns score,label[,domain], or .npz with these arrays")
    verb = _evaluation(kinds, "pairs", evaluate_pairs)
    verb.add_argument("embeddings", type=Path, help="embeddings file")
    verb.add_argument("--pairs", type=Path, required=True, help="LFW pairs list, or CSV with left,right,label[,fold]")
    _against(verb)
    verb = _evaluation(kinds, "all-pairs", evaluate_all_pairs)
    verb.add_argument("embeddings", type=Path, help="embeddings file")
    _against(verb)
    verb = _evaluation(kinds, "one-threshold", evaluate_one_threshold)
    verb.add_argument("embeddings", type=Path, nargs="+", help="embeddings files, each a domain; or one with domains")
    return parser


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
        help=f"target FAR, a decimal number; repeat for several ({' '.join(DEFAULT_FARS)})",
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
    verb.add_argument("--replicates", type=int, default=1000, help="bootstrap replicates of --against (1000)")


def _device(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--device", help="cpu, cuda, cuda:1 ... (a GPU where there is one)")


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())


def _fail(code: int, message: str) -> int:
    with contextlib.suppress(OSError):
        print(f"verisphere: {message}", file=sys.stderr)
    return code


def _terminated(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
