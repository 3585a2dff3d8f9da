"""The folder of a report: page, numbers, tables and plots; written as a whole, recognised by its content."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from verisphere import __version__
from verisphere.base.vocabulary import OperatingPoint
from verisphere.decide import Curve, exact_rate
from verisphere.decide.curve import Histogram
from verisphere.decide.point import short_far
from verisphere.files.disk import replace_whole
from verisphere.files.documents import read_json_file
from verisphere.files.results import json_text
from verisphere.files.tables import csv_for_people
from verisphere.measure.report_findings import ALL, Calibrated, Comparison, Contents, Findings, ShippedGallery
from verisphere.measure.report_page import report_page
from verisphere.report.blocks import PLOTS
from verisphere.report.markdown import plain
from verisphere.report.tables import table

NAMES = ("table.csv", "table.md", "table.tex", "differences.csv")
_COLUMNS = ("set", "far_target", "threshold", "tar", "lower_95", "upper_95", "bounds", "genuine", "impostor")
_DIFFERENCES = ("set", "against", "far_target", "tar", "lower_95", "upper_95", "p_value", "p_holm", "verdict")
_SHOWN = ("difference of TAR", "FAR", "points", "95 % over people", "by Holm's method")
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}


def write_tables(folder: Path, contents: Contents) -> None:
    """Write the table in each form; a TAR that a set cannot show is empty."""
    rows = [
        (
            findings.title,
            short_far(point.far_target),
            point.threshold,
            "" if point.below_resolution else point.tar,
            *(("", "") if point.below_resolution else (low, high)),
            "over people" if over else "of independent pairs",
            point.genuine_total,
            point.impostor_total,
        )
        for findings in contents.findings
        for point in findings.points
        for over in [findings.band.get(exact_rate(point.far_target))]
        for low, high in [
            (over.lower_95, over.upper_95) if over is not None else (point.tar_lower_95, point.tar_upper_95)
        ]
    ]
    (folder / NAMES[0]).write_text(csv_for_people(_COLUMNS, rows), encoding="utf-8")
    header = ["FAR", *(findings.title for findings in contents.findings)]
    cells = [
        [short_far(points[0].far_target), *("-" if at.below_resolution else f"{100 * at.tar:.2f}" for at in points)]
        for points in zip(*(findings.points for findings in contents.findings), strict=True)
    ]
    words = "".join(f"- {plain(str(one))}\n" for one in contents.comparisons)
    markdown = [table([plain(title) for title in header], cells), words, contents.compared]
    (folder / NAMES[1]).write_text("\n\n".join(part.strip() for part in markdown if part) + "\n", encoding="utf-8")
    (folder / NAMES[2]).write_text(_tabular(header, cells), encoding="utf-8")
    if contents.comparisons:
        _write_differences(folder, contents.comparisons)


def _write_differences(folder: Path, comparisons: Sequence[Comparison]) -> None:
    """The differences as CSV, and in points of TAR as a second table of LaTeX."""
    rows, shown = [], []
    for one in comparisons:
        far, interval, sides = short_far(one.far_target), one.interval, (one.ours, one.theirs)
        bounds = interval.lower_95, interval.upper_95
        rows.append([*sides, far, interval.value, *bounds, one.p_value, one.p_holm, one.verdict])
        between = " to ".join(f"{100 * end:+.2f}" for end in bounds)
        shown.append([" - ".join(sides), far, f"{100 * interval.value:+.2f}", between, one.verdict])
    (folder / NAMES[3]).write_text(csv_for_people(_DIFFERENCES, rows), encoding="utf-8")
    with (folder / NAMES[2]).open("a", encoding="utf-8") as file:
        file.write(_tabular(_SHOWN, shown))


def _tabular(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of LaTeX with the first column aligned to the left, the others to the right."""
    lines = [" & ".join(map(_latex, row)) + r" \\" for row in (header, *rows)]
    begin, rule = rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}", r"\hline"
    return "\n".join([begin, rule, lines[0], rule, *lines[1:], rule, r"\end{tabular}", ""])


def _latex(text: str) -> str:
    r"""A cell as LaTeX shows it.

    >>> print(_latex("50 % of a_b \\"))
    50 \% of a\_b \textbackslash{}
    """
    return re.sub(r"[\\~^&%$#_{}]", lambda found: _SPECIAL.get(found[0], f"\\{found[0]}"), " ".join(text.split()))


FORMAT = "verisphere report"
VERSION = 1
PAGE, FIGURES = "report.html", "figures.json"


def require_free(out: Path) -> None:
    """Refuse a path that exists and is not a former report."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not out.is_dir():
        raise FileExistsError(f"{out}: a file; a report is a folder, choose another name")
    if not _is_report(out / FIGURES):
        raise FileExistsError(
            f"{out}: a folder that holds something, and no report that could be replaced; choose another"
        )
    foreign = sorted({path.name for path in out.iterdir()} - {PAGE, FIGURES, PLOTS, *NAMES})
    if foreign:
        raise FileExistsError(
            f"{out}: a former report, but with {foreign[0]!r} in it, which is no part of one and would be lost; move it"
        )


def write_report(out: Path, contents: Contents) -> Path:
    """Write the folder completely before it replaces a former report, and return the page."""
    require_free(out)  # again: measuring took a while
    replace_whole(out, lambda partial: _write(partial, contents))
    return out / PAGE


def _write(folder: Path, contents: Contents) -> None:
    (folder / PLOTS).mkdir(parents=True)
    report_page(contents).write(folder / PAGE)
    if contents.findings:
        write_tables(folder, contents)
    (folder / FIGURES).write_text(json_text(_numbers(contents)), encoding="utf-8")


def _is_report(path: Path) -> bool:
    try:
        content = read_json_file(path, largest=2**30)
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("format") == FORMAT


def _numbers(contents: Contents) -> dict[str, Any]:
    """Every number of the page, and those that its plots are drawn from."""
    return {
        "format": FORMAT,
        "format_version": VERSION,
        "verisphere": __version__,
        "title": contents.title,
        "one_far": contents.asked.far,
        "replicates": contents.asked.redrawing.replicates,
        "seed": contents.asked.redrawing.seed,
        "sets": [_set(findings, contents.deciding(findings).threshold) for findings in contents.findings],
        "differences": [{**vars(one), "words": str(one)} for one in contents.comparisons],
        "calibrated": None if contents.calibrated is None else _calibrated(contents.calibrated),
        "gallery": None if contents.gallery is None else _of_gallery(contents.gallery),
        "training": contents.trainings,
    }


def _set(findings: Findings, threshold: float) -> dict[str, Any]:
    embeddings = findings.embeddings

    def sample(left: int, right: int, score: float) -> dict[str, Any]:
        sides = (dict(zip(("name", "identity", "domain"), findings.image(row), strict=True)) for row in (left, right))
        return {**dict(zip(("left", "right"), sides, strict=True)), "score": score, "accepted": score > threshold}

    return {
        "title": findings.title,
        "file": findings.file,
        "images": len(embeddings),
        "people": findings.people,
        "embedding_size": embeddings.embeddings.shape[1],
        "origin": embeddings.origin,
        "in_training": embeddings.shared_with_training,
        "implausible": findings.implausible,
        "names_rule": embeddings.names_rule,
        "operating_points": findings.points,
        "tar_interval": findings.interval,
        "tar_intervals": {short_far(str(float(far))): interval for far, interval in findings.band.items()},
        "cmc": findings.cmc,
        "one_threshold": findings.one,
        "curve": _curve(findings.curve),
        "histogram": _histogram(findings.histogram),
        "domain_histograms": {name: _histogram(histogram) for name, histogram in findings.by_domain.items()},
        "hardest_genuine": [sample(*pair) for pair in findings.samples.genuine],
        "closest_impostors": [sample(*pair) for pair in findings.samples.impostor],
    }


def _calibrated(calibrated: Calibrated) -> dict[str, Any]:
    def on(points: Mapping[str, OperatingPoint]) -> dict[str, Any]:
        domains = {name: point for name, point in points.items() if name != ALL}
        return {"all_pairs": points[ALL], "domains": domains}

    shipped = [
        {"threshold": entry.threshold, "sets": {title: on(points) for title, points in entry.points.items()}}
        for entry in calibrated.shipped
    ]
    return {"file": calibrated.file, "shipped": shipped, "own": sorted(calibrated.own), "notes": calibrated.notes}


def _of_gallery(shipped: ShippedGallery) -> dict[str, Any]:
    return {"file": shipped.file, "thresholds": shipped.calibration.thresholds, "notes": shipped.notes}


def _curve(curve: Curve) -> dict[str, Any]:
    finite = np.isfinite(curve.thresholds)  # at minus infinity every score is accepted
    return {
        "thresholds": curve.thresholds[finite].tolist(),
        "impostor_accepted": curve.impostor_accepted[finite].tolist(),
        "genuine_accepted": curve.genuine_accepted[finite].tolist(),
        "impostor_total": curve.impostor_total,
        "genuine_total": curve.genuine_total,
    }


def _histogram(histogram: Histogram) -> dict[str, Any]:
    arrays = {name: getattr(histogram, name).tolist() for name in ("edges", "genuine", "impostor")}
    return {**arrays, "genuine_total": histogram.genuine_total, "impostor_total": histogram.impostor_total}
