"""The page about a search: its result, the draws, the noise of the rewards, and the course of the losses."""

from verisphere.report.blocks import Page, Plot, Section
from verisphere.report.html import Markup, joined, table, tag
from verisphere.report.search_findings import RoundShown, SearchFindings
from verisphere.report.search_plots import draws_plot, losses_plot, probabilities_plot, rewards_plot
from verisphere.report.tables import number, percent

_PAPER = "Loss Function Search (Wang et al. 2020, arXiv:2007.06542)"


def search_page(findings: SearchFindings) -> Page:
    """The page."""
    sections = [
        Section("Result", "result", [result(findings)]),
        Section("Draws", "draws", [draws(findings)]),
        Section("Rewards and their noise", "rewards", rewards(findings)),
        Section("Losses", "losses", losses(findings)),
        Section("Rounds", "rounds", [rounds(findings)]),
    ]
    made = "Beside this page lie search.json, every draw and reward, and plots/, the plots as PNG and SVG."
    return Page(findings.title, sections, made, version=findings.version)


def result(findings: SearchFindings) -> Markup:
    """The values that the search chose, and their cost."""
    found = findings.result
    values = ", ".join(f"{name} {value:.4g}" for name, value in found.values.items())
    so_far = "" if findings.ended else " so far; the search has not ended"
    assert found.reward is not None  # a candidate that diverged is never the result
    facts = [
        joined(tag("strong", "Result"), f": {values}{so_far}."),
        joined(
            tag("strong", "Reward"),
            f": {findings.reward} {number(found.reward)}. "
            + ("The result was selected by this figure, so it is too high. " if findings.selected else "")
            + "Measure the result on people of neither the training nor the reward.",
        ),
        joined(
            tag("strong", "Cost"),
            f": {findings.epochs:g} epochs of training over all candidates, {findings.epochs / findings.of_one:.3g} "
            "times as many as one training has. Compare the result with what as many trainings buy otherwise: several "
            "margins, or the best of several seeds.",
        ),
        joined(tag("strong", "Method"), f": {findings.method}, {findings.schedule}."),
    ]
    return tag("ul", *(tag("li", fact) for fact in facts))


def draws(findings: SearchFindings) -> Plot:
    """The values that were tried."""
    learned = " The line is the mean of the distribution from which they were drawn." if findings.means else ""
    caption = f"The searched values of every candidate; the best one of each round stands out.{learned}"
    tried = findings.tried
    ranges = "; ".join(
        f"{name} from {min(one.values[name] for one in tried):.4g} to {max(one.values[name] for one in tried):.4g}"
        for name in tried[0].values
    )
    return Plot("draws", lambda: draws_plot(findings), f"Values of {len(tried)} candidates: {ranges}.", caption)


def rewards(findings: SearchFindings) -> list[Markup | Plot]:
    """The rewards, and the effect of selecting by a noisy figure."""
    caption = f"{findings.reward} of every candidate; the bars are one standard deviation over redrawn people."
    parts: list[Markup | Plot] = [Plot("rewards", lambda: rewards_plot(findings), _rewards_alt(findings), caption)]
    several = [entry for entry in findings.rounds if len(entry.tried) > 1]
    if several:
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


def _rewards_alt(findings: SearchFindings) -> str:
    known = [one.reward for one in findings.tried if one.reward is not None]
    return f"{findings.reward} of {len(known)} candidates, from {number(min(known))} to {number(max(known))}."


def losses(findings: SearchFindings) -> list[Plot] | list[Markup]:
    """The training losses, and the loss as a function of a probability."""
    plots = []
    if any(one.losses for one in findings.tried):
        caption = (
            f"The training loss over the epochs ({_PAPER}, figure 2). Losses with other margins have other values: a "
            "lower curve is not a better network."
        )
        alt = "Training loss of every candidate over the epochs."
        plots.append(Plot("losses", lambda: losses_plot(findings), alt, caption))
    if findings.curves:
        names = " and ".join(curve.name for curve in findings.curves)
        caption = (
            f"The effect of the loss on the softmax probability p of the own class ({_PAPER}, figure 1): the loss is "
            "-log(h(p) p). Where the margin depends on the angle, the own cosine is 0.5."
        )
        alt = f"h(p), and h(p) p, over p: {names}."
        plots.append(Plot("probabilities", lambda: probabilities_plot(findings.curves), alt, caption))
    return plots or [tag("p", "No candidate has logged a loss.")]


def rounds(findings: SearchFindings) -> Markup:
    """Every round in a row."""
    names = list(findings.rounds[0].best.values)
    header = ["Round", "Candidates", *names, findings.reward, "Spread", "Another wins", "Too high by"]
    return table("The best candidate of each round", header, [_row(entry, names) for entry in findings.rounds])


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
