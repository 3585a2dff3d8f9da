"""The export of a run as a model folder: weights, ONNX, thresholds and a card, written completely or not at all."""

import errno
import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

import verisphere
from verisphere.backbones.backbone import Backbone
from verisphere.base.provenance import UNTIED, check_recorded, check_same_origin
from verisphere.base.trained_on import name_digest
from verisphere.base.vocabulary import Origin, Progress, TrainingRecord, printable, quietly
from verisphere.base.words import SMALLER_PRECISIONS
from verisphere.files.calibration import Calibration, read_calibration
from verisphere.files.disk import digest, real_path, refuse_overwriting, write_whole
from verisphere.files.documents import read_json
from verisphere.files.gallery_calibration import GalleryCalibration, read_gallery_calibration
from verisphere.files.leak_figures import read_leak
from verisphere.files.results import Result
from verisphere.images.detect import TEMPLATES
from verisphere.models.checkpoint import Checkpoint, read_checkpoint
from verisphere.models.embed import open_model
from verisphere.models.folder import is_model_folder, load
from verisphere.models.image_sources import recorded_sources
from verisphere.models.model_json import (
    CALIBRATION,
    GALLERY,
    HEAD,
    LEAK,
    NAME,
    ONNX,
    RECIPE,
    WEIGHTS,
    Description,
    FileDigest,
    model_json,
    preprocessing,
    read_model_json,
    taken_pixels,
)
from verisphere.models.onnx_file import Agreement, InputFormat, compare_onnx, read_onnx, require_export, write_onnx
from verisphere.models.trained_on import FILE, as_tensors, of_checkpoint
from verisphere.report.calibration_tables import gallery_thresholds_table
from verisphere.report.tables import number, table
from verisphere.ship.calibration_check import refuse_templates, refuse_trained_sources
from verisphere.ship.card.card import model_card
from verisphere.ship.card.data import read_settings
from verisphere.ship.card.figures import read_figures
from verisphere.ship.card.thresholds import calibrated_on_drawn

log = logging.getLogger(__name__)

#: The part of a folder by which a run is known.
RUN = "checkpoints"
_AGAIN = "embed with this model as it is shipped, and calibrate again"


def refuse_place(out: Path, folders: Sequence[Path], files: Sequence[Path | None]) -> None:
    """Refuse, before any work, a place for a model folder in which something would be overwritten or mixed.

    The folders are read whole: the model and the faces. A run is not sealed and may hold the models made of it.
    """
    refuse_overwriting(out, [*folders, *files])
    if out.is_file():
        raise FileExistsError(f"{out}: a file, and a folder was to be written under its name; choose another name")
    for folder in folders:
        if (folder / RUN).is_dir():
            continue
        if real_path(out).is_relative_to(real_path(folder)):
            raise FileExistsError(f"{out}: lies inside {folder}, which is read here; choose a place outside it")


def shipped_origin(weights: str, network: Backbone, template: str, flip: bool, precision: str) -> Origin:
    """The origin of the embeddings that a model folder makes of faces that any detector finds."""
    return Origin(weights, flip, precision, "", preprocessing=taken_pixels(network), template=template)


def check_same(
    model: Path,
    own: Origin,
    calibration: Calibration | None,
    file: Path | None,
    evaluation: Sequence[Path],
    accept_unrecorded: bool,
    gallery: tuple[Path, GalleryCalibration] | None = None,
) -> None:
    """Refuse thresholds and figures of another model, of the same model in another way, or of crops of two kinds."""
    if calibration is not None:
        others = (check for check in calibration.checks if check.source.sha256 != calibration.source.sha256)
        of_checks = [(f"{file}: its check on {check.source.file}", check.origin) for check in others]
        for named, theirs in ((file, calibration.origin), *of_checks):
            smaller = theirs is not None and own.precision != theirs.precision
            advice = _advice(own.precision, theirs.precision) if theirs is not None and smaller else _AGAIN
            check_same_origin(f"{model} embeds", own, named, theirs, advice, said=True)
            check_recorded(named, theirs, accept_unrecorded)
    alike = list[tuple[object, Origin | None]]([] if calibration is None else [(file, calibration.origin), *of_checks])
    if gallery is not None:
        path, origins = gallery[0], [*filter(None, gallery[1].origins.values())]
        for origin in origins:
            check_same_origin(f"{model} embeds", own, path, origin, _AGAIN, said=True)
            check_recorded(path, origin, accept_unrecorded)
            for other, before in alike:
                check_same_origin(f"{other} was", before, path, origin, "calibrate both alike")
        alike += [(path, origin) for origin in origins]
    for path in evaluation:
        for evaluated in read_figures(path).made_by_models:
            named = Path(f"{path}: {evaluated.file}")
            advice = "evaluate embeddings of this model"
            check_same_origin(f"{model} embeds", own, named, evaluated.origin, advice, said=True)
            check_recorded(named, evaluated.origin, accept_unrecorded)
            for other, before in alike:  # the model itself records no detector
                check_same_origin(f"{other} was", before, named, evaluated.origin, "evaluate what was calibrated alike")
            alike.append((named, evaluated.origin))


def _advice(precision: str, theirs: str) -> str:
    """What helps against thresholds in another precision than that of the model."""
    if precision in SMALLER_PRECISIONS:
        return (
            f"embed with the {precision} folder that `verisphere export --precision {precision}` makes without "
            "--calibration, calibrate, and export that folder with --calibration"
        )
    if theirs in SMALLER_PRECISIONS:
        return f"export the {theirs} folder that made the embeddings, or embed with this model and calibrate again"
    return "embed without --bfloat16 and calibrate again"


def say_flip(flip: bool, folder: Path, before: Description) -> None:
    """Say that an adopted model's mirror image is switched on or off, by a calibration or by request."""
    if before.adopted is not None and flip != before.flip:
        now, kept = ("adds", "does not add") if flip else ("does not add", "adds")
        log.warning("%s %s the embedding of the mirror image, but the model made of it %s it", folder, kept, now)


def check_measured_flip(flip: bool, folder: Path, before: Description) -> None:
    """Refuse to ship a smaller model with another flip than that with which its drop of TAR was measured."""
    if before.reduced is not None and flip != before.flip:
        precision, measured, wanted = before.reduced.precision, str(before.flip).lower(), str(flip).lower()
        raise ValueError(
            f"{folder}: its loss in {precision} was measured with flip {measured}, so it cannot ship with flip "
            f"{wanted}, which --flip, --no-flip or the calibration asks for; make the folder again by `verisphere "
            f"export --precision {precision}` with the wanted flip"
        )


def check_same_template(asked: str | None, folder: Path, before: Description) -> None:
    """Refuse another template than that of a model folder, whose faces it was made for; None asks for none."""
    if asked is not None and asked != before.template:
        raise ValueError(
            f"{folder}: its template is {before.template}, and {asked} was asked for; a model folder keeps its own, so "
            "omit --template"
        )


@dataclass(frozen=True)
class Results:
    """The files about a model that an export takes; see `verisphere.ship.export.export_model`."""

    calibration: Path | None = None
    gallery: Path | None = None
    evaluation: Sequence[Path] = ()
    leak: Path | None = None

    @cached_property
    def calibrated(self) -> Calibration | None:
        """The calibration."""
        return None if self.calibration is None else read_calibration(self.calibration)

    @cached_property
    def promised(self) -> GalleryCalibration | None:
        """The calibration of a gallery."""
        return None if self.gallery is None else read_gallery_calibration(self.gallery)

    def refuse_training_people(self) -> None:
        """Refuse calibrations on people or images that the model was trained on."""
        if self.calibration is not None and self.calibrated is not None:
            refuse_trained_sources(self.calibration, self.calibrated.sources)
        if self.gallery is not None and self.promised is not None:
            refuse_trained_sources(self.gallery, [self.promised.strangers])

    def flip(self, asked: bool | None, otherwise: bool = False) -> bool:
        """Whether the model adds the mirror image: as requested, else as in a calibration, whose thresholds need it."""
        if asked is not None:
            return asked
        calibration = self.calibrated or self.promised
        return otherwise if calibration is None or calibration.origin is None else calibration.origin.flip

    def check(self, model: Path, own: Origin, accept_unrecorded: bool) -> None:
        """Refuse what is of another model, or of the same model in another way; see `check_same`."""
        gallery = None if self.gallery is None or self.promised is None else (self.gallery, self.promised)
        check_same(model, own, self.calibrated, self.calibration, self.evaluation, accept_unrecorded, gallery)
        if self.calibration is not None and self.calibrated is not None:
            refuse_templates(self.calibration, self.calibrated.sources)
        if self.gallery is not None and self.promised is not None:
            refuse_templates(self.gallery, [self.promised.strangers])
        if self.leak is not None:  # whether the mirror image is added may differ
            tested = read_leak(self.leak)
            theirs = replace(own, model=tested.sha256, preprocessing=tested.preprocessing)
            check_same_origin(f"{model} is", own, self.leak, theirs, "test this model", said=True)
            check_recorded(self.leak, theirs, accept_unrecorded)

    def notes(self) -> tuple[str, ...]:
        """What weakens the threshold of a gallery."""
        return () if self.promised is None else self.promised.weak

    def copies(self) -> dict[str, Path]:
        """The files by their names in the model folder."""
        copies = {} if self.calibration is None else {CALIBRATION: self.calibration}
        for path in self.evaluation:
            read_figures(path)
            name = f"evaluation-{path.stem}.json"
            if name in copies:
                raise ValueError(f"{path}: two evaluations would be called {name}; rename one of the files")
            copies[name] = path
        return copies | {name: path for name, path in ((LEAK, self.leak), (GALLERY, self.gallery)) if path is not None}


CARD = "model_card.md"
_TEMPLATE = "arcface_112x112"  # of a run, where none is asked for


@dataclass(frozen=True)
class ExportResult(Result):
    """The result of an export.

    The agreement of `model.onnx` with the network is None where the network is a graph or a function. Of a smaller
    model there are further lines on what was `measured`.
    """

    folder: Path
    description: Description
    agreement: Agreement | None
    notes: tuple[str, ...]
    measured: tuple[str, ...] = ()
    gallery: GalleryCalibration | None = None

    def text(self) -> str:
        """The files, the thresholds, and the notes."""
        files = self.description.files
        rows = [[name, f"{digest.bytes:,}", digest.sha256[:12]] for name, digest in files.items()]
        lines = [
            f"{printable(str(self.folder))}: model {self.description.name!r}, "
            f"{self.description.embedding_size} numbers an embedding",
            table(["file", "bytes", "SHA-256"], rows),
        ]
        if self.agreement is not None:
            tried = " and ".join(map(str, self.agreement.batches))
            lines.append(
                f"{ONNX} against PyTorch, batches of {tried}: cosine differs by at most {self.agreement.cosine:.1e}"
            )
        lines += [
            f"threshold {number(found.threshold, 6)} at FAR {found.far_target}: "
            f"{found.meaning(self.description.training)}; {found.misses()}"
            for found in self.description.thresholds
        ]
        lines += (
            [] if self.gallery is None else [gallery_thresholds_table(self.gallery), *map(str, self.gallery.thresholds)]
        )
        return "\n".join([*lines, *self.measured, *(f"note: {printable(note)}" for note in self.notes)])


def export_model(
    run: Path,
    out: Path,
    *,
    name: str | None = None,
    calibration: Path | None = None,
    gallery_calibration: Path | None = None,
    evaluation: Sequence[Path] = (),
    leak: Path | None = None,
    flip: bool | None = None,
    with_head: bool = False,
    template: str | None = None,
    accept_training_people: bool = False,
    trust_code: bool = False,
    accept_unrecorded_pixels: bool = False,
    progress: Progress = quietly,
) -> ExportResult:
    """Creates a model folder from a run; the folder appears only after all its files were written and checked.

    The run is the folder of one (its newest checkpoint is taken), of one checkpoint, or of an adopted or smaller model.

    Args:
        calibration: thresholds to ship, a file of `verisphere calibrate`; None ships no threshold.
        flip: the model adds the embedding of the mirror image; by default as in the calibration, without one as in the
            model folder, or False for a run. A smaller model keeps the flip with which it was measured.
        with_head: also ship the head, whose centers are biometric templates of the people trained on.
        template: template of the aligned faces: a name in `verisphere.images.detect.TEMPLATES`, or another name where
            no template there has the input size of the network. By default that of the model folder, or
            `arcface_112x112` for a run.
        accept_training_people: accept a calibration on people or images that the model was trained on; the model then
            says first that its thresholds promise nothing.
    """
    require_export()
    refuse_place(out, [run], [calibration, gallery_calibration, leak, *evaluation])
    results = Results(calibration, gallery_calibration, evaluation, leak)
    if not accept_training_people:
        results.refuse_training_people()
    folder = is_model_folder(run)
    read = _adopted if folder else _run
    source = read(run, name, template, with_head, trust_code)
    before, calibrated = source.description, results.calibrated
    added = results.flip(flip, before.flip)
    own = shipped_origin(source.weights, source.backbone, before.template, added, before.precision)
    results.check(source.path, own, accept_unrecorded_pixels)
    check_measured_flip(added, run, before)
    say_flip(added, run, before)
    copies = results.copies()
    description = replace(before, flip=added, thresholds=() if calibrated is None else calibrated.thresholds)

    def write(partial: Path) -> tuple[Description, Agreement | None]:
        partial.mkdir()
        if before.weights == WEIGHTS:
            return _write(partial, description, source, copies, trust_code, progress)
        whole = write_description(partial, replace(description, files=source.copy(partial, copies)))
        load(partial, "cpu", trust_code)
        return whole, None

    whole, agreement = write_whole(out, write)
    notes = notes_on(whole, calibrated, folder or RECIPE in source.beside, with_head)
    return ExportResult(out, whole, agreement, (*notes, *results.notes()), gallery=results.promised)


@dataclass(frozen=True, eq=False)
class ModelToShip:
    """A model to ship, on the CPU: its `model.json`, without thresholds, and the files that describe it.

    The files `beside` it are named as in the folder to create. So are the tensors of files to write: the record of the
    training of a run (a folder has its own beside it, or has none), and a head that several ranks saved in shards.
    """

    path: Path
    description: Description
    backbone: Backbone
    beside: dict[str, Path]
    tensors: dict[str, dict[str, Tensor]] = field(default_factory=dict)

    @property
    def weights(self) -> str:
        """SHA-256 of the file with the weights."""
        return self.description.files[self.description.weights].sha256

    def copy(self, folder: Path, further: dict[str, Path]) -> dict[str, FileDigest]:
        """Copy its files, and further ones, into a folder, and write its tensors; the digests of all of them."""
        copies, weights = self.beside | further, self.description.weights
        for name, original in copies.items():
            shutil.copyfile(original, folder / name)
        for name, tensors in self.tensors.items():
            try:
                save_file(tensors, folder / name)
            except SafetensorError as error:  # such as a full disk
                raise OSError(errno.EIO, f"cannot be written: {error}", str(folder / name)) from None
        files = {name: file_digest(folder / name) for name in (*copies, *self.tensors)}
        if weights in files and files[weights] != self.description.files[weights]:
            raise ValueError(f"{copies[weights]} changed while it was copied; is a training writing there?")
        return files


def of_run(run: Path, name: str | None, template: str | None, trust_code: bool) -> ModelToShip:
    """The model of a run or checkpoint, with its recipe beside it, where there is one."""
    checkpoint = read_checkpoint(run)
    backbone = open_model(checkpoint.path, torch.device("cpu"), trust_code).backbone
    template = _TEMPLATE if template is None else template
    check_template(template, backbone)
    folder = run_folder(checkpoint)
    description = Description(
        name=folder.name if name is None else name,
        verisphere=verisphere.__version__,
        torch=torch.__version__,
        backbone=checkpoint.state["backbone"],
        embedding_size=backbone.embedding_size,
        template=template,
        preprocessing=preprocessing(backbone),
        flip=False,
        thresholds=(),
        training=_training(checkpoint),
        files={WEIGHTS: FileDigest(checkpoint.sha256["backbone"], (checkpoint.path / WEIGHTS).stat().st_size)},
    )
    trained = description.training.sources[-1].template if description.training.sources else None
    if trained not in (None, template):
        log.warning("%s: was trained on faces aligned to %s, and the exported model takes %s", run, trained, template)
    beside = {RECIPE: folder / RECIPE} if (folder / RECIPE).is_file() else {}
    for recipe in beside.values():
        read_settings(recipe)
    return ModelToShip(checkpoint.path, description, backbone, beside, {FILE: as_tensors(of_checkpoint(checkpoint))})


def of_folder(
    folder: Path, before: Description, name: str | None, template: str | None, trust_code: bool
) -> ModelToShip:
    """The model of a model folder, checked to be as it was written, with all files that belong to its network."""
    check_same_template(template, folder, before)
    model = load(folder, "cpu", trust_code)
    made_anew = {CARD, CALIBRATION, GALLERY, LEAK, ONNX, HEAD}
    carried = [name for name in before.files if name not in made_anew and not name.startswith("evaluation-")]
    about = replace(
        before,
        name=before.name if name is None else name,
        verisphere=verisphere.__version__,
        thresholds=(),
        files={before.weights: before.files[before.weights]},
    )
    return ModelToShip(folder, about, model.backbone, {name: folder / name for name in carried})


def _adopted(folder: Path, name: str | None, template: str | None, with_head: bool, trust_code: bool) -> ModelToShip:
    """The model of a folder that was made without a run of ours."""
    before = read_model_json(folder / NAME)
    if before.adopted is None and before.reduced is None:
        raise ValueError(f"{folder}: an exported model already; export the run or checkpoint that it came from")
    if with_head:
        kind = "an adopted model" if before.reduced is None else f"a model in {before.reduced.precision}"
        raise ValueError(f"{folder}: {kind} has no head; omit --with-head")
    return of_folder(folder, before, name, template, trust_code)


def _run(run: Path, name: str | None, template: str | None, with_head: bool, trust_code: bool) -> ModelToShip:
    """The model of a run with its weights beside it and, where it is asked for, its head."""
    source = of_run(run, name, template, trust_code)
    beside = {WEIGHTS: source.path / WEIGHTS} | source.beside
    if not with_head:
        return replace(source, beside=beside)
    checkpoint = read_checkpoint(run)
    head = checkpoint.tensors("head")  # raises where it is damaged
    if checkpoint.people is not None:
        classes = sorted(name_digest(name, written=True) for name in checkpoint.people)
        source.tensors[FILE]["classes"] = torch.tensor(classes, dtype=torch.int64)
    if checkpoint.shards:
        return replace(source, beside=beside, tensors={HEAD: head} | source.tensors)
    return replace(source, beside={WEIGHTS: source.path / WEIGHTS, HEAD: source.path / HEAD} | source.beside)


def write_description(folder: Path, description: Description) -> Description:
    """Write the card of a model folder, then `model.json`, which seals the card too; the content of the latter."""
    fields: dict[str, Any] = read_json(model_json(description))
    (folder / CARD).write_text(model_card(fields, folder), encoding="utf-8")
    whole = replace(description, files=description.files | {CARD: file_digest(folder / CARD)})
    (folder / NAME).write_text(model_json(whole), encoding="utf-8")
    return whole


def _write(
    folder: Path,
    description: Description,
    source: ModelToShip,
    copies: dict[str, Path],
    trust_code: bool,
    progress: Progress,
) -> tuple[Description, Agreement]:
    """Writes all files of the folder, in an order in which each can name those before it, and checks them."""
    backbone = source.backbone
    about = InputFormat(
        size=backbone.input_size,
        template=description.template,
        flip=description.flip,
        embedding_size=backbone.embedding_size,
        backbone=description.files[WEIGHTS].sha256,
        verisphere=description.verisphere,
        inside=taken_pixels(backbone),
    )

    copied: dict[str, FileDigest] = {}

    def copy() -> None:
        copied.update(source.copy(folder, copies))

    def convert() -> None:
        write_onnx(folder / ONNX, backbone, about)

    steps: list[Callable[[], None]] = [copy, convert]
    for step in progress(steps, "exporting", len(steps)):
        step()
    files = {WEIGHTS: copied[WEIGHTS], ONNX: file_digest(folder / ONNX)} | copied
    whole = write_description(folder, replace(description, files=files))
    return whole, compare_onnx(read_onnx(folder / ONNX), load(folder, "cpu", trust_code))


def run_folder(checkpoint: Checkpoint) -> Path:
    """The folder of the run of a checkpoint, or of the checkpoint itself where it lies elsewhere."""
    path = real_path(checkpoint.path)
    return path.parent.parent if path.parent.name == "checkpoints" else path


def _training(checkpoint: Checkpoint) -> TrainingRecord:
    data = checkpoint.state.get("data")
    known = data if isinstance(data, dict) else {}
    recorded = {"images": known.get("images"), "people": known.get("people"), "seed": checkpoint.state.get("seed")}
    counts = {name: value if type(value) is int else None for name, value in recorded.items()}
    return TrainingRecord(checkpoint.step, **counts, sources=recorded_sources(checkpoint))


def check_template(template: str, backbone: Backbone) -> None:
    """Refuses a template of another size; for an input size without a known template, any other name is allowed."""
    size = tuple(backbone.input_size)
    fitting = [name for name, known in TEMPLATES.items() if (known.height, known.width) == size]
    if template not in fitting and (fitting or template in TEMPLATES):
        raise ValueError(
            f"template {template!r} does not fit {type(backbone).__name__}, which takes {size[0]} x {size[1]} pixels; "
            f"allowed {'are ' + ', '.join(fitting) if fitting else 'is a name of your own: none that is known fits'}"
        )


def notes_on(
    description: Description, calibration: Calibration | None, recipe: bool, with_head: bool
) -> tuple[str, ...]:
    """Notes for users of a model, also on a recipe that is not known, and on a head that is inside."""
    notes = [note for threshold in description.thresholds[:1] for note in threshold.first()]
    if calibration is None:
        notes.append("no calibration was given: it ships no threshold for two photographs, and `verify` refuses it")
    elif calibration.origin is None:
        notes.append(UNTIED)
    if description.training.drawn or calibrated_on_drawn(description.thresholds):
        notes.append(
            "drawn faces stand behind this model: its thresholds promise nothing about photographs, and `verisphere "
            "verify` and `identify` refuse it unless --accept-drawn-model is given"
        )
    if description.template not in TEMPLATES:
        notes.append(f"faces are aligned to {description.template!r} elsewhere: verisphere has no such template")
    if not recipe:
        notes.append(f"the checkpoint lies in no run with a {RECIPE}, so the card cannot say how it was trained")
    if with_head:
        notes.append("the head is inside: its centers are biometric templates of the people trained on")
    return tuple(notes)


def file_digest(path: Path) -> FileDigest:
    """Digest and length of a file."""
    return FileDigest(digest(path), path.stat().st_size)
