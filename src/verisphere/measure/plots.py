"""Plots in one call, from arrays or from scores, as scikit-learn's displays make them."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes

from verisphere.base.words import Names
from verisphere.decide import Curve, Far, Ordered, ScoresLike, SortedScores, ordered, roc, thinned_roc, threshold_at
from verisphere.decide.curve import Histogram
from verisphere.measure.arrays import set_of
from verisphere.measure.evaluate import MOST_CURVE_POINTS
from verisphere.measure.protocols.all_pairs import PairsOfSet, require_pairs
from verisphere.measure.protocols.score_distribution import BINS, histograms, thinned_curve
from verisphere.report.plots import LINES, draw_det, draw_roc, tidy
from verisphere.report.score_plots import COMMON, draw_scores
from verisphere.report.tables import number

_Scores: TypeAlias = PairsOfSet | tuple[SortedScores, SortedScores]  # all pairs, or genuine and impostor scores


def plot_roc(
    embeddings: Any = None,
    identities: Any = None,
    *,
    genuine: ScoresLike | None = None,
    impostor: ScoresLike | None = None,
    names: Names | None = None,
    name: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draws TAR over FAR, the FAR on a logarithmic axis, over all pairs of a set or from scores.

    A second curve goes into the same axes: `plot_roc(..., name="other", ax=axes)`.

    >>> axes = plot_roc(genuine=[0.9, 0.8, 0.3], impostor=[0.5, 0.4, 0.2, 0.1])
    >>> axes.get_xlabel(), axes.get_xscale()
    ('FAR (false accept rate)', 'log')
    >>> axes.figure.clear()

    Args:
        embeddings: embeddings, as in `verisphere.evaluate`; None if scores are given.
        identities: the person of each row.
        genuine: scores of comparisons of one person, instead of embeddings.
        impostor: scores of comparisons of two people.
        names: whether names that differ only in their spelling are one person (`merge`) or people (`exact`).
        name: name of the curve in the legend.
        ax: axes to draw into; None makes a figure by pyplot.

    Raises:
        TypeError: neither or both of embeddings and scores, or identities are missing.
        ValueError: see `verisphere.evaluate` and `verisphere.operating_point`.
    """
    return _drawn(draw_roc, _scores(embeddings, identities, genuine, impostor, names), name, ax)


def plot_det(
    embeddings: Any = None,
    identities: Any = None,
    *,
    genuine: ScoresLike | None = None,
    impostor: ScoresLike | None = None,
    names: Names | None = None,
    name: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Draws FRR = 1 - TAR over FAR on normal-deviate axes (Martin et al. 1997); arguments as for `plot_roc`.

    >>> axes = plot_det(genuine=[0.9, 0.8, 0.3], impostor=[0.5, 0.4, 0.2, 0.1])
    >>> axes.get_ylabel()
    'FRR = 1 - TAR (false reject rate)'
    >>> axes.figure.clear()
    """
    return _drawn(draw_det, _scores(embeddings, identities, genuine, impostor, names), name, ax)


def plot_scores(
    embeddings: Any = None,
    identities: Any = None,
    *,
    genuine: ScoresLike | None = None,
    impostor: ScoresLike | None = None,
    names: Names | None = None,
    far: Far | None = None,
    logarithmic: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draws the distributions of genuine and impostor scores; other arguments and errors are those of `plot_roc`.

    >>> axes = plot_scores(genuine=[0.9, 0.8, 0.3], impostor=[0.5, 0.4, 0.2, 0.1], far="0.25")
    >>> axes.get_legend_handles_labels()[1]
    ['strangers', 'same person', 'threshold at FAR 0.25: 0.4000']
    >>> axes.figure.clear()

    Args:
        embeddings: embeddings, as in `verisphere.evaluate`; None if scores are given.
        identities: the person of each row.
        genuine: scores of comparisons of one person, instead of embeddings.
        impostor: scores of comparisons of two people.
        names: whether names that differ only in their spelling are one person (`merge`) or people (`exact`).
        far: target FAR whose threshold is drawn; None draws none.
        logarithmic: a logarithmic axis for the shares, which shows the tails.
        ax: axes to draw into; None makes a figure by pyplot.
    """
    scores = _scores(embeddings, identities, genuine, impostor, names)
    if isinstance(scores, PairsOfSet):
        impostors: Ordered = scores.everything(genuine=False)
        histogram, _ = histograms(scores, scores.all_scores(genuine=True))
    else:
        impostors = scores[1]
        histogram = _histogram(*scores)
    threshold = None if far is None else threshold_at(impostors, far)
    axes = _axes(ax)
    draw_scores(axes, histogram)
    if threshold is not None and np.isfinite(threshold):
        axes.axvline(threshold, color=COMMON, linewidth=1.5, label=f"threshold at FAR {far}: {number(threshold)}")
    if logarithmic:
        axes.set_yscale("log")
        axes.set_ylim(0.5 / max(histogram.genuine_total, histogram.impostor_total), 1)
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel("score (cosine)" if isinstance(scores, PairsOfSet) else "score")
    axes.set_ylabel("share")
    axes.legend(loc="best", frameon=False, fontsize=9)
    tidy(axes)
    return axes


def _scores(
    embeddings: Any,
    identities: Any,
    genuine: ScoresLike | None,
    impostor: ScoresLike | None,
    names: Names | None,
) -> _Scores:
    if genuine is None and impostor is None:
        if embeddings is None:
            raise TypeError("nothing to plot; give embeddings and identities, or genuine=scores and impostor=scores")
        people = set_of(embeddings, identities, names)
        require_pairs(people, "identities")
        return PairsOfSet(people)
    if not embeddings is identities is names is None:
        given = "embeddings" if embeddings is not None else "names" if identities is None else "identities"
        raise TypeError(f"{given} came beside scores; give embeddings and identities, or genuine and impostor")
    if genuine is None or impostor is None:
        raise TypeError(f"{'genuine' if genuine is None else 'impostor'} scores are missing; a plot takes both kinds")
    both = SortedScores(genuine, "genuine"), SortedScores(impostor, "impostor")
    ordered(both[0], "genuine")
    ordered(both[1], "impostor")
    return both


def _curve(scores: _Scores) -> Curve:
    if isinstance(scores, PairsOfSet):
        return thinned_curve(scores)
    genuine, impostor = scores
    if genuine.total + impostor.total > MOST_CURVE_POINTS:
        return thinned_roc(genuine, impostor)
    return roc(genuine.values, impostor.values)


def _histogram(genuine: SortedScores, impostor: SortedScores) -> Histogram:
    """Counts of finite scores in memory."""
    kinds = [scores.values[scores.values.isfinite()].cpu().numpy() for scores in (genuine, impostor)]
    lowest, highest = (float(end(np.concatenate([*kinds, [0.0]]))) for end in (np.min, np.max))
    edges = np.linspace(lowest, max(highest, lowest + 1e-12), BINS + 1)
    counts = [np.histogram(values, edges)[0].astype(np.int64) for values in kinds]
    return Histogram(edges, counts[0], counts[1], genuine.total, impostor.total)


def _axes(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure of pyplot, which a notebook or `pyplot.show` displays."""
    if ax is not None and not isinstance(ax, Axes):
        raise TypeError(f"ax is {type(ax).__name__}; a plot goes into one Axes, such as figure.add_subplot()")
    return pyplot.figure(figsize=(4.8, 3.6), layout="constrained").add_subplot() if ax is None else ax


def _drawn(draw: Callable[[Axes, dict[str, Curve]], object], scores: _Scores, name: str, ax: Axes | None) -> Axes:
    curve, axes = _curve(scores), _axes(ax)
    draw(axes, {name: curve})
    if name:
        axes.legend(loc="best", frameon=False, fontsize=9)
    tidy(axes)
    axes.grid(color=LINES, linewidth=0.7)
    return axes
