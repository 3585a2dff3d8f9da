"""`PYTHONPATH=docs python -m figures.sparse`: draw the table of docs/sparse.md as a picture.

The numbers are read from the page, so that the picture cannot say anything else.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from figures.loss_plots import save_compact, wide_figure
from verisphere.report.plots import INK, LINES, SERIES, tidy

DOCS = Path(__file__).parents[1]
PAGE, PICTURE = DOCS / "sparse.md", DOCS / "images" / "sparse_engine.png"
_HEIGHT = 5.2  # inches
_TABLE = r"\n\| classes \|[^\n]*\n\|[-:| ]*\n((?:\|[^\n]*\n)+)"


@dataclass(frozen=True)
class Row:
    """A setting that was measured; times in CPU seconds of a step.

    Attributes:
        classes: number of classes.
        batch: rows of the batch.
        setting: alpha, scale and rows, in words.
        product: time of the fastest product of one precision, alone.
        sparse: time of the sparse engine.
        streamed: time of the streamed engine; None where it was not measured.
    """

    classes: int
    batch: int
    setting: str
    product: float
    sparse: float
    streamed: float | None

    @property
    def name(self) -> str:
        """The setting, with what it is beyond 128 rows."""
        return f"N = {self.classes // 1000:,}k, B = {self.batch}, {self.setting}"


def rows_of(text: str) -> list[Row]:
    """The rows of the table on the page.

    Raises:
        ValueError: the page has no such table.
    """
    table = re.search(_TABLE, text)
    if table is None:
        raise ValueError("the page has no table that begins with the column classes")
    rows = []
    for line in table[1].splitlines():
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        classes, batch, setting, product, sparse, _, streamed = cells
        counts = int(classes.replace(",", "")), int(batch.replace(",", ""))
        rows.append(Row(*counts, setting, float(product), float(sparse), float(streamed) if streamed else None))
    return rows


def curve_figure(text: str) -> Figure:
    """A bar for each setting: the sparse step in units of the product alone, and the streamed one where known."""
    figure, rows = wide_figure(_HEIGHT), rows_of(text)
    axes = figure.subplots()
    for place, row in enumerate(rows):
        axes.plot([1, row.sparse / row.product], [place] * 2, color=SERIES[0], linewidth=5, solid_capstyle="butt")
        axes.plot([row.sparse / row.product], [place], "o", color=SERIES[0], markersize=4)
        if row.streamed is not None:
            axes.plot([row.streamed / row.product], [place], "s", color=SERIES[1], markersize=4)
    axes.axvline(1.0, color=INK, linewidth=0.9)
    axes.set_xscale("log")
    ticks = [1, 1.4, 2, 4, 8, 16, 32]
    axes.set_xticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(rows)), labels=[row.name for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    tidy(axes)
    axes.grid(axis="x", color=LINES, linewidth=0.7)
    figure.supxlabel("CPU time of a step over that of the product alone; dots: sparse, squares: streamed", fontsize=8)
    return figure


def main() -> None:
    """Draw the picture in place."""
    print(save_compact(curve_figure(PAGE.read_text(encoding="utf-8")), PICTURE))


if __name__ == "__main__":
    main()
