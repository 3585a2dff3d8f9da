"""The task of a suite for one set: the images to embed, the evaluation, and the command that repeats it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from verisphere.base.identity import decided
from verisphere.base.vocabulary import Progress, Rule, quietly
from verisphere.base.words import FeatureNorm
from verisphere.decide import Far, exact_rate
from verisphere.files.results import Result
from verisphere.measure.suite.images import SetImages


@dataclass(frozen=True)
class SuiteOptions:
    """The options of all evaluations of a suite; without `fars` each set has its published ones."""

    fars: tuple[Far, ...] = ()
    rule: Rule = "at_most"
    feature_norm: FeatureNorm = "keep"
    progress: Progress = quietly

    def __post_init__(self) -> None:
        for far in self.fars:
            exact_rate(far)  # refuse a malformed FAR before minutes of work, not after

    def words(self, fars: Sequence[Far]) -> list[str]:
        """The options of a command that measures at these FARs."""
        words = [word for far in fars for word in ("--far", str(far))]
        if self.rule != "at_most":
            words += ["--rule", self.rule]
        words += [] if (names := decided()) is None else ["--names", names]
        return words + (["--feature-norm", self.feature_norm] if self.feature_norm != "keep" else [])


@dataclass(frozen=True, eq=False)
class Task:
    """One set of a suite.

    Attributes:
        name: name of the set, unique in the suite.
        parts: for each embeddings file of the set, by its name without the suffix, the function that finds the images
            below the folder of the suite.
        evaluate: the evaluation of the embeddings files, in the order of `parts`.
        command: the words of the command that repeats the evaluation, from the paths of the embeddings files.
    """

    name: str
    place: Path
    parts: Mapping[str, Callable[[Path], SetImages]]
    evaluate: Callable[[Sequence[Path], SuiteOptions], Result]
    command: Callable[[Sequence[Path], SuiteOptions], list[str]]
    pairs: tuple[Path, ...] = ()
    notes: tuple[str, ...] = field(default=())
