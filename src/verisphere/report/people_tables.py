"""How error rates spread over people, as text."""

from collections.abc import Sequence

from verisphere.base.vocabulary import printable
from verisphere.decide import Opis, PeopleAtThreshold, Spread
from verisphere.report.tables import number, small, table

_NAMED = 5  # people of the worst decile whose names a table shows


def people_table(thresholds: Sequence[PeopleAtThreshold], inconsistency: Opis | None) -> str:
    """The spread of people's FAR and FRR at each threshold, the people with the worst, and the inconsistency score."""
    rows, worst = [], []
    for at in thresholds:
        for rate, spread in (("FAR", at.far), ("FRR", at.frr)):
            rows.append([at.far_target, number(at.threshold), rate, *_figures(spread)])
            if spread.without_errors < spread.people:
                names = ", ".join(printable(name) for name in spread.worst_decile[:_NAMED])
                more = f" and {hidden:,} more" if (hidden := len(spread.worst_decile) - _NAMED) > 0 else ""
                worst.append(f"worst decile by {rate} at FAR {at.far_target}: {names}{more}")
    header = ["FAR target", "threshold", "rate", "people", "without", "mean", "std", "Gini", "highest"]
    header += ["worst decile", "its share of errors"]
    lines = [f"rates of each person, rule: {thresholds[0].rule}", table(header, rows), *worst]
    if inconsistency is not None:
        lines.append(
            f"OPIS {small(inconsistency.value)} over {inconsistency.thresholds} thresholds from "
            f"{number(inconsistency.lowest)} (FAR {inconsistency.fars[0]}) to {number(inconsistency.highest)} "
            f"(FAR {inconsistency.fars[1]}), {inconsistency.people:,} people with both kinds of comparison"
        )
    return "\n".join(lines)


def _figures(spread: Spread) -> list[str]:
    optional = ["-" if value is None else number(value) for value in (spread.gini, spread.worst_decile_share)]
    rates = [small(rate) for rate in (spread.mean, spread.std, spread.highest, spread.worst_decile_rate)]
    return [f"{spread.people:,}", f"{spread.without_errors:,}", *rates[:2], optional[0], *rates[2:], optional[1]]
