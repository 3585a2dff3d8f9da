"""All pairs under redrawn people, against every score held in memory."""

import itertools

import numpy as np
import pytest

from redrawing import draw_people
from verisphere.base.vocabulary import Embeddings, Redrawing
from verisphere.decide import differences_of, operating_point, point_at, point_intervals, tar_differences_at
from verisphere.measure.protocols.all_pairs import PairsOfSet, all_pairs
from verisphere.measure.protocols.redrawn import ALL, domain_bounds, fars_over_people, intervals_of_set, tar_differences


def some(people: int = 12, images: int = 6, noise: float = 0.9, seed: int = 0, domains: bool = False) -> Embeddings:
    centres = np.random.default_rng(5).normal(size=(people, 16))
    random = np.random.default_rng(seed)
    person = np.repeat(np.arange(people), images)
    rows = centres[person] + noise * random.normal(size=(len(person), 16))
    return Embeddings(
        rows.astype(np.float32),
        names=np.array([f"i{number}" for number in range(len(person))]),
        identities=np.array([f"p{number:02}" for number in person]),
        domains=np.array(["day", "night", "fog"])[np.arange(len(person)) % 3] if domains else None,
    )


def test_intervals_are_those_of_all_scores():
    pairs = PairsOfSet(some())
    found = intervals_of_set(pairs, ["0.05", "1e-3"], redrawing=Redrawing(40, 3))
    assert found == point_intervals(pairs.highest("1", times=1), ["0.05", "1e-3"], redrawing=Redrawing(40, 3))
    assert intervals_of_set(pairs, [], redrawing=Redrawing(40)) == ()


def test_differences_count_the_pairs_that_one_model_alone_accepts():
    ours, theirs = some(), some(noise=1.4, seed=1)
    sets = [PairsOfSet(embeddings) for embeddings in (ours, theirs)]
    fars = ["0.05", "0.01"]
    (found,) = tar_differences(sets[0], sets[1:], fars, redrawing=Redrawing(30, 2))
    left, right = np.triu_indices(len(ours), 1)
    same = ours.identities[left] == ours.identities[right]
    for far, difference in zip(fars, found, strict=True):
        both = [pairs.highest("1", times=1) for pairs in sets]
        assert difference.interval == tar_differences_at(*both, [far], Redrawing(30, 2))[0]
        accepted = []
        for embeddings in (ours, theirs):
            units = embeddings.embeddings / np.linalg.norm(embeddings.embeddings, axis=1, keepdims=True)
            score = (units[left] * units[right]).sum(1)
            accepted.append(score[same] > operating_point(score[same], score[~same], far=far).threshold)
        assert difference.only_ours == (accepted[0] & ~accepted[1]).sum()
        assert difference.only_theirs == (accepted[1] & ~accepted[0]).sum()
        assert difference.compared == same.sum()
        gap = (difference.only_ours - difference.only_theirs) / difference.compared
        assert difference.interval.value == pytest.approx(gap)


def test_domains_are_redrawn_as_physical_copies_of_people():
    """A drawn person brings all images, of every domain; pairs of a domain are those of two of its images."""
    embeddings = some(people=6, images=6, domains=True)
    pairs = PairsOfSet(embeddings)
    result = all_pairs(pairs, ["0.3"]).one_threshold[0]
    groups = differences_of(result, alpha=1.0)  # of FDR only the spread of FAR counts
    redrawn = domain_bounds(pairs, groups, redrawing=Redrawing(25, 8))
    score = {}
    for scored in (pairs.all_scores(genuine) for genuine in (True, False)):
        scores, rows = scored.scores, scored.rows
        score |= {tuple(sorted(row)): value for row, value in zip(rows.tolist(), scores.tolist(), strict=True)}
    person = np.unique(embeddings.identities, return_inverse=True)[1]
    spreads = []
    for draw in draw_people(6, 25, seed=8):
        fars = []
        for name in groups.groups:
            copies = [
                (image, (person[image], copy))
                for image in np.flatnonzero(embeddings.domains == name).tolist()
                for copy in range(draw[person[image]])
            ]
            accepted = [
                score[tuple(sorted((one, other)))] > groups.threshold
                for (one, whose), (other, whose_else) in itertools.combinations(copies, 2)
                if whose[0] != whose_else[0]
            ]
            fars.append(np.mean(accepted))
        spreads.append(1 - (max(fars) - min(fars)))
    spreads.sort()
    # 25 replicates: places 0.6 and 23.4 of 0 to 24, the outer whole ones
    assert (redrawn.fdr.lower_95, redrawn.fdr.upper_95) == pytest.approx((spreads[0], spreads[24]))
    assert redrawn.fdr.value == groups.fdr.value
    assert "25 redrawings of 6 people" in redrawn.bounds


def test_a_far_above_its_target_is_judged_by_redrawn_people_in_each_domain():
    """43 people: a FAR that is above the target by binomial bounds gets an interval over people that is no narrower."""
    pairs = PairsOfSet(some(people=43, domains=True))
    pairs.prepare([], [], [0.3])
    pools = {ALL: (pairs.everything(genuine=True), pairs.everything(genuine=False)), **pairs.by_domain()}
    points = {name: point_at(*pool, 0.3, "1e-3", "expected") for name, pool in pools.items()}
    above = {name for name, point in points.items() if point.far_lower_95 > 1e-3}
    assert len(above) == 4
    found = fars_over_people(pairs, points, Redrawing(200))
    assert set(found) == above
    for name, interval in found.items():
        assert interval.value == points[name].far
        assert interval.lower_95 < points[name].far_lower_95
        assert interval.upper_95 > points[name].far_upper_95
    assert fars_over_people(pairs, {ALL: point_at(*pools[ALL], 0.3, "0.5", "expected")}, Redrawing(20)) == {}
