"""The picture of docs/sparse.md: drawn from the page's own table, in the page, and small; its figures are measured."""

import csv
from pathlib import Path

from PIL import Image

from figures.sparse import PAGE, PICTURE, Row, curve_figure, rows_of

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results.csv"
TABLE = """
| classes | rows | setting | product | sparse | ratio | streamed |
|--:|--:|:--|--:|--:|--:|--:|
| 100,000 | 128 | α = 1.5 | 0.2 | **0.3** | 1.5 | |
| 1,000,000 | 64 | α = 2 | 2.0 | 2.2 | 1.1 | 8.0 |
"""


def test_rows_are_read_from_the_table() -> None:
    first, second = rows_of(TABLE)
    assert first == Row(100_000, 128, "α = 1.5", 0.2, 0.3, None)
    assert second == Row(1_000_000, 64, "α = 2", 2.0, 2.2, 8.0)
    assert second.name == "N = 1,000k, B = 64, α = 2"


def test_the_picture_shows_every_row_of_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"](images/{PICTURE.name})" in text
    drawn = [float(line.get_xdata()[0]) for line in curve_figure(text).axes[0].lines if line.get_marker() == "o"]
    assert drawn == [row.sparse / row.product for row in rows_of(text)]
    assert PICTURE.stat().st_size < 100_000
    with Image.open(PICTURE) as image:
        assert image.width >= 1000


def test_the_table_has_the_figures_of_the_benchmark() -> None:
    with RESULTS.open(newline="", encoding="utf-8") as file:
        measured = {row["cpu_s"] for row in csv.DictReader(file) if row["benchmark"] == "head"}
    known = {f"{float(seconds):.3f}" for seconds in measured if seconds != "inf"}
    for row in rows_of(PAGE.read_text(encoding="utf-8")):
        assert {f"{time:.3f}" for time in (row.product, row.sparse, row.streamed) if time is not None} <= known, row
