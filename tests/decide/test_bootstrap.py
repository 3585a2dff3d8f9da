"""The bootstrap over identities: weights are copies of people, a model never differs from itself, 95 % is 95 %."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, norm
from scipy.stats import t as student

from redrawing import draw_people, pairs_of_images, weighted_tar, weighted_threshold
from verisphere.base.vocabulary import Redrawing
from verisphere.base.work import working
from verisphere.decide import (
    Interval,
    PairedDifference,
    PairScores,
    TooFewScoresError,
    accuracy_difference,
    accuracy_interval,
    ask_deeper,
    enough,
    operating_point,
    point_intervals,
    rates_at,
    redrawn_thresholds,
    tar_differences_at,
    whole_thresholds,
)
from verisphere.decide import bootstrap as module
from verisphere.decide.effective import share_bounds
from verisphere.decide.intervals import far_interval, tar_at_target, tars_redrawn
from verisphere.files.work import WorkFolder

FARS = ("0", "1e-3", "0.01", "0.1", "0.29", "0.5", "1")


def tar_interval(pairs: PairScores, far: str, redrawing: Redrawing) -> Interval:
    return point_intervals(pairs, [far], redrawing)[0].tar


def random_pairs(seed: int, people: int = 7, images: int = 3, ties: bool = False, spread: float = 0.7) -> PairScores:
    """Images around their person's centre; people differ in how well they are told apart."""
    generator = np.random.default_rng(seed)
    person = np.repeat(np.arange(people), generator.integers(1, images + 1, people))
    person[:images] = 0  # someone has several
    person = np.sort(person)
    person = np.unique(person, return_inverse=True)[1]
    centres = generator.normal(size=(people, 5))
    rows = centres[person] + spread * generator.normal(size=(len(person), 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    score = rows @ rows.T
    return pairs_of_images(np.round(score * 4) / 4 if ties else score, person)


@pytest.mark.parametrize("far", FARS)
@pytest.mark.parametrize("ties", [False, True])
def test_everyone_once_is_the_operating_point(far: str, ties: bool):
    for seed in range(10):
        pairs = random_pairs(seed, ties=ties)
        expected = operating_point(pairs.genuine, pairs.impostor, far=far).tar
        assert weighted_tar(pairs, np.ones_like(pairs.images), far) == expected


def tar_of_copies(score: np.ndarray, person: np.ndarray, draws: np.ndarray, far: str) -> float:
    """The definition, by brute force: each person as often as drawn, each copy with all images; all pairs of images.

    Two copies of one person are one person seen twice: their images make no pair with each other.
    """
    images = [(image, (person[image], copy)) for image in range(len(person)) for copy in range(draws[person[image]])]
    genuine, impostor = [], []
    for (one, whose), (other, whose_else) in itertools.combinations(images, 2):
        if whose == whose_else:
            genuine.append(score[one, other])
        elif whose[0] != whose_else[0]:
            impostor.append(score[one, other])
    return operating_point(genuine, impostor, far=far).tar


@pytest.mark.parametrize("far", ["0", "0.02", "0.1", "0.29", "1"])
@pytest.mark.parametrize("ties", [False, True])
def test_a_replicate_is_physical_copies_of_people(far: str, ties: bool):
    for seed in range(6):
        generator = np.random.default_rng(seed)
        person = np.sort(np.concatenate([np.arange(6), generator.integers(0, 6, 8)]))
        score = generator.normal(size=(14, 14)) + 2 * (person[:, None] == person[None, :])
        score = score + score.T
        if ties:
            score = np.round(score / 2)
        pairs = pairs_of_images(score, person)
        for draws in draw_people(6, 5, seed):
            if draws[np.bincount(person) > 1].any() and (draws > 0).sum() > 1:
                assert weighted_tar(pairs, draws, far) == pytest.approx(tar_of_copies(score, person, draws, far))


def test_a_replicate_by_hand():
    # Person 0 has images a, b; person 1 has c, d; person 2 has e. Genuine ab 0.8, cd 0.3. Impostors descending:
    # ac 0.5, ae 0.4, bd 0.35, the others below. Draws 2, 1, 0: weights ac 2, ae 0, bd 2, the two left 2 each; 8 pairs.
    pairs = PairScores(
        genuine=np.array([0.8, 0.3]),
        genuine_person=np.array([0, 1]),
        impostor=np.array([0.5, 0.4, 0.35, 0.2, 0.1, 0.0, 0.0, 0.0]),
        impostor_people=np.array([[0, 1], [0, 2], [0, 1], [0, 1], [0, 1], [0, 2], [1, 2], [1, 2]]),
        images=np.array([2, 2, 1]),
    )
    draws = np.array([2, 1, 0])
    # k = floor(0.25 * 8) = 2: ac passes, the threshold is the next that weighs: 0.35. ab counts twice, cd once.
    assert weighted_tar(pairs, draws, "0.25") == pytest.approx(2 / 3)
    # k = floor(0.5 * 8) = 4: the threshold is 0.2, which cd passes.
    assert weighted_tar(pairs, draws, "0.5") == 1.0
    # k = 1: not even ac, which counts twice, may pass: 0.5
    assert weighted_tar(pairs, draws, "0.2") == pytest.approx(2 / 3)
    # nobody with a genuine pair drawn
    assert np.isnan(weighted_tar(pairs, np.array([0, 0, 3]), "0.5"))


def test_draws_keep_the_number_of_people():
    draws = draw_people(11, 200, seed=3)
    assert draws.shape == (200, 11)
    assert (draws.sum(1) == 11).all()
    assert (draws >= 0).all()
    assert abs(draws.mean() - 1) < 1e-12
    assert np.array_equal(draws, draw_people(11, 200, seed=3))
    assert not np.array_equal(draws, draw_people(11, 200, seed=4))


@pytest.mark.parametrize("replicates", [0, -3])
def test_replicates_are_at_least_one(replicates: int):
    with pytest.raises(ValueError, match=f"replicates must be at least 1, got {replicates}"):
        draw_people(5, replicates, seed=0)
    with pytest.raises(ValueError, match="replicates"):
        accuracy_difference(np.ones(2), np.ones(2), np.array([[0, 0], [0, 1]]), redrawing=Redrawing(replicates))


@pytest.mark.parametrize("far", ["0.01", "0.3"])
def test_a_model_against_itself_differs_by_nothing(far: str):
    pairs = random_pairs(1, people=15)
    interval = tar_differences_at(pairs, pairs, [far], redrawing=Redrawing(50))[0]
    assert (interval.value, interval.lower_95, interval.upper_95, interval.replicates) == (0.0, 0.0, 0.0, 50)
    right = np.array([1.0, 0.0, 1.0, 1.0])
    interval = accuracy_difference(right, right, np.array([[0, 0], [0, 1], [2, 2], [1, 3]]), redrawing=Redrawing(50))
    assert (interval.value, interval.lower_95, interval.upper_95) == (0.0, 0.0, 0.0)


def test_a_difference_turns_its_sign_with_the_models():
    ours, theirs = random_pairs(2, people=20), random_pairs(2, people=20, spread=1.2)
    there, back = (
        tar_differences_at(ours, theirs, ["0.05"], Redrawing(80))[0],
        tar_differences_at(theirs, ours, ["0.05"], Redrawing(80))[0],
    )
    assert there.value > 0
    assert (there.value, there.lower_95, there.upper_95) == pytest.approx((-back.value, -back.upper_95, -back.lower_95))
    assert there.lower_95 <= there.value <= there.upper_95


def test_models_of_different_images_are_not_compared():
    with pytest.raises(ValueError, match="not given the same images"):
        tar_differences_at(random_pairs(1, people=9), random_pairs(2, people=8), ["0.1"], Redrawing(10))


def test_the_highest_impostors_are_enough_or_it_says_so():
    pairs = random_pairs(3, people=20)
    half = len(pairs.impostor) // 2
    cut = dataclasses.replace(pairs, impostor=pairs.impostor[:half], impostor_people=pairs.impostor_people[:half])
    assert cut.impostor_total == pairs.impostor_total == len(pairs.impostor)
    assert tar_interval(cut, "0.05", Redrawing(40)) == tar_interval(pairs, "0.05", Redrawing(40))
    with pytest.raises(ValueError, match="do not reach the target FAR in a replicate"):
        tar_interval(cut, "0.9", Redrawing(40))


@pytest.mark.parametrize(("far", "total", "count"), [("1e-3", 10**8, 220_000), ("0.5", 100, 100), ("0", 10**9, 20_000)])
def test_enough(far: str, total: int, count: int):
    assert enough(far, total) == count


def test_impostors_out_of_order_are_refused():
    pairs = random_pairs(0)
    with pytest.raises(ValueError, match="descending"):
        dataclasses.replace(pairs, impostor=pairs.impostor[::-1].copy())


def test_accuracy_counts_pairs_by_their_people():
    # Two people; we are right on the genuine pair of 0 alone, they on that of 1 alone. Both drawn twice or each once.
    ours, theirs = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    people = np.array([[7, 7], [9, 9]])
    interval = accuracy_difference(ours, theirs, people, redrawing=Redrawing(400))
    assert (interval.value, interval.lower_95, interval.upper_95) == (0.0, -1.0, 1.0)
    # An impostor pair counts as often as the product of its people's draws: (2, 0) and (0, 2) leave it out, and a
    # replicate without any pair has no accuracy.
    interval = accuracy_difference(np.array([1.0]), np.array([0.0]), np.array([[7, 9]]), redrawing=Redrawing(400))
    assert (interval.value, interval.lower_95, interval.upper_95) == (1.0, 1.0, 1.0)


def test_accuracy_weighs_folds_alike():
    # Two folds of three pairs and one: the lone pair's decision is half of the mean.
    weights = np.array([1 / 6, 1 / 6, 1 / 6, 1 / 2])
    people = np.array([[0, 0], [1, 1], [2, 2], [3, 3]])
    ours, theirs = np.array([1.0, 0.0, 0.0, 1.0]), np.array([0.0, 0.0, 0.0, 0.0])
    assert accuracy_difference(ours, theirs, people, weights, redrawing=Redrawing(2)).value == pytest.approx(
        1 / 6 + 1 / 2
    )


# --- many replicates at once ---


@pytest.mark.parametrize("run", [1, 7, 128, 1000])
def test_replicates_do_not_hang_on_how_many_go_together(run: int, monkeypatch: pytest.MonkeyPatch):
    pairs = random_pairs(4, people=15, ties=True)
    expected = tar_interval(pairs, "0.05", Redrawing(40, 2)), point_intervals(pairs, ["0.05", "0.3"], Redrawing(40, 2))
    draws = np.random.default_rng(2).multinomial(15, np.full(15, 1 / 15), size=40)  # all at once
    monkeypatch.setattr(module, "REPLICATES_TOGETHER", run)
    assert np.array_equal(draw_people(15, 40, seed=2), draws)
    assert (
        tar_interval(pairs, "0.05", Redrawing(40, 2)),
        point_intervals(pairs, ["0.05", "0.3"], Redrawing(40, 2)),
    ) == expected
    thresholds = redrawn_thresholds(pairs, "0.05", Redrawing(40, 2))
    assert thresholds.tolist() == [weighted_threshold(pairs, draw, "0.05") for draw in draws.astype(np.int64)]


def test_runs_of_replicates_are_pieces_of_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pairs = random_pairs(4, people=15, ties=True)
    expected = redrawn_thresholds(pairs, "0.05", Redrawing(40, 2))
    monkeypatch.setattr(module, "REPLICATES_TOGETHER", 7)
    for _ in range(2):
        with working(WorkFolder(tmp_path)):
            assert np.array_equal(redrawn_thresholds(pairs, "0.05", Redrawing(40, 2)), expected)
        (piece,) = tmp_path.glob("01-redrawn-*/00000003.npz")
        assert len([*piece.parent.glob("*.npz")]) == 6
        piece.unlink()  # the draws of the runs before it are drawn again


def test_replicates_that_need_more_scores_ask_for_them_again_where_pieces_are_kept(tmp_path: Path):
    pairs = random_pairs(4, people=15, ties=True)

    def ask(times: int) -> np.ndarray:
        some = slice(None, times)
        few = dataclasses.replace(pairs, impostor=pairs.impostor[some], impostor_people=pairs.impostor_people[some])
        return redrawn_thresholds(few, "0.05", Redrawing(40, 2))

    for _ in range(2):  # a piece that could not be computed is known the second time
        with working(WorkFolder(tmp_path)):
            assert np.array_equal(ask_deeper(ask), redrawn_thresholds(pairs, "0.05", Redrawing(40, 2)))
    assert len([*tmp_path.glob("*-redrawn-*")]) > 2


def test_many_people_are_drawn_in_short_runs(monkeypatch: pytest.MonkeyPatch):
    expected = draw_people(50, 20, seed=1)
    monkeypatch.setattr(module, "COUNTS_HELD", 120)  # two replicates of 50 people
    assert [len(draws) for draws in module.draws_of(50, Redrawing(5, 1))] == [2, 2, 1]
    assert np.array_equal(draw_people(50, 20, seed=1), expected)


def by_effective_number(replicates: np.ndarray, accepted: np.ndarray, members: np.ndarray) -> tuple[float, float]:
    """The rule of Korn and Graubard for a share of pairs, from the people of each pair."""
    share = accepted.mean()
    influence = [sum(hit - share for hit, two in zip(accepted, members, strict=True) if person in two)
                 for person in range(12)]  # fmt: skip
    moment = sum(one**4 for one in influence) / sum(one**2 for one in influence) ** 2
    degrees = min(max(2 / (moment - 1 / 12), 5), 11)
    effective = share * (1 - share) / replicates.var() * (norm.ppf(0.975) / student.ppf(0.975, degrees)) ** 2
    effective = min(effective, len(accepted))
    hits, misses = share * effective, (1 - share) * effective
    return beta.ppf(0.025, hits, misses + 1), beta.ppf(0.975, hits + 1, misses)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("listed", [False, True])
def test_intervals_are_those_of_replicates_gone_through_one_by_one(ties: bool, listed: bool):
    pairs = dataclasses.replace(random_pairs(5, people=12, ties=ties), listed=listed)
    if listed:  # some pairs alone
        pairs = dataclasses.replace(pairs, impostor=pairs.impostor[::2], impostor_people=pairs.impostor_people[::2])
    far = "0.1"
    fixed = operating_point(pairs.genuine, pairs.impostor, far=far).threshold
    tars, fars = [], []
    for draw in draw_people(12, 60, seed=9):
        weight = draw[pairs.impostor_people].prod(1)
        if listed:
            total = weight.sum()
        else:
            images = draw * pairs.images
            total = (images.sum() ** 2 - images @ images) // 2
        over = np.flatnonzero(weight.cumsum() > int(total // 10))  # 0.1 as a fraction: exact
        threshold = pairs.impostor[over[0]]
        own = draw[pairs.genuine_person]
        tars.append((own * (pairs.genuine > threshold)).sum() / own.sum())
        fars.append((weight * (pairs.impostor > fixed)).sum() / total)
    found = point_intervals(pairs, [far], redrawing=Redrawing(60, 9))[0]
    own, both = pairs.genuine_person[:, None], pairs.impostor_people
    for interval, values, accepted, members in (
        (found.tar, tars, pairs.genuine > fixed, own),
        (found.far, fars, pairs.impostor > fixed, both),
    ):
        lower, upper = by_effective_number(np.array(values), accepted, members)
        middle = np.quantile(values, [0.025, 0.975])
        assert interval.lower_95 == pytest.approx(min(lower, middle[0]), abs=1e-12)
        assert interval.upper_95 == pytest.approx(max(upper, middle[1]), abs=1e-12)
    ends = [pairs.impostor[int(end * len(pairs.impostor))] for end in (found.far.upper_95, found.far.lower_95)]
    assert [found.threshold.lower_95, found.threshold.upper_95] == ends
    point = operating_point(pairs.genuine, pairs.impostor, far=far)
    assert (found.tar.value, found.threshold.value, found.far.value) == (point.tar, point.threshold, point.far)
    assert (found.far_target, found.rule, found.people, found.seed) == (far, "at_most", 12, 9)
    assert tars_redrawn(pairs, [far], Redrawing(60, 9))[0].replicates == pytest.approx(tars)
    assert whole_thresholds(pairs, [far]).tolist() == [point.threshold]


def test_rates_of_three_people_by_hand():
    """Wider than their replicates: three people count as three comparisons at the most."""
    two = np.array([[0, 1], [1, 2], [0, 2]])
    pairs = PairScores(np.array([0.9, 0.8, 0.7]), np.arange(3), np.array([0.5, 0.4, 0.3]), two, np.ones(3, np.int64))
    far = far_interval(pairs, threshold=0.45, value=1 / 3, replicates=np.array([0.2, 0.3, 0.4]))
    tar = tar_at_target(pairs, threshold=0.75, value=2 / 3, replicates=np.array([0.5, 0.6, 0.9]))
    assert (far.lower_95, far.upper_95) == pytest.approx((0.008, 0.906), abs=5e-4)
    assert (tar.lower_95, tar.upper_95) == pytest.approx((0.021, 1.0), abs=5e-4)
    with pytest.raises(ValueError, match="none of 2 replicates drew people that have such a pair"):
        far_interval(pairs, threshold=0.45, value=1 / 3, replicates=np.full(2, np.nan))


def test_several_fars_at_once_are_each_by_itself():
    ours, theirs = random_pairs(1, people=15), random_pairs(1, people=15, spread=1.2)
    fars = ["0.3", "0.01", "0.1"]
    assert tar_differences_at(ours, theirs, fars, Redrawing(50, 3)) == tuple(
        tar_differences_at(ours, theirs, [far], Redrawing(50, 3))[0] for far in fars
    )
    assert point_intervals(ours, fars, Redrawing(50, 3)) == tuple(
        point_intervals(ours, [far], Redrawing(50, 3))[0] for far in fars
    )


def test_a_list_by_hand():
    # Two genuine pairs of people 7 and 9; impostor pairs 7-9 (0.6) and 9-4 (0.2). Everyone once: at FAR 0.5 the
    # threshold is 0.2. In a list only its own pairs count: drawn (4: 0, 7: 1, 9: 2) the first weighs 2, the second
    # nothing; half of 2 may pass, which the first exceeds, so the threshold is 0.6.
    scores, genuine = np.array([0.9, 0.6, 0.5, 0.2]), np.array([True, False, True, False])
    people = np.array([[7, 7], [7, 9], [9, 9], [9, 4]])
    pairs = PairScores.of_list(scores, genuine, people)
    assert (pairs.impostor_total, pairs.complete, pairs.floor) == (2, True, -np.inf)
    assert pairs.impostor.tolist() == [0.6, 0.2]
    assert weighted_threshold(pairs, np.ones(3, np.int64), "0.5") == 0.2
    assert weighted_threshold(pairs, np.array([0, 1, 2]), "0.5") == 0.6
    assert weighted_tar(pairs, np.array([0, 1, 2]), "0.5") == pytest.approx(1 / 3)  # 0.9 once; 0.5 twice, rejected


def test_an_interval_may_end_in_minus_infinity():
    # FAR 1 accepts everything whoever is drawn; at 0.5 two people have one impostor pair, which is rejected.
    pairs = random_pairs(0, people=5)
    found = point_intervals(pairs, ["1"], redrawing=Redrawing(20))[0]
    assert (found.threshold.value, found.threshold.lower_95, found.threshold.upper_95) == (-np.inf,) * 3
    assert (found.far.value, found.far.upper_95, found.tar.value) == (1.0, 1.0, 1.0)
    two = PairScores(np.array([0.9, 0.8]), np.array([0, 1]), np.array([0.5]), np.array([[0, 1]]), np.array([1, 1]))
    found = point_intervals(two, ["0.5"], redrawing=Redrawing(200))[0]
    assert (found.threshold.lower_95, found.threshold.upper_95) == (0.5, 0.5)
    assert found.far.upper_95 == pytest.approx(0.975)  # none of one comparison


def test_nobody_with_a_genuine_pair_drawn_is_an_error():
    pairs = PairScores(
        np.array([0.9]), np.array([0]), np.array([0.5]), np.array([[0, 1]]), np.array([2, 1]), listed=True
    )
    seed = next(seed for seed in range(50) if draw_people(2, 1, seed)[0, 0] == 0)
    with pytest.raises(ValueError, match="none of 1 replicates drew people that have such a pair; take more of them"):
        tar_interval(pairs, "1", Redrawing(1, seed))


def test_rates_of_several_sets_at_one_threshold():
    """Two sets of the same people; a person is drawn for both together. Against sums over physical copies."""
    first, second = random_pairs(6, people=8), random_pairs(7, people=8)
    far, tar = rates_at([first, second], 0.3, redrawing=Redrawing(30, 4))
    for replicate, draw in enumerate(draw_people(8, 30, seed=4)):
        for place, pairs in enumerate((first, second)):
            weight, own = draw[pairs.impostor_people].prod(1), draw[pairs.genuine_person]
            share = (weight * (pairs.impostor > 0.3)).sum() / weight.sum() if weight.any() else np.nan
            assert far[place, replicate] == pytest.approx(share, nan_ok=True)
            share = (own * (pairs.genuine > 0.3)).sum() / own.sum() if own.any() else np.nan
            assert tar[place, replicate] == pytest.approx(share, nan_ok=True)


def test_a_fixed_threshold_needs_every_score_above_it():
    pairs = random_pairs(3, people=20)
    above = int((pairs.impostor > 0.5).sum())
    cut = dataclasses.replace(pairs, impostor=pairs.impostor[:above], impostor_people=pairs.impostor_people[:above])
    with pytest.raises(TooFewScoresError, match=f"{above} impostor scores do not reach down to the threshold"):
        rates_at([cut], 0.5, redrawing=Redrawing(5))
    known = dataclasses.replace(cut, down_to=0.5)
    for found, expected in zip(rates_at([known], 0.5, Redrawing(5)), rates_at([pairs], 0.5, Redrawing(5)), strict=True):
        assert np.array_equal(found, expected)
    with pytest.raises(ValueError, match=r"must number the same people, got \[7, 20\]"):
        rates_at([pairs, random_pairs(0)], 0.5)


def test_more_is_asked_for_until_it_is_enough():
    asked = []

    def ask(times: int) -> str:
        asked.append(times)
        if times < 8:
            raise TooFewScoresError("too few")
        return "found"

    assert ask_deeper(ask) == "found"
    assert asked == [2, 4, 8]


# --- accuracy ---


def test_the_interval_of_an_accuracy():
    # Person 0 is right, person 1 wrong, one pair each: a replicate has both, or one of them twice.
    found = accuracy_interval(np.array([1.0, 0.0]), np.array([[3, 3], [8, 8]]), redrawing=Redrawing(300))
    assert (found.value, found.lower_95, found.upper_95) == (0.5, 0.0, 1.0)
    right = np.random.default_rng(0).integers(0, 2, 200).astype(float)
    people = np.random.default_rng(1).integers(0, 30, (200, 2))
    weights = np.random.default_rng(2).random(200)
    numbers, members = np.unique(people, return_inverse=True)
    members = members.reshape(200, 2)
    expected = []
    for draw in draw_people(len(numbers), 50, seed=6):
        weight = weights * np.where(members[:, 0] == members[:, 1], draw[members[:, 0]], draw[members].prod(1))
        expected.append(weight @ right / weight.sum())
    found = accuracy_interval(right, people, weights, redrawing=Redrawing(50, 6))
    value = float(weights @ right / weights.sum())
    share = weights * (right - value)
    influence = np.array([share[(members == person).any(1)].sum() for person in range(len(numbers))])
    comparisons = weights.sum() ** 2 / (weights**2).sum()
    lower, upper = share_bounds(value, float(np.std(expected)), comparisons, influence, len(numbers))
    middle = np.quantile(expected, [0.025, 0.975])
    assert found.lower_95 == pytest.approx(min(lower, middle[0]), abs=1e-9)
    assert found.upper_95 == pytest.approx(max(upper, middle[1]), abs=1e-9)


def test_what_one_model_alone_decides_rightly():
    interval = Interval(0.25, -0.1, 0.5, 10)
    found = PairedDifference.of(interval, np.array([True, True, False, True]), np.array([True, False, False, False]))
    assert (found.only_ours, found.only_theirs, found.compared) == (2, 0, 4)


@pytest.mark.parametrize(
    ("lower", "upper", "holds"), [(-0.1, 0.1, True), (0.0, 0.1, True), (0.01, 0.1, False), (-0.2, -0.1, False)]
)
def test_an_interval_that_holds_zero(lower: float, upper: float, holds: bool):
    assert Interval(0.05, lower, upper, 100).holds_zero is holds


def test_intervals_cover_when_people_differ():
    """Each person has a difficulty of their own, shared by their six genuine pairs; the truth is known by simulation.

    Of 120 intervals the truth should lie in about 95 %: fewer than 90 % has a chance below 0.02. Taking the pairs as
    independent, as the binomial bounds do, covers far less, which is why people are redrawn.
    """
    generator = np.random.default_rng(0)
    people, images = 40, 4
    person = np.repeat(np.arange(people), images)
    left, right = np.triu_indices(len(person), 1)
    same = person[left] == person[right]

    def draw() -> PairScores:
        ease = generator.normal(0.0, 1.0, people)
        genuine = 3 + ease[person[left[same]]] + 0.3 * generator.normal(size=same.sum())
        impostor = generator.normal(size=(~same).sum())
        order = np.argsort(-impostor)
        return PairScores(
            genuine=genuine,
            genuine_person=person[left[same]].astype(np.int64),
            impostor=impostor[order],
            impostor_people=np.stack([person[left[~same]], person[right[~same]]], 1)[order].astype(np.int64),
            images=np.full(people, images, np.int64),
        )

    truth = np.mean([weighted_tar(draw(), np.ones(people, np.int64), "0.01") for _ in range(400)])
    covered = binomial = 0
    for seed in range(120):
        pairs = draw()
        interval = tar_interval(pairs, "0.01", redrawing=Redrawing(120, seed))
        covered += interval.lower_95 <= truth <= interval.upper_95
        point = operating_point(pairs.genuine, pairs.impostor, far="0.01")
        binomial += point.tar_lower_95 <= truth <= point.tar_upper_95
    assert covered >= 108
    assert binomial < 96
