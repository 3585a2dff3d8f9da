"""Histograms of angles to sub-centers: what is counted where, with which shares, and that something is drawn."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from cleaning_examples import contents
from verisphere.report import cleaning_plots
from verisphere.report.cleaning_findings import Category, CleaningFindings
from verisphere.report.cleaning_plots import IN_DOMINANT, NEAREST, SPLIT, TO_DOMINANT, bins
from verisphere.report.plots import save_plot


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


def cleaning_figures(findings: CleaningFindings) -> dict[str, Figure]:
    return {name: draw() for name, draw in cleaning_plots.cleaning_figures(findings).items()}


def test_all_samples_to_the_dominant_sub_center():
    # dominant at 10, 20, 30 and 80 degrees, others at 40 and 90; bins are two degrees wide
    figure = cleaning_figures(contents())[SPLIT]
    assert counted(figure) == [{10.0: 1, 20.0: 1, 30.0: 1, 80.0: 1}, {40.0: 1, 90.0: 1}]
    assert legend(figure) == ["dominant (66.67 %)", "non-dominant (33.33 %)", "rule: 75\N{DEGREE SIGN}"]
    assert figure.axes[1].get_xlabel() == "angle to the dominant sub-center, degrees"
    assert [axes.get_ylabel() for axes in figure.axes] == ["images", "images"]


def test_the_three_panels_of_figure_7_with_the_shares_of_its_four_categories():
    figures = cleaning_figures(contents())
    assert list(figures) == [SPLIT, IN_DOMINANT, NEAREST, TO_DOMINANT]
    assert counted(figures[IN_DOMINANT]) == [{10.0: 1, 20.0: 1, 30.0: 1}, {80.0: 1}]
    assert legend(figures[IN_DOMINANT])[:2] == ["dominant and clean (50.00 %)", "dominant and noisy (16.67 %)"]
    assert counted(figures[NEAREST]) == [{20.0: 1}, {34.0: 1}]
    assert counted(figures[TO_DOMINANT]) == [{40.0: 1}, {90.0: 1}]
    for name in (NEAREST, TO_DOMINANT):
        shares = ["non-dominant and clean (16.67 %)", "non-dominant and noisy (16.67 %)"]
        assert legend(figures[name])[:2] == shares


def test_the_rule_is_a_line_where_it_decides():
    figures = cleaning_figures(contents())
    lines = {name: [float(line.get_xdata()[0]) for line in figure.axes[0].lines] for name, figure in figures.items()}
    assert lines == {SPLIT: [75.0], IN_DOMINANT: [75.0], NEAREST: [], TO_DOMINANT: [75.0]}
    assert not cleaning_figures(contents(angle=None))[SPLIT].axes[0].lines


def test_without_the_truth_there_are_two_groups():
    categories = [replace(category, noisy=None) for category in (contents().categories[0], contents().categories[2])]
    figures = cleaning_figures(contents(categories=categories))
    assert legend(figures[TO_DOMINANT])[0] == "non-dominant (25.00 %)"
    assert counted(figures[IN_DOMINANT]) == [{10.0: 1, 20.0: 1, 30.0: 1}]


def test_one_center_has_one_plot():
    dominant = contents().categories[:2]
    figures = cleaning_figures(contents(sub_centers=1, categories=dominant))
    assert list(figures) == [SPLIT]
    assert legend(figures[SPLIT])[:2] == ["clean (75.00 %)", "noisy (25.00 %)"]
    assert figures[SPLIT].axes[1].get_xlabel() == "angle to the center of the identity, degrees"


def test_nobody_outside_and_nobody_at_all():
    none = np.empty(0, np.float32)
    empty = [Category(dominant, None, none, none) for dominant in (True, False)]
    assert cleaning_figures(contents(categories=empty)) == {}
    dominant = replace(contents().categories[0], noisy=None)
    assert list(cleaning_figures(contents(categories=[dominant, empty[1]]))) == [SPLIT, IN_DOMINANT]


def test_the_axis_holds_the_largest_angle():
    assert bins([np.array([30.0], np.float32)], total=1)[-1] == 120
    assert bins([np.array([179.5], np.float32)], total=1)[-1] == 180
    assert np.diff(bins([np.array([179.5], np.float32)], total=10_000)).max() == 1


def test_single_images_at_0_degrees_do_not_press_the_others_down():
    angles = np.concatenate([np.zeros(500), np.full(20, 41.0)]).astype(np.float32)
    figure = cleaning_figures(contents(categories=[Category(True, None, angles, angles), contents().categories[2]]))[
        IN_DOMINANT
    ]
    upper = figure.axes[0]
    assert upper.get_ylim()[1] == pytest.approx(26.0)  # 1.3 times the 20 images at 41 degrees
    assert [text.get_text() for text in upper.texts] == ["\N{UPWARDS ARROW} 500 within 2\N{DEGREE SIGN}"]


@pytest.mark.parametrize("name", [SPLIT, NEAREST])
def test_a_plot_is_not_blank_and_nothing_is_cut_off(name: str, tmp_path: Path):
    pixels = np.asarray(Image.open(save_plot(cleaning_figures(contents())[name], tmp_path / "plot.png")).convert("L"))
    assert (pixels < 250).mean() > 0.02
    border = np.concatenate([pixels[:4].ravel(), pixels[-4:].ravel(), pixels[:, :4].ravel(), pixels[:, -4:].ravel()])
    assert border.min() == 255
