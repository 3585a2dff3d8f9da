"""`all_pairs` against a walk over every pair of rows in float64: equal integers, at exact ties too."""

import itertools
import math

import numpy as np
import pytest
import torch

from verisphere.base.vocabulary import Embeddings
from verisphere.decide import one_threshold, operating_point
from verisphere.measure.protocols.all_pairs import all_pairs

from ...decide import oracle

FARS = ("1", "0.5", "0.29", "1e-1", "1e-2", "1e-3", "0")


def unit(row):
    """A row of length one: in float64 from the stored float32 numbers, rounded to float32 once."""
    length = math.sqrt(math.fsum(float(value) ** 2 for value in row))
    return [float(np.float32(float(value) / length)) for value in row]


def scored_pairs(embeddings):
    """(score, same identity, domain or None across domains) of every two rows, once."""
    rows = [unit(row) for row in embeddings.embeddings]
    domains = ["the only one"] * len(rows) if embeddings.domains is None else embeddings.domains
    return [
        (
            math.fsum(one * other for one, other in zip(rows[i], rows[j], strict=True)),
            embeddings.identities[i] == embeddings.identities[j],
            domains[i] if domains[i] == domains[j] else None,
        )
        for i, j in itertools.combinations(range(len(rows)), 2)
    ]


def named(vectors, identities, domains=None):
    return Embeddings(
        embeddings=np.asarray(vectors, dtype=np.float32),
        names=np.array([f"row {i}" for i in range(len(vectors))]),
        identities=np.array([f"person {i}" for i in identities]),
        domains=None if domains is None else np.array(domains),
    )


def on_a_grid(seed, rows=36, dim=4, people=8):
    """Rows of -1, 0 and 1 times a length: many equal, many opposite, and every dot product exact in float64.

    The entries of a unit row are then 0 or one number up to sign, a product of two rows is a whole multiple of one
    48-bit number, and no order of summation can change a tie.
    """
    generator = np.random.default_rng(seed)
    vectors = generator.integers(-1, 2, (rows, dim))
    vectors[~vectors.any(axis=1), 0] = 1
    lengths = generator.choice([0.5, 1.0, 3.0, 17.0], (rows, 1))
    domains = np.array(["day", "mask", "night"])[np.arange(rows) % 3]
    return named(vectors * lengths, generator.integers(0, people, rows), domains)


def with_repeats(seed, rows=40, dim=24, people=6):
    """Random rows of which half are copies of others, some the other way round."""
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(rows, dim)).astype(np.float32)
    vectors[rows // 2 :] = vectors[generator.integers(0, rows // 4, rows - rows // 2)]
    vectors[rows - 5 :] *= -1
    domains = np.array(["day", "night"])[generator.permutation(rows) % 2]
    return named(vectors, generator.integers(0, people, rows), domains)


SETS = [on_a_grid(seed) for seed in range(3)] + [with_repeats(seed) for seed in range(3)]


def counts_of(point):
    return oracle.Counts(point.genuine_accepted, point.genuine_total, point.impostor_accepted, point.impostor_total)


def close(threshold, expected):
    """Equal up to the last place of a sum of products, which may be taken in any fixed order."""
    return threshold == expected or abs(threshold - expected) < 1e-14


@pytest.mark.parametrize("embeddings", SETS)
@pytest.mark.parametrize("union", ["all", "within"])
def test_operating_points_have_the_same_integers(embeddings, union):
    """Every pair counts in a pooled operating point, whatever sets the common threshold."""
    pairs = scored_pairs(embeddings)
    genuine = [score for score, same, _ in pairs if same]
    impostor = [score for score, same, _ in pairs if not same]
    points = all_pairs(embeddings, fars=FARS, union=union).operating_points
    assert [point.far_target for point in points] == list(FARS)
    for point in points:
        threshold = oracle.at_most(impostor, point.far_target)
        assert close(point.threshold, threshold)
        assert counts_of(point) == oracle.count(genuine, impostor, threshold)
        assert point.below_resolution is oracle.below_resolution(impostor, point.far_target)


@pytest.mark.parametrize("embeddings", SETS)
def test_nearest_has_the_same_integers(embeddings):
    pairs = scored_pairs(embeddings)
    genuine = [score for score, same, _ in pairs if same]
    impostor = [score for score, same, _ in pairs if not same]
    for point in all_pairs(embeddings, fars=FARS, rule="nearest").operating_points:
        threshold = oracle.nearest(impostor, point.far_target)
        assert counts_of(point) == oracle.count(genuine, impostor, threshold)


def by_domain(embeddings):
    """The two classes of each domain, and the impostor scores across domains."""
    pairs = scored_pairs(embeddings)
    domains = {
        str(name): (
            [score for score, same, domain in pairs if domain == name and same],
            [score for score, same, domain in pairs if domain == name and not same],
        )
        for name in np.unique(embeddings.domains)
    }
    return domains, [score for score, same, domain in pairs if domain is None and not same]


@pytest.mark.parametrize("embeddings", SETS)
@pytest.mark.parametrize("union", ["all", "within"])
def test_one_threshold_has_the_same_integers(embeddings, union):
    domains, across = by_domain(embeddings)
    results = all_pairs(embeddings, fars=FARS, union=union).one_threshold
    assert [result.far_target for result in results] == list(FARS)
    for result in results:
        expected = oracle.one_threshold(domains, result.far_target, across, [], union)
        assert result.union == union
        assert close(result.calibration_threshold, expected.calibration_threshold)
        assert set(result.domains) == set(domains)
        for name, domain in expected.domains.items():
            assert counts_of(result.domains[name]) == domain.counts
            assert close(result.domains[name].threshold, domain.own_threshold)
            assert result.domains[name].tar_own == float(domain.own_tar)
        assert set(result.far_is_bound) == expected.far_is_bound
        assert result.tar_variance == pytest.approx(float(expected.tar_variance), abs=1e-14)
        assert result.neg_log10_far_variance == pytest.approx(expected.neg_log10_far_variance, abs=1e-12)
        assert result.gamma == pytest.approx(expected.gamma, abs=1e-12)


@pytest.mark.parametrize("embeddings", [on_a_grid(3), with_repeats(3)])
def test_a_calibration_set_sets_the_common_threshold_by_its_impostors_alone(embeddings):
    other = on_a_grid(11, rows=20)
    calibration = [score for score, same, _ in scored_pairs(other) if not same]
    domains, across = by_domain(embeddings)
    for result in all_pairs(embeddings, fars=FARS, calibration=other).one_threshold:
        expected = oracle.one_threshold(domains, result.far_target, across, calibration, "all")
        assert close(result.calibration_threshold, expected.calibration_threshold)
        for name, domain in expected.domains.items():
            assert counts_of(result.domains[name]) == domain.counts


@pytest.mark.parametrize("rule", ["at_most", "nearest", "interpolated"])
def test_many_blocks_of_pairs_equal_all_scores_held_at_once(rule):
    """1,100 rows are 604,450 pairs; decisions on scores in memory are checked against the oracle elsewhere."""
    embeddings = with_repeats(5, rows=1100, dim=16, people=90)
    fars = ("0.29", "1e-2", "1e-3", "1e-5", "1e-7")
    units = torch.tensor([unit(row) for row in embeddings.embeddings], dtype=torch.float32)
    left, right = torch.triu_indices(len(units), len(units), 1)
    score = (units[left].double() * units[right].double()).sum(-1).numpy()
    same = (embeddings.identities[left] == embeddings.identities[right]).astype(bool)
    home = np.where(embeddings.domains[left] == embeddings.domains[right], embeddings.domains[left], "")
    domains = {
        name: (score[(home == name) & same], score[(home == name) & ~same]) for name in np.unique(embeddings.domains)
    }
    result = all_pairs(embeddings, fars=fars, rule=rule)
    for far, point, one in zip(fars, result.operating_points, result.one_threshold, strict=True):
        assert point == operating_point(score[same], score[~same], far=far, rule=rule)
        assert one == one_threshold(domains, far=far, rule=rule, across=score[(home == "") & ~same])


def test_a_domain_without_genuine_pairs_is_named_or_skipped():
    vectors = np.random.default_rng(0).normal(size=(7, 5))
    domains = ["day", "day", "day", "day", "night", "night", "night"]
    embeddings = named(vectors, [0, 0, 1, 1, 2, 3, 4], domains)
    with pytest.raises(ValueError, match="night"):
        all_pairs(embeddings, fars=("0.1",))
    (result,) = all_pairs(embeddings, fars=("0.1",), skip_empty=True).one_threshold
    assert (result.skipped, list(result.domains)) == (("night",), ["day"])


@pytest.mark.parametrize(("identities", "missing"), [([0, 1, 2], "genuine"), ([0, 0, 0], "impostor")])
def test_an_empty_class_is_named(identities, missing):
    with pytest.raises(ValueError, match=missing):
        all_pairs(named(np.eye(3), identities), fars=("0.1",))


def test_without_domains_there_is_no_one_threshold():
    embeddings = with_repeats(7)
    plain = Embeddings(embeddings.embeddings, embeddings.names, embeddings.identities)
    assert not all_pairs(plain, fars=("0.1",)).one_threshold


def test_identities_are_compared_as_strings():
    embeddings = Embeddings(
        np.eye(3, dtype=np.float32) + np.float32(0.5), np.array(["a", "b", "c"]), np.array(["1", "01", "1"])
    )
    (point,) = all_pairs(embeddings, fars=("0.5",)).operating_points
    assert (point.genuine_total, point.impostor_total) == (1, 2)
