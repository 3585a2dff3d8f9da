"""The TARs of a report as a table for a paper: CSV, Markdown and LaTeX, a row for each set and target FAR."""

import re
from pathlib import Path

from verisphere.decide import exact_rate
from verisphere.decide.point import short_far
from verisphere.files.tables import csv_for_people
from verisphere.measure.report_findings import Contents
from verisphere.report.tables import table

NAMES = ("table.csv", "table.md", "table.tex")
_COLUMNS = ("set", "far_target", "threshold", "tar", "lower_95", "upper_95", "bounds", "genuine", "impostor")
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
    plain = [re.sub(r"[|<>&\\`*_$]", lambda found: f"&#{ord(found[0])};", title) for title in header]
    (folder / NAMES[1]).write_text(f"{table(plain, cells)}\n", encoding="utf-8")
    lines = [" & ".join(map(_latex, row)) + r" \\" for row in (header, *cells)]
    aligned = "l" + "r" * len(contents.findings)
    whole = [
        rf"\begin{{tabular}}{{{aligned}}}",
        r"\hline",
        lines[0],
        r"\hline",
        *lines[1:],
        r"\hline",
        r"\end{tabular}",
    ]
    (folder / NAMES[2]).write_text("\n".join(whole) + "\n", encoding="utf-8")


def _latex(text: str) -> str:
    r"""A cell as LaTeX shows it.

    >>> print(_latex("50 % of a_b \\"))
    50 \% of a\_b \textbackslash{}
    """
    return re.sub(r"[\\~^&%$#_{}]", lambda found: _SPECIAL.get(found[0], f"\\{found[0]}"), " ".join(text.split()))
