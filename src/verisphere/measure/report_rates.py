"""The sections of a report page with rates: summary, operating points, differences, domains, calibrated thresholds."""

import math
from collections.abc import Iterator, Sequence

from verisphere.base.vocabulary import OperatingPoint
from verisphere.base.words import NAMES_TAKEN
from verisphere.decide import DomainResult, OneThreshold, exact_rate
from verisphere.measure.report_findings import Calibrated, Contents, Findings, ShippedGallery, Training
from verisphere.report.calibration_tables import AGAIN
from verisphere.report.html import Markup, definitions, joined, table, tag
from verisphere.report.tables import bounds_text, neg_log10_far_text, number, percent, rate_text

NONE = "\N{EN DASH}"
_PROMISE = (
    "A promise is about two new people, one image of each, like those calibrated on. The tables below are about "
    "another thing: all pairs of one set, where a person with many images counts more often, every person is in "
    "many pairs, and a domain may be unlike the whole. So a FAR measured here can lie above the one promised. Its "
    "bounds take pairs as independent; where pairs share people, they are too narrow."
)


def _between(low: float, high: float) -> str:
    return f"{number(low)} to {number(high)}"


# --- summary ---


def summary(contents: Contents) -> list[Markup]:
    """The measured sets, and the TAR at the FAR of the one threshold, as text and as a table."""
    words = [tag("p", tag("strong", line)) for findings in contents.findings for line in findings.first]
    words += [tag("p", _in_words(findings), class_="lead") for findings in contents.findings]
    words += [_unmeasured(run) for run in contents.trainings if not run.measured]
    if not contents.findings:
        return words
    rows = [
        [
            findings.title,
            _tar(findings.headline),
            NONE if findings.interval is None else _between(findings.interval.lower_95, findings.interval.upper_95),
            number(findings.headline.threshold),
            f"{len(findings.embeddings):,}",
            f"{findings.people:,}",
            f"{findings.headline.genuine_total:,}",
            f"{findings.headline.impostor_total:,}",
        ]
        for findings in contents.findings
    ]
    header = ["Set", "TAR", "95 % over people", "Threshold", "Images", "People", "Genuine pairs", "Impostor pairs"]
    return [*words, table(f"All pairs at FAR {contents.asked.far}", header, rows)]


def _in_words(findings: Findings) -> Markup:
    point, interval = findings.headline, findings.interval
    what = joined(
        "Set ",
        tag("strong", findings.title),
        f": {len(findings.embeddings):,} images of {findings.people:,} people"
        f"{NAMES_TAKEN[findings.embeddings.names_rule]}, every two compared once. ",
    )
    if point.below_resolution:
        rate = exact_rate(point.far_target)
        return joined(
            what,
            f"Its {point.impostor_total:,} impostor pairs cannot show FAR {point.far_target}",
            f", which takes at least {math.ceil(1 / rate):,}" if rate else "",
            "; the operating points say what they do show.",
        )
    within = f", {percent(interval.lower_95)} to {percent(interval.upper_95)} if people are redrawn" if interval else ""
    return joined(
        what,
        f"At the threshold {number(point.threshold)}, which lets {point.impostor_accepted:,} of "
        f"{point.impostor_total:,} impostor pairs pass (FAR {point.far_target}), it recognises ",
        tag("strong", percent(point.tar)),
        f" of the {point.genuine_total:,} genuine pairs{within}.",
    )


def _unmeasured(run: Training) -> Markup:
    told = (
        ": a run without embeddings, so there is nothing here about people it has not seen. Embed faces into its "
        "folder, and make the report again:"
    )
    command = f"verisphere embed {run.folder} FACES --out {run.folder}/name.npz"
    return joined(tag("p", tag("strong", run.title), told), tag("pre", command))


# --- operating points, differences ---


def operating_points(contents: Contents) -> list[Markup]:
    """TAR at every FAR: all sets in one table, then each set with counts and bounds."""
    parts: list[Markup] = []
    if len(contents.findings) > 1:
        rows = [
            [points[0].far_target, *(_tar(point) for point in points)]
            for points in zip(*(findings.points for findings in contents.findings), strict=True)
        ]
        parts.append(
            table("TAR at each FAR", ["FAR target", *(findings.title for findings in contents.findings)], rows)
        )
    parts += [_points_table(f"{findings.title}: all pairs", findings.points) for findings in contents.findings]
    note = (
        "Accept iff score > threshold. These bounds are exact binomial ones, which take pairs as independent; pairs "
        "that share people are not, so rely on the wider interval over redrawn people in the summary."
    )
    return [*parts, tag("p", note, class_="note")]


def _tar(point: OperatingPoint) -> str:
    return NONE if point.below_resolution else number(point.tar)


def _points_table(caption: str, points: Sequence[OperatingPoint]) -> Markup:
    """Operating points with counts and bounds; without a TAR if there are too few impostors for the target."""
    rows = [
        [
            point.far_target + (" *" if point.below_resolution else ""),
            number(point.threshold),
            _tar(point),
            NONE if point.below_resolution else _between(point.tar_lower_95, point.tar_upper_95),
            f"{point.genuine_accepted:,} of {point.genuine_total:,}",
            rate_text(point.far),
            bounds_text(point.far_lower_95, point.far_upper_95),
            f"{point.impostor_accepted:,} of {point.impostor_total:,}",
        ]
        for point in points
    ]
    bounds = "95 % bounds"
    header = ["FAR target", "Threshold", "TAR", bounds, "Genuine accepted", "FAR", bounds, "Impostors accepted"]
    below = any(point.below_resolution for point in points)
    note = (
        f"* below resolution: {points[0].impostor_total:,} impostor pairs cannot show a FAR this low." if below else ""
    )
    return table(caption, header, rows, note)


def differences(contents: Contents) -> list[Markup]:
    """Differences of models on the same images, and whether they can be chance."""
    rows = [
        [
            f"{comparison.ours} less {comparison.theirs}",
            comparison.far_target,
            f"{comparison.interval.value:+.4f}",
            f"{comparison.interval.lower_95:+.4f} to {comparison.interval.upper_95:+.4f}",
            "may be chance" if comparison.interval.lower_95 <= 0 <= comparison.interval.upper_95 else "beyond chance",
        ]
        for comparison in contents.comparisons
    ]
    told = (
        "Sets of the same images of the same people. Each has its own threshold at the same FAR. People are redrawn "
        f"{contents.asked.redrawing.replicates:,} times, alike for both, so what people have in common cancels. A "
        "difference may be chance where the interval holds zero."
    )
    header = ["Sets", "FAR target", "Difference of TAR", "95 % over people", "Reads as"]
    return [tag("p", told), table("TAR of one set less TAR of another", header, rows)]


# --- domains ---


def domains(contents: Contents) -> list[Markup]:
    """Each domain at the one threshold, and at its own threshold."""
    if (
        all(findings.one is None for findings in contents.findings)
        and len({f.without_domains for f in contents.findings}) == 1
    ):
        told = contents.findings[0].without_domains
        return [tag("p", told[:1].upper() + told[1:])]
    parts = []
    for findings in contents.findings:
        told = findings.without_domains if findings.one is None else _far_in_words(findings.one)
        parts.append(tag("p", tag("strong", findings.title), f": {told}"))
        if findings.one is not None:
            parts.append(_domains_table(findings.title, findings.one))
    return parts


def _domains_table(title: str, result: OneThreshold) -> Markup:
    rows = [
        [
            name,
            number(domain.tar),
            _far(domain),
            bounds_text(domain.far_lower_95, domain.far_upper_95),
            neg_log10_far_text(domain),
            number(domain.threshold),
            NONE if domain.below_resolution else number(domain.tar_own),
            f"{domain.genuine_total:,}",
            f"{domain.impostor_total:,}",
        ]
        for name, domain in result.domains.items()
    ]
    header = ["Domain", "TAR", "FAR", "95 % bounds", "-log10 FAR", "Own threshold", "TAR at own"]
    header += ["Genuine pairs", "Impostor pairs"]
    threshold = number(result.calibration_threshold)
    caption = f"{title}: every domain at the one threshold {threshold}, FAR {result.far_target} over all"
    return table(caption, header, rows, _domains_note(result))


def _far(domain: DomainResult) -> str:
    return rate_text(domain.far) if domain.impostor_accepted else f"0 (< {rate_text(1 / domain.impostor_total)})"


def _far_in_words(result: OneThreshold) -> str:
    ranked = sorted(result.domains.items(), key=lambda item: item[1].far)
    (low_name, low), (high_name, high) = ranked[0], ranked[-1]
    if len(ranked) == 1:
        return f"there is one domain with both genuine and impostor pairs, {low_name}."
    factor = f", a factor of {high.far / low.far:,.3g}" if low.far > 0 else ""
    return f"the one threshold gives FAR {_far(low)} in {low_name} and {_far(high)} in {high_name}{factor}."


def _domains_note(result: OneThreshold) -> str:
    deviation = number(math.sqrt(result.neg_log10_far_variance), 3)
    notes = [
        f"Over domains: TAR mean {number(result.tar_mean)}, standard deviation "
        f"{number(math.sqrt(result.tar_variance))}; -log10 FAR mean {number(result.neg_log10_far_mean, 3)}, standard "
        f"deviation {deviation}; gamma, the root mean "
        f"square distance of the own thresholds from the one, {number(result.gamma)}."
    ]
    unresolved = [name for name, domain in result.domains.items() if domain.below_resolution]
    if unresolved:
        notes.append(f"Too few impostor pairs to show this FAR at a threshold of their own: {', '.join(unresolved)}.")
    if result.far_is_bound:
        notes.append(f"FAR 0 entered as 1 / impostor pairs in: {', '.join(result.far_is_bound)}.")
    if result.skipped:
        notes.append(f"Skipped, without genuine or without impostor pairs: {', '.join(result.skipped)}.")
    return " ".join(notes)


# --- calibrated thresholds ---


def calibrated(calibration: Calibrated) -> list[Markup]:
    """The thresholds of a calibration, their guarantees, and their rates on the sets of the page."""
    promises = definitions(
        *(
            (
                f"FAR {shipped.threshold.far_target}, {shipped.threshold.guarantee}",
                f"{shipped.threshold.meaning()}; {shipped.threshold.misses()}",
            )
            for shipped in calibration.shipped
        )
    )
    titles = list(dict.fromkeys(title for shipped in calibration.shipped for title in shipped.points))
    return [
        tag("p", f"Found on {calibration.file.name}; each with what it promises."),
        promises,
        *([tag("p", _PROMISE)] if titles else []),
        *(part for title in titles for part in _tried(calibration, title)),
        *(tag("p", note, class_="note") for note in calibration.notes),
    ]


def of_gallery(shipped: ShippedGallery) -> list[Markup]:
    """The thresholds of a gallery with their guarantees, what weakens these first, and what ends them."""
    calibration = shipped.calibration
    about = f"Found on {calibration.strangers.file} for the gallery {calibration.gallery.file} ({calibration.gallery})."
    promises = (
        (f"FPIR {found.fpir_target}, {found.guarantee}", f"{found.meaning()}; {found.misses()}")
        for found in calibration.thresholds
    )
    notes = [tag("p", tag("strong", note[:1].upper() + note[1:])) for note in shipped.notes]
    sentences = [about, *map(str, calibration.thresholds)]
    return [*notes, *(tag("p", words) for words in sentences), definitions(*promises), tag("p", AGAIN)]


def _tried(calibration: Calibrated, title: str) -> Iterator[Markup]:
    """The rates of the thresholds on one set."""
    points = [(name, point) for shipped in calibration.shipped for name, point in shipped.points[title].items()]
    rows = [
        [
            f"{point.far_target}{' *' if point.below_resolution else ''} {name or 'all pairs'}",
            number(point.tar),
            _between(point.tar_lower_95, point.tar_upper_95),
            rate_text(point.far),
            bounds_text(point.far_lower_95, point.far_upper_95),
            f"{point.genuine_total:,}",
            f"{point.impostor_total:,}",
        ]
        for name, point in points
    ]
    bounds = "95 % bounds"
    header = ["FAR promised, pairs", "TAR", bounds, "FAR measured", bounds, "Genuine pairs", "Impostor pairs"]
    below = any(point.below_resolution for _, point in points)
    note = "* too few impostor pairs to show a FAR this low." if below else ""
    yield table(f"{title}: the calibrated thresholds on all its pairs", header, rows, note)
    above = [f"of {far}: {', '.join(names)}" for far, names in _above(calibration, title).items()]
    if above:
        yield tag("p", tag("strong", "The measured FAR is above the promised one"), f" {'; '.join(above)}.")
    else:
        yield tag("p", "The measured FAR is consistent with the promise.")
    if title in calibration.own:
        yield tag("p", "This is the set that the thresholds were found on, so it does not test them.")


def _above(calibration: Calibrated, title: str) -> dict[str, list[str]]:
    """For each target, the pools whose FAR is above it in more than 97.5 % of redrawings of the people."""
    above: dict[str, list[str]] = {}
    for shipped in calibration.shipped:
        for name, interval in shipped.over_people[title].items():
            if interval.lower_95 > exact_rate(shipped.threshold.far_target):
                shown = f"{name or 'all pairs'} {rate_text(interval.value)} (at least {rate_text(interval.lower_95)}"
                above.setdefault(shipped.threshold.far_target, []).append(f"{shown} over people)")
    return above
