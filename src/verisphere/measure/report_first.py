"""The first screen of a report: how good, at which threshold, promised for whom and for whom not, and one picture."""

import math
from collections.abc import Sequence

from verisphere.base.vocabulary import OperatingPoint
from verisphere.base.words import NAMES_TAKEN, in_per_cent, of_things, share, share_bounds
from verisphere.decide import exact_rate
from verisphere.measure.report_control import wrong_sides
from verisphere.measure.report_findings import Calibrated, Contents, Findings, Shipped, Training
from verisphere.measure.report_rates import above_promise
from verisphere.report.html import Markup, definitions, joined, tag
from verisphere.report.score_plots import score_picture
from verisphere.report.tables import number, tar_bounds, tar_text, target_text


def leading(findings: Sequence[Findings], calibrated: Calibrated | None) -> int:
    """The set that the first screen is about: the first that a shipped threshold was tried on, else the first.

    A set that the thresholds were found on is none, if there is another; nor is a set that does not say which weights
    made it, as of an untrained network, if another says so.
    """
    titles = [finding.title for finding in findings]
    named = [finding.title for finding in findings if finding.embeddings.origin is not None]
    tried = [title for title in titles if calibrated and title in calibrated.shipped[0].points]
    fresh = [title for title in tried if calibrated and title not in calibrated.own]
    candidates = fresh or tried or titles
    return titles.index(next((title for title in candidates if title in named), candidates[0]))


def summary(contents: Contents) -> list[Markup]:
    """How good, at which threshold, promised for whom and for whom not, beside one picture of the scores."""
    words = [tag("p", f"{line}.", class_="warn") for findings in contents.findings for line in findings.first]
    unmeasured = [_unmeasured(run) for run in contents.trainings if not run.measured]
    if not contents.findings:
        return [*words, *unmeasured]
    findings = contents.findings[leading(contents.findings, contents.calibrated)]
    shipped = contents.calibrated.first(findings.title) if contents.calibrated is not None else None
    point = contents.deciding(findings)
    three = definitions(
        ("How good", _how_good(findings, point, shipped is None)),
        ("At which threshold", _at_threshold(point, shipped)),
        ("Promised for whom", _promised(contents, findings, shipped)),
    )
    counts = (point.impostor_accepted, point.impostor_total, point.genuine_accepted, point.genuine_total)
    wrong = wrong_sides(findings.title, point.threshold, counts)
    after = " In full colour, what falls on the wrong side. Heights are square roots of shares, to show the tails."
    picture = score_picture(findings.histogram, point.threshold, wrong)
    figure = tag("figure", picture, tag("figcaption", tag("span", wrong, id="wrong"), after))
    glance = tag("div", three, figure, class_="glance")
    doubts = dict.fromkeys(findings.doubt for findings in contents.findings if findings.doubt)
    glance = joined(*(tag("p", doubt, class_="warn") for doubt in doubts), glance)
    doubtful = any(findings.implausible for findings in contents.findings)
    return [*words, glance, *unmeasured] if doubtful else [glance, *words, *unmeasured]


def _how_good(findings: Findings, point: OperatingPoint, fitted: bool) -> Markup:
    images, names = len(findings.embeddings), NAMES_TAKEN[findings.embeddings.names_rule]
    on = f" on {findings.images}" if findings.images else ""
    who = (
        f"{findings.title}{on}: {images:,} images of {findings.people:,} people{names}, every two "
        f"compared once, {point.genuine_total:,} pairs of the same person and {point.impostor_total:,} of "
        "strangers."
    )
    if point.below_resolution:
        rate = exact_rate(point.far_target)
        few = f"{point.impostor_total:,} pairs of strangers cannot show FAR {target_text(point.far_target)}"
        needed = f", which takes at least {math.ceil(1 / rate):,}" if rate else ""
        return joined(tag("strong", f"{few}{needed}."), " ", tag("small", who))
    low, high, over = point.tar_lower_95, point.tar_upper_95, "over people"
    if fitted and findings.interval is not None and math.isfinite(findings.interval.lower_95):
        low, high = findings.interval.lower_95, findings.interval.upper_95
    elif fitted:
        over = "taking pairs as independent"
    return joined(
        tag("strong", tar_text(point.tar), class_="figure"),
        " of the pairs of the same person are recognised ",
        tag("small", f"(TAR; 95 % {over}: {tar_bounds(low, high)}). {who}"),
    )


def _at_threshold(point: OperatingPoint, shipped: Shipped | None) -> Markup:
    passing = f"{point.impostor_accepted:,} of {point.impostor_total:,}"
    alike = in_per_cent([point.far])
    far = of_things(share(point.far), "pairs of strangers") if point.impostor_accepted else "no pair of strangers"
    how = (
        f"fitted on these pairs for FAR {target_text(point.far_target)}"
        if shipped is None
        else f"the shipped threshold for FAR {target_text(point.far_target)}, tried on these pairs"
    )
    return joined(
        tag("strong", number(point.threshold), class_="figure"),
        f": the same person if the score is above. Here {far} passed ",
        tag("small", f"({passing}; 95 %: {share_bounds(point.far_lower_95, point.far_upper_95, alike)}); {how}."),
    )


def _promised(contents: Contents, findings: Findings, shipped: Shipped | None) -> Markup:
    """For whom a rate is promised, and for whom not."""
    if contents.gallery is not None:
        found = contents.gallery.calibration.thresholds[0]
        return joined(tag("strong", "Only in one gallery. "), f"{found} For two photographs nothing is promised.")
    if contents.calibrated is None or shipped is None:
        why = (
            "no calibration was named"
            if contents.calibrated is None
            else f"the thresholds of {contents.calibrated.file.name} were not tried on this set"
        )
        return joined(
            tag("strong", "Nobody. "),
            f"This threshold was fitted on these very people, and {why}. With others than these, ",
            tag("code", "verisphere calibrate"),
            " finds a threshold that holds for new people.",
        )
    threshold, calibrated = shipped.threshold, contents.calibrated
    known = "" if threshold.people is None else f" ({threshold.people:,} people of {calibrated.file.name})"
    if threshold.warning():
        return joined(tag("strong", "Nobody: "), f"{threshold.warning()}.")
    above = above_promise(calibrated, findings.title).get(threshold.far_target, [])
    own = " These figures do not test it: it was found on this very set." if findings.title in calibrated.own else ""
    spoilt = f" Here the measured rate is above the promised one: {', '.join(above)}." if above else ""
    not_for = "people unlike them, look-alikes, or a search in a gallery, where a stranger meets everybody in it."
    return joined(
        tag("strong", f"Two new people like those calibrated on{known}. "),
        threshold.promise(),
        tag("strong", " Not for "),
        not_for,
        tag("strong", own) if own else "",
        tag("strong", spoilt) if spoilt else "",
    )


def _unmeasured(run: Training) -> Markup:
    told = (
        ": a run without embeddings, so there is nothing here about people it has not seen. Embed faces into its "
        "folder, and make the report again:"
    )
    command = f"verisphere embed {run.folder} FACES --out {run.folder}/name.npz"
    return joined(tag("p", tag("strong", run.title), told), tag("pre", command))
