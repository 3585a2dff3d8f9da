"""The sections of a report page with pictures: plots with descriptions, and pairs of faces."""

from collections.abc import Sequence

from verisphere.report.findings import Contents, Findings, Training
from verisphere.report.html import Markup, breakable, joined, tag
from verisphere.report.outcome import training_outcome
from verisphere.report.samples import Picture, SamplePair
from verisphere.report.score_plots import MOST_DOMAINS
from verisphere.report.tables import number

#: The text for those who do not see a plot, and the caption below it.
Words = tuple[str, str]


def curves(contents: Contents) -> tuple[Words, Words]:
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
    return (f"ROC curve. {reached}.", roc_caption), (f"DET curve of the same sets. {reached}.", det_caption)


def all_scores(findings: Findings) -> Words:
    """The scores of all pairs of a set."""
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
    return alt, caption


def domain_scores(findings: Findings) -> Words:
    """The scores within each domain of a set."""
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
    return alt, caption


def training(run: Training) -> Words:
    """The curves of a training."""
    last = _last(run)
    outcome = "".join(f" {line[:1].upper()}{line[1:]}." for line in training_outcome(run.entries).text().splitlines())
    caption = f"Run {run.title}{_people(run)}: what it logged, over its epochs. At the end: {last}.{outcome}"
    return f"Curves of the training of {run.title}. At the end: {last}.", caption


def nothing_logged(run: Training) -> Markup:
    """A run without a curve."""
    return tag("p", tag("strong", run.title), f"{_people(run)}: the run has logged nothing yet.")


def _people(run: Training) -> str:
    people = f", trained on {run.people:,} people" if run.people is not None else ""
    return f", {run.trained}" if run.trained else people


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
