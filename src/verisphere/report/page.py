"""The page of a report: one self-contained HTML file without scripts or external resources."""

import base64
import re
from collections.abc import Mapping

from matplotlib.figure import Figure

from verisphere.report import picture_sections, provenance, sections
from verisphere.report.findings import Contents, Findings
from verisphere.report.html import Markup
from verisphere.report.plots import det_plot, roc_plot
from verisphere.report.score_plots import domains_plot, histogram_plot
from verisphere.report.training_plot import training_plot
from verisphere.report.whole_page import whole_page


def figures_of(contents: Contents) -> dict[str, Figure]:
    """All plots of a page, by file name."""
    figures = {}
    if contents.findings:
        curves = {findings.title: findings.curve for findings in contents.findings}
        figures["roc"] = roc_plot(curves, "ROC")
        figures["det"] = det_plot(curves, "DET")
    for number, findings in enumerate(contents.findings, start=1):
        title = findings.title
        figures[plot_name("scores", number, title)] = histogram_plot(
            findings.histogram,
            _marked(findings),
            f"All pairs of {title}",
            _shipped(contents, findings),
            contents.degrees,
        )
        if findings.one is not None:
            figures[plot_name("domains", number, title)] = domains_plot(
                findings.by_domain, findings.one, f"Domains of {title}", contents.degrees
            )
    for number, run in enumerate(contents.trainings, start=1):
        if run.entries:
            figures[plot_name("training", number, run.title)] = training_plot(run.entries, f"Training of {run.title}")
    return figures


def plot_name(kind: str, number: int, title: str) -> str:
    """File name of a plot, without its suffix: letters, digits and dashes, unique by the number."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower())[:40].strip("-")
    return f"{kind}-{number}-{words}".strip("-")


def _marked(findings: Findings) -> dict[str, float]:
    return {f"threshold at FAR {findings.headline.far_target}": findings.headline.threshold}


def _shipped(contents: Contents, findings: Findings) -> dict[str, float]:
    if contents.calibrated is None:
        return {}
    return {
        f"calibrated, FAR {shipped.threshold.far_target}": shipped.threshold.threshold
        for shipped in contents.calibrated.shipped
        if findings.title in shipped.points
    }


def render_page(contents: Contents, plots: Mapping[str, bytes]) -> str:
    """The page as HTML.

    Args:
        contents: contents of the page.
        plots: SVG of each figure of `figures_of`.
    """
    uris = {name: f"data:image/svg+xml;base64,{base64.b64encode(data).decode()}" for name, data in plots.items()}

    def of(kind: str) -> list[str | None]:
        """The plot of each set or run, in order; None if it has no such plot."""
        titles = [run.title for run in contents.trainings] if kind == "training" else _titles(contents)
        return [uris.get(plot_name(kind, number, title)) for number, title in enumerate(titles, start=1)]

    parts: list[tuple[str, str, Markup]] = [("Summary", "summary", sections.summary(contents))]
    if contents.findings:
        parts += [
            ("Operating points", "points", sections.operating_points(contents)),
            *([("Differences", "differences", sections.differences(contents))] if contents.comparisons else []),
            ("Domains at one threshold", "domains", sections.domains(contents)),
            ("Curves", "curves", picture_sections.curves(contents, uris["roc"], uris["det"])),
            ("Scores", "scores", picture_sections.scores(contents, of("scores"), of("domains"))),
        ]
    if contents.calibrated is not None:
        parts.append(("Calibrated thresholds", "calibrated", sections.calibrated(contents.calibrated)))
    if contents.trainings:
        parts.append(("Training", "training", picture_sections.trainings(contents, of("training"))))
    if contents.findings:
        parts.append(("Pairs at the error boundary", "pairs", picture_sections.sample_pairs(contents)))
    if contents.trainings:
        parts.append(("Recipe", "recipe", provenance.recipes(contents)))
    parts.append(("How each number was made", "method", provenance.provenance(contents)))

    made = (
        f"Made by verisphere {contents.version}. Beside this page lie the plots as PNG and SVG, in plots/, and the "
        "numbers, in figures.json."
    )
    return whole_page(contents.title, contents.version, parts, made)


def _titles(contents: Contents) -> list[str]:
    return [findings.title for findings in contents.findings]
