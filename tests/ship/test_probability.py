"""Log-likelihood ratios in a calibration: who counts how often, what is written, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

import verisphere
from verisphere.base.seeds import numpy_generator
from verisphere.base.vocabulary import Redrawing
from verisphere.decide.guarantee import one_row_each
from verisphere.decide.probability import WeighedScores
from verisphere.files.calibration import read_calibration
from verisphere.files.embeddings import write_embeddings
from verisphere.files.verdicts import verdicts_csv
from verisphere.report.calibration_tables import calibration_text
from verisphere.report.plots import save_plot
from verisphere.report.score_plots import reliability_plot
from verisphere.ship.calibrate import calibrate, calibrate_set, review_pairs
from verisphere.ship.calibrated_files import AskedThresholds

PEOPLE = 120
ASKED = AskedThresholds(["0.1"], "expected", probability=True)


def people(photographs=3, seed: int = 0) -> verisphere.Embeddings:
    """Photographs of people, whose number may be each person's own."""
    random = np.random.default_rng(seed)
    person = np.repeat(np.arange(PEOPLE), photographs)
    rows = random.normal(size=(PEOPLE, 12))[person] + 0.8 * random.normal(size=(len(person), 12))
    return verisphere.Embeddings(rows.astype(np.float32), identities=np.char.add("p", person.astype(str)))


def probability_of(embeddings, **options):
    return calibrate_set(embeddings, "set", replace(ASKED, **options)).probability


def test_cosines_in_a_narrow_range_are_told_apart():
    """With a large part that all embeddings share, all cosines lie above 0.99."""
    apart = people()
    person = np.unique(apart.identities, return_inverse=True)[1]
    photographs = np.isin(np.arange(3 * PEOPLE), one_row_each(person, numpy_generator(0)))
    rows = apart.embeddings.astype(np.float64) + 40.0
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    product, name = units @ units.T, apart.identities
    left, right = np.triu_indices(len(name), 1)
    same, single = name[left] == name[right], photographs[left] & photographs[right]
    genuine, impostor = product[left, right][same], product[left, right][single]
    every = np.concatenate([genuine, impostor])
    order = np.argsort(every)
    of_kind = np.repeat([1 / len(genuine), 1 / len(impostor)], [len(genuine), len(impostor)])[order]
    is_genuine = (np.arange(len(every)) < len(genuine))[order]
    exact = WeighedScores(every[order].astype(np.float64), of_kind * is_genuine, of_kind * ~is_genuine).fitted(
        PEOPLE, PEOPLE // 2
    )
    found = probability_of(replace(apart, embeddings=rows.astype(np.float32)))
    assert impostor.min() > 0.99
    assert found.cllr == pytest.approx(exact.cllr, abs=0.02)
    assert found.min_cllr == pytest.approx(exact.min_cllr, abs=0.02)


def test_each_person_counts_once_and_every_two_by_one_image_of_each():
    """One image each but for ten people, so that nothing is drawn among the impostors of the rest."""
    photographs = np.ones(PEOPLE, int)
    photographs[:10], photographs[0] = 2, 9  # the first has 36 of 45 pairs, and a tenth of the weight
    embeddings = people(photographs)
    found = probability_of(embeddings)
    assert (found.people, found.comparisons) == (10, 60)
    units = embeddings.embeddings / np.linalg.norm(embeddings.embeddings, axis=1, keepdims=True)
    product, name = units @ units.T, embeddings.identities
    left, right = np.triu_indices(len(name), 1)
    scores, same = product[left, right], name[left] == name[right]
    of_person = np.array([np.count_nonzero(name[left[same]] == one) for one in name[left[same]]])
    slopes = []
    for seed in range(8):  # any image of each
        random = np.random.default_rng(seed)
        chosen = np.isin(np.arange(len(name)), [random.choice(np.flatnonzero(name == one)) for one in np.unique(name)])
        others = scores[~same & chosen[left] & chosen[right]]
        every = np.concatenate([scores[same], others])
        order = np.argsort(every)
        genuine = np.concatenate([1 / of_person / 10, np.zeros(len(others))])[order]
        impostor = np.concatenate([np.zeros(same.sum()), np.full(len(others), 1 / len(others))])[order]
        slopes.append(WeighedScores(every[order].astype(np.float64), genuine, impostor).fitted(10, 60).slope)
    assert min(slopes) - 0.2 < found.slope < max(slopes) + 0.2
    unweighted = np.concatenate([np.full(same.sum(), 1 / same.sum()), np.zeros(len(others))])[order]
    assert (
        abs(WeighedScores(every[order].astype(np.float64), unweighted, impostor).fitted(10, 60).slope - found.slope)
        > 0.5
    )


def test_it_is_written_and_read_and_absent_where_it_was_not_asked_for(tmp_path):
    write_embeddings(tmp_path / "set.npz", people())
    found = calibrate(tmp_path / "set.npz", ["0.1"], "expected", probability=True, replicates=50)
    found.write_json(tmp_path / "with.json")
    assert read_calibration(tmp_path / "with.json") == found
    assert f"probability: {found.probability.meaning()}" in calibration_text(found)
    assert "Cllr 0." in calibration_text(found)
    assert len(found.probability.observed) == len(found.probability.stated) > 4
    without = calibrate(tmp_path / "set.npz", ["0.1"], "expected", replicates=50)
    without.write_json(tmp_path / "without.json")
    assert "probability" not in json.loads((tmp_path / "without.json").read_text())
    assert without == replace(found, probability=None)
    with pytest.raises(ValueError, match="no probability of known people"):
        reliability_plot(without)


def test_the_numbers_are_right_on_people_apart():
    """Of comparisons of others, the observed share is within what chance leaves of the stated probability."""
    found, others = probability_of(people()), people(seed=1)
    rows = others.embeddings.astype(np.float64)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    left, right = np.triu_indices(len(units), 1)
    ratios, same = found.ratios((units @ units.T)[left, right]), others.identities[left] == others.identities[right]
    for low, high in ((-4, -2), (-2, 0), (0, 2), (2, 4)):
        inside = (ratios > low) & (ratios <= high)
        observed = np.log((inside & same).sum() / same.sum()) - np.log((inside & ~same).sum() / (~same).sum())
        assert low - 0.5 < observed < high + 0.5
    assert found.min_cllr < found.cllr < 0.5


def test_comparisons_of_a_scores_file_count_each_and_have_no_bands(tmp_path):
    random = np.random.default_rng(0)
    label = np.repeat([1, 0], 150)
    score = random.normal(1.5 * label, 1).round(1)  # many are equal
    lines = [f"{one},{kind}" for one, kind in zip(score, label, strict=True)]
    (tmp_path / "scores.csv").write_text("\n".join(["score,label", *lines]) + "\n")
    options = {"independent": True, "probability": True}
    calibration = calibrate(tmp_path / "scores.csv", ["0.1"], "expected", **options)
    found = calibration.probability
    assert (found.people, found.comparisons, found.observed) == (150, 150, ())
    assert found.slope == pytest.approx(1.5, abs=0.3)
    values = np.unique(score)
    kinds = [np.array([(score[label == kind] == value).mean() for value in values]) for kind in (1, 0)]
    assert WeighedScores(values, *kinds).fitted(150, 150) == found
    with pytest.raises(ValueError, match=r"scores\.csv: no probability of known people"):
        reliability_plot(calibration)
    impostors = [line for line in lines if line.endswith(",0")]
    (tmp_path / "impostors.csv").write_text("\n".join(["score,label", *impostors]) + "\n")
    assert calibrate(tmp_path / "impostors.csv", ["0.1"], "expected", independent=True).probability is None
    with pytest.raises(ValueError, match=r"impostors\.csv: it has no genuine comparison"):
        calibrate(tmp_path / "impostors.csv", ["0.1"], "expected", **options)


def test_a_person_whom_a_review_found_twice_is_no_impostor_of_himself(tmp_path):
    embeddings = people()
    rows = embeddings.embeddings.copy()
    rows[:3] = rows[3:6] + 0.1  # the first person is the second
    twice = replace(embeddings, embeddings=rows)
    write_embeddings(tmp_path / "set.npz", twice)
    seed = next(
        seed for seed in range(400)
        if {"p0", "p1"} == {(pair := review_pairs(tmp_path / "set.npz", 1, seed)[0][0]).person, pair.other_person}
    )  # fmt: skip
    (pair,), _ = review_pairs(tmp_path / "set.npz", 1, seed)
    (tmp_path / "review.csv").write_text(verdicts_csv([replace(pair, verdict="same")]))
    options = {"probability": True, "seed": seed, "replicates": 20}
    found = calibrate(tmp_path / "set.npz", ["0.1"], "expected", reviewed=tmp_path / "review.csv", **options)
    apart = twice.take(twice.identities != pair.person)
    assert found.probability == probability_of(apart, redrawing=Redrawing(20, seed))
    assert found.probability.people == PEOPLE - 1


def test_the_plot_has_the_bands(tmp_path):
    calibration = calibrate_set(people(), "set", ASKED)
    figure = reliability_plot(calibration)
    (axes,) = figure.axes
    found = calibration.probability
    assert axes.get_xlabel().endswith(f"Cllr {found.cllr:.4f}, minimum {found.min_cllr:.4f}")
    drawn = axes.lines[-1].get_xydata()
    assert len(drawn) == len(found.stated)
    assert 1 / (1 + np.exp(-drawn[:, 0])) == pytest.approx(found.stated)
    assert save_plot(figure, tmp_path / "plot.png").stat().st_size > 10_000


def test_in_python():
    embeddings = people()
    found = verisphere.calibrate(embeddings, far="0.1", probability=True, replicates=20)
    assert found.probability.at(found.probability.highest, prior=0.5).probability > 0.9
    assert verisphere.calibrate(embeddings, far="0.1", replicates=20).probability is None
    with pytest.raises(TypeError, match="probability are for two photographs"):
        verisphere.calibrate(embeddings, gallery=embeddings, probability=True)


def test_a_check_says_what_the_ratios_cost_on_its_people(tmp_path):
    """Half of the check's scores are of other faces: the fitted line promises too much there, and loses it."""
    write_embeddings(tmp_path / "set.npz", people())
    harder = people(seed=1)
    noise = np.random.default_rng(2).normal(size=harder.embeddings.shape) * (np.arange(len(harder)) % 2)[:, None]
    write_embeddings(tmp_path / "harder.npz", replace(harder, embeddings=(harder.embeddings + noise).astype("f4")))
    checks = [tmp_path / "harder.npz", tmp_path / "scores.csv"]
    checks[1].write_text("score,label\n0.9,1\n0.1,1\n0.2,0\n-0.4,0\n")
    options = {"checks": checks, "replicates": 20}
    found = calibrate(tmp_path / "set.npz", ["0.1"], "expected", probability=True, **options)
    itself, other, scores = found.checks
    assert itself.cllr is None
    units = (rows := harder.embeddings + noise) / np.linalg.norm(rows, axis=1, keepdims=True)
    left, right = np.triu_indices(len(units), 1)
    ratios, same = (
        found.probability.ratios((units @ units.T)[left, right]),
        harder.identities[left] == harder.identities[right],
    )
    cost = np.log2(1 + np.exp(-ratios[same])).mean() / 2 + np.log2(1 + np.exp(ratios[~same])).mean() / 2
    assert other.cllr[0] == pytest.approx(cost, abs=0.02)
    assert found.probability.cllr < other.cllr[1] < other.cllr[0] - 0.01
    exact = [found.probability.ratios(np.array(kind)) for kind in ([0.9, 0.1], [0.2, -0.4])]
    cost = np.log2(1 + np.exp(-exact[0])).mean() / 2 + np.log2(1 + np.exp(exact[1])).mean() / 2
    assert scores.cllr == pytest.approx((cost, 0.5), abs=1e-6)  # 0.1 and 0.2 are pooled
    text = calibration_text(found)
    for check in (other, scores):
        assert f"Cllr {check.cllr[0]:.4f}, at least {check.cllr[1]:.4f} by an increasing map of these scores" in text
    found.write_json(tmp_path / "out.json")
    assert read_calibration(tmp_path / "out.json") == found
    for probability, cllr in ((None, other.cllr), (found.probability, (0.5, -0.1)), (found.probability, (np.inf, 0.1))):
        with pytest.raises(ValueError, match=r"the check on 'harder\.npz' cannot have the Cllr"):
            replace(found, probability=probability, checks=(itself, replace(other, cllr=cllr)))
    assert [check.cllr for check in calibrate(tmp_path / "set.npz", ["0.1"], "expected", **options).checks] == [
        None
    ] * 3
