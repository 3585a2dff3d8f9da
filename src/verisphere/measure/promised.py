"""What a promised threshold of a gallery does to probes: measured beside the promise."""

from dataclasses import dataclass

import numpy as np

from verisphere.base.provenance import check_same_origin
from verisphere.base.vocabulary import Embeddings, Progress, check_bounds, check_rate, printable, quietly
from verisphere.decide import FoundRate, binomial_bounds
from verisphere.files.gallery_calibration import GalleryCalibration
from verisphere.measure.sides import ONE_WAY
from verisphere.models.gallery import Gallery
from verisphere.report.calibration_tables import tpir_text
from verisphere.report.tables import number, small, table


@dataclass(frozen=True)
class PromisedRates:
    """The rates of a promised threshold in a gallery, of non-mated probes and of probes of enrolled people.

    The bounds are exact binomial ones, which take probes as independent. `why_not` says why the promise does not cover
    this gallery, empty where it does, and `notes` what weakens it.
    """

    fpir_target: str
    threshold: float
    strangers_found: int
    strangers: int
    fpir: float
    fpir_lower_95: float
    fpir_upper_95: float
    identified: FoundRate
    why_not: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_rate(self.fpir, self.strangers_found, self.strangers)
        check_bounds(self.fpir, self.fpir_lower_95, self.fpir_upper_95)


def promised_rates(
    probes: Embeddings,
    gallery: Gallery,
    calibration: GalleryCalibration,
    file: str,
    progress: Progress = quietly,
) -> tuple[PromisedRates, ...]:
    """The rates at each threshold of a calibration, of mated and non-mated probes in a gallery."""
    if calibration.cohort is not None:
        raise ValueError(f"the rule {calibration.statistic!r} of the calibration needs a cohort, not taken here")
    for what, origin in (("the gallery was", gallery.enrolled.origin), ("the probes were", probes.origin)):
        for calibrated in filter(None, (calibration.origin, calibration.gallery_origin)):
            check_same_origin(what, origin, "the calibration", calibrated, ONE_WAY)
    calibration.strangers.check_probes("the calibration", probes.pooled_from is not None)
    searched = gallery.search(probes.embeddings, calibration.statistic, progress=progress)
    mated = np.isin(probes.identities, gallery.people)
    right = gallery.people[searched.person] == probes.identities
    known = len(gallery.people), gallery.digests
    why_not = calibration.why_not(*known)
    weak = calibration.untied, calibration.part(*known)
    notes = tuple(note for note in weak if note)

    def at(target: str, threshold: float) -> PromisedRates:
        passing = searched.statistic > threshold
        found, total = int((passing & ~mated).sum()), int((~mated).sum())
        identified = FoundRate.of(file, int((passing & right).sum()), int(mated.sum()))
        bounds = binomial_bounds(found, total)
        return PromisedRates(target, threshold, found, total, found / total, *bounds, identified, why_not, notes)

    return tuple(at(found.fpir_target, found.threshold) for found in calibration.thresholds)


def promised_text(name: str, rates: tuple[PromisedRates, ...]) -> str:
    """The rates as a table, and why the promise is about another gallery, if it is."""
    rows = [
        [
            rate.fpir_target,
            number(rate.threshold, 6),
            f"{small(rate.fpir)} ({small(rate.fpir_lower_95)} .. {small(rate.fpir_upper_95)})",
            f"{rate.strangers_found:,} / {rate.strangers:,}",
            tpir_text(rate.identified),
            f"{rate.identified.identified:,} / {rate.identified.total:,}",
        ]
        for rate in rates
    ]
    head = ["promised FPIR", "threshold", "FPIR (95 % bounds)", "strangers found", "TPIR (95 % bounds)", "identified"]
    notes = [f"note: {printable(note)}" for note in rates[0].notes]
    notes += [f"not covered: {rates[0].why_not}"] if rates[0].why_not else []
    return "\n".join([f"{name}, at the thresholds of the calibration", *notes, table(head, rows)])
