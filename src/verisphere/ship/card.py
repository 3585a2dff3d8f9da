"""model_card.md: the model, its accuracy, and the guarantee of its threshold, from the files beside the card alone.

Every number names the file that it comes from. Missing information is stated as missing.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from verisphere.base.provenance import UNRECORDED
from verisphere.base.vocabulary import TrainingRecord
from verisphere.decide import GuaranteedThreshold, OneThreshold
from verisphere.files.calibration import Calibration, Check, read_calibration
from verisphere.files.gallery_calibration import read_gallery_calibration
from verisphere.files.json_values import from_json
from verisphere.models.model_json import GALLERY
from verisphere.report.calibration_tables import target_in_words
from verisphere.report.markdown import link, plain
from verisphere.report.tables import number, operating_points_table, small, table
from verisphere.ship.card_files import Figures, read_figures, read_settings
from verisphere.ship.card_sections import (
    LEAK,
    PRECISION,
    Calibrations,
    gallery_section,
    implausible_figures,
    leak_section,
    people_of_training,
    precision_section,
    promises_section,
    unrecorded_pixels,
)
from verisphere.ship.card_words import (
    DIGITS,
    calibrated_on_drawn,
    class_in_words,
    count_in_words,
    file_in_words,
    images_in_words,
    images_of_calibration,
    settings_in_words,
)

RECIPE, CALIBRATION, HEAD, ONNX = "recipe.yaml", "calibration.json", "head.safetensors", "model.onnx"


def model_card(about: Mapping[str, Any], folder: Path) -> str:
    """The card of a model, as Markdown, from the content of its `model.json` and the files of its folder."""
    files: Mapping[str, Mapping[str, Any]] = about["files"]
    recipe = read_settings(folder / RECIPE) if RECIPE in files else None
    calibrated = read_calibration(folder / CALIBRATION) if CALIBRATION in files else None
    promised = read_gallery_calibration(folder / GALLERY) if GALLERY in files else None
    figures = {name: read_figures(folder / name) for name in files if name.startswith("evaluation-")}
    # references to the files of the folder, with the beginning of their digests
    source = {name: f"{link(name)}, SHA-256 {known['sha256'][:DIGITS]}" for name, known in files.items()}
    sections = [
        _head(about, calibrated),
        _data(about, recipe, (calibrated, promised), figures, source),
        _training(about, recipe, source),
        precision_section(about, folder, source.get(PRECISION, "")),
        _thresholds(about, calibrated, source),
        gallery_section(promised, source.get(GALLERY, "")),
        _domains(calibrated, figures, source),
        _evaluations(figures, source),
        _limits(about),
        _privacy(recipe, calibrated, figures, source),
        leak_section(folder, source.get(LEAK)),
        _use(about),
        _files(files),
    ]
    return "\n\n".join(block for section in sections for block in section) + "\n"


Section: TypeAlias = Iterator[str]
Sources: TypeAlias = Mapping[str, str]


def _head(about: Mapping[str, Any], calibrated: Calibration | None) -> Section:
    height, width = about["preprocessing"]["size"]
    yield f"# {plain(about['name'])}"
    warning = calibrated.thresholds[0].warning() if calibrated else ""
    if calibrated and warning:
        what = "Calibrated on people of the training" if calibrated.thresholds[0].in_training else "Implausible scores"
        yield f"**{what}.** {plain(warning[0].upper() + warning[1:])}."
    yield (
        f"A face recognition model. It turns an aligned face ({height} x {width} pixels, template "
        f"{plain(about['template'])}) into {about['embedding_size']} numbers. Two faces are compared by the cosine of "
        "their embeddings, the score, and taken for one person iff score > threshold."
    )
    adopted = about.get("adopted")
    verb, flip = (
        "Adopted" if adopted is not None else "Exported",
        "added before the cosine" if about["flip"] else "not added",
    )
    if adopted is not None and adopted.get("flip") not in (None, about["flip"]):
        flip += f", but the model was adopted {'with' if adopted['flip'] else 'without'} it"
    yield (
        f"Network: {class_in_words(about['backbone'])}; the embedding of the mirror image is "
        f"{flip}. {verb} by verisphere "
        f"{plain(about['verisphere'])} with PyTorch {plain(about['torch'])}. (From [model.json](model.json).)"
    )


def _data(
    about: Mapping[str, Any],
    recipe: Mapping[str, Any] | None,
    calibrations: Calibrations,
    figures: Mapping[str, Figures],
    source: Sources,
) -> Section:
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


def _training(about: Mapping[str, Any], recipe: Mapping[str, Any] | None, source: Sources) -> Section:
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


def _thresholds(about: Mapping[str, Any], calibrated: Calibration | None, source: Sources) -> Section:
    yield "## Threshold"
    if calibrated is None:
        yield (
            "No calibration: this folder ships no threshold for two photographs, and `verisphere verify` will refuse "
            "it. Embed people that the model was not trained on, run `verisphere calibrate`, and export again with "
            "`--calibration`."
        )
        return
    training = from_json(TrainingRecord, about["training"])
    refused = "`verisphere verify` and `identify` refuse the model unless they are given `--accept-drawn-model`."
    if calibrated_on_drawn(calibrated.thresholds):
        yield (
            "**Set on drawn faces.** What is promised below is about such drawings; about photographs nothing is "
            f"promised, and {refused}"
        )
    elif training.drawn:
        yield f"**Trained on drawn faces.** It may tell few photographs apart, and {refused}"
    yield from promises_section(calibrated, training, source[CALIBRATION])
    yield _tie(about, calibrated)
    promise = calibrated.thresholds[0]
    alone = "any one domain by itself: the rate is an average over all, and a domain can lie above it (see below)"
    other = "\n- the other error: how often two images of one person are rejected is measured, not promised"
    yield "What this is about: one comparison of two single images of two different people, like those calibrated on."
    yield (
        "What it does not cover:\n\n"
        "- people, cameras or conditions unlike those of the calibration set;\n"
        f"- {'other domains than those named above, and across domains' if promise.domains else alone};\n"
        "- relatives, twins and lookalikes more often than that set has them;\n"
        "- attacks: a photograph, screen or mask held to the camera, a morph, a picture made to be accepted;\n"
        "- a search in a gallery: every person in it is another comparison, so with N of them a stranger finds a match "
        "about N times as often; a gallery needs a threshold of its own (`verisphere calibrate --gallery`);\n"
        "- several tries, or the best of several frames; of two sets of images, compared by `verisphere verify`, two "
        "different people's are taken for one person's at most twice as often;\n"
        f"- several thresholds at once: each promise holds by itself{'' if promise.frr else f';{other}'}."
    )


def _tie(about: Mapping[str, Any], calibrated: Calibration) -> str:
    if calibrated.origin is None:
        return (
            "Nothing ties this threshold to this model: the calibration file does not say which model made its "
            "embeddings or scores, nor whether mirror images were added."
        )
    pixels = calibrated.origin.preprocessing
    taken = ""
    if pixels is not None:
        size = " x ".join(map(str, pixels.size))
        taken = f"faces of {size} in {plain(pixels.colour)}, (pixel - {pixels.mean:g}) / {pixels.scale:g}, "
    text = (
        "The calibration names the model that it is of, and the export checked that it is this one: weights with "
        f"SHA-256 {plain(calibrated.origin.model[:DIGITS])}, {taken}mirror images "
        f"{'added' if calibrated.origin.flip else 'not added'}."
    )
    if pixels is None:
        text += f" **Pixels were not compared**: the calibration was {UNRECORDED}."
    if calibrated.origin.precision != "float32":
        text += f" Its embeddings were computed in {plain(calibrated.origin.precision)}, as the model computes them."
    return text


def _domains(calibrated: Calibration | None, figures: Mapping[str, Figures], source: Sources) -> Section:
    yield "## Domains at one threshold"
    checks = () if calibrated is None else calibrated.checks
    results = [(name, result) for name, figure in figures.items() for result in figure.one_threshold or ()]
    shipped = () if calibrated is None else calibrated.thresholds
    for check in checks:
        for place, threshold in enumerate(shipped if check.points or check.domains else ()):
            own = calibrated is not None and check.source == calibrated.source
            yield from _checked(check, place, threshold, source, own)
    for name, result in results:
        yield from _one_threshold(result, source[name])
    if not (results or any(check.domains for check in checks)):
        yield (
            "No figures by domain: neither the calibration nor an evaluation knows domains (groups of people, cameras, "
            "conditions), so how evenly the model works is not known."
        )


def _one_threshold(result: OneThreshold, source: str) -> Section:
    """The figures of an evaluation at its own threshold."""
    yield (
        f"One threshold {number(result.calibration_threshold, 6)} at FAR {result.far_target}, found by the evaluation "
        f"itself (impostors: {plain(result.union)}); it is not the one shipped. From {source}."
    )
    yield table(
        ["domain", "TAR", "FAR", "FAR, 95 % bounds", "TAR at its own threshold", "genuine", "impostors"],
        [
            [
                plain(name),
                number(domain.tar),
                small(domain.far),
                f"{small(domain.far_lower_95)} .. {small(domain.far_upper_95)}",
                "-" if domain.below_resolution else number(domain.tar_own),
                f"{domain.genuine_total:,}",
                f"{domain.impostor_total:,}",
            ]
            for name, domain in result.domains.items()
        ],
    )
    if result.skipped:
        yield f"Skipped, without genuine or without impostor pairs: {', '.join(map(plain, result.skipped))}."


def _checked(check: Check, place: int, threshold: GuaranteedThreshold, source: Sources, own: bool) -> Section:
    """The check of a calibration at one of its thresholds."""
    rows, at = check.at(place), f"{number(threshold.threshold, 6)} (FAR {threshold.far_target})"
    yield f"At the threshold {at}, all comparisons of {file_in_words(check.source)}:"
    yield table(
        ["domain", "TAR", "TAR, 95 % bounds", "FAR", "FAR, 95 % bounds", "genuine", "impostors"],
        [
            [
                plain(name),
                number(point.tar),
                f"{number(point.tar_lower_95)} .. {number(point.tar_upper_95)}",
                small(point.far),
                f"{small(point.far_lower_95)} .. {small(point.far_upper_95)}",
                f"{point.genuine_total:,}",
                f"{point.impostor_total:,}",
            ]
            for name, point in rows
        ],
    )
    of = " of FAR" if check.tar_over_people else ""
    notes = [f"From {source[CALIBRATION]}. The bounds{of} take pairs as independent, though they share people."]
    above = [name for name, _, _, is_above in check.over_target(place, threshold.domains) if is_above]
    if above:
        notes.append(f"Above the target of {target_in_words(threshold)}: {', '.join(map(plain, above))}.")
    if check.skipped:
        notes.append(f"Skipped, without genuine or without impostor pairs: {', '.join(map(plain, check.skipped))}.")
    if own:
        notes.append("This is the set that the threshold was chosen on.")
    elif check.shared_people:
        notes.append(f"{check.shared_people:,} of its people bear the name of one calibrated on.")
    yield " ".join(notes)


def _evaluations(figures: Mapping[str, Figures], source: Sources) -> Section:
    yield "## Operating points"
    if not figures:
        yield "No evaluation was given to the export: TAR at stated FARs is not known here."
        return
    yield (
        "Thresholds in these tables were found on the evaluated comparisons themselves: they are not those that are "
        "shipped."
    )
    for name, figure in figures.items():
        yield f"From {source[name]}, {_evaluated(figure)}:"
        shown = operating_points_table(figure.operating_points)
        yield re.sub(r"\|\n(?!\|)", "|\n\n", shown)  # Markdown would take a line after a table for a row of it
        if figure.accuracy is not None:
            accuracy = figure.accuracy
            yield (
                f"Accuracy {accuracy.mean:.5f}, standard deviation {accuracy.std:.5f} over {accuracy.folds} folds of "
                f"{accuracy.pairs:,} pairs in all."
            )


def _evaluated(figure: Figures) -> str:
    """The evaluated files, and whether they name the model."""
    named = [f"{plain(source.file)} (SHA-256 {plain(source.sha256[:DIGITS])})" for source in figure.sources]
    files = ", ".join(named) or "of unnamed files"
    if any(source.origin is not None for source in figure.sources):
        return f"{files}, whose embeddings the exported weights made, as the export checked"
    return f"{files}; nothing names the model that made the scores: that it was this one is the exporter's word"


def _limits(about: Mapping[str, Any]) -> Section:
    yield "## Limits"
    yield (
        f"- Faces have to be aligned to {plain(about['template'])}, by the detector that the calibration images went "
        "through: another one, or other crops, shift scores.\n"
        "- A score is no probability, and scores of two models cannot be compared.\n"
        "- Faces seen from the side, covered, very small or blurred, and children's, are known to be harder for such "
        "models; the figures above say how much only where they have a domain for it.\n"
        "- No decision that matters to a person should rest on this model alone."
    )


def _privacy(
    recipe: Mapping[str, Any] | None, calibrated: Calibration | None, figures: Mapping[str, Figures], source: Sources
) -> Section:
    yield "## Privacy"
    head = (
        f"The centers of the people trained on are inside ({source[HEAD]}). Each is a biometric template of one "
        "person: treat the file as data about them, and ship it only if they may be shipped."
        if HEAD in source
        else "The head is not inside: its centers are biometric templates of the people trained on, and using the "
        "model does not need them."
    )
    yield (
        f"{head} Embeddings are biometric data too: a face that resembles the person can be made from one, and people "
        "can be found again by it. Networks can remember training images in part. Whether faces may be collected, "
        "stored and compared, and with whose consent, is for the law of the place (in the European Union the GDPR, "
        "article 9, and the AI Act) and has to be settled before use."
    )
    paths = [RECIPE] if recipe is not None else []
    paths += [CALIBRATION] if calibrated is not None and calibrated.origin is not None else []
    paths += [name for name, figure in figures.items() if any(file.origin is not None for file in figure.sources)]
    if paths:
        yield (
            f"Paths, as they were typed on the machine that made these files, stand in {', '.join(map(plain, paths))}."
        )


def _use(about: Mapping[str, Any]) -> Section:
    height, width = about["preprocessing"]["size"]
    yield "## Use"
    yield (
        "```python\n"
        "import verisphere\n\n"
        'model = verisphere.load("FOLDER")\n'
        f"embeddings = model.embed(faces)  # uint8 RGB, (n, {height}, {width}, 3), aligned; gives (n, "
        f"{about['embedding_size']}) float32\n"
        "```"
    )
    yield (
        "```sh\n"
        "verisphere verify --model FOLDER one.jpg other.jpg\n"
        "verisphere identify --model FOLDER probe.jpg gallery/\n"
        "```"
    )
    if ONNX in about["files"]:
        yield (
            f"[{ONNX}]({ONNX}) does all of this in any ONNX runtime: input `images`, float32 (n, 3, {height}, "
            f"{width}), RGB in [0, 255], not normalised; output `embeddings`, float32 (n, {about['embedding_size']})."
            + (" The mirror image's embedding is added inside." if about["flip"] else "")
            + " Divide by the length before taking dot products. Its metadata says the same."
        )


def _files(files: Mapping[str, Mapping[str, Any]]) -> Section:
    yield "## Files"
    yield table(
        ["file", "bytes", "SHA-256"],
        [[plain(name), f"{digest['bytes']:,}", digest["sha256"]] for name, digest in files.items()],
    )
    yield "[model.json](model.json) holds the same digests, and this card's; `verisphere.load` checks them all."
