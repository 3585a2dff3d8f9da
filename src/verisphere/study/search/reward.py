"""The reward of a candidate: a figure of an evaluation of its network, also over redrawn people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from verisphere.base.vocabulary import Progress, Redrawing, quietly
from verisphere.decide.point import far_text
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.images.decoded_faces import in_memory
from verisphere.images.packs.columns import coded
from verisphere.measure.domain_bias import check_anchor
from verisphere.measure.measured_set import MeasuredSet, check_domains, complete_set, open_set
from verisphere.measure.set_figures import ACCURACY, DOMAIN_BIAS, FAR_STD, GAMMA, TAR, TAR_STD, Figure, set_figures
from verisphere.models.embed import embed, open_model

#: The figures that can be a reward; a figure that measures how far domains lie apart is better when it is smaller.
FIGURES = {TAR: 1.0, ACCURACY: 1.0, GAMMA: -1.0, TAR_STD: -1.0, FAR_STD: -1.0, DOMAIN_BIAS: -1.0}
_OF_ONE_THRESHOLD = (GAMMA, TAR_STD, FAR_STD)
_SET = "reward"


@dataclass(frozen=True, eq=False)
class Measured:
    """The reward of a network, the higher the better, and in redrawings of the people, the same for all networks."""

    reward: float
    replicates: Float64[np.ndarray, " replicates"]


@dataclass(frozen=True, eq=False)
class Reward:
    """The figure by which candidates are compared.

    Attributes:
        measured_set: the images, with target FARs and pairs. Its people should be neither those of the training nor
            those on whom the result is measured.
        anchor: for `domain_bias`, the domain with which the others are compared; None for every other figure.
    """

    measured_set: MeasuredSet
    figure: str
    described: dict[str, Any]
    replicates: int = 200
    anchor: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Reward":
        """A reward from plain data: `figure`, `replicates`, and a set as experiments have it under `evaluate`."""
        asked = dict(given)
        figure, replicates = asked.pop("figure", TAR), asked.pop("replicates", 200)
        if figure not in FIGURES:
            raise ValueError(f"reward: figure is {shown(figure)}; allowed are {', '.join(FIGURES)}")
        if type(replicates) is not int or replicates < 2:
            raise ValueError(f"reward: replicates is {shown(replicates)}; it is a whole number of at least 2")
        anchor = asked.pop("anchor", None)
        opened = open_set("reward", asked)
        if figure == DOMAIN_BIAS or anchor is not None:
            _check_anchor(figure, opened, anchor)
        if figure == ACCURACY and not (opened.pairs or opened.drawn_pairs):
            raise ValueError("reward: figure is accuracy, which needs pairs or drawn_pairs")
        if figure in _OF_ONE_THRESHOLD and opened.one_far is None:
            raise ValueError(f"reward: figure is {figure}, which needs one_far, a target FAR over domains")
        described = {"figure": figure, "replicates": replicates, **complete_set(asked)}
        if anchor is not None:
            described["anchor"] = anchor
        return cls(opened, figure, described, replicates, anchor)

    @property
    def title(self) -> str:
        """The reward in words."""
        key = self._key
        if self.anchor is not None:
            return f"{key.name} to {self.anchor}"
        name = key.name.upper() if key.name == TAR else key.name
        return name + (f" at FAR {key.far_target}" if key.far_target else "")

    @property
    def _key(self) -> Figure:
        asked = self.measured_set
        if self.figure in (ACCURACY, DOMAIN_BIAS):
            return Figure(_SET, self.figure, "")
        far = asked.one_far if self.figure in _OF_ONE_THRESHOLD else asked.far[0]
        assert far is not None  # as `of` has checked
        return Figure(_SET, self.figure, far_text(far))

    def in_memory(self, progress: Progress = quietly) -> "Reward":
        """The same reward with its images in memory, so that they are read once for all candidates."""
        held = replace(self.measured_set, faces=in_memory(self.measured_set.faces, progress=progress))
        return replace(self, measured_set=held)

    def measure(self, run: Path, device: torch.device, progress: Progress = quietly) -> Measured:
        """The reward of the newest checkpoint of a run."""
        asked = self.measured_set
        model = open_model(run, device, trust=True)  # trusted: its recipe, including its code, was given for training
        embeddings = embed(model, asked.faces, _SET, flip=asked.flip, progress=progress)
        figures = set_figures(_SET, asked, embeddings, Redrawing(self.replicates, 0), self.anchor)
        sign, key = FIGURES[self.figure], self._key
        return Measured(sign * figures.values[key], sign * figures.redrawn[key].replicates)


def _check_anchor(figure: str, opened: MeasuredSet, anchor: object) -> None:
    """Refuse a missing anchor domain, one that the images lack, and one that the figure does not use."""
    if figure != DOMAIN_BIAS:
        raise ValueError(f"reward: anchor is {shown(anchor)}, and figure {figure}; only {DOMAIN_BIAS} has an anchor")
    with errors_naming("reward"):
        check_domains(opened.faces, f"figure is {DOMAIN_BIAS}, which compares domains", DOMAIN_BIAS)
        assert opened.faces.domains is not None  # as was just checked
        domains = sorted(coded(opened.faces.domains).present())
        if not isinstance(anchor, str):
            raise ValueError(
                f"figure is {DOMAIN_BIAS}, which needs anchor, the name of a domain; allowed are {', '.join(domains)}"
            )
        check_anchor(anchor, domains)


def spread(measured: Measured | None) -> float | None:
    """Standard deviation of a reward over redrawn people; None for a candidate without a reward."""
    if measured is None or not np.isfinite(measured.replicates).any():
        return None
    return float(np.nanstd(measured.replicates))


def another_wins(measured: Sequence[Measured | None], best: int) -> float:
    """Share of the redrawings of the people in which another candidate has a higher reward than the best one."""
    ours = measured[best]
    if ours is None:  # all diverged
        return 0.0
    others = [one.replicates for place, one in enumerate(measured) if one is not None and place != best]
    valid = np.isfinite(ours.replicates)
    if not others or not valid.any():
        return 0.0
    rewards = np.stack(others)[:, valid]
    highest = np.where(np.isnan(rewards), -np.inf, rewards).max(axis=0)
    return float((highest > ours.replicates[valid]).mean())


def too_high(measured: Sequence[Measured | None]) -> float:
    """A lower bound of how much too high the best reward is because it was selected among several; never below 0.

    In each redrawing of the people the candidate with the highest reward is selected, and its deviation from its own
    mean over the redrawings is taken; the mean of these deviations is the answer. The measured rewards stand for the
    true ones, between which they differ by more, so that the true excess is larger. A candidate whose training diverged
    is None.
    """
    known = [one for one in measured if one is not None]
    if len(known) < 2:
        return 0.0
    replicates = np.stack([one.replicates for one in known])
    replicates = replicates[:, np.isfinite(replicates).all(axis=0)]
    if not replicates.size:
        return 0.0
    deviations = replicates - replicates.mean(axis=1, keepdims=True)
    rewards = np.array([one.reward for one in known])[:, None]
    selected = (rewards + deviations).argmax(axis=0)
    return max(float(deviations[selected, np.arange(deviations.shape[1])].mean()), 0.0)
