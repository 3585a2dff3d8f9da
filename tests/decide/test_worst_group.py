"""One threshold with a promise within every domain at once."""

from dataclasses import replace

import numpy as np
import pytest

from verisphere.decide import TooFewComparisonsError, independent_threshold
from verisphere.decide.each_domain import far_within
from verisphere.decide.worst_group import worst_group_threshold

RANDOM = np.random.default_rng(0)
SCORES = {"indoor": RANDOM.normal(size=400), "outdoor": RANDOM.normal(1, 1, 320)}
PEOPLE = {"indoor": 800, "outdoor": 640}


def test_the_threshold_is_the_highest_of_the_domains_own():
    found = worst_group_threshold(SCORES, PEOPLE, "1e-2", seed=3)
    own = {name: independent_threshold(scores, "1e-2", "confident").threshold for name, scores in SCORES.items()}
    assert found.threshold == max(own.values()) == own["outdoor"]
    assert {one.name: one.threshold for one in found.domains} == own
    assert (found.people, found.comparisons, found.confidence, found.rank, found.seed) == (1440, 720, 0.95, None, 3)
    assert found.promise().startswith(
        "We are 95 % confident that at most 1 in 100 pairs of strangers of one domain pass, in each of indoor, outdoor "
        "at once;"
    )
    assert "indoor: at most 1e-2, by itself above" in found.meaning()
    assert "of other domains, and across domains, nothing is promised" in found.meaning()


def test_with_a_factor_everybody_is_promised_too():
    everybody = {**SCORES, "": np.concatenate(list(SCORES.values()))}
    found = worst_group_threshold(everybody, {**PEOPLE, "": 1440}, "1e-2", 2)
    assert [(one.name, one.far) for one in found.domains] == [("indoor", "0.02"), ("outdoor", "0.02"), ("", "1e-2")]
    assert found.people == 1440
    assert "at most 1 in 100 pairs of strangers pass, and at most 1 in 50 pairs of strangers of one domain" in str(
        found
    )
    assert far_within(found.domains, "indoor", "1e-2") == "0.02"
    assert far_within((), "indoor", "1e-2") == "1e-2"
    halves = worst_group_threshold(everybody, {**PEOPLE, "": 1440}, "1e-2", 2.5)
    assert {one.far for one in halves.domains} == {"0.025", "1e-2"}


@pytest.mark.parametrize("shift", [0.0, 0.3])
@pytest.mark.parametrize("domains", [2, 8])
def test_all_domains_are_kept_together_in_95_of_100_sets(domains, shift):
    """Domains whose truth is known: whether they are equal or one is the worst, all are kept together."""
    random, far, sets = np.random.default_rng(domains), 0.1, 600
    level = shift * np.arange(domains)
    highest = level[-1] + 1.2815515655446004  # where the worst domain's FAR is 0.1
    kept = sum(
        worst_group_threshold(
            {str(number): random.normal(mean, 1, 60) for number, mean in enumerate(level)},
            {str(number): 120 for number in range(domains)},
            far,
        ).threshold
        >= highest
        for _ in range(sets)
    )
    assert kept / sets >= 0.95 - 3 * (0.95 * 0.05 / sets) ** 0.5


def test_what_cannot_be_is_refused():
    with pytest.raises(TooFewComparisonsError, match=r"needs 598 people in each domain; domain 'b' has 60; possible"):
        worst_group_threshold({"a": SCORES["indoor"], "b": SCORES["indoor"][:30]}, {"a": 800, "b": 60}, "1e-2")
    three = {"a": SCORES["indoor"], "b": SCORES["indoor"][:100], "c": SCORES["indoor"][:50]}
    with pytest.raises(TooFewComparisonsError, match=r"domain 'c' has 100; possible there: FAR 5\.82e-2 or higher"):
        worst_group_threshold(three, {"a": 800, "b": 200, "c": 100}, "1e-2")
    for factor in (1.0, 0.5, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="factor must be above 1"):
            worst_group_threshold(SCORES, PEOPLE, "1e-2", factor)
    with pytest.raises(ValueError, match=r"factor must be below 1 / FAR, got 20\.0 at FAR 0\.1: 2 is no rate"):
        worst_group_threshold(SCORES, PEOPLE, "0.1", 20.0)
    found = worst_group_threshold(SCORES, PEOPLE, "1e-2")
    with pytest.raises(ValueError, match="is the highest of its domains' own"):
        replace(found, threshold=found.threshold + 0.1)
    with pytest.raises(ValueError, match="is the highest of its domains' own"):
        replace(found, domains=())
    with pytest.raises(ValueError, match="domain 'indoor': rank 3 of 400 comparisons of 800 people is not what"):
        replace(found.domains[0], rank=3)


def test_a_domain_of_one_person_is_told_how_many_it_needs():
    scores = {"many": np.arange(40.0), "one": np.zeros(0)}
    with pytest.raises(TooFewComparisonsError, match=r"needs 58 people in each domain; domain 'one' has 1$"):
        worst_group_threshold(scores, {"many": 80, "one": 1}, "1e-1")


def test_domains_that_contradict_one_another_are_refused():
    """The promise names one FAR for all of them, so a domain with another one would be promised too low a one."""
    everybody = {**SCORES, "": np.concatenate(list(SCORES.values()))}
    found = worst_group_threshold(everybody, {**PEOPLE, "": 1440}, "1e-2", 2)
    indoor, outdoor, whole = found.domains
    other = independent_threshold(SCORES["outdoor"], "3e-2", "confident")
    higher = replace(outdoor, far="3e-2", rank=other.rank)
    for wrong in (
        {"domains": (indoor, higher, whole)},
        {"domains": (indoor, replace(outdoor, name="indoor"), whole)},
        {"domains": (indoor, outdoor)},
        {"domains": (indoor, outdoor, replace(whole, people=2000), whole)},
        {"far_target": "2e-2"},
        {"people": 1441},
        {"comparisons": 1439},
    ):
        with pytest.raises(ValueError, match=r"the domains of a threshold at FAR [12]e-2 contradict one another"):
            replace(found, **wrong)
