"""The page about a search, and the numbers that its plots show."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tiny_runs import OWN
from tiny_searches import searched, written
from verisphere.losses import ArcFace, SearchSoftmax
from verisphere.losses.search_softmax import modulating_function
from verisphere.study.search.definition import read_search
from verisphere.study.search.folder import SEARCH_JSON, read_search_json
from verisphere.study.search.page import (
    Course,
    draws_plot,
    loss_curve,
    losses_plot,
    probabilities_plot,
    rewards_plot,
    write_page,
)
from verisphere.study.search.search import SearchResult, result_text
from verisphere.study.search.space import ModulatingFactor

WHOLE = """
schedule: {class_path: verisphere.study.search.WholeTrainings, init_args: {trainings: 3, at_once: 2}}
method: {class_path: verisphere.study.search.RandomDraws}
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, SearchResult]:
    """A search of two rounds with two candidates each: its file, folder and result."""
    folder = tmp_path_factory.mktemp("ended")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(OWN)
        path = written(folder, candidates=2)
        return path, folder / "out", searched(path, folder / "out", "--epochs=2")


def test_a_search_leaves_a_page_with_its_plots_and_what_its_method_learned(ended: tuple[Path, Path, SearchResult]):
    search, out = read_search(ended[0], ["--epochs=2"]), ended[1]
    page = (out / "index.html").read_text()
    assert "optimizer.rate" in page
    assert "TAR at FAR 0.1" in page
    assert "so far" not in page
    assert "TAR at FAR 0.1 is " in page
    assert re.findall(r"<td>(\d+)(.)%</td>", page.partition("Another wins")[2])[0][1] == "\N{NO-BREAK SPACE}"
    assert {path.name for path in (out / "plots").iterdir()} == {
        f"{name}.{kind}" for name in ("draws", "rewards", "losses") for kind in ("png", "svg")
    }
    _, rounds = read_search_json(out / SEARCH_JSON)
    learned = json.loads((out / SEARCH_JSON).read_text())["learned"]
    for entry in rounds:
        search.method.ask(2)
        search.method.tell(entry.round.draws, entry.round.rewards)
    assert learned == dict(search.method.figures())
    course = Course(search, rounds, {0: 0, 1: 1}, learned, out)
    places, means = zip(*course.means["optimizer.rate"], strict=True)
    assert places == (0.0, 1.0, 2.0)
    assert means[0] == pytest.approx(0.01)  # the middle of 0.001 and 0.1
    assert course.logarithmic == {"optimizer.rate"}
    assert [one.losses[0][0] for one in course.rounds[1].tried] == [1.0, 1.0]  # where the parent ended
    assert len(losses_plot(course).axes[0].lines) == 4
    assert draws_plot(course).axes[0].get_yscale() == "log"
    assert len(rewards_plot(course).axes) == 2


def test_the_page_of_a_search_that_goes_on_says_so(ended: tuple[Path, Path, SearchResult], tmp_path: Path):
    out = shutil.copytree(ended[1], tmp_path / "out")
    _, rounds = read_search_json(out / SEARCH_JSON)
    write_page(read_search(ended[0], ["--epochs=2"]), rounds[:1], {0: 0}, None, out)
    page = (out / "index.html").read_text()
    assert "so far; the search has not ended" in page
    assert "2 epochs of training" in page


def test_a_reward_is_too_high_only_where_something_was_selected_by_it(
    ended: tuple[Path, Path, SearchResult], tmp_path: Path
):
    alone = written(tmp_path, candidates=1)
    for path, out, result, said in (
        (alone, tmp_path / "out", searched(alone, tmp_path / "out", "--epochs=2"), "by which nothing was selected"),
        (*ended, "expect less on people of"),
    ):
        assert said in result_text(read_search(path, ["--epochs=2"]), result)
        assert ("was selected by this figure" in (out / "index.html").read_text()) == (path != alone)


def test_whole_trainings_are_one_round_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, out = written(tmp_path, candidates=2), tmp_path / "out"
    lines = [line for line in path.read_text().splitlines() if not line.startswith(("schedule", "method"))]
    path.write_text("\n".join(lines) + WHOLE)
    monkeypatch.setattr("verisphere.study.search.search.write_page", lambda *_: None)
    searched(path, out, "--epochs=2")
    search = read_search(path, ["--epochs=2"])
    _, rounds = read_search_json(out / SEARCH_JSON)
    number, best = search.schedule.result([entry.round for entry in rounds])
    course = Course(search, rounds, {number: best}, {}, out)
    (shown,) = course.rounds
    assert [one.at for one in shown.tried] == [1, 2, 3]
    assert [one.best for one in shown.tried] == [place == 2 * number + best for place in range(3)]
    assert len(rewards_plot(course).axes) == 1


def test_the_curve_of_search_softmax_is_the_modulating_function_times_the_probability():
    factor = ModulatingFactor(scale=16.0).value(0.3)
    curve = loss_curve("result", SearchSoftmax(factor=factor, scale=16.0))
    probability = torch.from_numpy(curve.probability)
    expected = modulating_function(torch.full_like(probability, factor), probability) * probability
    np.testing.assert_allclose(curve.lowered, expected.numpy(), rtol=1e-9)
    assert curve.probability.min() < 0.001
    assert curve.probability.max() > 0.999
    assert len(probabilities_plot([curve, curve]).axes) == 2


def test_a_margin_lowers_the_probability():
    curve = loss_curve("start", ArcFace(margin=0.3, scale=16.0))
    assert (curve.lowered < curve.probability).all()
