"""A FAR and an FRR promised at once: calibrated from files and arrays, written, read, checked, and used by `verify`."""

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import verisphere
from verisphere.decide import TooFewComparisonsError
from verisphere.decide.both_errors import FRR_CHANCE, AskedFrr
from verisphere.decide.order import SortedScores
from verisphere.decide.sample_size import independent_rank
from verisphere.files.calibration import read_calibration
from verisphere.files.embeddings import write_embeddings
from verisphere.files.verdicts import verdicts_csv
from verisphere.report.calibration_tables import calibration_text
from verisphere.score import unit_rows
from verisphere.ship.calibrate import calibrate, review_pairs

PEOPLE = 400


def made(seed, name, folder):
    """Three images of each of 300 people and one of each of 100, whose scores of one person and of two overlap."""
    random = np.random.default_rng(seed)
    whose = np.r_[np.repeat(np.arange(300), 3), np.arange(300, PEOPLE)]
    rows = random.normal(size=(PEOPLE, 12))[whose] + random.normal(size=(len(whose), 12))
    path = folder / name
    write_embeddings(path, verisphere.Embeddings(rows, identities=whose.astype(str)))
    return path, rows, whose


@pytest.fixture(scope="module")
def calibrated_on(tmp_path_factory):
    return made(0, "people.npz", tmp_path_factory.mktemp("both"))


@pytest.mark.parametrize("fold", ["one", "median", "lowest"])
def test_a_calibration_is_read_as_it_was_written_and_the_folds_say_what_they_are_about(calibrated_on, tmp_path, fold):
    path, rows, whose = calibrated_on
    found = calibrate(path, ["5e-2", "0.1"], frr="0.05", fold=fold, checks=[made(1, "other.npz", tmp_path)[0]])
    found.write_json(tmp_path / "c.json")
    assert read_calibration(tmp_path / "c.json") == found
    first, second = found.thresholds
    assert (first.frr.people, first.frr.rank, first.frr.fold) == (300, 7, fold)
    assert first.frr.threshold == second.frr.threshold
    assert first.frr.threshold < second.threshold < first.threshold
    scores = unit_rows(rows.astype(np.float32)).double().numpy()
    scores = scores @ scores.T
    triples = [scores[start : start + 3, start : start + 3][np.triu_indices(3, 1)] for start in range(0, 900, 3)]
    if fold != "one":
        number = np.sort([np.sort(one)[int(fold == "median")] for one in triples])
        assert first.frr.threshold == pytest.approx(number[6], abs=1e-12)
    said = {
        "one": "pairs of one person are called different",
        "median": "people are called different by the median of all pairs of their photographs",
        "lowest": "people have a pair of photographs that is called different",
    }
    assert f"at most 1 in 20 {said[fold]}; " in first.promise()
    genuine = np.concatenate(triples)
    on_itself, on_other = (check.unsure[0] for check in found.checks)
    assert on_itself.rejected == pytest.approx(np.mean(genuine < first.frr.threshold - 1e-12))
    assert on_itself.genuine == pytest.approx(
        np.mean((genuine > first.frr.threshold - 1e-12) & (genuine <= first.threshold))
    )
    assert 0 < on_other.impostor < 1
    text = calibration_text(found)
    assert text.count("of genuine comparisons are called different") == 4
    assert "of people are called different" in text
    again = verisphere.calibrate(rows, whose, far=["5e-2", "0.1"], frr="0.05", fold=fold)
    assert [one.frr for one in again.thresholds] == [one.frr for one in found.thresholds]


def test_without_an_frr_a_file_has_the_form_of_earlier_versions(calibrated_on, tmp_path):
    calibrate(calibrated_on[0], ["5e-2"]).write_json(tmp_path / "c.json")
    document = json.loads((tmp_path / "c.json").read_text())
    assert "frr" not in document["thresholds"][0]
    assert "unsure" not in document["checks"][0]


def test_what_no_frr_can_be_promised_for_is_refused(calibrated_on, tmp_path, unchecked):
    path = calibrated_on[0]
    for options, said in (
        ({"frr": "0"}, r"a guarantee needs an FRR of at least 1e-12 and below 1, got '0'"),
        ({"frr": "few"}, r"got 'few'"),
        ({"frr": "0.05", "fold": "best"}, r"fold is 'best'"),
        ({"fold": "median"}, r"name the FRR \(--frr, frr=\)"),
        ({"frr": "0.05", "guarantee": "approximate"}, r"beside guarantee 'confident' or 'expected', not 'approximate'"),
        ({"frr": "0.05", "guarantee": "worst-group"}, r"not 'worst-group'"),
    ):
        with pytest.raises(ValueError, match=said):
            calibrate(path, ["5e-2"], **options)
    with pytest.raises(TooFewComparisonsError, match=r"FRR 1e-3 needs 4,603 people with two images or more; there are"):
        calibrate(path, ["5e-2"], frr="1e-3")
    alone = tmp_path / "alone.npz"
    write_embeddings(alone, verisphere.Embeddings(np.eye(200)[:, :200], identities=np.arange(200).astype(str)))
    with pytest.raises(ValueError, match=r"there are 0$"):
        calibrate(alone, ["5e-2"], frr="0.05", accept_implausible=True)
    scores = tmp_path / "scores.csv"
    scores.write_text("score,label\n" + "".join(f"{number / 500 + number % 2},{number % 2}\n" for number in range(400)))
    with pytest.raises(ValueError, match=r"one number of each person, and a scores file names no people"):
        calibrate(scores, ["5e-2"], independent=True, frr="0.05")
    rows = np.random.default_rng(0).normal(size=(50, 4))
    gallery = verisphere.Embeddings(rows, identities=np.arange(50).astype(str))
    with pytest.raises(TypeError, match="far, replicates, cap, factor, frr, fold and probability are for two"):
        verisphere.calibrate(rows, np.arange(50) + 100, gallery=gallery, frr="0.05")


def test_people_whom_a_review_found_twice_or_may_have_missed_do_not_count(calibrated_on, tmp_path):
    path = calibrated_on[0]
    pairs, embeddings = review_pairs(path, 6)
    (tmp_path / "review.csv").write_text(verdicts_csv([replace(pair, verdict="same") for pair in pairs]))
    (plain,) = calibrate(path, ["0.1"], frr="0.05").thresholds
    (found,) = calibrate(path, ["0.1"], frr="0.05", reviewed=tmp_path / "review.csv", unfound=20).thresholds
    several = {person for person, images in Counter(embeddings.identities.tolist()).items() if images > 1}
    twice = {pair.person for pair in pairs} & several
    assert 0 < len(twice) <= 6
    assert (plain.frr.people, found.frr.people) == (300, 300 - len(twice) - 20)
    assert found.frr.rank == independent_rank(found.frr.people, "0.05", "confident", FRR_CHANCE) < plain.frr.rank
    assert found.frr.threshold <= plain.frr.threshold
    asked = AskedFrr("0.05", "one", SortedScores(np.linspace(0, 1, 300)), unfound=100)
    promised = asked.promised("confident", SortedScores(np.linspace(-1, 0.5, 200)), 0.4)
    assert (promised.people, promised.threshold) == (200, pytest.approx((promised.rank - 1) / 299))
    too_few = AskedFrr("0.05", "one", SortedScores(np.linspace(0, 1, 300)), unfound=211)
    assert "needs 90 people with two images or more; there are 89" in too_few.promised("confident", asked.numbers, 0.4)


def test_a_check_that_says_too_little_of_the_unsure_is_refused(calibrated_on, tmp_path):
    calibrate(calibrated_on[0], ["5e-2", "0.1"], frr="0.05").write_json(tmp_path / "c.json")
    document = json.loads((tmp_path / "c.json").read_text())
    del document["checks"][0]["unsure"][0]
    (tmp_path / "c.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match="says how many are unsure at other thresholds"):
        read_calibration(tmp_path / "c.json")
