"""Thresholds under an assumption from files and arrays: calibrated, written, read, shipped in one vocabulary."""

import json
from dataclasses import replace

import numpy as np
import pytest

import verisphere
from verisphere.files.calibration import read_calibration
from verisphere.files.embeddings import write_embeddings
from verisphere.report.calibration_tables import calibration_text
from verisphere.ship.calibrate import calibrate

PEOPLE = 320


@pytest.fixture(scope="module")
def embeddings(tmp_path_factory):
    """Two images each of people whose directions are drawn alike."""
    random = np.random.default_rng(0)
    person = random.normal(size=(PEOPLE, 24))
    rows = np.repeat(person, 2, 0) + 0.4 * random.normal(size=(2 * PEOPLE, 24))
    path = tmp_path_factory.mktemp("assumed") / "people.npz"
    write_embeddings(path, verisphere.Embeddings(rows, identities=np.repeat(np.arange(PEOPLE), 2).astype(str)))
    return path


@pytest.mark.parametrize(
    ("guarantee", "cap", "said"),
    [
        ("capped", 2.0, "95 % under a cap of 2"),
        ("tail", None, "none"),
        ("convention", None, "none"),
    ],
)
def test_a_calibration_is_read_as_it_was_written(embeddings, tmp_path, guarantee, cap, said):
    found = calibrate(embeddings, ["1e-3"], guarantee, cap=cap, replicates=20)
    found.write_json(tmp_path / "c.json")
    assert read_calibration(tmp_path / "c.json") == found
    threshold = found.thresholds[0]
    assert threshold.people == PEOPLE
    assert said in calibration_text(found)
    assert threshold.promise() in calibration_text(found)
    again = verisphere.calibrate(
        rows_of(embeddings), people_of(embeddings), far="1e-3", guarantee=guarantee, cap=cap, replicates=20
    )
    assert again.threshold == found.threshold


def rows_of(path):
    return np.load(path)["embeddings"]


def people_of(path):
    return np.load(path)["identities"]


def test_the_threshold_is_near_the_truth_and_stricter_under_a_wider_cap(embeddings):
    one, two, five = (calibrate(embeddings, ["1e-3"], "capped", cap=cap).threshold for cap in (1.2, 2.0, 5.0))
    assert one < two < five
    assert calibrate(embeddings, ["1e-3"], "convention").threshold < one


def test_an_earlier_file_without_assumptions_is_read_and_written_as_before(embeddings, tmp_path):
    found = calibrate(embeddings, ["1e-1"])
    found.write_json(tmp_path / "c.json")
    assert "assumption" not in json.loads((tmp_path / "c.json").read_text())["thresholds"][0]
    assert read_calibration(tmp_path / "c.json") == found


def test_an_altered_assumption_is_refused(embeddings, tmp_path):
    calibrate(embeddings, ["1e-3"], "capped", cap=2.0).write_json(tmp_path / "c.json")
    document = json.loads((tmp_path / "c.json").read_text())
    document["thresholds"][0]["assumption"]["cap"] = 1.1
    (tmp_path / "altered.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"altered\.json: not a calibration .* is not what guarantee 'capped' takes"):
        read_calibration(tmp_path / "altered.json")


def test_what_does_not_fit_together_is_refused(embeddings, tmp_path, unchecked):
    with pytest.raises(ValueError, match="guarantee 'capped' takes a cap, such as --cap 2"):
        calibrate(embeddings, ["1e-3"], "capped")
    with pytest.raises(ValueError, match="a cap is for guarantee 'capped', not for 'confident'"):
        calibrate(embeddings, ["1e-1"], "confident", cap=2.0)
    with pytest.raises(ValueError, match=r"no review .* 'capped' takes all pairs of all people"):
        calibrate(embeddings, ["1e-3"], "capped", cap=2.0, unfound=1)
    scores = tmp_path / "scores.csv"
    scores.write_text("score,label\n" + "".join(f"{place / 100},{place % 2}\n" for place in range(100)))
    with pytest.raises(ValueError, match="guarantee 'tail' chooses pairs of people, and a scores file does not say"):
        calibrate(scores, ["1e-1"], "tail", independent=True)
    with pytest.raises(TypeError, match="cap, factor, frr, fold and probability are for two photographs"):
        verisphere.calibrate(rows_of(embeddings), people_of(embeddings), gallery=_gallery(), cap=2.0)


def _gallery():
    return verisphere.Embeddings(np.random.default_rng(1).normal(size=(9, 24)), identities=np.arange(9).astype(str))


def test_the_choice_of_images_follows_the_seed(embeddings):
    first, second = (calibrate(embeddings, ["1e-3"], "capped", cap=2.0, seed=seed).thresholds[0] for seed in (0, 1))
    assert first.threshold != second.threshold
    assert (
        replace(first, seed=1, threshold=second.threshold, assumption=second.assumption, genuine=second.genuine)
        == second
    )


def test_worst_group_needs_domains_and_ships_like_the_others(embeddings, tmp_path):
    with pytest.raises(ValueError, match="is about the domains of a set, and this one has none"):
        calibrate(embeddings, ["1e-1"], "worst-group")
    (tmp_path / "scores.csv").write_text("score,label\n0.9,1\n" + "0.1,0\n" * 60)
    with pytest.raises(ValueError, match="a factor is for guarantee 'worst-group', not for 'confident'"):
        calibrate(tmp_path / "scores.csv", ["0.1"], independent=True, factor=2.0)
    with pytest.raises(ValueError, match="a factor is for guarantee 'worst-group', not for 'confident'"):
        calibrate(embeddings, ["1e-1"], factor=2.0)
    rows, people = rows_of(embeddings), people_of(embeddings)
    domains = np.where(people.astype(int) % 2 == 0, "even", "odd")
    path = tmp_path / "domains.npz"
    write_embeddings(path, verisphere.Embeddings(rows, identities=people, domains=domains))
    found = calibrate(path, ["1e-1"], "worst-group", factor=2.0)
    found.write_json(tmp_path / "c.json")
    assert read_calibration(tmp_path / "c.json") == found
    assert [(one.name, one.people) for one in found.thresholds[0].domains] == [("even", 160), ("odd", 160), ("", 320)]
    text = calibration_text(found)
    assert "in each of even, odd at once" in text
    alone = calibrate(path, ["1e-1"], "worst-group").thresholds[0]
    assert alone.threshold == max(one.threshold for one in alone.domains)
    with pytest.raises(TypeError, match="domains belong to the set: give Embeddings"):
        verisphere.calibrate(rows, people, far="1e-1", guarantee="worst-group", domains=domains)
    assert verisphere.calibrate(
        verisphere.Embeddings(rows, identities=people, domains=domains), far="1e-1", guarantee="worst-group", factor=2.0
    ).threshold == pytest.approx(found.threshold)


def test_worst_group_states_what_the_worst_domain_costs(embeddings):
    """The TAR that each domain would have by itself, beside the one of the check; none without genuine pairs."""
    rows, people = rows_of(embeddings), people_of(embeddings)
    rows = rows + rows.std() * np.random.default_rng(2).normal(size=rows.shape)
    domains = np.where(people.astype(int) % 2 == 0, "even", "odd")
    whole = verisphere.Embeddings(rows, identities=people, domains=domains)
    found = verisphere.calibrate(whole, far="1e-1", guarantee="worst-group")
    checked, strictest = dict(found.checks[0].at(0)), max(found.thresholds[0].domains, key=lambda one: one.threshold)
    for one in found.thresholds[0].domains:
        own = verisphere.calibrate(rows[domains == one.name], people[domains == one.name], far="1e-1").thresholds[0]
        assert (one.threshold, one.tar) == (pytest.approx(own.threshold), pytest.approx(own.genuine.tar))
        assert one is strictest or one.tar > checked[one.name].tar
        assert f", with a TAR of {one.tar:.4f} (80 comparisons" in found.meaning()
    assert strictest.tar == pytest.approx(checked[strictest.name].tar)
    single = whole.take(np.unique(people, return_index=True)[1])
    found = verisphere.calibrate(single, far="1e-1", guarantee="worst-group")
    assert [one.tar for one in found.thresholds[0].domains] == [None, None]
    assert "TAR" not in found.thresholds[0].meaning()
