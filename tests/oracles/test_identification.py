"""1:N decisions equal brute force on 2,000 tie-heavy searches of small galleries."""

from fractions import Fraction

import numpy as np
import pytest

from verisphere.decide.identification import (
    cmc,
    identification_curve,
    identification_point,
    mean_point,
    mean_rank,
    probe_scores,
    rank_rate,
)

from ..decide import oracle
from . import brute_force
from .cases import between, make_galleries, random, target


@pytest.fixture(scope="module")
def galleries():
    return make_galleries()


def searched(gallery):
    return probe_scores(np.array(gallery.scores), np.array(gallery.probes), np.array(gallery.people))


def strangers(gallery):
    """The best score of each probe whose person is not enrolled."""
    return [max(others) for own, others in zip(gallery.mates, gallery.others, strict=True) if not own]


def test_searches_and_ranks(galleries):
    """Best scores and ranks probe by probe; the match characteristic at every rank."""
    for gallery in galleries:
        ours, mates, others = searched(gallery), gallery.mates, gallery.others
        mated = [(own, other) for own, other in zip(mates, others, strict=True) if own]
        assert ours.mate.tolist() == [max(own) for own, _ in mated], gallery
        assert ours.rival.tolist() == [max(other, default=-np.inf) for _, other in mated], gallery
        assert ours.rank.tolist() == [brute_force.rank_of_mate(own, other) for own, other in mated], gallery
        assert ours.stranger.tolist() == strangers(gallery), gallery
        assert ours.people == len(set(gallery.people))
        curve, expected = cmc(ours), brute_force.cumulative_matches(mates, others)
        assert (curve.people, curve.mated_total) == (len(expected), expected[-1])
        for rank, identified in enumerate(expected, start=1):
            reached = [count for place, count in zip(curve.rank, curve.identified, strict=True) if place <= rank]
            assert max(reached, default=0) == identified, (gallery, rank)
            assert rank_rate(ours, rank).identified == identified, (gallery, rank)


def test_points(galleries):
    """TPIR at an FPIR: threshold, counts and rates by every rule, at a random rank."""
    source = random.Random(400)
    for gallery in galleries:
        ours, outside = searched(gallery), strangers(gallery)
        fpir, rank = target(source, len(outside)), between(source, 1, 4)
        for rule in brute_force.RULES:
            point = identification_point(ours, fpir, rank, rule)
            where = (gallery, fpir, rank, rule)
            assert point.threshold == brute_force.threshold(outside, fpir, rule), where
            passed = brute_force.false_alarms(gallery.mates, gallery.others, point.threshold)
            found = brute_force.found(gallery.mates, gallery.others, point.threshold, rank)
            mated = sum(map(bool, gallery.mates))
            assert (point.nonmated_passed, point.nonmated_total) == (passed, len(outside)), where
            assert (point.mated_identified, point.mated_total) == (found, mated), where
            assert (point.fpir, point.tpir) == (passed / len(outside), found / mated), where
            assert point.below_resolution is oracle.below_resolution(outside, fpir), where


def test_curves(galleries):
    """Each point is what its threshold accepts, and what any score accepts is a point."""
    source = random.Random(500)
    for gallery in galleries:
        rank = between(source, 1, 4)
        curve = identification_curve(searched(gallery), rank)
        points = list(zip(curve.impostor_accepted.tolist(), curve.genuine_accepted.tolist(), strict=True))
        assert points == [counted(gallery, cut, rank) for cut in curve.thresholds.tolist()], gallery
        cuts = {-np.inf, *(score for row in gallery.scores for score in row)}
        assert set(points) == {counted(gallery, cut, rank) for cut in cuts}, gallery


def counted(gallery, cut, rank):
    mates, others = gallery.mates, gallery.others
    return brute_force.false_alarms(mates, others, cut), brute_force.found(mates, others, cut, rank)


def test_means_over_galleries(galleries):
    """Each gallery at its own threshold, then the mean, every gallery weighing the same."""
    for first in range(0, 300, 3):
        group = galleries[first : first + 3]
        mean = mean_point([identification_point(searched(gallery), "0.5", 2) for gallery in group])
        ranked = mean_rank([rank_rate(searched(gallery), 2) for gallery in group])
        tpir, fpir, rate = [], [], []
        for gallery in group:
            passed, found = counted(gallery, brute_force.threshold(strangers(gallery), "0.5", "at_most"), 2)
            mated = sum(map(bool, gallery.mates))
            fpir.append(Fraction(passed, len(gallery.probes) - mated))
            tpir.append(Fraction(found, mated))
            matches = brute_force.cumulative_matches(gallery.mates, gallery.others)
            rate.append(Fraction(matches[min(2, len(matches)) - 1], mated))
        assert (mean.galleries, ranked.galleries) == (3, 3)
        assert mean.tpir == pytest.approx(float(oracle.mean_of(tpir)), rel=1e-15), group
        assert mean.fpir == pytest.approx(float(oracle.mean_of(fpir)), rel=1e-15), group
        assert ranked.rate == pytest.approx(float(oracle.mean_of(rate)), rel=1e-15), group
