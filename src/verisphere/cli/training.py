"""Training: `demo`, `train` and `experiment`."""

import argparse
from pathlib import Path

from verisphere.base.words import printable
from verisphere.cli.dry_run import add_dry_run, dry_run_options, is_dry_run
from verisphere.cli.messages import progress, show
from verisphere.cli.parsing import Outcome, Verbs, add_device, new_verb, options_as, refuse_misspelt
from verisphere.cli.threads import threads_argument

_REPLICATES = 1000
_LESS_MEMORY = (
    "lower batch_size, raise accumulate (a batch in parts), or choose engine: streamed and in_memory: false; --dry-run "
    "says beforehand what a training takes"
)


def demo(options: argparse.Namespace) -> str:
    """Render synthetic faces, train on them, and evaluate on people the model has not seen."""
    from verisphere.study.demo.demo import run_demo

    return run_demo(options.out, device=options.device, progress=progress())


def add_demo(verbs: Verbs) -> None:
    """Add `demo`."""
    verb = new_verb(verbs, "demo", demo, examples=("verisphere demo", "verisphere demo --out first"))
    verb.add_argument("--out", type=Path, default=Path("demo"), help="folder for pictures and figures (demo)")
    add_device(verb)


def train(options: argparse.Namespace) -> Outcome:
    """Train according to a recipe, beside teachers where it names some."""
    from verisphere.base.distributed import world
    from verisphere.files.metrics import METRICS, read_metrics
    from verisphere.measure.validation import validation_figures
    from verisphere.report.outcome import training_outcome
    from verisphere.train.recipe import Recipe, read_training
    from verisphere.train.session import train_run

    refuse_misspelt(options, Recipe)
    if is_dry_run(options, ("out", "resume", "tensorboard")):
        return _dry_run(options)
    read = read_training(options.recipe, options.overrides)
    options_as(train_run, options, read=read, measure=validation_figures, progress=progress())
    if not world().first:
        return ""
    outcome, run = training_outcome(read_metrics(options.out / METRICS)).text(), printable(str(options.out))
    trained = f"{run}: trained; next: verisphere embed {run} FACES --out EMBEDDINGS.npz"
    return f"{outcome}\n{trained}" if outcome else trained


def _dry_run(options: argparse.Namespace) -> Outcome:
    """The cost of a training on as many processes as were started; rank 0 computes and writes it."""
    from verisphere.base.distributed import world
    from verisphere.train.dry_run.one_training import dry_run

    if not world().first:
        return ""
    return dry_run(options.recipe, options.overrides, dry_run_options(options, world().size))


def add_train(verbs: Verbs) -> None:
    """Add `train`."""
    verb = new_verb(
        verbs,
        "train",
        train,
        shared=True,
        any_field=True,
        examples=(
            "verisphere train photos --data.path aligned --out runs/first",
            "verisphere train distillation/lfw --distill.teachers '[runs/lfw]' --out small",
        ),
        less_memory=_LESS_MEMORY,
    )
    verb.add_argument(
        "recipe",
        type=Path,
        help="YAML recipe, or a name that `verisphere recipes` lists; any field can follow as --field value",
    )
    verb.add_argument("--out", type=Path, help="folder of the run")
    verb.add_argument("--resume", action="store_true", help="continue from the run's newest checkpoint")
    verb.add_argument("--tensorboard", action="store_true", help="write TensorBoard events too (extra: track)")
    add_dry_run(verb, "the memory, work and communication that the training would take")
    add_device(verb)
    verb.formatter_class = argparse.RawDescriptionHelpFormatter
    # from a text, since importing the recipe's class takes seconds
    text = Path(__file__).with_name("recipe_fields.txt").read_text(encoding="utf-8")
    verb.add_argument_group("fields of a recipe, which may follow, each with its default", text)


def experiment(options: argparse.Namespace) -> Outcome:
    """Train a grid of recipe fields, or named arms, and report the differences beyond chance."""
    from verisphere.base.distributed import launched
    from verisphere.study.experiments.arms import read_experiment
    from verisphere.study.experiments.dry_run import experiment_cost
    from verisphere.study.experiments.experiment import run_experiment
    from verisphere.study.experiments.run import Launch
    from verisphere.train.recipe import Recipe

    refuse_misspelt(options, Recipe)
    if launched():
        raise ValueError("an experiment starts its trainings itself: start it without torchrun (--jobs trains several)")
    dry_run = is_dry_run(options, ("out", "replicates"))
    replicates = _REPLICATES if options.replicates is None else options.replicates
    read = read_experiment(options.file, options.overrides, options.grid, options.seeds)
    if dry_run:
        return experiment_cost(read, dry_run_options(options), options.jobs)
    result = run_experiment(read, options.out, options_as(Launch, options), replicates=replicates, progress=progress())
    show(result.text())  # finished results are shown even if something failed
    result.check()
    return f"{printable(str(options.out))}: results.csv, results.json, plots; a run in runs/ARM/seed-S each"


def add_experiment(verbs: Verbs) -> None:
    """What `experiment` takes."""
    verb = new_verb(
        verbs,
        "experiment",
        experiment,
        any_field=True,
        examples=(
            "verisphere experiment recipe.yaml --grid loss.margin=0.2,0.4 --seeds 0,1,2 --out margins",
            "verisphere experiment experiments/arcface_table_2 --dry-run --classes 10572 --images 494414",
        ),
        threads=None,
        less_memory="lower --jobs, --replicates, or the images of the sets",
    )
    verb.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="YAML: a recipe, or an experiment of named arms; or a name that `verisphere recipes` lists; any field can "
        "follow as --field value",
    )
    verb.add_argument("--out", type=Path, metavar="FOLDER", help="folder of the experiment")
    verb.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="FIELD=V1,V2,...",
        help="train every combination of these values; repeat for several fields",
    )
    verb.add_argument(
        "--seeds",
        type=_seeds,
        metavar="S1,S2,...",
        help="train each arm at each (those of the file, or the recipe's one)",
    )
    verb.add_argument("--jobs", type=int, default=1, metavar="N", help="trainings at a time (1)")
    verb.add_argument(
        "--threads",
        type=threads_argument,
        metavar="N|auto",
        help="CPU threads of each training; auto: its share of the idle cores (with --jobs its share of all cores)",
    )
    verb.set_defaults(threads_here=False)
    verb.add_argument(
        "--replicates", type=int, help=f"of the bootstrap over people, for the differences ({_REPLICATES:d})"
    )
    add_dry_run(verb, "its trainings, and the steps, work and memory of each and of all", processes=False)
    add_device(verb)


def _seeds(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 0,1,2") from None
