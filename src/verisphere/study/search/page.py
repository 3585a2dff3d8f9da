"""The page about a search: its result, the draws, the noise of the rewards, and the course of the losses."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from verisphere.losses import AMLFS, CombinedMargin, SearchSoftmax
from verisphere.report.blocks import Page, Plot, Section
from verisphere.report.html import Markup, facts, table, tag
from verisphere.report.tables import number, percent
from verisphere.study.search.course import Course, RoundShown
from verisphere.study.search.definition import Search
from verisphere.study.search.folder import WholeRound
from verisphere.study.search.page_plots import (
    LossCurve,
    draws_plot,
    loss_curve,
    losses_plot,
    probabilities_plot,
    rewards_plot,
)
from verisphere.study.search.rounds import epochs_trained
from verisphere.train.recipe import changed_recipe

PAGE = "index.html"
_PAPER = "Loss Function Search (Wang et al. 2020, arXiv:2007.06542)"


def write_page(
    search: Search,
    rounds: Sequence[WholeRound],
    ancestors: Mapping[int, int],
    learned: Mapping[str, float] | None,
    out: Path,
) -> None:
    """Write `index.html`, one file without scripts, and `plots/` into the folder of a search.

    At least one round is finished. Of each round the candidate is given from which the result descends; what the method
    has learned is None while the search continues.
    """
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
        ("Result", f"{values}{' so far; the search has not ended' if course.learned is None else ''}."),
        (
            "Reward",
            f"{search.reward.title} {number(result.reward)}. "
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
    caption = f"The searched values of every candidate; the best one of each round stands out.{learned}"
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
        f"{entry.another_wins:.0%}" if len(entry.tried) > 1 else "-",
        number(entry.too_high) if len(entry.tried) > 1 else "-",
    ]
