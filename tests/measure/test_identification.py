"""From files to 1:N figures: the numbers are those of the protocol, and files that make no sense are told apart."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from verisphere.base.identity import names_taken
from verisphere.base.trained_on import RowsInTraining
from verisphere.base.vocabulary import Embeddings, Origin
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.measure.distractors import DistractorOptions, evaluate_distractors
from verisphere.measure.identification import (
    CANDIDATE_COLUMNS,
    IdentificationOptions,
    evaluate_galleries,
    evaluate_split,
)
from verisphere.measure.protocols.identification import identification, score_probes, split_gallery
from verisphere.measure.sides import with_distractors
from verisphere.score import pair_scores, unit_rows

CENTERS = np.random.default_rng(99).normal(size=(40, 8))


def people(numbers: range, images: int, seed: int, origin: Origin | None = None) -> Embeddings:
    """Some images of each of these people."""
    person = np.repeat(np.array(numbers), images)
    rows = CENTERS[person] + 0.8 * np.random.default_rng(seed).normal(size=(len(person), 8))
    return Embeddings(
        rows.astype(np.float32),
        np.array([f"p{number}/{seed}_{place}.jpg" for place, number in enumerate(person)]),
        np.array([f"p{number}" for number in person]),
        origin=origin,
    )


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Probes of people 0 to 29, and two galleries, of which each enrols others of them."""
    write_embeddings(tmp_path / "probes.npz", people(range(30), 3, 1))
    write_embeddings(tmp_path / "g1.npz", people(range(15), 2, 2))
    write_embeddings(tmp_path / "g2.npz", people(range(12, 40), 1, 3))
    return tmp_path


OPTIONS = IdentificationOptions(fpirs=("1e-1", "0.5"), ranks=(1, 2))


def test_galleries_of_files(files: Path):
    found = evaluate_galleries(files / "probes.npz", [files / "g1.npz", files / "g2.npz"], OPTIONS)
    probes = read_embeddings(files / "probes.npz")
    searches = {}
    for name in ("g1", "g2"):
        gallery = read_embeddings(files / f"{name}.npz")
        searches[name] = score_probes(probes, gallery), len(gallery)
    assert found.result == identification(searches, ("1e-1", "0.5"), (1, 2))
    assert found.result.galleries["g1"].mated_probes == 45
    assert found.result.galleries["g2"].nonmated_probes == 36
    assert [source.file for source in found.sources] == ["probes.npz", "g1.npz", "g2.npz"]
    text = found.text()
    assert "g1: 15 people by 30 images; 45 mated and 45 non-mated probes" in text
    assert text.count("mean of 2") == 4


def test_galleries_drawn_from_one_file(files: Path):
    found = evaluate_split(files / "probes.npz", OPTIONS, strangers=0.4, seed=5, galleries=2)
    probes, gallery = split_gallery(read_embeddings(files / "probes.npz"), strangers=0.4, seed=6)
    wanted = identification({"seed 6": (score_probes(probes, gallery), len(gallery))}, ("1e-1", "0.5"), (1, 2))
    assert list(found.result.galleries) == ["seed 5", "seed 6"]
    assert found.result.galleries["seed 6"] == wanted.galleries["seed 6"]
    assert found.split is not None
    assert (found.split.enrol, found.split.strangers, found.split.seeds) == (1, 0.4, (5, 6))


def test_json(files: Path):
    found = evaluate_galleries(files / "probes.npz", [files / "g1.npz"], OPTIONS)
    found.write_json(files / "out.json")
    read = json.loads((files / "out.json").read_text())
    assert set(read) == {"rule", "sources", "galleries"}
    assert set(read["galleries"]) == {"g1"}
    one = read["galleries"]["g1"]
    point, own = one["operating_points"][0], found.result.galleries["g1"].operating_points[0]
    assert point == vars(own)
    assert {"fpir_target", "rule", "threshold", "tpir", "fpir", "mated_identified", "below_resolution"} < set(point)
    assert [rate["rank"] for rate in one["ranks"]] == [1, 2]
    assert one["cmc"]["identified"][-1] == one["mated_probes"] == 45
    assert read["sources"][1]["file"] == "g1.npz"


def test_candidates(files: Path):
    options = IdentificationOptions(fpirs=("0.5",), top=4)
    evaluate_galleries(files / "probes.npz", [files / "g1.npz", files / "g2.npz"], options).write_candidates(
        files / "c.csv"
    )
    with open(files / "c.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert tuple(lines[0]) == CANDIDATE_COLUMNS
    assert len(lines) == 2 * 90 * 4
    probes, gallery = read_embeddings(files / "probes.npz"), read_embeddings(files / "g2.npz")
    own = [line for line in lines if line["gallery"] == "g2" and line["probe"] == str(probes.names[50])]
    assert [line["place"] for line in own] == ["1", "2", "3", "4"]
    scores = pair_scores(
        unit_rows(probes.embeddings),
        torch.full((len(gallery),), 50),
        torch.arange(len(gallery)),
        unit_rows(gallery.embeddings),
    ).numpy()
    best = np.argsort(-scores, kind="stable")[:4]
    assert [float(line["score"]) for line in own] == scores[best].tolist()
    assert [line["name"] for line in own] == gallery.names[best].tolist()
    mates = [int(line["identity"] == str(probes.identities[50])) for line in own]
    assert [int(line["mate"]) for line in own] == mates


def test_closed_set(files: Path):
    write_embeddings(files / "known.npz", people(range(10), 2, 4))
    options = IdentificationOptions(fpirs=(), ranks=(1,))
    found = evaluate_galleries(files / "known.npz", [files / "g1.npz"], options)
    assert found.result.galleries["g1"].operating_points == ()
    assert "FPIR" not in found.text()
    found.write_plot(files / "cmc.png")
    with pytest.raises(ValueError, match=r"known\.npz searched in .*g1\.npz: all 20 probes show people of the gallery"):
        evaluate_galleries(files / "known.npz", [files / "g1.npz"], OPTIONS)


def test_plot(files: Path):
    evaluate_split(files / "probes.npz", OPTIONS, galleries=2).write_plot(files / "deep" / "out.svg")
    assert (files / "deep" / "out.svg").stat().st_size > 10_000


def test_files_that_do_not_fit(files: Path):
    probes = files / "probes.npz"
    wide = Embeddings(np.ones((2, 9), np.float32), np.array(["a", "b"]), np.array(["a", "b"]))
    write_embeddings(files / "wide.npz", wide)
    with pytest.raises(ValueError, match=r"wide\.npz: 9 numbers a row, but .*probes\.npz has 8"):
        evaluate_galleries(probes, [files / "wide.npz"], OPTIONS)
    with pytest.raises(
        ValueError, match=r"90 of its images are probes in .*probes\.npz too, the first is 'p0/1_0\.jpg'"
    ):
        evaluate_galleries(probes, [probes], OPTIONS)
    write_embeddings(files / "others.npz", people(range(30, 40), 2, 5))
    with pytest.raises(ValueError, match=r"others\.npz: none of 90 probes shows a person of the gallery"):
        evaluate_galleries(probes, [files / "others.npz"], OPTIONS)
    (files / "deep").mkdir()
    write_embeddings(files / "deep" / "g1.npz", people(range(15), 2, 6))
    with pytest.raises(ValueError, match="two galleries are both called 'g1'; rename one file"):
        evaluate_galleries(probes, [files / "g1.npz", files / "deep" / "g1.npz"], OPTIONS)
    with pytest.raises(ValueError, match="31 candidates were asked for, but there are 30 images"):
        evaluate_galleries(probes, [files / "g1.npz"], IdentificationOptions(top=31))


def test_an_image_does_not_meet_itself_under_another_spelling_of_its_person(files: Path):
    probes = read_embeddings(files / "probes.npz")
    upper = np.char.upper(probes.identities[:9])
    write_embeddings(files / "upper.npz", replace(probes.take(np.arange(9)), identities=upper))
    with names_taken("merge"), pytest.raises(ValueError, match=r"upper\.npz: 9 of its images are probes in .*probes"):
        evaluate_galleries(files / "probes.npz", [files / "upper.npz", files / "g1.npz"], OPTIONS)


def test_an_image_does_not_meet_itself_in_another_batch_or_under_another_path(files: Path):
    """Embeddings differ by rounding; where both files record the pixels, these decide."""
    probes = read_embeddings(files / "probes.npz")
    part = probes.take(np.arange(9))
    rounded = part.embeddings * np.float32(1 + 1e-6)
    write_embeddings(files / "again.npz", replace(part, embeddings=rounded))
    with pytest.raises(ValueError, match=r"again\.npz: 9 of its images are probes in .*probes"):
        evaluate_galleries(files / "probes.npz", [files / "again.npz", files / "g1.npz"], OPTIONS)

    def recorded(rows: Embeddings, first: int) -> Embeddings:
        none, digests = np.zeros(len(rows), bool), np.arange(first, first + len(rows))
        return replace(rows, in_training=RowsInTraining(none, none, True, "", digests))

    write_embeddings(files / "seen.npz", recorded(probes, 0))
    moved = replace(part, names=np.char.add("enrolled/", part.names), embeddings=-part.embeddings)
    write_embeddings(files / "moved.npz", recorded(moved, 0))
    with pytest.raises(ValueError, match=r"moved\.npz: 9 of its images are probes in .*, the first is 'enrolled/"):
        evaluate_galleries(files / "seen.npz", [files / "moved.npz", files / "g1.npz"], OPTIONS)


def test_the_record_of_a_gallery_stays_where_distractors_are_enrolled(files: Path):
    gallery = read_embeddings(files / "g1.npz")
    trained = RowsInTraining(np.arange(30) < 4, np.zeros(30, bool), True, "")
    write_embeddings(files / "known.npz", replace(gallery, in_training=trained))
    write_embeddings(files / "more.npz", people(range(30, 40), 1, 8))
    found = evaluate_galleries(files / "probes.npz", [files / "known.npz"], OPTIONS, [files / "more.npz"])
    assert found.text().startswith("known.npz: the model was trained on 2 of the 15 people (by name)")
    assert [source.file for source in found.sources] == ["probes.npz", "known.npz", "more.npz"]


@pytest.mark.parametrize(("how", "notes"), [(None, 3), ("merge", 3), ("exact", 2)])
def test_distractors_of_probe_people_are_counted_by_the_rule_of_names(files: Path, how, notes: int):
    others = people(range(30, 40), 1, 8)
    named = np.array(["p1", "P2", "p3", *others.identities[3:]])
    write_embeddings(files / "more.npz", replace(others, identities=named))
    with names_taken(how):
        found = evaluate_galleries(files / "probes.npz", [files / "g1.npz"], OPTIONS, [files / "more.npz"])
        assert found.notes == (f"{notes} distractors have the identity of a probe; they count as other people",)
        streamed = evaluate_distractors(
            "megaface", files / "probes.npz", [files / "more.npz"], DistractorOptions(fars=())
        )
    assert f"{notes} distractors have the identity of a probe person; they count as other people" in streamed.notes


def test_distractors_of_one_vector_are_said_to_be_implausible(files: Path):
    """A model that gave them one output would leave every mate first."""
    others = people(range(10, 40), 1, 8)
    write_embeddings(files / "more.npz", others)
    places = files / "probes.npz", [files / "g1.npz"], OPTIONS, [files / "more.npz"]
    options = DistractorOptions(fars=())
    assert not evaluate_galleries(*places).implausible
    assert not evaluate_distractors("megaface", files / "probes.npz", [files / "more.npz"], options).implausible
    alike = others.embeddings.copy()
    alike[5:20] = 3 * alike[4]
    write_embeddings(files / "more.npz", replace(others, embeddings=alike))
    reason = "one vector stands in 16 of 30 rows"
    assert evaluate_galleries(*places).implausible == (f"more.npz: {reason}",)
    found = evaluate_distractors("megaface", files / "probes.npz", [files / "more.npz"], options)
    assert found.implausible == (f"more.npz, its first rows: {reason}",)


def test_files_that_cannot_be_split(files: Path):
    write_embeddings(files / "single.npz", people(range(10), 1, 7))
    with pytest.raises(ValueError, match=r"single\.npz: none of 5 probes shows a person of the gallery"):
        evaluate_split(files / "single.npz", OPTIONS)
    with pytest.raises(ValueError, match=r"single\.npz: enrolling 1 images a person leaves no image to search with"):
        evaluate_split(files / "single.npz", OPTIONS, strangers=0.0)
    with pytest.raises(ValueError, match="galleries must be at least 1, got 0"):
        evaluate_split(files / "single.npz", OPTIONS, galleries=0)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"fpirs": ("2",)}, "an FPIR must lie between 0 and 1, got '2'"),
        ({"ranks": (1, 0)}, "rank must be at least 1, got 0"),
        ({"open_rank": 0}, "open_rank must be at least 1, got 0"),
        ({"top": -1}, "top must be at least 0, got -1"),
    ],
)
def test_options_are_checked_before_work(asked: dict, message: str):
    with pytest.raises(ValueError, match=message):
        IdentificationOptions(**asked)


def test_every_distractor_is_a_person_of_its_own():
    enrolled = people(range(3), 1, 1)
    both = with_distractors(enrolled, [("others", people(range(20, 24), 2, 2))], enrolled.identities)
    assert len(both) == 3 + 8
    assert len(set(both.identities.tolist())) == 3 + 8
