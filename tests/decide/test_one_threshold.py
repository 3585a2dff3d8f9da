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


def test_the_standard_deviation_is_the_populations_as_oneface_prints_it():
    # ArcFace in table 2 of OneFace: TAR 96.71, 93.80, 95.33 and 96.22, Avg. 95.51 (95.515), Std. 1.107. The squares of
    # the distances from the mean are 1.428, 2.941, 0.034 and 0.497, in all 4.900: sqrt(4.900 / 4) = 1.107, where
    # division by 3 would give 1.278.
    tars = {"African": 9671, "Asian": 9380, "Caucasian": 9533, "Indian": 9622}
    # Of 1,000 impostors ten pass in the first group, one in the others: -log10 FAR 2, 3, 3, 3, of mean 2.75 and
    # standard deviation sqrt((0.5625 + 3 x 0.0625) / 4) = sqrt(0.1875).
    passed = {"African": 10, "Asian": 1, "Caucasian": 1, "Indian": 1}
    scores = {
        name: ([1.0] * tars[name] + [0.0] * (10_000 - tars[name]), [0.5] * passed[name] + [0.0] * (1000 - passed[name]))
        for name in tars
    }
    result = one_threshold(scores, far="1e-5", calibration=[0.25])
    assert 100 * result.tar_mean == pytest.approx(95.515, abs=1e-9)
    assert 100 * result.tar_std == pytest.approx(1.107, abs=5e-4)
    assert (result.neg_log10_far_mean, result.neg_log10_far_std) == pytest.approx((2.75, 0.1875**0.5), abs=1e-12)
    fields = result.fields()
    exponents = [domain["neg_log10_far"] for domain in fields["domains"].values()]
    assert exponents == pytest.approx([2, 3, 3, 3], abs=1e-12)
    assert (fields["tar_std"], fields["neg_log10_far_std"]) == (result.tar_std, result.neg_log10_far_std)
