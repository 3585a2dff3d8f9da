"""The reward of a candidate: a figure of an evaluation of its network, also over redrawn people."""

from collections.abc import Mapping
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
        figure: a key of `FIGURES`.
        described: the reward as plain data.
        replicates: number of redrawings of the people.
        anchor: for `domain_bias`, the domain with which the others are compared; None for every other figure.
    """

    measured_set: MeasuredSet
    figure: str
    described: dict[str, Any]
    replicates: int = 200
    anchor: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Reward":
        """A reward from plain data: `figure`, `replicates`, and a set as experiments have it under `evaluate`.

        The first target FAR of the set is that of the reward, for a figure that has one. `domain_bias` also takes
        `anchor`, the name of a domain.
        """
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
