"""The page of a report: its sections, and the plots of its sets and runs."""

import re
from functools import partial

from verisphere.report import picture_sections, provenance, sections
from verisphere.report.blocks import Page, Plot, Section
from verisphere.report.findings import Contents, Findings
from verisphere.report.html import Markup
from verisphere.report.plots import det_plot, roc_plot
from verisphere.report.score_plots import domains_plot, histogram_plot
from verisphere.report.training_plot import training_plot


def report_page(contents: Contents) -> Page:
    """The page."""
    parts = [Section("Summary", "summary", [sections.summary(contents)])]
    if contents.findings:
        differences = [sections.differences(contents)] if contents.comparisons else []
        parts += [
            Section("Operating points", "points", [sections.operating_points(contents)]),
            *([Section("Differences", "differences", differences)] if differences else []),
            Section("Domains at one threshold", "domains", [sections.domains(contents)]),
            Section("Curves", "curves", _curves(contents)),
            Section("Scores", "scores", _scores(contents)),
        ]
    if contents.calibrated is not None:
        parts.append(Section("Calibrated thresholds", "calibrated", [sections.calibrated(contents.calibrated)]))
    if contents.trainings:
        parts.append(Section("Training", "training", _trainings(contents)))
    if contents.findings:
        pairs = picture_sections.sample_pairs(contents)
        parts.append(Section("Pairs at the error boundary", "pairs", [pairs]))
    if contents.trainings:
        parts.append(Section("Recipe", "recipe", [provenance.recipes(contents)]))
    parts.append(Section("How each number was made", "method", [provenance.provenance(contents)]))
    made = "Beside this page lie the plots as PNG and SVG, in plots/, and the numbers, in figures.json."
    return Page(contents.title, parts, made, version=contents.version)


def plot_name(kind: str, number: int, title: str) -> str:
    """File name of a plot, without its suffix: letters, digits and dashes, unique by the number."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower())[:40].strip("-")
    return f"{kind}-{number}-{words}".strip("-")


def _curves(contents: Contents) -> list[Plot]:
    """ROC and DET."""
    curves = {findings.title: findings.curve for findings in contents.findings}
    roc, det = picture_sections.curves(contents)
    return [
        Plot("roc", partial(roc_plot, curves, "ROC"), *roc),
        Plot("det", partial(det_plot, curves, "DET"), *det),
    ]


def _scores(contents: Contents) -> list[Plot]:
    """Histograms with thresholds, of each set and of its domains."""
    plots = []
    for number, findings in enumerate(contents.findings, start=1):
        title, shipped = findings.title, _shipped(contents, findings)
        marked = {f"threshold at FAR {findings.headline.far_target}": findings.headline.threshold}
        draw = partial(histogram_plot, findings.histogram, marked, f"All pairs of {title}", shipped, contents.degrees)
        plots.append(Plot(plot_name("scores", number, title), draw, *picture_sections.all_scores(findings)))
        if findings.one is not None:
            words = picture_sections.domain_scores(findings)
            draw = partial(domains_plot, findings.by_domain, findings.one, f"Domains of {title}", contents.degrees)
            plots.append(Plot(plot_name("domains", number, title), draw, *words))
    return plots


def _trainings(contents: Contents) -> list[Markup | Plot]:
    """Training curves, and the runs that have logged nothing yet."""
    return [
        Plot(
            plot_name("training", number, run.title),
            partial(training_plot, run.entries, f"Training of {run.title}"),
            *picture_sections.training(run),
        )
        if run.entries
        else picture_sections.nothing_logged(run)
        for number, run in enumerate(contents.trainings, start=1)
    ]


def _shipped(contents: Contents, findings: Findings) -> dict[str, float]:
    if contents.calibrated is None:
        return {}
    return {
        f"calibrated, FAR {shipped.threshold.far_target}": shipped.threshold.threshold
        for shipped in contents.calibrated.shipped
        if findings.title in shipped.points
    }
