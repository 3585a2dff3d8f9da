"""The further inputs of an export, a calibration and figures: checked to belong to the model, and copied."""

from collections.abc import Sequence
from pathlib import Path

from verisphere.files.calibration import Calibration
from verisphere.files.disk import real_path, refuse_overwriting
from verisphere.files.leak_figures import read_leak
from verisphere.models.model_json import Description
from verisphere.ship.card import CALIBRATION
from verisphere.ship.card_files import read_figures
from verisphere.ship.card_leak import LEAK
from verisphere.words import SMALLER_PRECISIONS

#: The part of a folder by which a run is known.
RUN = "checkpoints"


def refuse_place(out: Path, folders: Sequence[Path], files: Sequence[Path | None]) -> None:
    """Refuse, before any work, a place for a model folder in which something would be overwritten or mixed.

    Args:
        out: the folder to make.
        folders: folders, or files, that are read whole: the model and the faces. A run is not sealed and may hold the
            models made of it.
        files: further files that are read; None for an optional one that was not given.

    Raises:
        FileExistsError: `out` is a file, is or holds an input, or lies inside one of `folders`.
    """
    refuse_overwriting(out, [*folders, *files])
    if out.is_file():
        raise FileExistsError(f"{out}: a file, and a folder was to be written under its name; choose another name")
    for folder in folders:
        if (folder / RUN).is_dir():
            continue
        if real_path(out).is_relative_to(real_path(folder)):
            raise FileExistsError(f"{out}: lies inside {folder}, which is read here; choose a place outside it")


def check_precision(precision: str, model: Path, calibration: Calibration, file: Path) -> None:
    """Refuse thresholds for scores in another precision than that in which the model runs.

    Args:
        precision: precision in which the model runs, as in `Origin.precision`.
        model: the model, for messages.
        calibration: the calibration.
        file: file of the calibration, for messages.

    Raises:
        ValueError: the precisions differ; names both, and a remedy.
    """
    if calibration.origin is None or calibration.origin.precision == precision:
        return
    theirs = calibration.origin.precision
    if precision in SMALLER_PRECISIONS:
        advice = (
            f"embed with the {precision} folder that `verisphere export --precision {precision}` makes without "
            "--calibration, calibrate, and export that folder with --calibration"
        )
    elif theirs in SMALLER_PRECISIONS:
        advice = f"export the {theirs} folder that made the embeddings, or embed with this model and calibrate again"
    else:
        advice = "embed without --bfloat16 and calibrate again"
    raise ValueError(
        f"{file}: its thresholds are for scores in {theirs}, but {model} is to be shipped in {precision}; {advice}"
    )


def check_same_model(weights: str, model: Path, calibration: Calibration, file: Path) -> None:
    """Refuse thresholds for another model.

    Args:
        weights: SHA-256 of the file with the model's weights.
        model: the model, for messages.
        calibration: the calibration.
        file: file of the calibration, for messages.

    Raises:
        ValueError: the calibration names other weights.
    """
    if calibration.origin is not None and calibration.origin.model != weights:
        raise ValueError(
            f"{file}: its thresholds are of the model with weights {calibration.origin.model[:12]}..., but "
            f"{model} has {weights[:12]}...; embed with this model and calibrate again"
        )


def check_same_figures(weights: str, model: Path, file: Path) -> None:
    """Refuse figures of another model; the arguments are those of `check_same_model`.

    Raises:
        ValueError: the figures are of embeddings that other weights made, or the file holds no figures.
    """
    for evaluated in read_figures(file).sources:
        if evaluated.origin is not None and evaluated.origin.model != weights:
            raise ValueError(
                f"{file}: figures of {evaluated.file}, made with the weights {evaluated.origin.model[:12]}..., but "
                f"{model} has {weights[:12]}...; evaluate embeddings made by this model"
            )


def check_same_leak(weights: str, model: Path, file: Path) -> None:
    """Refuse a test of what another model reveals; the arguments are those of `check_same_model`.

    Raises:
        ValueError: the test is of other weights, or the file holds none.
    """
    tested = read_leak(file).sha256
    if tested != weights:
        raise ValueError(
            f"{file}: what the weights {tested[:12]}... reveal, but {model} has {weights[:12]}...; test this model"
        )


def shipped_flip(
    asked: bool | None, calibration: Calibration | None, file: Path | None, otherwise: bool = False
) -> bool:
    """Whether the model adds the mirror image: as in the calibration, whose thresholds hold only for that setting.

    Args:
        asked: the requested setting; None if none was requested.
        calibration: the calibration; None for none.
        file: file of the calibration, for messages.
        otherwise: the answer if nothing was requested and no calibration states it.

    Raises:
        ValueError: the calibration contradicts the request.
    """
    if calibration is None or calibration.origin is None:
        return otherwise if asked is None else asked
    if asked is not None and asked != calibration.origin.flip:
        raise ValueError(
            f"flip is {str(asked).lower()}, but the embeddings behind {file} were made with flip "
            f"{str(calibration.origin.flip).lower()}; its thresholds hold for that alone"
        )
    return calibration.origin.flip


def check_measured_flip(flip: bool, folder: Path, before: Description) -> None:
    """Refuse to ship a smaller model with another flip than that with which its drop of TAR was measured.

    Args:
        flip: whether the model to ship adds the mirror image.
        folder: the folder that is exported again, for messages.
        before: the content of its `model.json`.

    Raises:
        ValueError: the folder is of a smaller model, and the two differ.
    """
    if before.reduced is not None and flip != before.flip:
        precision, measured, wanted = before.reduced.precision, str(before.flip).lower(), str(flip).lower()
        raise ValueError(
            f"{folder}: its loss in {precision} was measured with flip {measured}, so it cannot ship with flip "
            f"{wanted}, which --flip, --no-flip or the calibration asks for; make the folder again by `verisphere "
            f"export --precision {precision}` with the wanted flip"
        )


def check_same_template(asked: str | None, folder: Path, before: Description) -> None:
    """Refuse another template than that of a model folder, whose faces it was made for; None asks for none.

    Raises:
        ValueError: the two differ.
    """
    if asked is not None and asked != before.template:
        raise ValueError(
            f"{folder}: its template is {before.template}, and {asked} was asked for; a model folder keeps its own, so "
            "omit --template"
        )


def copies_of_results(
    calibration: Path | None, evaluation: Sequence[Path], leak: Path | None = None
) -> dict[str, Path]:
    """The calibration, the figures and the test of leaks that are copied into a folder, by their names there.

    Raises:
        FileNotFoundError, ValueError: a file is missing or has another format; or two would have one name.
    """
    copies = {} if calibration is None else {CALIBRATION: calibration}
    for path in evaluation:
        read_figures(path)
        name = f"evaluation-{path.stem}.json"
        if name in copies:
            raise ValueError(f"{path}: two evaluations would be called {name}; rename one of the files")
        copies[name] = path
    if leak is not None:
        copies[LEAK] = leak
    return copies
