"""`verisphere calibrate` as a function: thresholds, refusals, checks on all pairs, and the file that ships."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.vocabulary import Embeddings, ImageSource, Origin, Preprocessing
from verisphere.decide import TooFewComparisonsError, disjoint_pairs, operating_point
from verisphere.decide.bounds import binomial_bounds
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.measure.identification import promised_rates
from verisphere.models.gallery import Gallery
from verisphere.report.calibration_tables import calibration_text, thresholds_table
from verisphere.ship.calibrate import Calibration, calibrate, calibrate_set, read_calibration
from verisphere.ship.calibrated_files import AskedThresholds, EmbeddingsSet
from verisphere.ship.export import Results
from verisphere.ship.gallery import StrangersInGallery
from verisphere.ship.opened_gallery import OpenedGallery

PIXELS = Preprocessing((112, 112), "RGB", "NCHW", 127.5, 127.5)
MADE = Origin(model="ab" * 32, flip=False, precision="float32", images="faces.zip", preprocessing=PIXELS)


def faces(people: int, images: int = 2, domains: tuple[str, ...] = (), seed: int = 0, dim: int = 12) -> Embeddings:
    """People with a centre each; each person's images go round the domains, all in the first one lean to one face."""
    generator = np.random.default_rng(seed)
    person = np.repeat(np.arange(people), images)
    number = np.tile(np.arange(images), people) * len(domains) // images
    rows = generator.normal(size=(people, dim))[person] + 0.5 * generator.normal(size=(len(person), dim))
    rows[number == 0, 0] += 2.0 * bool(domains)
    return Embeddings(
        rows.astype(np.float32),
        np.array([f"p{one}/{image}.jpg" for image, one in enumerate(person)]),
        np.array([f"{seed}-{one}" for one in person]),
        np.array(domains)[number] if domains else None,
    )


def saved(folder: Path, name: str, embeddings: Embeddings) -> Path:
    write_embeddings(folder / name, embeddings)
    return folder / name


def all_scores(embeddings: Embeddings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Score of every two rows, whether they show one person, and the domain that they share."""
    rows = embeddings.embeddings.astype(np.float64)
    units = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32).astype(np.float64)
    left, right = np.triu_indices(len(rows), 1)
    domains = np.full(len(rows), "") if embeddings.domains is None else embeddings.domains
    home = np.where(domains[left] == domains[right], domains[left], "")
    return (units[left] * units[right]).sum(1), embeddings.identities[left] == embeddings.identities[right], home


def score_lines(path: Path, genuine: list[float], impostor: list[float], domain: str = "") -> Path:
    rows = [f"{score},1,{domain}" for score in genuine] + [f"{score},0,{domain}" for score in impostor]
    path.write_text("\n".join(["score,label,domain", *rows]) + "\n")
    return path


def test_independent_thresholds_come_from_one_matching(tmp_path: Path):
    embeddings = faces(401, 2)
    path = saved(tmp_path, "set.npz", embeddings)
    found = calibrate(path, ["1e-2", "0.1", 0.05], "expected", seed=7)
    person = np.unique(embeddings.identities, return_inverse=True)[1]
    pairs = disjoint_pairs(person.astype(np.int64), 7)
    rows = embeddings.embeddings.astype(np.float64)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    scores = np.sort((units[pairs[:, 0]] * units[pairs[:, 1]]).sum(1))[::-1]  # 200: ranks 2, 20 and 10
    assert [threshold.far_target for threshold in found.thresholds] == ["1e-2", "0.1", "0.05"]
    assert [threshold.rank for threshold in found.thresholds] == [2, 20, 10]
    assert np.allclose([threshold.threshold for threshold in found.thresholds], scores[[1, 19, 9]], rtol=0, atol=1e-7)
    assert {(one.comparisons, one.people, one.seed) for one in found.thresholds} == {(200, 401, 7)}
    assert calibrate(path, ["1e-2", "0.1", 0.05], "expected", seed=7) == found
    assert calibrate(path, ["0.1"], "expected", seed=8).thresholds[0].threshold != found.thresholds[1].threshold
    assert found.source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (found.source.file, found.source.rows, found.source.people) == ("set.npz", 802, 401)


def test_a_set_in_memory_has_the_digest_of_its_numbers_and_its_people():
    embeddings = faces(30)
    people = replace(embeddings, identities=np.array([f"of {person}" for person in embeddings.identities]))
    numbers = replace(embeddings, embeddings=2 * embeddings.embeddings)
    sets = (embeddings, people, numbers, replace(embeddings))
    digests = [calibrate_set(one, "set", AskedThresholds(["0.2"], "expected")).source.sha256 for one in sets]
    assert len(set(digests)) == 3
    assert digests[3] == digests[0]


def test_the_check_is_over_all_pairs_of_each_domain(tmp_path: Path):
    embeddings, other = faces(90, 4, ("lookalike", "plain")), faces(40, 4, ("lookalike", "plain"), seed=1)
    paths = [saved(tmp_path, "set.npz", embeddings), saved(tmp_path, "others.npz", other)]
    found = calibrate(paths[0], ["0.05", "0.1"], "expected", checks=paths[1:])
    assert [check.source.file for check in found.checks] == ["set.npz", "others.npz"]
    assert [check.shared_people for check in found.checks] == [90, 0]
    for check, rows in zip(found.checks, (embeddings, other), strict=True):
        score, same, home = all_scores(rows)
        for place, threshold in enumerate(found.thresholds):
            for name, point in check.at(place):
                inside = np.full(len(score), True) if name == "all" else home == name
                assert point.genuine_total == (inside & same).sum()
                assert point.impostor_accepted == (score[inside & ~same] > threshold.threshold).sum()
                assert point.impostor_total == (inside & ~same).sum()
                assert point.tar == (score[inside & same] > threshold.threshold).mean()
        assert list(check.domains) == ["lookalike", "plain"]


def test_domains_above_the_target_are_called_out(tmp_path: Path):
    """Threshold 89: nine of ten impostors of the domain twins pass, none of the domain plain, 18 of 40 of all."""
    own = score_lines(tmp_path / "own.csv", [100.0], [float(number) for number in range(99)])
    check = tmp_path / "check.csv"
    lines = [f"{95 if number % 10 else 0},0,twins" for number in range(20)] + ["1,0,plain"] * 20
    check.write_text("\n".join(["score,label,domain", *lines, "99,1,twins", "99,1,plain"]) + "\n")
    found = calibrate(own, ["0.1"], "expected", independent=True, checks=[check])
    assert found.thresholds[0].threshold == 89.0
    assert [(name, point.far) for name, point, *_ in found.checks[1].over_target(0)] == [("all", 0.45), ("twins", 0.9)]
    # a scores file does not say whose its scores are
    assert not any(is_above for *_, is_above in found.checks[1].over_target(0))
    said = (
        "above the target 0.1 only if no two comparisons share a person: all 0.45, twins 0.9; people were not redrawn"
    )
    assert said in calibration_text(found)
    assert "bounds take comparisons as independent" in calibration_text(found)
    assert not any(is_above for *_, is_above in found.checks[0].over_target(0))


def test_the_default_is_confident_and_never_gives_way(tmp_path: Path):
    """58 people are 29 comparisons, enough at 0.1 (0.9 ** 29 = 0.047); 57 are 28, enough for `expected` alone."""
    found = calibrate(saved(tmp_path, "set.npz", faces(58)), ["0.1"])
    assert [(one.guarantee, one.confidence) for one in found.thresholds] == [("confident", 0.95)]
    fewer = saved(tmp_path, "fewer.npz", faces(57))
    with pytest.raises(
        TooFewComparisonsError, match=r"'confident' at FAR 0.1 needs 58 people .29 .*; got 57 people .28 "
    ):
        calibrate(fewer, ["0.1"])
    assert calibrate(fewer, ["0.1"], "expected").thresholds[0].confidence is None


def test_approximate_takes_all_pairs_with_people(tmp_path: Path):
    path = saved(tmp_path, "set.npz", faces(60, 3))
    found = calibrate(path, ["0.1", "3e-2"], "approximate", replicates=50, seed=2)
    score, same, _ = all_scores(read_embeddings(path))
    for threshold in found.thresholds:
        plain = operating_point(score[same], score[~same], far=threshold.far_target).threshold
        assert 0 < threshold.threshold - plain < 0.1
        assert (threshold.comparisons, threshold.people, threshold.replicates) == (60 * 59 // 2 * 9, 60, 50)
    assert (
        found.thresholds[0].threshold
        == calibrate(path, ["0.1"], "approximate", replicates=50, seed=2).thresholds[0].threshold
    )
    with pytest.raises(
        ValueError, match=r"set.npz: guarantee 'approximate' at FAR 1e-2 needs 138 people; got 60 people; possible: "
    ):
        calibrate(path, ["1e-2"], "approximate")


def test_approximate_asks_for_more_scores_where_few_people_hold_the_highest(tmp_path: Path):
    """All of the highest scores are one person's: where it is not drawn, those collected at first count nothing."""
    rows = np.random.default_rng(0).normal(size=(700, 64))
    rows[:, 0] += 3
    rows[:400] = np.eye(64)[0]
    people = np.array(["hub"] * 400 + [f"p{number}" for number in range(300)])
    path = saved(tmp_path, "hub.npz", Embeddings(rows.astype(np.float32), np.arange(700).astype(str), people))
    passes = []

    def noted(items, description, total=None, done=0):
        passes.append(description)
        return items

    found = calibrate(path, ["0.1"], "approximate", replicates=20, accept_implausible=True, progress=noted)
    assert found.thresholds[0].comparisons == 400 * 300 + 300 * 299 // 2
    assert passes.count("collecting the highest scores") > 1


@pytest.mark.parametrize("option", ["replicates", "seed"])
def test_scores_are_neither_matched_nor_redrawn(tmp_path: Path, option: str):
    path = score_lines(tmp_path / "scores.csv", [0.9], [number / 100 for number in range(99)])
    with pytest.raises(ValueError, match=rf"scores\.csv: --{option} \({option}=7\) does nothing here: scores name no"):
        calibrate(path, ["0.05"], "expected", independent=True, probability=option == "seed", **{option: 7})


def test_scores_said_to_be_independent(tmp_path: Path):
    path = score_lines(tmp_path / "scores.csv", [0.9, 0.8, 0.2], [number / 100 for number in range(99)])
    found = calibrate(path, ["0.05", "0.02"], "expected", independent=True)
    # 100 * 0.05: rank 5 of 0.98, 0.97, 0.96, 0.95, 0.94
    assert [(one.rank, one.threshold) for one in found.thresholds] == [(5, 0.94), (2, 0.97)]
    assert {(one.people, one.seed) for one in found.thresholds} == {(None, None)}
    (point, _) = found.checks[0].points
    assert (point.impostor_accepted, point.genuine_accepted, point.rule) == (4, 0, "expected")
    assert (found.source.kind, found.source.people, found.origin) == ("scores", None, None)
    np.savez(tmp_path / "scores.npz", score=np.arange(99.0), label=np.zeros(99, int))
    found = calibrate(tmp_path / "scores.npz", ["0.05"], "expected", independent=True, checks=[path])
    assert found.thresholds[0].threshold == 94.0
    assert found.checks[0].lacking == ("genuine",)
    assert (
        "on the calibration file itself, scores.npz, all comparisons: no rates, for it has no genuine"
        in calibration_text(found)
    )
    assert found.checks[1].points[0].genuine_accepted == 0


def test_scores_alone_promise_nothing(tmp_path: Path):
    path = score_lines(tmp_path / "scores.csv", [0.9], [number / 100 for number in range(99)])
    with pytest.raises(
        ValueError, match=r"scores.csv: guarantee 'expected' needs comparisons that share no person.*say"
    ):
        calibrate(path, ["0.05"], "expected")
    for independent in (False, True):
        with pytest.raises(ValueError, match=r"scores.csv: guarantee 'approximate' chooses pairs of people"):
            calibrate(path, ["0.05"], "approximate", independent=independent)
    with pytest.raises(ValueError, match=r"--independent .* is for scores files"):
        calibrate(saved(tmp_path, "set.npz", faces(60)), ["0.05"], "expected", independent=True)


def test_too_few_people_names_the_number(tmp_path: Path):
    path = saved(tmp_path, "set.npz", faces(61))
    with pytest.raises(TooFewComparisonsError) as refused:
        calibrate(path, ["0.1", "1e-2"], "expected")
    assert str(refused.value) == (
        f"{path}: guarantee 'expected' at FAR 1e-2 needs 198 people (99 comparisons that share no person); got 61 "
        "people (30 comparisons); possible: 'confident' at FAR 9.51e-2 or higher, 'expected' "
        "at FAR 3.23e-2 or higher, 'approximate' at FAR 2.29e-2 or higher (at FAR 1e-2 its confidence would be at most "
        "26 %, and 50 % is the least); no method can promise it from so few people without an assumption; with one "
        "(docs/promises.md): 'convention'"
    )
    with pytest.raises(TooFewComparisonsError) as several:
        calibrate(path, ["1e-2", "1e-3", "0.1", "1e-4"], "expected")
    assert str(several.value) == f"{refused.value}; FAR 1e-3 needs 1,998 people; FAR 1e-4 needs 19,998 people"
    alone = replace(faces(5), identities=np.array(["one"] * 10))
    with pytest.raises(ValueError, match=r"one.npz: it has no impostor comparison, so it can set no threshold"):
        calibrate(saved(tmp_path, "one.npz", alone), ["0.1"], "expected")


@pytest.mark.parametrize(
    ("fars", "fault"),
    [
        ([], "no FAR to calibrate at"),
        (["0.1", "1e-1"], "FAR 0.1 is asked for twice"),
        (["2"], "must lie between 0 and 1"),
        (["0"], "at least 1e-12"),
        (["1"], "below 1, got '1'"),
        (["1e-400"], "at least 1e-12"),
        (["some"], "decimal number"),
    ],
)
def test_fars_are_checked(tmp_path: Path, fars: list[str], fault: str):
    with pytest.raises(ValueError, match=fault) as refused:
        calibrate(tmp_path / "no such file.npz", fars, "expected")  # before a file is looked at
    assert "file.npz" not in str(refused.value)


def test_files_that_are_neither(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        calibrate(tmp_path / "none.npz", ["0.1"], "expected")
    np.savez(tmp_path / "other.npz", rows=np.ones(3))
    with pytest.raises(ValueError, match=r"neither an embeddings file .* nor a scores file .*; it has rows"):
        calibrate(tmp_path / "other.npz", ["0.1"], "expected")
    (tmp_path / "broken.npz").write_bytes(saved(tmp_path, "set.npz", faces(60)).read_bytes()[:300])
    with pytest.raises(ValueError, match=r"not an .npz file of plain arrays"):
        calibrate(tmp_path / "broken.npz", ["0.1"], "expected")
    (tmp_path / "text.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="line 1: the header must name score and label"):
        calibrate(tmp_path / "text.csv", ["0.1"], "expected", independent=True)


def test_skipping_where_there_is_nothing_to_skip_is_refused(tmp_path: Path):
    people = faces(60)
    with pytest.raises(ValueError, match=r"set\.npz: --skip-empty .* does nothing here: no file has domains or lacks"):
        calibrate(saved(tmp_path, "set.npz", people), ["0.1"], "expected", skip_empty=True)
    domains = np.array(["day", "night"])[np.arange(len(people)) % 2]
    calibrate(saved(tmp_path, "set.npz", replace(people, domains=domains)), ["0.1"], "expected", skip_empty=True)


def test_a_check_of_another_model_is_refused(tmp_path: Path):
    own = saved(tmp_path, "own.npz", replace(faces(60), origin=MADE))
    wide = saved(tmp_path, "wide.npz", faces(20, dim=16, seed=1))
    with pytest.raises(ValueError, match=r"wide.npz: 16 numbers a row, but .*own.npz has 12; a threshold holds for"):
        calibrate(own, ["0.1"], "expected", checks=[wide])
    other = saved(tmp_path, "other.npz", replace(faces(20, seed=1), origin=replace(MADE, model="cd" * 32, flip=True)))
    with pytest.raises(
        ValueError, match=r"other.npz: not made as .*own.npz was \(weights cdcd.* against abab.*, flip true"
    ):
        calibrate(own, ["0.1"], "expected", checks=[other])
    same = saved(tmp_path, "same.npz", replace(faces(20, seed=1), origin=replace(MADE, images="elsewhere")))
    unknown = saved(tmp_path, "unknown.npz", faces(20, seed=1))
    found = calibrate(own, ["0.1"], "expected", checks=[same, unknown])
    assert found.origin == MADE
    assert found.checks[1].points == found.checks[2].points


def test_a_threshold_of_templates_is_not_one_of_photographs(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    made = replace(faces(60, 4), origin=MADE)
    pairs = np.char.add(made.identities, np.tile(["/0", "/1"], 120))
    path = saved(tmp_path, "templates.npz", replace(made, templates=pairs))
    single = saved(tmp_path, "single.npz", replace(faces(60, 2, seed=1), origin=MADE))
    for first, second in ((path, single), (single, path)):
        with pytest.raises(ValueError, match=f"{second.name}: its rows are .*, and those of {first} "):
            calibrate(first, ["1e-1"], checks=[second])
    found = calibrate(path, ["1e-1"])
    assert found.source.pooled
    assert "templates.npz: its rows are templates of several photographs" in caplog.text
    found.write_json(tmp_path / "calibration.json")
    with pytest.raises(ValueError, match=r"the rows of templates.npz are templates .* compares photographs one by one"):
        Results(calibration=tmp_path / "calibration.json").check(tmp_path, MADE, False)
    gallery = OpenedGallery(single, Gallery(read_embeddings(single)))
    promised = StrangersInGallery(EmbeddingsSet.read(path), gallery).calibration(["1e-1"])
    promised.write_json(tmp_path / "gallery.json")
    with pytest.raises(ValueError, match=r"gallery.json: the rows of templates.npz are templates"):
        Results(gallery=tmp_path / "gallery.json").check(tmp_path, MADE, False)
    with pytest.raises(ValueError, match=r"calibration: its strangers are templates .* and the probes single photogr"):
        promised_rates(faces(60, 2, seed=2), gallery.gallery, replace(promised, origin=None, gallery_origin=None), "f")
    one_each = saved(tmp_path, "one.npz", replace(made, templates=made.names))
    assert not calibrate(one_each, ["1e-1"], checks=[single]).source.pooled


def test_what_lacks_comparisons_is_refused_or_named(tmp_path: Path):
    lonely = faces(60, 2, ("a", "b"))  # one image of each person in each domain: no genuine pair inside
    path = saved(tmp_path, "lonely.npz", lonely)
    says = (
        r"lonely.npz: domain 'a' has no genuine comparison, domain 'b' has no genuine comparison, so no .*--skip-empty"
    )
    with pytest.raises(ValueError, match=says):
        calibrate(path, ["0.1"], "expected")
    own = calibrate(path, ["0.1"], "expected", skip_empty=True).checks[0]
    assert (own.domains, own.skipped, own.lacking, len(own.points)) == ({}, ("a", "b"), (), 1)

    single = saved(tmp_path, "single.npz", faces(60, 1, ("a",)))  # fit to calibrate on, without a TAR
    found = calibrate(single, ["0.1"], "expected")
    assert (found.checks[0].lacking, found.checks[0].points, found.checks[0].domains) == (("genuine",), (), {})
    checked = saved(tmp_path, "set.npz", faces(60, 2, seed=1))
    with pytest.raises(ValueError, match=r"single.npz: it has no genuine comparison, domain .* has no genuine"):
        calibrate(checked, ["0.1"], "expected", checks=[single])
    found = calibrate(checked, ["0.1"], "expected", checks=[single], skip_empty=True)
    assert found.checks[1].lacking == ("genuine",)
    assert "single.npz (60 embeddings of 60 people" in calibration_text(found)

    scores = score_lines(tmp_path / "scores.csv", [], [0.1, 0.2], "night")
    with pytest.raises(
        ValueError, match=r"scores.csv: it has no genuine comparison, domain 'night' has no genuine comparison, so"
    ):
        calibrate(checked, ["0.1"], "expected", checks=[scores])


def test_people_of_both_sets_are_counted(tmp_path: Path):
    own = saved(tmp_path, "own.npz", faces(60))
    both = replace(faces(60, seed=1), identities=np.repeat([f"0-{number}" for number in range(40, 100)], 2))
    found = calibrate(own, ["0.1"], "expected", checks=[saved(tmp_path, "both.npz", both)])
    assert found.checks[1].shared_people == 20
    assert "20 of its people bear the name of one calibrated on" in calibration_text(found)


@pytest.fixture
def written(tmp_path: Path) -> tuple[Calibration, Path]:
    path = saved(tmp_path, "set.npz", replace(faces(60, 4, ("lookalike", "plain")), origin=MADE))
    scores = score_lines(tmp_path / "scores.csv", [0.9, -np.inf], [0.5, 0.1, np.inf], "night")
    found = calibrate(path, ["0.1", "0.05"], "expected", checks=[scores])
    found.write_json(tmp_path / "deep" / "calibration.json")
    return found, tmp_path / "deep" / "calibration.json"


def test_the_file_is_read_back_whole(written: tuple[Calibration, Path]):
    found, path = written
    assert read_calibration(path) == found
    document = json.loads(path.read_text())
    assert document["format"] == 1
    assert [entry["meaning"] for entry in document["thresholds"]] == [one.meaning() for one in found.thresholds]
    assert document["origin"]["model"] == MADE.model


def test_an_approximate_calibration_is_read_back_too(tmp_path: Path):
    found = calibrate(saved(tmp_path, "set.npz", faces(60)), ["0.1"], "approximate", replicates=20)
    found.write_json(tmp_path / "calibration.json")
    assert read_calibration(tmp_path / "calibration.json") == found


def test_an_approximate_calibration_of_an_older_version_states_the_limit_of_today(tmp_path: Path):
    """Older versions wrote confidence 0.95, also where so many people are refused today."""
    path = tmp_path / "calibration.json"
    calibrate(saved(tmp_path, "set.npz", faces(60)), ["0.03"], "approximate", replicates=20).write_json(path)
    document = json.loads(path.read_text())
    assert document["thresholds"][0]["confidence"] == 0.59  # 1 - 0.97 ** 30 = 0.599
    older = path.read_text().replace('"0.03"', '"1e-2"').replace('"confidence": 0.59', '"confidence": 0.95')
    path.write_text(older)
    found = read_calibration(path)
    assert found.thresholds[0].confidence == 0.26
    assert "at most 26 % confidence" in found.thresholds[0].meaning()
    assert "at most 26 % |" in thresholds_table(found)


def change(document: dict, keys: tuple, value: object) -> None:
    """Put a value where the keys lead, or take the place away."""
    *way, last = keys
    for key in way:
        document = document[key]
    if value is ...:
        del document[last]
    else:
        document[last] = value


@pytest.mark.parametrize(
    ("keys", "value", "fault"),
    [
        (("format",), 2, "format 2, and this version reads format 1"),
        (("format",), ..., "no object with a format"),
        (("thresholds",), [], "no FAR to calibrate at"),
        (("thresholds", 0, "threshold"), "0.1", "threshold must be a number, got '0.1'"),
        (("thresholds", 0, "threshold"), 0.1, "'set.npz' is not of the thresholds that are stated"),
        (("thresholds", 0, "rank"), 1, "rank 1 of 30 comparisons is not what guarantee 'expected' takes"),
        (("thresholds", 0, "guarantee"), "certain", "must be 'expected' or 'confident' or 'approximate'"),
        (("thresholds", 0, "guarantee"), "confident", "rank 3 of 30"),
        (("thresholds", 0, "seed"), ..., r"thresholds\[0\].seed is missing"),
        (("source", "sha256"), "ab", "digest 'ab'"),
        (("checks", 0, "points", 0, "far"), 0.5, "a rate of 0.5 is not what"),
        (("checks", 0, "points", 0, "impostor_total"), 0, "not a calibration"),
        (("checks", 0, "points"), [], "'set.npz' is not of the thresholds that are stated"),
    ],
)
def test_a_changed_file_is_refused_in_one_line(written: tuple[Calibration, Path], keys: tuple, value, fault: str):
    _, path = written
    document = json.loads(path.read_text())
    change(document, keys, value)
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=fault) as refused:
        read_calibration(path)
    assert str(refused.value).startswith(f"{path}: not a calibration as `verisphere calibrate` writes it: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", "far,threshold\n", '{"format": NaN}', "[" * 100_000, "\x00", "ÿ"])
def test_other_files_are_refused_in_one_line(tmp_path: Path, text: str):
    (tmp_path / "file.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(
        ValueError, match=r"file.json: not a calibration as `verisphere calibrate` writes it: ."
    ) as refused:
        read_calibration(tmp_path / "file.json")
    assert "\n" not in str(refused.value)
    with pytest.raises(FileNotFoundError, match="there is no such file"):
        read_calibration(tmp_path / "none.json")


def test_the_text_shows_thresholds_meanings_and_checks(written: tuple[Calibration, Path]):
    text = calibration_text(written[0])
    assert "calibrated on set.npz (240 embeddings of 60 people, SHA-256" in text
    assert "model abababababab" in text
    assert "| FAR  | guarantee | threshold | comparisons | people | rank | confidence |" in text
    for threshold in written[0].thresholds:
        assert f"FAR {threshold.far_target}: {threshold.promise()}\nexactly: {threshold.meaning()}; " in text
    assert "each holds by itself" in text
    assert "| 0.1 lookalike" in text
    assert "on scores.csv (5 comparisons, SHA-256" in text
    assert "* too few impostors to show a FAR this low" in text


# ---- what stands behind a threshold


def test_a_threshold_says_on_whom_it_was_set_and_how_often_it_misses(tmp_path: Path):
    origin = replace(MADE, images="/home/somebody/faces.zip", drawn=False, alignment="arcface_112x112 by MTCNN")
    embeddings = replace(faces(90, 4), origin=origin)
    found = calibrate(saved(tmp_path, "set.npz", embeddings), ["0.1"], "expected").thresholds[0]
    score, same, _ = all_scores(embeddings)
    accepted = int((score[same] > found.threshold).sum())
    assert found.calibrated_on == ImageSource("faces.zip", False, "arcface_112x112 by MTCNN")
    assert found.genuine is not None
    assert (found.genuine.file, found.genuine.accepted, found.genuine.total) == ("set.npz", accepted, 90 * 6)
    # over redrawn people, so wider than the binomial bounds of the counts, which take 540 pairs of 90 people for draws
    lower, upper = binomial_bounds(accepted, 90 * 6)
    assert found.genuine.tar_lower_95 < lower - 0.005
    assert found.genuine.tar_upper_95 > upper
    assert "(images of 90 people from faces.zip, aligned to arcface_112x112 by MTCNN)" in found.meaning()
    missed = 100 * (1 - accepted / (90 * 6))
    assert f"{missed:.2f} % are rejected" in found.misses()


def test_misses_are_those_of_the_first_file_with_genuine_comparisons(tmp_path: Path):
    own, other = saved(tmp_path, "own.npz", faces(90, 1)), saved(tmp_path, "others.npz", faces(30, 2, seed=1))
    alone = calibrate(own, ["0.1"], "expected").thresholds[0]
    assert alone.genuine is None
    assert "is not recorded" in alone.misses()
    checked = calibrate(own, ["0.1"], "expected", checks=[other])
    assert checked.thresholds[0].genuine is not None
    assert (checked.thresholds[0].genuine.file, checked.thresholds[0].genuine.total) == ("others.npz", 30)
    checked.write_json(tmp_path / "found.json")
    assert read_calibration(tmp_path / "found.json") == checked


def test_a_calibration_written_before_sources_were_recorded_is_read(tmp_path: Path):
    found = calibrate(saved(tmp_path, "set.npz", replace(faces(90, 2), origin=MADE)), ["0.1"], "expected")
    found.write_json(tmp_path / "found.json")
    document = json.loads((tmp_path / "found.json").read_text())
    for field in ("drawn", "alignment"):
        del document["origin"][field]
    for threshold in document["thresholds"]:
        del threshold["calibrated_on"], threshold["genuine"]
    (tmp_path / "found.json").write_text(json.dumps(document))
    before = read_calibration(tmp_path / "found.json")
    assert before.origin == MADE
    assert before == found  # the misses are in its checks, and the name of the set in its origin


def test_implausible_scores_of_a_version_that_noted_them_once_are_said_at_each_threshold(tmp_path: Path):
    right, path = faces(60, 4), tmp_path / "thresholds.json"
    shifted = saved(tmp_path, "shifted.npz", replace(right, identities=np.roll(right.identities, 1)))
    calibrate(shifted, ["1e-1", "2e-1"], accept_implausible=True).write_json(path)
    document = json.loads(path.read_text())
    for threshold in document["thresholds"]:
        del threshold["implausible"]
    path.write_text(json.dumps(document))
    for threshold in read_calibration(path).thresholds:
        assert "calibrated or checked on cannot be right: shifted.npz: with all labels moved" in threshold.warning()


def test_a_verdict_on_the_target_is_over_people_and_not_by_binomial_bounds(tmp_path: Path):
    """A check with few people who resemble many: its FAR is above the target, but not in most redrawings of them."""
    random = np.random.default_rng(3)

    def crowd(people: int, hubs: int) -> Embeddings:
        centers = random.normal(size=(people, 16))
        centers[:hubs] += 2.5 * np.eye(16)[0]
        person = np.repeat(np.arange(people), 5)
        rows = (centers[person] + 0.3 * random.normal(size=(len(person), 16))).astype(np.float32)
        return Embeddings(rows, identities=np.char.add(f"{people}-", person.astype(str)))

    own = saved(tmp_path, "own.npz", crowd(80, 0))
    few, many = saved(tmp_path, "few.npz", crowd(31, 15)), saved(tmp_path, "many.npz", crowd(30, 30))
    found = calibrate(own, ["0.1"], "expected", checks=[few, many], replicates=200)
    undecided, above = found.checks[1], found.checks[2]
    ((_, point, interval, is_above),) = undecided.over_target(0)
    assert point.far_lower_95 > 0.1  # by binomial bounds
    assert interval.lower_95 < 0.1 < interval.upper_95
    assert interval.value == point.far
    assert not is_above
    ((name, _, interval, is_above),) = above.over_target(0)
    assert (name, interval.lower_95 > 0.1, is_above) == ("all", True, True)
    text = calibration_text(found)
    assert f"consistent with the target 0.1: all {point.far:.3g} (" in text
    assert "above the target 0.1: all " in text
    found.write_json(tmp_path / "out.json")
    assert read_calibration(tmp_path / "out.json") == found


def test_the_bounds_of_a_tar_are_over_people_where_they_are_known(tmp_path: Path):
    """One person has nearly all genuine pairs, and passes; how often others fail, his pairs do not show."""
    random = np.random.default_rng(5)
    person = np.concatenate([np.zeros(40, np.int64), np.repeat(np.arange(1, 61), 2)])
    spread = np.where(person == 0, 0.1, 0.9)[:, None]
    rows = random.normal(size=(61, 16))[person] + spread * random.normal(size=(len(person), 16))
    embeddings = Embeddings(rows.astype(np.float32), identities=person.astype(str),
                            domains=np.where(person % 2, "odd", "even"))  # fmt: skip
    found = calibrate(saved(tmp_path, "set.npz", embeddings), ["0.1", "0.2"], "expected", replicates=300)
    score, same, home = all_scores(embeddings)
    left = np.triu_indices(len(person), 1)[0]
    for place, threshold in enumerate(found.thresholds):
        for name, point in found.checks[0].at(place):
            of = same if name == "all" else same & (home == name)
            each = np.array([[np.sum(of & (person[left] == one)), np.sum(of & (person[left] == one) & (
                score > threshold.threshold))] for one in range(61)])  # fmt: skip
            draws = np.random.default_rng(1).multinomial(61, np.full(61, 1 / 61), size=2000) @ each
            assert point.genuine_accepted == each[:, 1].sum()
            middle = np.quantile(draws[:, 1] / draws[:, 0], [0.1, 0.9])
            assert point.tar_lower_95 < middle[0] <= middle[1] <= point.tar_upper_95
    point = found.checks[0].points[0]
    assert point.tar_lower_95 < 0.9 < binomial_bounds(point.genuine_accepted, point.genuine_total)[0]
    text = calibration_text(found)
    assert "bounds of FAR take comparisons as independent" in text
    assert "bounds of TAR are over redrawn people" in text
    found.write_json(tmp_path / "out.json")
    assert read_calibration(tmp_path / "out.json") == found
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["checks"][0].pop("tar_over_people")  # earlier versions took genuine pairs as independent
    (tmp_path / "out.json").write_text(json.dumps(document))
    assert "bounds take comparisons as independent" in calibration_text(read_calibration(tmp_path / "out.json"))


def test_a_file_with_few_genuine_pairs_is_checked_with_one_replicate(tmp_path: Path):
    few = faces(60, 2, seed=2)  # one person alone keeps two images
    other = saved(tmp_path, "few.npz", few.take(np.array([0, *range(1, len(few), 2)])))
    found = calibrate(saved(tmp_path, "own.npz", faces(60, 2)), ["0.1"], "expected", checks=[other], replicates=1)
    assert found.checks[1].points[0].tar == 1
    assert found.checks[1].points[0].tar_lower_95 == pytest.approx(0.025)  # of one comparison


def test_a_far_within_a_domain_is_judged_by_what_is_promised_there(tmp_path: Path):
    """At most 0.1 of all is promised, 0.3 within a domain: a FAR between the two within a domain keeps the promise."""
    random = np.random.default_rng(5)

    def crowd(people: int, alike: float) -> Embeddings:
        person, near = np.arange(people).repeat(2), np.arange(people) % 4 == 0
        centers = random.normal(size=(people, 32)) + alike * near[:, None]
        rows = (centers[person] + 0.3 * random.normal(size=(len(person), 32))).astype(np.float32)
        return Embeddings(rows, identities=person.astype(str), domains=np.where(near, "near", "far")[person])

    own = saved(tmp_path, "own.npz", crowd(400, 0.0))
    kept, broken = saved(tmp_path, "kept.npz", crowd(400, 0.35)), saved(tmp_path, "broken.npz", crowd(400, 1.5))
    found = calibrate(own, ["0.1"], "worst-group", factor=3.0, checks=[kept, broken], replicates=50)
    within = found.thresholds[0].domains
    assert found.checks[1].points[0].far < 0.1 < found.checks[1].domains["near"][0].far_lower_95
    assert not list(found.checks[1].over_target(0, within))
    broken_check = list(found.checks[2].over_target(0, within))
    assert [name for name, _, _, is_above in broken_check if is_above][-1] == "near"
    # the whole set is judged by its own target, also where a domain bears its name
    named = tuple(replace(domain, name="all" if domain.name == "near" else domain.name) for domain in within)
    whole = next(found.checks[2].over_target(0, named))
    assert 0.1 < whole[2].lower_95 < 0.3
    assert whole[3]
    (line,) = [line for line in calibration_text(found).splitlines() if line.startswith("above the target")]
    assert line.startswith("above the target 0.1, within a domain 0.3: ")
