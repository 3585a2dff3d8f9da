"""Thresholds from all pairs of few people, under a named assumption (`verisphere.decide.assumption`)."""

import math

from verisphere.base.vocabulary import REDRAWING, Progress, Redrawing, quietly
from verisphere.decide.assumption import Assumption
from verisphere.decide.bootstrap import PairScores
from verisphere.decide.capped import (
    HIGHEST_SEEN,
    capped_people_needed,
    capped_rank,
    largest_cap,
    lowest_capped_far,
    observed_cap,
)
from verisphere.decide.guarantee import GuaranteedThreshold, TooFewComparisonsError
from verisphere.decide.point import Far, far_text
from verisphere.decide.sample_size import CONFIDENCE, Guarantee, comparisons_needed
from verisphere.decide.tail import tail_pairs, tail_threshold

MOST_SCORES = 4_000_000  # highest scores that are looked at for an observed cap


def check_given(guarantee: Guarantee, cap: float | None, factor: float | int | None = None) -> None:
    """Refuse a cap that is missing, and a cap or factor that is not for this guarantee, by a ValueError."""
    if factor is not None and guarantee != "worst-group":
        raise ValueError(f"a factor is for guarantee 'worst-group', not for {guarantee!r}")
    if (cap is None) == (guarantee == "capped"):
        raise ValueError(
            "guarantee 'capped' takes a cap, such as --cap 2 (cap=2): how many times the square of the FAR the mean "
            "square of people's own FARs is, at most"
            if guarantee == "capped"
            else f"a cap is for guarantee 'capped', not for {guarantee!r}"
        )


def scores_needed(far: Far, guarantee: Guarantee, people: int, cap: float | None) -> int:
    """The number of highest scores of all pairs of one image each that `assumed_threshold` reads."""
    total = people * (people - 1) // 2
    if guarantee == "tail":
        return min(tail_pairs(total) + 1, total)
    rank = Assumption(guarantee, cap).rank(people, far_text(far)) or 1
    return min(max(rank, min(math.ceil(HIGHEST_SEEN * total), MOST_SCORES) if guarantee == "capped" else 0), total)


def assumed_threshold(
    pairs: PairScores,
    far: Far,
    guarantee: Guarantee,
    cap: float | None = None,
    redrawing: Redrawing = REDRAWING,
    progress: Progress = quietly,
) -> GuaranteedThreshold:
    """The threshold at a FAR, under an assumption, from `scores_needed` of the highest scores of one image each.

    The seed is that of the redrawings of `tail`, and of the choice of images.
    """
    people, observed = len(pairs.images), None
    if cap is not None:
        if not capped_rank(people, far, cap):
            raise TooFewComparisonsError(_too_few(people, far, cap))
        observed = observed_cap(pairs, far)
        if observed is not None and observed.lower > cap:
            raise ValueError(
                f"these people contradict a cap of {cap:g} at FAR {far_text(far)}: {observed.described(far_text(far))}"
            )
    fitted, tail = tail_threshold(pairs, far, redrawing, progress) if guarantee == "tail" else (math.nan, None)
    assumption = Assumption(guarantee, cap, observed, tail)
    rank = assumption.rank(people, far_text(far))
    if rank == 0:
        needed = math.ceil((1 + math.sqrt(1 + 8 * comparisons_needed(far, "confident"))) / 2)
        raise TooFewComparisonsError(
            f"guarantee {guarantee!r} at FAR {far_text(far)} needs {needed:,} people; got {people:,}"
        )
    return GuaranteedThreshold(
        far_target=far_text(far),
        guarantee=guarantee,
        threshold=fitted if rank is None else float(pairs.impostor[rank - 1]),
        comparisons=pairs.impostor_total,
        rank=rank,
        people=people,
        confidence=None if cap is None else CONFIDENCE,
        replicates=redrawing.replicates if tail else None,
        seed=redrawing.seed,
        assumption=assumption,
    )


def _too_few(people: int, far: Far, cap: float) -> str:
    needed, lowest, largest = capped_people_needed(far, cap), lowest_capped_far(people, cap), largest_cap(people, far)
    possible = [f"FAR {lowest} with this cap"] if lowest else []
    possible += [f"a cap of at most {largest:g} at this FAR"] if largest else []
    if not possible:  # neither this cap nor this FAR
        higher = ((rate, largest_cap(people, rate)) for rate in ("1e-2", "1e-1"))
        possible = [f"a cap of at most {cap:g} at FAR {rate}" for rate, cap in higher if cap][:1]
    what = f"guarantee 'capped' with a cap of {cap:g} at FAR {far_text(far)} needs {needed:,} people; got {people:,}"
    return f"{what}; possible: {', or '.join(possible)}" if possible else what
