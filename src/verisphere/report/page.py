"""The page of a report: one HTML file with everything in it, no script, and nothing fetched from anywhere."""

import base64
import re
from collections.abc import Mapping
from importlib.resources import files

from matplotlib.figure import Figure

from verisphere.report import picture_sections, provenance, sections
from verisphere.report.findings import Contents, Findings
from verisphere.report.html import Markup, joined, section, tag
from verisphere.report.plots import det_plot, roc_plot
from verisphere.report.score_plots import domains_plot, histogram_plot
from verisphere.report.training_plot import training_plot

# The page may show what is inside it and do nothing else, whatever a name in a data set holds.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def figures_of(contents: Contents) -> dict[str, Figure]:
    """Every plot of a page, by the name of its file."""
    found = contents.findings
    figures = {}
    if found:
        curves = {one.title: one.curve for one in found}
        figures["roc"] = roc_plot(curves, "ROC")
        figures["det"] = det_plot(curves, "DET")
    for number, one in enumerate(found, start=1):
        figures[plot_name("scores", number, one.title)] = histogram_plot(
            one.histogram, _marked(one), f"All pairs of {one.title}", _shipped(contents, one)
        )
        if one.one is not None:
            figures[plot_name("domains", number, one.title)] = domains_plot(
                one.by_domain, one.one, f"Domains of {one.title}"
            )
    for number, run in enumerate(contents.trainings, start=1):
        if run.entries:
            figures[plot_name("training", number, run.title)] = training_plot(run.entries, f"Training of {run.title}")
    return figures


def plot_name(kind: str, number: int, title: str) -> str:
    """File name of a plot, without its suffix: letters, digits and dashes, unique by the number."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower())[:40].strip("-")
    return f"{kind}-{number}-{words}".strip("-")


def _marked(found: Findings) -> dict[str, float]:
    return {f"threshold at FAR {found.headline.far_target}": found.headline.threshold}


def _shipped(contents: Contents, found: Findings) -> dict[str, float]:
    if contents.calibrated is None:
        return {}
    return {
        f"calibrated, FAR {one.threshold.far_target}": one.threshold.threshold
        for one in contents.calibrated.shipped
        if found.title in one.points
    }


def render_page(contents: Contents, plots: Mapping[str, bytes]) -> str:
    """The page as HTML.

    Args:
        contents: what it shows.
        plots: SVG of each figure of `figures_of`.
    """
    uris = {name: f"data:image/svg+xml;base64,{base64.b64encode(data).decode()}" for name, data in plots.items()}

    def of(kind: str) -> list[str | None]:
        """The plot of each subject, in order; None where it has none."""
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

    links = (tag("li", tag("a", name, href=f"#{anchor}")) for name, anchor, _ in parts)
    made = (
        f"Made by verisphere {contents.version}. Beside this page lie the plots as PNG and SVG, in plots/, and the "
        "numbers, in figures.json."
    )
    body = tag(
        "body",
        tag("header", tag("h1", contents.title), tag("nav", tag("ul", *links), aria_label="Contents")),
        tag("main", *(section(name, anchor, content) for name, anchor, content in parts)),
        tag("footer", tag("p", made, class_="note")),
    )
    style = (files("verisphere.report") / "page.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"verisphere {contents.version}"),
        tag("title", contents.title),
        tag("style", Markup(style)),
    )
    return joined(Markup("<!DOCTYPE html>\n"), tag("html", head, Markup("\n"), body, lang="en"), Markup("\n"))


def _titles(contents: Contents) -> list[str]:
    return [one.title for one in contents.findings]
