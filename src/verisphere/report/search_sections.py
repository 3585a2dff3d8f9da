"""The page about a search: its result, the draws, the noise of the rewards, and the course of the losses."""

import base64
from collections.abc import Mapping

from verisphere.report.html import Markup, joined, table, tag
from verisphere.report.picture_sections import picture
from verisphere.report.search_findings import RoundShown, SearchFindings
from verisphere.report.search_plots import DRAWS, LOSSES, PROBABILITIES, REWARDS
from verisphere.report.sections import percent
from verisphere.report.tables import number
from verisphere.report.whole_page import whole_page

_PAPER = "Loss Function Search (Wang et al. 2020, arXiv:2007.06542)"


def render_search_page(findings: SearchFindings, plots: Mapping[str, bytes]) -> str:
    """The page as HTML.

    Args:
        findings: contents of the page.
        plots: SVG of each figure of `search_figures`.
    """
    uris = {name: f"data:image/svg+xml;base64,{base64.b64encode(data).decode()}" for name, data in plots.items()}
    parts = [
        ("Result", "result", result(findings)),
        ("Draws", "draws", draws(findings, uris[DRAWS])),
        ("Rewards and their noise", "rewards", rewards(findings, uris[REWARDS])),
        ("Losses", "losses", losses(findings, uris)),
        ("Rounds", "rounds", rounds(findings)),
    ]
    made = (
        f"Made by verisphere {findings.version}. Beside this page lie search.json, every draw and reward, and plots/, "
        "the plots as PNG and SVG."
    )
    return whole_page(findings.title, findings.version, parts, made)


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


def draws(findings: SearchFindings, uri: str) -> Markup:
    """The values that were tried."""
    learned = " The line is the mean of the distribution from which they were drawn." if findings.means else ""
    caption = f"The searched values of every candidate; the best one of each round stands out.{learned}"
    tried = findings.tried
    ranges = "; ".join(
        f"{name} from {min(one.values[name] for one in tried):.4g} to {max(one.values[name] for one in tried):.4g}"
        for name in tried[0].values
    )
    return tag("div", picture(uri, f"Values of {len(tried)} candidates: {ranges}.", caption), class_="plots")


def rewards(findings: SearchFindings, uri: str) -> Markup:
    """The rewards, and the effect of selecting by a noisy figure."""
    caption = f"{findings.reward} of every candidate; the bars are one standard deviation over redrawn people."
    parts = [tag("div", picture(uri, _rewards_alt(findings), caption), class_="plots")]
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
    return joined(*parts)


def _rewards_alt(findings: SearchFindings) -> str:
    known = [one.reward for one in findings.tried if one.reward is not None]
    return f"{findings.reward} of {len(known)} candidates, from {number(min(known))} to {number(max(known))}."


def losses(findings: SearchFindings, uris: Mapping[str, str]) -> Markup:
    """The training losses, and the loss as a function of a probability."""
    plots = []
    if LOSSES in uris:
        caption = (
            f"The training loss over the epochs ({_PAPER}, figure 2). Losses with other margins have other values: a "
            "lower curve is not a better network."
        )
        plots.append(picture(uris[LOSSES], "Training loss of every candidate over the epochs.", caption))
    if PROBABILITIES in uris:
        names = " and ".join(curve.name for curve in findings.curves)
        caption = (
            f"The effect of the loss on the softmax probability p of the own class ({_PAPER}, figure 1): the loss is "
            "-log(h(p) p). Where the margin depends on the angle, the own cosine is 0.5."
        )
        plots.append(picture(uris[PROBABILITIES], f"h(p), and h(p) p, over p: {names}.", caption))
    return tag("div", *plots, class_="plots") if plots else tag("p", "No candidate has logged a loss.")


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
