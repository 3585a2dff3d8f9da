"""Pictures of losses and features: they show what they are given, and leave nothing of it out."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from figures.feature_plots import Circle, Sphere, circles_plot, colour_of, spheres_plot
from figures.loss_plots import (
    Panel,
    angles_plot,
    curves_plot,
    decision_margins_plot,
    save_compact,
    soft_indicator,
    soft_indicator_slope,
)
from verisphere.report.plots import save_plot

X = np.linspace(0.0, 1.0, 11)


def panel(**extra) -> Panel:
    return Panel(
        "a title that is longer than forty-four letters are", "x", "y", {"one": (X, X), "two": (X, X**2)}, **extra
    )


def legends(figure: Figure) -> list[list[str]]:
    return [[text.get_text() for text in one.get_texts()] if (one := axes.get_legend()) else [] for axes in figure.axes]


def test_panels_show_their_curves_marks_and_ground(tmp_path: Path):
    figure = curves_plot([panel(marks={"here": 0.5}, shaded=(0.2, 0.4), step=0.25), panel()], "two panels")
    left, right = figure.axes
    assert left.get_title(loc="left") == "a title that is longer than forty-four letters are"
    assert [line.get_label() for line in left.lines] == ["one", "two", "here"]
    assert left.lines[1].get_ydata().tolist() == (X**2).tolist()
    assert len(left.patches) == 1
    assert len({line.get_color() for line in right.lines}) == 2
    save_plot(figure, tmp_path / "curves.svg")


def test_a_legend_is_not_repeated_where_the_curves_are_the_same():
    other = Panel("other", "x", "y", {"three": (X, X)})
    assert legends(curves_plot([panel(), panel()], "t")) == [[], ["one", "two"]]
    assert legends(curves_plot([panel(), other], "t")) == [["one", "two"], ["three"]]


def test_a_compact_picture_is_whole_small_and_the_same_each_time(tmp_path: Path):
    figure = curves_plot([panel(), panel()], "two panels")
    full, compact = save_plot(figure, tmp_path / "full.png"), save_compact(figure, tmp_path / "deep" / "compact.png")
    assert compact.stat().st_size < 0.5 * full.stat().st_size
    assert [path.name for path in compact.parent.iterdir()] == ["compact.png"]
    with Image.open(full) as one, Image.open(compact) as other:
        assert one.size == other.size
        difference = np.abs(np.asarray(one.convert("RGB"), np.int16) - np.asarray(other.convert("RGB"), np.int16))
        assert difference.mean() < 1
    assert save_compact(figure, tmp_path / "again.png").read_bytes() == compact.read_bytes()


def test_decision_margins_are_the_boundary_and_its_mirror():
    first, second = np.array([0.0, 30.0, 60.0]), np.array([30.0, 60.0, 90.0])
    figure = decision_margins_plot({"a loss": (first, second), "another": (first, first)}, "margins")
    one, other, _ = figure.axes[0].lines
    assert (one.get_xdata().tolist(), one.get_ydata().tolist()) == (first.tolist(), second.tolist())
    assert (other.get_xdata().tolist(), other.get_ydata().tolist()) == (second.tolist(), first.tolist())
    # a square of 90 less two corners where a class wins, of 60, and the one past both boundaries, of 30
    corners = figure.axes[0].patches[0].get_xy()
    x, y = corners[:, 0], corners[:, 1]
    area = 0.5 * abs(np.dot(x[:-1], y[1:]) - np.dot(x[1:], y[:-1]))
    assert area == pytest.approx(90 * 90 - 60 * 60 - 30 * 30 / 2)


def test_angles_are_shares_of_the_rows(tmp_path: Path):
    moments = {"start": np.array([90.0, 91.0, 89.0, 88.0]), "end": np.array([10.0, 10.5])}
    figure = angles_plot({"a run": moments, "another": moments}, "angles")
    start = figure.axes[0].patches[0].get_data()
    # bins of 3 degrees: 87 to 90 holds 88 and 89, 90 to 93 holds 90 and 91
    assert start.values[29:31].tolist() == [0.5, 0.5]
    assert start.values.sum() == 1.0
    assert legends(figure)[0] == ["start", "end"]
    save_plot(figure, tmp_path / "angles.png")


def test_soft_indicator_by_hand():
    x = np.array([-1e4, -0.1, 0.0, 0.1, 1e4])
    # 1 / (1 + e) and its complement
    assert soft_indicator(x, 0.1) == pytest.approx([0.0, 0.2689414, 0.5, 0.7310586, 1.0])
    # s (1 - s) / tau
    assert soft_indicator_slope(x, 0.1) == pytest.approx([0.0, 1.9661193, 2.5, 1.9661193, 0.0])


def directions(*degrees: float) -> np.ndarray:
    turn = np.radians(degrees)
    return np.stack([np.cos(turn), np.sin(turn)], 1)


def test_a_circle_shows_every_feature_at_its_angle(tmp_path: Path):
    circle = Circle(
        directions(10.0, -10.0, 170.0),
        np.array([0, 0, 1]),
        directions(0.0, 180.0),
        wedges=[(60.0, 120.0, -1), (-20.0, 20.0, 0)],
        rays={"boundary": [90.0, 270.0], "other": [45.0]},
    )
    figure = circles_plot({"one": circle, "two": circle}, "circles")
    axes = figure.axes[0]
    placed = np.concatenate([np.asarray(points.get_offsets()) for points in axes.collections])
    assert np.degrees(np.arctan2(placed[:, 1], placed[:, 0])) == pytest.approx([10.0, -10.0, 170.0])
    assert (np.hypot(*placed.T) < 1).all()
    assert [(wedge.theta1, wedge.theta2) for wedge in axes.patches] == [(60.0, 120.0), (-20.0, 20.0)]
    assert [text.get_text() for text in axes.texts] == ["1", "2"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["boundary", "other"]
    save_plot(figure, tmp_path / "circles.png")


def test_both_sides_of_a_sphere_show_every_feature_once(tmp_path: Path):
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(50, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    centers = np.array([[2.0, 1.0, 2.0], [1.0, -2.0, 2.0], [-2.0, 2.0, 1.0]]) / 3
    labels = (rows @ centers.T).argmax(1)
    equator = np.stack([np.cos(X * 2 * np.pi), np.sin(X * 2 * np.pi), 0 * X], 1)
    sphere = Sphere(
        rows, labels, centers, [("ring", 0, "-", equator), ("ring", 1, "-", equator), ("all", -1, ":", equator)]
    )
    figure = spheres_plot({"a loss": sphere}, "spheres")
    front, back = figure.axes
    shown = [
        np.concatenate([np.asarray(points.get_offsets()) for points in axes.collections]) for axes in (front, back)
    ]
    assert len(shown[0]) + len(shown[1]) == 50
    assert all((np.hypot(*side.T) <= 1).all() for side in shown)
    assert sorted(text.get_text() for axes in (front, back) for text in axes.texts) == ["1", "2", "3"]
    # a name is shown once however many curves bear it
    assert [text.get_text() for text in front.get_legend().get_texts()] == ["ring", "all"]
    save_plot(figure, tmp_path / "spheres.png")


def test_classes_have_colours_without_end():
    assert len({colour_of(number) for number in range(8)}) == 8
    assert colour_of(8) == colour_of(0)
