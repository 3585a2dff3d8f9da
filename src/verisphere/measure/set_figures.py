"""The figures of a model on a set of images, each also over redrawn people."""

from dataclasses import dataclass, replace
from math import sqrt

from verisphere.base.vocabulary import Embeddings, Redrawing
from verisphere.decide import OneThreshold
from verisphere.decide.intervals import Redrawn
from verisphere.files.embeddings import known_people
from verisphere.measure.domain_bias import bias_of_domains
from verisphere.measure.measured_set import MeasuredSet
from verisphere.measure.pairs_of_set import accuracies, pair_rows
from verisphere.measure.protocols.all_pairs import PairsOfSet, all_pairs
from verisphere.measure.protocols.redrawn import redrawn_set

TAR, GAMMA, TAR_STD, FAR_STD = "tar", "gamma", "tar_std_over_domains", "neg_log10_far_std_over_domains"
ONE_THRESHOLD = "one_threshold"
DOMAIN_TAR, DOMAIN_FAR, DOMAIN_THRESHOLD = "domain_tar", "domain_far", "domain_threshold"
ACCURACY = "accuracy"
DOMAIN_BIAS = "domain_bias"
COMPARED = (TAR, ACCURACY, GAMMA, TAR_STD, FAR_STD)


@dataclass(frozen=True)
class Figure:
    """The identity of a figure.

    Attributes:
        name: `tar` over all pairs; for one threshold `gamma`, `tar_std_over_domains`, `neg_log10_far_std_over_domains`,
            `one_threshold` and, for one domain, `domain_tar`, `domain_far`, `domain_threshold`; `accuracy` over the
            folds of listed or drawn pairs; `domain_bias`, the distance of the people of the domains from those of an
            anchor domain.
        far_target: target FAR as it was given; empty for a figure that has none.
        domain: name of the domain, or of the list of pairs if there are several; None for figures of the whole set.
    """

    measured: str
    name: str
    far_target: str
    domain: str | None = None


@dataclass(frozen=True, eq=False)
class SetFigures:
    """The figures of one training on one set, and over redrawn people those by which arms are compared."""

    values: dict[Figure, float]
    redrawn: dict[Figure, Redrawn]
    below_resolution: tuple[str, ...]
    people: int


def set_figures(
    name: str, asked: MeasuredSet, embeddings: Embeddings, redrawing: Redrawing, anchor: str | None = None
) -> SetFigures:
    """The figures of a model's embeddings of a set."""
    embeddings = known_people(embeddings, name)
    pairs = PairsOfSet(embeddings if asked.one_far is not None else replace(embeddings, domains=None))
    points = all_pairs(pairs, asked.far).operating_points
    redrawn = redrawn_set(pairs, asked.far, asked.one_far, redrawing)
    figures = [Figure(name, TAR, point.far_target) for point in points]
    values = {figure: point.tar for figure, point in zip(figures, points, strict=True)}
    over_people = dict(zip(figures, redrawn.tars, strict=True))
    if asked.one_far is not None and redrawn.spread is not None:
        thresholds = all_pairs(pairs, [asked.one_far]).one_threshold
        assert thresholds is not None
        values |= _of_one_threshold(name, thresholds[0])
        far, spread = thresholds[0].far_target, redrawn.spread
        for figure, over in ((GAMMA, spread.gamma), (TAR_STD, spread.tar_std), (FAR_STD, spread.neg_log10_far_std)):
            over_people[Figure(name, figure, far)] = over
    rows = pair_rows(embeddings, asked.pairs, asked.drawn_pairs, name)
    for title, accuracy in accuracies(rows, redrawing).items():
        key = Figure(name, ACCURACY, "", title)
        values[key], over_people[key] = accuracy.value, accuracy
    if anchor is not None:
        key, bias = Figure(name, DOMAIN_BIAS, ""), bias_of_domains(embeddings, anchor, redrawing)
        values[key], over_people[key] = bias.value, bias
    below = tuple(point.far_target for point in points if point.below_resolution)
    return SetFigures(values, over_people, below, len(pairs.people))


def _of_one_threshold(name: str, one_threshold: OneThreshold) -> dict[Figure, float]:
    far = one_threshold.far_target
    values = {
        Figure(name, GAMMA, far): one_threshold.gamma,
        Figure(name, TAR_STD, far): sqrt(one_threshold.tar_variance),
        Figure(name, FAR_STD, far): sqrt(one_threshold.neg_log10_far_variance),
        Figure(name, ONE_THRESHOLD, far): one_threshold.calibration_threshold,
    }
    for domain, result in one_threshold.domains.items():
        values[Figure(name, DOMAIN_TAR, far, domain)] = result.tar
        values[Figure(name, DOMAIN_FAR, far, domain)] = result.far
        values[Figure(name, DOMAIN_THRESHOLD, far, domain)] = result.threshold
    return values
