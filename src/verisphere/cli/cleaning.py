"""Cleaning: `clean`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verisphere.cli.messages import progress
from verisphere.cli.parsing import Verbs, add_device, add_names, add_trust_code, new_verb, options_as, refuse_misspelt
from verisphere.words import did_you_mean, printable

if TYPE_CHECKING:
    from verisphere.clean.found import Found
    from verisphere.clean.rules import Rule
    from verisphere.images.faces import Faces

_METHODS = ("sub-centers", "class-mean", "mean-of-others", "dbscan")
_ANGLE = 75.0
#: Options of the methods that clean embeddings alone.
_OF_METHOD = {"sub-centers": ("sub_centers", "restarts", "seed"), "dbscan": ("eps", "min_samples")}
_OF_EMBEDDINGS = ("method", *(name for names in _OF_METHOD.values() for name in names))


def clean(options: argparse.Namespace) -> str:
    """Find samples with wrong labels, and write the list of those to keep, which `train` reads."""
    from verisphere.clean.cleaning import Cleaning
    from verisphere.clean.page import write_result
    from verisphere.clean.truth import truth_of_list
    from verisphere.collectives import on_every_rank, on_first_rank
    from verisphere.distributed import world
    from verisphere.files.disk import refuse_overwriting
    from verisphere.files.work import result_folder

    if options.batch_size < 1:
        raise ValueError(f"--batch-size {options.batch_size}: allowed is 1 image at a time or more")
    rule = _rule(options)
    if options.recipe is not None:
        return _loop(options, rule)
    run, data = _inputs(options)
    inputs = [run, data, options.embeddings, options.truth, options.faces]
    on_every_rank(lambda: refuse_overwriting(options.out, inputs))
    with result_folder(options.out) as work:
        found, faces = _found(options, run, data, work)
        if options.truth is not None:
            found = found.with_truth(on_every_rank(lambda: truth_of_list(options.truth, found.names)))
        cleaning = Cleaning.by(rule, found)
        title = str(options.embeddings if run is None else run)
        on_first_rank(lambda: write_result(cleaning, faces, options.out, title))
    if not world().first:
        return ""
    out = printable(str(options.out))
    made = f"{out}: kept.txt, clean.json, index.html; next: verisphere train RECIPE --data.labels {out}/kept.txt"
    return f"{cleaning.text()}\n{made}"


def _found(
    options: argparse.Namespace, run: Path | None, data: Path | None, work: Path
) -> "tuple[Found, Faces | None]":
    """The findings of the chosen method, and the images if they are given."""
    from verisphere.clean.from_run import WITHOUT_HEAD, found_in_run
    from verisphere.collectives import on_every_rank
    from verisphere.device import choose_device
    from verisphere.distributed import world
    from verisphere.images.detect.unaligned import warn_if_unaligned
    from verisphere.images.loader import MOST_WORKERS
    from verisphere.models.described_faces import open_faces
    from verisphere.models.embed import open_model
    from verisphere.models.run_head import open_head

    device = choose_device(options.device)
    if data is None:
        pictures = (
            None
            if options.faces is None
            else on_every_rank(lambda: open_faces(options.faces, trust=options.trust_code))
        )
        return _found_in_file(options, run), pictures
    assert run is not None
    workers = 1 if options.workers is None else options.workers
    if not 0 <= workers <= MOST_WORKERS:
        raise ValueError(f"--workers {workers}: allowed are 0 to {MOST_WORKERS} processes that read images")

    def opened() -> Any:
        size = open_model(open_head(run, WITHOUT_HEAD).checkpoint.path, device, options.trust_code).backbone.input_size
        return open_faces(data, None, size, options.trust_code)

    faces = on_every_rank(opened)
    if world().first:
        warn_if_unaligned(faces)
    found = found_in_run(
        run,
        faces,
        device=device,
        batch_size=options.batch_size,
        workers=workers,
        trust=options.trust_code,
        work=work,
        rank_1=options.rank_1,
        progress=progress(),
    )
    return found, faces


def _found_in_file(options: argparse.Namespace, run: Path | None) -> "Found":
    """The findings in embeddings, by the sub-centers of a run or by a method for embeddings alone."""
    if run is not None:
        from verisphere.clean.from_run import found_by_centers
        from verisphere.device import choose_device

        return found_by_centers(
            run,
            options.embeddings,
            device=choose_device(options.device),
            rank_1=options.rank_1,
            progress=progress(),
        )
    from verisphere.clean.from_embeddings import found_in_embeddings

    used = options.method or _METHODS[0]
    for method, names in _OF_METHOD.items():
        if method != used and (idle := [name for name in names if getattr(options, name) is not None]):
            raise ValueError(f"--{idle[0].replace('_', '-')} is for --method {method}, not for {used}; omit it")
    given = {name: value for name in _OF_EMBEDDINGS if (value := getattr(options, name)) is not None}
    return found_in_embeddings(options.embeddings, **given, progress=progress())


def _loop(options: argparse.Namespace, rule: "Rule") -> str:
    """Train with sub-centers, clean, train anew."""
    from verisphere.clean.loop import CLEANED, FIRST, SECOND, CleanOptions, clean_loop
    from verisphere.distributed import world
    from verisphere.files.metrics import METRICS, read_metrics
    from verisphere.measure.validation import validation_figures
    from verisphere.report.outcome import training_outcome
    from verisphere.train.recipe import Recipe

    refuse_misspelt(options, Recipe)
    words = list(options.overrides)
    if words and not words[0].startswith("--"):
        raise ValueError(f"--recipe makes a run of its own: omit {printable(words[0])}, or omit --recipe")
    for name in ("embeddings", "faces", "method", "restarts", "eps", "min_samples"):
        if getattr(options, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} is not for --recipe, which cleans by the run that it trains")
    # both are options of this verb and fields of a recipe
    words += [f"--{name}={value}" for name in ("seed", "workers") if (value := getattr(options, name)) is not None]
    asked = options_as(CleanOptions, options, rule=rule)
    cleaning = options_as(
        clean_loop, options, overrides=words, options=asked, measure=validation_figures, progress=progress()
    )
    if not world().first:
        return ""
    done = f"{CLEANED}: finished before, see {printable(str(options.out / CLEANED))}/clean.json"
    texts = [done if cleaning is None else cleaning.text()]
    for name in (FIRST, SECOND):
        outcome = training_outcome(read_metrics(options.out / name / METRICS)).text()
        texts += [f"{name} training: {outcome}"] if outcome else []
    return "\n".join([*texts, f"{printable(str(options.out))}: {FIRST} (a run), {CLEANED}, {SECOND} (a run)"])


def _rule(options: argparse.Namespace) -> "Rule":
    """The rule of the options; for DBSCAN, whose clusters have no angle, by default the largest cluster alone."""
    from verisphere.clean.rules import Rule

    by_cluster = options.method == "dbscan"
    angle = vars(options).get("angle", None if by_cluster else _ANGLE)
    return Rule(angle, options.only_dominant or by_cluster, options.min_images)


def _inputs(options: argparse.Namespace) -> tuple[Path | None, Path | None]:
    """RUN and DATA; None for one that is not given."""
    words = options.overrides
    if unknown := next((word for word in words if word.startswith("-")), None):
        name = unknown.partition("=")[0]
        near = did_you_mean(name, options.parser.options())
        raise ValueError(f"there is no option {printable(name)}{near}; fields of a recipe are for --recipe")
    if len(words) > 2:
        raise ValueError(f"{len(words)} names where RUN and DATA are two; the third is {printable(words[2])}")
    run, data = (Path(words[place]) if len(words) > place else None for place in range(2))
    if options.embeddings is None and data is None:
        missing = "RUN and DATA" if run is None else "DATA, the data that the run was trained on,"
        raise ValueError(f"{missing} missing: clean RUN DATA, clean [RUN] --embeddings FILE, or clean --recipe RECIPE")
    if options.embeddings is not None and data is not None:
        raise ValueError("DATA and --embeddings are both given; the embeddings are those of the data: omit one")
    if run is not None and (given := [name for name in _OF_EMBEDDINGS if getattr(options, name) is not None]):
        raise ValueError(f"--{given[0].replace('_', '-')} is for --embeddings without RUN; a run has its sub-centers")
    if options.rank_1 and run is None:
        raise ValueError("--rank-1 compares with the classes of a run: name RUN, too")
    if options.faces is not None and options.embeddings is None:
        raise ValueError("--faces is for --embeddings; with DATA the pictures are those of DATA")
    return run, data


def _angle(text: str) -> float | None:
    if text == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of degrees nor none") from None


def add_clean(verbs: Verbs) -> None:
    """Add `clean`."""
    verb = new_verb(
        verbs,
        "clean",
        clean,
        shared=True,
        any_field=True,  # RUN and DATA, too: argparse would take the value of a field for an optional RUN
        less_memory="lower --batch-size or --workers",
        examples=(
            "verisphere clean runs/k3 faces.zip --out cleaned",
            "verisphere clean --recipe recipe.yaml --out loop --epochs 8",
        ),
    )
    add_names(verb)
    verb.usage = (
        "verisphere clean RUN DATA --out FOLDER\n       verisphere clean [RUN] --embeddings FILE --out FOLDER"
        "\n       verisphere clean --recipe RECIPE --out FOLDER [--field value ...]"
    )
    verb.add_argument_group(
        "RUN and DATA",
        "RUN: folder of a run, or of one of its checkpoints; its sub-centers divide the images of each person. DATA: "
        "the images that it was trained on, as `embed` takes them",
    )
    verb.add_argument(
        "--out", type=Path, required=True, metavar="FOLDER", help="folder to make: kept.txt, clean.json, a page"
    )
    verb.add_argument(
        "--embeddings",
        type=Path,
        metavar="FILE",
        help="embeddings instead of DATA, made by the network of RUN; without RUN of any network",
    )
    verb.add_argument(
        "--recipe",
        metavar="RECIPE",
        help="the whole loop: train with sub-centers, clean, train with one center a class; any field can follow",
    )
    verb.add_argument(
        "--angle",
        type=_angle,
        default=argparse.SUPPRESS,
        metavar="DEGREES",
        help=f"drop samples beyond this angle to the dominant sub-center of their identity; none drops none "
        f"({_ANGLE:g}; with dbscan none)",
    )
    verb.add_argument(
        "--only-dominant",
        action="store_true",
        help="also drop samples that are nearer to another sub-center (always with dbscan)",
    )
    verb.add_argument(
        "--min-images",
        type=int,
        default=1,
        metavar="N",
        help="drop identities of which fewer images are left as a whole (1)",
    )
    verb.add_argument("--truth", type=Path, metavar="LIST", help="list of labels that states true_identity")
    verb.add_argument(
        "--faces",
        type=Path,
        metavar="DATA",
        help="with --embeddings: the images, for pictures",
    )
    verb.add_argument(
        "--rank-1",
        action="store_true",
        help="also report for how many images the nearest class is their own, with all sub-centers and the dominant "
        "ones alone: images x classes x sub-centers products",
    )
    verb.add_argument(
        "--method",
        choices=_METHODS,
        help="of --embeddings alone: what divides the images of an identity (sub-centers)",
    )
    verb.add_argument(
        "--sub-centers", type=int, metavar="K", help="for each identity; of --embeddings alone, or of --recipe (3)"
    )
    verb.add_argument("--restarts", type=int, metavar="N", help="of --embeddings alone: further starts of k-means (10)")
    verb.add_argument("--seed", type=int, help="of --embeddings alone (0), or of --recipe")
    verb.add_argument(
        "--eps", type=float, metavar="DISTANCE", help="of dbscan: largest cosine distance of neighbours (0.65)"
    )
    verb.add_argument(
        "--min-samples", type=int, metavar="N", help="of dbscan: neighbours of a core image, itself included (2)"
    )
    verb.add_argument("--batch-size", type=int, default=128, help="images at a time (128)")
    verb.add_argument("--workers", type=int, help="processes that read images (1, or those of the recipe)")
    add_trust_code(verb)
    add_device(verb)
