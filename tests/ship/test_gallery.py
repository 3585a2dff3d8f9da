"""Thresholds of a gallery from files: who is refused, what a review removes, what is repeated, who is then found."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import verisphere
from verisphere.backbones.backbone import Backbone
from verisphere.base.identity import names_taken
from verisphere.base.trained_on import RowsInTraining, SharedWithTraining
from verisphere.base.vocabulary import Embeddings, ImageSource, Origin
from verisphere.base.words import Names
from verisphere.cli.start import main
from verisphere.decide import SortedScores, TooFewComparisonsError, disjoint_pairs, gallery_threshold
from verisphere.files.calibration import read_calibration
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.files.gallery_calibration import UNTIED, read_gallery_calibration
from verisphere.files.verdicts import Suspicious, Verdict, read_verdicts, verdicts_csv
from verisphere.models.folder import Model
from verisphere.models.gallery import Gallery
from verisphere.ship.calibrate import calibrate
from verisphere.ship.calibrated_files import EmbeddingsSet
from verisphere.ship.calibration_check import Accepted
from verisphere.ship.card.data import people_of_training
from verisphere.ship.card.thresholds import gallery_section
from verisphere.ship.deciding import Choice
from verisphere.ship.export import Results
from verisphere.ship.face_search import aligned_faces
from verisphere.ship.gallery import StrangersInGallery
from verisphere.ship.identify import identify, identify_each
from verisphere.ship.notes import sentence
from verisphere.ship.opened_gallery import open_gallery

PEOPLE, STRANGERS, SIDE = 8, 120, 3


class Sums(Backbone):
    """An embedding of the sums of pixels over columns and colours, about their middle."""

    input_size = (SIDE, SIDE)
    mean, scale = 127.5, 128.0

    def __init__(self) -> None:
        super().__init__(2 * SIDE)

    def embed(self, images):
        return images.sum(1).flatten(1)[:, : 2 * SIDE]


MODEL = Model(Path("model"), "test", Sums().eval(), "0" * 64, False, "arcface_112x112", ())
FIND = aligned_faces((SIDE, SIDE))


def pixels(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, SIDE, SIDE, 3), np.uint8)


def embedded(path: Path, faces: np.ndarray, people: list[str], origin: Origin | None = None) -> Path:
    names = [f"{person}/{number}.png" for number, person in enumerate(people)]
    own = MODEL.origin(ImageSource("faces", None)) if origin is None else origin
    write_embeddings(path, Embeddings(MODEL.embed(faces), names, people, origin=own))
    return path


ENROLLED, OTHERS = pixels(2 * PEOPLE, 0), pixels(STRANGERS, 1)
NAMES = [f"p{number % PEOPLE}" for number in range(2 * PEOPLE)]
UNKNOWN = [f"s{number}" for number in range(STRANGERS)]
#: Other photographs of the enrolled people: near to their first ones.
AGAIN = np.clip(
    ENROLLED[:PEOPLE].astype(int) + np.random.default_rng(2).integers(-9, 10, (PEOPLE, SIDE, SIDE, 3)), 0, 255
)
AGAIN = AGAIN.astype(np.uint8)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    embedded(tmp_path / "gallery.npz", ENROLLED, NAMES)
    embedded(tmp_path / "strangers.npz", OTHERS, UNKNOWN)
    embedded(tmp_path / "probes.npz", AGAIN, NAMES[:PEOPLE])
    embedded(tmp_path / "cohort.npz", pixels(30, 3), [f"c{number}" for number in range(30)])
    return tmp_path


def found_in(files: Path, strangers: str = "strangers.npz", **options) -> StrangersInGallery:
    for name in ("cohort", "probes"):
        if name in options:
            options[name] = EmbeddingsSet.read(files / options[name])
    return StrangersInGallery(EmbeddingsSet.read(files / strangers), open_gallery(files / "gallery.npz"), **options)


def test_the_threshold_is_that_of_the_strangers_best_scores(files):
    calibration = found_in(files, probes="probes.npz").calibration(["0.1", "0.05"])
    best = Gallery(read_embeddings(files / "gallery.npz")).search(MODEL.embed(OTHERS)).statistic
    assert [found.threshold for found in calibration.thresholds] == [
        gallery_threshold(best, fpir, people=PEOPLE).threshold for fpir in ("0.1", "0.05")
    ]
    first = calibration.threshold("0.1")
    assert (first.strangers, first.people, first.seed) == (STRANGERS, PEOPLE, 0)
    assert first.identified is not None
    assert (first.identified.total, first.identified.file) == (PEOPLE, "probes.npz")
    assert (calibration.strangers.people, calibration.gallery.photographs) == (STRANGERS, 2 * PEOPLE)
    rate = first.identified
    own = Gallery(read_embeddings(files / "gallery.npz")).search(MODEL.embed(AGAIN))
    right = [f"p{person}" == name for person, name in zip(own.person, NAMES, strict=False)]
    assert rate.identified == int((np.array(right) & (own.statistic > first.threshold)).sum()) > 0


def test_several_photographs_of_a_stranger_are_one_draw(files):
    embedded(files / "more.npz", np.concatenate([OTHERS, OTHERS ^ 1]), UNKNOWN + UNKNOWN)
    one = found_in(files, "more.npz", seed=3)
    assert len(one.searched.statistic) == STRANGERS
    assert sorted(one.drawn.identities.tolist()) == sorted(UNKNOWN)
    other = found_in(files, "more.npz", seed=4)
    assert one.drawn.names.tolist() != other.drawn.names.tolist()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"people": [*UNKNOWN[:-1], "p3"]},
            "1 of its people are in .*gallery.npz too, such as 'p3'; strangers are people",
        ),
        ({"people": [*UNKNOWN[:-1], "P3"]}, "are one name but for case"),
        ({"origin": replace(MODEL.origin(ImageSource("faces", None)), model="1" * 64)}, "not made as|weights"),
        ({"faces": np.repeat(OTHERS[:1], STRANGERS, 0)}, "implausible"),
    ],
)
def test_strangers_that_are_none(files, change, words):
    about = {"faces": OTHERS, "people": UNKNOWN} | change
    path = embedded(files / "strangers.npz", **about)
    with pytest.raises(ValueError, match=words) as caught:
        found_in(files)
    assert "\n" not in str(caught.value)
    assert path.name in str(caught.value)


def test_strangers_that_the_model_was_trained_on_are_refused_unless_accepted(files, monkeypatch):
    def refuse(rows, path):
        raise ValueError(f"{path}: trained on")

    monkeypatch.setattr("verisphere.ship.gallery.refuse_training_people", refuse)
    with pytest.raises(ValueError, match="trained on"):
        found_in(files)
    found_in(files, accepted=Accepted(training_people=True))


def test_probes_that_the_model_was_trained_on_are_named(files, caplog):
    probes = read_embeddings(files / "probes.npz")
    trained = np.arange(PEOPLE) < 3
    known = RowsInTraining(np.zeros(PEOPLE, bool), trained, True, "", np.arange(PEOPLE))
    write_embeddings(files / "probes.npz", replace(probes, in_training=known))
    found = found_in(files, probes="probes.npz").calibration(["0.1"])
    assert f"probes.npz: the model was trained on 3 of the {PEOPLE} images, so TPIR is that of" in caplog.text
    found.write_json(files / "gallery.json")
    first = read_gallery_calibration(files / "gallery.json").threshold()
    said = f"the model was trained on 3 of the {PEOPLE} images of probes.npz, so more enrolled people may be missed"
    assert first.warning().startswith(said)
    assert str(first).startswith(f"T{said[1:]}")
    choice, probe = Choice(calibration=files / "gallery.json"), photo(files / "probe.png", AGAIN[2])
    for answer in (identify, identify_each):
        assert answer(probe, files / "gallery.npz", MODEL, FIND, choice).text().startswith(f"T{said[1:]}")
    card = "\n".join(people_of_training((None, found), {}))
    assert f"probes.npz, the probes of the gallery: the model was trained on 3 of the {PEOPLE} images." in card


def test_a_cohort_and_probes_that_are_none(files):
    embedded(files / "other.npz", OTHERS[:20], UNKNOWN[:20])
    with pytest.raises(
        ValueError, match=r"other\.npz: 20 of its people are in .*strangers\.npz too, .* neither enrolled"
    ):
        found_in(files, statistic="z", cohort="other.npz")
    with pytest.raises(ValueError, match=r"8 of its people are in .*gallery\.npz too"):
        found_in(files, statistic="z", cohort="probes.npz")
    with pytest.raises(ValueError, match="20 of its 20 rows show nobody who is enrolled, such as 's0'"):
        found_in(files, probes="other.npz")
    embedded(files / "same.npz", ENROLLED[:PEOPLE], NAMES[:PEOPLE])
    with pytest.raises(ValueError, match="an image that meets itself is always found"):
        found_in(files, probes="same.npz")


# --- a review ---


def verdict_of(pair: Suspicious, word: str) -> Verdict:
    return Verdict(pair.photograph, pair.other, word, pair.seal)


def planted(files: Path) -> StrangersInGallery:
    """Three strangers are enrolled people under another name."""
    faces = OTHERS.copy()
    faces[:3] = AGAIN[:3]
    embedded(files / "strangers.npz", faces, UNKNOWN)
    return found_in(files)


def test_a_review_removes_those_found_to_be_the_same_and_no_others(files):
    searched = planted(files)
    pairs = searched.suspicious(4)
    assert {pair.person for pair in pairs[:3]} == {"s0", "s1", "s2"}
    assert [pair.other_person for pair in pairs[:3]] == [f"p{pair.person[1:]}" for pair in pairs[:3]]
    words = ("same", "same", "cannot say", "different")
    verdicts = [verdict_of(pair, word) for pair, word in zip(pairs, words, strict=True)]
    found = searched.calibration(["0.1"], verdicts=verdicts).thresholds[0]
    keep = ~np.isin(searched.drawn.names, [pair.photograph for pair in pairs[:2]])
    left = gallery_threshold(searched.searched.statistic[keep], "0.1", people=PEOPLE)
    assert (found.threshold, found.strangers) == (left.threshold, STRANGERS - 2)
    assert (found.review.reviewed, found.review.removed) == (4, 2)
    assert "provided that the review of 4 pairs is right" in found.promise()
    assert found.threshold < searched.calibration(["0.1"]).thresholds[0].threshold
    assert [pair.person for pair in searched.suspicious(1, verdicts)] != [pairs[0].person]


def test_allowing_for_wrong_labels_moves_the_rank(files):
    searched = found_in(files)
    plain = searched.calibration(["0.1"]).thresholds[0]
    unfound = searched.calibration(["0.1"], unfound=30).thresholds[0]
    assert unfound.rank < plain.rank
    assert unfound.threshold >= plain.threshold
    with pytest.raises(TooFewComparisonsError, match="allowing for 92 unfound"):
        searched.calibration(["0.1"], unfound=92)
    pair = searched.suspicious(1)[0]
    verdict = [verdict_of(pair, "same")]
    stood = searched.calibration(["0.1"], verdicts=verdict, wrong=1).thresholds[0]
    assert stood.rank == searched.calibration(["0.1"], verdicts=verdict).thresholds[0].rank - 1


def test_a_review_of_other_pairs_is_refused(files):
    searched = found_in(files)
    pair = searched.suspicious(1)[0]
    stranger, _, enrolled = pair.seal.partition("-")
    assert searched.resolved([verdict_of(pair, "same")], Path("r.csv")) == (verdict_of(pair, "same"),)
    for seal in (f"{stranger}-{stranger}", f"{enrolled}-{enrolled}", "", "x-y-z"):
        with pytest.raises(ValueError, match=r"r\.csv: .* are not compared here, by their digests"):
            searched.resolved([replace(verdict_of(pair, "same"), seal=seal)], Path("r.csv"))


def test_a_review_of_a_gallery_whose_names_stand_for_other_photographs_is_refused(files):
    searched = planted(files)
    verdicts = [verdict_of(pair, "same") for pair in searched.suspicious(3)]
    rows = read_embeddings(files / "gallery.npz")
    turned = replace(rows, embeddings=np.roll(rows.embeddings, 2, 0), identities=np.roll(rows.identities, 2))
    write_embeddings(files / "gallery.npz", turned)
    other = found_in(files)
    # the same photographs of the same people under other names are the same pairs
    assert [one.word for one in other.resolved(verdicts, Path("r.csv"))] == ["same"] * 3
    embedded(files / "gallery.npz", pixels(2 * PEOPLE, 11), NAMES)
    with pytest.raises(ValueError, match="not compared here"):
        found_in(files).resolved(verdicts, Path("r.csv"))


def test_names_that_a_spreadsheet_would_run_are_told_apart(files):
    rows = read_embeddings(files / "strangers.npz")
    names = rows.names.copy()
    names[7], names[90] = "=a", "'=a"
    write_embeddings(files / "strangers.npz", replace(rows, names=names))
    searched = found_in(files)
    pair = next(one for one in searched.suspicious(STRANGERS) if one.photograph == "=a")
    (files / "r.csv").write_text(verdicts_csv([replace(pair, verdict="same")]))
    verdicts = searched.resolved(read_verdicts(files / "r.csv"), files / "r.csv")
    assert verdicts[0].photograph == "=a"
    removed = searched.calibration(["0.1"], verdicts=verdicts)
    assert removed.thresholds[0].strangers == STRANGERS - 1
    assert "=a" not in {one.photograph for one in searched.suspicious(STRANGERS, verdicts)}
    assert "'=a" in {one.photograph for one in searched.suspicious(STRANGERS, verdicts)}


# --- again ---


def test_a_calibration_is_repeated_for_a_gallery_that_changed(files):
    searched = planted(files)
    pairs = searched.suspicious(3)
    verdicts = [verdict_of(pair, "same") for pair in pairs]
    before = searched.calibration(["0.1", "0.05"], "expected", verdicts, unfound=1)
    gone = pairs[0].other
    rows = read_embeddings(files / "gallery.npz")
    write_embeddings(files / "gallery.npz", rows.take(rows.names != gone))
    again = found_in(files).again(before)
    assert [found.fpir_target for found in again.thresholds] == ["0.1", "0.05"]
    assert {found.guarantee for found in again.thresholds} == {"expected"}
    assert again.thresholds[0].review.unfound == 1
    assert again.verdicts == tuple(verdicts[1:])  # without the photograph the first verdict says nothing
    assert again.thresholds[0].strangers == STRANGERS - 2


def test_again_takes_names_as_the_calibration_before_did(files):
    with names_taken("merge"):
        before = found_in(files).calibration(["0.1"])
        assert found_in(files).again(before).strangers.names_rule == "merge"
    strangers = replace(before.strangers, names_rule=None)
    with pytest.raises(ValueError, match=r"gallery\.npz: .* by the rule 'merge'; repeat"):
        found_in(files).again(replace(before, strangers=strangers))
    rules: tuple[Names | None, ...] = (None, "exact")
    for rule in rules:
        with (
            names_taken(rule),
            pytest.raises(ValueError, match=r"strangers\.npz: .* by the rule 'merge'; repeat"),
        ):
            found_in(files).again(before)


def test_again_keeps_the_wrong_verdicts_that_were_asked_for(files):
    searched = planted(files)
    pairs = searched.suspicious(3)
    before = searched.calibration(["0.1"], "expected", [verdict_of(pairs[0], "same")], wrong=2)
    assert (before.thresholds[0].review.wrong, before.thresholds[0].review.errors) == (2, 1)
    more = searched.again(before, [verdict_of(pair, "same") for pair in pairs])
    assert more.thresholds[0].review.errors == 2
    rows = read_embeddings(files / "gallery.npz")
    write_embeddings(files / "gallery.npz", rows.take(rows.names != pairs[0].other))
    none = found_in(files).again(before)  # the only verdict is about a photograph that left
    assert (none.verdicts, none.thresholds[0].strangers, none.thresholds[0].review.errors) == ((), STRANGERS, 0)


def test_two_verdicts_about_one_pair_are_refused(files):
    searched = found_in(files)
    pair = searched.suspicious(1)[0]
    with pytest.raises(ValueError, match="have two verdicts"):
        searched.resolved([verdict_of(pair, "same"), verdict_of(pair, "different")], Path("r.csv"))


def test_the_calibration_records_how_names_of_the_gallery_were_taken(files):
    assert found_in(files).calibration(["0.1"]).gallery.names_rule is None
    rows = read_embeddings(files / "gallery.npz")
    write_embeddings(files / "gallery.npz", replace(rows, names_rule="exact"))
    found_in(files).calibration(["0.1"]).write_json(files / "g.json")
    assert read_gallery_calibration(files / "g.json").gallery.names_rule == "exact"
    written = json.loads((files / "g.json").read_text())
    written["gallery"]["names_rule"] = "loose"
    (files / "g.json").write_text(json.dumps(written))
    with pytest.raises(ValueError, match=r"g\.json: .*names_rule"):
        read_gallery_calibration(files / "g.json")


def test_a_gallery_of_photographs_is_tied_to_its_model(files):
    for number, (face, person) in enumerate(zip(ENROLLED, NAMES, strict=True)):
        photo(files / "people" / person / f"{number}.png", face)
    rows = read_embeddings(files / "strangers.npz")
    write_embeddings(files / "strangers.npz", replace(rows, origin=None))  # nothing ties the strangers to a model
    opened = open_gallery(files / "people", MODEL, FIND)
    searched = StrangersInGallery(EmbeddingsSet.read(files / "strangers.npz"), opened)
    searched.calibration(["0.1"]).write_json(files / "g.json")
    probe = photo(files / "probe.png", AGAIN[2])
    assert identify(probe, files / "people", MODEL, FIND, Choice(calibration=files / "g.json")).matches[0].name == "p2"
    other = replace(MODEL, sha256="1" * 64)
    with pytest.raises(ValueError, match=r"g\.json \(its gallery\): not made as model embeds .* \(weights"):
        identify(probe, files / "people", other, FIND, Choice(calibration=files / "g.json"))


def test_a_verdict_about_a_name_that_is_another_photograph_now_does_not_count(files):
    searched = planted(files)
    before = searched.calibration(["0.1"], verdicts=[verdict_of(pair, "same") for pair in searched.suspicious(3)])
    faces = ENROLLED.copy()
    row = read_embeddings(files / "gallery.npz").names.tolist().index(before.verdicts[0].other)
    faces[row] = pixels(1, 12)[0]
    embedded(files / "gallery.npz", faces, NAMES)
    again = found_in(files).again(before)
    assert [verdict.other for verdict in again.verdicts] == [verdict.other for verdict in before.verdicts[1:]]


# --- who is found ---


@pytest.fixture
def calibrated(files: Path) -> Path:
    found_in(files).calibration(["0.1", "0.05"]).write_json(files / "gallery.json")
    return files / "gallery.json"


def photo(path: Path, face: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(face).save(path)
    return path


def test_the_threshold_of_the_gallery_decides(files, calibrated):
    asked = {"calibration": calibrated, "fpir": "0.1"}
    probe = photo(files / "probe.png", AGAIN[2])
    found = identify(probe, files / "gallery.npz", MODEL, FIND, Choice(**asked))
    assert (found.matches[0].name, found.people) == ("p2", PEOPLE)
    assert found.threshold == read_gallery_calibration(calibrated).threshold("0.1")
    assert "at most 1 in 10 strangers are found in this gallery of 8 people" in found.text()
    assert "photographs that pass" in found.text()
    assert (
        found.matches[0].score
        == Gallery(read_embeddings(files / "gallery.npz")).search(MODEL.embed(AGAIN[2:3])).statistic[0]
    )
    stranger = identify(photo(files / "other.png", OTHERS[5]), files / "gallery.npz", MODEL, FIND, Choice(**asked))
    limit = stranger.threshold.threshold
    assert (stranger.matches == ()) == (stranger.best is not None and stranger.best.score <= limit)
    with pytest.raises(ValueError, match=r"gallery\.json: there are thresholds at FPIR 0\.1, 0\.05; name one"):
        identify(probe, files / "gallery.npz", MODEL, FIND, Choice(calibration=calibrated))
    with pytest.raises(ValueError, match="omit one"):
        identify(probe, files / "gallery.npz", MODEL, FIND, Choice(far="0.1", **asked))


def test_another_gallery_is_refused_and_a_part_is_not(files, calibrated):
    rows, probe = read_embeddings(files / "gallery.npz"), photo(files / "probe.png", AGAIN[2])
    write_embeddings(files / "part.npz", rows.take(np.arange(10)))
    assert (
        identify(probe, files / "part.npz", MODEL, FIND, Choice(calibration=calibrated, fpir="0.1")).matches[0].name
        == "p2"
    )
    embedded(files / "grown.npz", np.concatenate([ENROLLED, pixels(1, 7)]), [*NAMES, "new"])
    words = r"grown\.npz: .* promised for 8 people by 16 photographs, .* has 9 people by 17 .* --again .*gallery\.json"
    with pytest.raises(ValueError, match=words):
        identify(probe, files / "grown.npz", MODEL, FIND, Choice(calibration=calibrated, fpir="0.1"))


def test_photographs_as_a_gallery(files):
    for number, (face, person) in enumerate(zip(ENROLLED, NAMES, strict=True)):
        photo(files / "people" / person / f"{number}.png", face)
    opened = open_gallery(files / "people", MODEL, FIND)
    searched = StrangersInGallery(EmbeddingsSet.read(files / "strangers.npz"), opened)
    searched.calibration(["0.1"]).write_json(files / "of_photographs.json")
    asked = {"calibration": files / "of_photographs.json"}
    probe = photo(files / "probe.png", AGAIN[2])
    assert identify(probe, files / "people", MODEL, FIND, Choice(**asked)).matches[0].name == "p2"
    photo(files / "people" / "p0" / "0.png", pixels(1, 8)[0])  # one photograph is another now
    with pytest.raises(ValueError, match="1 of these are not in it"):
        identify(probe, files / "people", MODEL, FIND, Choice(**asked))
    with pytest.raises(ValueError, match="photographs need the model that embeds them: name it by --model"):
        open_gallery(files / "people")


def test_several_photographs_of_a_probe_need_more_than_half(files, calibrated):
    asked = {"calibration": calibrated, "fpir": "0.1"}
    for place, face in enumerate((AGAIN[2], ENROLLED[2], OTHERS[0])):
        photo(files / "probe" / f"{place}.png", face)
    found = identify(files / "probe", files / "gallery.npz", MODEL, FIND, Choice(**asked))
    assert (found.matches[0].name, found.matches[0].passed, found.matches[0].comparisons) == ("p2", 2, 3)
    assert "more than half of them meet the threshold with this person" in found.text()
    photo(files / "probe" / "3.png", OTHERS[1])  # two of four are no more than half
    assert not any(match.name == "p2" for match in identify(
        files / "probe", files / "gallery.npz", MODEL, FIND, Choice(**asked)).matches)  # fmt: skip


@pytest.mark.parametrize(("folder", "other", "rule"), [("52.0", "52.0", None), ("Ann", "ann", "merge")])
def test_nobody_is_left_out_under_another_spelling(tmp_path: Path, folder: str, other: str, rule: Names | None):
    """A photograph that is not read lies beside one that is."""
    photo(tmp_path / folder / "1.png", ENROLLED[0])
    for name in (other, "p3"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "2.heic").write_bytes(b"another format")
    with names_taken(rule):
        opened = open_gallery(tmp_path, MODEL, FIND)
    assert (opened.left_out, [skipped.name for skipped in opened.skipped]) == (
        ("p3",),
        [f"{other}/2.heic", "p3/2.heic"],
    )


def test_each_of_many_probes(files, calibrated):
    asked = {"calibration": calibrated, "fpir": "0.1"}
    for place, face in enumerate(AGAIN):
        photo(files / "seen" / f"{place}.png", face)
    (files / "seen" / "no.png").write_bytes(b"nothing")
    found = identify_each(files / "seen", files / "gallery.npz", MODEL, FIND, Choice(**asked))
    names = {probe.probe: probe.person for probe in found.probes if probe.status == "found"}
    limit = found.threshold.threshold
    own = Gallery(read_embeddings(files / "gallery.npz")).search(MODEL.embed(AGAIN)).statistic
    assert names == {f"{place}.png": f"p{place}" for place in range(PEOPLE) if own[place] > limit}
    assert [probe.status for probe in found.probes if probe.probe == "no.png"] == ["unreadable"]
    found.write_each(files / "each.csv")
    rows = list(csv.DictReader((files / "each.csv").read_text().splitlines()))
    assert [row["probe"] for row in rows] == sorted(row["probe"] for row in rows)
    assert {row["probe"]: row["person"] for row in rows if row["status"] == "found"} == names
    assert "9 probes among 8 people" in found.text()
    by_rows = identify_each(files / "probes.npz", files / "gallery.npz", MODEL, FIND, Choice(**asked))
    assert sorted(probe.person for probe in by_rows.probes) == sorted([*names.values(), *[""] * (PEOPLE - len(names))])


def test_python_warns_of_what_weakens_a_promise(files, caplog):
    strangers, gallery = read_embeddings(files / "strangers.npz"), read_embeddings(files / "gallery.npz")
    promised = verisphere.calibrate(strangers, gallery=gallery, fpir="0.1")
    MODEL.identify(AGAIN, gallery, calibration=promised)
    assert "so it promises nothing" not in caplog.text
    shared = SharedWithTraining(3, 0, 40, 40, True)
    thresholds = tuple(replace(threshold, in_training=shared) for threshold in promised.thresholds)
    MODEL.identify(AGAIN, gallery, calibration=replace(promised, thresholds=thresholds))
    assert "the model was trained on 3 of the 40 people (by name), so it promises nothing about new" in caplog.text


def test_python(files):
    strangers, gallery = read_embeddings(files / "strangers.npz"), read_embeddings(files / "gallery.npz")
    promised = verisphere.calibrate(strangers, gallery=gallery, fpir="0.1", rule="next")
    assert promised.threshold() == found_in(files, statistic="next").calibration(["0.1"]).threshold()
    answers = MODEL.identify(AGAIN, gallery, calibration=promised)
    assert [answer.nearest for answer in answers] == NAMES[:PEOPLE]
    assert all((answer.person is not None) == (answer.score > answer.threshold) for answer in answers)
    with pytest.raises(ValueError, match="promised for 8 people"):
        MODEL.identify(AGAIN, gallery.take(np.arange(9)), calibration=promised)
    with pytest.raises(ValueError, match="this model ships no threshold for a gallery"):
        MODEL.identify(AGAIN, gallery)
    other = replace(gallery, origin=Origin("1" * 64, False, "float32", "faces"))
    with pytest.raises(ValueError, match="the gallery: not made as"):
        MODEL.identify(AGAIN, other, calibration=promised)
    other = replace(gallery, origin=replace(gallery.origin, alignment="sphereface_112x96 by MTCNN"))
    with pytest.raises(ValueError, match="template sphereface_112x96 against arcface_112x112"):
        MODEL.identify(AGAIN, other, calibration=promised)
    with pytest.raises(TypeError, match="fpir is for a threshold of a gallery"):
        verisphere.calibrate(strangers, fpir="0.1")


def test_python_refuses_what_belongs_to_another_threshold_or_cohort(files):
    strangers, gallery = read_embeddings(files / "strangers.npz"), read_embeddings(files / "gallery.npz")
    said = "far, replicates, cap, factor, frr, fold and probability are for two photographs"
    with pytest.raises(TypeError, match=said):
        verisphere.calibrate(strangers, far="1e-3", gallery=gallery)
    with pytest.raises(TypeError, match="no argument is called 'fprr'; for a gallery see fpir, guarantee"):
        verisphere.calibrate(strangers, gallery=gallery, fprr="0.1")
    cohort = read_embeddings(files / "cohort.npz")
    promised = verisphere.calibrate(strangers, gallery=gallery, fpir="0.1", rule="z", cohort=cohort)
    assert MODEL.identify(AGAIN, gallery, calibration=promised, cohort=cohort)[0].nearest == "p0"
    with pytest.raises(ValueError, match="with the cohort 'cohort', and another one was named"):
        MODEL.identify(AGAIN, gallery, calibration=promised, cohort=cohort.take(np.arange(2, 20)))
    with pytest.raises(ValueError, match="and none was named"):
        MODEL.identify(AGAIN, gallery, calibration=promised)
    plain = verisphere.calibrate(strangers, gallery=gallery, fpir="0.1")
    with pytest.raises(ValueError, match="with no cohort, and one was named"):
        MODEL.identify(AGAIN, gallery, calibration=plain, cohort=cohort)
    with pytest.raises(ValueError, match="not compared here"):
        verisphere.calibrate(strangers, gallery=gallery, fpir="0.1", verdicts=[Verdict("a", "b", "same", "1-2")])


@pytest.mark.parametrize("argument", ["gallery", "cohort", "probes"])
def test_python_says_which_set_is_no_embeddings(files, argument, unchecked):
    sets = {"gallery": read_embeddings(files / "gallery.npz"), "fpir": "0.1"}
    strangers = read_embeddings(files / "strangers.npz")
    for value, kind in ((sets["gallery"].embeddings, "ndarray"), ("e.npz", "str")):
        with pytest.raises(TypeError, match=f"{argument} must be Embeddings.*, got {kind}$"):
            verisphere.calibrate(strangers, **(sets | {argument: value}))
    with pytest.raises(ValueError, match=f"{argument} is empty; it must have at least one row"):
        verisphere.calibrate(strangers, **(sets | {argument: sets["gallery"].take(np.arange(0))}))
    if argument != "probes":
        with pytest.raises(TypeError, match=f"{argument} must be Embeddings.*, got str$"):
            MODEL.identify(AGAIN, **({"gallery": sets["gallery"]} | {argument: "e.npz"}))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"unfound": 1.5}, "unfound is 1.5; it must be a whole number"),
        ({"wrong": "2"}, "wrong is '2'; it must be a whole number"),
        ({"seed": None}, "seed is None; it must be a whole number"),
        ({"verdicts": None}, "verdicts must be a list of Verdict"),
        ({"verdicts": ["same"]}, "verdicts must be a list of Verdict"),
        ({"fpir": ["0.1", 0.1]}, "fpir: FPIR 0.1 is asked for twice"),
        ({"guarantee": "capped"}, "guarantee of a gallery is 'capped'; allowed are confident, expected"),
    ],
)
def test_python_names_a_wrong_argument(files, options, words, unchecked):
    strangers, gallery = read_embeddings(files / "strangers.npz"), read_embeddings(files / "gallery.npz")
    with pytest.raises((TypeError, ValueError), match=f"^{words}"):
        verisphere.calibrate(strangers, gallery=gallery, **options)
    with pytest.raises(TypeError, match=r"calibration must be what calibrate\(gallery=\) returns, got str"):
        MODEL.identify(AGAIN, gallery, calibration="eg.json")


def test_a_gallery_of_templates_is_the_one_that_python_calibrated(files):
    rows = read_embeddings(files / "gallery.npz")
    pooled = replace(rows, templates=rows.identities)
    promised = verisphere.calibrate(read_embeddings(files / "strangers.npz"), gallery=pooled, fpir="0.1")
    assert promised.gallery.photographs == PEOPLE
    assert len(MODEL.identify(AGAIN, pooled, calibration=promised)) == PEOPLE


def test_everybody_who_passes_is_counted(files):
    same = np.repeat(ENROLLED[:1], 15, 0) ^ np.arange(15, dtype=np.uint8)[:, None, None, None] // 8
    embedded(files / "gallery.npz", same, [f"q{number:02}" for number in range(15)])
    found_in(files, accepted=Accepted(implausible=True)).calibration(["0.1"]).write_json(files / "g.json")
    probe = photo(files / "probe.png", ENROLLED[0])
    found = identify(probe, files / "gallery.npz", MODEL, FIND, Choice(calibration=files / "g.json"), top=3)
    assert (len(found.matches), found.passing) == (3, 15)
    assert "and 12 more" in found.text()


def test_other_crops_of_the_same_photographs_are_another_gallery(files):
    for number, (face, person) in enumerate(zip(ENROLLED, NAMES, strict=True)):
        photo(files / "people" / person / f"{number}.png", face)
    digests = [
        open_gallery(files / "people", MODEL, find).gallery.digests.tolist()
        for find in (FIND, replace(FIND, how="arcface_112x112 by MTCNN from 120 pixels"), FIND)
    ]
    assert digests[0] == digests[2]
    assert not set(digests[0]) & set(digests[1])


def test_strangers_of_unknown_origin_are_not_said_to_be_of_the_gallerys_model(files):
    rows = read_embeddings(files / "strangers.npz")
    write_embeddings(files / "strangers.npz", replace(rows, origin=None))
    found = found_in(files).calibration(["0.1"])
    assert found.origin is None
    assert found.thresholds[0].calibrated_on is None


def test_a_gallery_that_names_no_model_is_said_to_be_taken_on_trust(files):
    """The strangers' threshold was found in it, and promised as if it were of their model."""
    rows = read_embeddings(files / "gallery.npz")
    assert not found_in(files).calibration(["0.1"]).doubts
    write_embeddings(files / "gallery.npz", replace(rows, origin=None))
    found = found_in(files).calibration(["0.1"])
    (untold,) = found.doubts
    assert untold.startswith("nothing says which model made the gallery that the threshold was found with: that")
    assert f"**N{untold[1:]}.**" in list(gallery_section(found, "g.json"))
    found.write_json(files / "g.json")
    probe = photo(files / "probe.png", AGAIN[2])
    notes = identify(probe, files / "gallery.npz", MODEL, FIND, Choice(calibration=files / "g.json")).notes
    assert sentence(untold) in notes


@pytest.mark.parametrize(("part", "words"), [
    ("probes", "embeddings of its probes were made by an earlier version, which did not record the pixels"),
    ("cohort", "embeddings of its cohort were made by an earlier version, which did not record the pixels"),
    ("probes", "nothing says which model made the probes that the threshold was found with"),
    ("cohort", "nothing says which model made the cohort that the threshold was found with"),
])  # fmt: skip
def test_probes_and_a_cohort_that_do_not_say_how_they_were_made_are_refused_and_said(files, part, words):
    rows = read_embeddings(files / f"{part}.npz")
    old = rows.origin and replace(rows.origin, preprocessing=None)
    trusted = words.startswith("nothing")
    write_embeddings(files / f"{part}.npz", replace(rows, origin=None if trusted else old))
    how = {"statistic": "s" if part == "cohort" else "best", part: f"{part}.npz"}
    if not trusted:
        with pytest.raises(ValueError, match=rf"{part}\.npz: made by an earlier version, .*--accept-unrecorded-pixels"):
            found_in(files, **how)
    found = found_in(files, **how, accepted=Accepted(unrecorded_pixels=True)).calibration(["0.1"])
    found.write_json(files / "g.json")
    assert read_gallery_calibration(files / "g.json").doubts == found.doubts
    (doubt,) = found.doubts
    assert doubt.startswith(words)
    assert replace(found, origin=None).doubts == (UNTIED, doubt)[: 1 if trusted else 2]
    assert any(f"{doubt[1:]}.**" in line for line in gallery_section(found, "g.json"))
    own, exported = MODEL.origin(ImageSource("")), Results(gallery=files / "g.json")
    if not trusted:
        with pytest.raises(ValueError, match=r"g\.json: made by an earlier version, .*--accept-unrecorded-pixels"):
            exported.check(files, own, accept_unrecorded=False)
    exported.check(files, own, accept_unrecorded=True)
    assert doubt in exported.notes()
    cohort = files / "cohort.npz" if part == "cohort" else None
    choice, probe = Choice(calibration=files / "g.json", cohort=cohort), photo(files / "probe.png", AGAIN[2])
    assert sentence(doubt) in identify(probe, files / "gallery.npz", MODEL, FIND, choice).notes


@pytest.mark.parametrize("part", ["probes", "cohort"])
def test_a_side_of_other_pixels_than_the_model_takes_is_refused_by_export_and_identify(files, part):
    """Where neither strangers nor gallery say how they were embedded, nothing else could tell."""
    for name in ("gallery", "strangers"):
        rows = read_embeddings(files / f"{name}.npz")
        write_embeddings(files / f"{name}.npz", replace(rows, origin=None))
    own = MODEL.origin(ImageSource("faces", None))
    other = replace(own, preprocessing=replace(own.preprocessing, mean=3.0))
    write_embeddings(files / f"{part}.npz", replace(read_embeddings(files / f"{part}.npz"), origin=other))
    how = {"statistic": "s" if part == "cohort" else "best", part: f"{part}.npz"}
    found_in(files, **how).calibration(["0.1"]).write_json(files / "g.json")
    with pytest.raises(ValueError, match=r"g\.json: not made as .*mean 3 against"):
        Results(gallery=files / "g.json").check(files, own, accept_unrecorded=False)
    cohort = files / "cohort.npz" if part == "cohort" else None
    choice, probe = Choice(calibration=files / "g.json", cohort=cohort), photo(files / "probe.png", AGAIN[2])
    for answer in (identify, identify_each):
        with pytest.raises(ValueError, match=rf"g\.json \(its {part}\): not made as .*mean 3 against"):
            answer(probe, files / "gallery.npz", MODEL, FIND, choice)


def test_where_most_photographs_name_nobody_there_is_no_nearest_person(files):
    found_in(files, statistic="gap").calibration(["0.1"]).write_json(files / "g.json")
    nearest = Gallery(read_embeddings(files / "gallery.npz")).search(MODEL.embed(OTHERS), "gap").person
    other = int(np.flatnonzero(nearest != nearest[0])[0])
    for number, row in enumerate((0, other)):
        photo(files / "probe" / f"{number}.png", OTHERS[row])
    found = identify(files / "probe", files / "gallery.npz", MODEL, FIND, Choice(calibration=files / "g.json"))
    assert (found.best, found.matches) == (None, ())
    assert "Nobody: no value is above the threshold" in found.text()
    assert "; no person is named by more than half of the photographs." in found.text()
    assert "infinit" not in found.json()
    one = identify(files / "probe" / "0.png", files / "gallery.npz", MODEL, FIND, Choice(calibration=files / "g.json"))
    assert one.best is not None
    assert f"the nearest is {one.best.name}, value {one.best.score:.4f}." in one.text()


def test_a_threshold_of_an_unknown_model_and_a_part_of_its_gallery_are_said(files):
    rows = read_embeddings(files / "strangers.npz")
    write_embeddings(files / "strangers.npz", replace(rows, origin=None))
    found_in(files, probes="probes.npz").calibration(["0.1"]).write_json(files / "g.json")
    enrolled = read_embeddings(files / "gallery.npz")
    write_embeddings(files / "part.npz", enrolled.take(enrolled.identities == "p2"))
    probe, choice = photo(files / "probes" / "1.png", AGAIN[2]), Choice(calibration=files / "g.json")
    untied = "Nothing ties the threshold to this model: its calibration does not say which one it is of."
    part = "This is a part of the gallery that the threshold is promised for (1 of 8 people, 2 of 16 photographs)"
    document = json.loads((files / "g.json").read_text())
    document["thresholds"][0]["calibrated_on"] = {"place": "faces", "drawn": False, "alignment": None}
    (files / "g.json").write_text(json.dumps(document))  # images that are known are no model that is
    for gallery, notes in (("gallery.npz", 1), ("part.npz", 2)):
        notes_of = identify(probe, files / gallery, MODEL, FIND, choice).notes
        assert notes_of == identify_each(files / "probes", files / gallery, MODEL, FIND, choice).notes
        assert (notes_of[0], len(notes_of)) == (untied, notes)
        assert notes_of[-1].startswith(part) == (notes == 2)


def test_a_probe_of_several_folders_is_hinted_at_each(files, calibrated):
    for person in ("Ann", "Ben"):
        photo(files / "probe" / person / "1.png", AGAIN[2])
    asked = Choice(calibration=calibrated, fpir="0.1")
    hint = "The photographs of 2 folders are taken for those of one person; --each takes each by itself."
    assert hint in identify(files / "probe", files / "gallery.npz", MODEL, FIND, asked).notes
    assert hint not in identify(files / "probe" / "Ann", files / "gallery.npz", MODEL, FIND, asked).notes
    text = identify_each(files / "probe" / "Ann", files / "gallery.npz", MODEL, FIND, asked).text()
    assert "1 probe among 8 people" in text


def test_a_cohort_of_fewer_than_the_nearest_is_said(files, caplog):
    found_in(files, statistic="adaptive-s", cohort="cohort.npz")
    assert caplog.messages == [
        "the cohort has 30 people, fewer than the nearest 100 that count: all do, so rule adaptive-s is the same as s"
    ]
    with pytest.raises(ValueError, match=r"rule 'best' takes no cohort of people .* \(--cohort\)"):
        found_in(files, cohort="cohort.npz")


def test_probes_of_another_model_are_named_not_the_gallery(files):
    embedded(
        files / "probes.npz", AGAIN, NAMES[:PEOPLE], replace(MODEL.origin(ImageSource("faces", None)), model="1" * 64)
    )
    with pytest.raises(ValueError, match=r"probes\.npz: not made as .*gallery\.npz was"):
        found_in(files, probes="probes.npz")


def test_without_a_threshold_for_two_photographs_none_is_offered(files, calibrated):
    probe = photo(files / "probe.png", AGAIN[2])
    with pytest.raises(ValueError, match=r"no threshold for a gallery; find one .* and name it by --calibration"):
        identify(probe, files / "gallery.npz", MODEL, FIND)
    with pytest.raises(ValueError, match="an FPIR must lie between 0 and 1"):
        identify(probe, files / "gallery.npz", MODEL, FIND, Choice(calibration=calibrated, fpir="2"))
    with pytest.raises(ValueError, match=r"promised for 8 people .* --out FILE\)$"):
        identify(probe, files / "probes.npz", MODEL, FIND, Choice(calibration=calibrated, fpir="0.1"))


# --- the command line ---


def said(capsys, *words: object) -> str:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def refused(capsys, *words: object) -> str:
    assert main([str(word) for word in words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.usefixtures("process_as_it_was")
def test_the_life_of_a_gallery(files, capsys):
    calibrate_it = ("calibrate", files / "strangers.npz", "--gallery", files / "gallery.npz")
    planted(files)
    out, page = files / "out.json", files / "page"
    text = said(capsys, *calibrate_it, "--fpir", "0.1", "--probes", files / "probes.npz", "--review", page,
                "--review-pairs", 4, "--out", out)  # fmt: skip
    assert "at most 1 in 10 strangers are found in this gallery of 8 people" in text
    assert "The promise ends when a photograph is added to the gallery or changed" in text
    assert "4 pairs to look at" in text
    assert "pair 4: score" in (page / "index.html").read_text()
    lines = (page / "review.csv").read_text().splitlines()
    assert len(lines) == 5
    filled = files / "filled.csv"
    filled.write_text("\n".join([lines[0], *(line + "same" for line in lines[1:4]), lines[4]]) + "\n")
    assert len(read_verdicts(filled)) == 3
    said(capsys, *calibrate_it, "--fpir", "0.1", "--reviewed", filled, "--out", out)
    reviewed = read_gallery_calibration(out)
    assert reviewed.thresholds[0].review.removed == 3
    embedded(files / "gallery.npz", np.concatenate([ENROLLED, pixels(1, 7)]), [*NAMES, "new"])
    said(capsys, *calibrate_it, "--again", out, "--out", files / "again.json")
    again = read_gallery_calibration(files / "again.json")
    assert (again.gallery.people, again.verdicts) == (9, reviewed.verdicts)
    assert json.loads((files / "again.json").read_text())["thresholds"][0]["meaning"] == again.thresholds[0].meaning()


@pytest.mark.usefixtures("process_as_it_was")
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--fpir", "0.1", "--far", "0.1"], "--far does nothing here"),
        (["--fpir", "0.1", "--replicates", "9"], "--replicates does nothing here"),
        ([], "name the FPIR of the threshold of the gallery"),
        (["--fpir", "2"], "--fpir: an FPIR must lie between 0 and 1"),
        (["--fpir", "0"], "--fpir: a guarantee needs an FPIR of at least 1e-12"),
        (["--fpir", "nan"], "--fpir: an FPIR must be a decimal number"),
        (["--fpir", "1e-2"], "needs 299 strangers, one photograph each; got 120: add 179"),
        (
            ["--fpir", "0.1", "--guarantee", "tail"],
            "--guarantee of a gallery is 'tail'; allowed are confident, expected",
        ),
        (["--fpir", "0.1", "--fpir", "1e-1"], "--fpir: FPIR 0.1 is asked for twice"),
        (["--fpir", "0.1", "--review", "page", "--faces", "absent.zip"], "absent.zip"),
        (["--fpir", "0.1", "--faces", "x"], "--faces does nothing here"),
        (["--fpir", "0.1", "--model", "x"], "--model does nothing here: the gallery is embedded already"),
        (["--again", "absent.json", "--fpir", "0.1"], "--fpir does nothing here: --again takes it"),
        (["--again", "absent.json"], "absent.json"),
        (["--fpir", "0.1", "--rule", "z"], "'z' needs a cohort"),
        (["--fpir", "0.1", "--min-face", "40"], "--min-face does nothing here: the gallery is embedded already"),
        (["--again", "absent.json", "--rule", "gap"], "--rule does nothing here"),
        (["--fpir", "0.1", "--review", "page", "--review-pairs", "0"], "--review-pairs must be at least 1"),
        (["--fpir", "0.1", "--unfound", "-1"], "unfound must be at least 0"),
        (["--fpir", "0.1", "--wrong", "3"], "3 wrong verdicts are allowed for, but there is no review"),
        (["--fpir", "0.1", "--wrong", "-3"], "there is no review"),
    ],
)
def test_a_wrong_call_is_one_line(files, capsys, more, words):
    call = ("calibrate", files / "strangers.npz", "--gallery", files / "gallery.npz", "--out", files / "o.json")
    line = refused(capsys, *call, *more)
    assert any(word in line for word in words.split("|"))
    assert "strangers.npz" not in line or "--" not in words
    assert not (files / "o.json").exists()


@pytest.mark.usefixtures("process_as_it_was")
def test_what_is_for_a_gallery_needs_one(files, capsys):
    call = ("calibrate", files / "strangers.npz", "--out", files / "o.json")
    assert "or a --gallery and its --fpir" in refused(capsys, *call)
    assert "--fpir does nothing here" in refused(capsys, *call, "--far", "0.1", "--fpir", "0.1")
    other = ("--gallery", files / "gallery.npz", "--fpir", "0.1", "--out", files / "o.json")
    said(capsys, "calibrate", files / "strangers.npz", *other)
    again = ("--gallery", files / "gallery.npz", "--again", files / "o.json", "--out", files / "p.json")
    assert "not the strangers of o.json" in refused(capsys, "calibrate", files / "cohort.npz", *again)


# --- two photographs ---


def test_a_review_of_pairs_removes_whole_pairs_and_pairs_nobody_anew(files, capsys):
    path = embedded(files / "new.npz", pixels(200, 5), [f"n{number}" for number in range(200)])
    call = ("calibrate", path, "--far", "0.1", "--seed", 4, "--out", files / "o.json")
    assert "3 pairs to look at" in said(capsys, *call, "--review", files / "page", "--review-pairs", 3)
    lines = (files / "page" / "review.csv").read_text().splitlines()
    (files / "filled.csv").write_text("\n".join([lines[0], *(line + "same" for line in lines[1:])]) + "\n")
    said(capsys, *call, "--reviewed", files / "filled.csv")
    found = read_calibration(files / "o.json")
    rows = read_embeddings(path)
    person = np.unique(rows.identities, return_inverse=True)[1].astype(np.int64)
    pairs = disjoint_pairs(person, 4)
    units = rows.embeddings / np.linalg.norm(rows.embeddings, axis=1, keepdims=True)
    left = np.sort((units[pairs[:, 0]] * units[pairs[:, 1]]).sum(1))[:-3]  # the three highest are removed
    assert found.thresholds[0].comparisons == len(left) == 97
    assert found.thresholds[0].threshold == pytest.approx(SortedScores(left).ranked(found.thresholds[0].rank or 0))
    assert found.thresholds[0].review.removed == 3
    assert "provided that the review of 3 pairs is right" in str(found)
    assert [verdict.word for verdict in found.verdicts] == ["same"] * 3
    other_seed = ("calibrate", path, "--far", "0.1", "--seed", 5, "--out", files / "o.json")
    assert "are not compared here" in refused(capsys, *other_seed, "--reviewed", files / "filled.csv")


def test_what_no_review_can_cover(files):
    path = embedded(files / "new.npz", pixels(200, 5), [f"n{number}" for number in range(200)])
    with pytest.raises(ValueError, match="'approximate' takes all pairs of all people, and assumes that every label"):
        calibrate(path, ["0.1"], "approximate", unfound=1)
    with pytest.raises(TooFewComparisonsError, match=r"needs 69 comparisons .* allowing for 40 unfound; .* add"):
        calibrate(embedded(files / "few.npz", pixels(120, 6), UNKNOWN), ["0.1"], unfound=40)


@pytest.mark.usefixtures("process_as_it_was")
def test_a_page_never_replaces_verdicts_or_what_is_foreign(files, capsys):
    planted(files)
    call = ("calibrate", files / "strangers.npz", "--gallery", files / "gallery.npz", "--out", files / "o.json")
    page = files / "page"
    said(capsys, *call, "--fpir", "0.1", "--review", page, "--review-pairs", 2)
    said(capsys, *call, "--fpir", "0.1", "--review", page, "--review-pairs", 3)  # nothing was filled in yet
    lines = (page / "review.csv").read_text().splitlines()
    (page / "review.csv").write_text("\n".join([lines[0], *(line + "same" for line in lines[1:3]), lines[3]]) + "\n")
    before = (page / "review.csv").read_bytes()
    assert "review.csv has verdicts, or cannot be read; choose another folder" in refused(
        capsys, *call, "--fpir", "0.1", "--review", page
    )
    assert (page / "review.csv").read_bytes() == before
    for text in ("same\n", "yes\n"):  # a word that is none, and a spreadsheet's semicolons, are work too
        (page / "review.csv").write_text(before.decode().replace(",same\n", f",{text}", 1).replace(",", ";"))
        assert "has verdicts, or cannot be read" in refused(capsys, *call, "--fpir", "0.1", "--review", page)
    (page / "review.csv").write_bytes(before)
    more = files / "more"
    said(capsys, *call, "--fpir", "0.1", "--reviewed", page / "review.csv", "--review", more, "--review-pairs", 2)
    verdicts = read_verdicts(more / "review.csv")  # those of before are in the new list
    assert [verdict.word for verdict in verdicts] == ["same"] * 2
    assert len((more / "review.csv").read_text().splitlines()) == 5
    embedded(files / "gallery.npz", np.concatenate([ENROLLED, AGAIN[:1]]), [*NAMES, "new"])
    again = ("calibrate", files / "strangers.npz", "--gallery", files / "gallery.npz", "--again", files / "o.json")
    text = said(capsys, *again, "--review", files / "third", "--out", files / "p.json")
    assert "pairs to look at" in text
    third = read_verdicts(files / "third" / "review.csv")
    assert third == verdicts
    said(capsys, *again, "--reviewed", files / "third" / "review.csv", "--out", files / "p.json")
    assert len(read_gallery_calibration(files / "p.json").verdicts) == 2
    (files / "site").mkdir()
    (files / "site" / "mine.html").write_text("mine")
    line = refused(capsys, *call, "--fpir", "0.1", "--review", files / "site")
    assert "it holds 'mine.html', which is no part of a page" in line
    (files / "site" / "mine.html").rename(files / "site" / "index.html")
    assert "which is another page" in refused(capsys, *call, "--fpir", "0.1", "--review", files / "site")
    assert (files / "site" / "index.html").read_text() == "mine"
    assert "a file, and a folder was to be made" in refused(
        capsys, *call, "--fpir", "0.1", "--review", files / "o.json"
    )


@pytest.mark.parametrize("by", [0, 1])
def test_labels_of_a_gallery_with_several_photographs_are_tested_without_probes(files: Path, by: int):
    first = pixels(20, 5)
    faces = np.stack([first, first // 8 * 8], 1).reshape(-1, SIDE, SIDE, 3)
    embedded(files / "gallery.npz", faces, np.roll([f"p{number // 2}" for number in range(40)], by).tolist())
    if not by:
        assert found_in(files).implausible == ()
        return
    with pytest.raises(ValueError, match=r"gallery\.npz: implausible: with all labels moved by one row"):
        found_in(files)
    assert (
        found_in(files, accepted=Accepted(implausible=True)).implausible[0].startswith("gallery.npz: with all labels")
    )


def test_a_cohort_of_one_vector_is_refused_unless_accepted(files: Path):
    rows = read_embeddings(files / "cohort.npz")
    same = np.repeat(rows.embeddings[:1], len(rows), 0)
    write_embeddings(files / "cohort.npz", replace(rows, embeddings=same))
    with pytest.raises(ValueError, match=r"cohort\.npz: implausible: .*--accept-implausible"):
        found_in(files, statistic="z", cohort="cohort.npz")


def test_moved_labels_are_refused_by_the_names_of_both_sides_of_which_one_is_wrong(files: Path):
    first = pixels(40, 5)
    people = [f"p{number:02}" for number in range(40)]
    embedded(files / "probes.npz", first // 8 * 8, people)
    embedded(files / "gallery.npz", first, people[1:] + people[:1])
    both = rf"{files / 'probes.npz'} and {files / 'gallery.npz'}: implausible: with all labels moved by one row, "
    with pytest.raises(ValueError, match=rf"{both}.*if the file is right, say --accept-implausible"):
        found_in(files, probes="probes.npz")
    found = found_in(files, probes="probes.npz", accepted=Accepted(implausible=True)).calibration(["0.1"])
    assert found.implausible
    assert found.thresholds[0].warning().startswith("scores cannot be right: probes.npz and gallery.npz: with all")
