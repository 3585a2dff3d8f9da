"""The data and the recipe in a card: what the model was trained, calibrated and evaluated on."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from verisphere.base.provenance import UNRECORDED, unrecorded
from verisphere.base.trained_on import SharedWithTraining
from verisphere.base.vocabulary import ImageSource
from verisphere.files.calibration import Calibration
from verisphere.files.documents import read_yaml_file
from verisphere.files.gallery_calibration import GalleryCalibration
from verisphere.models.model_json import CALIBRATION, RECIPE
from verisphere.report.markdown import plain
from verisphere.ship.card.figures import Figures, implausible_figures
from verisphere.ship.card.words import (
    Section,
    Sources,
    class_in_words,
    count_in_words,
    file_in_words,
    settings_in_words,
)

#: The calibration for two photographs, and that of a gallery.
Calibrations: TypeAlias = tuple[Calibration | None, GalleryCalibration | None]


def read_settings(path: Path) -> dict[str, Any]:
    """A resolved recipe as plain data; no class in it is imported."""
    recipe = read_yaml_file(path)
    for name in ("data", "backbone", "loss"):
        part = recipe.get(name) if isinstance(recipe, dict) else None
        if not (isinstance(part, dict) and isinstance(part.get("class_path"), str)):
            raise ValueError(f"{path}: not a resolved recipe: it names no class_path under {name}")
        if not isinstance(part.get("init_args") or {}, dict):
            raise ValueError(f"{path}: not a resolved recipe: init_args of {name} are no mapping")
    return recipe


def images_in_words(source: Mapping[str, Any]) -> str:
    """An entry of the training sources of a model."""
    return plain(ImageSource(**source).described())


def images_of_calibration(calibrated: Calibration) -> str:
    """The source of the images of a calibration."""
    if calibrated.origin is None:
        return "where its images come from is not recorded"
    return plain(calibrated.origin.source.described())


def data_section(
    about: Mapping[str, Any],
    recipe: Mapping[str, Any] | None,
    calibrations: Calibrations,
    figures: Mapping[str, Figures],
    source: Sources,
) -> Section:
    """The sets of training, calibration and evaluation, and what is known of people that they share."""
    calibrated, promised = calibrations
    yield "## Data"
    yield "\n".join(
        [
            _trained_on(about, recipe, source),
            f"- Calibrated on {file_in_words(calibrated.source)}: {images_of_calibration(calibrated)} "
            f"(from {source[CALIBRATION]})."
            if calibrated
            else f"- Not calibrated{' for two photographs' if promised else ''}.",
            f"- Evaluated by {len(figures)} file{'s' if len(figures) > 1 else ''}, shown below."
            if figures
            else "- No evaluation was given.",
        ]
    )
    yield from implausible_figures(figures)
    yield from unrecorded_pixels(calibrated, figures)
    yield from people_of_training(calibrations, figures)


def _trained_on(about: Mapping[str, Any], recipe: Mapping[str, Any] | None, source: Sources) -> str:
    training, adopted = about["training"], about.get("adopted")
    if adopted is not None:
        return (
            f"- Trained on: not known. The model was made elsewhere and adopted from {plain(adopted['file'])}; source: "
            f"{plain(adopted['source'] or 'not given')}; licence: {plain(adopted['licence'] or 'not given')} (from "
            "[model.json](model.json))."
        )
    images = "; then ".join(map(images_in_words, training["sources"])) or "where they come from was not recorded"
    return (
        f"- Trained on {count_in_words(training['images'], 'images')} of "
        f"{count_in_words(training['people'], 'people')}: {images} (from the checkpoint, in [model.json](model.json))"
        + (f"; the set is {class_in_words(recipe['data'])} (from {source[RECIPE]})." if recipe else ".")
    )


def unrecorded_pixels(calibrated: Calibration | None, figures: Mapping[str, Figures]) -> Iterator[str]:
    """The checks and evaluations of an earlier version, whose pixels were not compared."""
    checks = [] if calibrated is None else [each for each in calibrated.checks if each.source != calibrated.source]
    origins = [(check.source.file, check.origin) for check in checks]
    origins += [(source.file, source.origin) for figure in figures.values() for source in figure.made_by_models]
    if old := list(dict.fromkeys(plain(file) for file, origin in origins if unrecorded(origin))):
        yield f"**Pixels were not compared**: {', '.join(old)} {'was' if len(old) == 1 else 'were'} {UNRECORDED}."


def people_of_training(calibrations: Calibrations, figures: Mapping[str, Figures]) -> Iterator[str]:
    """For each set of calibration and evaluation, the number of its people and images that were trained on."""
    sets: list[tuple[str, SharedWithTraining | None]] = []
    calibrated, promised = calibrations
    if promised is not None:
        sets.append((f"{promised.strangers.file}, the strangers of the gallery", promised.strangers.in_training))
        if promised.probes is not None:
            sets.append((f"{promised.probes.file}, the probes of the gallery", promised.probes.in_training))
    if calibrated is not None:
        sets += [(source.file, source.in_training) for source in calibrated.sources]
    sets += [(source.file, source.in_training) for figure in figures.values() for source in figure.made_by_models]
    # two files of one name may differ in what they share
    known = dict.fromkeys((file, shared) for file, shared in sets if shared is not None)
    unknown = sorted({file for file, shared in sets if shared is None})
    if known:
        yield "Compared with the training, images by their pixels and people by their names:\n\n" + "\n".join(
            f"- {plain(file)}: {plain(shared.described())}." for file, shared in known
        )
    rest = "" if not known else f"of {', '.join(map(plain, unknown))} "
    if unknown or not known:
        yield (
            f"Nothing here shows that the people {rest or 'calibrated or evaluated on '}were not trained on; if some "
            "were, the figures are too good and the threshold is too low."
        )
    yield (
        "An image that was encoded, resized or aligned anew has other pixels and is not recognised, and people whose "
        "names are numbers are not compared. Who these people are (age, sex, skin, country, camera) is not recorded in "
        "these files, unless as the domains below."
    )


def recipe_section(about: Mapping[str, Any], recipe: Mapping[str, Any] | None, source: Sources) -> Section:
    """The recipe of the training, as far as it is known."""
    step = about["training"]["step"]
    yield "## Recipe"
    if about.get("adopted") is not None:
        yield "Made elsewhere: how it was trained is not known here."
        return
    if recipe is None:
        yield f"The checkpoint (after step {step:,}) came without its recipe, so how it was trained is not known here."
        return
    groups = ("optimizer", "schedule", "augment")
    fields = ("subcenters", "engine", "epochs", "steps", "batch_size", "precision", "seed")
    lines = [
        f"network: {class_in_words(recipe['backbone'])}",
        f"loss: {class_in_words(recipe['loss'])}",
        *(
            f"{name}: {plain(settings_in_words(recipe[name]))}"
            for name in groups
            if isinstance(recipe.get(name), Mapping)
        ),
        ", ".join(f"{name} {plain(str(recipe[name]))}" for name in fields if recipe.get(name) is not None),
        f"steps made: {step:,}",
    ]
    yield "\n".join(f"- {line}" for line in lines if line)
    yield f"From {source[RECIPE]}, which holds every field; the steps from [model.json](model.json)."
