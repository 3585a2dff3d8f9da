"""A watch over a promise: what counts, when it alarms, and that two calls are one."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.trained_on import SharedWithTraining
from verisphere.base.vocabulary import Embeddings
from verisphere.decide import Review, gallery_threshold, independent_threshold
from verisphere.decide.watch import ALARM
from verisphere.decide.worst_group import worst_group_threshold
from verisphere.files.calibration import Calibration, Source
from verisphere.files.disk import digest
from verisphere.files.embeddings import write_embeddings
from verisphere.files.gallery_calibration import GalleryCalibration, PromisedGallery
from verisphere.ship.calibrate import calibrate
from verisphere.ship.monitor import Monitor

THRESHOLD = 0.5


def of_pairs(*fars: str) -> Calibration:
    """A calibration whose threshold is 0.5 at each FAR."""
    scores = np.linspace(-0.5, THRESHOLD, 2995)
    found = tuple(independent_threshold(np.minimum(scores + 1e-9, THRESHOLD), far, "confident") for far in fars)
    return Calibration(Source("pairs.csv", "0" * 64, "scores", 2995, None), None, found, ())


def of_gallery() -> GalleryCalibration:
    threshold = gallery_threshold(np.linspace(0, THRESHOLD, 299), "1e-2", people=2, review=Review())
    source = Source("strangers.npz", "1" * 64, "embeddings", 299, 299)
    gallery = PromisedGallery.of("people.npz", 2, np.array([5, 9]))
    return GalleryCalibration(source, gallery, None, (threshold,))


def log_of(path: Path, rows: Iterable[tuple], header: str = "score,person,other_person") -> Path:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    return lambda rows, header="score,person,other_person": log_of(tmp_path / "log.csv", rows, header)


# --- what counts ---


def test_the_first_of_each_person_counts_alone():
    """b was in a line that did not count, and does not count again."""
    watch = Monitor(of_pairs("1e-3"))
    for pair in [("a", "c"), ("a", "b"), ("b", "d"), ("e", "f"), (" E ", "g")]:
        watch.add(0.9, pair)
    assert (watch.lines, watch.folded) == (5, 3)
    assert watch.parts()[0]["counted"] == 2


def test_a_score_passes_only_above_the_threshold():
    watch = Monitor(of_pairs("1e-3"))
    for number, score in enumerate([watch._threshold.threshold, 2.0, -np.inf, np.inf]):
        watch.add(score, (f"a{number}", f"b{number}"))
    (part,) = watch.parts()
    assert (part["counted"], part["passed"], part["rate"], part["promised"]) == (4, 2, 0.5, 1e-3)


def test_alarm_by_hand():
    """At f = 1e-3 one false accept gives less than 20, two in a row more: odds of 20 alone give 19.6^2 / 12 = 32."""
    watch = Monitor(of_pairs("1e-3"))
    watch.add(0.9, ("a", "b"), when="Monday")
    assert not watch.since
    watch.add(0.9, ("c", "d"), when="Tuesday")
    watch.add(0.9, ("e", "f"), when="Wednesday")
    assert watch.since == "Tuesday"
    assert watch.evidence > ALARM
    for number in range(5_000):
        watch.add(0.0, (f"x{number}", f"y{number}"))
    assert watch.evidence < ALARM
    assert watch.since == "Tuesday"
    assert "The promise no longer stands, since Tuesday." in watch.text()


def test_what_promises_nothing_is_called_an_estimate(tmp_path: Path):
    rows = np.random.default_rng(0).standard_normal((120, 8))
    write_embeddings(tmp_path / "few.npz", Embeddings(rows, identities=np.repeat(np.arange(60), 2)))
    estimate = calibrate(tmp_path / "few.npz", ["1e-1"], guarantee="convention")
    watch = Monitor(estimate)
    watch.add(0.1, ("a", "b"))
    assert "at most 0.1 is estimated" in watch.text()
    assert "The estimate stands." in watch.text()
    assert "The promise stands." in Monitor(of_pairs("1e-3")).text()


def test_what_weakens_the_promise_is_said_first():
    known = SharedWithTraining(2, 0, 60, 120, True)
    promised = of_pairs("1e-3")
    weak = replace(promised, thresholds=tuple(replace(found, in_training=known) for found in promised.thresholds))
    assert Monitor(weak).text().startswith("the model was trained on 2 of the 60 people (by name) calibrated on, so ")


def test_a_gallery_counts_strangers():
    watch = Monitor(of_gallery())
    for person in ("a", "a", "b"):
        watch.add(0.9, (person,))
    assert (watch.lines, watch.folded, watch.promise) == (3, 1, "FPIR of at most 1e-2")


def test_domains_share_the_evidence():
    """All have the weight 1/2, the first domain 1/4: 1 + (e - 1) / 2 + (d - 1) / 4."""
    watch = Monitor(of_pairs("1e-2"), domains=True)
    watch.add(0.9, ("a", "b"), "night")
    watch.add(0.0, ("c", "d"))
    everybody, night = watch.parts()
    assert (everybody["counted"], night["counted"], night["domain"]) == (2, 1, "night")
    expected = 1 + (everybody["evidence"] - 1) / 2 + (night["evidence"] - 1) / 4
    assert watch.evidence == pytest.approx(expected, rel=1e-12)
    watch.add(0.0, ("e", "f"), "day")
    watch.add(0.0, ("g", "h"), "NaN")  # none, as in every other table
    assert [part["domain"] for part in watch.parts()] == ["", "night", "day"]
    assert "night: 1 of 1 score above 0." in watch.text()


def test_a_domain_is_watched_for_what_is_promised_within_it():
    """At most 0.05 of all, and 0.1 within a domain: 0.08 of one domain keeps the promise, and no other has one."""
    scores = {"day": np.linspace(0, 0.4, 200), "night": np.linspace(0, THRESHOLD, 200)}
    scores[""] = np.concatenate([*scores.values()])
    found = worst_group_threshold(scores, {"day": 400, "night": 400, "": 800}, "5e-2", 2)
    watch = Monitor(replace(of_pairs("1e-2"), thresholds=(found,)), domains=True)
    for number in range(2_000):
        watch.add(0.9 * (number % 26 == 0), (f"a{number}", f"b{number}"), ("night", "day")[number % 2])
    assert [(part["domain"], part["promised"]) for part in watch.parts()] == [("", 0.05), ("night", 0.1), ("day", 0.1)]
    assert watch.parts()[1]["rate"] == pytest.approx(0.077)
    with pytest.raises(ValueError, match="nothing is promised of domain 'dusk', which was not calibrated on"):
        watch.add(0.0, ("x", "y"), "dusk")
    assert (watch.lines, watch.since) == (2_000, "")


def test_a_promise_within_domains_alone_says_nothing_of_two_people_of_different_ones(written):
    """Their comparisons may pass however often: counted together with the rest, they raised an alarm for nothing."""
    scores = {"day": np.linspace(0, 0.4, 200), "night": np.linspace(0, THRESHOLD, 200)}
    found = worst_group_threshold(scores, {"day": 400, "night": 400}, "5e-2")
    watch = Monitor(replace(of_pairs("1e-2"), thresholds=(found,)))
    watch.add(0.9, ("a", "b"), "day")
    with pytest.raises(ValueError, match="nothing is promised of comparisons without a domain: the promise is within "):
        watch.add(0.9, ("c", "d"))
    with pytest.raises(ValueError, match="nothing is promised of domain 'dusk', which was not calibrated on: the "):
        watch.add(0.9, ("c", "d"), "dusk")
    assert (watch.lines, [part["domain"] for part in watch.parts()]) == (1, [""])
    with pytest.raises(ValueError, match="domain"):
        watch.follow(written([(0.9, "e", "f")]))
    watch.follow(written([(0.1, "e", "f", "night")], "score,person,other_person,domain"))
    assert watch.lines == 2


def test_codes_that_differ_in_case_are_people_where_the_calibration_says_so():
    calibration = of_gallery()
    watches = [Monitor(replace(calibration, strangers=replace(calibration.strangers, names_rule=rule)))
               for rule in (None, "merge", "exact")]  # fmt: skip
    for watch in watches:
        for code in ("aB", "AB", "aB"):
            watch.add(0.1, [code])
        with pytest.raises(ValueError, match="an event needs 1 different people with names"):
            watch.add(0.1, ["NaN"])
    assert [watch.folded for watch in watches] == [2, 2, 1]


@pytest.mark.usefixtures("unchecked")
def test_names_that_differ_in_case_are_people_where_that_is_asked_for(written, tmp_path: Path):
    log = written([(0.1, "aX1", "bY1"), (0.1, "ax1", "cZ1"), (0.1, "AX1", "ax1")])
    state = tmp_path / "state.npz"
    found = Monitor(of_pairs("1e-2"), names="exact").follow(log, state).fields()
    assert (found["lines"], found["folded"], found["names_rule"]) == (3, 1, "exact")
    for rule in (None, "merge"):
        watch = Monitor(of_pairs("1e-2"), names=rule)
        with pytest.raises(ValueError, match=r"got \['AX1', 'ax1'\] in two spellings; --names exact takes them as two"):
            watch.follow(log)
        assert (watch.lines, watch.folded, watch.names_rule) == (2, 1, rule)
        with pytest.raises(ValueError, match=r"the state of another watch: the watch: names was 'exact'"):
            Monitor(of_pairs("1e-2"), names=rule).follow(log, state)
    calibration = of_pairs("1e-2")
    exact = replace(calibration, source=replace(calibration.source, names_rule="exact"))
    assert Monitor(exact).follow(log, state).lines == 3
    Monitor(calibration, names="merge").follow(written([(0.1, "a", "b")]), tmp_path / "merged.npz")
    with pytest.raises(ValueError, match=r"the state of another watch: the watch: names was 'merge' and is 'exact'"):
        Monitor(exact).follow(written([(0.1, "a", "b")]), tmp_path / "merged.npz")
    with pytest.raises(ValueError, match="names is 'all'; allowed are merge and exact"):
        Monitor(of_pairs("1e-2"), names="all")


@pytest.mark.parametrize(
    ("people", "says"),
    [
        (("a",), r"an event needs 2 different people with names, got \['a'\]"),
        (("a", "A "), "an event needs 2 different people"),
        (("a", ""), "an event needs 2 different people with names"),
        (("a", "nan"), "an event needs 2 different people with names"),
        (("a", " -1.0"), "an event needs 2 different people with names"),
    ],
)
def test_people_who_cannot_be_those_of_a_comparison(people: tuple[str, ...], says: str):
    watch = Monitor(of_pairs("1e-3"))
    with pytest.raises(ValueError, match=says):
        watch.add(0.1, people)
    assert watch.lines == 0


def test_the_promise_is_named_where_there_are_several():
    assert Monitor(of_pairs("1e-2", "1e-3"), "0.001").promise == "FAR of at most 1e-3"
    for rate in (None, "1e-4"):
        with pytest.raises(ValueError, match=f"name the promise by its rate, one of 1e-2, 1e-3; got {rate}"):
            Monitor(of_pairs("1e-2", "1e-3"), rate)
    with pytest.raises(ValueError, match="a reference is for two photographs, this calibration for a gallery"):
        Monitor(of_gallery(), reference=Path("a.npz"))
    with pytest.raises(ValueError, match=r"genuine must be at least 0 and below 1, got 1\.5"):
        Monitor(of_pairs("1e-2"), genuine=1.5)


# --- two calls are one ---


def stream(number: int) -> list[tuple]:
    random = np.random.default_rng(3)
    return [
        (round(random.normal(0.2, 0.2), 4), f"a{random.integers(400)}", f"b{event}", ("day", "night", "")[event % 3])
        for event in range(number)
    ]


HEADER = "score,person,other_person,domain"


def test_two_calls_end_where_one_does_to_the_bit(tmp_path: Path):
    rows = stream(300)
    whole = Monitor(of_pairs("1e-2"), domains=True)
    whole.follow(log_of(tmp_path / "log.csv", rows, HEADER), tmp_path / "whole.npz")
    for number in (1, 100, 299, 300):
        part = Monitor(of_pairs("1e-2"), domains=True)
        part.follow(log_of(tmp_path / "log.csv", rows[:number], HEADER), tmp_path / "part.npz")
    assert part.json() == whole.json()
    left, right = (dict(np.load(tmp_path / name)) for name in ("part.npz", "whole.npz"))
    assert left["seal"].tobytes() == right["seal"].tobytes()
    assert json.loads(whole.json())["lines"] == 300


def test_a_call_without_new_lines_changes_nothing(tmp_path: Path):
    log = log_of(tmp_path / "log.csv", stream(50), HEADER)
    texts = [Monitor(of_pairs("1e-2")).follow(log, tmp_path / "state.npz").text() for _ in range(2)]
    assert texts[0] == texts[1]


def test_a_wrong_line_leaves_the_state_as_it_was(tmp_path: Path):
    log, state = log_of(tmp_path / "log.csv", stream(5), HEADER), tmp_path / "state.npz"
    Monitor(of_pairs("1e-2")).follow(log, state)
    before = digest(state)
    log_of(log, [*stream(6), ("x", "a", "b", "")], HEADER)
    with pytest.raises(ValueError, match=r"log.csv: line 8: score must be a number, got 'x'"):
        Monitor(of_pairs("1e-2")).follow(log, state)
    assert digest(state) == before


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (
            lambda: Monitor(of_pairs("1e-3")),
            "the watch: promise was 'FAR of at most 1e-2' and is 'FAR of at most 1e-3'",
        ),
        (lambda: Monitor(of_pairs("1e-2"), domains=True), "the watch: domains was False and is True"),
        (lambda: Monitor(of_gallery()), "calibrated on was '000"),
    ],
)
def test_the_state_of_another_watch_is_refused(tmp_path: Path, other: Callable[[], Monitor], says: str):
    log, state = log_of(tmp_path / "log.csv", stream(5), HEADER), tmp_path / "state.npz"
    Monitor(of_pairs("1e-2")).follow(log, state)
    with pytest.raises(ValueError, match=f"state.npz: the state of another watch: .*{says}"):
        other().follow(log, state)


def test_a_file_that_is_no_state_is_refused(tmp_path: Path):
    np.savez(tmp_path / "state.npz", words=np.array(["{}"]))
    log = log_of(tmp_path / "log.csv", stream(5), HEADER)
    with pytest.raises(ValueError, match=r"state.npz: not the state of a watch, or written by an earlier version"):
        Monitor(of_pairs("1e-2")).follow(log, tmp_path / "state.npz")


# --- files ---


@pytest.mark.parametrize(
    ("header", "row", "says"),
    [
        ("score,person", "0.1,a", r"line 1: no column 'other_person' among \['score', 'person'\]"),
        ("score,person,other_person", "nan,a,b", "line 2: score is NaN"),
        ("score,person,other_person", "0.1,a,a", "line 2: an event needs 2 different people"),
        ("score,person,other_person", "0.1,a,", "line 2: an event needs 2 different people with names"),
        ("score,person,other_person", "0.1,a", "line 2: 2 values where the header has 3 columns"),
        ("score,person,score,other_person", "0.1,a,2,b", "line 1: two columns are named 'score'"),
    ],
)
def test_a_fault_is_one_line_with_its_place(written, header: str, row: str, says: str):
    with pytest.raises(ValueError, match=f"log.csv: {says}"):
        Monitor(of_pairs("1e-2")).follow(written([row.split(",")], header))


def test_an_empty_file_is_refused_and_a_header_alone_is_not(tmp_path: Path, written):
    (tmp_path / "empty.csv").touch()
    with pytest.raises(ValueError, match=r"empty.csv: line 1: no column 'score' among \[\]; see docs/monitoring.md"):
        Monitor(of_pairs("1e-2")).follow(tmp_path / "empty.csv")
    assert "0 of 0 lines count" in Monitor(of_pairs("1e-2")).follow(written([])).text()


def test_an_alarm_names_line_and_time(written):
    rows = [(0.9, f"a{number}", f"b{number}", f"10:0{number}") for number in range(4)]
    watch = Monitor(of_pairs("1e-3")).follow(written(rows, "score,person,other_person,time"))
    assert watch.since == "line 3 (10:01)"


# --- scores without labels ---


@pytest.fixture
def scored(tmp_path: Path) -> tuple[Path, Calibration]:
    """2,000 impostor scores of a standard normal distribution, and 500 genuine ones at 4."""
    random, path = np.random.default_rng(1), tmp_path / "scores.csv"
    rows = [*((score, 0) for score in random.normal(size=2000)), *((score, 1) for score in random.normal(4, 1, 500))]
    log_of(path, rows, "score,label")
    return path, calibrate(path, ["1e-2"], independent=True)


def test_scores_like_those_calibrated_on_whatever_the_share_of_genuine_pairs(scored, written):
    path, calibration = scored
    random = np.random.default_rng(2)
    rows = [(random.normal(4 if random.random() < (0.05, 0.5)[n > 2000] else 0, 1),) for n in range(4000)]
    watch = Monitor(calibration, reference=path).follow(written(rows, "score"))
    assert not watch.since
    assert watch.promise.startswith("Scores below the cut of 1.")
    assert watch.parts()[0]["counted"] < watch.lines


def test_shifted_scores_are_noticed(scored, written):
    path, calibration = scored
    random = np.random.default_rng(3)
    watch = Monitor(calibration, reference=path).follow(written([(x,) for x in random.normal(0.5, 1, 3000)], "score"))
    assert watch.since
    assert watch.evidence > ALARM
    assert watch.parts()[0]["passed"] > watch.parts()[0]["promised"] * watch.parts()[0]["counted"]


def test_with_a_reference_the_strongest_part_decides(tmp_path: Path):
    """All have the weight 1/2, the first domain 1/4; their sum is no e-process, as they see different ranks."""
    random, path = np.random.default_rng(6), tmp_path / "scores.csv"
    rows = [(random.normal(4 * (n % 2)), n % 2, ("day", "night")[n // 2 % 2]) for n in range(1000)]
    log_of(path, rows, "score,label,domain")
    watch = Monitor(calibrate(path, ["2e-2"], independent=True), reference=path, domains=True)
    for score in random.normal(0.5, 1, 100):
        watch.add(score, domain="night")
    everybody, night = (part["evidence"] for part in watch.parts())
    assert watch.evidence == pytest.approx(max(everybody / 2, night / 4))
    with pytest.raises(ValueError, match="domain 'dusk': 0 reference scores lie below the cut"):
        watch.add(0.1, domain="dusk")


def test_named_people_are_folded_in_scores_too(scored, written):
    path, calibration = scored
    rows = [(0.1, "a"), (0.1, "a"), (0.1, "b")]
    assert Monitor(calibration, reference=path).follow(written(rows, "score,person")).folded == 1


def test_another_reference_is_refused(scored, tmp_path: Path):
    path, calibration = scored
    other = tmp_path / "other.csv"
    other.write_text(path.read_text() + "0.1,0\n")
    with pytest.raises(
        ValueError, match=r"other.csv: not the file calibrated on \(scores.csv, SHA-256 [0-9a-f]{12}\.\.\."
    ):
        Monitor(calibration, reference=other)


def test_without_genuine_pairs_their_share_must_be_stated(tmp_path: Path):
    path = log_of(tmp_path / "scores.csv", [(score, 0) for score in np.linspace(-1, 1, 400)], "score,label")
    calibration = calibrate(path, ["1e-1"], independent=True, skip_empty=True)
    with pytest.raises(ValueError, match="no genuine pair says how many score below the cut"):
        Monitor(calibration, reference=path)
    assert Monitor(calibration, reference=path, genuine=0.0).evidence == pytest.approx(1)


def test_of_embeddings_the_comparisons_that_the_threshold_was_chosen_from_are_the_reference(tmp_path: Path):
    """100 people with one or two images: 50 impostor pairs, among them the threshold, and a genuine one of each two."""
    random = np.random.default_rng(4)
    people = np.concatenate([np.arange(100), np.arange(60)])
    rows = (random.normal(size=(100, 16))[people] + 0.3 * random.normal(size=(160, 16))).astype(np.float32)
    domains = np.array(["day", "night"])[people % 2]
    path = tmp_path / "set.npz"
    write_embeddings(path, Embeddings(rows, np.arange(160).astype(str), people.astype(str), domains))
    calibration = calibrate(path, ["1e-1"], guarantee="expected", seed=5, skip_empty=True)
    known = Monitor(calibration, reference=path)._reference
    assert known is not None
    assert (int((~known.genuine).sum()), int(known.genuine.sum())) == (50, 60)
    assert (known.score[~known.genuine] == calibration.threshold).sum() == 1
    assert known.score[known.genuine].min() > np.median(known.score[~known.genuine])
    assert set(known.domains.tolist()) == {"", "day", "night"}
    with pytest.raises(ValueError, match="0 reference scores lie below the cut"):
        Monitor(calibration, reference=path, domains=True).add(0.1, domain="elsewhere")
