"""The export of a run as a model folder: weights, ONNX, thresholds and a card, written completely or not at all."""

import errno
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

import verisphere
from verisphere.backbones.backbone import Backbone
from verisphere.base.vocabulary import Progress, TrainingRecord, printable, quietly
from verisphere.files.calibration import Calibration
from verisphere.files.disk import digest, real_path, write_whole
from verisphere.files.documents import read_json
from verisphere.files.gallery_calibration import GalleryCalibration
from verisphere.files.results import Result
from verisphere.images.detect import TEMPLATES
from verisphere.models.checkpoint import Checkpoint, read_checkpoint
from verisphere.models.embed import open_model
from verisphere.models.folder import is_model_folder, load
from verisphere.models.image_sources import recorded_sources
from verisphere.models.model_json import (
    GALLERY,
    NAME,
    WEIGHTS,
    Description,
    FileDigest,
    model_json,
    preprocessing,
    read_model_json,
    taken_pixels,
)
from verisphere.models.onnx_file import Agreement, InputFormat, compare_onnx, read_onnx, require_export, write_onnx
from verisphere.models.trained_on import FILE, of_checkpoint, write_trained_on
from verisphere.report.gallery_tables import gallery_thresholds_table
from verisphere.report.tables import number, table
from verisphere.ship.card import CALIBRATION, HEAD, ONNX, RECIPE, model_card
from verisphere.ship.card_files import read_settings
from verisphere.ship.card_leak import LEAK
from verisphere.ship.export_inputs import (
    Results,
    check_measured_flip,
    check_same_template,
    refuse_place,
    say_flip,
    shipped_origin,
)

CARD = "model_card.md"
_TEMPLATE = "arcface_112x112"  # of a run, where none is asked for


@dataclass(frozen=True)
class ExportResult(Result):
    """The result of an export.

    Attributes:
        folder: the model folder.
        description: the content of its `model.json`.
        agreement: the difference between `model.onnx` and the network; None where the network is a graph or a function.
        notes: notes for users of the model.
        measured: further lines on what was measured of a smaller model.
        gallery: the calibration of a gallery that was shipped with it, if any.
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

    Args:
        run: folder of a run (its newest checkpoint), of one checkpoint, or of an adopted or smaller model.
        out: the folder to make.
        name: name of the model; by default that of the run folder.
        calibration: thresholds to ship, a file of `verisphere calibrate`; None ships no threshold.
        gallery_calibration: thresholds of a gallery to ship, a file of `verisphere calibrate --gallery`.
        evaluation: figures for the card, files of `verisphere evaluate --json`.
        leak: figures of what the model reveals, for the card, a file of `verisphere leak`.
        flip: the model adds the embedding of the mirror image; by default as in the calibration, without one as in the
            model folder, or False for a run. A smaller model keeps the flip with which it was measured.
        with_head: also ship the head, whose centers are biometric templates of the people trained on.
        template: template of the aligned faces: a name in `verisphere.images.detect.TEMPLATES`, or another name where
            no template there has the input size of the network. By default that of the model folder, or
            `arcface_112x112` for a run.
        accept_training_people: accept a calibration on people or images that the model was trained on; the model then
            says first that its thresholds promise nothing.
        trust_code: also build a backbone class from outside verisphere, which runs its code.
        accept_unrecorded_pixels: take a calibration and figures of a version that did not record the pixels that the
            model took.
        progress: reports the progress over the steps.
    """
    require_export()
    refuse_place(out, [run], [calibration, gallery_calibration, leak, *evaluation])
    results = Results(calibration, gallery_calibration, evaluation, leak)
    if not accept_training_people:
        results.refuse_training_people()
    if is_model_folder(run):
        before = read_model_json(run / NAME)
        if before.adopted is None and before.reduced is None:
            raise ValueError(f"{run}: an exported model already; export the run or checkpoint that it came from")
        if with_head:
            kind = "an adopted model" if before.reduced is None else f"a model in {before.reduced.precision}"
            raise ValueError(f"{run}: {kind} has no head; omit --with-head")
        check_same_template(template, run, before)
        return _export_folder(run, out, name, results, flip, trust_code, accept_unrecorded_pixels, progress)
    checkpoint = read_checkpoint(run)
    backbone, description = described_run(checkpoint, name, template, trust_code)
    thresholds = () if results.calibrated is None else results.calibrated.thresholds
    description = replace(description, flip=results.flip(flip), thresholds=thresholds)
    own = shipped_origin(
        checkpoint.sha256["backbone"], backbone, description.template, description.flip, description.precision
    )
    results.check(checkpoint.path, own, accept_unrecorded_pixels)
    copies = _copies(checkpoint, results, with_head)
    finished: list[tuple[Description, Agreement | None]] = []
    divided = checkpoint.tensors("head") if with_head and checkpoint.shards else None
    record = of_checkpoint(checkpoint)

    def write(partial: Path) -> None:
        partial.mkdir()
        write_trained_on(partial / FILE, record)
        finished.append(_write(partial, description, backbone, copies, divided, trust_code, progress))

    write_whole(out, write)
    notes = (*notes_on(description, results.calibrated, RECIPE in copies, with_head), *results.notes())
    return ExportResult(out, *finished[0], notes, gallery=results.promised)


def described_run(
    checkpoint: Checkpoint, name: str | None, template: str | None, trust_code: bool
) -> tuple[Backbone, Description]:
    """The network of a checkpoint on the CPU, and its `model.json` without thresholds and mirror images."""
    backbone = open_model(checkpoint.path, torch.device("cpu"), trust_code).backbone
    template = _TEMPLATE if template is None else template
    check_template(template, backbone)
    return backbone, Description(
        name=run_folder(checkpoint).name if name is None else name,
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


def _export_folder(
    folder: Path,
    out: Path,
    name: str | None,
    results: Results,
    flip: bool | None,
    trust_code: bool,
    accept_unrecorded: bool,
    progress: Progress,
) -> ExportResult:
    """An adopted or smaller model again, with thresholds and figures; from weights of ours also with `model.onnx`."""
    model = load(folder, "cpu", trust_code)  # raises where a file was changed
    before = read_model_json(folder / NAME)
    calibrated = results.calibrated
    added = results.flip(flip, before.flip)
    own = shipped_origin(model.sha256, model.backbone, model.template, added, model.precision)
    results.check(folder, own, accept_unrecorded)
    check_measured_flip(added, folder, before)
    say_flip(added, folder, before)
    copies = carried(folder, before) | results.copies()
    about = replace(
        before,
        name=before.name if name is None else name,
        verisphere=verisphere.__version__,
        flip=added,
        thresholds=() if calibrated is None else calibrated.thresholds,
        files={before.weights: before.files[before.weights]},
    )
    finished: list[tuple[Description, Agreement | None]] = []

    def write(partial: Path) -> None:
        partial.mkdir()
        if before.weights == WEIGHTS:
            finished.append(_write(partial, about, model.backbone, copies, None, trust_code, progress))
            return
        for copied, source in copies.items():
            shutil.copyfile(source, partial / copied)
        files = {name: file_digest(partial / name) for name in copies}
        if files[before.weights] != before.files[before.weights]:
            raise ValueError(f"{folder / before.weights} changed while it was copied")
        finished.append((write_description(partial, replace(about, files=files)), None))
        load(partial, "cpu", trust_code)

    write_whole(out, write)
    notes = (*notes_on(finished[0][0], calibrated, recipe=True, with_head=False), *results.notes())
    return ExportResult(out, *finished[0], notes, gallery=results.promised)


def carried(folder: Path, description: Description) -> dict[str, Path]:
    """The files of a model folder that belong to its network, by their names: the weights, and what describes them."""
    made_anew = {CARD, CALIBRATION, GALLERY, LEAK, ONNX, HEAD}
    return {
        name: folder / name
        for name in description.files
        if name not in made_anew and not name.startswith("evaluation-")
    }


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
    backbone: Backbone,
    copies: dict[str, Path],
    divided: dict[str, Tensor] | None,
    trust_code: bool,
    progress: Progress,
) -> tuple[Description, Agreement]:
    """Writes all files of the folder, in an order in which each can name those before it, and checks them.

    A head that several ranks saved in shards is given as tensors (`divided`), and is written to one file.
    """
    about = InputFormat(
        size=backbone.input_size,
        template=description.template,
        flip=description.flip,
        embedding_size=backbone.embedding_size,
        backbone=description.files[WEIGHTS].sha256,
        verisphere=description.verisphere,
        inside=taken_pixels(backbone),
    )

    def copy() -> None:
        for name, source in copies.items():
            shutil.copyfile(source, folder / name)
        if divided is not None:
            try:
                save_file(divided, folder / HEAD)
            except SafetensorError as error:  # such as a full disk
                raise OSError(errno.EIO, f"cannot be written: {error}", str(folder / HEAD)) from None

    def convert() -> None:
        write_onnx(folder / ONNX, backbone, about)

    steps: list[Callable[[], None]] = [copy, convert]
    for step in progress(steps, "exporting", len(steps)):
        step()
    made = [name for name in (HEAD, FILE) if (folder / name).is_file() and name not in copies]
    names = [WEIGHTS, ONNX, *(name for name in copies if name != WEIGHTS), *made]
    files = {name: file_digest(folder / name) for name in names}
    if files[WEIGHTS] != description.files[WEIGHTS]:
        raise ValueError(f"{copies[WEIGHTS]} changed while it was copied; is a training writing there?")
    whole = write_description(folder, replace(description, files=files))
    return whole, compare_onnx(read_onnx(folder / ONNX), load(folder, "cpu", trust_code))


def _copies(
    checkpoint: Checkpoint,
    results: Results,
    with_head: bool,
) -> dict[str, Path]:
    """The files that are copied into the folder, by their names there; each is checked before any work."""
    copies = {WEIGHTS: checkpoint.path / WEIGHTS}
    if with_head:
        checkpoint.tensors("head")  # raises where it is damaged
        if not checkpoint.shards:
            copies[HEAD] = checkpoint.path / HEAD
    recipe = run_folder(checkpoint) / RECIPE
    if recipe.is_file():
        read_settings(recipe)
        copies[RECIPE] = recipe
    return copies | results.copies()


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
    """Notes for users of a model; of a run without a known recipe, and one with its head inside, it is said too."""
    notes = [warning for threshold in description.thresholds[:1] if (warning := threshold.warning())]
    if calibration is None:
        notes.append("no calibration was given, so this model ships no threshold and `verisphere verify` refuses it")
    elif calibration.origin is None:
        notes.append("nothing ties the thresholds to this model: the calibration does not say which one it is of")
    drawn = description.training.drawn or any(
        threshold.calibrated_on is not None and threshold.calibrated_on.drawn for threshold in description.thresholds
    )
    if drawn:
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
