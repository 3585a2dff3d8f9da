"""`verisphere report`: a folder that stands by itself, from runs and embeddings files as they lie on the disk."""

import hashlib
import html
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

import verisphere
from foreign_graphs import graph
from foreign_graphs import written as written_graph
from read_page import read_alone
from shard_writer import written as in_shards
from verisphere.base.identity import names_taken
from verisphere.base.provenance import UNRECORDED, UNTIED
from verisphere.base.trained_on import RowsInTraining, SharedWithTraining
from verisphere.base.vocabulary import Embeddings, Origin, Preprocessing, Redrawing
from verisphere.base.words import Names
from verisphere.decide import point_at
from verisphere.decide.order import SortedScores
from verisphere.decide.paired import holm
from verisphere.files.embeddings import write_embeddings
from verisphere.images import SyntheticFaces
from verisphere.measure import report as report_module
from verisphere.measure import report_inputs as inputs_module
from verisphere.measure.protocols.all_pairs import PairsOfSet, all_pairs
from verisphere.measure.protocols.redrawn import ALL, tars_over_people
from verisphere.measure.report import ReportInput, make_report, report_inputs
from verisphere.measure.report_inputs import distinct_titles
from verisphere.models.described_faces import open_faces
from verisphere.models.embed import embed, open_model
from verisphere.ship.adopt import adopt_onnx
from verisphere.ship.calibrate import calibrate
from verisphere.ship.pixels import Told

PEOPLE, IMAGES = 12, 4
FARS = ("1e-1", "1e-2", "1e-4")
NAMES = [f"p{person}/{image}.png" for person in range(PEOPLE) for image in range(IMAGES)]


def some(noise: float = 0.6, seed: int = 0, domains: bool = False, origin: Origin | None = None) -> Embeddings:
    random = np.random.default_rng(0)
    person = np.repeat(np.arange(PEOPLE), IMAGES)
    rows = random.normal(size=(PEOPLE, 16))[person]
    rows += noise * np.random.default_rng(seed).normal(size=rows.shape)
    return Embeddings(
        rows.astype(np.float32),
        names=np.array(NAMES),
        identities=np.array([f"p{number}" for number in person]),
        domains=np.where(np.arange(len(person)) % 4 < 2, "day", "night") if domains else None,
        origin=origin,
    )


@pytest.fixture
def drawn() -> None:
    """A test that asks for this has its plots drawn."""


@pytest.fixture(autouse=True)
def _plots(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere a word stands for each plot, which is ten times quicker."""
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr("verisphere.report.blocks.save_plot", _word)


def _word(figure: Figure, path: Path) -> Path:
    path.write_text("plot")
    return path


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    folder = tmp_path / "faces"
    for number, name in enumerate(NAMES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (112, 112), (5 * number, 10, 200)).save(folder / name)
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "first"
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text("seed: 7\n")
    (folder / "people.txt").write_text("a\nb\nc\n")
    (folder / "metrics.jsonl").write_text(
        '{"step": 1, "epoch": 0.5, "loss": 3.0}\n{"step": 2, "epoch": 1, "loss": 2}\n'
    )
    for step in (1, 2):
        checkpoint = folder / "checkpoints" / f"step-{step:08d}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "backbone.safetensors").write_bytes(b"weights after %d" % step)
    return folder


def written(path: Path, embeddings: Embeddings) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_embeddings(path, embeddings)
    return path


def report(out: Path, *paths: Path, faces: Path | None = None, **options: Any) -> dict[str, Any]:
    """The numbers of a report made of these paths."""
    options = {"fars": FARS, "one_far": "1e-2", "replicates": 20, **options}
    make_report(report_inputs(paths, faces), out, **options)
    return json.loads((out / "figures.json").read_text())


def page(out: Path) -> str:
    return (out / "report.html").read_text()


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.usefixtures("drawn")
def test_the_folder_of_a_report(tmp_path: Path, run: Path, faces: Path):
    written(run / "test.npz", some(domains=True))
    out = tmp_path / "out" / "report"
    result = make_report(report_inputs([run], faces), out, fars=FARS, one_far="1e-2", replicates=20)
    assert result.page == out / "report.html"
    plots = {"roc", "det", "cmc", "scores-1-test", "domains-1-test", "training-1-first"}
    expected = {f"plots/{name}.{kind}" for name in plots for kind in ("png", "svg")}
    assert set(tree(out)) == {"report.html", "figures.json", "table.csv", "table.md", "table.tex", *expected}
    assert all(len(data) < 200_000 for name, data in tree(out).items() if name.endswith(".svg"))
    assert [path.name for path in out.parent.iterdir()] == ["report"]
    assert re.search(r"\| test +\| +48 \| +12 \|", result.text())
    assert result.text().endswith(f"page: {out / 'report.html'}")
    assert page(out).count("data:image/jpeg") > 8
    shown = read_alone(page(out))
    assert len(shown.all("svg")) == len(plots) + 1
    assert "var(--blue)" in page(out)


@pytest.mark.parametrize(
    ("rule", "says"),
    [("merge", "12 people by merged names, every"), ("exact", "24 people by names exactly as written, every")],
)
def test_how_names_were_taken_is_recorded(tmp_path: Path, rule: Names, says: str):
    embeddings = some()
    spelled = np.array([name.upper() if at % 2 else name for at, name in enumerate(embeddings.identities.tolist())])
    rows = {"embeddings": embeddings.embeddings, "names": embeddings.names}
    np.savez(tmp_path / "a.npz", **rows, identities=spelled)
    with names_taken(rule):
        (one,) = report(tmp_path / "out", tmp_path / "a.npz")["sets"]
    assert one["names_rule"] == rule
    assert says in page(tmp_path / "out")
    np.savez(tmp_path / "a.npz", **rows, identities=embeddings.identities)
    (one,) = report(tmp_path / "plain", tmp_path / "a.npz")["sets"]
    assert one["names_rule"] is None
    assert "12 people, every" in page(tmp_path / "plain")


def test_the_numbers_are_those_of_evaluate(tmp_path: Path):
    embeddings = some(domains=True)
    found = report(tmp_path / "out", written(tmp_path / "a.npz", embeddings))
    (one,) = found["sets"]
    result = all_pairs(embeddings, FARS)
    assert [point["threshold"] for point in one["operating_points"]] == [
        point.threshold for point in result.operating_points
    ]
    assert [point["below_resolution"] for point in one["operating_points"]] == [False, False, True]
    assert result.one_threshold is not None
    common = result.one_threshold[1]
    assert one["one_threshold"]["calibration_threshold"] == common.calibration_threshold
    assert one["one_threshold"]["domains"]["day"]["far"] == common.domains["day"].far
    assert one["file"]["sha256"] == hashlib.sha256((tmp_path / "a.npz").read_bytes()).hexdigest()
    assert one["tar_interval"]["replicates"] == 20
    assert one["tar_intervals"] == {"1e-2": one["tar_interval"]}
    assert (one["cmc"]["people"], one["cmc"]["mated_total"]) == (PEOPLE, PEOPLE * (IMAGES - 1))
    assert one["curve"]["impostor_total"] == PEOPLE * (PEOPLE - 1) // 2 * IMAGES**2
    assert f"{common.calibration_threshold:.4f}" in page(tmp_path / "out")
    read_alone(page(tmp_path / "out"))


def test_the_samples_are_the_extremes(tmp_path: Path, faces: Path):
    embeddings = some(noise=1.5)
    (one,) = report(tmp_path / "out", written(tmp_path / "a.npz", embeddings), faces=faces)["sets"]
    pairs = PairsOfSet(embeddings)
    genuine, impostor = (pairs.all_scores(genuine=kind).scores for kind in (True, False))
    hardest, closest = one["hardest_genuine"], one["closest_impostors"]
    assert hardest[0]["score"] == genuine[-1]
    assert closest[0]["score"] == impostor[0]
    assert [pair["score"] for pair in hardest] == sorted(pair["score"] for pair in hardest)
    assert all(pair["left"]["identity"] == pair["right"]["identity"] for pair in hardest)
    assert len({pair["left"]["identity"] for pair in hardest}) == len(hardest) == 8
    people = [pair[side]["identity"] for pair in closest for side in ("left", "right")]
    assert len(set(people)) == len(people)
    threshold = one["operating_points"][1]["threshold"]
    assert all(pair["accepted"] == (pair["score"] > threshold) for pair in (*hardest, *closest))


def test_sets_of_the_same_images_are_compared_whatever_their_order(tmp_path: Path):
    ours, theirs = some(), some(noise=1.5, seed=1)
    back = slice(None, None, -1)
    turned = Embeddings(theirs.embeddings[back], theirs.names[back], theirs.identities[back])
    other = replace(some(), names=np.array([f"x{name}" for name in NAMES]))
    paths = [written(tmp_path / f"{name}.npz", one) for name, one in (("a", ours), ("b", turned), ("c", other))]
    found = report(tmp_path / "out", *paths)
    (difference,) = found["differences"]  # 1e-4 is below resolution, 1e-1 above the one FAR, c has other images
    assert (difference["ours"], difference["theirs"], difference["far_target"]) == ("a", "b", "1e-2")
    at = [point["tar"] for one in found["sets"][:2] for point in one["operating_points"][1:2]]
    assert difference["interval"]["value"] == pytest.approx(at[0] - at[1])
    assert difference["interval"]["value"] > 0
    assert difference["p_holm"] == difference["p_value"]
    assert difference["words"].startswith("At FAR 1 in 100 (1e-2) a recognises more than b: ")
    assert difference["words"] in re.sub("<[^>]*>", "", page(tmp_path / "out"))


def test_of_three_sets_every_two_are_compared_and_the_number_is_corrected_for(tmp_path: Path):
    sets = {"a": some(), "b": some(noise=1.5, seed=1), "c": some(noise=1.6, seed=2)}
    paths = [written(tmp_path / f"{name}.npz", one) for name, one in sets.items()]
    options = {"fars": FARS, "one_far": "1e-1", "replicates": 20}
    text = make_report(report_inputs(paths), tmp_path / "out", **options).text()
    differences = json.loads((tmp_path / "out" / "figures.json").read_text())["differences"]
    assert [(one["ours"], one["theirs"], one["far_target"]) for one in differences] == [
        (ours, theirs, far) for ours, theirs in (("a", "b"), ("a", "c"), ("b", "c")) for far in ("1e-1", "1e-2")
    ]
    assert {one["interval"]["replicates"] for one in differences} == {6 * 40}  # or no difference could pass
    assert [one["p_holm"] for one in differences] == pytest.approx(holm([one["p_value"] for one in differences]))
    for one in differences:
        assert one["words"].endswith("beyond chance." if one["p_holm"] <= 0.05 else "may be chance.")
    assert len({one["words"].rsplit(";", 1)[1] for one in differences}) == 2
    assert [line for line in text.splitlines() if line.startswith("At FAR")] == [one["words"] for one in differences]
    assert "6 comparisons. People are redrawn 240 times" in text


def test_exchanged_photographs_are_not_compared_as_the_same_images(tmp_path: Path):
    none, digests = np.zeros(len(some()), bool), np.arange(len(some()))
    known = [RowsInTraining(none, none, False, "", digests=order) for order in (digests, np.roll(digests, 1))]
    paths = [
        written(tmp_path / f"{name}.npz", replace(some(), in_training=one))
        for name, one in zip("ab", known, strict=True)
    ]
    with pytest.raises(ValueError, match=r"b: .* rows were made of a photograph that has another name in a, by their"):
        report(tmp_path / "out", *paths)


def test_people_in_two_spellings_of_two_sets_are_refused_unless_names_decide(tmp_path: Path):
    lower = replace(some(noise=0.9), identities=np.char.upper(some().identities))
    paths = [written(tmp_path / f"{name}.npz", one) for name, one in (("a", some()), ("b", lower))]
    with pytest.raises(ValueError, match=r"row 0 of a\) and .* row 0 of b\) are one name but for case"):
        report(tmp_path / "out", *paths)
    with names_taken("merge"):
        found = report(tmp_path / "merged", *paths)["differences"]
    assert {(one["ours"], one["theirs"]) for one in found} == {("a", "b")}
    with names_taken("exact"):
        assert report(tmp_path / "exact", *paths)["differences"] == []


def test_labels_moved_by_a_row_are_found_in_a_set_that_is_put_into_the_order_of_another(tmp_path: Path):
    theirs = some(seed=1)
    moved = replace(theirs, embeddings=np.roll(theirs.embeddings, 1, axis=0))
    order = np.argsort([f"{row * 7919 % len(theirs):03}" for row in range(len(theirs))])
    report(tmp_path / "out", written(tmp_path / "a.npz", some().take(order)), written(tmp_path / "b.npz", moved))
    assert "b: with all labels moved by one row" in page(tmp_path / "out")


def test_a_run_without_embeddings_gets_its_curves_and_a_hint(tmp_path: Path, run: Path):
    found = report(tmp_path / "out", run)
    assert found["sets"] == []
    (training,) = found["training"]
    assert (training["people"], training["title"]) == (3, "first")
    assert [entry["loss"] for entry in training["entries"]] == [3.0, 2]
    assert f"verisphere embed {run} FACES --out {run}/name.npz" in page(tmp_path / "out")
    assert {path.name for path in (tmp_path / "out" / "plots").iterdir()} == {
        "training-1-first.png",
        "training-1-first.svg",
    }


def test_of_a_run_every_embeddings_file_is_taken_and_nothing_else(tmp_path: Path, run: Path):
    written(run / "b.npz", some())
    written(run / "a.npz", some(noise=0.9))
    np.savez(run / "scores.npz", score=np.zeros(3), label=np.zeros(3))
    in_shards(run / "c", some())
    (run / "d").mkdir()
    (run / "d" / "manifest.json").write_text("{}")  # as of a converted set of images
    assert [entry.title for entry in report_inputs([run])] == ["a", "b", "c"]
    assert len(report(tmp_path / "out", run)["training"]) == 1


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (b"weights after 2", "the newest checkpoint of"),
        (b"weights after 1", "not the newest, one checkpoint of"),
        (b"others", "None of the checkpoints that"),
    ],
)
def test_the_page_says_whether_the_run_made_the_embeddings(tmp_path: Path, run: Path, weights: bytes, words: str):
    origin = Origin(hashlib.sha256(weights).hexdigest(), True, "float32", "nowhere")
    written(run / "test.npz", some(origin=origin))
    report(tmp_path / "out", run)
    assert words in page(tmp_path / "out")


DRAWN = "class_path: verisphere.images.SyntheticFaces\ninit_args: {people: 12, images: 4, size: 48}\n"


def test_images_of_a_described_data_set_are_shown(tmp_path: Path):
    described = tmp_path / "drawn.yaml"
    described.write_text(DRAWN)
    names = np.array(SyntheticFaces(people=12, images=4, size=48).names)
    given = written(tmp_path / "given.npz", replace(some(), names=names))
    report(tmp_path / "out", given, faces=described)
    assert "data:image/jpeg" in page(tmp_path / "out")
    origin = Origin("ab" * 32, False, "float32", str(described))
    (entry,) = report_inputs([written(tmp_path / "known.npz", replace(some(origin=origin), names=names))])
    assert entry.faces is not None


def test_a_data_set_from_outside_is_built_only_where_it_is_trusted(tmp_path: Path):
    described = tmp_path / "own.yaml"
    described.write_text("class_path: some.where.Faces\n")
    path = written(tmp_path / "a.npz", some())
    with pytest.raises(ValueError, match=r"own\.yaml: data set: 'some\.where\.Faces' is not part of verisphere"):
        report_inputs([path], described)
    with pytest.raises(ValueError, match="No module named"):
        report_inputs([path], described, trust=True)


@pytest.mark.parametrize(
    ("images", "why"),
    [
        (None, "does not say where its images are; name them by --faces"),
        ("gone", "cannot be read where they were (gone: no such folder"),
        ("empty", "1 of 48 images are not in"),
    ],
)
def test_without_images_the_page_says_why(tmp_path: Path, faces: Path, images: str | None, why: str):
    if images == "empty":
        (faces / NAMES[3]).unlink()
        images = str(faces)
    origin = None if images is None else Origin("ab" * 32, False, "float32", images)
    written(tmp_path / "a.npz", some(origin=origin))
    report(tmp_path / "out", tmp_path / "a.npz")
    text = page(tmp_path / "out").replace("&#x27;", "'")
    assert "No pictures: " in text
    assert why in text
    assert "data:image/jpeg" not in text
    assert "Hardest pairs of the same person" in text


def test_an_image_that_cannot_be_decoded_costs_the_pictures_alone(tmp_path: Path, faces: Path):
    for name in NAMES:
        (faces / name).write_bytes(b"no image")
    report(tmp_path / "out", written(tmp_path / "a.npz", some()), faces=faces)
    assert "not an image: the file" in page(tmp_path / "out")


def test_images_of_others_are_refused(tmp_path: Path, faces: Path):
    strange = replace(some(), names=np.array([f"x{name}" for name in NAMES]))
    with pytest.raises(ValueError, match=r"faces: its images are not those of the embeddings: 48 of 48 images"):
        report_inputs([written(tmp_path / "a.npz", strange)], faces)


def test_a_report_is_replaced_and_says_the_same_again(tmp_path: Path):
    path = written(tmp_path / "a.npz", some())
    out = tmp_path / "out"
    report(out, path)
    before = tree(out)
    report(out, path)
    assert tree(out) == before
    assert {entry.name for entry in tmp_path.iterdir()} == {"a.npz", "out"}


def test_another_report_takes_the_place_of_the_former(tmp_path: Path, run: Path):
    out = tmp_path / "out"
    report(out, run)
    report(out, written(tmp_path / "a.npz", some()), title="Another <title>")
    assert "<h1>Another &lt;title&gt;</h1>" in page(out)
    assert {path.stem for path in (out / "plots").iterdir()} == {"roc", "det", "cmc", "scores-1-a"}


def test_what_is_no_report_is_left_alone(tmp_path: Path):
    path = written(tmp_path / "a.npz", some())
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "figures.json").write_text('{"format": "something else"}')
    with pytest.raises(FileExistsError, match=r"precious: a folder that holds something, and no report"):
        report(folder, path)
    with pytest.raises(FileExistsError, match=r"a\.npz: a file; a report is a folder"):
        report(path, path)
    out = tmp_path / "out"
    report(out, path)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"a former report, but with 'notes\.txt' in it"):
        report(out, path)
    assert (out / "notes.txt").read_text() == "mine"


def test_calibrated_thresholds_are_tried_on_the_sets_of_their_model(tmp_path: Path):
    origin = Origin("ab" * 32, True, "float32", "here")
    same, other = replace(origin, images="there"), replace(origin, flip=False)
    paths = [
        written(tmp_path / f"{name}.npz", some(seed=number, origin=made))
        for number, (name, made) in enumerate((("same", same), ("other", other), ("unknown", None)))
    ]
    random = np.random.default_rng(5)
    people = Embeddings(
        random.normal(size=(40, 16)).astype(np.float32),
        names=np.array([f"c{number}" for number in range(40)]),
        identities=np.array([f"q{number}" for number in range(40)]),
        origin=origin,
    )
    calibration = calibrate(written(tmp_path / "cal.npz", people), ["1e-1"], "expected")
    found = report(tmp_path / "out", *paths, calibration=calibration)["calibrated"]
    again = make_report(report_inputs(paths), tmp_path / "out", one_far="1e-2", replicates=20, calibration=calibration)
    lines = again.text().splitlines()
    assert lines[:3] == found["notes"]
    (shipped,) = found["shipped"]
    of_promise = next(number for number, line in enumerate(lines) if line.startswith("| shipped threshold"))
    assert re.match(rf"\| same +\| +{calibration.thresholds[0].threshold:.6f} \|", lines[of_promise + 2])
    assert "threshold, FAR 1e-2" not in "".join(lines[: of_promise + 3])
    assert "threshold, FAR 1e-2" in again.text()
    assert list(shipped["sets"]) == ["same"]
    assert found["own"] == []
    threshold = calibration.thresholds[0].threshold
    pairs = PairsOfSet(some(seed=0))
    genuine, impostor = (SortedScores(pairs.all_scores(genuine=kind).scores) for kind in (True, False))
    expected = point_at(genuine, impostor, threshold, "1e-1", "expected")
    assert shipped["sets"]["same"]["all_pairs"]["far"] == expected.far
    assert shipped["sets"]["same"]["all_pairs"]["tar"] == expected.tar
    (over_people,) = tars_over_people(pairs, some(seed=0).embeddings, [threshold], Redrawing(20, 0))[ALL]
    bounds = [shipped["sets"]["same"]["all_pairs"][name] for name in ("tar_lower_95", "tar_upper_95")]
    assert bounds == [over_people.lower_95, over_people.upper_95] != [expected.tar_lower_95, expected.tar_upper_95]
    assert shipped["sets"]["same"]["domains"] == {}
    assert found["notes"] == [
        f"same: the thresholds were tried on trust; the calibration or the set was {UNRECORDED}.",
        "other: the thresholds were not tried; it was not made as the calibration was (flip false against true).",
        "unknown: the thresholds were not tried; its embeddings do not say which model made them.",
    ]
    assert found["file"]["name"] == "cal.npz"
    recorded = replace(origin, preprocessing=Preprocessing((4, 4), "RGB", "NCHW", 0.0, 1.0))
    calibration = calibrate(written(tmp_path / "cal.npz", replace(people, origin=recorded)), ["1e-1"], "expected")
    path = written(tmp_path / "recorded.npz", some(origin=recorded))
    assert report(tmp_path / "recorded", path, calibration=calibration)["calibrated"]["notes"] == []
    singles = some(origin=recorded)
    halves = np.char.add(singles.identities, np.char.mod("/%d", np.arange(len(singles)) % 2))
    pooled = written(tmp_path / "pooled.npz", replace(singles, domains=None, templates=halves))
    assert report(tmp_path / "pooled", pooled, calibration=calibration)["calibrated"]["notes"] == [
        "pooled: the thresholds were not tried; the rows calibrated on are single photographs."
    ]


def test_a_threshold_of_a_gallery_says_which_sets_are_not_of_its_model(tmp_path: Path):
    pixels = Preprocessing((4, 4), "RGB", "NCHW", 0.0, 1.0)
    origin = Origin("ab" * 32, True, "float32", "here", preprocessing=pixels)
    weak = "the promise is not shown to hold for its model"
    earlier = replace(origin, preprocessing=None)
    made = {"same": origin, "other": replace(origin, flip=False), "unknown": None, "earlier": earlier}
    paths = [
        written(tmp_path / f"{name}.npz", some(seed=seed, origin=of)) for seed, (name, of) in enumerate(made.items())
    ]
    strangers = np.random.default_rng(5).normal(size=(40, 16)).astype(np.float32)
    for of, notes in (
        (
            origin,
            [
                "Nothing says which model made the gallery that the threshold was found with: that it was that of the "
                "strangers is taken on trust.",
                f"other: {weak}; it was not made as the calibration was (flip false against true).",
                f"unknown: {weak}; its embeddings do not say which model made them.",
                f"earlier: {weak}; the calibration or the set was {UNRECORDED}.",
            ],
        ),
        (None, [f"{UNTIED[0].upper()}{UNTIED[1:]}."]),
    ):
        people = Embeddings(strangers, identities=[f"q{number}" for number in range(40)], origin=of)
        calibration = verisphere.calibrate(people, gallery=some(), fpir="0.1", accept_unrecorded_pixels=True)
        found = report(tmp_path / "out", *paths, calibration=calibration)["gallery"]
        assert found["notes"] == notes
        assert found["thresholds"][0]["threshold"] == calibration.thresholds[0].threshold
        text = page(tmp_path / "out")
        assert all(note[1:] in text for note in notes)
        assert "The promise ends when a photograph is added to the gallery or changed" in text
        assert calibration.strangers.sha256 in text


def test_all_sides_of_a_calibration_of_a_gallery_are_compared_with_a_set(tmp_path: Path):
    strangers = Origin("ab" * 32, True, "float32", "here", preprocessing=Preprocessing((4, 4), "RGB", "NCHW", 0.0, 1.0))
    probes = replace(strangers, alignment="arcface_112x112 by YuNet")
    draws = np.random.default_rng(5).normal(size=(40, 16)).astype(np.float32)
    people = Embeddings(draws, identities=[f"q{number}" for number in range(40)], origin=strangers)
    gallery, others = some(origin=strangers), some(seed=2, origin=probes)
    calibration = verisphere.calibrate(people, gallery=gallery, fpir="0.1", probes=others)
    shared = SharedWithTraining(3, 0, 40, 40, True)
    thresholds = tuple(replace(threshold, in_training=shared) for threshold in calibration.thresholds)
    path = written(tmp_path / "a.npz", some(seed=1, origin=replace(probes, alignment="arcface_112x112 by MTCNN")))
    found = report(tmp_path / "out", path, calibration=replace(calibration, thresholds=thresholds))["gallery"]
    assert found["notes"] == [
        "The model was trained on 3 of the 40 people (by name), so it promises nothing about new people.",
        "a: the promise is not shown to hold for its model; it was not made as the calibration was (detector MTCNN "
        "against YuNet).",
    ]


def test_domains_without_pairs_are_named_and_left_out(tmp_path: Path):
    single = replace(some(), domains=np.array(["day"] * 44 + ["fog"] * 4))  # all fog shows one person
    (one,) = report(tmp_path / "out", written(tmp_path / "a.npz", single))["sets"]
    assert list(one["one_threshold"]["domains"]) == ["day"]
    assert one["one_threshold"]["skipped"] == ["fog"]
    none = replace(some(), domains=np.array([f"d{number % 4}" for number in range(48)]))  # each person once in each
    (one,) = report(tmp_path / "none", written(tmp_path / "b.npz", none))["sets"]
    assert one["one_threshold"] is None
    assert "Domains at one threshold" not in page(tmp_path / "none")


def test_a_far_below_resolution_has_no_headline(tmp_path: Path):
    path = written(tmp_path / "a.npz", some())
    result = make_report(report_inputs([path]), tmp_path / "out", fars=("1e-1",), one_far="1e-5", replicates=20)
    assert re.search(r"\| a .* - \| +- \|", result.text())
    words = re.sub("</?span[^>]*>", "", page(tmp_path / "out"))
    assert "cannot show FAR 1 in 100,000 (1e-5), which takes at least 100,000" in words
    points = json.loads((tmp_path / "out" / "figures.json").read_text())["sets"][0]["operating_points"]
    assert [point["far_target"] for point in points] == ["1e-1", "1e-5"]


def test_a_far_written_twice_is_one(tmp_path: Path):
    path = written(tmp_path / "a.npz", some())
    found = report(tmp_path / "out", path, fars=("0.01", "1e-1", "1e-2"), one_far="1e-2")
    assert [point["far_target"] for point in found["sets"][0]["operating_points"]] == ["1e-1", "1e-2"]


def test_bad_paths_and_fars_are_one_clear_line(tmp_path: Path, run: Path):
    path = written(tmp_path / "a.npz", some())
    with pytest.raises(ValueError, match=r"not a run of `verisphere train` \(it holds no recipe\.yaml\)"):
        report_inputs([tmp_path])
    with pytest.raises(ValueError, match=r"a\.npz: named twice"):
        report_inputs([path, tmp_path / "." / "a.npz"])
    (run / "broken.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ValueError, match=r"broken\.npz: not an \.npz file"):
        report_inputs([run])
    for far in ("0", "1", 0.0):
        with pytest.raises(ValueError, match="the one threshold must lie above 0 and below 1"):
            report(tmp_path / "out", path, one_far=far)
    with pytest.raises(ValueError, match="no input"):
        make_report([], tmp_path / "out")
    twice = [ReportInput("one", some(), "", None, None)] * 2
    with pytest.raises(ValueError, match="two inputs are called 'one'"):
        make_report(twice, tmp_path / "out")


def test_a_model_folder_embeds_the_faces(tmp_path: Path):
    net, model, faces = written_graph(tmp_path / "net.onnx", graph()), tmp_path / "model", tmp_path / "faces"
    adopt_onnx(net, model, Told(colour="RGB", mean=127.5, scale=128.0, template="mine_8x8"))
    for number, name in enumerate(NAMES):
        (faces / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(number).integers(0, 256, (8, 8, 3), np.uint8)).save(faces / name)
    with pytest.raises(ValueError, match=r"model: a model folder, which holds no figures; name images by --faces"):
        report_inputs([model])
    (entry,) = report_inputs([model], faces)
    made = embed(open_model(model, torch.device("cpu")), open_faces(faces, None, (8, 8)), str(faces))
    assert (entry.title, entry.run) == ("net", None)
    assert entry.embeddings is not None
    np.testing.assert_array_equal(entry.embeddings.embeddings, made.embeddings)
    assert entry.embeddings.origin == made.origin
    found = report(tmp_path / "out", model, written(tmp_path / "b.npz", some()), faces=faces)
    assert [part["title"] for part in found["sets"]] == ["net", "b"]


def test_titles_are_as_short_as_they_can_be():
    paths = [Path("x/run/a.npz"), Path("y/run/a.npz"), Path("b.npz")]
    assert distinct_titles(paths[1:]) == ["a", "b"]
    assert distinct_titles([*paths[:2], Path("y/other")])[0] == "x/run/a"
    assert distinct_titles([]) == []


@pytest.mark.parametrize("name", ["cal.npz", "cal"])
def test_the_calibration_s_own_set_is_known_again_and_domains_have_their_rows(tmp_path: Path, name: str):
    write = written if name.endswith(".npz") else in_shards
    path = write(tmp_path / name, some(domains=True, origin=Origin("ab" * 32, True, "float32", "here")))
    calibration = calibrate(path, ["0.2"], "expected", probability=True, replicates=20)
    found = report(tmp_path / "out", path, calibration=calibration)["calibrated"]
    assert found["own"] == ["cal"]
    assert found["notes"][0] == f"Probability: {calibration.probability.meaning()}."
    assert [note[:41] for note in found["notes"][1:]] == [
        "cal: the thresholds were tried on trust; "
    ]  # its pixels are not recorded
    assert html.escape(found["notes"][0], quote=False) in page(tmp_path / "out")
    tried = found["shipped"][0]["sets"]["cal"]
    (check,) = calibration.checks  # the calibration's own check is over the same pairs
    assert tried["all_pairs"]["far"] == check.points[0].far
    assert {name: point["far"] for name, point in tried["domains"].items()} == {
        name: points[0].far for name, points in check.domains.items()
    }


def test_images_are_looked_for_from_here_and_from_beside_the_embeddings(tmp_path: Path, faces: Path, monkeypatch):
    origin = Origin("ab" * 32, True, "float32", "faces")  # as it was typed
    path = written(tmp_path / "a.npz", some(origin=origin))
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    assert report_inputs([path])[0].faces is not None
    monkeypatch.chdir(tmp_path)
    other = written(tmp_path / "else" / "b.npz", some(origin=origin))
    assert report_inputs([other])[0].faces is not None
    faces.rename(tmp_path / "moved")
    assert "faces: no such folder" in report_inputs([path])[0].no_faces


def test_of_two_reports_at_once_one_is_whole_and_the_other_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, out = written(tmp_path / "a.npz", some()), tmp_path / "out"
    measure, refused = report_module._measure, []

    def meanwhile(*arguments: Any) -> Any:
        """While the first measures, a second one begins."""
        if not (child := os.fork()):
            report_module._measure = measure
            try:
                report(out, path, title="second")
            except ValueError as error:
                os._exit(7 if str(error).startswith(f"{out}: another process is writing it") else 8)
            os._exit(9)
        refused.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return measure(*arguments)

    monkeypatch.setattr(report_module, "_measure", meanwhile)
    for title in ("first", "third"):
        assert report(out, path, title=title)["title"] == title
    assert refused == [7, 7]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.npz", "out"]


def test_sample_pairs_are_decided_at_the_shipped_threshold(tmp_path: Path):
    origin = Origin("ab" * 32, True, "float32", "here", preprocessing=Preprocessing((4, 4), "RGB", "NCHW", 0.0, 1.0))
    ours, theirs = written(tmp_path / "ours.npz", some(origin=origin)), written(tmp_path / "theirs.npz", some(seed=1))
    made = calibrate(written(tmp_path / "new.npz", some(seed=2, origin=origin)), ["0.2"], "expected")
    for lenient in (-1.0, 1.0):  # everything passes, nothing passes
        moved = replace(made, thresholds=(replace(made.thresholds[0], threshold=lenient),), checks=())
        mine, other = report(tmp_path / "out", ours, theirs, calibration=moved)["sets"]
        for kind in ("hardest_genuine", "closest_impostors"):
            assert {pair["accepted"] for pair in mine[kind]} == {lenient < 0}
        headline = other["operating_points"][1]["threshold"]
        assert [pair["accepted"] for pair in other["closest_impostors"]] == [
            pair["score"] > headline for pair in other["closest_impostors"]
        ]
        assert f"ours, decided at the threshold {lenient:.4f}" in page(tmp_path / "out")


def test_model_folders_bear_their_own_names_where_these_are_distinct(tmp_path: Path):
    net, faces = written_graph(tmp_path / "net.onnx", graph()), tmp_path / "crops"
    for name in NAMES:
        (faces / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(faces / name)
    told = Told(colour="RGB", mean=127.5, scale=128.0, template="mine_8x8")
    for folder, name in (("shipped", "quick"), ("second", "slow"), ("third", "slow")):
        adopt_onnx(net, tmp_path / folder, told, name=name)
    two, three = [tmp_path / "shipped", tmp_path / "second"], tmp_path / "third"
    assert [entry.title for entry in report_inputs(two, faces)] == ["quick", "slow"]
    assert [entry.title for entry in report_inputs([*two, three], faces)] == ["quick", "second", "third"]
    report(tmp_path / "out", *two, faces=faces)
    assert "<h1>Report: quick, slow on crops</h1>" in page(tmp_path / "out")


def test_images_that_do_not_look_aligned_are_named_once_and_on_the_page(tmp_path: Path, monkeypatch):
    asked: list[object] = []
    monkeypatch.setattr(inputs_module, "warn_if_unaligned", lambda faces: asked.append(faces) or "crops: not aligned")
    net, faces = written_graph(tmp_path / "net.onnx", graph()), tmp_path / "crops"
    for number, name in enumerate(NAMES):
        (faces / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(number).integers(0, 256, (8, 8, 3), np.uint8)).save(faces / name)
    for folder in ("one", "two"):
        adopt_onnx(net, tmp_path / folder, Told(colour="RGB", mean=127.5, scale=128.0, template="mine_8x8"))
    rows = written(tmp_path / "rows.npz", some())
    found = report_inputs([tmp_path / "one", tmp_path / "two", rows], faces)
    assert [entry.doubt for entry in found] == ["crops: not aligned"] * 2 + [""]
    assert len(asked) == 1
    make_report(found, tmp_path / "out", fars=FARS, one_far="1e-2", replicates=20)
    assert page(tmp_path / "out").count("crops: not aligned") == 1
