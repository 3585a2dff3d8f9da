"""`PYTHONPATH=docs python -m figures.distillation`: draw the table of docs/lab/distillation.md as a picture.

The numbers are read from the page, so that the picture cannot say anything else.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from figures.loss_plots import save_compact, wide_figure
from verisphere.report.plots import INK, LINES, PALE, SERIES, tidy

DOCS = Path(__file__).parents[1]
PAGE, PICTURE = DOCS / "lab" / "distillation.md", DOCS / "images" / "distillation_lfw.png"
#: The columns of the table that a panel takes: mean, interval over people, interval over seeds; and the teacher "ours".
PANELS = {"1e-2": (1, 4, 5, 0.496), "1e-3": (6, 8, 9, 0.244)}
_HEIGHT = 3.4  # inches


@dataclass(frozen=True)
class Row:
    """An arm of the study at one FAR.

    Attributes:
        arm: name of the arm.
        mean: mean of the TAR over seeds.
        people, seeds: 95 % interval of the difference to the student alone, over redrawn people and over seeds; None
            for the student alone.
    """

    arm: str
    mean: float
    people: tuple[float, float] | None
    seeds: tuple[float, float] | None

    @property
    def certain(self) -> bool:
        """Whether neither interval includes zero."""
        return all(ends is not None and ends[0] * ends[1] > 0 for ends in (self.people, self.seeds))


def rows_of(text: str, far: str) -> list[Row]:
    """The arms of the study's table on the page, at a FAR of `PANELS`.

    Raises:
        ValueError: the page has no such table.
    """
    mean, people, seeds, _ = PANELS[far]
    table = re.search(r"\n\| arm \|[^\n]*\n\|[-:| ]*\n((?:\|[^\n]*\n)+)", text)
    if table is None:
        raise ValueError("the page has no table that begins with the column arm")
    rows = []
    for line in table[1].splitlines():
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        intervals = (_interval(cells[people]), _interval(cells[seeds]))
        rows.append(Row(cells[0], float(cells[mean]), *intervals))
    return rows


def _interval(cell: str) -> tuple[float, float] | None:
    """An interval such as "-0.01 .. 0.02"; None for an empty cell."""
    lower, _, upper = cell.partition(" .. ")
    return (float(lower), float(upper)) if upper else None


def study_figure(text: str) -> Figure:
    """A panel for each FAR: TAR of each arm, with both intervals, and lines for the student alone and our teacher."""
    figure = wide_figure(_HEIGHT)
    panels = figure.subplots(1, len(PANELS), sharey=True)
    for axes, far in zip(panels, PANELS, strict=True):
        rows, teacher = rows_of(text, far), PANELS[far][3]
        alone = rows[0].mean
        axes.axvline(alone, color=PALE, linewidth=0.9, zorder=1)
        axes.axvline(teacher, color=SERIES[2], linewidth=0.9, linestyle="--", zorder=1)
        axes.annotate(
            "teacher ours",
            (teacher, -0.55),
            color=SERIES[2],
            fontsize=7,
            ha="right",
            va="top",
            xytext=(-3, 0),
            textcoords="offset points",
        )
        for place, row in enumerate(rows):
            colour = SERIES[0] if row.certain else INK
            for ends, width, offset in ((row.people, 2.4, -0.12), (row.seeds, 1.0, 0.12)):
                if ends is not None:
                    shown = [max(alone + end, 0.0) for end in ends]
                    axes.plot(
                        shown, [place + offset] * 2, color=colour, linewidth=width, solid_capstyle="butt", zorder=2
                    )
            axes.plot([row.mean], [place], "o", color=colour, markersize=5, zorder=3)
        axes.set_yticks(range(len(rows)), labels=[row.arm for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.7)
        axes.set_xlim(left=0)
        axes.set_title(f"TAR at FAR {far}", loc="left", color=INK, fontsize=10)
        tidy(axes)
        axes.grid(axis="x", color=LINES, linewidth=0.7)
    words = "dot: mean of three seeds; thick bar: 95 % over people, thin bar: over seeds; blue: neither includes zero"
    figure.supxlabel(words, color=INK, fontsize=8)
    return figure


def main() -> None:
    """Draw the picture in place."""
    print(save_compact(study_figure(PAGE.read_text(encoding="utf-8")), PICTURE))


if __name__ == "__main__":
    main()
