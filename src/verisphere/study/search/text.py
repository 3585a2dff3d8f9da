"""The result of a search as text."""

from verisphere.report.tables import table
from verisphere.study.search.definition import Search
from verisphere.study.search.rounds import selects
from verisphere.study.search.search import SearchResult


def result_text(search: Search, result: SearchResult) -> str:
    """The rounds as a table, the result, and its cost."""
    names = list(search.space.readable(result.values))
    head = ["round", "to epoch", "candidates", "best", *names, search.reward.title, "spread", "another wins"]
    rows = []
    for number, whole in enumerate(result.rounds):
        best = whole.round.best
        reward, spread = whole.round.measured[best], whole.candidates[best].spread
        rows.append(
            [
                str(number + 1),
                f"{whole.round.starts[0].until:g}",
                str(len(whole.round.starts)),
                str(best + 1),
                *(f"{value:.4g}" for value in search.space.readable(whole.values[best]).values()),
                "diverged" if reward is None else f"{reward:.4f}",
                "" if spread is None else f"{spread:.4f}",
                f"{whole.another_wins:.0%}",
            ]
        )
    values = ", ".join(f"{name} {value:.4g}" for name, value in search.space.readable(result.values).items())
    return "\n".join(
        [
            table(head, rows),
            f"result: candidate {result.candidate + 1} of round {result.number + 1}, {values}; {search.reward.title} "
            f"{result.reward:.4f}, {_selection(result)}",
            f"{result.epochs:g} epochs were trained, {result.epochs / search.schedule.epochs:.3g} times as many as of "
            "one training",
        ]
    )


def _selection(result: SearchResult) -> str:
    """Whether the reward of the result is too high because the result was selected by it."""
    if not selects([whole.round for whole in result.rounds]):
        return "by which nothing was selected, since there was one candidate at a time"
    return "by which it was selected: expect less on people of neither the training nor the reward"
