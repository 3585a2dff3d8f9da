"""The sections of a report page with pictures: plots with descriptions, and pairs of faces."""

from collections.abc import Sequence

from verisphere.report.findings import Contents, Findings, Training
from verisphere.report.html import Markup, breakable, joined, tag
from verisphere.report.outcome import training_outcome
from verisphere.report.samples import Picture, SamplePair
from verisphere.report.score_plots import MOST_DOMAINS
from verisphere.report.tables import number


def picture(uri: str, alt: str, caption: str) -> Markup:
    """A plot with its description."""
    return tag("figure", tag("img", src=uri, alt=alt), tag("figcaption", caption), class_="plot")


def curves(contents: Contents, roc: str, det: str) -> Markup:
    """ROC and DET."""
    reached = "; ".join(
        f"{findings.title} reaches TAR {number(findings.headline.tar, 3)} at FAR {contents.far}"
        for findings in contents.findings
        if not findings.headline.below_resolution
    )
    totals = ", ".join(f"{findings.title} {findings.curve.impostor_total:,}" for findings in contents.findings)
    roc_caption = (
        "ROC: the share of genuine pairs accepted over the share of impostor pairs accepted; higher is better. "
        f"Impostor pairs: {totals}."
    )
    det_caption = (
        "DET: the share of genuine pairs rejected, 1 - TAR, over the same FAR, both on normal-deviate scales; lower is "
        "better. Nothing is drawn where fewer than ten impostor pairs of the largest set decide."
    )
    return tag(
        "div",
        picture(roc, f"ROC curve. {reached}.", roc_caption),
        picture(det, f"DET curve of the same sets. {reached}.", det_caption),
        class_="plots",
    )


def scores(contents: Contents, overall: Sequence[str | None], by_domain: Sequence[str | None]) -> Markup:
    """Histograms with thresholds."""
    plots = []
    for found, whole, parts in zip(contents.findings, overall, by_domain, strict=True):
        assert whole is not None
        plots.append(_all_scores(found, whole))
        if parts is not None:
            plots.append(_domain_scores(found, parts))
    return tag("div", *plots, class_="plots")


def _all_scores(findings: Findings, uri: str) -> Markup:
    point = findings.headline
    alt = (
        f"Histogram of the genuine and the impostor scores of {findings.title}. The threshold "
        f"{number(point.threshold)} leaves {point.impostor_accepted:,} of {point.impostor_total:,} impostor pairs to "
        "its right, and "
        f"{point.genuine_total - point.genuine_accepted:,} of {point.genuine_total:,} genuine pairs to its left."
    )
    caption = (
        f"{findings.title}: the share of the genuine and of the impostor pairs in each step of score; below on a "
        "logarithmic scale, which shows the tails that errors come from."
    )
    return picture(uri, alt, caption)


def _domain_scores(findings: Findings, uri: str) -> Markup:
    result = findings.one
    assert result is not None
    own = ", ".join(f"{name} {number(domain.threshold, 3)}" for name, domain in result.domains.items())
    alt = (
        f"Histograms of the scores of {findings.title} within each domain. The one threshold is "
        f"{number(result.calibration_threshold, 3)}; the domains' own are: {own}."
    )
    most = f" Of {len(result.domains)} domains, the {MOST_DOMAINS} whose own lies furthest from the one."
    caption = (
        f"{findings.title}: the same within each domain. The full line is the one threshold, the dashed line the "
        f"domain's own.{most if len(result.domains) > MOST_DOMAINS else ''}"
    )
    return picture(uri, alt, caption)


def trainings(contents: Contents, plots: Sequence[str | None]) -> Markup:
    """Training curves."""
    parts = []
    for run, uri in zip(contents.trainings, plots, strict=True):
        people = f", trained on {run.people:,} people" if run.people is not None else ""
        people = f", {run.trained}" if run.trained else people
        if uri is None:
            parts.append(tag("p", tag("strong", run.title), f"{people}: the run has logged nothing yet."))
            continue
        last = _last(run)
        outcome = "".join(
            f" {line[:1].upper()}{line[1:]}." for line in training_outcome(run.entries).text().splitlines()
        )
        caption = f"Run {run.title}{people}: what it logged, over its epochs. At the end: {last}.{outcome}"
        parts.append(picture(uri, f"Curves of the training of {run.title}. At the end: {last}.", caption))
    return tag("div", *parts, class_="plots")


def _last(run: Training) -> str:
    latest: dict[str, float] = {}
    for entry in run.entries:
        latest.update({name: value for name, value in entry.items() if value is not None})
    shown = [name for name in latest if name not in ("step", "images_per_second")]
    return ", ".join(f"{name.replace('_', ' ')} {latest[name]:.4g}" for name in shown) or "nothing"


# --- sample pairs ---


def sample_pairs(contents: Contents) -> Markup:
    """The genuine pairs that score lowest and the impostors that score highest, with their images where known."""
    told = (
        "The pairs that decide the error rates. Wrong labels show here first: a hard genuine pair may be two people "
        "under one name, a close impostor pair one person under two. Nobody is in two pairs of a kind."
    )
    parts = [tag("p", told)]
    for found in contents.findings:
        samples = found.samples
        parts.append(tag("h3", f"Set {found.title}: {found.images:,} images of {found.people:,} people"))
        if samples.missing:
            parts.append(tag("p", f"No pictures: {samples.missing}", class_="note"))
        parts += [
            _cards("Hardest genuine pairs: one person, lowest score first", samples.genuine),
            _cards("Closest impostor pairs: two people, highest score first", samples.impostor),
        ]
    if any(not found.samples.missing and not _drawn(found) for found in contents.findings):
        parts.append(tag("p", "These pictures show people: consider who receives this page.", class_="note"))
    return joined(*parts)


def _drawn(found: Findings) -> bool:
    """Whether the images are known to be drawn, of people who do not exist."""
    return found.origin is not None and bool(found.origin.drawn)


def _cards(heading: str, pairs: Sequence[SamplePair]) -> Markup:
    return joined(tag("h4", heading), tag("ul", *(tag("li", *_card(pair)) for pair in pairs), class_="pairs"))


def _card(pair: SamplePair) -> list[Markup]:
    both = (pair.left, pair.right)
    faces = [tag("img", src=one.uri, alt=f"Face: {one.name}") for one in both if one.uri is not None]
    how = ("wrongly" if pair.wrong else "rightly") + (" accepted" if pair.accepted else " rejected")
    verdict = tag("span", how, class_="verdict wrong" if pair.wrong else "verdict")
    return [
        *([tag("div", *faces, class_="faces")] if faces else []),
        tag("p", f"score {number(pair.score)}, ", verdict),
        *(tag("p", _named(one)) for one in both),
    ]


def _named(one: Picture) -> Markup:
    where = f" ({one.domain})" if one.domain is not None else ""
    person = "" if one.person in one.name else f"{one.person}: "
    return joined(person, breakable(one.name), where)
