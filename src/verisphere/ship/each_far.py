"""A threshold for each target FAR, or one error that says what all of them need."""

from collections.abc import Callable, Sequence

from verisphere.decide import Far, Guarantee, GuaranteedThreshold, TooFewComparisonsError, people_needed
from verisphere.decide.point import far_text


def for_each_far(
    fars: Sequence[Far], guarantee: Guarantee, people: int, threshold: Callable[[Far], GuaranteedThreshold]
) -> tuple[GuaranteedThreshold, ...]:
    """The threshold at each FAR.

    Args:
        fars: target FARs.
        guarantee: guarantee of the thresholds.
        people: number of people; for a scores file, twice the number of comparisons.
        threshold: finds the threshold at one FAR.
    """
    found: list[GuaranteedThreshold] = []
    for far in fars:
        try:
            found.append(threshold(far))
        except TooFewComparisonsError as error:
            needed = {far_text(other): people_needed(other, guarantee) for other in fars[len(found) + 1 :]}
            others = [f"FAR {other} needs {number:,} people" for other, number in needed.items() if number > people]
            raise TooFewComparisonsError("; ".join([str(error), *others])) from None
    return tuple(found)
