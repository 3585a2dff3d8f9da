"""The page about a search: `index.html` and `plots/` in its folder."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from verisphere import __version__
from verisphere.files.metrics import METRICS, read_metrics
from verisphere.losses import AMLFS, ClassLoss, CombinedMargin, SearchSoftmax
from verisphere.report.search_findings import LossCurve, RoundShown, SearchFindings, Tried
from verisphere.report.search_sections import search_page
from verisphere.search.candidate import read_reward
from verisphere.search.definition import Search
from verisphere.search.folder import WholeRound, candidate_folder
from verisphere.search.maps import Logarithmic
from verisphere.search.noise import another_wins, too_high
from verisphere.search.reward import Measured
from verisphere.search.rounds import epochs_trained
from verisphere.train.recipe import Settings, changed_recipe

PAGE = "index.html"
_OWN = 0.5  # own cosine at which a loss is shown whose margin depends on the angle
_POINTS = 400


def write_page(
    search: Search,
    rounds: Sequence[WholeRound],
    ancestors: Mapping[int, int],
    learned: Mapping[str, float] | None,
    out: Path,
) -> None:
    """Write `index.html`, one file without scripts, and `plots/` into the folder of a search.

    Args:
        search: the search.
        rounds: the finished rounds, at least one.
        ancestors: candidate of each round from which the result descends, by round.
        learned: figures that the method has learned after the last round; None while the search continues.
        out: folder of the search.
    """
    search_page(search_findings(search, rounds, ancestors, learned, out)).write(out / PAGE)


def search_findings(
    search: Search,
    rounds: Sequence[WholeRound],
    ancestors: Mapping[int, int],
    learned: Mapping[str, float] | None,
    out: Path,
) -> SearchFindings:
    """The contents of the page; see `write_page`."""
    start = search.space.values(search.space.start.tolist())
    shown_by = [  # the map of each shown value; a modulating factor is shown as a margin, too
        of_field
        for field, of_field in zip(search.space.fields, search.space.maps, strict=True)
        for _ in of_field.readable(start[field])
    ]
    last = max(ancestors)
    return SearchFindings(
        title=f"Search: {out.name}",
        version=__version__,
        reward=search.reward.title,
        method=type(search.method).__name__,
        schedule=type(search.schedule).__name__,
        position="number of the training" if search.schedule.whole else "epoch",
        rounds=_rounds(search, rounds, ancestors, out),
        means=_means(search, rounds, learned),
        logarithmic=frozenset(
            name
            for name, of_field in zip(search.space.readable(start), shown_by, strict=True)
            if isinstance(of_field, Logarithmic)
        ),
        curves=_curves(search, rounds[last].values[ancestors[last]]),
        ended=learned is not None,
        epochs=epochs_trained([entry.round for entry in rounds], [entry.values for entry in rounds]),
        of_one=search.schedule.epochs,
    )


def _rounds(search: Search, rounds: Sequence[WholeRound], ancestors: Mapping[int, int], out: Path) -> list[RoundShown]:
    """The rounds; whole trainings count as one round, since the result is the best of all of them."""
    shown: list[RoundShown] = []
    for number, entry in enumerate(rounds):
        tried = []
        for place, start in enumerate(entry.round.starts):
            continued = () if start.parent is None else shown[-1].tried[start.parent].losses[-1:]
            tried.append(
                Tried(
                    at=float(start.until),
                    values={name: float(one) for name, one in search.space.readable(entry.values[place]).items()},
                    reward=entry.round.measured[place],
                    spread=entry.candidates[place].spread,
                    best=place == entry.round.best,
                    descends=ancestors.get(number) == place,
                    losses=[*continued, *_losses(candidate_folder(out, number, place))],
                )
            )
        title = f"{number + 1}, to epoch {entry.round.starts[0].until:g}"
        measured = _measured(out, number, len(tried))
        shown.append(RoundShown(title, tried, entry.another_wins, too_high(measured)))
    if not search.schedule.whole:
        return shown
    measured = [one for number, entry in enumerate(shown) for one in _measured(out, number, len(entry.tried))]
    tried = [one for entry in shown for one in entry.tried]
    tried = [replace(one, at=float(number), best=one.descends) for number, one in enumerate(tried, start=1)]
    best = next(place for place, one in enumerate(tried) if one.best)
    return [RoundShown("all", tried, another_wins(measured, best), too_high(measured))]


def _measured(out: Path, number: int, count: int) -> list[Measured | None]:
    return [read_reward(candidate_folder(out, number, place)) for place in range(count)]


def _losses(folder: Path) -> list[tuple[float, float]]:
    entries = read_metrics(folder / METRICS)
    found = []
    for entry in entries:
        epoch, loss = entry.get("epoch"), entry.get("loss")
        if epoch is not None and loss is not None:
            found.append((float(epoch), float(loss)))
    return found


def _means(
    search: Search, rounds: Sequence[WholeRound], learned: Mapping[str, float] | None
) -> dict[str, list[tuple[float, float]]]:
    """The mean of a method that has one, as values of the fields: where each round began, and at the end."""
    fields = search.space.fields
    states = [*(entry.method for entry in rounds), *([] if learned is None else [learned])]
    if search.schedule.whole:
        at = np.cumsum([0, *(len(entry.round.starts) for entry in rounds)]).tolist()
    else:
        at = [0.0, *(entry.round.starts[0].until for entry in rounds)]
    means: dict[str, list[tuple[float, float]]] = {}
    for place, state in zip(at, states, strict=False):
        if any(f"mean_{number}" not in state for number in range(len(fields))):
            return {}
        values = search.space.values([state[f"mean_{number}"] for number in range(len(fields))])
        for name, value in search.space.readable(values).items():
            means.setdefault(name, []).append((place, value))
    return means


def _curves(search: Search, values: Settings) -> list[LossCurve]:
    """The loss at the start of the search and that of its result, if the search is over the loss."""
    if not any(field.startswith("loss.") for field in search.space.fields):
        return []
    curves = []
    for name, settings in (("start", search.space.values(search.space.start.tolist())), ("result", values)):
        loss = changed_recipe(search.read, settings).recipe.loss
        if not isinstance(loss, SearchSoftmax | AMLFS | CombinedMargin):
            return []
        curves.append(loss_curve(name, loss))
    return curves


def loss_curve(name: str, loss: ClassLoss) -> LossCurve:
    """The curve of a loss for two classes: the own cosine is fixed, and the other cosine takes all values."""
    other = torch.linspace(-1.0, 1.0, _POINTS, dtype=torch.float64)
    own = torch.full_like(other, _OWN)
    rows = torch.stack([own, other], dim=1)
    losses = torch.stack([loss.forward(row[None], torch.zeros(1, dtype=torch.long)) for row in rows])
    return LossCurve(name, torch.sigmoid(loss.scale * (own - other)).numpy(), torch.exp(-losses).detach().numpy())
