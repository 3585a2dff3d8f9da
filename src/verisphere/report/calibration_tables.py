"""A calibration as tables: the thresholds, their guarantees, and their rates on each file or on probes of a gallery."""

from collections.abc import Iterator, Sequence

from verisphere.base.vocabulary import OperatingPoint, printable
from verisphere.decide import CONFIDENCE, FoundRate, GuaranteedThreshold, percent
from verisphere.files.calibration import Calibration, Check, Source
from verisphere.files.gallery_calibration import GalleryCalibration
from verisphere.files.verdicts import Suspicious
from verisphere.report.tables import listed, number, small, table

AGAIN = (
    "The promise ends when a photograph is added to the gallery or changed: calibrate --again with the same strangers. "
    "Each promise holds by itself, not all of a series together, and only if nobody looks at the strangers' scores to "
    "choose whom to enrol."
)


def calibration_text(calibration: Calibration) -> str:
    """The thresholds with their promises, plain and in the exact wording, and the checks, as tables."""
    model = (
        f"model {calibration.origin.model[:12]}"
        if calibration.origin
        else "the model is not known: the file does not name it"
    )
    warning, shared = calibration.thresholds[0].warning(), calibration.source.in_training
    lines = [line for line in (warning if shared else "", calibration.thresholds[0].weak_checks) if line]
    lines += [f"implausible: {printable(reason)}" for reason in calibration.implausible]
    lines.append(f"calibrated on {_size(calibration.source)}; {model}")
    lines += [shared.described()] if shared is not None and not shared else []
    lines.append(thresholds_table(calibration))
    for threshold in calibration.thresholds:
        lines.append(f"FAR {threshold.far_target}: {threshold.promise()}")
        lines.append(f"exactly: {threshold.meaning()}; {threshold.misses()}")
    if len(calibration.thresholds) > 1:
        lines.append("each holds by itself; that all hold at once is less certain, for they share their comparisons")
    if calibration.probability is not None:
        lines.append(f"probability: {calibration.probability.meaning()}")
    return "\n\n".join(["\n".join(lines), *(_check_text(check, calibration) for check in calibration.checks)])


def thresholds_table(calibration: Calibration) -> str:
    """The thresholds and the numbers that determine them."""
    rows = [
        [
            threshold.far_target,
            threshold.guarantee,
            number(threshold.threshold, 6),
            f"{threshold.comparisons:,}",
            "-" if threshold.people is None else f"{threshold.people:,}",
            "-" if threshold.rank is None else f"{threshold.rank:,}",
            _confidence(threshold),
        ]
        for threshold in calibration.thresholds
    ]
    return table(["FAR", "guarantee", "threshold", "comparisons", "people", "rank", "confidence"], rows)


def _confidence(threshold: GuaranteedThreshold) -> str:
    """The confidence of a guarantee; for `approximate`, its upper limit."""
    if threshold.confidence is None:
        return "on average" if threshold.assumption is None else "none"
    under = f" under a cap of {threshold.assumption.cap:g}" if threshold.assumption else ""
    return f"{'at most ' if threshold.guarantee == 'approximate' else ''}{percent(threshold.confidence)}{under}"


def _size(source: Source) -> str:
    rows = f"{source.rows:,} {'embeddings' if source.kind == 'embeddings' else 'comparisons'}"
    of = f" of {source.people:,} people" if source.people is not None else ""
    return f"{printable(source.file)} ({rows}{of}, SHA-256 {source.sha256[:12]})"


def _check_text(check: Check, calibration: Calibration) -> str:
    """The rates of the thresholds on one file."""
    title = f"on {_size(check.source)}"
    if check.source == calibration.source:
        title = f"on the calibration file itself, {printable(check.source.file)}, all comparisons"
    elif check.shared_people:
        title += f"; {check.shared_people:,} of its people bear the name of one calibrated on"
    if check.source != calibration.source and check.source.in_training:
        title += f"; {check.source.in_training.found()}, so these rates say nothing about new people"
    if check.lacking:
        return f"{title}: no rates, for it has no {' and no '.join(check.lacking)} comparison"
    rows = [
        [f"{threshold.far_target} {name}", *_rates(point)]
        for place, threshold in enumerate(calibration.thresholds)
        for name, point in check.at(place)
    ]
    head = ["at FAR", "FAR", "95 % bounds", "impostors", "TAR", "95 % bounds", "genuine"]
    lines = [title, table(head, rows)]
    for place, threshold in enumerate(calibration.thresholds):
        lines += target_lines(check, place, threshold)
        if check.unsure:
            lines.append(f"at FAR {threshold.far_target}: {check.unsure[place].of('genuine comparisons')}")
    if check.cllr is not None:
        cost, least = check.cllr
        lines.append(f"probability: Cllr {cost:.4f}, at least {least:.4f} by an increasing map of these scores")
    if any(point.below_resolution for points in (check.points, *check.domains.values()) for point in points):
        lines.append("* too few impostors to show a FAR this low")
    of = "of FAR " if check.tar_over_people else ""
    lines.append(f"bounds {of}take comparisons as independent; where they share people, they are too narrow")
    if check.tar_over_people:
        lines.append("bounds of TAR are over redrawn people")
    if check.source.people is not None:
        lines.append("over all pairs, people with many images weigh more than in a guarantee, which takes one of each")
    if check.skipped:
        lines.append(f"skipped, without genuine or without impostor comparisons: {listed(check.skipped)}")
    return "\n".join(lines)


def target_in_words(threshold: GuaranteedThreshold) -> str:
    """The target FAR, and that within a domain where it is another one."""
    return ", within a domain ".join(dict.fromkeys([threshold.far_target, *(one.far for one in threshold.domains)]))


def target_lines(check: Check, place: int, threshold: GuaranteedThreshold) -> Iterator[str]:
    """What the FARs of a check at one of its thresholds say of the target."""
    far, rates = target_in_words(threshold), list[tuple[bool | None, str]]()
    for name, point, ends, is_above in check.over_target(place, threshold.domains):
        over = "" if ends is None else f" ({small(ends.lower_95)} to {small(ends.upper_95)} over people)"
        rates.append((None if ends is None else is_above, f"{printable(name)} {small(point.far)}{over}"))
    for kind, what, more in (
        (True, f"above the target {far}", ""),
        (False, f"consistent with the target {far}", ""),
        (None, f"above the target {far} only if no two comparisons share a person", "; people were not redrawn"),
    ):
        if some := [rate for of, rate in rates if of is kind]:
            yield f"{what}: {', '.join(some)}{more}"


def _rates(point: OperatingPoint) -> list[str]:
    return [
        small(point.far) + ("*" if point.below_resolution else ""),
        f"{small(point.far_lower_95)} .. {small(point.far_upper_95)}",
        f"{point.impostor_accepted:,} / {point.impostor_total:,}",
        number(point.tar),
        f"{number(point.tar_lower_95)} .. {number(point.tar_upper_95)}",
        f"{point.genuine_accepted:,} / {point.genuine_total:,}",
    ]


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
            tpir_text(found.identified),
        ]
        for found in calibration.thresholds
    ]
    head = ["FPIR", "guarantee", "threshold", "rule", "strangers", "rank", "confidence", "TPIR (95 % bounds)"]
    return table(head, rows)


def tpir_text(rate: FoundRate | None) -> str:
    """A rate of enrolled people who are found, with its bounds."""
    if rate is None:
        return "-"
    return f"{number(rate.tpir)} ({small(rate.tpir_lower_95)} .. {small(rate.tpir_upper_95)})"
