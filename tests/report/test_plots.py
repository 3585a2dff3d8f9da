"""Plots: they can be drawn from any result and are written whole."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from verisphere.decide import one_threshold, roc
from verisphere.report.plots import domains_plot, roc_plot, save_image, save_plot, training_plot


def scores(shift: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.normal(0.6 + shift, 0.1, 200), generator.normal(shift, 0.1, 500)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_curve_is_drawn_and_saved(tmp_path: Path, suffix: str):
    figure = roc_plot({"ours": roc(*scores(0.0, 0)), "theirs": roc(*scores(0.1, 1))}, "two models")
    saved = save_plot(figure, tmp_path / "deep" / f"roc{suffix}")
    assert saved.stat().st_size > 1000
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_the_curve_shows_the_counts_of_the_roc():
    curve = roc([0.9, 0.4], [0.4, 0.3, 0.2, 0.1])
    (line,) = roc_plot({"ours": curve}, "by hand").axes[0].lines
    # only points with an accepted impostor have a place on a logarithmic axis
    assert line.get_xdata().tolist() == [0.25, 0.5, 0.75, 1.0]
    assert line.get_ydata().tolist() == [1.0] * 4


@pytest.mark.parametrize("impostors", [1, 10, 11])
def test_few_impostors_and_many_curves_can_be_drawn(tmp_path: Path, impostors: int):
    curves = {f"model {number}": roc([0.9], np.linspace(0, 0.5, impostors)) for number in range(7)}
    figure = roc_plot(curves, "seven models")
    assert len(figure.axes[0].lines) == 7
    left, right = figure.axes[0].get_xlim()
    assert left < right
    save_plot(figure, tmp_path / "roc.png")


def test_domains_at_one_threshold(tmp_path: Path):
    domains = {"day": scores(0.0, 0), "night": scores(0.1, 1), "fog": (np.empty(0), np.array([0.1]))}
    result = one_threshold(domains, far="0.01", skip_empty=True)
    figure = domains_plot(domains, result)
    assert len(figure.axes) == 2  # the skipped one is not drawn
    for axes, name in zip(figure.axes, ("day", "night"), strict=True):
        common, own = (line.get_xdata()[0] for line in axes.lines)
        assert (common, own) == (result.calibration_threshold, result.domains[name].threshold)
    save_plot(figure, tmp_path / "domains.png")


def test_a_training_log(tmp_path: Path):
    entries = [{"epoch": epoch, "loss": 10 / (epoch + 1), "rate": 0.1} for epoch in range(4)] + [{"accuracy": 0.9}]
    figure = training_plot(entries)
    assert figure.axes[0].lines[0].get_ydata().tolist() == [10, 5, 10 / 3, 2.5]
    save_plot(figure, tmp_path / "training.png")


def test_an_image_is_saved_as_it_is(tmp_path: Path):
    pixels = torch.randint(0, 256, (3, 5, 7), dtype=torch.uint8)
    save_image(pixels, tmp_path / "faces.png")
    with Image.open(tmp_path / "faces.png") as image:
        assert np.array_equal(np.asarray(image), pixels.permute(1, 2, 0).numpy())
