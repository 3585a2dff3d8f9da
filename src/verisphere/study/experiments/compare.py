"""The arms of an experiment compared: means and spread over seeds, and differences to the baseline over people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from statistics import fmean, pstdev

from matplotlib.figure import Figure as Picture
from matplotlib.ticker import MaxNLocator

from verisphere.decide.bounds import holds_zero, mean_bounds
from verisphere.decide.intervals import Redrawn
from verisphere.decide.paired import mean_difference
from verisphere.files.tables import csv_for_people
from verisphere.measure.set_figures import (
    ACCURACY,
    COMPARED,
    DOMAIN_FAR,
    DOMAIN_TAR,
    DOMAIN_THRESHOLD,
    TAR,
    Figure,
    SetFigures,
)
from verisphere.report.plots import INK, LINES, PALE, SERIES, in_picture, new_figure, tidy
from verisphere.report.tables import between, number, small, table
from verisphere.study.experiments.searched import COST, FOUND, REWARD


@dataclass(frozen=True)
class Difference:
    """Mean over seeds of the difference between the figures of an arm and of the baseline at the same seed."""

    value: float
    std: float  # population standard deviation of the differences over seeds
    per_seed: dict[int, float]
    lower_95: float  # the middle 95 % over redrawn people, the same for both arms and all seeds
    upper_95: float
    replicates: int
    inside_noise: bool
    lower_95_over_seeds: float  # Student's bounds of the mean over further seeds, on the same people; NaN for one seed
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
    """A figure of an arm, with the standard deviation of the population over the seeds."""

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


COLUMNS = ("arm", "seed", "set", "figure", "far_target", "domain", "value")
_OF_DOMAINS = (DOMAIN_TAR, DOMAIN_FAR, DOMAIN_THRESHOLD)
_TITLES = {
    "tar": "TAR at FAR {}",
    "accuracy": "accuracy over folds of pairs",
    "gamma": "gamma, how far the domains' own thresholds lie from the one threshold of FAR {}",
    "tar_std_over_domains": "standard deviation of TAR over domains, at the one threshold of FAR {}",
    "neg_log10_far_std_over_domains": "standard deviation of -log10 FAR over domains, at the one threshold of FAR {}",
}


def results_text(
    results: Mapping[str, ArmResult],
    baseline: str,
    seeds: Sequence[int],
    people: Mapping[str, int],
    below: Mapping[str, Sequence[str]],
) -> str:
    """A table for each set and figure, one of the domains, and one of the trainings."""
    texts = []
    figures: dict[Figure, dict[str, ArmFigure]] = {}
    for arm, result in results.items():
        for figure in result.figures:
            figures.setdefault(compared(figure), {})[arm] = figure
    for key, by_arm in figures.items():
        if key.name not in COMPARED:
            continue
        head = f"{key.measured} ({people[key.measured]:,} people): {figure_title(key, _TITLES)}"
        if key.name == TAR and key.far_target in below.get(key.measured, ()):
            texts.append(f"{head}: below resolution, too few impostors to show a FAR this low")
        else:
            texts.append(f"{head}\n{_arms_table(by_arm, baseline)}")
    texts += [_domains_table(measured, figures) for measured in dict.fromkeys(key.measured for key in figures)]
    texts.append(_training_table(results))
    fewer = [
        f"{arm}: at seed{'' if len(had) == 1 else 's'} {', '.join(map(str, had))} alone"
        for arm, result in results.items()
        if len(had := result.training["seconds"].per_seed) < len(seeds)
    ]
    replicates = [
        figure.difference.replicates for by in figures.values() for figure in by.values() if figure.difference
    ]
    accuracy = any(key.name == ACCURACY for key in figures)
    return "\n\n".join(text for text in [*texts, _legend(baseline, seeds, replicates, accuracy), *fewer] if text)


def figure_title(key: Figure, titles: Mapping[str, str]) -> str:
    """The title of a compared figure; for an accuracy on one of several lists it names the list."""
    of_list = "" if key.domain is None else f", {key.domain}"
    return f"{titles[key.name].format(key.far_target)}{of_list}"


def _arms_table(by_arm: Mapping[str, ArmFigure], baseline: str) -> str:
    rows = []
    for arm, figure in by_arm.items():
        difference = figure.difference
        rows.append(
            [
                arm,
                number(figure.mean),
                _std(figure.std, figure.per_seed),
                "baseline" if arm == baseline else "-" if difference is None else f"{difference.value:+.4f}",
                "" if difference is None else between(difference.lower_95, difference.upper_95),
                "" if difference is None else _over_seeds(difference),
                "" if difference is None else _verdict(difference),
            ]
        )
    return table(["arm", "mean", "std over seeds", "difference", "95 % over people", "95 % over seeds", ""], rows)


def _over_seeds(difference: Difference) -> str:
    """Bounds of the mean over further seeds; one seed gives none."""
    if difference.inside_seed_noise is None:
        return "-"
    return between(difference.lower_95_over_seeds, difference.upper_95_over_seeds)


def _verdict(difference: Difference) -> str:
    """Whether chance can explain a difference; people are checked before seeds."""
    if difference.inside_noise:
        return "inside the noise"
    return "inside the seeds' noise" if difference.inside_seed_noise else ""


def _std(std: float, per_seed: Mapping[int, float], digits: int = 4) -> str:
    """A standard deviation over seeds; one seed gives none."""
    return number(std, digits) if len(per_seed) > 1 else "-"


def _domains_table(measured: str, figures: Mapping[Figure, Mapping[str, ArmFigure]]) -> str:
    """TAR and FAR of each domain at the one threshold, and its own threshold, as means over seeds."""
    own = {key: by_arm for key, by_arm in figures.items() if key.measured == measured and key.name in _OF_DOMAINS}
    if not own:
        return ""
    domains = list(dict.fromkeys(key.domain for key in own))
    far = next(iter(own)).far_target
    rows = []
    for arm in next(iter(own.values())):
        for name, title, spelled in (
            (DOMAIN_TAR, "TAR", number),
            (DOMAIN_FAR, "FAR", small),
            (DOMAIN_THRESHOLD, "own threshold", number),
        ):
            means = [own[Figure(measured, name, far, domain)][arm].mean for domain in domains]
            rows.append([f"{arm}: {title}", *(spelled(mean) for mean in means)])
    head = f"{measured}: domains at one threshold of FAR {far}, means over seeds"
    return f"{head}\n{table(['arm', *(str(domain) for domain in domains)], rows)}"


def _training_table(results: Mapping[str, ArmResult]) -> str:
    """Wall time and loss; where some arms are searches also their cost, the values found, and their reward."""
    rows = []
    searches = any(COST in result.training for result in results.values())
    for arm, result in results.items():
        seconds, loss = result.training["seconds"], result.training.get("loss")
        spread = ["-", "-"] if loss is None else [number(loss.mean, 3), _std(loss.std, loss.per_seed, 3)]
        rows.append([arm, f"{seconds.mean:.0f} s", *spread, *(_of_search(result) if searches else [])])
    head = ["arm", "wall time", "last loss", "std over seeds"]
    head += ["trainings", "reward selected by", "found at each seed"] if searches else []
    return f"trainings\n{table(head, rows)}" if rows else ""


def _of_search(result: ArmResult) -> list[str]:
    """The cost of a search as a multiple of one training, its reward, and the values that it found."""
    if COST not in result.training:
        return ["1", "", ""]
    found = {name: figure for name, figure in result.training.items() if name.startswith(f"{FOUND} ")}
    words = [
        f"{name.removeprefix(f'{FOUND} ')} {', '.join(f'{value:.3g}' for value in figure.per_seed.values())}"
        for name, figure in found.items()
    ]
    return [f"{result.training[COST].mean:.3g}", number(result.training[REWARD].mean), "; ".join(words)]


def _legend(baseline: str, seeds: Sequence[int], replicates: Sequence[int], accuracy: bool) -> str:
    lines = [f"means over {len(seeds)} seed{'' if len(seeds) == 1 else 's'} ({', '.join(map(str, seeds))})"]
    if len(seeds) == 1:
        lines[0] += ": one training an arm does not say what another seed would change"
    if replicates:
        lines.append(
            f"difference: mean over seeds to {baseline} at the same seed, with the middle 95 % of {replicates[0]:,} "
            "redrawings of people, the same for all arms and seeds, thresholds found anew in each (rule: at_most)"
        )
        if accuracy:
            lines.append("of an accuracy the thresholds of the folds are held fixed in each redrawing")
        lines.append("of gamma and the spreads, which redrawing inflates, that middle is reflected at the difference")
        lines.append("95 % over people: these trainings on other people")
        if len(seeds) > 1:
            lines[-1] += "; over seeds: more trainings (Student's t) on these people; both must exclude zero to count"
    return "\n".join(lines)


def results_csv(
    figures: Mapping[tuple[str, int], Mapping[Figure, float]], trainings: Mapping[tuple[str, int], Mapping[str, float]]
) -> str:
    """One row for each training, set and figure; figures of the training itself have no set."""
    rows: list[list[object]] = []
    for (arm, seed), values in trainings.items():
        rows += ([arm, seed, "", name, "", "", repr(value)] for name, value in values.items())
        for key, value in figures.get((arm, seed), {}).items():
            rows.append([arm, seed, key.measured, key.name, key.far_target, key.domain or "", repr(value)])
    return csv_for_people(COLUMNS, rows)


_TITLES_OF_FIGURES = {
    "tar": "TAR at FAR {}",
    "accuracy": "accuracy on pairs",
    "gamma": "gamma at FAR {}",
    "tar_std_over_domains": "spread of TAR over domains, FAR {}",
    "neg_log10_far_std_over_domains": "spread of -log10 FAR, FAR {}",
}
_ROW, _HEAD = 0.24, 0.75  # inches: of a row, and of a panel's title and ticks
_WIDTH, _COLUMNS = 4.8, 2  # inches of a panel, and how many stand side by side


def experiment_plot(
    results: Mapping[str, ArmResult], baseline: str, measured: str, skipped: Sequence[str] = ()
) -> Picture | None:
    """A panel for each figure: the mean of each arm as a dot, its seeds as rings.

    A bar is the 95 % interval of the difference over people, drawn from the mean of the baseline, which a line marks;
    it is pale where it is inside the noise, or where other seeds might reverse it.
    """
    panels: dict[Figure, dict[str, ArmFigure]] = {}
    for arm, result in results.items():
        for figure in result.figures:
            unseen = figure.name == "tar" and figure.far_target in skipped
            drawn = figure.measured == measured and figure.name in COMPARED and isfinite(figure.mean)
            if drawn and not unseen:
                panels.setdefault(compared(figure), {})[arm] = figure
    if not panels:
        return None
    height = _ROW * max(len(results), 2) + _HEAD
    columns = min(len(panels), _COLUMNS)
    rows = -(-len(panels) // columns)
    picture = new_figure(height * rows + 0.6)
    picture.set_figwidth(_WIDTH * columns)
    grid = picture.subplots(rows, columns, squeeze=False).flatten()
    for axes in grid[len(panels) :]:
        axes.remove()
    for axes, (key, by_arm) in zip(grid, panels.items(), strict=False):
        base = by_arm[baseline].mean if baseline in by_arm else None
        if base is not None:
            axes.axvline(base, color=PALE, linewidth=0.9, zorder=1)
        for row, figure in enumerate(by_arm.values()):
            seeds = list(figure.per_seed.values())
            difference, colour = figure.difference, INK
            if difference is not None and base is not None:
                colour = PALE if difference.may_be_chance else SERIES[0]
                ends = [base + difference.lower_95, base + difference.upper_95]
                axes.plot(ends, [row, row], color=colour, linewidth=1.6, solid_capstyle="butt", zorder=3)
            axes.plot([figure.mean], [row], "o", color=colour, markersize=5.5, zorder=4)
            axes.plot(seeds, [row] * len(seeds), "o", color=INK, mfc="white", mew=0.6, markersize=3, zorder=5)
        named = axes.get_subplotspec().is_first_col() or list(by_arm) != list(next(iter(panels.values())))
        axes.set_yticks(range(len(by_arm)), labels=[in_picture(arm) if named else "" for arm in by_arm])
        axes.set_ylim(len(by_arm) - 0.5, -0.5)
        axes.margins(x=0.08)
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.set_title(in_picture(figure_title(key, _TITLES_OF_FIGURES)), loc="left", color=INK, fontsize=10)
        tidy(axes)
        axes.grid(axis="x", color=LINES, linewidth=0.7)
    several = any(len(figure.per_seed) > 1 for by_arm in panels.values() for figure in by_arm.values())
    pale = "of people or seeds" if several else "of people; one seed does not say what another would change"
    marks = (
        f"dot: mean, rings: seeds, bar: 95 % of the difference to {in_picture(baseline)} over people",
        f"pale: inside the noise {pale}",
    )
    picture.supxlabel(("; " if columns > 1 else "\n").join(marks), color=INK, fontsize=8)
    picture.suptitle(in_picture(measured), x=0.02, ha="left", color=INK, fontsize=11)
    return picture
