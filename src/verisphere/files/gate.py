"""The gate of a gallery: what it asks of a photograph that is to be enrolled, and whom that was fitted on."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Bool, Float64

from verisphere.base.trained_on import SharedWithTraining
from verisphere.base.vocabulary import Origin, printable
from verisphere.base.words import Names, counted
from verisphere.files.documents import read_result
from verisphere.files.results import Result, warnings_of

FORMAT = 1
KIND = "gate"
Side = Literal["least", "most"]
Measure = Literal["size", "turned", "nodded", "tilted", "detail", "brightness", "contrast", "clipped", "length"]
#: Numbers of each measure, one an image; NaN where an image was not measured.
Measured: TypeAlias = Mapping[str, Float64[np.ndarray, " images"]]

#: What is said of a photograph's measure, and which limits it can have.
MEASURES: dict[Measure, tuple[str, tuple[Side, ...]]] = {
    "size": ("the face is {} pixels between the eyes", ("least",)),
    "turned": ("the head is turned by {} degrees", ("most",)),
    "nodded": ("the head is raised or lowered by {} degrees", ("most",)),
    "tilted": ("the head is tilted by {} degrees", ("most",)),
    "detail": ("its fine detail is at {} dB (blurred, or a small face enlarged)", ("least",)),
    "brightness": ("its mean brightness is {} of 255", ("least", "most")),
    "contrast": ("its contrast is {} of 255", ("least",)),
    "clipped": ("{} % of the face is black or white", ("most",)),
    "length": ("its embedding has length {} (the model makes little of the face)", ("least",)),
}


@dataclass(frozen=True)
class Limit:
    """The least or the most that a gate allows of a measure."""

    measure: Measure
    side: Side
    value: float

    def breaks(self, measured: Measured) -> Bool[np.ndarray, " images"]:
        """Which images are beyond the limit; one that was not measured is not."""
        numbers = measured.get(self.measure, np.full(len(next(iter(measured.values()))), np.nan))
        return numbers < self.value if self.side == "least" else numbers > self.value

    def reason(self, number: float) -> str:
        """Why a photograph with this number is refused, in words."""
        fact = MEASURES[self.measure][0].format(f"{number:.4g}")
        return f"{fact}; this gallery asks for at {self.side} {self.value:.4g}"


@dataclass(frozen=True)
class Effect:
    """What a gate does that refuses at most a share `good` of good photographs.

    Of the photographs to be enrolled a tenth are worse copies. All rates are means over splits of the people, of whom
    the gate is fitted on a third: these are in `worse_refused`, and in no other rate. `fpir` is the share of strangers
    who are found by worse copies, `fpir_highest` that of the split where it is highest, and `tpir` that of the people
    who are found by a good photograph, of all who were to be enrolled.
    """

    good: str
    worse_refused: float
    fpir: float
    fpir_highest: float
    tpir: float


@dataclass(frozen=True)
class Gate(Result):
    """What a gallery asks of a photograph that is to be enrolled."""

    images: str
    people: int
    photographs: int
    origin: Origin | None
    limits: tuple[Limit, ...]  # what is asked for
    margin: float  # a photograph nearer to another person by more than this is stopped
    in_training: SharedWithTraining | None = None
    implausible: tuple[str, ...] = ()
    good: str = ""  # the most good photographs that it may refuse
    fpir: str = ""  # the FPIR by which `good` was chosen; empty where it was named
    effects: tuple[Effect, ...] = ()  # what each share does that was tried
    names_rule: Names | None = None

    def warnings(self) -> list[str]:
        """Why it promises nothing about other people, though the set was accepted; empty for nothing."""
        return warnings_of(self.images, self.in_training, self.implausible)

    def reasons(self, measured: Measured) -> list[tuple[str, ...]]:
        """Why each image is refused, in words; nothing for an image that is accepted."""
        broken = [(limit, limit.breaks(measured)) for limit in self.limits]
        return [
            tuple(limit.reason(float(measured[limit.measure][image])) for limit, beyond in broken if beyond[image])
            for image in range(len(next(iter(measured.values()))))
        ]

    def text(self) -> str:
        """What is asked for, and first what weakens it."""
        shared = self.in_training
        compared = [printable(shared.described())] if shared is not None and not shared else []
        of = f"from {counted(self.photographs, 'photograph')} of {counted(self.people, 'person')}, none to be enrolled"
        asked = [f"{limit.measure}: at {limit.side} {limit.value:.4g}" for limit in self.limits]
        margin = f"nearer to another person than to its own: by at most {self.margin:.4f}"
        return "\n".join([*self.warnings(), *compared, of, *asked, margin, *self._chosen()])

    def _chosen(self) -> list[str]:
        lines = [
            f"at most {effect.good} of good photographs refused{' (chosen)' if effect.good == self.good else ''}: "
            f"{effect.worse_refused:.1%} of worse copies are refused, {effect.fpir:.2%} of strangers are found by such "
            f"copies (in a split at most {effect.fpir_highest:.2%}), and {effect.tpir:.1%} of the people to enrol"
            for effect in self.effects
        ]
        kept = any(effect.fpir_highest <= float(self.fpir) for effect in self.effects)
        why = "most people are found" if kept else "fewest strangers are found, though more than that"
        return [*lines, f"chosen at FPIR {self.fpir}, where {why}"] if lines else []

    def fields(self) -> dict[str, Any]:
        """The values of the JSON that `read_gate` reads."""
        return {"kind": KIND, "format": FORMAT, **asdict(self)}


def read_gate(path: Path) -> Gate:
    """Reads a file of `Gate.write_json`, with all checks."""
    return read_result(Gate, path, "a gate as `verisphere gate fit` writes it", kind=KIND, format=FORMAT)
