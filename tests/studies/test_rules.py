"""The study of rules: noise in embeddings, its counts and figures by hand, the folder, and what is refused."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from studies.rules import study
from studies.rules.__main__ import main
from studies.rules.cells import Cell, CellCounts, NoisySet, cell_counts
from studies.rules.figures import RuleFigure, figures_of, results_plot, results_text, shares
from studies.rules.study import RulesStudy, read_rules, run_rules
from verisphere.decide import mean_bounds
from verisphere.images.packs.columns import Coded
from verisphere.study.clean.from_embeddings import Finder
from verisphere.study.clean.rules import Rule

STUDIES = Path(study.__file__).parent

TINY = """
rules:
  embeddings: {tiny: e.npz}
  min_images: 4
  noise: [0, 0.25]
  open_shares: {closed: 0, open: 1}
  sub_centers: [1, 2]
  angles: [60, 75]
  others: [mean-of-others]
seeds: [0, 1]
"""


def test_counts_of_a_cell_by_hand() -> None:
    # four people at four right angles, ten equal images each: a wrong image, from within or outside, stands apart
    rows = np.repeat(np.eye(5, dtype=np.float32)[:4], 10, axis=0)
    identities = Coded(tuple("abcd"), np.repeat(np.arange(4), 10))
    outside = np.eye(5, dtype=np.float32)[[4] * 8]
    noisy = NoisySet("x", rows, [str(number) for number in range(40)], identities, np.full(4, 10), outside)
    for share in (0.0, 1.0):
        rules = [(Finder("mean-of-others"), Rule(60.0)), (Finder(sub_centers=1), Rule(180.0))]
        counts = cell_counts(noisy, Cell("x", "some", 0.2, 0), share, rules)
        assert counts.noisy.sum() == 8
        assert counts.clean.tolist() == [8] * 4
        assert counts.noisy_dropped[0].tolist() == counts.noisy.tolist()
        assert counts.clean_dropped[0].tolist() == [0] * 4
        assert not counts.noisy_dropped[1].any()


def test_shares_by_hand() -> None:
    # two people of 4 and 20 images. The rule drops 1 of 2 and 3 of 6 noisy ones, 0 of 2 and 2 of 14 clean ones
    counts = CellCounts(*(np.array(column) for column in ([2, 6], [2, 14], [[1, 3]], [[0, 2]])))
    found = {
        name: share.ravel().tolist()
        for name, share in shares(counts, np.array([4, 20]), np.array([[1, 1], [2, 0]])).items()
    }
    assert found.pop("precision") == pytest.approx([4 / 6, 1])  # of people 1 alone: 1 dropped, noisy
    assert found.pop("recall") == pytest.approx([4 / 8, 1 / 2])
    assert found.pop("noise_left") == pytest.approx([4 / 18, 1 / 3])
    assert found.pop("clean_lost") == pytest.approx([2 / 16, 0])
    assert found.pop("identities_lost") == [0, 0]
    assert found.pop("clean_lost, 2 to 4 images") == [0, 0]
    assert found.pop("clean_lost, 20 or more images") == pytest.approx([2 / 14, np.nan], nan_ok=True)
    assert not found


def test_intervals_are_of_the_mean_over_seeds() -> None:
    sizes = np.array([4, 4])
    cells = {}
    for seed, dropped in ((0, [1, 1]), (1, [2, 0])):
        counts = (np.array(column) for column in ([2, 2], [2, 2], [dropped], [[0, 0]]))
        cells[Cell("x", "closed", 0.5, seed)] = CellCounts(*counts)
    figures = figures_of(cells, ["rule"], sizes, np.array([[2, 0], [0, 2]]))
    recall = next(figure for figure in figures if figure.name == "recall")
    assert recall.per_seed == {0: 0.5, 1: 0.5}
    # person 1 alone: recalls 1/2 and 1, mean 0.75; person 2 alone: 1/2 and 0, mean 0.25; 2.5 % of the way is 0.2625
    assert (recall.lower_95, recall.upper_95) == pytest.approx((0.2625, 0.7375))
    assert (recall.lower_95_over_seeds, recall.upper_95_over_seeds) == mean_bounds([0.5, 0.5]) == (0.5, 0.5)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of twelve people with four images or more, and 40 with one."""
    random = np.random.default_rng(0)
    person = np.concatenate([np.repeat(np.arange(12), random.integers(4, 9, 12)), np.arange(12, 52)])
    rows = (random.normal(size=(52, 16))[person] + 0.4 * random.normal(size=(len(person), 16))).astype(np.float32)
    names = np.arange(len(rows)).astype(str)
    np.savez(tmp_path / "e.npz", embeddings=rows, names=names, identities=person.astype(str))
    (tmp_path / "study.yaml").write_text(TINY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_study_from_the_command_and_continued(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, process_as_it_was: None
) -> None:
    command = ["study.yaml", "--out", "out", "--replicates", "20"]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "tiny, 25% noise, closed" in text
    assert "mean of others, 75" in text
    out = tiny / "out"
    assert {path.name for path in out.iterdir()} == {
        ".lock", "plan.json", "cells", "results.csv", "results.json", "plots"}  # fmt: skip
    assert len(list((out / "cells").iterdir())) == 1 + 2 * 2
    rows = list(csv.DictReader((out / "results.csv").read_text().splitlines()))
    # K = 1 at two angles, K = 2 at two angles, dominant or not, and the mean of others at two: 8 rules; 3 noises; five
    # figures and those of people with 2 to 4, 5, and 6 to 9 images
    assert len(rows) == 8 * 3 * 8
    recall = [float(row["mean"]) for row in rows if row["figure"] == "recall" and row["rule"] == "mean of others, 60"]
    assert recall[1:] == pytest.approx([0.95, 0.95], abs=0.07)  # well separated people
    assert json.loads((out / "results.json").read_text())["people"] == {"tiny": 12}
    before = (out / "results.csv").read_bytes()

    def never(*arguments: object) -> None:
        raise AssertionError("a cell that is there was computed again")

    monkeypatch.setattr("studies.rules.study.cell_counts", never)
    assert main(command) == 0
    assert (out / "results.csv").read_bytes() == before
    monkeypatch.undo()


def test_seeds_may_be_added_and_rules_not(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.rules.study.results_plot", lambda *given: None)  # a plot takes a second
    settings = read_rules(tiny / "study.yaml", seeds=[0])
    run_rules(settings, tiny / "out", replicates=5)
    more = run_rules(RulesStudy(**{**vars(settings), "seeds": (0, 1)}), tiny / "out", replicates=5)
    assert {tuple(figure.per_seed) for figure in more.figures} == {(0,), (0, 1)}
    with pytest.raises(ValueError, match=r"plan\.json: this folder holds another experiment: rules differs"):
        run_rules(RulesStudy(**{**vars(settings), "angles": (60.0,)}), tiny / "out", replicates=5)
    for cell in (tiny / "out" / "cells").iterdir():
        cell.write_bytes(b"broken")
    with pytest.raises(ValueError, match=r"not an \.npz file"):
        run_rules(settings, tiny / "out", replicates=5)


def test_restarts_are_rules_of_their_own_but_for_one_center() -> None:
    study = RulesStudy({"tiny": "e.npz"}, sub_centers=(1, 2), restarts=(0, 5), angles=(60.0,), others=())
    assert {name: (finder.sub_centers, finder.restarts) for name, (finder, _) in study.rules.items()} == {
        "K = 1, 60": (1, 0),
        "K = 2, 60": (2, 0),
        "K = 2, 60, only dominant": (2, 0),
        "K = 2 with 5 restarts, 60": (2, 5),
        "K = 2 with 5 restarts, 60, only dominant": (2, 5),
    }


@pytest.mark.parametrize("name", ["cleaning_rules", "cleaning_restarts"])
def test_the_studies_of_the_docs_read(name: str) -> None:
    assert read_rules(STUDIES / f"{name}.yaml").rules


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"noise: [0, 0.25]": "noise: [1.5]"}, "noise has 1.5; a rate is at least 0 and below 1"),
        ({"angles: [60, 75]": "angles: []"}, r"angles is \[\]; expected one or more values"),
        ({"angles: [60, 75]": "angels: [60]"}, "key"),
        ({"angles: [60, 75]": "angles: [0]"}, "angle is 0"),
        ({"sub_centers: [1, 2]": "sub_centers: [0]"}, "sub_centers is 0"),
        ({"others: [mean-of-others]": "others: [kmeans]"}, "others is 'kmeans'"),
        ({"closed: 0": "closed: 2"}, "open_shares has closed: 2"),
        ({"min_images: 4": "min_images: 1"}, "min_images is 1; allowed is 2 or more"),
        ({"  embeddings: {tiny: e.npz}\n": ""}, "embeddings is missing"),
        ({"seeds: [0, 1]": "seeds: [-1]"}, "seed must be 0 or more"),
        ({"seeds: [0, 1]": "recipe: x"}, "recipe"),
        ({"rules:": "rules: 3\nelse:"}, "rules is 3"),
        ({"rules:": "arms:"}, "has the key `rules`, and this file has none"),
    ],
)
def test_what_is_refused_names_the_file(tiny: Path, changed: dict[str, str], message: str) -> None:
    text = TINY
    for old, new in changed.items():
        assert old in text
        text = text.replace(old, new)
    (tiny / "study.yaml").write_text(text)
    with pytest.raises(ValueError, match=rf"study\.yaml.*{message}"):
        read_rules(tiny / "study.yaml")


def test_a_fault_is_one_line(tiny: Path, capsys: pytest.CaptureFixture[str], process_as_it_was: None) -> None:
    assert main(["none.yaml", "--out", "out"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tiny / "out").exists()


def test_too_few_people_or_images_outside_are_refused(tiny: Path) -> None:
    settings = read_rules(tiny / "study.yaml")
    with pytest.raises(ValueError, match=r"e\.npz: 0 of 52 people have 99 images or more"):
        run_rules(RulesStudy(**{**vars(settings), "min_images": 99}), tiny / "out")
    with pytest.raises(ValueError, match=r"e\.npz: 40 images are of people with fewer than 4"):
        run_rules(RulesStudy(**{**vars(settings), "noise": (0.9,)}), tiny / "out")


def test_a_figure_without_noise_is_a_dash_and_no_plot() -> None:
    nan = float("nan")
    bounds = {"lower_95": nan, "upper_95": nan, "lower_95_over_seeds": nan, "upper_95_over_seeds": nan}
    names = ("precision", "recall", "noise_left", "clean_lost", "identities_lost")
    figures = [
        RuleFigure("x", "none", 0.0, "DBSCAN", name, nan if name == "recall" else 0.25, {0: 0.25}, **bounds)
        for name in names
    ]
    assert results_plot(figures, "x") is None
    (row,) = [line for line in results_text(figures, 1, 10).splitlines() if line.startswith("| DBSCAN")]
    assert [cell.strip().partition(" ")[0] for cell in row.split("|")[2:-1]] == [
        "0.250",
        "-",
        "0.250",
        "0.250",
        "0.250",
    ]
