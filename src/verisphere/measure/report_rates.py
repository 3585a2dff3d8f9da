"""The sections of a report page with rates: comparison, operating points, domains, promised thresholds."""

from collections.abc import Iterator, Sequence

from verisphere.base.vocabulary import OperatingPoint
from verisphere.base.words import in_per_cent, share, share_bounds
from verisphere.decide import OneThreshold, exact_rate
from verisphere.measure.report_findings import Calibrated, Contents, ShippedGallery
from verisphere.report.calibration_tables import AGAIN
from verisphere.report.html import Markup, definitions, fold, table, tag
from verisphere.report.tables import number, tar_bounds, tar_text, target_text

NONE = "\N{EN DASH}"
_PROMISE = (
    "A promise is about two new people, one image of each, like those calibrated on. All pairs of a set are another "
    "thing: a person with many images counts more often, every person is in many pairs, and a domain may be unlike the "
    "whole, so a FAR measured here can lie above the one promised."
)


# --- comparison, operating points ---


def comparison(contents: Contents) -> list[Markup]:
    """The TAR of all sets at every FAR in one table, and which differences are beyond chance, in words."""
    rows = [
        [target_text(points[0].far_target), *(_tar(point) for point in points)]
        for points in zip(*(findings.points for findings in contents.findings), strict=True)
    ]
    header = ["FAR target", *(findings.title for findings in contents.findings)]
    few = any(point.below_resolution for findings in contents.findings for point in findings.points)
    note = f"{NONE}: the set has too few pairs of strangers to show this FAR." if few else ""
    differences = (tag("li", f"{one.words}; ", tag("strong", f"{one.verdict}.")) for one in contents.comparisons)
    return [
        table("TAR at each FAR, each set at its own threshold", header, rows, note),
        *([tag("ul", *differences)] if contents.comparisons else []),
        tag("p", contents.compared, class_="note"),
    ]


def operating_points(contents: Contents) -> list[Markup]:
    """TAR at every FAR with counts and bounds, a table a set."""
    note = (
        "Accept iff score > threshold. These bounds are exact binomial ones, which take pairs as independent; pairs "
        "that share people are not, so rely on the wider interval over redrawn people where it is given."
    )
    parts = [_points_table(f"{findings.title}: all pairs", findings.points) for findings in contents.findings]
    return [*parts, tag("p", note, class_="note")]


def _tar(point: OperatingPoint) -> str:
    return NONE if point.below_resolution else tar_text(point.tar)


def _points_table(caption: str, points: Sequence[OperatingPoint]) -> Markup:
    """Operating points with counts and bounds; without a TAR if there are too few impostors for the target."""
    alike = in_per_cent(point.far for point in points)
    rows = [
        [
            target_text(point.far_target) + (" *" if point.below_resolution else ""),
            number(point.threshold),
            _tar(point),
            NONE if point.below_resolution else tar_bounds(point.tar_lower_95, point.tar_upper_95),
            f"{point.genuine_accepted:,} of {point.genuine_total:,}",
            share(point.far, per_cent=alike),
            share_bounds(point.far_lower_95, point.far_upper_95, alike),
            f"{point.impostor_accepted:,} of {point.impostor_total:,}",
        ]
        for point in points
    ]
    bounds = "95 % bounds"
    header = ["FAR target", "Threshold", "TAR", bounds, "Same person accepted", "FAR", bounds, "Strangers accepted"]
    below = any(point.below_resolution for point in points)
    note = (
        f"* below resolution: {points[0].impostor_total:,} pairs of strangers cannot show a FAR this low."
        if below
        else ""
    )
    return table(caption, header, rows, note)


# --- domains ---


def domains(contents: Contents) -> list[Markup]:
    """What each domain has at the one threshold, in words; of sets with fewer than two domains nothing."""
    several = [findings for findings in contents.findings if findings.several_domains]
    return [
        tag("p", tag("strong", findings.title), f": {_in_words(findings.one)}")
        for findings in several
        if findings.one is not None
    ]


def _in_words(result: OneThreshold) -> str:
    ranked = sorted(result.domains.items(), key=lambda item: item[1].far)
    (low_name, low), (high_name, high) = ranked[0], ranked[-1]
    alike = in_per_cent([high.far])
    factor = f", a factor of {high.far / low.far:,.3g}" if low.far > 0 else ""
    lowest, highest = (
        share(one.far, per_cent=alike) if one.impostor_accepted else f"none of {one.impostor_total:,}"
        for one in (low, high)
    )
    notes = [
        f"at the one threshold {number(result.calibration_threshold)} strangers pass most often in {high_name}, "
        f"{highest}, and least often in {low_name}, {lowest}{factor}. The mean TAR of the domains is "
        f"{tar_text(result.tar_mean)}; their own thresholds lie {number(result.gamma)} from the one (gamma, the root "
        "mean square)."
    ]
    unresolved = [name for name, domain in result.domains.items() if domain.below_resolution]
    if unresolved:
        notes.append(
            f"Too few pairs of strangers to show this FAR at a threshold of their own: {', '.join(unresolved)}."
        )
    if result.skipped:
        notes.append(f"Skipped, without pairs of the same person or of strangers: {', '.join(result.skipped)}.")
    return " ".join(notes)


# --- calibrated thresholds ---


def calibrated(calibration: Calibrated) -> list[Markup]:
    """The thresholds of a calibration, their guarantees, and whether the rates of the sets of the page are above."""
    thresholds = [shipped.threshold for shipped in calibration.shipped]
    promises = [
        tag("p", tag("strong", f"FAR {target_text(found.far_target)}, {found.guarantee}"), f". {found}")
        for found in thresholds
    ]
    exactly = (tag("p", f"{found.meaning()}; {found.misses()}") for found in thresholds)
    titles = list(dict.fromkeys(title for shipped in calibration.shipped for title in shipped.points))
    return [
        tag("p", f"Found on {calibration.file.name}; each with what it promises."),
        *promises,
        fold("The exact wording", *exactly),
        *([tag("p", _PROMISE)] if titles else []),
        *(part for title in titles for part in _tried(calibration, title)),
        *(tag("p", note, class_="note") for note in calibration.notes),
    ]


def of_gallery(shipped: ShippedGallery) -> list[Markup]:
    """The thresholds of a gallery with their guarantees, what weakens these first, and what ends them."""
    calibration = shipped.calibration
    about = f"Found on {calibration.strangers.file} for the gallery {calibration.gallery.file} ({calibration.gallery})."
    promises = (
        (f"FPIR {target_text(found.fpir_target)}, {found.guarantee}", f"{found.meaning()}; {found.misses()}")
        for found in calibration.thresholds
    )
    notes = [tag("p", tag("strong", note[:1].upper() + note[1:])) for note in shipped.notes]
    sentences = [about, *map(str, calibration.thresholds)]
    return [*notes, *(tag("p", words) for words in sentences), definitions(*promises), tag("p", AGAIN)]


def _tried(calibration: Calibrated, title: str) -> Iterator[Markup]:
    """Whether the rates of a set are above what is promised."""
    above = [f"of {target_text(far)}: {', '.join(names)}" for far, names in above_promise(calibration, title).items()]
    if above:
        yield tag("p", tag("strong", f"{title}: the measured FAR is above the promised one"), f" {'; '.join(above)}.")
    else:
        yield tag("p", f"{title}: the measured FAR is consistent with the promise.")
    if title in calibration.own:
        yield tag("p", f"{title} is the set that the thresholds were found on, so it does not test them.")


def above_promise(calibration: Calibrated, title: str) -> dict[str, list[str]]:
    """For each target, the pools whose FAR is above it in more than 97.5 % of redrawings of the people."""
    above: dict[str, list[str]] = {}
    for shipped in calibration.shipped:
        far = shipped.threshold.far_target
        beyond = {name: one for name, one in shipped.over_people[title].items() if one.lower_95 > exact_rate(far)}
        alike = in_per_cent(one.value for one in beyond.values())
        for name, one in beyond.items():
            shown = f"{name or 'all pairs'} {share(one.value, per_cent=alike)}"
            least = share(one.lower_95, "lower", alike)
            above.setdefault(far, []).append(f"{shown} (at least {least} over people)")
    return above
