"""The further inputs of an export, a calibration and figures: checked to belong to the model, and copied."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from verisphere.backbones.backbone import Backbone
from verisphere.base.provenance import ANY_DETECTOR, check_recorded, check_same_origin
from verisphere.base.vocabulary import Origin
from verisphere.base.words import SMALLER_PRECISIONS
from verisphere.files.calibration import Calibration, read_calibration
from verisphere.files.disk import real_path, refuse_overwriting
from verisphere.files.gallery_calibration import GalleryCalibration, read_gallery_calibration
from verisphere.files.leak_figures import read_leak
from verisphere.models.model_json import GALLERY, Description, taken_pixels
from verisphere.ship.calibration_check import refuse_templates, refuse_trained_sources
from verisphere.ship.card import CALIBRATION
from verisphere.ship.card_files import read_figures
from verisphere.ship.card_sections import LEAK

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
    alignment = f"{template} by {ANY_DETECTOR}"
    return Origin(weights, flip, precision, "", alignment=alignment, preprocessing=taken_pixels(network))


def check_same(
    model: Path,
    own: Origin,
    calibration: Calibration | None,
    file: Path | None,
    evaluation: Sequence[Path],
    accept_unrecorded: bool,
) -> None:
    """Refuse thresholds and figures of another model, or of the same model in another way."""
    if calibration is not None:
        of_checks = [(f"{file}: its check on {check.source.file}", check.origin) for check in calibration.checks]
        for named, theirs in ((file, calibration.origin), *of_checks):
            smaller = theirs is not None and own.precision != theirs.precision
            advice = _advice(own.precision, theirs.precision) if theirs is not None and smaller else _AGAIN
            check_same_origin(f"{model} embeds", own, named, theirs, advice)
            check_recorded(named, theirs, accept_unrecorded)
    alike = [] if calibration is None else [(file, calibration.origin)]
    for path in evaluation:
        for evaluated in read_figures(path).sources:
            named = Path(f"{path}: {evaluated.file}")
            check_same_origin(f"{model} embeds", own, named, evaluated.origin, "evaluate embeddings of this model")
            check_recorded(named, evaluated.origin, accept_unrecorded)
            for other, origin in alike:  # the model itself records no detector
                check_same_origin(f"{other} was", origin, named, evaluated.origin, "evaluate what was calibrated alike")
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
        check_same(model, own, self.calibrated, self.calibration, self.evaluation, accept_unrecorded)
        if self.calibration is not None and self.calibrated is not None:
            refuse_templates(self.calibration, self.calibrated.sources)
        if self.gallery is not None and self.promised is not None:
            refuse_templates(self.gallery, [self.promised.strangers])
            for origin in filter(None, (self.promised.origin, self.promised.gallery_origin)):
                check_same_origin(f"{model} embeds", own, self.gallery, origin, _AGAIN)
                check_recorded(self.gallery, origin, accept_unrecorded)
        if self.leak is not None:  # whether the mirror image is added may differ
            tested = read_leak(self.leak)
            theirs = replace(own, model=tested.sha256, preprocessing=tested.preprocessing)
            check_same_origin(f"{model} is", own, self.leak, theirs, "test this model")
            check_recorded(self.leak, theirs, accept_unrecorded)

    def notes(self) -> tuple[str, ...]:
        """What weakens the threshold of a gallery."""
        if self.promised is None:
            return ()
        return tuple(note for note in (self.promised.thresholds[0].warning(), self.promised.untied) if note)

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
