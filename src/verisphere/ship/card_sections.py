"""Sections of a model card: precision, threshold of a gallery, faces that can be recovered, people of the training."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from verisphere.base.provenance import UNRECORDED, unrecorded
from verisphere.base.trained_on import SharedWithTraining
from verisphere.base.vocabulary import TrainingRecord
from verisphere.decide import STATISTICS
from verisphere.files.calibration import Calibration
from verisphere.files.gallery_calibration import GalleryCalibration
from verisphere.files.leak_figures import UNTRAINED, LeakRow, read_leak
from verisphere.measure.precision import read_precision_drop
from verisphere.report.calibration_tables import AGAIN, gallery_thresholds_table, thresholds_table
from verisphere.report.markdown import plain
from verisphere.report.tables import number
from verisphere.ship.card_files import Figures
from verisphere.ship.card_words import DIGITS, readable

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
    origins += [(source.file, source.origin) for figure in figures.values() for source in figure.sources]
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
    sets += [(source.file, source.in_training) for figure in figures.values() for source in figure.sources]
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
    if calibration.origin is None:
        yield "Nothing ties it to this model: its calibration does not say which model made the strangers' embeddings."
    elif calibration.untied:
        yield f"{calibration.untied[0].upper()}{calibration.untied[1:]}."
    if unrecorded(calibration.origin, calibration.gallery_origin):
        yield f"**Pixels were not compared**: embeddings of the strangers or the gallery were {UNRECORDED}."
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
    if found := [_found(row) for row in attacks if row.worked]:
        real = [row.points[-1].tar for row in figures.rows if row.source == "photographs" and row.points]
        photographs = f"; of photographs {number(real[0], 3)}" if real else ""
        said.append(
            f"Faces recovered from it (steps: {steps}) were taken for their people by a second model "
            f"({plain(figures.judge)}), at its threshold for FAR {figures.rows[-1].points[-1].far_target}: "
            f"{', '.join(found)}{photographs}."
        )
    if figures.judge_sha256 is None:
        said.append(f"The second model {UNTRAINED}.")
    if any(row.points[-1].below_resolution for row in figures.rows if row.points):
        said.append(f"So few pairs of two people do not resolve FAR {figures.rows[-1].points[-1].far_target}.")
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
        f"does not know {number(row.points[-1].tar, 3)} match at FAR {row.points[-1].far_target}, by photographs of "
        f"{row.known:,} others."
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


def _found(row: LeakRow) -> str:
    """How many faces of an attack that worked were accepted, at the last FAR, and what it reached."""
    point = row.points[-1]
    text = (
        f"from {_FROM[row.source]} {point.genuine_accepted} of {point.genuine_total} "
        f"(95 % {number(point.tar_lower_95, 3)} .. {number(point.tar_upper_95, 3)}; the attack worked: they have "
        f"{_reached(row)})"
    )
    if row.strangers:
        text += (
            f", where photographs of strangers that are chosen in the same way have {number(row.strangers[-1].tar, 3)}"
        )
    return text


def _reached(row: LeakRow) -> str:
    """The cosine that faces of an attack reached, where it is known, beside what it should reach."""
    assert row.reached is not None
    assert row.needed is not None
    return (
        f"a mean cosine of {number(row.reached, 3)} with their targets under this model, and two photographs of one "
        f"person have {number(row.needed, 3)}"
    )
