"""The page of a report: its sections, the plots of its sets and runs, the sample pairs, and where numbers come from."""

import re
from functools import partial

from verisphere.decide.intervals import COVERAGE
from verisphere.decide.point import short_far
from verisphere.measure import report_rates
from verisphere.measure.report_control import control_page
from verisphere.measure.report_findings import Contents, File, Findings, Training
from verisphere.measure.report_first import summary
from verisphere.report.blocks import Page, Plot, Section
from verisphere.report.html import Markup, breakable, definitions, fold, table, tag
from verisphere.report.outcome import training_outcome
from verisphere.report.pictures import SHOWS_PEOPLE, face_row, image_line, pair_cards
from verisphere.report.plots import det_plot, identification_plot, roc_plot, training_plot
from verisphere.report.score_plots import MOST_DOMAINS, domains_plot, histogram_plot
from verisphere.report.tables import number, tar_text, target_text


def report_page(contents: Contents) -> Page:
    """The page; a section without content is omitted."""
    measured, trainings, calibrated = contents.findings, contents.trainings, contents.calibrated
    numbered = list(enumerate(measured, start=1))
    domains = [_within(one, place, contents.asked.degrees) for place, one in numbered if one.several_domains]
    detail: list[Markup] = []
    if measured:
        detail.append(fold("Operating points with counts and bounds", *report_rates.operating_points(contents)))
    detail += [fold(f"{run.title}: recipe.yaml", tag("pre", run.recipe)) for run in trainings]
    detail.append(fold("How each number was made", *_provenance(contents)))
    sections = [
        Section("In short", "summary", summary(contents)),
        Section("Move the threshold", "threshold", [] if contents.control is None else control_page(contents.control)),
        Section("Compared", "compared", report_rates.comparison(contents) if len(measured) > 1 else []),
        Section("Domains at one threshold", "domains", [*report_rates.domains(contents), *domains]),
        Section("Curves", "curves", _curves(contents) if measured else []),
        Section("Scores", "scores", [_all_scores(contents, one, place) for place, one in numbered]),
        Section("Promised thresholds", "promised", [] if calibrated is None else report_rates.calibrated(calibrated)),
        Section(
            "Threshold of a gallery",
            "gallery",
            [] if contents.gallery is None else report_rates.of_gallery(contents.gallery),
        ),
        Section("Training", "training", [_training(run, place) for place, run in enumerate(trainings, start=1)]),
        Section("Pairs at the error boundary", "pairs", _sample_pairs(contents) if measured else []),
        Section("Details", "details", detail),
    ]
    made = (
        "Beside this page lie the plots as PNG and SVG, in plots/, the numbers, in figures.json, and, where sets were "
        "measured, their TARs and differences, as tables."
    )
    script = None if contents.control is None else "control.js"
    return Page(contents.title, [part for part in sections if part.blocks], made, script=script)


_BAND = " The bands are 95 % intervals over redrawn people, at the FAR of the one threshold and at lower targets."


def plot_name(kind: str, number: int, title: str) -> str:
    """File name of a plot, without its suffix: letters, digits and dashes, unique by the number."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower())[:40].strip("-")
    return f"{kind}-{number}-{words}".strip("-")


# --- plots ---


def _curves(contents: Contents) -> list[Plot]:
    """ROC and DET with the intervals over people, and CMC."""
    curves = {findings.title: findings.curve for findings in contents.findings}
    reached = "; ".join(
        f"{findings.title} reaches TAR {tar_text(findings.headline.tar)} at FAR {target_text(contents.asked.far)}"
        for findings in contents.findings
        if not findings.headline.below_resolution
    )
    totals = ", ".join(f"{title} {curve.impostor_total:,}" for title, curve in curves.items())
    roc = (
        "The share of pairs of the same person accepted over that of pairs of strangers accepted; higher is better. "
        f"Pairs of strangers: {totals}.{_BAND}"
    )
    det = (
        "The share of pairs of the same person rejected, 1 - TAR, over the same FAR, both on normal-deviate scales; "
        "lower is better. Nothing is drawn where fewer than ten pairs of strangers of the largest set decide."
    )
    bands = {
        findings.title: [(float(far), tar.lower_95, tar.upper_95) for far, tar in findings.band.items()]
        for findings in contents.findings
    }
    cmcs = {findings.title: findings.cmc for findings in contents.findings}
    first = "; ".join(f"{title} {tar_text(one.identified[0] / one.mated_total)}" for title, one in cmcs.items())
    searched = ", ".join(f"{title} {one.mated_total:,} among {one.people:,} people" for title, one in cmcs.items())
    told = (
        "CMC: the share of probes whose person is among the k best, without a threshold; higher is better. One image "
        f"of each person is enrolled, drawn at random; the others are probes: {searched}. The bands are exact binomial "
        "95 % bounds, which take probes as independent."
    )
    return [
        Plot("roc", partial(roc_plot, curves, "ROC", bands), f"ROC curve. {reached}.", roc),
        Plot("det", partial(det_plot, curves, "DET", bands), f"DET curve of the same sets. {reached}.", det),
        Plot("cmc", partial(identification_plot, cmcs, {}, "CMC"), f"CMC. At rank 1 or the first hit: {first}.", told),
    ]


def _all_scores(contents: Contents, findings: Findings, place: int) -> Plot:
    """The scores of all pairs of a set, with the calibrated thresholds that were tried on it."""
    title, point = findings.title, findings.headline
    alt = (
        f"Histogram of the scores of the same person and of strangers in {title}. The threshold "
        f"{number(point.threshold)} leaves {point.impostor_accepted:,} of {point.impostor_total:,} pairs of strangers "
        f"to its right, and {point.genuine_total - point.genuine_accepted:,} of {point.genuine_total:,} pairs of the "
        "same person to its left."
    )
    caption = (
        f"{title}: the share of the pairs of the same person and of strangers in each step of score; below on a "
        "logarithmic scale, which shows the tails that errors come from."
    )
    marked = {f"threshold at FAR {short_far(point.far_target)}": point.threshold}
    calibrated = {
        f"promised, FAR {short_far(shipped.threshold.far_target)}": shipped.threshold.threshold
        for shipped in (() if contents.calibrated is None else contents.calibrated.shipped)
        if title in shipped.points
    }
    degrees = contents.asked.degrees
    draw = partial(histogram_plot, findings.histogram, marked, f"All pairs of {title}", calibrated, degrees)
    return Plot(plot_name("scores", place, title), draw, alt, caption)


def _within(findings: Findings, place: int, degrees: bool) -> Plot:
    """The scores within each domain of a set."""
    title, result = findings.title, findings.one
    assert result is not None
    own = ", ".join(f"{name} {number(domain.threshold, 3)}" for name, domain in result.domains.items())
    alt = (
        f"Histograms of the scores of {title} within each domain. The one threshold is "
        f"{number(result.calibration_threshold, 3)}; the domains' own are: {own}."
    )
    most = f" Of {len(result.domains)} domains, the {MOST_DOMAINS} whose own lies furthest from the one."
    caption = (
        f"{title}: scores of the same person and of strangers within each domain. The full line is the one threshold, "
        f"the dashed line the domain's own.{most if len(result.domains) > MOST_DOMAINS else ''}"
    )
    draw = partial(domains_plot, findings.by_domain, result, f"Domains of {title}", degrees)
    return Plot(plot_name("domains", place, title), draw, alt, caption)


def _training(run: Training, place: int) -> Markup | Plot:
    people = f", trained on {run.people:,} people" if run.people is not None else ""
    people = f", {run.trained}" if run.trained else people
    if not run.entries:
        return tag("p", tag("strong", run.title), f"{people}: the run has logged nothing yet.")
    latest: dict[str, float] = {}
    for entry in run.entries:
        latest.update({name: value for name, value in entry.items() if value is not None})
    shown = [name for name in latest if name not in ("step", "images_per_second")]
    last = ", ".join(f"{name.replace('_', ' ')} {latest[name]:.4g}" for name in shown) or "nothing"
    outcome = "".join(f" {line[:1].upper()}{line[1:]}." for line in training_outcome(run.entries).text().splitlines())
    return Plot(
        plot_name("training", place, run.title),
        partial(training_plot, run.entries, f"Training of {run.title}"),
        f"Curves of the training of {run.title}. At the end: {last}.",
        f"{run.title}{people}: what it logged, over its epochs. At the end: {last}.{outcome}",
    )


# --- sample pairs ---


def _sample_pairs(contents: Contents) -> list[Markup]:
    """The genuine pairs that score lowest and the impostors that score highest, with their images where known."""
    told = (
        "The pairs that decide the error rates. Wrong labels show here first: a hard pair of the same person may be "
        "two people under one name, a close pair of strangers one person under two. Nobody is in two pairs of a kind."
    )
    parts = [tag("p", told)]
    for findings in contents.findings:
        samples, threshold = findings.samples, contents.deciding(findings).threshold
        parts.append(tag("h3", f"{findings.title}, decided at the threshold {number(threshold)}"))
        if samples.missing:
            parts.append(tag("p", f"No pictures: {samples.missing}", class_="note"))
        for heading, pairs, genuine in (
            ("Hardest pairs of the same person, lowest score first", samples.genuine, True),
            ("Closest pairs of strangers, highest score first", samples.impostor, False),
        ):
            cards = (_card(findings, *pair, genuine, threshold) for pair in pairs)
            parts += [tag("h4", heading), pair_cards(cards)]
    if any(not findings.samples.missing and not _drawn(findings) for findings in contents.findings):
        parts.append(SHOWS_PEOPLE)
    return parts


def _drawn(findings: Findings) -> bool:
    """Whether the images are known to be drawn, of people who do not exist."""
    origin = findings.embeddings.origin
    return origin is not None and bool(origin.drawn)


def _card(findings: Findings, left: int, right: int, score: float, genuine: bool, threshold: float) -> list[Markup]:
    both, accepted, uris = [findings.image(left), findings.image(right)], score > threshold, findings.samples.uris
    how = ("rightly" if accepted == genuine else "wrongly") + (" accepted" if accepted else " rejected")
    verdict = tag("span", how, class_="verdict" if accepted == genuine else "verdict wrong")
    return [
        *([face_row((name for name, *_ in both), uris)] if uris else []),
        tag("p", f"score {number(score)}, ", verdict),
        *(image_line(*one) for one in both),
    ]


# --- where the numbers come from ---


def _provenance(contents: Contents) -> list[Markup]:
    """The rules behind the numbers, and the files that the numbers come from."""
    models = [tag("p", tag("strong", findings.title), f": {findings.model}") for findings in contents.findings]
    rows = [
        [breakable(file.name), tag("code", file.sha256) if file.sha256 else "not read from a file"]
        for file in _files(contents)
    ]
    return [
        *([definitions(*_rules(contents))] if contents.findings else []),
        *models,
        table("What was read", ["File", "SHA-256"], rows, prose=True),
    ]


def _rules(contents: Contents) -> list[tuple[str, str]]:
    points = max(len(findings.curve.thresholds) for findings in contents.findings)
    redrawing = contents.asked.redrawing
    return [
        (
            "Decision",
            "Accept iff score > threshold; the score is the cosine of two embeddings, summed in double precision. Two "
            "images are of the same person where the two identities agree, which standards call genuine, and otherwise "
            "of strangers, which they call impostors. TAR (TMR in ISO/IEC 19795-1) is the share accepted of the pairs "
            "of the same person, FAR (FMR) of those of strangers.",
        ),
        (
            "Threshold at a FAR f",
            "With n scores of strangers and k = floor(f n) in exact arithmetic, the (k + 1)-th largest: the smallest "
            "threshold whose FAR does not exceed f. Ties at the threshold are rejected. Where f n < 1 the set is too "
            "small for f, and no TAR is stated.",
        ),
        (
            "Bounds",
            "Beside counts: exact two-sided binomial bounds (Clopper and Pearson) at 95 %. Over people: the exact "
            "bounds of as many independent comparisons as vary like this figure over "
            f"{redrawing.replicates:,} bootstrap replicates (seed {redrawing.seed}), which redraw identities and find "
            f"the threshold anew; {COVERAGE}.",
        ),
        (
            "One threshold",
            f"The threshold at FAR {target_text(contents.asked.far)} over the pairs of strangers of all domains, those "
            "across domains included. A domain's own threshold has the same FAR over the pairs within it.",
        ),
        (
            "Plots",
            f"A curve shows up to {points:,} of its thresholds, each with exact counts. Histograms count pairs of "
            "the same person exactly, and pairs of strangers to within a cell of score that is a small part of a bin.",
        ),
    ]


def _files(contents: Contents) -> list[File]:
    files = [findings.file for findings in contents.findings]
    files += [file for run in contents.trainings for file in run.files]
    sources = [shipped.file for shipped in (contents.calibrated, contents.gallery) if shipped is not None]
    files += [file for file in sources if file.sha256 not in {known.sha256 for known in files}]
    return list(dict.fromkeys(files))
