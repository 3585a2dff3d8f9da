"""Tables and pictures of identification: what stands where, and what is said about it."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from verisphere.decide.identification import (
    ProbeScores,
    cmc,
    identification_curve,
    identification_point,
    mean_point,
    mean_rank,
    rank_rate,
)
from verisphere.report.plots import identification_plot, save_plot
from verisphere.report.tables import open_set_table, ranks_table


def scores(seed: int = 0, mates: int = 50, strangers: int = 40, people: int = 30) -> ProbeScores:
    random = np.random.default_rng(seed)
    mate, rival = random.normal(0.6, 0.2, mates), random.normal(0.3, 0.1, mates)
    rank = np.where(mate > rival, 1, random.integers(2, people + 1, mates)).astype(np.int64)
    return ProbeScores(mate, rival, rank, random.normal(0.3, 0.1, strangers), people)


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]


def test_open_set_table():
    found = scores()
    points = [identification_point(found, fpir) for fpir in ("1e-1", "1e-2")]
    text = open_set_table({"G1": points})
    head, first, second = cells(text)
    assert head[:4] == ["gallery", "FPIR target", "threshold", "TPIR"]
    assert first[:3] == ["G1", "1e-1", f"{points[0].threshold:.6f}"]
    assert first[3] == f"{points[0].tpir:.4f}"
    assert first[5] == f"{points[0].mated_identified} / 50"
    assert first[8] == "4 / 40"
    assert second[1:5] == ["1e-2*", f"{points[1].threshold:.6f}", "-", "-"]  # 40 strangers cannot show 1e-2
    assert "below resolution" in text
    assert "rule" not in text
    assert "best people" not in text


def test_means_rank_and_rule_are_told():
    points = {
        name: [identification_point(scores(seed), "1e-1", rank=5, rule="nearest")]
        for seed, name in enumerate(("G1", "G2"))
    }
    mean = mean_point([own[0] for own in points.values()])
    text = open_set_table(points, [mean])
    assert cells(text)[-1] == ["mean of 2", "1e-1", "", f"{mean.tpir:.4f}", "", "", f"{mean.fpir:.3g}", "", ""]
    assert "among the 5 best people (ties lost)" in text
    assert "rule: nearest (a realised FPIR may lie above its target)" in text


def test_a_mean_below_resolution_has_no_tpir():
    points = {name: [identification_point(scores(seed), "1e-3")] for seed, name in enumerate(("G1", "G2"))}
    text = open_set_table(points, [mean_point([own[0] for own in points.values()])])
    assert cells(text)[-1][1:4] == ["1e-3*", "", "-"]


def test_ranks_table():
    rates = {name: [rank_rate(scores(seed), rank) for rank in (1, 5)] for seed, name in enumerate(("G1", "G2"))}
    means = [mean_rank([own[place] for own in rates.values()]) for place in range(2)]
    rows = cells(ranks_table(rates, means))
    assert len(rows) == 1 + 4 + 2
    assert rows[1][:2] == ["G1", "1"]
    assert rows[1][4] == f"{rates['G1'][0].identified} / 50"
    assert rows[-1][:3] == ["mean of 2", "5", f"{means[1].rate:.4f}"]


def drawn(figure: Figure) -> list[list[tuple[list[float], list[float]]]]:
    return [[(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines] for axes in figure.axes]


def test_the_picture_has_the_figures():
    found = ProbeScores(
        np.array([0.9, 0.8, 0.2]), np.array([0.1, 0.2, 0.5]), np.array([1, 1, 4]), np.array([0.3, 0.6]), 9
    )
    figure = identification_plot({"G1": cmc(found)}, {"G1": identification_curve(found)}, "identification")
    (ranks,), (curve,) = drawn(figure)
    assert ranks == ([1, 1, 4, 9], pytest.approx([2 / 3, 2 / 3, 1, 1]))
    assert curve[0][-1] == 1.0
    assert curve[1][-1] == pytest.approx(2 / 3)
    assert figure.axes[0].get_title(loc="left") == "identification: G1"
    assert figure.axes[1].get_xlim() == (0.5, 1)


def test_nobody_at_rank_one():
    found = ProbeScores(np.array([0.2]), np.array([0.5]), np.array([3]), np.empty(0), 4)
    ((line,),) = drawn(identification_plot({"G1": cmc(found)}, {}, "closed set"))
    assert line == ([1, 3, 4], [0, 1, 1])


def test_several_galleries_are_told_apart_and_saved(tmp_path):
    found = {name: scores(seed) for seed, name in enumerate(("G1", "_G2"))}
    figure = identification_plot(
        {name: cmc(one) for name, one in found.items()},
        {name: identification_curve(one) for name, one in found.items()},
        "identification",
    )
    assert [text.get_text().strip() for text in figure.axes[0].get_legend().get_texts()] == ["G1", "_G2"]
    assert save_plot(figure, tmp_path / "search.png").stat().st_size > 10_000
    ranks, rates = figure.axes
    marks = [label.get_text() for label in (*ranks.get_xticklabels(), *ranks.get_xticklabels(minor=True))]
    assert {"1", "2", "5", "10", "20"} <= set(marks) <= {"", "0", "1", "2", "5", "10", "20", "50", "100"}
    assert {"1e-2", "1e-1"} <= {label.get_text() for label in rates.get_xticklabels()}
