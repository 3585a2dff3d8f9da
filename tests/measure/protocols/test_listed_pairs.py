"""Listed pairs: scores in list order, folds, accuracy; and LFW's View 2 on real embeddings."""

from pathlib import Path

import numpy as np
import pytest

from verisphere.base.vocabulary import FARS, RULES, Comparisons, Embeddings
from verisphere.decide import kfold_accuracy, operating_point
from verisphere.files.embeddings import read_embeddings
from verisphere.measure.protocols.all_pairs import all_pairs
from verisphere.measure.protocols.listed_pairs import listed_folds, listed_operating_points, listed_pairs, score_listed


def pairs(left, right, genuine, folds=None) -> Comparisons:
    return Comparisons(
        np.array(left, np.int64),
        np.array(right, np.int64),
        np.array(genuine, bool),
        None if folds is None else np.array(folds, np.int64),
    )


def faces(rows, domains=None) -> Embeddings:
    count = len(rows)
    return Embeddings(
        np.asarray(rows, np.float32),
        np.array([f"face {row}" for row in range(count)]),
        np.array([f"person {row // 2}" for row in range(count)]),
        None if domains is None else np.array(domains),
    )


FOUR = faces([[1, 0], [3, 4], [0, 2], [-5, 0]], ["day", "day", "night", "night"])


def test_scores_stand_in_list_order():
    scores = score_listed(FOUR, pairs([0, 3, 1], [1, 0, 2], [True, False, False]))
    # cosines 3/5, -1, 4/5
    assert scores.score.tolist() == pytest.approx([0.6, -1.0, 0.8], abs=1e-7)
    assert scores.genuine.tolist() == [True, False, False]


def test_a_pair_of_two_domains_has_the_empty_one():
    assert score_listed(FOUR, pairs([0, 1, 2], [1, 2, 3], [True, False, True])).domains.tolist() == ["day", "", "night"]
    plain = Embeddings(FOUR.embeddings, FOUR.names, FOUR.identities)
    assert score_listed(plain, pairs([0], [1], [True])).domains is None


@pytest.mark.parametrize(("count", "sizes"), [(10, [1] * 10), (25, [3, 2] * 5), (500, [50] * 10), (11, [2] + [1] * 9)])
@pytest.mark.parametrize("others", [10, 40])
def test_a_list_without_folds_makes_ten_blocks_in_list_order(count: int, sizes: list[int], others: int):
    """Of each kind by itself: where all genuine pairs come first, a block of the whole list would be of one kind."""
    genuine = np.array([True] * count + [False] * others)
    blocks = listed_folds(pairs(range(count + others), range(count + others), genuine))
    for kind in (genuine, ~genuine):
        assert (np.diff(blocks[kind]) >= 0).all()
    assert np.bincount(blocks[genuine]).tolist() == sizes
    assert np.bincount(blocks[~genuine]).tolist() == [others // 10] * 10


def test_a_mixed_list_is_cut_the_same_way():
    genuine = np.arange(40) % 2 == 0
    assert listed_folds(pairs(range(40), range(40), genuine)).tolist() == (np.arange(40) // 4).tolist()


def test_a_list_with_folds_keeps_them():
    assert listed_folds(pairs([0, 1], [1, 2], [True, False], [7, 3])).tolist() == [7, 3]


@pytest.mark.parametrize(
    ("genuine", "impostor", "kind"), [(9, 30, "genuine"), (30, 9, "impostor"), (30, 0, "impostor")]
)
def test_too_few_pairs_for_ten_blocks(genuine: int, impostor: int, kind: str):
    listed = pairs(range(genuine + impostor), range(genuine + impostor), [True] * genuine + [False] * impostor)
    with pytest.raises(ValueError, match=f"{min(genuine, impostor)} {kind} pairs do not make 10 blocks"):
        listed_folds(listed)


def random_set(seed: int, count: int = 60) -> tuple[Embeddings, Comparisons]:
    generator = np.random.default_rng(seed)
    rows = np.repeat(generator.normal(size=(20, 6)), 2, 0) + 0.5 * generator.normal(size=(40, 6))
    left, right = generator.integers(0, 40, (2, count))
    right = np.where(left == right, (left + 1) % 40, right)
    right[::2] = left[::2] ^ 1  # the same person
    return faces(rows), pairs(left, right, left // 2 == right // 2, np.arange(count) % 6)


@pytest.mark.parametrize("seed", range(3))
def test_everything_follows_from_the_scores(seed: int):
    embeddings, comparisons = random_set(seed)
    result = listed_pairs(embeddings, comparisons, fars=("0.1", "1e-2"), keep_repeated=True)
    score, genuine = result.scores.score, result.scores.genuine
    assert result.accuracy == kfold_accuracy(score, genuine, comparisons.folds)
    assert result.operating_points == tuple(
        operating_point(score[genuine], score[~genuine], far=far) for far in ("0.1", "1e-2")
    )
    # each decision, at its fold's threshold
    cut = np.array(result.accuracy.thresholds)[comparisons.folds]
    assert result.right_decisions.tolist() == ((score > cut) == genuine).astype(float).tolist()
    folds = [result.right_decisions[comparisons.folds == fold].mean() for fold in range(6)]
    assert folds == pytest.approx(list(result.accuracy.per_fold))


@pytest.mark.parametrize(("genuine", "missing"), [([True] * 10, "impostor"), ([False] * 10, "genuine")])
def test_a_list_of_one_kind(genuine: list[bool], missing: str):
    with pytest.raises(ValueError, match=f"no {missing} pairs among the 10 listed"):
        listed_pairs(faces(np.eye(11)), pairs(range(10), range(1, 11), genuine, np.arange(10) % 2))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(3))
def test_operating_points_alone_are_the_same(seed: int, rule: str):
    embeddings, comparisons = random_set(seed, 500)
    fars = ("0", "1e-3", "0.1", "0.333", "1")
    assert (
        listed_operating_points(embeddings, comparisons, fars, rule, keep_repeated=True)
        == listed_pairs(embeddings, comparisons, fars, rule, keep_repeated=True).operating_points
    )


@pytest.mark.parametrize("rule", RULES)
def test_operating_points_of_many_templates(rule: str):
    """Enough pairs for products: quantised rows, so that thresholds fall among ties."""
    generator = np.random.default_rng(0)
    rows = generator.integers(-1, 2, (900, 6)).astype(np.float32)
    rows[~rows.any(1)] = 1
    left, right = np.divmod(np.sort(generator.permutation(300 * 600)[:120_000]), 600)
    comparisons = pairs(left, 300 + right, left == right // 2)
    score = score_listed(faces(rows), comparisons).score
    shown: list[str] = []
    points = listed_operating_points(
        faces(rows), comparisons, FARS, rule, lambda items, description, total=None: shown.append(description) or items
    )
    assert points == tuple(
        operating_point(score[comparisons.genuine], score[~comparisons.genuine], far, rule) for far in FARS
    )
    assert shown == ["scoring listed pairs"]


@pytest.mark.parametrize(("genuine", "missing"), [([True] * 10, "impostor"), ([False] * 10, "genuine")])
def test_operating_points_of_one_kind(genuine: list[bool], missing: str):
    with pytest.raises(ValueError, match=f"there are no {missing} scores"):
        listed_operating_points(faces(np.eye(11)), pairs(range(10), range(1, 11), genuine))


def test_operating_points_of_a_row_that_is_not_there():
    for measure in (listed_operating_points, listed_pairs):
        with pytest.raises(ValueError, match="right of pair 1 is row 4, but there are 4 rows"):
            measure(FOUR, pairs([0, 3, 1], [1, 4, 2], [True, False, False]))


# --- real embeddings of LFW ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lfw(real_data: Path) -> Embeddings:
    return read_embeddings(real_data / "lfw_embeddings.npz")


def test_listing_every_pair_is_comparing_all(lfw: Embeddings):
    """1.1 million pairs: two engines, one answer."""
    some = Embeddings(lfw.embeddings[:1500], lfw.names[:1500], lfw.identities[:1500])
    left, right = np.triu_indices(1500, 1)
    _, person = np.unique(some.identities, return_inverse=True)
    every = pairs(left, right, person[left] == person[right])
    assert listed_operating_points(some, every) == all_pairs(some).operating_points
