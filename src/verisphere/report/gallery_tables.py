"""The calibration of a gallery as text: the thresholds, their guarantees, and the comparisons that decide them."""

from collections.abc import Sequence

from verisphere.base.vocabulary import printable
from verisphere.decide import CONFIDENCE, GalleryThreshold, percent
from verisphere.files.gallery_calibration import GalleryCalibration
from verisphere.files.verdicts import Suspicious
from verisphere.report.tables import number, small, table

AGAIN = (
    "The promise ends when a photograph is added to the gallery or changed: calibrate --again with the same strangers. "
    "Each promise holds by itself, not all of a series together, and only if nobody looks at the strangers' scores to "
    "choose whom to enrol."
)


def gallery_calibration_text(calibration: GalleryCalibration, near: Sequence[Suspicious] = ()) -> str:
    """The thresholds with their promises, and the strangers whose numbers are highest, if nobody looked at them."""
    strangers, gallery = calibration.strangers, calibration.gallery
    model = f"model {calibration.origin.model[:12]}" if calibration.origin else "the model is not known"
    lines = [f"implausible: {printable(reason)}" for reason in calibration.implausible]
    shared = strangers.in_training
    lines += [shared.described()] if shared is not None else []
    lines += [
        f"strangers: {printable(strangers.file)} ({strangers.people:,} people, SHA-256 {strangers.sha256[:12]}); "
        f"{model}",
        f"gallery: {printable(gallery.file)} ({gallery})",
        gallery_thresholds_table(calibration),
    ]
    for found in calibration.thresholds:
        lines += [f"FPIR {found.fpir_target}: {found.promise()}", f"exactly: {found.meaning()}; {found.misses()}"]
    if len(calibration.thresholds) > 1:
        lines.append("each holds by itself; that all hold at once is less certain, for they share their strangers")
    if near:
        decide = "; ".join(
            f"{printable(pair.photograph)} as {printable(pair.other_person)} by {printable(pair.other)}: "
            f"{number(pair.score)}"
            for pair in near
        )
        lines.append(
            f"taken most for somebody: {decide}. If one of these shows the same person under two names, the threshold "
            "is higher than it need be: look at them (--review PAGE)."
        )
    return "\n".join([*lines, AGAIN])


def gallery_thresholds_table(calibration: GalleryCalibration) -> str:
    """The thresholds and the numbers that determine them."""
    rows = [
        [
            found.fpir_target,
            found.guarantee,
            number(found.threshold, 6),
            found.statistic,
            f"{found.strangers:,}",
            f"{found.rank:,}",
            percent(CONFIDENCE) if found.guarantee == "confident" else "on average",
            _tpir(found),
        ]
        for found in calibration.thresholds
    ]
    head = ["FPIR", "guarantee", "threshold", "rule", "strangers", "rank", "confidence", "TPIR (95 % bounds)"]
    return table(head, rows)


def _tpir(found: GalleryThreshold) -> str:
    if found.identified is None:
        return "-"
    rate = found.identified
    return f"{number(rate.tpir)} ({small(rate.tpir_lower_95)} .. {small(rate.tpir_upper_95)})"
