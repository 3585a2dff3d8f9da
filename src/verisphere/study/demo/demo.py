"""The demo: synthetic faces, a training, figures on unseen people, a threshold, a model folder, in a few minutes.

Three disjoint groups of people are used: for the training, for the threshold, and for measuring.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from verisphere.base.device import choose_device
from verisphere.base.vocabulary import Progress, printable, quietly
from verisphere.decide import Guarantee, GuaranteedThreshold, exact_rate
from verisphere.files.disk import write_text
from verisphere.files.embeddings import write_embeddings
from verisphere.files.results import json_text
from verisphere.files.streamed_rows import evaluated
from verisphere.images.decoded_faces import in_memory
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces, contact_sheet
from verisphere.measure.evaluate import Evaluation
from verisphere.measure.protocols.all_pairs import AllPairsResult, all_pairs
from verisphere.measure.report import ReportInput, make_report
from verisphere.measure.validation import validation_figures
from verisphere.models.embed import embed, open_model
from verisphere.models.onnx_file import require_export
from verisphere.report.plots import save_image
from verisphere.report.tables import number, one_threshold_table, small, table
from verisphere.ship.calibrate import Calibration, calibrate
from verisphere.ship.export import CARD, export_model
from verisphere.train.loop import TrainingStopped
from verisphere.train.recipe import read_recipe
from verisphere.train.session import train_run

log = logging.getLogger(__name__)

FARS = ("1e-2", "1e-3", "1e-4")
ONE_FAR = "1e-3"
SYNTHETIC = "verisphere.images.SyntheticFaces"
GROUP = (
    12_000  # people from the start of one group to that of the next: a multiple of the cycles of domains and families
)


@dataclass(frozen=True)
class DemoSize:
    """The size of the demo; the tests run a small one.

    Figures are measured on unseen `people`, and thresholds set on further ones with one image each.
    """

    people: int = 1_000
    images: int = 3
    calibration_people: int = 6_000
    shipped_fars: tuple[str, ...] = ("1e-2", "1e-3")
    guarantee: Guarantee = "confident"
    overrides: tuple[str, ...] = ()


def run_demo(
    out: Path, *, device: str | None = None, progress: Progress = quietly, size: DemoSize | None = None
) -> str:
    """Run the demo; if `out` is not empty, the next free number is appended to its name."""
    require_export()
    size = DemoSize() if size is None else size
    started = time.monotonic()
    out = free_folder(out)
    with as_file(files("verisphere.study.demo") / "demo.yaml") as path:
        read = read_recipe(path, list(size.overrides))
    try:
        train_run(read, out / "run", measure=validation_figures, device=device, progress=progress)
    except TrainingStopped as stopped:
        stopped.advice = "but a demo does not continue: the same command starts another"
        raise

    trained_on = read.recipe.data
    assert isinstance(trained_on, SyntheticFaces)
    place, workers = choose_device(device), read.recipe.workers
    model = open_model(out / "run", place)
    others = _others(trained_on, 2, size.calibration_people, 1)
    calibration_file, test_file = out / "calibration_people.npz", out / "embeddings.npz"
    write_embeddings(
        calibration_file, embed(model, others, SYNTHETIC, batch_size=256, workers=workers, progress=progress)
    )
    unseen = _others(trained_on, 1, size.people, size.images)
    faces = in_memory(unseen, workers, progress)
    sets = {
        "trained": embed(model, faces, SYNTHETIC, progress=progress),
        "untrained": embed(open_model(out / "run" / "recipe.yaml", place), faces, SYNTHETIC, progress=progress),
    }
    results = {name: all_pairs(embeddings, FARS, progress=progress) for name, embeddings in sets.items()}
    write_embeddings(test_file, sets["trained"])
    write_text(out / "figures.json", json_text(results))
    trained = results["trained"]
    source = evaluated(test_file, sets["trained"])
    evaluation = Evaluation(trained.operating_points, (source,), one_threshold=trained.one_threshold)
    evaluation.write_json(out / "evaluation.json")

    calibration = calibrate(calibration_file, size.shipped_fars, size.guarantee, checks=[test_file], progress=progress)
    calibration.write_json(out / "calibration.json")
    export_model(
        out / "run",
        out / "model",
        name="demo",
        calibration=out / "calibration.json",
        evaluation=[out / "evaluation.json"],
        progress=progress,
    )
    report = make_report(
        [
            ReportInput("trained", sets["trained"], str(test_file), out / "run", faces),
            ReportInput("untrained", sets["untrained"], "the same network with its start weights", None, faces),
        ],
        out / "report",
        fars=FARS,
        one_far=ONE_FAR,
        title=f"Demo: {len(faces.people)} synthetic people the model has not seen",
        calibration=calibration,
        progress=progress,
    )
    save_image(contact_sheet(unseen, min(8, len(unseen.people)), min(10, unseen.images_each)), out / "faces.png")
    left, right = _pair(out / "pair", unseen)
    shipped = out / "model"
    log.info("the demo took %.0f s", time.monotonic() - started)
    places = [
        f"page:    {report.page}",
        f"faces:   {out / 'faces.png'}",
        f"model:   {shipped}, its card: {shipped / CARD}",
        f"try:     verisphere verify {left} {right} --model {shipped} --far {size.shipped_fars[-1]} --aligned "
        "--accept-drawn-model",
    ]
    return "\n\n".join([_text(results), _shipped(calibration), "\n".join(map(printable, places))])


def _others(trained_on: SyntheticFaces, group: int, people: int, images: int) -> SyntheticFaces:
    """Another group of people, drawn in the same way, with higher numbers than those of all earlier groups."""
    after = trained_on.first_person + len(trained_on.people)
    return SyntheticFaces(
        people,
        images,
        trained_on.seed,
        trained_on.domain_names,
        trained_on.difficulty,
        first_person=GROUP * (-(-after // GROUP) + group - 1),
    )


def _pair(folder: Path, unseen: SyntheticFaces) -> tuple[Path, Path]:
    """Save two images of the first person, to try `verify`."""
    paths = folder / "first.png", folder / "second.png"
    for path, image in zip(paths, unseen.images([0, 1]), strict=True):
        save_image(image, path)
    return paths


def free_folder(out: Path) -> Path:
    """The folder itself where it is absent or empty, else its name with the next free number."""
    folder, number_ = out, 1
    while folder.exists() and any(folder.iterdir()):
        number_ += 1
        folder = out.with_name(f"{out.name}-{number_}")
    return folder


def _shipped(calibration: Calibration) -> str:
    """The exported thresholds, and their figures on the unseen people."""
    measured = calibration.checks[-1]
    rows = [
        [
            shipped.far_target,
            shipped.guarantee,
            number(shipped.threshold, 6),
            f"{shipped.comparisons:,}",
            small(point.far),
            f"{small(point.far_lower_95)} .. {small(point.far_upper_95)}",
            number(point.tar),
        ]
        for shipped, point in zip(calibration.thresholds, measured.points, strict=True)
    ]
    header = ["FAR promised", "guarantee", "threshold", "comparisons", "FAR measured", "95 % bounds", "TAR measured"]
    lines = [
        f"shipped thresholds, set on {calibration.source.people:,} further people; measured on the unseen ones",
        table(header, rows),
        calibration.thresholds[-1].meaning(),
    ]
    missed = [
        shipped
        for shipped, point in zip(calibration.thresholds, measured.points, strict=True)
        if point.far_lower_95 > exact_rate(shipped.far_target)
    ]
    return "\n".join([*lines, above_the_promise(missed)] if missed else lines)


def above_the_promise(missed: Sequence[GuaranteedThreshold]) -> str:
    """The reason why measured FARs, one or more, may exceed the target, by the guarantee that all of them have."""
    if missed[0].guarantee == "confident":
        promised = "with 95 % confidence, up to one calibration in twenty lies above its target"
    else:
        promised = "; ".join(f"at FAR {shipped.far_target}, {shipped.meaning()}" for shipped in missed)
    return (
        f"measured above the promise: {', '.join(shipped.far_target for shipped in missed)}. What is promised: "
        f"{promised}; and among few people a larger share of the pairs are relatives than among many, which the "
        "promise does not count on"
    )


def _text(results: dict[str, AllPairsResult]) -> str:
    trained, untrained = results["trained"], results["untrained"]
    assert trained.one_threshold is not None
    rows = [
        [
            ours.far_target,
            number(theirs.tar),
            number(ours.tar),
            f"{number(ours.tar_lower_95)} .. {number(ours.tar_upper_95)}",
            number(ours.threshold),
            f"{ours.impostor_accepted:,} / {ours.impostor_total:,}",
            f"{small(ours.far_lower_95)} .. {small(ours.far_upper_95)}",
        ]
        for ours, theirs in zip(trained.operating_points, untrained.operating_points, strict=True)
    ]
    header = ["FAR target", "TAR untrained", "TAR trained", "95 % bounds", "threshold", "impostors", "FAR 95 % bounds"]
    common = next(threshold for threshold in trained.one_threshold if threshold.far_target == ONE_FAR)
    return f"{table(header, rows)}\n\n{one_threshold_table(common)}"
