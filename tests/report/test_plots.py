"""Plots: they show the numbers they are given, whatever the names, and are written whole."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image
from scipy.special import ndtri

from redrawing import count_scores
from verisphere.decide import Curve, OneThreshold, one_threshold, operating_point, roc
from verisphere.decide.curve import Histogram
from verisphere.report.plots import det_plot, in_picture, roc_plot, save_image, save_plot, training_plot
from verisphere.report.score_plots import MOST_DOMAINS, curve_plot, domains_plot, histogram_plot

EDGES = np.linspace(-1, 1.5, 51)


def scores(shift: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.normal(0.6 + shift, 0.1, 200), generator.normal(shift, 0.1, 500)


def counted(domains: dict[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, Histogram]:
    return {name: count_scores(*both, EDGES) for name, both in domains.items()}


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_curve_is_drawn_and_saved(tmp_path: Path, suffix: str):
    figure = roc_plot({"ours": roc(*scores(0.0, 0)), "theirs": roc(*scores(0.1, 1))}, "two models")
    saved = save_plot(figure, tmp_path / "deep" / f"roc{suffix}")
    assert saved.stat().st_size > 1000
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_the_same_figure_gives_the_same_svg(tmp_path: Path):
    one, other = (
        save_plot(roc_plot({"ours": roc(*scores(0.0, 0))}, "ROC"), tmp_path / f"{number}.svg") for number in (1, 2)
    )
    assert one.read_bytes() == other.read_bytes()
    assert len(one.read_bytes()) < 200_000


def test_the_curve_shows_the_counts_of_the_roc():
    curve = roc([0.9, 0.4], [0.4, 0.3, 0.2, 0.1])
    (line,) = roc_plot({"ours": curve}, "by hand").axes[0].lines
    # only points with an accepted impostor have a place on a logarithmic axis
    assert line.get_xdata().tolist() == [0.25, 0.5, 0.75, 1.0]
    assert line.get_ydata().tolist() == [1.0] * 4
    assert line.get_drawstyle() == "steps-post"  # between two impostor scores nothing changes


@pytest.mark.parametrize("plot", [roc_plot, det_plot])
@pytest.mark.parametrize("impostors", [1, 10, 11])
def test_few_impostors_and_many_curves_can_be_drawn(tmp_path: Path, impostors: int, plot):
    curves = {f"model {number}": roc([0.9], np.linspace(0, 0.5, impostors)) for number in range(7)}
    figure = plot(curves, "seven models")
    (axes,) = figure.axes
    assert len(axes.lines) == 7
    assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == 7
    for low, high in (axes.get_xlim(), axes.get_ylim()):
        assert low < high
    save_plot(figure, tmp_path / "curve.png")


def det_curve() -> Curve:
    """FRR 1/4 at FAR 1/100, 0 at FAR 1/2; 1,000 impostors."""
    return Curve(np.array([0.9, 0.5, 0.2, -np.inf]), np.array([0, 10, 500, 1000]), np.array([1, 3, 4, 4]), 1000, 4)


def test_det_lies_on_normal_deviates_without_rates_of_0_or_1():
    figure = det_plot({"ours": det_curve()}, "DET")
    (axes,) = figure.axes
    (line,) = axes.lines
    # FAR 0 has no place on the axis, and neither has FRR 0; ndtri(0.01) = -2.3263, ndtri(0.25) = -0.6745
    assert line.get_xdata().tolist() == [pytest.approx(-2.326348)]
    assert line.get_ydata().tolist() == [pytest.approx(-0.674490)]
    # ten of a thousand impostors: no further left
    assert axes.get_xlim() == (pytest.approx(ndtri(0.01)), 0.0)


def test_marks_of_rates_do_not_touch_and_have_one_notation():
    passed, million = np.array([0, 10, 500_000, 10**6]), 10**6
    figure = det_plot({"ours": Curve(det_curve().thresholds, passed, np.array([1, 3, 4, 4]), million, 4)}, "DET")
    figure.draw_without_rendering()
    boxes = sorted((box.x0, box.x1) for box in (one.get_window_extent() for one in figure.axes[0].get_xticklabels()))
    assert min(right - left for (_, left), (right, _) in itertools.pairwise(boxes)) > 8
    figure = curve_plot(roc([0.9, 0.6, 0.2], np.linspace(0, 0.5, 1000)), [], "a set")
    figure.draw_without_rendering()
    marks = [label.get_text() for axes in figure.axes for label in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    assert "1e-2" in marks
    assert not any("10^" in mark for mark in marks)


def test_roc_and_det_share_their_far_axis_and_show_the_operating_points(tmp_path: Path):
    genuine, impostor = [0.9, 0.6, 0.2], [0.6, 0.5, 0.1, 0.05]
    points = [operating_point(genuine, impostor, far=far, rule="nearest") for far in ("0.25", "1e-3")]
    figure = curve_plot(roc(genuine, impostor), points, "a set")
    above, below = figure.axes
    curve, marks = above.lines
    # From FAR 0, at the left edge, where 1/3 pass at the threshold 0.6, in steps; 2/3 at FAR 1/4, all at FAR 1/2.
    assert corners(curve) == [(0.01, 1 / 3), (0.25, 1 / 3), (0.25, 2 / 3), (0.5, 2 / 3), (0.5, 1), (0.75, 1), (1, 1)]
    assert (marks.get_xdata().tolist(), marks.get_ydata().tolist()) == ([0.25], [pytest.approx(2 / 3)])  # 1e-3: too few
    curve, marks = below.lines
    # FRR 0 is the bottom edge
    assert corners(curve) == [
        *[(0.01, 2 / 3), (0.25, 2 / 3), (0.25, 1 / 3), (0.5, 1 / 3), (0.5, 0.01), (0.75, 0.01), (1, 0.01)]
    ]
    assert marks.get_ydata().tolist() == pytest.approx([1 / 3])
    assert (above.get_xscale(), below.get_xscale(), below.get_yscale()) == ("log", "log", "log")
    assert legend(figure) == ["at the FARs asked for, rule: nearest"]
    save_plot(figure, tmp_path / "curve.png")


def corners(line: Line2D) -> list[tuple[float, float]]:
    """Where a line turns, without what is there twice."""
    points = [(round(float(x), 12), round(float(y), 12)) for x, y in zip(*line.get_data(), strict=True)]
    return [pytest.approx(point) for point in dict.fromkeys(points)]


def test_an_operating_point_of_far_0_has_an_open_mark_at_the_left_edge(tmp_path: Path):
    genuine, impostor = np.r_[np.full(500, 0.9), np.full(500, 0.5)], np.full(1000, 0.5)
    figure = curve_plot(roc(genuine, impostor), [operating_point(genuine, impostor, far="0.5")], "ties")
    for axes, low in zip(figure.axes, (0.0, 5e-4), strict=True):
        curve, mark = axes.lines
        last = 1.0 if axes is figure.axes[0] else low
        assert corners(curve) == [(5e-4, 0.5), (1, 0.5), (1, last)]  # 0.5 / 1000: left of one impostor
        assert corners(mark) == [(5e-4, 0.5)]
        assert mark.get_markerfacecolor() == "white"
        assert axes.get_xlim() == (5e-4, 1)
    assert legend(figure) == ["with a rate of 0, at the edge, rule: at_most"]
    save_plot(figure, tmp_path / "curve.png")


def test_an_operating_point_of_frr_0_has_an_open_mark_at_the_bottom(tmp_path: Path):
    genuine, impostor = [0.9] * 100, [0.5, *np.linspace(0, 0.4, 199)]
    points = [operating_point(genuine, impostor, far=far) for far in ("0.1", "0.01")]
    figure = curve_plot(roc(genuine, impostor), points, "apart")
    above, below = (axes.lines[1] for axes in figure.axes)
    assert corners(above) == [(0.1, 1), (0.01, 1)]
    assert above.get_markerfacecolor() != "white"
    assert corners(below) == [(0.1, 0.005), (0.01, 0.005)]
    assert below.get_markerfacecolor() == "white"
    assert len(legend(figure)) == 2
    save_plot(figure, tmp_path / "curve.png")


def test_no_slope_of_a_long_curve_leads_to_an_edge():
    curve = roc(np.linspace(0.3, 0.9, 400), np.linspace(0, 0.5, 400))
    for axes, low in zip(curve_plot(curve, [], "long").axes, (0.0, 1 / 800), strict=True):
        x, y = axes.lines[0].get_data()
        slopes = (x[1:] != x[:-1]) & (y[1:] != y[:-1])
        assert slopes.any()
        assert not (slopes & ((x[:-1] == 1 / 800) | (y[1:] == low))).any()
        assert (x.min(), y.min() >= low) == (1 / 800, True)


def test_curves_with_infinities_have_a_line(tmp_path: Path):
    genuine, impostor = [np.inf, 0.5, -np.inf], [-np.inf, -np.inf, 0.2, -np.inf]
    figure = curve_plot(roc(genuine, impostor), [operating_point(genuine, impostor, far="0.5")], "infinite")
    # Above 0.5 and 0.2 no impostor: TAR 2/3; above minus infinity one of four; no threshold accepts the rest.
    assert corners(figure.axes[0].lines[0]) == [(0.01, 2 / 3), (0.25, 2 / 3)]
    save_plot(figure, tmp_path / "curve.png")


@pytest.mark.parametrize(
    ("genuine", "impostor", "says"),
    [
        ([0.9, 0.2], [0.5, 0.1], "no operating point: too few impostors for these FARs"),
        ([-np.inf] * 2, [-np.inf] * 2, "no curve: it has one threshold alone"),
    ],
)
def test_a_picture_says_what_it_cannot_show(tmp_path: Path, genuine: list[float], impostor: list[float], says: str):
    figure = curve_plot(roc(genuine, impostor), [operating_point(genuine, impostor, far="1e-3")], "little")
    assert says in figure.axes[1].get_xlabel()
    save_plot(figure, tmp_path / "curve.png")
    assert "\n" not in curve_plot(roc([0.9, 0.2], [0.5, 0.1]), [], "nothing asked").axes[1].get_xlabel()


@pytest.mark.parametrize(("genuine", "impostor"), [([0.9], [0.1]), ([0.1], [0.9]), ([0.5] * 3, [0.5] * 3)])
def test_curves_without_a_middle_can_be_drawn(tmp_path: Path, genuine: list[float], impostor: list[float]):
    points = [operating_point(genuine, impostor, far=far) for far in ("1", "0.5", "1e-3")]
    figure = curve_plot(roc(genuine, impostor), points, "$ _odd {")
    for axes in figure.axes:
        assert axes.get_ylim()[0] < axes.get_ylim()[1]
        assert axes.get_xlim()[0] <= 0.01  # two decades: marks at less would touch
    assert figure.axes[1].get_ylim()[0] <= 0.01
    save_plot(figure, tmp_path / "curve.svg")


def test_a_name_cannot_break_a_picture(tmp_path: Path):
    curve = det_curve()
    names = {"_hidden": curve, "$x_1$ {": curve, r"\alpha $\frac$": curve, "夜\n間": curve, "long " * 40: curve}
    for plot in (roc_plot, det_plot):
        figure = plot(names, "$\\frac$ <b>")
        shown = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
        assert len(shown) == 5
        assert shown[0].strip() == "_hidden"
        save_plot(figure, tmp_path / "roc.svg")
    assert in_picture("a$b") == r"a\$b"
    assert len(in_picture("long " * 40)) == 44


def test_a_histogram_shows_shares_and_thresholds(tmp_path: Path):
    histogram = Histogram(np.array([0.0, 0.5, 1.0]), np.array([1, 3]), np.array([6, 2]), 4, 10)
    figure = histogram_plot(histogram, {"at FAR 0.2": 0.5}, "a set", {"calibrated": 0.75, "never": np.inf})
    even, logarithmic = figure.axes
    impostor, genuine = even.patches
    assert impostor.get_data().values.tolist() == [0.6, 0.2]  # two of ten lie beyond the bins
    assert genuine.get_data().values.tolist() == [0.25, 0.75]
    assert logarithmic.get_yscale() == "log"
    for axes in figure.axes:
        assert [line.get_xdata()[0] for line in axes.lines] == [0.5, 0.75]
    assert legend(figure) == ["strangers", "same person", "at FAR 0.2: 0.5000", "calibrated: 0.7500"]
    save_plot(figure, tmp_path / "histogram.svg")


def test_a_histogram_in_degrees_runs_from_equal_to_opposite(tmp_path: Path):
    histogram = Histogram(np.array([-1.0, 0.5, 1.0]), np.array([1, 3]), np.array([6, 2]), 4, 10)
    figure = histogram_plot(histogram, {"at FAR 0.2": 0.5}, "a set", {"calibrated": 0.0}, degrees=True)
    impostor, genuine = figure.axes[0].patches
    assert genuine.get_data().values.tolist() == [0.75, 0.25]
    assert impostor.get_data().edges.tolist() == pytest.approx([0.0, 60.0, 180.0])
    assert [line.get_xdata()[0] for line in figure.axes[0].lines] == pytest.approx([60.0, 90.0])
    assert figure.axes[1].get_xlabel() == "angle (degrees)"
    assert legend(figure)[2:] == ["at FAR 0.2: 60.0°, cosine 0.5000", "calibrated: 90.0°, cosine 0.0000"]
    domains = {"day": scores(0.0, 0), "night": scores(0.1, 1)}
    result = one_threshold(domains, far="0.01")
    own = domains_plot(counted(domains), result, "a set", degrees=True).axes[1].lines[1].get_xdata()[0]
    assert own == pytest.approx(np.degrees(np.arccos(result.domains["night"].threshold)))


def test_domains_at_one_threshold(tmp_path: Path):
    domains = {"day": scores(0.0, 0), "night": scores(0.1, 1), "fog": (np.empty(0), np.array([0.1]))}
    result = one_threshold(domains, far="0.01", skip_empty=True)
    figure = domains_plot(counted(domains), result, "a set")
    assert len(figure.axes) == 2  # the skipped one is not drawn
    for axes, name in zip(figure.axes, ("day", "night"), strict=True):
        common, own = (line.get_xdata()[0] for line in axes.lines)
        assert (common, own) == (result.calibration_threshold, result.domains[name].threshold)
        assert axes.get_title(loc="left").endswith(f"own threshold {own:.4f}")
        assert axes.get_ylim()[1] > max(patch.get_data().values.max() for patch in axes.patches)
    assert len({axes.get_ylim() for axes in figure.axes}) == 1  # equal heights are equal shares
    assert figure.get_supylabel() == "share of the pairs of each kind"
    assert legend(figure)[-2:] == [f"the one threshold: {result.calibration_threshold:.4f}", "its own threshold"]
    save_plot(figure, tmp_path / "domains.png")


def many_domains(count: int) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], OneThreshold]:
    domains = {f"d{number}": scores(0.01 * number, number) for number in range(count)}
    return domains, one_threshold(domains, far="0.01")


def test_of_many_domains_the_furthest_are_drawn():
    domains, result = many_domains(MOST_DOMAINS + 8)
    figure = domains_plot(counted(domains), result, "a set")
    assert len(figure.axes) == MOST_DOMAINS
    shown = [axes.get_title(loc="left").split(":")[0] for axes in figure.axes]
    distance = {name: abs(one.threshold - result.calibration_threshold) for name, one in result.domains.items()}
    left_out = set(domains) - set(shown)
    assert max(distance[name] for name in left_out) <= min(distance[name] for name in shown)
    assert shown == [name for name in domains if name in shown]


def test_an_infinite_threshold_is_not_drawn():
    domains, result = many_domains(2)
    everything = dataclasses.replace(result, calibration_threshold=-np.inf)
    figure = domains_plot(counted(domains), everything, "a set")
    assert [len(axes.lines) for axes in figure.axes] == [1, 1]


def test_the_figures_of_pair_terms_share_panels_by_their_kind():
    tars = {"anchor_tar_at_far_1e-4": 0.5, "anchor_tar_at_far_1e-5": 0.2}
    weights = {"tcp_weight_of_night": 1.2, "tcp_weight_of_street_of_gold": 0.9}
    kinds = tars | weights | {"tcp_threshold_at_far_1e-3": 0.4, "tcp_threshold_of_night": 0.5}
    figure = training_plot([{"step": 5, "epoch": 1, **kinds}], "run")
    shown = {axes.get_title(loc="left"): [line.get_label() for line in axes.lines] for axes in figure.axes}
    assert shown == {
        "TAR at the anchor, in training": ["FAR 1e-4", "FAR 1e-5"],
        "weights of the domains": ["night", "street_of_gold"],
        "thresholds on the queue": ["FAR 1e-3", "night"],
    }


def test_a_training_log(tmp_path: Path):
    entries = [{"step": 5 * epoch, "epoch": epoch, "loss": 10 / (epoch + 1), "rate": None} for epoch in range(1, 4)]
    entries += [{"step": 10, "validation_tar_at_far_1e-2": 0.5, "validation_tar_at_far_1e-3": 0.25}, {"step": 15}]
    entries += [{"step": 15, "epoch": 3, "images_per_second": 9.0, "spread_of_norms": -0.5}]
    figure = training_plot(entries, "run")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["loss", "TAR in validation", "spread of norms"]
    loss, validation, other = figure.axes
    assert loss.lines[0].get_ydata().tolist() == [5, 10 / 3, 2.5]
    # five steps make an epoch, so the validation after step 10 came after epoch 2
    assert [line.get_xdata().tolist() for line in validation.lines] == [[2.0], [2.0]]
    assert [line.get_label() for line in validation.lines] == ["FAR 1e-2", "FAR 1e-3"]
    assert other.get_ylim()[0] == -0.5
    for axes in figure.axes:
        assert axes.get_xlim()[0] == 0
        for line in axes.lines:  # the highest mark is not cut, nor near the border
            assert not line.get_clip_on()
            assert max(line.get_ydata()) < axes.get_ylim()[1]
    save_plot(figure, tmp_path / "training.png")


def test_a_log_without_figures_can_be_drawn(tmp_path: Path):
    save_plot(training_plot([{"step": 1}], "run"), tmp_path / "training.png")


def test_an_image_is_saved_as_it_is(tmp_path: Path):
    pixels = torch.randint(0, 256, (3, 5, 7), dtype=torch.uint8)
    save_image(pixels, tmp_path / "faces.png")
    with Image.open(tmp_path / "faces.png") as image:
        assert np.array_equal(np.asarray(image), pixels.permute(1, 2, 0).numpy())
