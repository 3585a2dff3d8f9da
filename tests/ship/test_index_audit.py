"""What an index costs: recall and rates of its answers, known by construction."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from living_galleries import DIM, ENROLLED, people, strangers
from two_models import OLD
from verisphere.base.identity import names_taken
from verisphere.base.trained_on import RowsInTraining, SharedWithTraining
from verisphere.base.vocabulary import Embeddings
from verisphere.cli.start import main
from verisphere.decide.bounds import binomial_bounds
from verisphere.files.embeddings import write_embeddings
from verisphere.score import unit_rows
from verisphere.ship.living.audit import audit_index
from verisphere.ship.living.gallery import LivingGallery, create_gallery
from verisphere.ship.living.records import NewPhotographs

random = np.random.default_rng(5)
#: Twenty probes of enrolled people, near their own, and sixty of strangers.
MATED = Embeddings(
    ENROLLED.embeddings[:60:3] + 0.1 * random.standard_normal((20, DIM)).astype(np.float32),
    [f"mated{row}" for row in range(20)],
    ENROLLED.identities[:60:3].tolist(),
)
OTHERS = people("visitor", 60, 1, seed=11)
PROBES = Embeddings(
    np.concatenate([MATED.embeddings, OTHERS.embeddings]),
    [*MATED.names.tolist(), *OTHERS.names.tolist()],
    [*MATED.identities.tolist(), *OTHERS.identities.tolist()],
)


@pytest.fixture
def gallery(tmp_path):
    made = create_gallery(tmp_path / "door", strangers(), "1e-1")
    made.enrol(NewPhotographs.of(ENROLLED))
    write_embeddings(tmp_path / "probes.npz", PROBES)
    yield made
    made.store.close()


def exact_answers(gallery: LivingGallery, count: int, by_person: bool) -> dict[str, list[tuple[str, float]]]:
    probes, rows = (unit_rows(one.embeddings).double() for one in (PROBES, ENROLLED))
    scores = (probes @ rows.T).numpy()
    answers = {}
    for name, of_probe in zip(PROBES.names.tolist(), scores, strict=True):
        best: dict[str, float] = {}
        for row in np.argsort(-of_probe):
            label = ENROLLED.identities[row] if by_person else ENROLLED.names[row]
            best.setdefault(str(label), float(of_probe[row]))
        answers[name] = list(best.items())[:count]
    return answers


def written(tmp_path, answers) -> None:
    with (tmp_path / "answers.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["query", "answer", "score"])
        lines.writerows([query, *answer] for query, listed in answers.items() for answer in listed)


@pytest.mark.parametrize("by_person", [True, False])
def test_exact_answers_cost_nothing(tmp_path, gallery, by_person):
    written(tmp_path, exact_answers(gallery, 5, by_person))
    audit = audit_index(gallery, tmp_path / "probes.npz", tmp_path / "answers.csv")
    assert (audit.answers, audit.people, audit.photographs) == ("people" if by_person else "photographs", 30, 90)
    assert [rate.name for rate in audit.rates] == ["recall@1", "recall@5", "TPIR", "found exactly, lost", "FPIR"]
    assert [rate.served for rate in audit.rates] == [rate.exact for rate in audit.rates]
    assert audit.rates[2].queries == 20
    assert audit.rates[2].exact == 1
    limit, found = gallery.threshold.threshold, gallery.search(OTHERS.embeddings).statistic
    assert audit.rates[4].exact == (found > limit).mean() > 0
    assert audit.unanswered == 0
    assert audit.off < 1e-6


def test_answers_that_an_index_has_missed_are_counted(tmp_path, gallery):
    answers = exact_answers(gallery, 4, True)
    del answers["mated3"]  # nobody
    answers["mated4"] = answers["mated4"][1:]  # another person below the threshold, and 1 of 4 missing
    answers["mated5"] = [(answers["mated5"][1][0], 0.99)]  # a wrong score of a wrong person
    answers["mated6"] = answers["mated6"][:2]
    passing = [name for name in OTHERS.names.tolist() if answers[name][0][1] > gallery.threshold.threshold]
    answers[passing[0]] = answers[passing[0]][1:]
    written(tmp_path, answers)
    audit = audit_index(gallery, tmp_path / "probes.npz", tmp_path / "answers.csv")
    rates = {rate.name: rate for rate in audit.rates}
    assert rates["recall@1"].served == pytest.approx(1 - 4 / 80)
    assert rates["recall@4"].served == pytest.approx(1 - (1 + 0.25 + 0.75 + 0.5 + 0.25) / 80)
    tpir = rates["TPIR"]
    assert (tpir.served, tpir.exact) == (17 / 20, 1)
    assert (tpir.lower, tpir.upper) == binomial_bounds(17, 20)
    assert rates["found exactly, lost"].served == 3 / 20
    assert rates["FPIR"].served < rates["FPIR"].exact == len(passing) / 60
    assert audit.unanswered == 1
    assert audit.off > 0.3
    assert "1 query without an answer" in audit.text()


def test_equal_scores_are_each_as_good(tmp_path):
    rows = Embeddings(np.repeat(ENROLLED.embeddings[:10], 2, 0), identities=[f"twin{row}" for row in range(20)])
    gallery = create_gallery(tmp_path / "door", strangers(), "1e-1")
    gallery.enrol(NewPhotographs.of(rows), accept_alarms=True)
    write_embeddings(tmp_path / "probes.npz", Embeddings(rows.embeddings[:1] + 0.01, ["one"], ["twin1"]))
    (tmp_path / "answers.csv").write_text("query,answer,score\none,twin1,0.999\n")
    audit = audit_index(gallery, tmp_path / "probes.npz", tmp_path / "answers.csv")
    assert audit.rates[0].served == 1
    gallery.store.close()


def test_answers_to_queries_of_nobody_who_is_known_do_not_count(tmp_path, gallery):
    answers = exact_answers(gallery, 5, True)
    written(tmp_path, answers)
    unknown = np.isin(PROBES.names, ["mated3", str(OTHERS.names[7])])
    identities = np.where(unknown, "-1", PROBES.identities)
    write_embeddings(tmp_path / "some.npz", Embeddings(PROBES.embeddings, PROBES.names, identities))
    audit = audit_index(gallery, tmp_path / "some.npz", tmp_path / "answers.csv")
    assert [rate.queries for rate in audit.rates] == [78, 78, 19, 19, 59]
    answers["mated0"][0] = ("somebody", answers["mated0"][0][1])
    written(tmp_path, answers)
    with pytest.raises(ValueError, match="'somebody' is no person here"):
        audit_index(gallery, tmp_path / "probes.npz", tmp_path / "answers.csv")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "no answer in it"),
        ("who,person0\n", "line 2: 2 values where the header has 3"),
        ("who,person000,0.5\n", "line 2: 'who' is no name of a query"),
        ("mated0,person000,near\n", "line 2: score must be a number, got 'near'"),
        ("mated0,person000,0.1\nmated0,person001,0.5\n", "line 3: a score is above the one before; give cosines"),
        ("mated0,person000,0.5\nmated0,person000,0.5\n", "line 3: 'person000' answers 'mated0' twice"),
        ("mated0,nobody,0.5\n", "'nobody' is no person here"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, gallery, lines, message):
    (tmp_path / "answers.csv").write_text("query,answer,score\n" + lines)
    with pytest.raises(ValueError, match=message):
        audit_index(gallery, tmp_path / "probes.npz", tmp_path / "answers.csv")


def test_another_spelling_of_a_person_is_this_person(tmp_path, gallery):
    answers = exact_answers(gallery, 5, True)
    written(tmp_path, {query: [(name.upper(), score) for name, score in found] for query, found in answers.items()})
    with pytest.raises(ValueError, match=r"'PERSON\d+' is no person here"):
        audit_index(gallery, tmp_path / "probes.npz", tmp_path / "answers.csv")
    with names_taken("merge"):
        audit = audit_index(gallery, tmp_path / "probes.npz", tmp_path / "answers.csv")
    assert [rate.served for rate in audit.rates] == [rate.exact for rate in audit.rates]
    upper = replace(PROBES, identities=np.char.upper(PROBES.identities))
    write_embeddings(tmp_path / "upper.npz", upper)
    with pytest.raises(ValueError, match=r"row 0 of .*upper\.npz\) and .* are one name but for case"):
        audit_index(gallery, tmp_path / "upper.npz", tmp_path / "answers.csv")
    with names_taken("merge"):
        assert audit_index(gallery, tmp_path / "upper.npz", tmp_path / "answers.csv").rates == audit.rates
    (tmp_path / "answers.csv").write_text("query,answer,score\nmated0,person000,0.5\nmated0,PERSON000,0.5\n")
    with names_taken("merge"), pytest.raises(ValueError, match=r"answers\.csv: two answers to 'mated0' are one person"):
        audit_index(gallery, tmp_path / "probes.npz", tmp_path / "answers.csv")


def test_what_weakens_the_figures_is_said_first(tmp_path, gallery):
    written(tmp_path, exact_answers(gallery, 1, True))
    known = PROBES.names == "mated0"
    trained = replace(PROBES, in_training=RowsInTraining(known, known, True, ""))
    write_embeddings(tmp_path / "probes.npz", replace(trained, origin=replace(OLD, preprocessing=None)))
    with gallery.store.writing():
        shared = SharedWithTraining(3, 0, 40, 40, True)
        gallery.store.set_fact("promise", replace(gallery.threshold, in_training=shared))
    first, *lines = audit_index(gallery, tmp_path / "probes.npz", tmp_path / "answers.csv").text().splitlines()
    assert first.startswith("The model was trained on 3 of the 40 people (by name), so it promises nothing about new")
    assert lines[0].startswith(
        "probes.npz: the model was trained on 1 of the 80 people (by name) and 1 of the 80 images"
    )
    assert lines[1].startswith(
        "Nothing in the gallery says which model made some of its rows or strangers: that it was"
    )
    assert lines[2].startswith("probes.npz or the gallery was made by an earlier version, which did not record the pix")


def test_queries_whose_labels_are_moved_cannot_be_right(tmp_path, gallery):
    person = np.repeat(np.arange(60), 3)
    rows = np.random.default_rng(5).normal(size=(60, PROBES.embeddings.shape[1]))[person]
    rows += 0.2 * np.random.default_rng(6).normal(size=rows.shape)
    names = [f"q{number}" for number in range(len(person))]
    moved = np.roll([f"person{one:03}" for one in person], 1)
    write_embeddings(tmp_path / "probes.npz", Embeddings(rows.astype(np.float32), names, moved, origin=PROBES.origin))
    written(tmp_path, {"q0": [("person000", 0.9)]})
    lines = audit_index(gallery, tmp_path / "probes.npz", tmp_path / "answers.csv").text().splitlines()
    assert lines[0].startswith("implausible: probes.npz: with all labels moved by one row, TAR at FAR 0.1 rises from")


def test_by_the_command_line(tmp_path, gallery, capsys):
    written(tmp_path, exact_answers(gallery, 1, False))
    call = ["gallery", "audit", *(str(tmp_path / name) for name in ("door", "probes.npz", "answers.csv"))]
    assert main([*call, "--json", str(tmp_path / "audit.json")]) == 0
    assert "| recall@1 " in capsys.readouterr().out
    figures = json.loads((tmp_path / "audit.json").read_text())
    assert [rate["name"] for rate in figures["rates"]] == ["recall@1", "TPIR", "found exactly, lost", "FPIR"]


@pytest.mark.parametrize(("names", "mated"), [("exact", 20), ("merge", 21)])
def test_a_code_in_another_case_is_who_the_rule_of_names_says(tmp_path, gallery, capsys, names, mated):
    written(tmp_path, exact_answers(gallery, 1, True))
    other_case = np.where(PROBES.names == OTHERS.names[0], str(MATED.identities[0]).upper(), PROBES.identities)
    with names_taken("exact"):
        write_embeddings(tmp_path / "probes.npz", Embeddings(PROBES.embeddings, PROBES.names, other_case))
    call = ["gallery", "audit", *(str(tmp_path / name) for name in ("door", "probes.npz", "answers.csv"))]
    assert main([*call, "--names", names, "--json", str(tmp_path / "audit.json")]) == 0
    figures = json.loads((tmp_path / "audit.json").read_text())
    rates = {rate["name"]: rate["queries"] for rate in figures["rates"]}
    assert (rates["TPIR"], rates["FPIR"], figures["names_rule"]) == (mated, 80 - mated, names)
