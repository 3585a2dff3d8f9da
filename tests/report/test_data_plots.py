"""The picture of a data set's distributions."""

import warnings
from itertools import pairwise

import pytest

from verisphere.report.plots import data_plot

IMAGES = [("1", 40_690), ("2", 0), ("1,025 to 2,048", 3)]
YAW = [(first, first + 15, 10) for first in range(-90, 90, 15)]


@pytest.mark.parametrize(
    ("yaw", "domains", "panels"),
    [(None, None, 1), (YAW, None, 2), (None, {"day": 2}, 2), (YAW, {"day": 2_000_000, "night": 1}, 3)],
)
def test_a_panel_for_each_distribution(yaw, domains, panels: int):
    figure = data_plot("faces", IMAGES, yaw, domains)
    assert len(figure.axes) == panels
    assert [bar.get_width() for bar in figure.axes[0].patches] == [40_690, 0, 3]
    assert figure.axes[0].get_title(loc="left") == "faces"


def test_shares_of_yaw_add_up():
    figure = data_plot("faces", IMAGES, YAW, None)
    assert sum(bar.get_height() for bar in figure.axes[1].patches) == pytest.approx(100)


def test_many_domains_become_one_bar_more():
    figure = data_plot("faces", IMAGES, None, {f"domain number {number}": 100 - number for number in range(20)})
    labels = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert len(labels) == 13
    assert labels[-1] == "8 others"
    assert figure.axes[1].patches[-1].get_width() == sum(100 - number for number in range(12, 20))


def test_marks_and_names_do_not_overlap():
    """Of millions of images, and of names in any length."""
    domains = {f"{number} {'x' * 60} $\\frac": 10_000_000 - number for number in range(20)}
    figure = data_plot("faces", [(f"{2**power}", 10**power) for power in range(7)], YAW, domains)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.draw_without_rendering()
    for axes in figure.axes:
        for labels, side in ((axes.get_xticklabels(), 0), (axes.get_yticklabels(), 1)):
            low, high = axes.get_xlim() if side == 0 else sorted(axes.get_ylim())
            boxes = sorted(
                (label.get_window_extent().bounds[side], label.get_window_extent().bounds[side + 2])
                for label in labels
                if low <= label.get_position()[side] <= high
            )
            for (start, length), (following, _) in pairwise(boxes):
                assert start + length <= following, [label.get_text() for label in labels]


def test_each_bar_has_its_count_in_the_picture():
    figure = data_plot("faces", [("9 to 16", 40_000_000)], None, {"day": 10_000_000, "night": 1})
    figure.draw_without_rendering()
    counts = [[text.get_text() for text in axes.texts] for axes in figure.axes]
    assert counts == [["40,000,000"], ["10,000,000", "1"]]
    for axes in figure.axes:
        panel = axes.get_window_extent()
        assert all(text.get_window_extent().x1 <= panel.x1 for text in axes.texts)
        label = axes.yaxis.label.get_window_extent()
        assert panel.y0 <= label.y0
        assert label.y1 <= panel.y1
