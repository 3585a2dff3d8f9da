"""Domains at one threshold: what cannot have a rate is named, all of it."""

import pytest

from verisphere.decide import one_threshold

FULL = ([0.9], [0.1])


def test_every_domain_that_lacks_a_kind_is_named_with_what_it_lacks():
    domains = {"day": ([0.9], []), "fog": FULL, "night": ([], [0.1]), "rain": ([], [])}
    says = (
        "^domain 'day' has no impostor comparison, domain 'night' has no genuine comparison, domain 'rain' has no "
        "genuine and no impostor comparison, so there is no rate at any threshold; skip such domains by --skip-empty"
    )
    with pytest.raises(ValueError, match=says):
        one_threshold(domains, far="0.5")
    result = one_threshold(domains, far="0.5", skip_empty=True)
    assert (list(result.domains), result.skipped) == (["fog"], ("day", "night", "rain"))


def test_many_of_them_are_counted():
    domains = {"fog": FULL, **{f"{'x' * 5000}{number}": ([], [0.1]) for number in range(500)}}
    domains |= {str(number): ([], [0.1]) for number in range(500)}
    with pytest.raises(ValueError, match="no genuine comparison, and 990 more lack one or both, so there") as caught:
        one_threshold(domains, far="0.5")
    assert len(str(caught.value)) < 1300
