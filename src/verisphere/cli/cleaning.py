"""Wrong labels, found, dropped and made: `clean` and its verbs."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from verisphere.base.words import printable
from verisphere.cli.evaluation_options import refuse_unread
from verisphere.cli.labels import add_labels
from verisphere.cli.messages import progress
from verisphere.cli.parsing import (
    SET,
    Parser,
    Run,
    Verbs,
    add_device,
    add_names,
    add_trust_code,
    new_verb,
    options_as,
    refuse_misspelt,
)
from verisphere.cli.results import add_output

if TYPE_CHECKING:
    from verisphere.images.faces import Faces
    from verisphere.study.clean.cleaning import Cleaning
    from verisphere.study.clean.rules import Rule
    from verisphere.study.clean.sub_classes import SamplesInSubClasses

_METHODS = ("sub-centers", "class-mean", "mean-of-others", "dbscan")
_ANGLE = 75.0
#: Options that one method alone reads.
_OF_METHOD = {"sub-centers": ("sub_centers", "restarts", "seed", "only_dominant"), "dbscan": ("eps", "min_samples")}


def clean_run(options: argparse.Namespace) -> str:
    """Find wrong labels by the sub-centers of a run, and list the samples to keep, which `train` reads."""
    from verisphere.base.collectives import on_every_rank
    from verisphere.base.device import choose_device
    from verisphere.base.distributed import world
    from verisphere.images.detect.unaligned import warn_if_unaligned
    from verisphere.images.loader import MOST_WORKERS
    from verisphere.models.described_faces import open_faces
    from verisphere.models.embed import open_model
    from verisphere.models.run_head import open_head
    from verisphere.study.clean.from_run import WITHOUT_HEAD, found_by_centers, found_in_run
    from verisphere.study.clean.loop import CleanOptions, clean_folder

    asked = options_as(CleanOptions, options, rule=_rule(options))
    device, trust = choose_device(options.device), options.trust_code
    workers = 1 if options.workers is None else options.workers
    if not 0 <= workers <= MOST_WORKERS:
        raise ValueError(f"--workers {workers}: allowed are 0 to {MOST_WORKERS} processes that read images")

    def opened() -> "Faces":
        checkpoint = open_head(options.run, WITHOUT_HEAD).checkpoint.path
        return open_faces(options.data, None, open_model(checkpoint, device, trust).backbone.input_size, trust)

    def find(work: Path) -> "tuple[SamplesInSubClasses, Faces | None]":
        how = {"device": device, "rank_1": options.rank_1, "progress": progress()}
        if options.embeddings is not None:
            refuse_unread(options, ("batch_size", "workers"), "--embeddings takes the place of the images")
            pictures = on_every_rank(lambda: _pictures(options))
            return found_by_centers(options.run, options.embeddings, trust=trust, **how), pictures
        refuse_unread(options, ("faces",), "the pictures are those of DATA")
        faces = on_every_rank(opened)
        if world().first:
            warn_if_unaligned(faces)
        found = found_in_run(
            options.run, faces, batch_size=asked.batch_size, workers=workers, trust=trust, work=work, **how
        )
        return found, faces

    return _said(clean_folder(options.out, asked, find, str(options.run)), options.out)


def clean_embeddings(options: argparse.Namespace) -> str:
    """Find wrong labels in embeddings of any network, and list the samples to keep, which `train` reads."""
    from verisphere.study.clean.from_embeddings import found_in_embeddings
    from verisphere.study.clean.loop import CleanOptions, clean_folder

    for method, names in _OF_METHOD.items():
        if method != options.method:
            refuse_unread(options, names, f"it is for --method {method}, not for {options.method}")
    asked = options_as(CleanOptions, options, rule=_rule(options, by_cluster=options.method == "dbscan"))

    def find(_: Path) -> "tuple[SamplesInSubClasses, Faces | None]":
        pictures = _pictures(options)
        return options_as(found_in_embeddings, options, path=options.embeddings, progress=progress()), pictures

    return _said(clean_folder(options.out, asked, find, str(options.embeddings)), options.out)


def clean_loop(options: argparse.Namespace) -> str:
    """Train with sub-centers, clean by them, and train anew with one center a class."""
    from verisphere.base.distributed import world
    from verisphere.files.metrics import METRICS, read_metrics
    from verisphere.measure.validation import validation_figures
    from verisphere.report.outcome import training_outcome
    from verisphere.study.clean.loop import CLEANED, FIRST, SECOND, CleanOptions
    from verisphere.study.clean.loop import clean_loop as run
    from verisphere.train.recipe import Recipe

    refuse_misspelt(options, Recipe)
    asked = options_as(CleanOptions, options, rule=_rule(options))
    cleaning = options_as(run, options, options=asked, measure=validation_figures, progress=progress())
    if not world().first:
        return ""
    done = f"{CLEANED}: finished before, see {printable(str(options.out / CLEANED))}/clean.json"
    texts = [done if cleaning is None else cleaning.text()]
    for name in (FIRST, SECOND):
        outcome = training_outcome(read_metrics(options.out / name / METRICS)).text()
        texts += [f"{name} training: {outcome}"] if outcome else []
    return "\n".join([*texts, f"{printable(str(options.out))}: {FIRST} (a run), {CLEANED}, {SECOND} (a run)"])


def _rule(options: argparse.Namespace, by_cluster: bool = False) -> "Rule":
    """The rule of the options; for DBSCAN, whose clusters have no angle, by default the largest cluster alone."""
    from verisphere.study.clean.rules import Rule

    angle = vars(options).get("angle", None if by_cluster else _ANGLE)
    return Rule(angle, options.only_dominant is not None or by_cluster, options.min_images)


def _pictures(options: argparse.Namespace) -> "Faces | None":
    from verisphere.models.described_faces import open_faces

    return None if options.faces is None else open_faces(options.faces, trust=options.trust_code)


def _said(cleaning: "Cleaning", out: Path) -> str:
    """The result, and what can be done with it; rank 0 says it."""
    from verisphere.base.distributed import world

    name = printable(str(out))
    made = f"{name}: kept.txt, clean.json, index.html; next: verisphere train RECIPE --data.labels {name}/kept.txt"
    return f"{cleaning.text()}\n{made}" if world().first else ""


def _angle(text: str) -> float | None:
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of degrees nor none") from None


def add_clean(verbs: Verbs) -> None:
    """Add `clean` and its verbs."""
    text = "Find, drop and make wrong labels: in a set, between two sets, or to measure what they cost."
    clean = verbs.add_parser(
        "clean",
        help=text,
        description=text,
        examples=(
            "verisphere clean run runs/k3 faces.zip --out cleaned",
            "verisphere clean duplicates faces.npz --faces faces.zip --out twice",
        ),
        hint=lambda word: (
            f" (did you mean verisphere clean {'embeddings' if word.endswith('.npz') else 'run'} {word}?)"
        ),
    )
    kinds = clean.add_subparsers(required=True, metavar="VERB", parser_class=Parser)
    _add_run(kinds)
    _add_embeddings(kinds)
    _add_loop(kinds)
    add_labels(kinds)


def _add_run(kinds: Verbs) -> None:
    verb = _cleaning(
        kinds,
        "run",
        clean_run,
        "verisphere clean run runs/k3 faces.zip --out cleaned",
        "verisphere clean run runs/k3 --embeddings faces.npz --out cleaned",
    )
    verb.add_argument(
        "run",
        type=Path,
        metavar="RUN",
        help="folder of a run, or of one of its checkpoints; its sub-centers divide the images of each person",
    )
    group = verb.add_mutually_exclusive_group(required=True)
    group.add_argument("data", type=Path, nargs="?", metavar="DATA", help=f"what the run was trained on: {SET}")
    what = "embeddings file of DATA, made by the network of RUN, in its place"
    group.add_argument("--embeddings", type=Path, metavar="FILE", help=what)
    _add_pictures(verb)
    _add_reading(verb)
    verb.add_argument("--workers", type=int, metavar="N", help="processes that read images (1)")
    add_trust_code(verb)


def _add_embeddings(kinds: Verbs) -> None:
    verb = _cleaning(
        kinds,
        "embeddings",
        clean_embeddings,
        "verisphere clean embeddings faces.npz --faces faces.zip --out cleaned",
        "verisphere clean embeddings faces.npz --method dbscan --out cleaned",
        shared=False,
    )
    verb.add_argument("embeddings", type=Path, metavar="EMBEDDINGS", help="embeddings file, of any network")
    _add_pictures(verb)
    verb.add_argument(
        "--method",
        choices=_METHODS,
        default=_METHODS[0],
        help="what divides the images of an identity (sub-centers); dbscan drops all outside of its largest cluster",
    )
    verb.add_argument("--sub-centers", type=int, metavar="K", help="of each identity, for sub-centers (3)")
    verb.add_argument("--restarts", type=int, metavar="N", help="further starts of k-means, for sub-centers (10)")
    verb.add_argument("--seed", type=int, help="of these starts (0)")
    verb.add_argument(
        "--eps", type=float, metavar="DISTANCE", help="largest cosine distance of neighbours, for dbscan (0.65)"
    )
    verb.add_argument(
        "--min-samples", type=int, metavar="N", help="neighbours of a core image, itself included, for dbscan (2)"
    )
    add_trust_code(verb)


def _add_loop(kinds: Verbs) -> None:
    verb = _cleaning(
        kinds,
        "loop",
        clean_loop,
        "verisphere clean loop recipe.yaml --out loop --epochs 8",
        "verisphere clean loop photos --out loop --data.path aligned --subcenters 5",
        any_field=True,
    )
    verb.add_argument(
        "recipe", metavar="RECIPE", help="YAML recipe, or a name that `verisphere recipes` lists; any field can follow"
    )
    _add_reading(verb)


def _cleaning(
    kinds: Verbs, name: str, run: Run, *examples: str, shared: bool = True, any_field: bool = False
) -> argparse.ArgumentParser:
    """A verb that cleans, with the options that each of them reads."""
    verb = new_verb(
        kinds,
        name,
        run,
        examples=examples,
        shared=shared,
        any_field=any_field,
        less_memory="lower --batch-size or --workers",
    )
    add_names(verb)
    what = "folder to make: kept.txt, clean.json, a page; of the loop two runs, too"
    add_output(verb, "--out", folder=True, required=True, metavar="FOLDER", help=what)
    verb.add_argument(
        "--angle",
        type=_angle,
        default=argparse.SUPPRESS,
        metavar="DEGREES",
        help=f"drop samples beyond this angle to the dominant sub-center of their identity; none drops none "
        f"({_ANGLE:g}; with dbscan none)",
    )
    what = "also drop samples that are nearer to another sub-center"
    verb.add_argument("--only-dominant", action="store_const", const=True, help=what)
    what = "drop identities of which fewer images are left as a whole (1)"
    verb.add_argument("--min-images", type=int, default=1, metavar="N", help=what)
    verb.add_argument("--truth", type=Path, metavar="LIST", help="list of labels that states true_identity")
    return verb


def _add_pictures(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--faces", type=Path, metavar="SET", help=f"the images of the embeddings, for pictures: {SET}")


def _add_reading(verb: argparse.ArgumentParser) -> None:
    """The options of a cleaning by the network of a run."""
    verb.add_argument(
        "--rank-1",
        action="store_true",
        help="also report for how many images the nearest class is their own, with all sub-centers and the dominant "
        "ones alone: images x classes x sub-centers products",
    )
    verb.add_argument("--batch-size", type=int, metavar="N", help="images at a time (128)")
    add_device(verb)
