"""The threshold that keeps its FAR within every domain at once (`verisphere.decide.each_domain` says why)."""

import math
from collections.abc import Mapping
from decimal import Decimal

from verisphere.decide.each_domain import EVERYBODY, DomainThreshold, too_few_in
from verisphere.decide.guarantee import GuaranteedThreshold, TooFewComparisonsError
from verisphere.decide.order import Ordered, ScoresLike, ordered
from verisphere.decide.point import Far, exact_rate, far_text
from verisphere.decide.sample_size import CONFIDENCE, independent_rank


def worst_group_threshold(
    scores: Mapping[str, ScoresLike | Ordered],
    people: Mapping[str, int],
    far: Far,
    factor: float | None = None,
    seed: int | None = None,
) -> GuaranteedThreshold:
    """The threshold whose FAR is at most the target within every domain at once, with 95 % confidence.

    >>> scores = {"old": [0.5, 0.2] * 10, "young": [0.4, 0.3] * 10}
    >>> worst_group_threshold(scores, {"old": 40, "young": 40}, "0.2").threshold
    0.5

    The impostor scores are of comparisons within each domain, in none of which two share a person; with a factor, of
    how many times the target a domain's FAR may be, also those of everybody, under an empty name.
    """
    if factor is not None and not 1 < factor < math.inf:
        raise ValueError(f"factor must be above 1, got {factor}: how many times the target FAR a domain's may be")
    fewest = min(people, key=people.__getitem__)
    higher = f"{(Decimal(far_text(far)) * Decimal(str(factor or 1))).normalize():f}"
    if exact_rate(far) < 1 <= Decimal(higher):
        raise ValueError(
            f"factor must be below 1 / FAR, got {factor} at FAR {far_text(far)}: {higher} is no rate of a domain"
        )
    if people[fewest] < 2:
        raise TooFewComparisonsError(too_few_in(fewest, higher, people[fewest]))
    found = []
    for name, values in scores.items():
        order = ordered(values, "impostor")
        target = far_text(far) if factor is None or name == EVERYBODY else higher
        rank = independent_rank(order.total, target, "confident")
        if rank < 1:
            few = fewest if name != EVERYBODY else name
            raise TooFewComparisonsError(too_few_in(few, target, people[few]))
        found.append(DomainThreshold(name, target, people[name], order.total, rank, order.ranked(rank)))
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
