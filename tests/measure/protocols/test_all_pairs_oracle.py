"""`all_pairs` against a walk over every pair of rows in float64: equal integers, at exact ties too."""

import math

import numpy as np
import pytest
import torch

from verisphere.base.vocabulary import Embeddings
from verisphere.decide import one_threshold, operating_point
from verisphere.measure.protocols.all_pairs import all_pairs

FARS = ("1", "0.5", "0.29", "1e-1", "1e-2", "1e-3", "1e-5", "0")


def unit(row):
    """A row of length one: in float64 from the stored float32 numbers, rounded to float32 once."""
    length = math.sqrt(math.fsum(float(value) ** 2 for value in row))
    return [float(np.float32(float(value) / length)) for value in row]


def in_memory(embeddings):
    """The score of every two rows, whether they are one person's, and their domain ("" for a pair across domains)."""
    units = torch.tensor([unit(row) for row in embeddings.embeddings], dtype=torch.float32)
    left, right = torch.triu_indices(len(units), len(units), 1)
    score = (units[left].double() * units[right].double()).sum(-1).numpy()
    same = (embeddings.identities[left] == embeddings.identities[right]).astype(bool)
    domain = np.where(embeddings.domains[left] == embeddings.domains[right], embeddings.domains[left], "")
    return score, same, domain


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


def check(embeddings, calibration=None, union="all", rule="at_most"):
    """Equal to the decisions on all scores in memory, which are checked against a walk over every pair elsewhere."""
    score, same, home = in_memory(embeddings)
    domains = {
        str(name): (score[(home == name) & same], score[(home == name) & ~same])
        for name in np.unique(embeddings.domains)
    }
    asked = {"rule": rule, "union": union, "across": score[(home == "") & ~same]}
    if calibration is not None:
        other, alike, _ = in_memory(calibration)
        asked["calibration"] = other[~alike]
    result = all_pairs(embeddings, fars=FARS, calibration=calibration, union=union, rule=rule)
    for far, point, one in zip(FARS, result.operating_points, result.one_threshold, strict=True):
        assert point == operating_point(score[same], score[~same], far=far, rule=rule)
        assert one == one_threshold(domains, far=far, **asked)


@pytest.mark.parametrize("embeddings", SETS)
@pytest.mark.parametrize("union", ["all", "within"])
@pytest.mark.parametrize("rule", ["at_most", "nearest"])
def test_thresholds_and_counts_equal_those_of_every_pair(embeddings, union, rule):
    check(embeddings, union=union, rule=rule)


@pytest.mark.parametrize("embeddings", SETS)
def test_a_calibration_set_sets_the_common_threshold_by_its_impostors_alone(embeddings):
    check(embeddings, calibration=on_a_grid(11, rows=20))


@pytest.mark.parametrize("rule", ["at_most", "nearest", "interpolated"])
def test_many_blocks_of_pairs_equal_all_scores_held_at_once(rule):
    """1,100 rows are 604,450 pairs."""
    check(with_repeats(5, rows=1100, dim=16, people=90), rule=rule)


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
