"""The arms of an experiment compared: means and spread over seeds, and differences to the baseline over people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from statistics import fmean, pstdev

from verisphere.decide.bounds import holds_zero, mean_bounds
from verisphere.decide.paired import Redrawn, mean_difference
from verisphere.experiments.measure import Figure, SetFigures


@dataclass(frozen=True)
class Difference:
    """Mean over seeds of an arm's figure less the baseline's at the same seed.

    Attributes:
        value: the difference.
        std: the population's standard deviation of the seeds' differences.
        per_seed: the difference at each seed.
        lower_95, upper_95: the middle 95 % over redrawn people, the same for both arms and all seeds.
        replicates: how often they were redrawn.
        inside_noise: that interval holds zero.
        lower_95_over_seeds, upper_95_over_seeds: Student's bounds of the mean that more seeds would come to, on these
            people; NaN of one seed.
        inside_seed_noise: they do not leave zero out; None of one seed, which cannot say.
    """

    value: float
    std: float
    per_seed: dict[int, float]
    lower_95: float
    upper_95: float
    replicates: int
    inside_noise: bool
    lower_95_over_seeds: float
    upper_95_over_seeds: float
    inside_seed_noise: bool | None

    @property
    def may_be_chance(self) -> bool:
        """Other people, or other seeds, might have shown none, or the contrary."""
        return self.inside_noise or bool(self.inside_seed_noise)

    @classmethod
    def of(cls, ours: Mapping[int, Redrawn], theirs: Mapping[int, Redrawn]) -> "Difference":
        """Of a figure of two arms at the same seeds, over the same redrawn people."""
        pairs = [(one, theirs[seed]) for seed, one in ours.items()]
        interval = mean_difference(*zip(*pairs, strict=True))
        per_seed = {seed: one.value - other.value for seed, (one, other) in zip(ours, pairs, strict=True)}
        lower, upper = mean_bounds(list(per_seed.values()))
        return cls(
            value=interval.value,
            std=_spread(per_seed)[1],
            per_seed=per_seed,
            lower_95=interval.lower_95,
            upper_95=interval.upper_95,
            replicates=interval.replicates,
            inside_noise=interval.holds_zero,
            lower_95_over_seeds=lower,
            upper_95_over_seeds=upper,
            inside_seed_noise=holds_zero(lower, upper) if len(per_seed) > 1 else None,
        )


@dataclass(frozen=True)
class ArmFigure:
    """A figure of an arm.

    Attributes:
        measured, name, far_target, domain: what it is of; see `Figure`.
        mean: over seeds.
        std: the population's standard deviation over seeds.
        per_seed: its value at each seed.
        difference: to the baseline; None of the baseline itself, of figures that are not compared, and where the
            baseline failed.
    """

    measured: str
    name: str
    far_target: str
    domain: str | None
    mean: float
    std: float
    per_seed: dict[int, float]
    difference: Difference | None


@dataclass(frozen=True)
class TrainingFigure:
    """A figure of an arm's trainings at their end: mean, population standard deviation, and each seed's."""

    mean: float
    std: float
    per_seed: dict[int, float]

    @classmethod
    def of(cls, per_seed: dict[int, float]) -> "TrainingFigure":
        """Of a value a seed."""
        return cls(*_spread(per_seed), per_seed)


@dataclass(frozen=True)
class ArmResult:
    """What an arm has come to.

    Attributes:
        training: by name: `seconds` of wall time, and the last of each figure that the log holds.
        figures: on the measured sets.
    """

    training: dict[str, TrainingFigure]
    figures: tuple[ArmFigure, ...]


def arm_results(
    measured: Mapping[str, Mapping[int, Mapping[str, SetFigures]]],
    trainings: Mapping[str, Mapping[int, Mapping[str, float]]],
    baseline: str,
) -> dict[str, ArmResult]:
    """The results of every arm that is whole.

    Args:
        measured: for each arm and seed the figures on each set.
        trainings: for each arm and seed the figures at the training's end.
        baseline: the arm to compare with; differences are left out where it is not among them.
    """
    return {
        arm: ArmResult(
            training={
                name: TrainingFigure.of({seed: one[name] for seed, one in trainings[arm].items()})
                for name in _shared(list(trainings[arm].values()))
            },
            figures=_figures(by_seed, None if arm == baseline else measured.get(baseline)),
        )
        for arm, by_seed in measured.items()
    }


def _figures(
    ours: Mapping[int, Mapping[str, SetFigures]], theirs: Mapping[int, Mapping[str, SetFigures]] | None
) -> tuple[ArmFigure, ...]:
    sets = next(iter(ours.values()))
    found = []
    for name, one in sets.items():
        for figure in one.values:
            values = {seed: by_set[name].values[figure] for seed, by_set in ours.items()}
            difference = None
            if theirs is not None and figure in one.redrawn:
                both = ({seed: by[name].redrawn[figure] for seed, by in arm.items()} for arm in (ours, theirs))
                difference = Difference.of(*both)
            place = figure.measured, figure.name, figure.far_target, figure.domain
            found.append(ArmFigure(*place, *_spread(values), values, difference))
    return tuple(found)


def _spread(per_seed: Mapping[int, float]) -> tuple[float, float]:
    """Mean and population standard deviation; NaN where infinite values have none."""
    values = list(per_seed.values())
    if len(set(values)) == 1:  # infinite, perhaps
        return values[0], 0.0
    return (fmean(values), pstdev(values)) if all(map(isfinite, values)) else (sum(values), nan)


def _shared(entries: Sequence[Mapping[str, float]]) -> list[str]:
    """Names that every entry has, in the first one's order."""
    return [name for name in entries[0] if all(name in entry for entry in entries)]


def compared(figure: ArmFigure) -> Figure:
    """What a figure is of, alike for all arms."""
    return Figure(figure.measured, figure.name, figure.far_target, figure.domain)
