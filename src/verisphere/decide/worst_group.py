"""The threshold that keeps its FAR within every domain at once (`verisphere.decide.each_domain` says why)."""

import math
from collections.abc import Callable, Mapping
from decimal import Decimal

import numpy as np
from jaxtyping import Float64

from verisphere.decide.each_domain import EVERYBODY, DomainThreshold
from verisphere.decide.guarantee import GuaranteedThreshold, TooFewComparisonsError, independent_threshold
from verisphere.decide.order import Ordered, ScoresLike
from verisphere.decide.point import Far, exact_rate, far_text
from verisphere.decide.sample_size import CONFIDENCE, lowest_far, people_needed


def worst_group_threshold(
    scores: Mapping[str, ScoresLike | Ordered],
    people: Mapping[str, int],
    far: Far,
    factor: float | int | None = None,
    seed: int | None = None,
    genuine: Callable[[str], Float64[np.ndarray, " genuine"]] | None = None,
) -> GuaranteedThreshold:
    """The threshold whose FAR is at most the target within every domain at once, with 95 % confidence.

    >>> scores = {"old": [0.5, 0.2] * 10, "young": [0.4, 0.3] * 10}
    >>> worst_group_threshold(scores, {"old": 40, "young": 40}, "0.2").threshold
    0.5

    The impostor scores are of comparisons within each domain, in none of which two share a person; with a factor, of
    how many times the target a domain's FAR may be, also those of everybody, under an empty name. The genuine scores of
    a domain give its TAR at its own threshold.
    """
    if factor is not None and not 1 < factor < math.inf:
        raise ValueError(f"factor must be above 1, got {factor}: how many times the target FAR a domain's may be")
    higher = f"{(Decimal(far_text(far)) * Decimal(str(factor or 1))).normalize():f}"
    if exact_rate(far) < 1 <= Decimal(higher):
        raise ValueError(
            f"factor must be below 1 / FAR, got {factor} at FAR {far_text(far)}: {higher} is no rate of a domain"
        )
    targets = {name: far_text(far) if factor is None or name == EVERYBODY else higher for name in scores}
    few = [name for name, target in targets.items() if people[name] < people_needed(target, "confident")]
    if few:
        name = min(few, key=people.__getitem__)
        where, lowest = f"domain {name!r}" if name else "the whole set", lowest_far(people[name] // 2, "confident")
        possible = f"; possible there: FAR {lowest} or higher" if lowest else ""
        raise TooFewComparisonsError(
            f"guarantee 'worst-group' at FAR {targets[name]} needs {people_needed(targets[name], 'confident'):,} "
            f"people in each domain; {where} has {people[name]:,}{possible}"
        )
    found = []
    for name, target in targets.items():
        own, same = independent_threshold(scores[name], target, "confident"), genuine(name) if genuine else np.zeros(0)
        tar = float((same > own.threshold).mean()) if len(same) else None
        found.append(DomainThreshold(name, target, people[name], own.comparisons, own.rank or 0, own.threshold, tar))
    return GuaranteedThreshold(
        far_target=far_text(far),
        guarantee="worst-group",
        threshold=max(one.threshold for one in found),
        comparisons=sum(one.comparisons for one in found),
        rank=None,
        people=sum(one.people for one in found if one.name != EVERYBODY),
        confidence=CONFIDENCE,
        replicates=None,
        seed=seed,
        domains=tuple(found),
    )
