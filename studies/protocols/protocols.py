"""Every protocol of the field on a small set in its published layout, beside an independent script's answers."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from studies.protocols.independent import answers
from studies.protocols.published.sets import write_published_sets
from verisphere.base.device import choose_device
from verisphere.base.vocabulary import Progress, quietly
from verisphere.measure.suite.result import Figures, SuiteResult
from verisphere.measure.suite.run import run_suite
from verisphere.measure.suite.task import SuiteOptions
from verisphere.report.tables import table
from verisphere.study.demo.demo import free_folder

log = logging.getLogger(__name__)

FARS = ("1e-1", "1e-2")
SETS, EMBEDDINGS, FIGURES = "sets", "embeddings", "figures.json"
#: Most that two float64 results of the same sum differ here by the order of its terms.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Compared:
    """One figure by verisphere and by the independent script; None where one of them has none."""

    set: str
    figure: str
    ours: float | None
    independent: float | None

    @property
    def equal(self) -> bool:
        """Whether both are the same, up to rounding."""
        if self.ours is None or self.independent is None:
            return False
        return self.ours == self.independent or abs(self.ours - self.independent) <= ROUNDING

    @property
    def verdict(self) -> str:
        """`equal`, or the difference."""
        if self.equal:
            return "equal"
        if self.ours is None or self.independent is None:
            return "missing"
        return f"{self.ours - self.independent:+.3g}"


@dataclass(frozen=True, eq=False)
class ProtocolsResult:
    """The results of the comparison.

    Attributes:
        suite: the suite's result.
        compared: every figure that the independent script computes.
        demo_model: whether the embeddings are by the demo's own untrained network.
        out: folder of the sets, the embeddings and the figures.
    """

    suite: SuiteResult
    compared: tuple[Compared, ...]
    demo_model: bool
    out: Path

    @property
    def different(self) -> tuple[Compared, ...]:
        """The figures that differ."""
        return tuple(figure for figure in self.compared if not figure.equal)

    def text(self) -> str:
        """One table of both figures, and what made the embeddings."""
        rows = []
        for line in self.compared:
            values = ["-" if value is None else f"{value:.6f}" for value in (line.ours, line.independent)]
            rows.append([line.set, line.figure, *values, line.verdict])
        made_by = str(self.suite.model)
        if not self.suite.origins:  # no digest of weights
            which = "the demo's, seeded" if self.demo_model else made_by
            made_by = f"an untrained network ({which}): the figures say nothing of a model, only that both agree"
        lines = [
            table(["set", "figure", "verisphere", "independent", ""], rows),
            f"{len(self.compared) - len(self.different)} of {len(self.compared)} figures are equal, in "
            f"{len({line.set for line in self.compared})} sets of drawn faces in published layouts; embeddings by "
            f"{made_by}",
            f"sets:       {self.out / SETS}\nembeddings: {self.out / EMBEDDINGS}\nfigures:    {self.out / FIGURES}",
        ]
        return "\n\n".join(lines)


def run_protocols(
    out: Path, model: Path | None = None, *, device: str | None = None, progress: Progress = quietly
) -> ProtocolsResult:
    """Draw the small sets, embed and evaluate them, and have the independent script answer from the same files.

    Args:
        out: folder for the sets, the embeddings and the figures; if it is not empty, the next free number is appended.
        model: see `verisphere.models.embed.open_model`; None takes an untrained network of the demo's recipe.
        device: device of the comparison; by default a GPU if there is one.
        progress: reports the progress of each long step.

    Raises:
        FileNotFoundError: there is no such model.
        ValueError: a set could not be evaluated.
    """
    out, started = free_folder(out), time.monotonic()
    write_published_sets(out / SETS)
    place = choose_device(device)
    options = SuiteOptions(FARS, progress=progress)
    with as_file(files("verisphere.study.demo") / "demo.yaml") as recipe:
        suite = run_suite(out / SETS, model or recipe, options, embeddings=out / EMBEDDINGS, device=place)
    suite.write_json(out / FIGURES)
    if suite.failed:
        name = suite.failed[0]
        raise ValueError(f"{len(suite.failed)} sets could not be evaluated, first {name}: {suite.sets[name].error}")
    compared = compare(suite.figures, answers(out / SETS, out / EMBEDDINGS, FARS))
    log.info("the protocols took %.0f s", time.monotonic() - started)
    return ProtocolsResult(suite, compared, model is None, out)


def compare(ours: Mapping[str, Figures], independent: Mapping[str, Figures]) -> tuple[Compared, ...]:
    """Every figure of the independent script beside ours; a set that only one of them has counts as different.

    Args:
        ours, independent: the figures of each set, by its name.
    """
    compared = [
        Compared(name, figure, ours.get(name, {}).get(figure), value)
        for name, figures in independent.items()
        for figure, value in figures.items()
    ]
    unanswered = [Compared(name, "any", None, None) for name in ours if name not in independent]
    return (*compared, *unanswered)
