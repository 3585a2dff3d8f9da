"""The page about a search: its result, the draws, the noise of the rewards, and the course of the losses.

The losses over the epochs are figure 2 of Loss Function Search, the losses as functions of a probability its figure 1
(Wang et al. 2020, arXiv:2007.06542).
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from verisphere.files.metrics import METRICS, read_metrics
from verisphere.losses import AMLFS, ClassLoss, CombinedMargin, SearchSoftmax
from verisphere.report.blocks import Page, Plot, Section
from verisphere.report.html import Markup, facts, table, tag
from verisphere.report.plots import INK, LINES, PALE, SERIES, in_picture, new_figure, tidy
from verisphere.report.tables import number, percent
from verisphere.study.search.candidate import read_reward
from verisphere.study.search.definition import Search
from verisphere.study.search.folder import WholeRound, candidate_folder
from verisphere.study.search.reward import Measured, another_wins, too_high
from verisphere.study.search.rounds import epochs_trained
from verisphere.study.search.space import Logarithmic
from verisphere.train.recipe import changed_recipe


@dataclass(frozen=True)
class Tried:
    """A candidate of a search."""

    at: float  # the epoch up to which it was trained, or the number of a whole training
    values: Mapping[str, float]
    reward: float | None  # None if the training diverged
    spread: float | None  # standard deviation of the reward over redrawn people
    best: bool
    descends: bool  # whether it is the result or an ancestor of it
    losses: Sequence[tuple[float, float]]  # epoch and loss of each entry of its own log


@dataclass(frozen=True)
class RoundShown:
    """A round of a search, and how often another candidate than the best would win, and how much too high it may be."""

    title: str
    tried: Sequence[Tried]
    another_wins: float
    too_high: float

    @property
    def best(self) -> Tried:
        """The best candidate."""
        return next(one for one in self.tried if one.best)


class Course:
    """The course of a search; see `write_page` for the arguments."""

    def __init__(
        self,
        search: Search,
        whole: Sequence[WholeRound],
        ancestors: Mapping[int, int],
        learned: Mapping[str, float] | None,
        out: Path,
    ) -> None:
        self.search, self.whole, self.ancestors, self.learned, self._out = search, whole, ancestors, learned, out

    @cached_property
    def rounds(self) -> list[RoundShown]:
        """The rounds; whole trainings count as one round, since the result is the best of all of them."""
        shown: list[RoundShown] = []
        for turn, entry in enumerate(self.whole):
            tried = []
            for place, start in enumerate(entry.round.starts):
                continued = () if start.parent is None else shown[-1].tried[start.parent].losses[-1:]
                readable = self.search.space.readable(entry.values[place])
                tried.append(
                    Tried(
                        at=float(start.until),
                        values={name: float(value) for name, value in readable.items()},
                        reward=entry.round.measured[place],
                        spread=entry.candidates[place].spread,
                        best=place == entry.round.best,
                        descends=self.ancestors.get(turn) == place,
                        losses=[*continued, *_losses_of(candidate_folder(self._out, turn, place))],
                    )
                )
            title = f"{turn + 1}, to epoch {entry.round.starts[0].until:g}"
            shown.append(RoundShown(title, tried, entry.another_wins, too_high(self._measured(turn))))
        if not self.search.schedule.whole:
            return shown
        measured = [one for number in range(len(shown)) for one in self._measured(number)]
        tried = [one for entry in shown for one in entry.tried]
        tried = [replace(one, at=float(number), best=one.descends) for number, one in enumerate(tried, start=1)]
        best = next(place for place, one in enumerate(tried) if one.best)
        return [RoundShown("all", tried, another_wins(measured, best), too_high(measured))]

    @cached_property
    def tried(self) -> list[Tried]:
        """The candidates of all rounds."""
        return [one for entry in self.rounds for one in entry.tried]

    @property
    def several(self) -> list[RoundShown]:
        """The rounds of several candidates, of which the best was selected."""
        return [entry for entry in self.rounds if len(entry.tried) > 1]

    @property
    def position(self) -> str:
        """Label of the horizontal axes."""
        return "number of the training" if self.search.schedule.whole else "epoch"

    @property
    def logarithmic(self) -> set[str]:
        """Names of the values that are drawn on a logarithmic scale."""
        space = self.search.space
        start = space.values(space.start.tolist())
        shown_by = [  # the map of each shown value; a modulating factor is shown as a margin, too
            of_field
            for field, of_field in zip(space.fields, space.maps, strict=True)
            for _ in of_field.readable(start[field])
        ]
        names = zip(space.readable(start), shown_by, strict=True)
        return {name for name, of_field in names if isinstance(of_field, Logarithmic)}

    @cached_property
    def means(self) -> dict[str, list[tuple[float, float]]]:
        """The mean of the method's distribution, if it has one, in values of the fields, by round and at the end."""
        space = self.search.space
        states = [*(entry.method for entry in self.whole), *([] if self.learned is None else [self.learned])]
        if self.search.schedule.whole:
            at = np.cumsum([0, *(len(entry.round.starts) for entry in self.whole)]).tolist()
        else:
            at = [0.0, *(entry.round.starts[0].until for entry in self.whole)]
        means: dict[str, list[tuple[float, float]]] = {}
        for place, state in zip(at, states, strict=False):
            names = [f"mean_{number}" for number in range(len(space.fields))]
            if any(name not in state for name in names):
                return {}
            for name, value in space.readable(space.values([state[name] for name in names])).items():
                means.setdefault(name, []).append((place, value))
        return means

    def _measured(self, number: int) -> list[Measured | None]:
        count = len(self.whole[number].round.starts)
        return [read_reward(candidate_folder(self._out, number, place)) for place in range(count)]


def _losses_of(folder: Path) -> list[tuple[float, float]]:
    logged = [(entry.get("epoch"), entry.get("loss")) for entry in read_metrics(folder / METRICS)]
    return [(float(epoch), float(loss)) for epoch, loss in logged if epoch is not None and loss is not None]


_OWN = 0.5  # own cosine at which a loss is shown whose margin depends on the angle
_POINTS = 400
_BEST, _MEAN = SERIES[2], SERIES[0]
_MOST_PANELS = 12  # searched values that are drawn
_APART = 0.5  # share of the distance between rounds over which the candidates of a round are spread


@dataclass(frozen=True)
class LossCurve:
    """A loss over the own class's softmax probability p (Wang et al. 2020, figure 1); `lowered` is exp(-loss), p_m."""

    name: str
    probability: Float64[np.ndarray, " points"]
    lowered: Float64[np.ndarray, " points"]


def draws_plot(course: Course) -> Figure:
    """The values of all candidates, with a panel for each searched value."""
    tried = course.tried
    names = list(tried[0].values)[:_MOST_PANELS]
    figure = new_figure(1.7 * len(names) + 1.0)
    grid = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    places = _places(course)
    for axes, name in zip(grid, names, strict=True):
        values = np.array([one.values[name] for one in tried])
        best = np.array([one.best for one in tried])
        axes.plot(places[~best], values[~best], "o", color=PALE, markersize=4, label="candidate")
        axes.plot(places[best], values[best], "D", color=_BEST, markersize=5, label="best of its round")
        if means := course.means.get(name):
            axes.plot(*zip(*means, strict=True), color=_MEAN, linewidth=1.6, label="mean of the distribution")
        if name in course.logarithmic:
            axes.set_yscale("log")
        axes.set_title(in_picture(name), loc="left", color=INK, fontsize=10)
        axes.margins(y=0.12)
        _tidy(axes)
    _along(course, grid[-1])
    _legend(figure, grid[0])
    return figure


def rewards_plot(course: Course) -> Figure:
    """The reward of each candidate with its spread, and how often another one would have been the best."""
    several = len(course.rounds) > 1 and bool(course.several)
    figure = new_figure(4.6 if several else 3.2)
    axes, *below = figure.subplots(
        2 if several else 1, 1, sharex=True, squeeze=False, height_ratios=(2, 1)[: 1 + several]
    )[:, 0]
    tried, places = course.tried, _places(course)
    for best, colour, mark, label in ((False, PALE, "o", "candidate"), (True, _BEST, "D", "best of its round")):
        rows = [row for row, one in enumerate(tried) if one.best == best and one.reward is not None]
        if rows:
            axes.errorbar(
                places[rows],
                [tried[row].reward for row in rows],
                [tried[row].spread or 0.0 for row in rows],
                fmt=mark, color=colour, markersize=4.5, elinewidth=0.9, label=label,
            )  # fmt: skip
    axes.set_ylabel(in_picture(course.search.reward.title))
    _tidy(axes)
    _legend(figure, axes)
    if several:
        at = [entry.best.at for entry in course.rounds]
        chance = [1 - 1 / len(entry.tried) for entry in course.rounds]
        below[0].plot(at, [entry.another_wins for entry in course.rounds], ".-", color=INK, label="another wins")
        below[0].plot(at, chance, ":", color=PALE, label="a draw by lot")
        below[0].set_ylim(-0.03, 1.03)
        below[0].yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        below[0].set_ylabel("redrawings")
        below[0].legend(frameon=False, fontsize=8, ncols=2, loc="best")
        _tidy(below[0])
    _along(course, (below or [axes])[-1])
    return figure


def losses_plot(course: Course) -> Figure:
    """The training loss of every candidate over the epochs; the result and its ancestors are drawn in colour."""
    figure = new_figure(3.4)
    axes = figure.add_subplot()
    for descends, colour, width, label in ((False, PALE, 0.8, "other candidates"), (True, _BEST, 1.8, "result")):
        lines = [one.losses for one in course.tried if one.descends == descends and one.losses]
        for drawn, line in enumerate(lines):
            axes.plot(
                *zip(*line, strict=True),
                color=colour,
                linewidth=width,
                label=None if drawn else label,
                zorder=2 + descends,
            )
    axes.set_ylabel("training loss")
    axes.set_xlabel("epoch")
    axes.set_xlim(left=0)
    _tidy(axes)
    _legend(figure, axes)
    return figure


def probabilities_plot(curves: Sequence[LossCurve]) -> Figure:
    """By how much a loss lowers the softmax probability of the own class: above as a factor, below the result."""
    figure = new_figure(4.8)
    above, below = figure.subplots(2, 1, sharex=True)
    below.plot([0, 1], [0, 1], color=PALE, linewidth=1, linestyle=":", label="no margin")
    above.axhline(1.0, color=PALE, linewidth=1, linestyle=":")
    for curve, colour, dashes in zip(curves, (_MEAN, _BEST), ("--", "-"), strict=False):
        above.plot(curve.probability, curve.lowered / curve.probability, color=colour, linestyle=dashes)
        below.plot(curve.probability, curve.lowered, color=colour, linestyle=dashes, label=in_picture(curve.name))
    above.set_ylabel("h(p)")
    below.set_ylabel("h(p) p")
    below.set_xlabel("softmax probability p of the own class")
    for axes in (above, below):
        axes.set_ylim(0, 1.03)
        axes.set_xlim(0, 1)
        _tidy(axes)
    _legend(figure, below)
    return figure


def loss_curve(name: str, loss: ClassLoss) -> LossCurve:
    """The curve of a loss for two classes: the own cosine is fixed, and the other cosine takes all values."""
    other = torch.linspace(-1.0, 1.0, _POINTS, dtype=torch.float64)
    own = torch.full_like(other, _OWN)
    rows = torch.stack([own, other], dim=1)
    losses = torch.stack([loss.forward(row[None], torch.zeros(1, dtype=torch.long)) for row in rows])
    return LossCurve(name, torch.sigmoid(loss.scale * (own - other)).numpy(), torch.exp(-losses).detach().numpy())


def _places(course: Course) -> np.ndarray:
    """Places of the candidates on the horizontal axis; the candidates of a round are beside each other."""
    at = sorted({one.at for one in course.tried})
    distance = min((after - before for before, after in itertools.pairwise(at)), default=1.0)
    places = []
    for entry in course.rounds:
        together = len({one.at for one in entry.tried}) == 1
        offsets = np.linspace(-_APART / 2, _APART / 2, len(entry.tried)) if together and len(entry.tried) > 1 else [0.0]
        places += [
            one.at + distance * offset
            for one, offset in zip(entry.tried, np.resize(offsets, len(entry.tried)), strict=True)
        ]
    return np.array(places)


def _along(course: Course, axes: Axes) -> None:
    axes.set_xlabel(course.position)
    if len(course.rounds) == 1:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, columnspacing=1.2, frameon=False, fontsize=9)


def _tidy(axes: Axes) -> None:
    tidy(axes)
    axes.grid(color=LINES, linewidth=0.7)


PAGE = "index.html"
_PAPER = "Loss Function Search (Wang et al. 2020, arXiv:2007.06542)"


def write_page(
    search: Search,
    rounds: Sequence[WholeRound],
    ancestors: Mapping[int, int],
    learned: Mapping[str, float] | None,
    out: Path,
) -> None:
    """Write `index.html`, one file without scripts, and `plots/` into the folder of a search."""
    course = Course(search, rounds, ancestors, learned, out)
    sections = [
        Section("Result", "result", [_result(course)]),
        Section("Draws", "draws", [_draws(course)]),
        Section("Rewards and their noise", "rewards", _rewards(course)),
        Section("Losses", "losses", _losses(course)),
        Section("Rounds", "rounds", [_rounds(course)]),
    ]
    made = "Beside this page lie search.json, every draw and reward, and plots/, the plots as PNG and SVG."
    Page(f"Search: {out.name}", sections, made).write(out / PAGE)


def _result(course: Course) -> Markup:
    """The values that the search chose, and their cost."""
    search, result = course.search, [one for one in course.tried if one.descends][-1]
    assert result.reward is not None  # a candidate that diverged is never the result
    values = ", ".join(f"{name} {value:.4g}" for name, value in result.values.items())
    epochs = epochs_trained([entry.round for entry in course.whole], [entry.values for entry in course.whole])
    return facts(
        ("Values", f"{values}{' so far; the search has not ended' if course.learned is None else ''}."),
        (
            "Reward",
            f"{search.reward.title} is {number(result.reward)}. "
            + ("The result was selected by this figure, so it is too high. " if course.several else "")
            + "Measure the result on people of neither the training nor the reward.",
        ),
        (
            "Cost",
            f"{epochs:g} epochs of training over all candidates, {epochs / search.schedule.epochs:.3g} times as many "
            "as one training has. Compare the result with what as many trainings buy otherwise: several margins, or "
            "the best of several seeds.",
        ),
        ("Method", f"{type(search.method).__name__}, {type(search.schedule).__name__}."),
    )


def _draws(course: Course) -> Plot:
    learned = " The line is the mean of the distribution from which they were drawn." if course.means else ""
    beside = " Those of one round stand side by side." if course.several else ""
    caption = f"The searched values of every candidate; the best one of each round stands out.{beside}{learned}"
    tried = course.tried
    ranges = "; ".join(
        f"{name} from {min(one.values[name] for one in tried):.4g} to {max(one.values[name] for one in tried):.4g}"
        for name in tried[0].values
    )
    return Plot("draws", lambda: draws_plot(course), f"Values of {len(tried)} candidates: {ranges}.", caption)


def _rewards(course: Course) -> list[Markup | Plot]:
    """The rewards, and the effect of selecting by a noisy figure."""
    caption = (
        f"{course.search.reward.title} of every candidate; the bars are one standard deviation over redrawn people."
    )
    parts: list[Markup | Plot] = [Plot("rewards", lambda: rewards_plot(course), _rewards_alt(course), caption)]
    if several := course.several:
        wins = sum(entry.another_wins for entry in several) / len(several)
        high = sum(entry.too_high for entry in several) / len(several)
        over = f" (mean over {len(several)} rounds)" if len(several) > 1 else ""
        told = (
            f"In {percent(wins)} of the redrawings of the people another candidate than the best one would have had "
            f"the highest reward{over}. The best of several noisy rewards is too high: here by {number(high)} or more "
            "each time that one was chosen. The estimate redraws the people and takes each time the best candidate's "
            "deviation from its own mean. It is a lower bound, since it takes the measured differences between "
            "candidates for true ones, and since all rounds have the same people."
        )
        parts.append(tag("p", told))
    return parts


def _rewards_alt(course: Course) -> str:
    known = [one.reward for one in course.tried if one.reward is not None]
    return (
        f"{course.search.reward.title} of {len(known)} candidates, from {number(min(known))} to {number(max(known))}."
    )


def _losses(course: Course) -> list[Plot] | list[Markup]:
    """The training losses, and the loss as a function of a probability."""
    plots = []
    if any(one.losses for one in course.tried):
        caption = (
            f"The training loss over the epochs ({_PAPER}, figure 2). Losses with other margins have other values: a "
            "lower curve is not a better network."
        )
        alt = "Training loss of every candidate over the epochs."
        plots.append(Plot("losses", lambda: losses_plot(course), alt, caption))
    if curves := _curves(course):
        names = " and ".join(curve.name for curve in curves)
        caption = (
            f"The effect of the loss on the softmax probability p of the own class ({_PAPER}, figure 1): the loss is "
            "-log(h(p) p). Where the margin depends on the angle, the own cosine is 0.5."
        )
        alt = f"h(p), and h(p) p, over p: {names}."
        plots.append(Plot("probabilities", lambda: probabilities_plot(curves), alt, caption))
    return plots or [tag("p", "No candidate has logged a loss.")]


def _curves(course: Course) -> list[LossCurve]:
    """The loss at the start of the search and that of its result, if the search is over the loss."""
    search, last = course.search, max(course.ancestors)
    if not any(field.startswith("loss.") for field in search.space.fields):
        return []
    start, result = search.space.values(search.space.start.tolist()), course.whole[last].values[course.ancestors[last]]
    curves = []
    for name, settings in (("start", start), ("result", result)):
        loss = changed_recipe(search.read, settings).recipe.loss
        if not isinstance(loss, SearchSoftmax | AMLFS | CombinedMargin):
            return []
        curves.append(loss_curve(name, loss))
    return curves


def _rounds(course: Course) -> Markup:
    names = list(course.rounds[0].best.values)
    header = ["Round", "Candidates", *names, course.search.reward.title, "Spread", "Another wins", "Too high by"]
    return table("The best candidate of each round", header, [_row(entry, names) for entry in course.rounds])


def _row(entry: RoundShown, names: list[str]) -> list[str]:
    best = entry.best
    assert best.reward is not None
    return [
        entry.title,
        str(len(entry.tried)),
        *(f"{best.values[name]:.4g}" for name in names),
        number(best.reward),
        "-" if best.spread is None else number(best.spread),
        f"{100 * entry.another_wins:.0f}\N{NO-BREAK SPACE}%" if len(entry.tried) > 1 else "-",
        number(entry.too_high) if len(entry.tried) > 1 else "-",
    ]
