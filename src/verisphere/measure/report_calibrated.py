"""The thresholds of a calibration in a report: tried on the sets that the same model made, and noted for the others."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from verisphere.base.provenance import UNRECORDED, unrecorded
from verisphere.base.vocabulary import OperatingPoint, Origin, Redrawing
from verisphere.decide import GuaranteedThreshold, Interval, point_at
from verisphere.files.calibration import Calibration
from verisphere.files.gallery_calibration import GalleryCalibration
from verisphere.measure.protocols.all_pairs import PairsOfSet
from verisphere.measure.protocols.redrawn import fars_over_people, tars_over_people
from verisphere.measure.report_findings import ALL, Calibrated, File, Findings, Shipped, ShippedGallery


def calibrated(
    calibration: Calibration, findings: Sequence[Findings], sets: Sequence[PairsOfSet], redrawing: Redrawing
) -> Calibrated:
    """The thresholds of a calibration, with their operating points on the sets that the same model made."""
    warning = calibration.thresholds[0].warning()
    notes, tried = [f"{warning[0].upper()}{warning[1:]}."] if warning else [], []
    notes += [f"Probability: {calibration.probability.meaning()}."] if calibration.probability else []
    cuts, tars = [shipped.threshold for shipped in calibration.thresholds], {}
    for finding, pairs in zip(findings, sets, strict=True):
        if calibration.origin is None:
            notes.append(f"{finding.title}: tried on trust; the calibration does not say of which model it is.")
        elif (finding.embeddings.pooled_from is not None) != calibration.source.pooled:
            notes.append(f"{finding.title}: not tried; the rows calibrated on are {calibration.source.made_of}.")
            continue
        elif why_not := _not_made_as(calibration.origin, finding):
            notes.append(f"{finding.title}: not tried; {why_not}.")
            continue
        elif untold := _untold(calibration.origin, finding):
            notes.append(f"{finding.title}: tried on trust; {untold}.")
        tried.append((finding.title, pairs))
        tars[finding.title] = tars_over_people(pairs, finding.embeddings.embeddings, cuts, redrawing)
    for _, pairs in tried:
        pairs.prepare([], [], cuts)
    thresholds = []
    for place, shipped in enumerate(calibration.thresholds):
        points = {title: _points_at(shipped, pairs, place, tars[title]) for title, pairs in tried}
        redrawn = {title: fars_over_people(pairs, points[title], redrawing) for title, pairs in tried}
        thresholds.append(Shipped(shipped, points, redrawn))
    source = File(calibration.source.file, calibration.source.sha256)
    own = frozenset(
        finding.title for finding in findings if finding.title in tars and finding.file.sha256 == source.sha256
    )
    return Calibrated(source, tuple(thresholds), own, tuple(notes))


def _not_made_as(known: Origin, finding: Findings) -> str:
    """Why a set is not known to be made as a calibration was; empty where it is."""
    if finding.embeddings.origin is None:
        return "its embeddings do not say which model made them"
    differing = finding.embeddings.origin.differences(known)
    return f"not made as the calibration was ({', '.join(differing)})" if differing else ""


def _untold(known: Origin, finding: Findings) -> str:
    """That the pixels of a set could not be compared with those of a calibration; empty where they could."""
    unknown = unrecorded(known, finding.embeddings.origin)
    return f"the calibration or the set was {UNRECORDED}" if unknown else ""


def of_gallery(calibration: GalleryCalibration, findings: Sequence[Findings]) -> ShippedGallery:
    """The thresholds of a gallery, with the sets that are not of its model."""
    strangers = File(calibration.strangers.file, calibration.strangers.sha256)
    if calibration.origin is None:
        return ShippedGallery(strangers, calibration, (f"{calibration.untied}.",))
    sets = [
        (finding.title, _not_made_as(calibration.origin, finding) or _untold(calibration.origin, finding))
        for finding in findings
    ]
    weak = "the promise is not shown to hold for its model"
    notes = [f"{calibration.untied}."] if calibration.untied else []
    notes += [f"{title}: {weak}; {why_not}." for title, why_not in sets if why_not]
    return ShippedGallery(strangers, calibration, tuple(notes))


def _points_at(
    shipped: GuaranteedThreshold, pairs: PairsOfSet, place: int, tars: Mapping[str, Sequence[Interval]]
) -> dict[str, OperatingPoint]:
    """The operating point of a threshold on all pairs of a set, and on each domain that has pairs of both kinds.

    The place is that of the threshold among those of the TARs over people.
    """
    pools, points = {ALL: (pairs.everything(genuine=True), pairs.everything(genuine=False)), **pairs.by_domain()}, {}
    for name, (genuine, impostor) in pools.items():
        if genuine.total and impostor.total:
            point = point_at(genuine, impostor, shipped.threshold, shipped.far_target, shipped.guarantee)
            bounds = tars[name][place]
            points[name] = replace(point, tar_lower_95=bounds.lower_95, tar_upper_95=bounds.upper_95)
    return points
