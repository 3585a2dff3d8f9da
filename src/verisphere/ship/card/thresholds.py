"""The thresholds in a card, for two photographs and for a gallery: what they promise, and for which domains."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from verisphere.base.provenance import UNRECORDED
from verisphere.base.vocabulary import TrainingRecord
from verisphere.decide import STATISTICS, GuaranteedThreshold
from verisphere.files.calibration import Calibration, Check
from verisphere.files.gallery_calibration import GalleryCalibration
from verisphere.files.json_values import from_json
from verisphere.models.model_json import CALIBRATION
from verisphere.report.calibration_tables import AGAIN, gallery_thresholds_table, target_in_words, thresholds_table
from verisphere.report.markdown import plain
from verisphere.report.tables import number, small, table
from verisphere.ship.card.figures import Figures, one_threshold_section
from verisphere.ship.card.words import DIGITS, Section, Sources, file_in_words, readable


def calibrated_on_drawn(thresholds: Sequence[GuaranteedThreshold]) -> bool:
    """Whether a threshold was found on drawn faces."""
    return any(found.calibrated_on is not None and found.calibrated_on.drawn for found in thresholds)


def thresholds_section(about: Mapping[str, Any], calibrated: Calibration | None, source: Sources) -> Section:
    """The thresholds for two photographs, with what they cover and what they do not."""
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
    yield from _promises(calibrated, training, source[CALIBRATION])
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


def _promises(calibrated: Calibration, training: TrainingRecord, source: str) -> Iterator[str]:
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


def domains_section(calibrated: Calibration | None, figures: Mapping[str, Figures], source: Sources) -> Section:
    """The rates of each domain: at the shipped thresholds, and at those of evaluations."""
    yield "## Domains at one threshold"
    checks = () if calibrated is None else calibrated.checks
    results = [(name, result) for name, figure in figures.items() for result in figure.one_threshold or ()]
    shipped = () if calibrated is None else calibrated.thresholds
    for check in checks:
        for place, threshold in enumerate(shipped if check.points or check.domains else ()):
            own = calibrated is not None and check.source == calibrated.source
            yield from _checked(check, place, threshold, source, own)
    for name, result in results:
        yield from one_threshold_section(result, source[name])
    if not (results or any(check.domains for check in checks)):
        yield (
            "No figures by domain: neither the calibration nor an evaluation knows domains (groups of people, cameras, "
            "conditions), so how evenly the model works is not known."
        )


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
