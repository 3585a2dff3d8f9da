"""model_card.md: the model, its accuracy, and the guarantee of its threshold, from the files beside the card alone.

Every number names the file that it comes from. Missing information is stated as missing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from verisphere.base.provenance import UNRECORDED, unrecorded
from verisphere.base.trained_on import SharedWithTraining
from verisphere.base.vocabulary import ImageSource, OperatingPoint, Rule, TrainingRecord, check_word
from verisphere.base.words import NAMES_TAKEN
from verisphere.decide import STATISTICS, GuaranteedThreshold, OneThreshold, exact_rate
from verisphere.files.calibration import Calibration, Check, Source, read_calibration
from verisphere.files.documents import read_json_file, read_yaml_file
from verisphere.files.gallery_calibration import GalleryCalibration, read_gallery_calibration
from verisphere.files.json_values import from_json
from verisphere.files.leak_figures import UNTRAINED, LeakRow, read_leak
from verisphere.files.results import EvaluatedFile
from verisphere.measure.precision import read_precision_drop
from verisphere.models.model_json import GALLERY
from verisphere.report.calibration_tables import AGAIN, gallery_thresholds_table, target_in_words, thresholds_table
from verisphere.report.markdown import link, plain
from verisphere.report.tables import number, operating_points_table, small, table


@dataclass(frozen=True)
class ShownAccuracy:
    """The part of a k-fold accuracy that a card shows."""

    mean: float
    std: float
    folds: int
    pairs: int

    def __post_init__(self) -> None:
        if not (0 <= self.mean <= 1 and 0 <= self.std <= 1 and 1 <= self.folds <= self.pairs):
            raise ValueError(f"an accuracy of {self.mean} +- {self.std}, {self.folds} folds and {self.pairs} pairs")


@dataclass(frozen=True)
class Figures:
    """The figures of a file of `verisphere evaluate --json`, and why they cannot be right, if they cannot."""

    operating_points: tuple[OperatingPoint, ...]
    sources: tuple[EvaluatedFile, ...]
    accuracy: ShownAccuracy | None
    one_threshold: tuple[OneThreshold, ...] | None
    implausible: tuple[str, ...] = ()
    calibration: EvaluatedFile | None = None

    def __post_init__(self) -> None:
        for point in self.operating_points:
            _check_target(point)

    @property
    def made_by_models(self) -> tuple[EvaluatedFile, ...]:
        """The files of embeddings and scores, without the lists of what is compared; the file of the one threshold."""
        return tuple(source for source in (*self.sources, self.calibration) if source and not source.is_list)


def _check_target(point: OperatingPoint) -> None:
    """Refuses an operating point that its rule could not have found at its target."""
    rate = exact_rate(point.far_target)
    check_word("rule", point.rule, Rule)
    if point.rule == "at_most" and point.impostor_accepted > rate * point.impostor_total:
        raise ValueError(f"rule at_most at FAR {point.far_target} accepts no {point.far} of impostors")
    if point.below_resolution != (rate * point.impostor_total < 1):
        raise ValueError(f"below_resolution contradicts {point.impostor_total} impostors at FAR {point.far_target}")


def read_figures(path: Path) -> Figures:
    """The figures in a file of `verisphere evaluate --json`."""
    what = "not figures that `verisphere evaluate --json` writes"
    try:
        fields = read_json_file(path)
        if isinstance(fields, dict) and "galleries" in fields:
            what = "figures of an identification, and a card shows those of pairs"
        return from_json(Figures, {"accuracy": None, "one_threshold": None, "sources": []} | fields)
    except (ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path}: {what}: {reason}") from None


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


DIGITS = 12  # of a digest in a text for people
_LONGEST_LIST = 16  # written out; the operators of a network are many


def readable(text: str) -> str:
    """The text as Markdown, with `score > threshold` readable in the source of the document as well."""
    return plain(text).replace("&gt;", ">")


def images_in_words(source: Mapping[str, Any]) -> str:
    """An entry of the training sources of a model."""
    return plain(ImageSource(**source).described())


def calibrated_on_drawn(thresholds: Sequence[GuaranteedThreshold]) -> bool:
    """Whether a threshold was found on drawn faces."""
    return any(found.calibrated_on is not None and found.calibrated_on.drawn for found in thresholds)


def images_of_calibration(calibrated: Calibration) -> str:
    """The source of the images of a calibration."""
    if calibrated.origin is None:
        return "where its images come from is not recorded"
    return plain(calibrated.origin.source.described())


def file_in_words(source: Source) -> str:
    """The file of a calibration in a few words."""
    people = "" if source.people is None else f" of {source.people:,} people{NAMES_TAKEN[source.names_rule]}"
    unit = "comparisons" if source.people is None else "images"
    return f"{plain(source.file)} ({source.rows:,} {unit}{people}, SHA-256 {plain(source.sha256[:DIGITS])})"


def class_in_words(description: Mapping[str, Any]) -> str:
    """A class with its arguments, from a recipe."""
    arguments = settings_in_words(description.get("init_args") or {})
    return plain(f"{str(description['class_path']).rpartition('.')[2]}({arguments})")


def settings_in_words(values: Mapping[str, Any]) -> str:
    """Names and values; an absolute path is cut to its last part, since a card is read by more people than a recipe."""
    return ", ".join(f"{name}={_value_in_words(value)}" for name, value in values.items())


def _value_in_words(value: Any) -> Any:
    if isinstance(value, list) and len(value) > _LONGEST_LIST:
        return f"({len(value):,} entries)"
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value


def count_in_words(count: int | None, what: str) -> str:
    """A number of things, or that it is unknown."""
    return f"an unknown number of {what}" if count is None else f"{count:,} {what}"


LEAK = "leak.json"
#: The calibration for two photographs, and that of a gallery.
Calibrations: TypeAlias = tuple[Calibration | None, GalleryCalibration | None]
_FROM = {"embeddings": "embeddings of photographs", "head": "class centers", "folder": "the network alone"}
PRECISION = "precision.json"
_WHAT = {
    "fp16": "weights and computation in 16-bit floating point; a processor without it computes in float32 from weights "
    "that were rounded",
    "int8": "8-bit weights with a scale for each channel, and 8-bit values at both ends of each convolution and before "
    "each fully connected layer",
}


def implausible_figures(figures: Mapping[str, Figures]) -> Iterator[str]:
    """For each evaluation whose figures cannot be right, the reasons."""
    for name, figure in figures.items():
        if figure.implausible:
            reasons = plain("; ".join(figure.implausible))
            yield f"**Implausible figures.** Those of {plain(name)} cannot be right, so they say nothing: {reasons}."


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


def precision_section(about: Mapping[str, Any], folder: Path, source: str) -> Iterator[str]:
    """The smaller precision and its cost, with the reference to its figures; empty for a network in float32."""
    reduced = about.get("reduced")
    if reduced is None:
        return
    drop = read_precision_drop(folder / PRECISION)
    yield "## Precision"
    yield (
        f"The network runs in {reduced['precision']}: {_WHAT[reduced['precision']]}. It was made of weights in float32 "
        f"with SHA-256 {plain(reduced['weights'][:DIGITS])}. Its scores differ from those in float32, so a threshold "
        "found in one precision does not hold for the other."
    )
    yield "\n".join(f"- {readable(line)}." for line in drop.lines())
    yield drop.table()
    notes = [f"{readable(line)}." for line in drop.notes()]
    yield " ".join([*notes, f"From {source}."])


def promises_section(calibrated: Calibration, training: TrainingRecord, source: str) -> Iterator[str]:
    """The thresholds for two photographs with what they promise, and the probability, where the calibration has it."""
    yield thresholds_table(calibrated)
    yield "\n".join(
        f"- FAR {threshold.far_target}: {readable(threshold.meaning(training))}; {readable(threshold.misses())}."
        for threshold in calibrated.thresholds
    )
    if calibrated.probability is not None:
        yield (
            "`verisphere verify --probability PRIOR` adds the probability of one person, which is fitted and not "
            f"promised: {readable(calibrated.probability.meaning())}."
        )
    yield f"From {source}."


def gallery_section(calibration: GalleryCalibration | None, source: str) -> Iterator[str]:
    """The thresholds of a gallery with what they promise, and the reference to their file; nothing without any."""
    if calibration is None:
        return
    warning = calibration.thresholds[0].warning()
    yield "## Threshold of a gallery"
    if warning:
        yield f"**{plain(warning[0].upper() + warning[1:])}.**"
    yield gallery_thresholds_table(calibration)
    yield "\n".join(
        f"- FPIR {found.fpir_target}: {readable(found.meaning())}; {readable(found.misses())}."
        for found in calibration.thresholds
    )
    yield from (f"**{doubt[0].upper()}{doubt[1:]}.**" for doubt in calibration.doubts)
    part = ", for any part of it" if STATISTICS[calibration.statistic].monotone else " as a whole"
    yield (
        f"It holds for the gallery {plain(calibration.gallery.file)} ({calibration.gallery}){part}, and for no other, "
        "which `verisphere identify` checks; the gallery is not inside. "
        f"{AGAIN} From {source}."
    )


def leak_section(folder: Path, source: str | None) -> Iterator[str]:
    """How well faces recovered from the model match their people; or that this was not tested, without figures."""
    if source is None:
        yield "How well faces can be recovered from this model was not tested (`verisphere leak` tests it)."
        return
    figures = read_leak(folder / LEAK)
    attacks = [row for row in figures.rows if row.source in _FROM]
    steps = figures.settings.get("steps")
    said = [f"{known[0].upper()}{known[1:]}."] if (known := figures.of_training()) else []
    worked = [row for row in attacks if row.worked]
    for place, asked in enumerate(figures.rows[-1].points if worked else ()):
        real = [row.points[place].tar for row in figures.rows if row.source == "photographs" and row.points]
        photographs = f"; of photographs {number(real[0], 3)}" if real else ""
        said.append(
            f"At its threshold for FAR {asked.far_target}, a second model ({plain(figures.judge)}) recognised the "
            f"people of these faces, which were recovered from this one (steps: {steps}): "
            f"{', '.join(_found(row, place) for row in worked)}{photographs}."
        )
    if figures.judge_sha256 is None:
        said.append(f"The second model {UNTRAINED}.")
    low = dict.fromkeys(point.far_target for row in figures.rows for point in row.points if point.below_resolution)
    if low:
        said.append(f"So few pairs of two people do not resolve FAR {' and '.join(low)}.")
    if no_proof := figures.no_proof():
        said.append(f"{no_proof[0].upper()}{no_proof[1:]}. (Settings: {_settings(figures.settings)}.)")
    said += [
        f"The attack from {_FROM[row.source]} failed: its faces (steps: {steps}) have {_reached(row)}. So nothing is "
        f"known of what can be recovered from {_FROM[row.source]}."
        for row in attacks
        if row.worked is False
    ]
    said += [
        f"Without this network, embeddings that it made are translated to the second model: of people whom the thief "
        f"does not know {' and '.join(f'{number(one.tar, 3)} match at FAR {one.far_target}' for one in row.points)}, "
        f"by photographs of {row.known:,} others."
        for row in figures.rows
        if row.source == "bridge"
    ]
    unknown = [_FROM[row.source] for row in attacks if row.worked is None]
    if unknown and figures.format == 1:
        said.append(
            f"Whether the attack from {', '.join(unknown)} worked is not recorded, so nothing is claimed of it "
            "(`verisphere leak` of this version records it)."
        )
    elif unknown:
        said.append(
            f"Whether the attack from {', '.join(unknown)} worked is not known, for nobody had two photographs to "
            "compare, so nothing is claimed of it."
        )
    yield f"{' '.join(said)} (From {source}.)"


def _settings(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in settings.items() if name != "seed")


def _found(row: LeakRow, place: int) -> str:
    """How many faces of an attack that worked were accepted, at one of the FARs, and what it reached."""
    point = row.points[place]
    text = (
        f"from {_FROM[row.source]} {point.genuine_accepted} of {point.genuine_total} "
        f"(95 % {number(point.tar_lower_95, 3)} .. {number(point.tar_upper_95, 3)}; the attack worked: they have "
        f"{_reached(row)})"
    )
    if row.strangers:
        chance = number(row.strangers[place].tar, 3)
        text += f", where photographs of strangers that are chosen in the same way have {chance}"
    if row.other_people:
        return (
            f"{text}, and these faces pass as other people in {number(row.other_people[place].tar, 3)} of comparisons"
        )
    return f"{text}, and how often these faces pass as other people is not known"


def _reached(row: LeakRow) -> str:
    """The cosine that faces of an attack reached, where it is known, beside what it should reach."""
    assert row.reached is not None
    assert row.needed is not None
    return (
        f"a mean cosine of {number(row.reached, 3)} with their targets under this model, and two photographs of one "
        f"person have {number(row.needed, 3)}"
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
        _head(about, (calibrated, promised)),
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


def _head(about: Mapping[str, Any], calibrations: Calibrations) -> Section:
    height, width = about["preprocessing"]["size"]
    yield f"# {plain(about['name'])}"
    calibrated, promised = calibrations
    for whose, found in (("", calibrated), ("for a gallery ", promised)):
        threshold = found.thresholds[0] if found else None
        if threshold and (warning := threshold.warning()):
            what = "Implausible scores" if threshold.implausible else "Probes of the training"
            what = "Calibrated on people of the training" if threshold.in_training else what
            said = f"{whose}{warning}"
            yield f"**{what}.** {plain(said[0].upper() + said[1:])}."
    weak = calibrated.thresholds[0].weak_checks if calibrated else ""
    if weak:
        yield f"**Checks that say little.** {plain(weak[0].upper() + weak[1:])}."
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
    untold = [plain(source.file) for source in figure.made_by_models if source.origin is None]
    if figure.made_by_models and not untold:
        return f"{files}, whose embeddings the exported weights made, as the export checked"
    which = f"the scores of {', '.join(untold)}" if len(untold) < len(figure.made_by_models) else "the scores"
    return f"{files}; nothing names the model that made {which}: that it was this one is the exporter's word"


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
