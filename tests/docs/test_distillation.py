"""The picture of docs/lab/distillation.md: drawn from the page's own table, in the page, and small."""

from PIL import Image

from figures.distillation import PAGE, PANELS, PICTURE, Row, rows_of, study_figure

TABLE = """
| arm | TAR at 1e-2 | std | difference | people | seeds | TAR at 1e-3 | difference | people | seeds |
|:--|--:|--:|--:|--:|--:|--:|--:|--:|--:|
| alone | 0.2 | 0.01 | baseline | | | 0.05 | baseline | | |
| **some** | 0.4 | 0.01 | +0.2 | 0.1 .. 0.3 | -0.1 .. 0.5 | 0.15 | +0.1 | 0.05 .. 0.2 | 0.01 .. 0.2 |
"""


def test_rows_are_read_from_the_table() -> None:
    assert rows_of(TABLE, "1e-2") == [
        Row("alone", 0.2, None, None),
        Row("some", 0.4, (0.1, 0.3), (-0.1, 0.5)),
    ]
    assert [row.certain for row in rows_of(TABLE, "1e-2")] == [False, False]
    assert [row.certain for row in rows_of(TABLE, "1e-3")] == [False, True]


def test_the_picture_shows_every_arm_of_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"](../images/{PICTURE.name})" in text
    figure = study_figure(text)
    for axes, far in zip(figure.axes, PANELS, strict=True):
        rows = rows_of(text, far)
        drawn = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
        assert drawn == [row.mean for row in rows]
        assert f"{PANELS[far][3]}" in text  # the teacher's TAR, which the table lacks
    assert len(rows) == 9


def test_the_picture_is_small() -> None:
    assert PICTURE.stat().st_size < 100_000
    with Image.open(PICTURE) as image:
        assert image.width >= 1000
