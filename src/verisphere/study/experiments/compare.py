"""The arms of an experiment compared: means and spread over seeds, and differences to the baseline over people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from statistics import fmean, pstdev

from verisphere.decide.bounds import holds_zero, mean_bounds
from verisphere.decide.intervals import Redrawn
from verisphere.decide.paired import mean_difference
from verisphere.measure.set_figures import Figure, SetFigures


@dataclass(frozen=True)
class Difference:
    """Mean over seeds of the difference between the figures of an arm and of the baseline at the same seed.

    Attributes:
        std: population standard deviation of the differences over seeds.
        per_seed: the difference at each seed.
        lower_95, upper_95: the middle 95 % over redrawn people, the same for both arms and all seeds.
        inside_noise: whether this interval contains zero.
        lower_95_over_seeds, upper_95_over_seeds: Student's bounds of the mean over further seeds, on the same people;
            NaN for one seed.
        inside_seed_noise: whether these bounds contain zero; None for one seed.
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
        """Whether the difference might vanish or be reversed with other people, or with other seeds."""
        return self.inside_noise or bool(self.inside_seed_noise)

    @classmethod
    def of(cls, ours: Mapping[int, Redrawn], theirs: Mapping[int, Redrawn]) -> "Difference":
        """The difference of a figure between two arms at the same seeds, over the same redrawn people."""
        pairs = [(redrawn, theirs[seed]) for seed, redrawn in ours.items()]
        interval = mean_difference(*zip(*pairs, strict=True))
        per_seed = {seed: arm.value - baseline.value for seed, (arm, baseline) in zip(ours, pairs, strict=True)}
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

    Its identity is that of `Figure`; the standard deviation is that of the population. The baseline itself has no
    difference, and neither have figures that are not compared, and all if the baseline failed.
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
    """A figure of an arm's trainings at their end: mean, population standard deviation, and value at each seed."""

    mean: float
    std: float
    per_seed: dict[int, float]

    @classmethod
    def of(cls, per_seed: dict[int, float]) -> "TrainingFigure":
        """The figure from its value at each seed."""
        return cls(*_spread(per_seed), per_seed)


@dataclass(frozen=True)
class ArmResult:
    """The figures of an arm on the measured sets; and its `seconds` of wall time, with the last values in its log."""

    training: dict[str, TrainingFigure]
    figures: tuple[ArmFigure, ...]


def arm_results(
    measured: Mapping[str, Mapping[int, Mapping[str, SetFigures]]],
    trainings: Mapping[str, Mapping[int, Mapping[str, float]]],
    baseline: str,
) -> dict[str, ArmResult]:
    """The results of the arms that finished, by arm and seed; no differences if the baseline is not among them."""
    return {
        arm: ArmResult(
            training={
                name: TrainingFigure.of({seed: figures[name] for seed, figures in trainings[arm].items()})
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
    figures = []
    for name, of_set in sets.items():
        for figure in of_set.values:
            values = {seed: by_set[name].values[figure] for seed, by_set in ours.items()}
            difference = None
            if theirs is not None and figure in of_set.redrawn:
                both = ({seed: by[name].redrawn[figure] for seed, by in arm.items()} for arm in (ours, theirs))
                difference = Difference.of(*both)
            place = figure.measured, figure.name, figure.far_target, figure.domain
            figures.append(ArmFigure(*place, *_spread(values), values, difference))
    return tuple(figures)


def _spread(per_seed: Mapping[int, float]) -> tuple[float, float]:
    """Mean and population standard deviation; the latter is NaN if a value is infinite."""
    values = list(per_seed.values())
    if len(set(values)) == 1:  # they may be infinite
        return values[0], 0.0
    return (fmean(values), pstdev(values)) if all(map(isfinite, values)) else (sum(values), nan)


def _shared(entries: Sequence[Mapping[str, float]]) -> list[str]:
    """Names that occur in all entries, in the order of the first."""
    return [name for name in entries[0] if all(name in entry for entry in entries)]


def compared(figure: ArmFigure) -> Figure:
    """The identity of a figure, the same for all arms."""
    return Figure(figure.measured, figure.name, figure.far_target, figure.domain)
