"""The threshold control of a report: at each of some hundred thresholds the rates of every domain, and in galleries.

The page looks numbers up and computes none, but for false accepts a day: a FAR times the comparisons of a day.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import gammaln

from verisphere.base.seeds import numpy_generator
from verisphere.base.vocabulary import Embeddings
from verisphere.base.words import in_per_cent, share, share_bounds
from verisphere.decide import accepted_impostors, binomial_bounds
from verisphere.decide.guarantee import GuaranteedThreshold, one_row_each
from verisphere.measure.protocols.all_pairs import PairsOfSet
from verisphere.measure.report_findings import ALL, Calibrated, FigureOptions, Findings
from verisphere.measure.report_rates import above_promise
from verisphere.report.html import Markup, tag, unbroken
from verisphere.report.tables import number, tar_bounds, tar_text, target_text
from verisphere.score import unit_rows

STOPS = 100  # approximate number of thresholds
MOST_PEOPLE = 2000  # people whose images are searched in galleries of the others
DRAWS = 5  # choices of one image of each person
_SIZES = (1, 10, 100, 1000)
_COMPARISONS = 10_000
_ROUNDING = 1e-12
_NOTE = (
    "Small figures are 95 % bounds, which take pairs as independent: where pairs share people, they are too narrow. "
    "Strangers are found by their best score with anybody in a gallery: the mean over random galleries of these "
    "people, one image of each."
)


def control(
    findings: Sequence[Findings], sets: Sequence[PairsOfSet], calibrated: Calibrated | None, asked: FigureOptions
) -> dict[str, Any]:
    """What the page says at each stop of these sets, of which the first leads.

    Stops are at equal FAR over all pairs; at a promised threshold each set that it is for has this threshold itself.
    """
    lead, first = findings[0], sets[0]
    impostor = first.everything(genuine=False)
    shipped = [
        one
        for one in (calibrated.shipped if calibrated else ())
        if lead.title in one.points and one.points[lead.title][ALL].impostor_accepted < impostor.total
    ]
    names = {accepted_impostors(far, impostor.total): target_text(far) for far in reversed(asked.targets)}
    names.pop(0, None)  # targets that the set is too small to show
    strictest = sorted(shipped, key=lambda one: -one.threshold.threshold)
    promised = [(one.points[lead.title][ALL].impostor_accepted, one) for one in strictest]
    even = np.geomspace(1, max(impostor.total // 2, 1), STOPS).round().astype(np.int64).tolist()
    measured = {0, *even, *names} - {impostor.total, *(rank for rank, _ in promised)}
    places = sorted([*((rank, None) for rank in measured), *promised], key=itemgetter(0))
    ranks = [rank for rank, _ in places]
    shown, counted = list[dict[str, Any]](), []
    for finding, pairs in zip(findings, sets, strict=True):
        theirs = pairs.everything(genuine=False)
        allowed = [rank * theirs.total // impostor.total for rank in ranks]
        pairs.settle([(theirs, rank + 1) for rank in allowed])
        thresholds, at = [], []
        for rank, (_, one) in zip(allowed, places, strict=True):
            own = one is not None and finding.title in one.points
            thresholds.append(one.threshold.threshold if one and own else theirs.ranked(rank + 1))
            how = "" if finding is lead else ", the same" if own else f", at the FAR of {lead.title}"
            at.append(f"Threshold {number(thresholds[-1])}{how}.")
        counted.append(_counts(pairs, thresholds))
        fpir = galleries(finding.embeddings, thresholds, asked.redrawing.seed)
        shown.append(
            {
                "title": finding.title,
                "thresholds": thresholds,
                "at": at,
                "rows": [name or "all pairs" for name in counted[-1]],
                "pools": _pools(list(counted[-1].values())),
                "fpir": {str(size): [unbroken(share(float(rate))) for rate in rates] for size, rates in fpir.items()},
            }
        )
    begin = next((place for place, (_, one) in enumerate(places) if shipped and one is shipped[0]), None)
    kept = [None if one is None or one.threshold.warning() else one.threshold for _, one in places]
    above = above_promise(calibrated, lead.title) if calibrated and any(kept) else {}
    said = _said(shown[0]["thresholds"], kept, above)
    wrong = zip(shown[0]["thresholds"], counted[0][ALL].tolist(), strict=True)
    return {
        "names": [names.pop(rank, "") for rank in ranks],
        "promises": ["" if one is None else target_text(one.far_target) for one in kept],
        "said": said,
        "wrong": [wrong_sides(lead.title, *at) for at in wrong],
        "start": ranks.index(accepted_impostors(asked.one_far, impostor.total)) if begin is None else begin,
        "sets": shown,
    }


def _said(
    thresholds: Sequence[float],
    promised: Sequence[GuaranteedThreshold | None],
    above: Mapping[str, Sequence[str]],
) -> list[str]:
    """What the threshold of each stop is: promised, or measured alone."""
    known, said = [one for one in promised if one is not None], []
    for threshold, one in zip(thresholds, promised, strict=True):
        if one is not None:
            far, words = one.far_target, f"promised: {one.promise().removesuffix('.')}"
            words += f"; here above it: {', '.join(above[far])}" if far in above else ""
        else:
            words = "measured here, not promised"
            if stricter := [other for other in known if threshold >= other.threshold]:
                words += f"; stricter than the threshold promised for {target_text(stricter[0].far_target)}"
        said.append(unbroken(f"Threshold {number(threshold)}, {words}."))
    return said


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


def wrong_sides(title: str, threshold: float, counts: Sequence[int]) -> str:
    """What falls on the wrong sides of a threshold, by the numbers of pairs as a stop has them."""
    passed, impostors, accepted, genuine = counts
    return (
        f"Scores of {title}: at the threshold {number(threshold)}, {passed:,} of {impostors:,} pairs of strangers "
        f"pass, and {genuine - accepted:,} of {genuine:,} pairs of the same person fail."
    )


def said(counts: Sequence[int], per_cent: bool) -> list[str | float]:
    """What the control says of the counts of a stop: TAR, its bounds, FAR, its bounds; then FAR and bounds as numbers.

    >>> said([0, 100, 9, 10], per_cent=False)[:4]
    ['90.00\\xa0%', '55.50 to 99.75\\xa0%', '0\\xa0%', '0 to 1\\xa0in\\xa027']
    """
    passed, impostors, accepted, genuine = counts
    tar, far = binomial_bounds(accepted, genuine), binomial_bounds(passed, impostors)
    texts = [tar_text(accepted / genuine), tar_bounds(*tar)]
    texts += [unbroken(share(passed / impostors, per_cent=per_cent)), unbroken(share_bounds(*far, per_cent))]
    return [*texts, passed / impostors, *(float(f"{bound:.4g}") for bound in far)]


def _pools(pools: Sequence[Int64[np.ndarray, "stops 4"]]) -> list[list[list[str | float]]]:
    """What is said of each pool at each stop; at one stop the FARs of all pools are written alike."""
    alike = [
        in_per_cent(int(passed) / int(impostors) for passed, impostors, *_ in at) for at in zip(*pools, strict=True)
    ]
    return [[said(at, per_cent) for at, per_cent in zip(counts.tolist(), alike, strict=True)] for counts in pools]


def control_page(found: Mapping[str, Any]) -> list[Markup]:
    """The control: presets, a slider, the day's comparisons, the size of a gallery, and what they give for each set.

    The page has what holds at the first stop, and the script writes over it.
    """
    start, last = found["start"], len(found["names"]) - 1
    sizes = sorted({int(size) for of in found["sets"] for size in of["fpir"]})
    middle = [size for size in sizes if size <= 100][-1]
    options = (
        tag("option", f"{size:,}", value=str(size), selected="selected" if size == middle else None) for size in sizes
    )
    day = tag("input", type="number", id="comparisons", min="1", step="1", value=str(_COMPARISONS),
              inputmode="numeric", required="required", aria_describedby="comparisons-wrong")  # fmt: skip
    slide = tag("input", type="range", id="stop", min="0", max=str(last), step="1", value=str(start))
    return [
        tag("p", *_presets(found), class_="presets"),
        tag("label", "Threshold: stricter to the left, more lenient to the right", for_="stop"),
        slide,
        tag("p", found["said"][start], id="stop-said", aria_live="polite", class_="lead"),
        tag("p", tag("label", "Comparisons of strangers a day ", day), tag("label", "People in a gallery ",
            tag("select", *options, id="people")), class_="fields"),
        tag("p", id="comparisons-wrong", role="alert", class_="wrong"),
        tag("div", *(_set(place, of, start, middle) for place, of in enumerate(found["sets"])), class_="sets"),
        tag("p", _NOTE, class_="note"),
        tag("div", id="control", hidden="hidden", data_control=json.dumps(found, allow_nan=False)),
    ]  # fmt: skip


def _presets(found: Mapping[str, Any]) -> Iterator[Markup]:
    for place, (name, promise) in enumerate(zip(found["names"], found["promises"], strict=True)):
        if promise:
            yield tag("button", f"promised {promise}", type="button", value=str(place), class_="promised")
        elif name:
            yield tag("button", name, type="button", value=str(place))


def _set(place: int, shown: Mapping[str, Any], at: int, size: int) -> Markup:
    """The rates of a set at a stop."""
    header = ["Pairs", "Same person recognised (TAR)", "Strangers accepted (FAR)", "False accepts a day"]
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in header)))
    rows = (
        tag("tr", tag("th", name, scope="row"), *_cells(*pool[at]))
        for name, pool in zip(shown["rows"], shown["pools"], strict=True)
    )
    grid = tag("table", head, tag("tbody", *rows), aria_label=f"{shown['title']} at this threshold", class_="rates")
    among = f"a gallery of {size:,} people"
    strangers = shown["fpir"].get(str(size))
    fpir = (
        f"In {among}, strangers who are found (FPIR): {strangers[at]}."
        if strangers
        else f"The set has too few people for {among}."
    )
    return tag("div", tag("h3", shown["title"]), tag("p", shown["at"][at], class_="at"), grid,
               tag("p", fpir, class_="fpir"), class_="set", data_set=str(place))  # fmt: skip


def _cells(tar: str, tars: str, far: str, fars: str, rate: float, low: float, high: float) -> Iterator[Markup]:
    for figure, bounds in ((tar, tars), (far, fars), (_daily(rate), f"{_daily(low)} to {_daily(high)}")):
        yield tag("td", figure, tag("small", bounds))


def _daily(far: float) -> str:
    """False accepts of a day at the first number of comparisons, as the script writes them.

    >>> _daily(0.0), _daily(0.000123), _daily(0.1)
    ('none', '1.2', '1,000')
    """
    many = far * _COMPARISONS
    return "none" if many == 0 else f"{float(f'{many:.2g}'):g}" if many < 10 else f"{many:,.0f}"
