"""The threshold control of a report: at each of some hundred thresholds the rates of every domain, and in galleries.

The page looks numbers up and computes none, but for false accepts a day: a FAR times the comparisons of a day.
"""

import json
from collections.abc import Iterator, Sequence
from operator import itemgetter

import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import gammaln

from verisphere.base.seeds import numpy_generator
from verisphere.base.vocabulary import Embeddings
from verisphere.decide import accepted_impostors, binomial_bounds
from verisphere.decide.guarantee import one_row_each
from verisphere.measure.protocols.all_pairs import PairsOfSet
from verisphere.measure.report_findings import ALL, Asked, Calibrated, Control, Findings, Stops
from verisphere.report.html import Markup, tag
from verisphere.report.tables import number, one_in, one_in_bounds, tar_bounds, tar_text, target_text
from verisphere.score import unit_rows

STOPS = 100  # approximate number of thresholds
MOST_PEOPLE = 2000  # people whose images are searched in galleries of the others
DRAWS = 5  # choices of one image of each person
_SIZES = (1, 10, 100, 1000)
_COMPARISONS = "10000"
_ROUNDING = 1e-12
_NOTE = (
    "Small figures are 95 % bounds, which take pairs as independent: where pairs share people, they are too narrow. "
    "Strangers are found by their best score with anybody in a gallery: the mean over random galleries of these "
    "people, one image of each."
)


def control(
    findings: Sequence[Findings], sets: Sequence[PairsOfSet], calibrated: Calibrated | None, asked: Asked
) -> Control:
    """The stops of these sets, of which the first leads."""
    lead, first = findings[0], sets[0]
    impostor = first.everything(genuine=False)
    shipped = [
        one
        for one in (calibrated.shipped if calibrated else ())
        if lead.title in one.points and one.points[lead.title][ALL].impostor_accepted < impostor.total
    ]
    names = {accepted_impostors(far, impostor.total): str(far) for far in reversed(asked.targets)}
    names.pop(0, None)  # targets that the set is too small to show
    strictest = sorted(shipped, key=lambda one: -one.threshold.threshold)
    promised = [(one.points[lead.title][ALL].impostor_accepted, one) for one in strictest]
    even = np.geomspace(1, max(impostor.total // 2, 1), STOPS).round().astype(np.int64).tolist()
    measured = {0, *even, *names} - {impostor.total, *(rank for rank, _ in promised)}
    places = sorted([*((rank, None) for rank in measured), *promised], key=itemgetter(0))
    ranks = [rank for rank, _ in places]
    stops = []
    for finding, pairs in zip(findings, sets, strict=True):
        theirs = pairs.everything(genuine=False)
        allowed = [rank * theirs.total // impostor.total for rank in ranks]
        pairs.settle([(theirs, rank + 1) for rank in allowed])
        thresholds = [theirs.ranked(rank + 1) for rank in allowed]
        for place, (_, one) in enumerate(places):
            if one is not None and finding.title in one.points:
                thresholds[place] = one.threshold.threshold
        fpir = galleries(finding.embeddings, thresholds, asked.redrawing.seed)
        covered = any(finding.title in one.points for one in shipped)
        stops.append(Stops(finding.title, covered, tuple(thresholds), _counts(pairs, thresholds), fpir))
    begin = next((place for place, (_, one) in enumerate(places) if shipped and one is shipped[0]), None)
    kept = [one for one in shipped if not one.threshold.warning()]
    return Control(
        tuple(stops),
        tuple(names.pop(rank, "") for rank in ranks),
        tuple("" if one is None or one.threshold.warning() else one.threshold.far_target for _, one in places),
        {one.threshold.far_target: one.threshold.promise().removesuffix(".") for one in kept},
        ranks.index(accepted_impostors(asked.one_far, impostor.total)) if begin is None else begin,
        tuple(sorted(((one.threshold.far_target, one.threshold.threshold) for one in kept), key=itemgetter(1))),
    )


def _counts(pairs: PairsOfSet, thresholds: Sequence[float]) -> dict[str, Int64[np.ndarray, "stops 4"]]:
    both = {ALL: (pairs.everything(genuine=True), pairs.everything(genuine=False)), **pairs.by_domain()}
    pools = {name: pair for name, pair in both.items() if pair[0].total and pair[1].total}
    pairs.settle(thresholds=[(impostor, at) for _, impostor in pools.values() for at in thresholds])
    return {
        name: np.array([[other.above(at), other.total, same.above(at), same.total] for at in thresholds])
        for name, (same, other) in pools.items()
    }


def galleries(
    embeddings: Embeddings, thresholds: Sequence[float], seed: int
) -> dict[int, Float64[np.ndarray, " thresholds"]]:
    """FPIR in galleries of several sizes: the share of strangers whose best score is above the threshold, in the mean.

    One image of each person is drawn, several times. Of M other people, c of whom score above the threshold with a
    stranger, a gallery of N holds none of the c with the chance C(M - c, N) / C(M, N): so the mean over all galleries
    of these people is exact, and only the images are drawn. Returns for each size of a gallery the FPIR at each
    threshold.
    """
    random = numpy_generator(seed)
    _, person = np.unique(embeddings.identities, return_inverse=True)
    units = unit_rows(embeddings.embeddings).double()
    others = min(int(person.max()) + 1, MOST_PEOPLE) - 1
    sizes = [size for size in (*_SIZES, others) if size <= others]
    found: dict[int, list[np.ndarray]] = {size: [] for size in sorted(sizes)}
    for _ in range(DRAWS):
        rows = random.permutation(one_row_each(person, random))[: others + 1]
        scores = (units[rows] @ units[rows].T).fill_diagonal_(-np.inf).sort().values.numpy()
        beyond = np.asarray(thresholds) + _ROUNDING  # a product differs from a score that is a threshold
        above = np.stack([len(row) - np.searchsorted(row, beyond, side="right") for row in scores])
        for size, means in found.items():
            means.append((1 - _none_of(above, others, size)).mean(0))
    return {size: np.mean(means, axis=0) for size, means in found.items()}


def _none_of(above: Int64[np.ndarray, "probes stops"], others: int, size: int) -> Float64[np.ndarray, "probes stops"]:
    """The chance that a gallery of this size holds none of those above: C(others - above, size) / C(others, size)."""
    rest = others - above
    fits = rest >= size
    rest = np.where(fits, rest, size)
    chance = gammaln(rest + 1) - gammaln(rest - size + 1) - gammaln(others + 1) + gammaln(others - size + 1)
    return np.where(above == 0, 1.0, np.where(fits, np.exp(chance), 0.0))


# --- on the page ---


def said(counts: Sequence[int]) -> list[str | float]:
    """What the control says of the counts of a stop: TAR, its bounds, FAR, its bounds; then FAR and bounds as numbers.

    >>> said([0, 100, 9, 10])[:4]
    ['90.00\\xa0%', '55.50 to 99.75\\xa0%', 'none', 'none to 1 in 27.6']
    """
    passed, impostors, accepted, genuine = counts
    tar, far = binomial_bounds(accepted, genuine), binomial_bounds(passed, impostors)
    texts = [tar_text(accepted / genuine), tar_bounds(*tar)]
    texts += [one_in(passed / impostors), one_in_bounds(passed / impostors, *far)]
    return [*texts, passed / impostors, *(float(f"{bound:.4g}") for bound in far)]


def control_page(found: Control) -> list[Markup]:
    """The control: presets, a slider, the day's comparisons, the size of a gallery, and what they give for each set."""
    data = {
        "names": [target_text(name) if name else "" for name in found.names],
        "promises": [target_text(far) if far else "" for far in found.promises],
        "words": [found.words.get(far, "") for far in found.promises],
        "promised": [(target_text(far), threshold) for far, threshold in found.promised],
        "start": found.start,
        "sets": [
            {
                "title": stops.title,
                "covered": stops.covered,
                "thresholds": stops.thresholds,
                "shown": [number(threshold) for threshold in stops.thresholds],
                "pools": [list(map(said, counts.tolist())) for counts in stops.counts.values()],
                "fpir": {str(size): [one_in(float(rate)) for rate in rates] for size, rates in stops.fpir.items()},
            }
            for stops in found.sets
        ],
    }
    sizes = sorted({size for stops in found.sets for size in stops.fpir})
    middle = [size for size in sizes if size <= 100][-1]
    options = (
        tag("option", f"{size:,}", value=str(size), selected="selected" if size == middle else None) for size in sizes
    )
    day = tag("input", type="number", id="comparisons", min="1", step="1", value=_COMPARISONS, inputmode="numeric")
    last = len(found.names) - 1
    slide = tag("input", type="range", id="stop", min="0", max=str(last), step="1", value=str(found.start))
    return [
        tag("p", *_presets(found), class_="presets"),
        tag("label", "Threshold: stricter to the left, more lenient to the right", for_="stop"),
        slide,
        tag("p", id="stop-said", aria_live="polite", class_="lead"),
        tag("p", tag("label", "Comparisons of strangers a day ", day), tag("label", "People in a gallery ",
            tag("select", *options, id="people")), class_="fields"),
        tag("div", *(_set(stops, place) for place, stops in enumerate(found.sets)), class_="sets"),
        tag("p", _NOTE, class_="note"),
        tag("div", id="control", hidden="hidden", data_control=json.dumps(data, allow_nan=False)),
    ]  # fmt: skip


def _presets(found: Control) -> Iterator[Markup]:
    for place, (name, promise) in enumerate(zip(found.names, found.promises, strict=True)):
        if promise:
            yield tag("button", f"promised {target_text(promise)}", type="button", value=str(place), class_="promised")
        elif name:
            yield tag("button", target_text(name), type="button", value=str(place))


def _set(stops: Stops, place: int) -> Markup:
    """The rates of a set, which the script writes."""
    header = ["Pairs", "Same person recognised (TAR)", "Strangers accepted (FAR)", "False accepts a day"]
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in header)))
    rows = (
        tag("tr", tag("th", name or "all pairs", scope="row"), *(tag("td") for _ in header[1:]))
        for name in stops.counts
    )
    grid = tag("table", head, tag("tbody", *rows), aria_label=f"{stops.title} at this threshold", class_="rates")
    return tag("div", tag("h3", stops.title), tag("p", class_="at"), grid, tag("p", class_="fpir"), class_="set",
               data_set=str(place))  # fmt: skip
