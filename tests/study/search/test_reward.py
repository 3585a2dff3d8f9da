"""The reward of a candidate: its figure, and the figure on redrawn people."""

from pathlib import Path

import numpy as np
import pytest
import torch

from verisphere.decide.intervals import Redrawn
from verisphere.images import InMemory
from verisphere.measure.measured_set import MeasuredSet
from verisphere.measure.set_figures import GAMMA, Figure, SetFigures
from verisphere.study.search import reward
from verisphere.study.search.reward import Reward


def test_of_a_figure_of_which_less_is_better_less_is_a_higher_reward_on_redrawn_people_too(
    monkeypatch: pytest.MonkeyPatch,
):
    numbers = range(8)
    faces = InMemory(
        torch.zeros(8, 3, 4, 4, dtype=torch.uint8),
        tuple(map(str, numbers)),
        tuple("ab"[number // 2 % 2] for number in numbers),
        tuple("xy"[number // 4] for number in numbers),
    )
    figure = Figure("reward", GAMMA, "0.1")
    found = SetFigures({figure: 0.2}, {figure: Redrawn(0.2, np.array([0.1, 0.3]))}, (), 2)
    monkeypatch.setattr(reward, "open_model", lambda *_, **__: None)
    monkeypatch.setattr(reward, "embed", lambda *_, **__: None)
    monkeypatch.setattr(reward, "set_figures", lambda *_: found)
    asked = Reward(MeasuredSet(faces, one_far="0.1"), GAMMA, {})
    measured = asked.measure(Path("run"), torch.device("cpu"))
    assert (measured.reward, measured.replicates.tolist()) == (-0.2, [-0.1, -0.3])
