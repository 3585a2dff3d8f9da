"""The verbs after a calibration: `export`, `verify`, `identify` and `report`."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verisphere.base.words import DROP_FARS, FARS, SMALLER_PRECISIONS
from verisphere.cli.calibrating import add_accept_training_people, add_accept_unrecorded, model_and_faces
from verisphere.cli.dry_run import add_cost, cost_of_rows
from verisphere.cli.evaluation_options import add_far, refuse_unread
from verisphere.cli.messages import progress, show
from verisphere.cli.parsing import (
    SET,
    TEMPLATES,
    Outcome,
    Verbs,
    add_names,
    add_photographs,
    add_trust_code,
    new_verb,
    options_as,
)
from verisphere.cli.results import add_input, add_output
from verisphere.cli.working import add_work

if TYPE_CHECKING:
    from verisphere.models.folder import Model
    from verisphere.ship.face_search import FindFaces
    from verisphere.ship.identify import Identification
    from verisphere.ship.living.enrolment import Claim
    from verisphere.ship.model_file import ScoreOnly
    from verisphere.ship.verify import Verification


def export(options: argparse.Namespace) -> Outcome:
    """Make a model folder of a run: ONNX, weights, thresholds and a model card (extra: export)."""
    from verisphere.ship.export import export_model
    from verisphere.ship.smaller import export_smaller

    if options.leak is not None and options.precision is not None:
        raise ValueError("--leak measures the network in float32; omit it with --precision")
    if options.precision is None:
        for name in ("measured_on", "far", "people", "names"):
            flag, value = f"--{name.replace('_', '-')}", vars(options)[name]
            if value is not None:
                raise ValueError(f"{flag} is for --precision, whose drop of TAR it measures; omit it, or give both")
        return options_as(export_model, options, progress=progress())
    if options.with_head:
        raise ValueError(f"--with-head ships a head in float32; a model in {options.precision} has none: omit it")
    if options.gallery_calibration is not None:
        raise ValueError("--gallery-calibration is of the smaller network itself: make it first, then export it again")
    if options.measured_on is None:
        raise ValueError(
            f"--precision {options.precision} changes scores; give --measured-on FACES, aligned faces to measure the "
            "drop of TAR on"
        )
    return options_as(export_smaller, options, fars=options.far or DROP_FARS, progress=progress())


def add_export(verbs: Verbs) -> None:
    """Add `export`."""
    verb = new_verb(
        verbs,
        "export",
        export,
        examples=(
            "verisphere export runs/first --calibration thresholds.json --evaluation figures.json --out model",
            "verisphere export runs/first --precision int8 --measured-on others.zip --out small",
        ),
    )
    add_names(verb)
    verb.add_argument("run", type=Path, help="folder of a run, of one checkpoint, or of an adopted or smaller model")
    verb.add_argument("--out", type=Path, required=True, metavar="MODEL", help="folder to make")
    verb.add_argument("--name", help="of the model (the run's)")
    add_input(verb, "--calibration", "thresholds to ship, from calibrate")
    add_input(verb, "--gallery-calibration", "threshold of a gallery to ship, from calibrate --gallery")
    add_input(verb, "--evaluation", "figures for the card, from evaluate --json; repeat for several", several=True)
    add_input(verb, "--leak", "figures of what the model reveals, for the card, from leak")
    verb.add_argument(
        "--flip",
        action=argparse.BooleanOptionalAction,
        help="the model adds the embedding of the mirror image (as it was calibrated; else not)",
    )
    verb.add_argument("--with-head", action="store_true", help="also ship the centers of the people trained on")
    verb.add_argument(
        "--precision",
        choices=SMALLER_PRECISIONS,
        help="make a smaller network, whose thresholds are its own: embed with the folder, calibrate, and export it",
    )
    add_input(
        verb,
        "--measured-on",
        f"aligned faces on which the drop of TAR by --precision is measured: {SET}",
        metavar="SET",
    )
    verb.add_argument("--people", type=Path, metavar="LIST", help="measure only on the people of this list")
    add_far(verb, DROP_FARS, "target FAR at which it is measured")
    verb.add_argument(
        "--template",
        metavar="NAME",
        help=f"positions of the five points in aligned faces: {', '.join(TEMPLATES)}; at other sizes any name "
        f"(that of a model folder, of a run {TEMPLATES[0]})",
    )
    add_accept_training_people(verb)
    add_accept_unrecorded(verb, "take files")
    add_trust_code(verb)


def verify(options: argparse.Namespace) -> str:
    """Decide whether two photographs, or two folders of them, show the same person; exit code 2 without a verdict."""
    from verisphere.ship.model_file import ScoreOnly
    from verisphere.ship.verify import verify as run

    model, find = _model(options, options.left, options.right)
    accept, told = options.accept_drawn_model, progress()
    result = options_as(run, options, model=model, find=find, accept_drawn=accept, progress=told)
    if isinstance(result, ScoreOnly):
        show(shown(result, options))
        raise SystemExit(2)
    return shown(result, options)


def add_verify(verbs: Verbs) -> None:
    """Add `verify`."""
    verb = new_verb(
        verbs,
        "verify",
        verify,
        examples=(
            "verisphere verify one.jpg other.jpg --model net.onnx",
            "verisphere verify ann/ unknown.jpg --model model --far 1e-3 --json",
        ),
    )
    verb.add_argument("left", type=Path, metavar="A", help="photograph, or folder or zip archive of one person's")
    verb.add_argument("right", type=Path, metavar="B", help="the other")
    verb.add_argument(
        "--probability",
        type=float,
        metavar="PRIOR",
        help="also print the probability that both show one person, if it was PRIOR before, such as 0.5",
    )
    _use(verb)


def identify(options: argparse.Namespace) -> Outcome:
    """Find the person of a gallery whom a photograph shows, or nobody."""
    from verisphere.files.gallery_store import is_gallery
    from verisphere.ship.deciding import Choice
    from verisphere.ship.identify import identify as run
    from verisphere.ship.identify import identify_each
    from verisphere.ship.opened_gallery import is_embeddings

    named = options.probe, options.gallery
    photographs = [path for path in named if not is_embeddings(path) and not is_gallery(path)]
    if options.each is not None:
        refuse_unread(options, ("top",), "--each lists one person for each probe")
        if options.explain:
            raise ValueError("--explain does nothing here: --each answers in a file, and --json has the exact wording")
    elif options.probe not in photographs:
        raise ValueError(f"{options.probe}: rows of embeddings are many probes; name a file for them by --each")
    model, find = _model(options, *photographs)
    choice = options_as(Choice, options, accept_drawn=options.accept_drawn_model)
    shared: dict[str, Any] = {"model": model, "find": find, "choice": choice, "progress": progress()}
    if options.each is None:
        return shown(options_as(run, options, **shared), options)
    found = identify_each(options.probe, options.gallery, **shared)
    found.write_each(options.each)
    return found.json() if options.json else found.text()


def add_identify(verbs: Verbs) -> None:
    """Add `identify`."""
    verb = new_verb(
        verbs,
        "identify",
        identify,
        examples=(
            "verisphere identify unknown.jpg people/ --model model",
            "verisphere identify crop.png gallery.npz --model model --aligned --top 3",
        ),
    )
    add_names(verb)
    add_probe(verb)
    add_input(verb, "gallery", "folder or zip archive: a folder a person; or an embeddings file", metavar="GALLERY")
    add_input(
        verb, "--calibration", "the calibration of this gallery, from calibrate --gallery (that of the model folder)"
    )
    verb.add_argument("--fpir", metavar="F", help="FPIR of the threshold to use, if the gallery has several")
    add_input(verb, "--cohort", "the cohort of this calibration, if it has one")
    verb.add_argument(
        "--accept-pair-threshold",
        action="store_true",
        help="accept a threshold for two photographs by which a stranger is found with a chance of more than 10 %%",
    )
    _use(verb)


def add_probe(verb: argparse.ArgumentParser) -> None:
    """Add the probe of a verb that identifies it, and how the answers are listed."""
    what = "photograph, or folder or archive of one person's; with --each of many people's, or an embeddings file"
    add_input(verb, "probe", what, metavar="PROBE")
    each = "take each photograph as a probe by itself, and list the answers"
    add_output(verb, "--each", metavar="OUT.csv", help=each)
    verb.add_argument("--top", type=int, help="how many matches to list (5)")


def _model(options: argparse.Namespace, *photographs: Path) -> "tuple[Model, FindFaces]":
    return model_and_faces(options, photographs, others=True, files=True)


def shown(result: "Verification | ScoreOnly | Identification | Claim", options: argparse.Namespace) -> str:
    """A result as JSON or as text, as the options ask."""
    if options.json and options.explain:
        raise ValueError("--json has the exact wording that --explain prints; omit one")
    return result.json() if options.json else result.text(explain=options.explain)


def _use(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--far", metavar="F", help="FAR of the threshold to use, if the model has several")
    add_use(verb, "exported model folder, with a threshold; or an ONNX file, for a first look (docs/first_minute.md)")


def add_use(verb: argparse.ArgumentParser, model: str = "exported model folder, with a threshold") -> None:
    """Add the options of a verb that compares photographs by a model."""
    verb.add_argument("--model", type=Path, required=True, help=model)
    verb.add_argument(
        "--explain",
        action="store_true",
        help="also print the exact wording: what is promised about whom, and where the rates were measured",
    )
    verb.add_argument("--json", action="store_true", help="print the result as JSON, with the exact wording")
    verb.add_argument(
        "--accept-drawn-model",
        action="store_true",
        help="accept a model that was trained or calibrated on drawn faces, which promises nothing about photographs",
    )
    add_photographs(verb)


def report(options: argparse.Namespace) -> Outcome:
    """Write a page with figures and plots of runs, which opens anywhere and needs no network."""
    from verisphere.files.gallery_calibration import read_thresholds
    from verisphere.measure.report import make_report, report_inputs
    from verisphere.ship.notes import sealed_calibration

    shipped = next(filter(None, map(sealed_calibration, options.runs)), None)
    return options_as(
        make_report,
        options,
        inputs=report_inputs(options.runs, options.faces, options.trust_code, progress()),
        fars=options.far or FARS,
        calibration=shipped if options.calibration is None else read_thresholds(options.calibration),
        progress=progress(),
    )


def _embedded(options: argparse.Namespace) -> dict[str, list[Path]]:
    """The embeddings that a report shows; those that a model folder would make are not known yet."""
    from verisphere.measure.report_inputs import files_of
    from verisphere.models.folder import is_model_folder

    files = [file for file, run in files_of(options.runs) if file != run]
    if not files or (makes := next(filter(is_model_folder, files), None)):
        which = f"{makes}: a model folder, whose" if files else f"{options.runs[0]}: a run without embeddings, whose"
        raise ValueError(f"{which} rows are not there yet; embed --dry-run says what they take")
    return {"paths": files}


def add_report(verbs: Verbs) -> None:
    """Add `report`."""
    verb = new_verb(
        verbs,
        "report",
        report,
        examples=(
            "verisphere report runs/first --out report",
            "verisphere report new.npz old.npz --faces faces.zip --calibration thresholds.json",
        ),
    )
    add_names(verb)
    verb.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="folder of a run, an embeddings file, or a model folder"
    )
    add_output(verb, "--out", folder=True, default=Path("report"), metavar="FOLDER", help="folder to make (report)")
    add_input(
        verb,
        "--faces",
        f"images of the embeddings, for sample pairs, and to embed by a model folder: {SET} (where embed read them)",
        metavar="SET",
    )
    add_trust_code(verb)
    add_far(verb, what="target FAR")
    verb.add_argument("--one-far", default="1e-3", metavar="F", help="target FAR of the one threshold (1e-3)")
    add_input(
        verb, "--calibration", "thresholds to show, from calibrate (those of the first model folder that ships any)"
    )
    verb.add_argument("--title", help="of the page")
    verb.add_argument("--degrees", action="store_true", help="draw scores as angles in degrees (ArcFace, figure 10)")
    add_work(verb)
    add_cost(verb, cost_of_rows("report", "runs", lists=_embedded))
