"""`verisphere evaluate` as functions: the figures, their JSON, and what each option changes."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.trained_on import RowsInTraining
from verisphere.base.vocabulary import Embeddings, Redrawing
from verisphere.decide import PairScores, differences_of, one_threshold, operating_point, point_intervals, split_domains
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.measure.evaluate import (
    Evaluation,
    Options,
    evaluate_all_pairs,
    evaluate_one_threshold,
    evaluate_scores,
)
from verisphere.measure.listed import evaluate_pairs
from verisphere.measure.protocols.all_pairs import PairsOfSet
from verisphere.score.templates import templates_of
from verisphere.ship.calibrate import calibrate

POINT = {
    "far_target",
    "rule",
    "threshold",
    "tar",
    "far",
    "genuine_accepted",
    "genuine_total",
    "impostor_accepted",
    "impostor_total",
    "below_resolution",
    "far_lower_95",
    "far_upper_95",
    "tar_lower_95",
    "tar_upper_95",
}
ONE = {
    "far_target",
    "calibration_threshold",
    "union",
    "domains",
    "tar_mean",
    "tar_variance",
    "neg_log10_far_mean",
    "neg_log10_far_variance",
    "far_is_bound",
    "gamma",
}
DOMAIN = (POINT - {"far_target", "rule"}) | {"tar_own"}


def faces(people: int, images: int, domains: tuple[str, ...] = (), seed: int = 0, noise: float = 0.8) -> Embeddings:
    """People with a centre each; images go round the domains, of which each is a little noisier than the one before."""
    generator = np.random.default_rng(seed)
    person = np.repeat(np.arange(people), images)
    number = np.arange(people * images) % max(len(domains), 1)
    centres = np.random.default_rng(99).normal(size=(people, 12))
    rows = centres[person] + noise * (1 + 0.3 * number[:, None]) * generator.normal(size=(len(person), 12))
    return Embeddings(
        rows.astype(np.float32),
        np.array([f"p{one}/{image}.jpg" for image, one in enumerate(person)]),
        np.array([f"p{one}" for one in person]),
        np.array(domains)[number] if domains else None,
    )


@pytest.fixture
def write(tmp_path: Path):
    def write_file(name: str, embeddings: Embeddings) -> Path:
        write_embeddings(tmp_path / name, embeddings)
        return tmp_path / name

    return write_file


def every_score(embeddings: Embeddings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Score of every two rows, whether they show one person, and their domain, empty across domains."""
    rows = embeddings.embeddings.astype(np.float64)
    units = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32).astype(np.float64)
    left, right = np.triu_indices(len(rows), 1)
    same = embeddings.identities[left] == embeddings.identities[right]
    domains = embeddings.domains if embeddings.domains is not None else np.full(len(rows), "all")
    home = np.where(domains[left] == domains[right], domains[left], "")
    return (units[left] * units[right]).sum(1), same, home


def write_scores(path: Path, score: np.ndarray, same: np.ndarray, home: np.ndarray | None = None) -> Path:
    columns = [[repr(float(value)), str(int(label))] for value, label in zip(score, same, strict=True)]
    if home is not None:
        columns = [[*cells, str(domain)] for cells, domain in zip(columns, home, strict=True)]
    header = "score,label" + (",domain" if home is not None else "")
    path.write_text("\n".join([header, *(",".join(cells) for cells in columns)]) + "\n")
    return path


def read_json(result: Evaluation, folder: Path) -> dict:
    """What a strict reader makes of the JSON of a result."""

    def refuse(word: str):
        raise AssertionError(f"{word} is not JSON")

    result.write_json(folder / "deep" / "out.json")
    return json.loads((folder / "deep" / "out.json").read_text(), parse_constant=refuse)


def check_nulls(value: object) -> None:
    """Wherever a figure is null, the field beside it says that it is infinite."""
    if isinstance(value, dict):
        for name, entry in value.items():
            if entry is None and name not in ("origin", "in_training", "names_rule"):  # not a figure
                assert value[f"{name}_is_infinite"] is True
            check_nulls(entry)
    elif isinstance(value, list):
        for entry in value:
            check_nulls(entry)


def numbers(point) -> dict:
    """A point or a threshold result with its floats rounded, to compare sums taken in another order."""
    return {name: round(value, 9) if isinstance(value, float) else value for name, value in vars(point).items()}


FARS = ("0.10", "1e-2", "0.0010")


def options(**changed) -> Options:
    return Options(**{"fars": FARS, **changed})


# --- the fields and their values -------------------------------------------------------------------------------------


def test_scores(tmp_path: Path):
    score, same, home = every_score(faces(8, 6, ("day", "night")))
    result = evaluate_scores(write_scores(tmp_path / "scores.csv", score, same, home), options())
    read = read_json(result, tmp_path)
    assert set(read) == {"sources", "operating_points", "one_threshold"}
    assert [set(point) for point in read["operating_points"]] == [POINT] * 3
    assert [point["far_target"] for point in read["operating_points"]] == list(FARS)
    for point, far in zip(result.operating_points, FARS, strict=True):
        assert point == operating_point(score[same], score[~same], far=far)
    split, across = split_domains(score, same, home)
    for found, far in zip(result.one_threshold, FARS, strict=True):
        assert found == one_threshold(split, far=far, across=across)
    for entry in read["one_threshold"]:
        assert set(entry) >= ONE
        assert set(entry["domains"]) == {"day", "night"}
        assert all(set(domain) >= DOMAIN for domain in entry["domains"].values())
    check_nulls(read)


def test_all_pairs_and_a_file_of_all_their_scores_agree(tmp_path: Path, write):
    embeddings = faces(8, 6, ("day", "night"))
    there = evaluate_all_pairs(write("faces.npz", embeddings), options())
    here = evaluate_scores(write_scores(tmp_path / "scores.csv", *every_score(embeddings)), options())
    assert [numbers(point) for point in there.operating_points] == [numbers(point) for point in here.operating_points]
    for one, other in zip(there.one_threshold, here.one_threshold, strict=True):
        assert numbers(one) | {"domains": 0} == numbers(other) | {"domains": 0}
        assert {name: numbers(domain) for name, domain in one.domains.items()} == {
            name: numbers(domain) for name, domain in other.domains.items()
        }
    read = read_json(there, tmp_path)
    assert set(read) == {"sources", "operating_points", "one_threshold"}
    assert [set(point) for point in read["operating_points"]] == [POINT] * 3
    check_nulls(read)


def test_one_threshold_over_several_files(tmp_path: Path, write):
    """Two files, each a domain, are the same as one file that names the domains."""
    together = faces(8, 6, ("day", "night"))
    day = together.domains == "day"
    parts = [
        Embeddings(together.embeddings[rows], together.names[rows], together.identities[rows]) for rows in (day, ~day)
    ]
    paths = [write("day.npz", parts[0]), write("night.npz", parts[1])]
    apart = evaluate_one_threshold(paths, options())
    once = evaluate_one_threshold([write("faces.npz", together)], options())
    assert apart.one_threshold == once.one_threshold
    assert apart.operating_points == once.operating_points
    assert once == evaluate_all_pairs(tmp_path / "faces.npz", options())
    read = read_json(apart, tmp_path)
    assert [set(entry) >= ONE for entry in read["one_threshold"]] == [True] * 3


def test_files_of_templates_and_of_photographs_are_noted(write):
    of_photographs, others = faces(8, 6), faces(9, 6)
    templates = replace(others, templates=np.char.add("t", (np.arange(len(others)) // 2).astype(str)))
    paths = [write("templates.npz", templates), write("photographs.npz", of_photographs)]
    (note,) = evaluate_one_threshold(paths, options()).notes
    assert note.startswith("templates: templates of several photographs each, and the rows of the other files are")
    alone = replace(others, templates=others.names)  # of one photograph each
    for second in (alone, others):
        assert not evaluate_one_threshold([write("others.npz", second), paths[1]], options()).notes
    assert not evaluate_one_threshold([paths[0], write("others.npz", templates)], options()).notes
    of_domains = write("domains.npz", faces(8, 6, ("day", "night")))
    with pytest.raises(
        ValueError, match=r"^/.*templates\.npz: templates of .*, and the rows of the other files are single"
    ):
        evaluate_all_pairs(of_domains, options(calibration=paths[0]))
    pooled = templates_of(templates)
    lists = []
    for rows in (pooled, of_photographs):
        (paths[0].parent / f"list{len(lists)}").mkdir()
        lists.append(write_pairs(paths[0].parent / f"list{len(lists)}", rows, 2, 20))
    (noted,) = evaluate_pairs(paths, lists, options()).notes
    assert noted.startswith("list0/pairs: templates of several photographs each")


def write_pairs(folder: Path, embeddings: Embeddings, folds: int | None, count: int = 60) -> Path:
    """A list with as many genuine as impostor pairs, genuine first, as pairsDevTest has them."""
    same = every_score(embeddings)[1]
    left, right = np.triu_indices(len(embeddings), 1)
    chosen = np.concatenate([np.flatnonzero(kind)[:: kind.sum() // count][:count] for kind in (same, ~same)])
    lines = [
        f"{embeddings.names[left[pair]]},{embeddings.names[right[pair]]},{int(same[pair])}"
        + ("" if folds is None else f",{position % folds}")
        for position, pair in enumerate(chosen)
    ]
    path = folder / "pairs.csv"
    path.write_text("\n".join(["left,right,label" + ("" if folds is None else ",fold"), *lines]) + "\n")
    return path


def test_infinities_are_null_and_said_so(tmp_path: Path):
    path = tmp_path / "scores.csv"
    path.write_text("score,label,domain\ninf,1,a\n0.5,0,a\n-inf,0,a\n-inf,1,b\n-inf,0,b\n-inf,0,b\n")
    read = read_json(evaluate_scores(path, Options(fars=("1", "0"))), tmp_path)
    everything, nothing = read["operating_points"]
    assert (everything["threshold"], everything["threshold_is_infinite"], everything["threshold_sign"]) == (
        None,
        True,
        -1,
    )
    assert everything["genuine_accepted"] == 1  # a score of minus infinity is never accepted: it is not greater
    assert nothing["threshold"] == 0.5
    assert "threshold_is_infinite" not in nothing
    # t_d of domain b at FAR 0 is minus infinity, the common one 0.5: infinitely far
    assert read["one_threshold"][1]["domains"]["b"]["threshold_is_infinite"] is True
    assert read["one_threshold"][1]["gamma_is_infinite"] is True
    assert read["one_threshold"][0]["gamma"] == 0.0  # two infinite thresholds are the same threshold
    check_nulls(read)


def test_a_cut_of_minus_infinity_in_a_fold_is_said_so(tmp_path: Path, write):
    """Fold 0 is cut where fold 1 says, which is all genuine but for a pair at the very bottom."""
    embeddings = Embeddings(
        np.array([[1, 0], [1, 0.1], [1, 0.2], [-1, 0]], np.float32), np.array(list("abcd")), np.array(list("xxxy"))
    )
    lines = ["left,right,label,fold", "a,b,1,0", "a,d,0,0", "a,c,1,1", "b,c,1,1"]
    (tmp_path / "pairs.csv").write_text("\n".join(lines))
    read = read_json(evaluate_pairs(write("faces.npz", embeddings), tmp_path / "pairs.csv", options()), tmp_path)
    cuts = read["accuracy"]["thresholds"]
    assert [cut is None for cut in cuts] == read["accuracy"].get("thresholds_is_infinite", [False, False])


# --- options ---------------------------------------------------------------------------------------------------------


def test_a_calibration_set_changes_the_one_threshold_alone(tmp_path: Path, write):
    faces_file, calibration = write("faces.npz", faces(8, 6, ("day", "night"))), write("other.npz", faces(9, 2, seed=7))
    for evaluate in (evaluate_all_pairs, lambda path, how: evaluate_one_threshold([path], how)):
        plain = evaluate(faces_file, options())
        calibrated = evaluate(faces_file, options(calibration=calibration))
        assert calibrated.operating_points == plain.operating_points
        score, same, _ = every_score(read_embeddings(calibration))
        for before, after, far in zip(plain.one_threshold, calibrated.one_threshold, FARS, strict=True):
            expected = operating_point([1.0], score[~same], far=far).threshold
            assert after.calibration_threshold == pytest.approx(expected, abs=1e-12)
            assert (before.union, after.union) == ("all", "calibration")
            assert after.calibration_threshold != before.calibration_threshold
            for name in ("day", "night"):  # each domain's own threshold stays
                assert after.domains[name].threshold == before.domains[name].threshold
                assert after.domains[name].tar_own == before.domains[name].tar_own


def test_calibration_of_scores_and_of_pairs(tmp_path: Path, write):
    score, same, home = every_score(faces(8, 6, ("day", "night")))
    path = write_scores(tmp_path / "scores.csv", score, same, home)
    calibration = tmp_path / "calibration.csv"
    calibration.write_text("score,label\n0.9,0\n0.8,0\n0.1,0\n0.95,1\n")  # its genuine scores count for nothing
    plain = evaluate_scores(path, options(fars=("0.4",)))
    calibrated = evaluate_scores(path, options(fars=("0.4",), calibration=calibration))
    assert calibrated.operating_points == plain.operating_points
    assert calibrated.one_threshold[0].calibration_threshold == 0.8  # k = floor(0.4 * 3) = 1
    embeddings = faces(10, 6, ("day", "night"))
    faces_file, pairs = write("faces.npz", embeddings), write_pairs(tmp_path, embeddings, 5)
    plain = evaluate_pairs(faces_file, pairs, options())
    calibrated = evaluate_pairs(faces_file, pairs, options(calibration=write("other.npz", faces(9, 2, seed=7))))
    assert calibrated.operating_points == plain.operating_points
    assert calibrated.accuracy == plain.accuracy
    assert {result.union for result in calibrated.one_threshold} == {"calibration"}


def test_union_within_leaves_pairs_across_domains_out(write):
    path = write("faces.npz", faces(8, 6, ("day", "night")))
    score, same, home = every_score(read_embeddings(path))
    plain, within = (evaluate_all_pairs(path, options(union=union)) for union in ("all", "within"))
    assert within.operating_points == plain.operating_points
    for result, far in zip(within.one_threshold, FARS, strict=True):
        expected = operating_point([1.0], score[~same & (home != "")], far=far).threshold
        assert result.calibration_threshold == pytest.approx(expected, abs=1e-12)
        assert result.union == "within"


@pytest.mark.parametrize("far", ["abc", "2", "-1", "", "1e", "0x1", "nan", "1/1000"])
def test_a_far_that_is_none_is_told_before_any_work(far: str):
    with pytest.raises(ValueError, match="a FAR must"):
        options(fars=("0.1", far))


# --- against ---------------------------------------------------------------------------------------------------------


def test_against_another_model_in_another_order(tmp_path: Path, write):
    """The other file may hold the images in any order, and more of them, at another size."""
    ours, noisy = faces(12, 5), faces(12, 5, seed=1, noise=1.8)
    wide = np.concatenate([noisy.embeddings, np.zeros((60, 3), np.float32)], axis=1)  # the same cosines
    theirs = Embeddings(wide[::-1].copy(), noisy.names[::-1], noisy.identities[::-1])
    path, straight, turned = write("ours.npz", ours), write("straight.npz", noisy), write("turned.npz", theirs)
    result = evaluate_all_pairs(path, options(redrawing=Redrawing(30)), [straight, turned])
    assert result.operating_points == evaluate_all_pairs(path, options()).operating_points
    assert [difference.far_target for difference in result.differences] == [far for far in FARS for _ in range(2)]
    expected = [
        one.tar - other.tar
        for one, other in zip(
            result.operating_points, evaluate_all_pairs(straight, options()).operating_points, strict=True
        )
    ]
    for far, gap in zip(FARS, expected, strict=True):
        first, second = (difference for difference in result.differences if difference.far_target == far)
        assert first.value == pytest.approx(gap)
        assert (first.value, first.lower_95, first.upper_95) == (second.value, second.lower_95, second.upper_95)
    assert result.differences[0].lower_95 > 0  # the noise is far more
    read = read_json(result, tmp_path)
    assert set(read["differences"][0]) >= {"figure", "far_target", "against", "value", "lower_95", "upper_95"}
    assert evaluate_all_pairs(path, options(redrawing=Redrawing(30)), [straight]).differences == tuple(
        result.differences[::2]
    )


def test_moved_labels_of_the_other_file_show_in_its_own_order(write):
    ours, theirs = faces(40, 3), faces(40, 3, seed=1)
    path = write("ours.npz", ours.take(np.argsort([f"{row * 7919 % 120:03}" for row in range(120)])))
    moved = write("moved.npz", replace(theirs, embeddings=np.roll(theirs.embeddings, 1, axis=0)))
    result = evaluate_all_pairs(path, options(redrawing=Redrawing(10)), [moved])
    assert [reason.partition(", TAR")[0] for reason in result.implausible] == [
        "moved.npz: with all labels moved by one row"
    ]


def test_against_a_file_that_lacks_images_or_names_other_people(write):
    ours = faces(6, 3)
    path = write("ours.npz", ours)
    part = write("part.npz", Embeddings(ours.embeddings[1:], ours.names[1:], ours.identities[1:]))
    with pytest.raises(ValueError, match=r"part\.npz: 1 of 18 images are missing, the first is 'p0/0\.jpg'"):
        evaluate_all_pairs(path, options(redrawing=Redrawing(10)), [part])
    renamed = write("renamed.npz", Embeddings(ours.embeddings, ours.names, np.roll(ours.identities, 1)))
    with pytest.raises(ValueError, match=r"renamed\.npz: it gives some of the images to other people"):
        evaluate_all_pairs(path, options(redrawing=Redrawing(10)), [renamed])


def test_against_a_file_of_exchanged_photographs(tmp_path: Path, write):
    ours, nobody = faces(10, 5), np.zeros(50, bool)

    def of(name: str, digests: np.ndarray) -> Path:
        known = RowsInTraining(nobody, nobody, False, "", digests)
        return write(name, Embeddings(ours.embeddings, ours.names, ours.identities, in_training=known))

    path, exchanged = of("ours.npz", np.arange(50)), of("exchanged.npz", np.roll(np.arange(50), 5))
    with pytest.raises(
        ValueError, match=r"exchanged\.npz: 50 of 50 rows were made of .* 'p9/45\.jpg' there: embed the"
    ):
        evaluate_all_pairs(path, options(redrawing=Redrawing(10)), [exchanged])
    assert evaluate_all_pairs(path, options(redrawing=Redrawing(10)), [of("crops.npz", np.arange(50, 100))]).differences
    with pytest.raises(
        ValueError, match=r"exchanged\.npz: 50 of 50 rows were made of a photograph that has another name"
    ):
        evaluate_pairs(path, write_pairs(tmp_path, ours, 6), options(redrawing=Redrawing(10)), [exchanged])


def test_a_difference_inside_the_noise_is_said_so_in_words(tmp_path: Path, write):
    ours, alike, noisy = faces(12, 5), faces(12, 5, seed=3), faces(12, 5, seed=1, noise=1.8)
    path, near, far = write("ours.npz", ours), write("near.npz", alike), write("far.npz", noisy)
    result = evaluate_all_pairs(path, options(fars=("0.1",), redrawing=Redrawing(60)), [near, far])
    inside, beyond = read_json(result, tmp_path)["differences"]
    assert (inside["inside_noise"], beyond["inside_noise"]) == (True, False)
    assert (inside["rule"], inside["compared"]) == ("at_most", 12 * 10)
    assert inside["value"] == pytest.approx((inside["only_ours"] - inside["only_theirs"]) / inside["compared"])
    words = f"tar at FAR 0.1 against near.npz: {inside['value']:.4f} is inside the noise: 95 % of redrawn people give"
    assert words in result.text()
    assert "against far.npz:" not in result.text()


def test_listed_pairs_are_compared_by_accuracy_and_by_tar(tmp_path: Path, write):
    ours, theirs = faces(10, 5), faces(10, 5, seed=1, noise=1.6)
    path, other = write("ours.npz", ours), write("theirs.npz", theirs)
    pairs = write_pairs(tmp_path, ours, 6)
    how = options(fars=("0.1", "1e-3"), redrawing=Redrawing(40))  # 60 impostors cannot show the second
    result = evaluate_pairs(path, pairs, how, [other])
    accuracy, tar = result.differences
    assert [(one.figure, one.far_target, one.rule) for one in result.differences] == [
        ("accuracy", None, None),
        ("tar", "0.1", "at_most"),
    ]
    second = evaluate_pairs(other, pairs, how)
    assert accuracy.value == pytest.approx(result.accuracy.mean - second.accuracy.mean)
    assert tar.value == pytest.approx(result.operating_points[0].tar - second.operating_points[0].tar)
    assert (accuracy.compared, tar.compared) == (120, 60)
    assert accuracy.only_ours - accuracy.only_theirs == pytest.approx(120 * accuracy.value)  # folds of one size
    assert tar.only_ours - tar.only_theirs == pytest.approx(60 * tar.value)
    # at another rule only the accuracy, which knows no rule, is compared
    assert len(evaluate_pairs(path, pairs, options(rule="nearest", redrawing=Redrawing(5)), [other]).differences) == 1


# --- over redrawn people ---


def test_intervals_of_all_pairs(tmp_path: Path, write):
    embeddings = faces(12, 5)
    path = write("faces.npz", embeddings)
    result = evaluate_all_pairs(path, options(intervals=True, redrawing=Redrawing(30, 4)))
    assert result.operating_points == evaluate_all_pairs(path, options()).operating_points
    assert [one.far_target for one in result.intervals] == list(FARS)
    read = read_json(result, tmp_path)
    for one, point in zip(read["intervals"], read["operating_points"], strict=True):
        assert (one["rule"], one["people"], one["seed"], one["tar"]["replicates"]) == ("at_most", 12, 4, 30)
        for figure in ("tar", "far", "threshold"):
            assert one[figure]["value"] == point[figure]
            assert one[figure]["lower_95"] <= one[figure]["upper_95"]
    found = result.intervals[0].tar
    assert f"{found.lower_95:.4f} .. {found.upper_95:.4f}" in result.text()
    assert evaluate_all_pairs(path, options(intervals=True, redrawing=Redrawing(30, 4))) == result
    assert evaluate_all_pairs(path, options(intervals=True, redrawing=Redrawing(30, 5))) != result


def test_intervals_of_listed_pairs(tmp_path: Path, write):
    embeddings = faces(10, 5)
    path, pairs = write("faces.npz", embeddings), write_pairs(tmp_path, embeddings, 6)
    result = evaluate_pairs(path, pairs, options(fars=("0.1", "1e-3"), intervals=True, redrawing=Redrawing(40, 1)))
    (found,) = result.intervals  # FAR 1e-3 is below the resolution of 60 impostors
    with pairs.open() as file:
        rows = list(csv.DictReader(file))
    names = [str(name) for name in embeddings.names]
    sides = np.array([[names.index(row["left"]), names.index(row["right"])] for row in rows])
    units = embeddings.embeddings.astype(np.float64)
    units = (units / np.linalg.norm(units, axis=1, keepdims=True)).astype(np.float32).astype(np.float64)
    person = np.unique(embeddings.identities, return_inverse=True)[1][sides].astype(np.int64)
    scores = PairScores.of_list(
        (units[sides[:, 0]] * units[sides[:, 1]]).sum(1), np.array([row["label"] == "1" for row in rows]), person
    )
    (expected,) = point_intervals(scores, ["0.1"], Redrawing(40, 1))
    assert found.tar == expected.tar
    assert found.threshold.lower_95 == pytest.approx(expected.threshold.lower_95, abs=1e-12)
    interval = result.accuracy_interval
    assert interval.value == pytest.approx(result.accuracy.mean)
    assert interval.lower_95 <= interval.value <= interval.upper_95
    assert read_json(result, tmp_path)["accuracy_interval"]["replicates"] == 40
    assert "accuracy: 95 % of redrawn people give" in result.text()


def test_intervals_of_domains_and_of_one_threshold(tmp_path: Path, write):
    path = write("faces.npz", faces(12, 6, ("day", "night")))
    plain = evaluate_one_threshold([path], options(fars=("0.1",)))
    redrawn = evaluate_one_threshold([path], options(fars=("0.1",), intervals=True, redrawing=Redrawing(30)))
    assert redrawn == evaluate_all_pairs(path, options(fars=("0.1",), intervals=True, redrawing=Redrawing(30)))
    (before,), (after,) = plain.group_differences, redrawn.group_differences
    assert before == differences_of(plain.one_threshold[0])
    assert (before.far_max_min.value, before.far_max_min.bounds) == (after.far_max_min.value, "binomial")
    assert after.far_max_min.bounds == "bootstrap"
    assert "30 redrawings of 12 people" in redrawn.text()


def test_intervals_that_would_not_fit_are_left_out_and_named(write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.measure.evaluate.MOST_SCORES", 100)
    path = write("faces.npz", faces(12, 6, ("day", "night")))
    result = evaluate_all_pairs(path, options(intervals=True, redrawing=Redrawing(5)))
    assert result.intervals == ()
    assert {one.far_max_min.bounds for one in result.group_differences} == {"binomial"}
    note = "no interval at FAR 0.10: it would take 2,376 impostor scores in memory, more than 100"
    assert note in result.text()
    assert read_json(result, tmp_path)["notes"][0] == note


def test_people_are_not_redrawn_where_they_are_unknown_or_at_another_rule(tmp_path: Path, write):
    scores = write_scores(tmp_path / "scores.csv", *every_score(faces(8, 3))[:2])
    with pytest.raises(ValueError, match=r"scores\.csv: a scores file does not say who was compared"):
        evaluate_scores(scores, options(intervals=True))
    assert "The bounds take comparisons as independent. A scores file does not say" in (
        evaluate_scores(scores, options()).text()
    )
    embeddings = faces(10, 5)
    path, pairs = write("faces.npz", embeddings), write_pairs(tmp_path, embeddings, 6)
    for rule in ("nearest", "interpolated"):
        for evaluate in (evaluate_all_pairs, lambda file, how: evaluate_pairs(file, pairs, how)):
            with pytest.raises(
                ValueError, match=f"--intervals redraws people at the rule at_most; leave --rule {rule}"
            ):
                evaluate(path, options(rule=rule, intervals=True))
    assert "A scores file" not in evaluate_all_pairs(path, options()).text()


def test_a_slip_in_an_option_is_told_before_any_work():
    with pytest.raises(ValueError, match="alpha must"):
        options(alpha=1.5)


def test_a_third_decimal_inside_the_noise_is_said_so(tmp_path: Path):
    few = write_scores(tmp_path / "few.csv", *every_score(faces(8, 3))[:2])
    text = evaluate_scores(few, options(fars=("0.1", "1e-6"))).text()
    # of the second nothing is printed that could be read too closely
    assert "third decimal inside the noise (95 % bounds wider than 0.001): TAR at FAR 0.1\n" in text
    many = np.concatenate([np.linspace(0.5, 1, 100_000), np.linspace(-1, 0.4, 100_000)])
    path = tmp_path / "many.npz"
    np.savez(path, score=many, label=(np.arange(200_000) < 100_000))
    assert "third decimal" not in evaluate_scores(path, options(fars=("0.1",))).text()


# --- differences of groups ---


def test_differences_of_domains_in_text_and_json(tmp_path: Path, write):
    embeddings = faces(10, 6, ("day", "night", "fog"))
    path = write("faces.npz", embeddings)
    result = evaluate_all_pairs(path, options(alpha=0.25))
    for apart, one in zip(result.group_differences, result.one_threshold, strict=True):
        assert apart == differences_of(one, alpha=0.25)
    for entry, far in zip(read_json(result, tmp_path)["one_threshold"], FARS, strict=True):
        apart = entry["group_differences"]
        assert (apart["far_target"], apart["alpha"], apart["rule"]) == (far, 0.25, "at_most")
        assert apart["threshold"] == entry["calibration_threshold"]
        assert apart["groups"] == ["day", "fog", "night"]
        for name in ("far_max_min", "far_max_geometric_mean", "frr_max_min", "fdr", "inequity_rate", "garbe"):
            assert ("value" in apart[name]) != ("undefined" in apart[name])
    assert "differences of 3 groups at one threshold, rule: at_most" in result.text()
    assert "FDR = 1 - (0.25 (max FAR - min FAR) + 0.75 (max FRR - min FRR))" in result.text()
    scores = evaluate_scores(write_scores(tmp_path / "scores.csv", *every_score(embeddings)), options())
    assert [one.fdr.value for one in scores.group_differences] == pytest.approx(
        [one.fdr.value for one in evaluate_all_pairs(path, options()).group_differences]
    )
    pairs = evaluate_pairs(path, write_pairs(tmp_path, embeddings, 5), options(skip_empty=True))
    assert len(pairs.group_differences) == len(FARS)


def test_one_domain_has_no_table_of_differences(write):
    result = evaluate_all_pairs(write("faces.npz", faces(6, 3, ("day",))), options())
    assert [list(one.groups) for one in result.group_differences] == [["day"]] * len(FARS)
    assert "one threshold" in result.text()
    assert "GARBE" not in result.text()


# --- curves ---


@pytest.mark.parametrize("kind", ["scores", "pairs", "all-pairs"])
def test_a_curve_holds_the_operating_points(tmp_path: Path, write, kind: str):
    embeddings = faces(10, 5)
    path = write("faces.npz", embeddings)
    how = options(curve=True)
    result = {
        "scores": lambda: evaluate_scores(write_scores(tmp_path / "s.csv", *every_score(embeddings)[:2]), how),
        "pairs": lambda: evaluate_pairs(path, write_pairs(tmp_path, embeddings, 6), how),
        "all-pairs": lambda: evaluate_all_pairs(path, how),
    }[kind]()
    result.write_curve(tmp_path / "deep" / "curve.csv")
    with (tmp_path / "deep" / "curve.csv").open() as file:
        rows = {float(row["threshold"]): row for row in csv.DictReader(file)}
    for point in result.operating_points:
        row = rows[point.threshold]
        assert (float(row["far"]), float(row["tar"]), row["rule"]) == (point.far, point.tar, "at_most")
        assert point.far_target in row["far_target"].split(" ")
    score, same, _ = every_score(embeddings)
    if kind != "pairs":  # each count is that of all scores; the file's are rounded to the last digit
        for threshold, row in rows.items():
            assert abs(int(row["impostor_accepted"]) - (score[~same] > threshold).sum()) <= 1
            assert abs(int(row["genuine_accepted"]) - (score[same] > threshold).sum()) <= 1
    assert "curve" not in read_json(result, tmp_path)
    result.write_plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 10_000


def test_many_scores_make_a_thinned_curve(tmp_path: Path):
    random = np.random.default_rng(0)
    np.savez(tmp_path / "many.npz", score=random.normal(size=50_000), label=random.integers(0, 2, 50_000))
    curve = evaluate_scores(tmp_path / "many.npz", options(curve=True)).curve
    assert 300 < len(curve.thresholds) < 1100


# --- what cannot be evaluated ----------------------------------------------------------------------------------------


def test_one_person_or_no_two_images_of_one(write):
    path = write("one.npz", faces(1, 4))
    for evaluate in (
        evaluate_all_pairs,
        lambda file, how: evaluate_one_threshold([file, write("two.npz", faces(1, 3))], how),
    ):
        with pytest.raises(ValueError, match=r"one\.npz.*of one person, so there is no impostor pair"):
            evaluate(path, options())
    with pytest.raises(ValueError, match=r"singles\.npz: no two of 5 images are of one person"):
        evaluate_all_pairs(write("singles.npz", faces(5, 1)), options())


@pytest.mark.parametrize(
    ("label", "says"), [(1, "are genuine; rates need impostor"), (0, "are impostor; rates need gen")]
)
def test_scores_of_one_class(tmp_path: Path, label: int, says: str):
    path = tmp_path / "scores.csv"
    path.write_text(f"score,label\n0.5,{label}\n0.25,{label}\n")
    with pytest.raises(ValueError, match=rf"scores\.csv: all 2 comparisons {says}"):
        evaluate_scores(path, options())


def test_one_file_without_domains_is_no_set_of_domains(write):
    with pytest.raises(ValueError, match=r"faces\.npz: one file without domains"):
        evaluate_one_threshold([write("faces.npz", faces(4, 3))], options())


def test_a_calibration_set_that_cannot_serve(tmp_path: Path, write):
    path = write("faces.npz", faces(8, 6, ("day", "night")))
    plain, lonely = write("plain.npz", faces(4, 3)), write("lonely.npz", faces(1, 3))
    narrow = write(
        "narrow.npz", Embeddings(np.eye(4, dtype=np.float32), np.array(list("abcd")), np.array(list("xyzw")))
    )
    with pytest.raises(
        ValueError, match=r"plain\.npz: --calibration sets the one threshold of domains, but there are no"
    ):
        evaluate_all_pairs(plain, options(calibration=plain))
    with pytest.raises(ValueError, match=r"lonely\.npz: there are no calibration impostor scores"):
        evaluate_all_pairs(path, options(calibration=lonely))
    with pytest.raises(ValueError, match=r"narrow\.npz: 4 numbers a row, but .*faces\.npz has 12"):
        evaluate_all_pairs(path, options(calibration=narrow))
    score, same, home = every_score(faces(4, 6, ("day", "night")))
    scores = write_scores(tmp_path / "scores.csv", score, same, home)
    genuine = tmp_path / "genuine.csv"
    genuine.write_text("score,label\n0.5,1\n")
    with pytest.raises(ValueError, match=r"genuine\.csv: no impostor score in it"):
        evaluate_scores(scores, options(calibration=genuine))


def test_images_of_nobody_take_no_part(tmp_path: Path):
    rows = np.random.default_rng(0).normal(size=(12, 4))
    people = np.array([*"aabbccddee", "-1", "-1"])
    write_embeddings(tmp_path / "known.npz", Embeddings(rows[:10], identities=people[:10]))
    write_embeddings(tmp_path / "all.npz", Embeddings(rows, identities=people))
    known, whole = (evaluate_all_pairs(tmp_path / name, Options(("1e-1",))) for name in ("known.npz", "all.npz"))
    assert known.operating_points == whole.operating_points
    with pytest.raises(ValueError, match="2 embeddings have the identity -1: nobody is known on them; exclude them"):
        PairsOfSet(Embeddings(rows, identities=people))


def test_what_calibrate_writes_is_refused_where_the_file_that_it_reads_belongs(tmp_path: Path, write):
    thresholds = tmp_path / "thresholds.json"
    calibrate(write("people.npz", faces(20, 2)), ["1e-1"], guarantee="expected").write_json(thresholds)
    scores, given = tmp_path / "scores.csv", options(calibration=thresholds)
    scores.write_text("score,label,domain\n0.9,1,a\n0.1,0,a\n")
    with pytest.raises(ValueError, match=r"thresholds\.json: --calibration takes an embeddings file, .* this is JSON"):
        evaluate_all_pairs(write("domains.npz", faces(8, 6, ("day", "night"))), given)
    with pytest.raises(ValueError, match=r"thresholds\.json: --calibration takes a scores file, .* this is JSON"):
        evaluate_scores(scores, given)
