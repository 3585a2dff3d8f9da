"""Histograms of angles to sub-centers: what is counted where, with which shares, and that something is drawn."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from six_images import SUB, one_center, six_images
from verisphere.report.plots import save_plot
from verisphere.study.clean.cleaning import Cleaning
from verisphere.study.clean.page import IN_DOMINANT, NEAREST, SPLIT, TO_DOMINANT, angle_plots, bins
from verisphere.study.clean.rules import Rule
from verisphere.study.clean.sub_classes import NONE, SubClasses


def counted(figure: Figure) -> list[dict[float, int]]:
    """Each outlined histogram of the upper panel: number of samples by the left edge of their bin."""
    outlines = [patch for patch in figure.axes[0].patches if not patch.get_fill()]
    found = []
    for outline in outlines:
        values, edges, _ = outline.get_data()
        found.append({float(edge): int(value) for edge, value in zip(edges, values, strict=False) if value})
    return found


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def figures(cleaning: Cleaning) -> dict[str, Figure]:
    return {plot.name: plot.draw() for plot in angle_plots(cleaning)}


def test_all_samples_to_the_dominant_sub_center():
    # dominant at 10, 20, 30 and 80 degrees, others at 40 and 90; bins are two degrees wide
    figure = figures(six_images())[SPLIT]
    assert counted(figure) == [{10.0: 1, 20.0: 1, 30.0: 1, 80.0: 1}, {40.0: 1, 90.0: 1}]
    assert legend(figure) == ["dominant (66.67 %)", "non-dominant (33.33 %)", "rule: 75\N{DEGREE SIGN}"]
    assert figure.axes[1].get_xlabel() == "angle to the dominant sub-center, degrees"
    assert [axes.get_ylabel() for axes in figure.axes] == ["images", "images"]


def test_the_three_panels_of_figure_7_with_the_shares_of_its_four_categories():
    drawn = figures(six_images())
    assert list(drawn) == [SPLIT, IN_DOMINANT, NEAREST, TO_DOMINANT]
    assert counted(drawn[IN_DOMINANT]) == [{10.0: 1, 20.0: 1, 30.0: 1}, {80.0: 1}]
    assert legend(drawn[IN_DOMINANT])[:2] == ["dominant and clean (50.00 %)", "dominant and noisy (16.67 %)"]
    assert counted(drawn[NEAREST]) == [{20.0: 1}, {34.0: 1}]
    assert counted(drawn[TO_DOMINANT]) == [{40.0: 1}, {90.0: 1}]
    for name in (NEAREST, TO_DOMINANT):
        shares = ["non-dominant and clean (16.67 %)", "non-dominant and noisy (16.67 %)"]
        assert legend(drawn[name])[:2] == shares


def test_the_rule_is_a_line_where_it_decides():
    lines = {
        name: [float(line.get_xdata()[0]) for line in figure.axes[0].lines]
        for name, figure in figures(six_images()).items()
    }
    assert lines == {SPLIT: [75.0], IN_DOMINANT: [75.0], NEAREST: [], TO_DOMINANT: [75.0]}
    assert not figures(six_images(Rule(None)))[SPLIT].axes[0].lines


def test_without_the_truth_there_are_two_groups():
    drawn = figures(six_images(truth=None))
    assert legend(drawn[TO_DOMINANT])[0] == "non-dominant (33.33 %)"
    assert counted(drawn[IN_DOMINANT]) == [{10.0: 1, 20.0: 1, 30.0: 1, 80.0: 1}]


def test_one_center_has_one_plot():
    drawn = figures(six_images(sub=one_center()))
    assert list(drawn) == [SPLIT]
    assert legend(drawn[SPLIT])[:2] == ["clean (66.67 %)", "noisy (33.33 %)"]
    assert drawn[SPLIT].axes[1].get_xlabel() == "angle to the center of the identity, degrees"


def test_nobody_outside_and_nobody_at_all():
    nobody = replace(SUB, sub_center=np.full(6, NONE))
    assert figures(six_images(sub=nobody)) == {}
    assert list(figures(six_images(sub=replace(SUB, sub_center=SUB.dominant[SUB.labels])))) == [SPLIT, IN_DOMINANT]


def test_the_axis_holds_the_largest_angle():
    assert bins([np.array([30.0], np.float32)], total=1)[-1] == 120
    assert bins([np.array([179.5], np.float32)], total=1)[-1] == 180
    assert np.diff(bins([np.array([179.5], np.float32)], total=10_000)).max() == 1


def test_single_images_at_0_degrees_do_not_press_the_others_down():
    angles = np.concatenate([np.zeros(500), np.full(20, 41.0)]).astype(np.float32)
    zeros, names = np.zeros(520, np.int64), tuple(map(str, range(520)))
    sub = SubClasses(zeros, zeros, zeros[:1], np.array([[520, 0]]), angles, angles)
    many = six_images(sub=sub, truth=None, names=names, identities=("a",) * 520, people=("a",))
    upper = figures(many)[IN_DOMINANT].axes[0]
    assert upper.get_ylim()[1] == pytest.approx(26.0)  # 1.3 times the 20 images at 41 degrees
    assert [text.get_text() for text in upper.texts] == ["\N{UPWARDS ARROW} 500 within 2\N{DEGREE SIGN}"]


@pytest.mark.parametrize("name", [SPLIT, NEAREST])
def test_a_plot_is_not_blank_and_nothing_is_cut_off(name: str, tmp_path: Path):
    pixels = np.asarray(Image.open(save_plot(figures(six_images())[name], tmp_path / "plot.png")).convert("L"))
    assert (pixels < 250).mean() > 0.02
    border = np.concatenate([pixels[:4].ravel(), pixels[-4:].ravel(), pixels[:, :4].ravel(), pixels[:, -4:].ravel()])
    assert border.min() == 255
