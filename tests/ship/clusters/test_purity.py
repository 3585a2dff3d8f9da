"""`verisphere purity`: libraries of known people, their loosest thresholds, the promise, its file and its refusals."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from two_models import OLD, PIXELS
from verisphere.base.trained_on import RowsInTraining
from verisphere.base.vocabulary import Embeddings, Origin
from verisphere.cli.start import main
from verisphere.decide import TooFewComparisonsError
from verisphere.decide.purity import figures_of, libraries_of
from verisphere.files.clusters import read_clusters
from verisphere.files.embeddings import write_embeddings
from verisphere.files.purity import Purity, read_purity
from verisphere.ship.calibration_check import Accepted
from verisphere.ship.clusters.clusters import ClusterOptions, cluster_folder
from verisphere.ship.clusters.face_tree import FaceTree
from verisphere.ship.clusters.purity import STEP, Library, calibrate_purity

DIM = 24


def known_people(people: int, seed: int = 0, spread: float = 0.28) -> Embeddings:
    """Faces of people who have 1 to 7 images; every tenth person is hard to recognise."""
    random = np.random.default_rng(seed)
    centers = random.standard_normal((people, DIM))
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    person = np.repeat(np.arange(people), random.integers(1, 8, people))
    noise = spread * np.where(person % 10 == 0, 1.4, 0.8) / np.sqrt(DIM / 8)
    rows = centers[person] + noise[:, None] * random.standard_normal((len(person), DIM))
    return Embeddings(rows, identities=[f"p{number}" for number in person])


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("known") / "known.npz"
    write_embeddings(path, known_people(500))
    return path


@pytest.fixture(scope="module")
def found(known: Path) -> Purity:
    return calibrate_purity(known, 60, "0.02", seed=4)


def impurities(library: Library, thresholds: np.ndarray) -> np.ndarray:
    tree = FaceTree(library.faces, float(thresholds.min()))
    return np.array([library.figures(tree, float(at)).impurity for at in thresholds])


@pytest.mark.parametrize("margin", [0.0, 0.2])
def test_the_loosest_threshold_is_that_of_trying_all(margin: float):
    faces = known_people(60, seed=3)
    person = np.unique(faces.identities, return_inverse=True)[1]
    library = Library(faces, person, margin)
    thresholds = np.round(np.arange(0, 1 + STEP / 2, STEP), 3)
    impurity = impurities(library, thresholds)
    assert impurity[0] > 0.1
    for target in (0.0, 0.01, 0.03, 0.1):
        impure = np.flatnonzero(impurity > target)
        assert library.loosest(target) == thresholds[impure[-1] + 1]


def test_a_library_that_is_pure_everywhere_and_one_in_which_two_people_look_alike():
    alone = Embeddings(np.eye(4), identities=list("abcd"))
    assert Library(alone, np.arange(4)).loosest(0.0) == 0.0
    twice = Embeddings([[1.0, 0.0], [1.0, 0.0]], identities=["a", "b"])
    assert Library(twice, np.arange(2)).loosest(0.0) == 0.905  # two faces pay 0.1, and are together up to 0.9


def test_unsure_faces_never_add_to_the_impurity():
    faces = known_people(80, seed=5)
    person = np.unique(faces.identities, return_inverse=True)[1]
    tree = FaceTree(faces, 0.1)
    seen = 0
    for threshold in np.arange(0.1, 0.9, 0.05):
        whole = figures_of(tree.tree.labels(threshold), person)
        for margin in (0.0, 0.1, 0.3):
            found = Library(faces, person, margin).figures(tree, threshold)
            assert found.impurity <= whole.impurity
            seen += found.unsure > 0
    assert seen > 5


def test_the_promise_is_a_rank_among_libraries(found: Purity, tmp_path: Path):
    faces = known_people(500)
    person = np.unique(faces.identities, return_inverse=True)[1]
    rows = libraries_of(person, 60, np.random.default_rng(4))
    loosest = sorted((Library(faces.take(one), person[one]).loosest(0.02) for one in rows), reverse=True)
    assert found.libraries == len(rows) >= 19
    assert found.rank == (len(rows) + 1) // 20
    assert found.threshold == loosest[found.rank - 1]
    found.write_json(tmp_path / "purity.json")
    assert read_purity(tmp_path / "purity.json") == found
    assert [at.faces for at in found.sizes] == [15, 30, 60]
    assert "at most 2 % of its faces lie in a cluster of mostly another person" in found.promise()
    merges = [(one.merges, one.wrong) for one in found.joined]
    assert sum(all_of for all_of, _ in merges) > sum(wrong for _, wrong in merges) > 0


@pytest.mark.slow
def test_the_promise_holds_in_libraries_of_new_people():
    """500 libraries of people who were not there, at thresholds of 25 calibrations."""
    kept = []
    for seed in range(25):
        faces = known_people(330, seed=100 + seed)
        person = np.unique(faces.identities, return_inverse=True)[1]
        rows = libraries_of(person, 60, np.random.default_rng(seed))[:19]
        threshold = max(Library(faces.take(one), person[one]).loosest(0.02) for one in rows)
        later = known_people(330, seed=500 + seed)
        person = np.unique(later.identities, return_inverse=True)[1]
        for one in libraries_of(person, 60, np.random.default_rng(seed))[:20]:
            library = Library(later.take(one), person[one])
            kept.append(library.figures(FaceTree(library.faces, threshold), threshold).impurity <= 0.02)
    assert len(kept) > 400
    assert np.mean(kept) > 0.9  # 0.95 in the mean over calibrations, of which there are few


def test_too_few_people_are_told_what_is_possible(known: Path):
    with pytest.raises(TooFewComparisonsError, match=r"make \d libraries of 300 faces .* needs 19; possible .* faces"):
        calibrate_purity(known, 300)
    with pytest.raises(TooFewComparisonsError, match=r"'confident' needs 59"):
        calibrate_purity(known, 60, guarantee="confident")


def test_what_cannot_be_is_refused(known: Path, tmp_path: Path):
    for faces, impurity, margin in (
        (1, "0.01", 0.0),
        (60, "1", 0.0),
        (60, "0.01", -0.1),
        (60, "0.01", np.nan),
        (60, "0.01", np.inf),
    ):
        with pytest.raises(ValueError, match="an impurity from 0 to below 1, libraries of 2 faces"):
            calibrate_purity(known, faces, impurity, margin=margin)
    with pytest.raises(ValueError, match="guarantee"):
        calibrate_purity(known, 60, guarantee="capped")
    faces = known_people(500)
    trained = np.zeros(len(faces), bool)
    trained[0] = True
    record = RowsInTraining(trained, trained, True, "")
    write_embeddings(tmp_path / "trained.npz", replace(faces, in_training=record))
    with pytest.raises(ValueError, match="promises nothing about new people"):
        calibrate_purity(tmp_path / "trained.npz", 60)
    again = calibrate_purity(tmp_path / "trained.npz", 60, accepted=Accepted(training_people=True))
    assert again.source.in_training
    first = "the model was trained on 1 of the 500 people (by name) and 1 of the 2,045 images of trained.npz, so it"
    assert again.text().startswith(f"{first} promises nothing about new people\nthreshold")
    again.write_json(tmp_path / "again.json")
    write_embeddings(tmp_path / "library.npz", known_people(500, seed=8).take(np.arange(60)))
    options = ClusterOptions(purity=tmp_path / "again.json")
    made = cluster_folder(tmp_path / "library.npz", tmp_path / "made", options)
    assert made.promise is not None
    assert made.promise.startswith(
        f"{first} promises nothing about new people; {TRUST.format('trained.npz')}promised: "
    )
    shifted = replace(faces, identities=np.random.default_rng(0).permutation(faces.identities))
    write_embeddings(tmp_path / "shifted.npz", shifted)
    with pytest.raises(ValueError, match="implausible"):
        calibrate_purity(tmp_path / "shifted.npz", 60)
    again = calibrate_purity(tmp_path / "shifted.npz", 60, accepted=Accepted(implausible=True))
    assert again.text().startswith("scores cannot be right: shifted.npz: genuine pairs score no higher")


def test_a_damaged_file_is_one_line(found: Purity, tmp_path: Path):
    path = tmp_path / "purity.json"
    found.write_json(path)
    right = json.loads(path.read_text())
    changes = ({"kind": "gate"}, {"format": 9}, {"threshold": 3}, {"rank": 0}, {"sizes": []}, {"impurity": "much"})
    for change in changes:
        path.write_text(json.dumps(right | change))
        with pytest.raises(ValueError, match=r"purity\.json: not a file that `verisphere purity` wrote"):
            read_purity(path)


def test_the_verb_prints_the_promise_and_writes_the_file(
    known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "purity.json"
    assert main(["purity", str(known), "--faces", "60", "--impurity", "2e-2", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "promised: in a library of 60 faces of people who are drawn like these" in printed
    assert "nothing is promised of it" in printed
    assert read_purity(out).impurity == "2e-2"
    assert main(["purity", str(known), "--faces", "400", "--out", str(tmp_path / "no.json")]) == 2
    assert not (tmp_path / "no.json").exists()


def test_parts_and_a_stopped_run_give_the_same_file(
    known: Path, found: Purity, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    out, work = tmp_path / "purity.json", tmp_path / "work"
    words = ["purity", str(known), "--faces", "60", "--impurity", "0.02", "--seed", "4", "--out", str(out)]
    assert main([*words, "--dry-run"]) == 0
    assert f"pieces   about {found.libraries}" in capsys.readouterr().out
    assert not out.exists()
    words += ["--work", str(work)]
    assert main([*words, "--merge"]) == 2
    assert main([*words, "--part", "1/2"]) == 0
    assert not out.exists()
    real, looked = Library.loosest, list[int]()

    def stopping(library: Library, target: float) -> float:
        looked.append(1)
        if len(looked) == 3:
            raise KeyboardInterrupt
        return real(library, target)

    monkeypatch.setattr(Library, "loosest", stopping)
    assert main([*words, "--part", "2/2"]) == 130
    assert main([*words, "--part", "2/2"]) == 0
    assert len(looked) == found.libraries // 2 + 1  # the third one was lost, and the two before it were kept
    assert read_purity(out) == found


def test_clusters_are_made_at_the_promised_threshold(
    known: Path, found: Purity, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    promise, library = tmp_path / "purity.json", tmp_path / "library.npz"
    found = replace(found, margin=0.05)
    found.write_json(promise)
    faces = known_people(500, seed=8)
    write_embeddings(library, faces.take(np.arange(60)))
    assert main(["cluster", str(library), "--purity", str(promise), "--out", str(tmp_path / "made")]) == 0
    at = found.sizes[-1]
    cost = (
        f"; on average the calibration libraries of 60 faces have a B-cubed recall of {at.recall:.3f}, and "
        f"{100 * at.unsure:.2f} % of their faces are unsure"
    )
    assert f"promised: {found.promise()}; this one has 60{cost}\n" in capsys.readouterr().out
    made = read_clusters(tmp_path / "made")
    assert (made.threshold, made.margin, made.promise) == (
        found.threshold,
        found.margin,
        f"{TRUST.format('known.npz')}promised: {found.promise()}; this one has 60{cost}",
    )
    write_embeddings(library, faces.take(np.arange(61)))
    more = cluster_folder(library, tmp_path / "more", ClusterOptions(purity=promise))
    assert "; nothing is promised of 61 faces, which are more than the 60 of" in str(more.promise)
    assert str(more.promise).endswith(cost)
    same = cluster_folder(known, tmp_path / "same", ClusterOptions(purity=promise))
    assert same.promise == "nothing is promised: the threshold was chosen on these faces"
    by_hand = cluster_folder(library, tmp_path / "hand", ClusterOptions(threshold=0.5))
    assert by_hand.promise is None
    assert "nothing is promised of a threshold chosen by hand" in by_hand.text()


def test_a_promise_is_for_the_pixels_it_was_made_of(found: Purity, tmp_path: Path):
    promise, library = tmp_path / "purity.json", tmp_path / "library.npz"
    replace(found, origin=OLD).write_json(promise)
    write_embeddings(library, replace(known_people(20), origin=replace(OLD, flip=True)))
    with pytest.raises(ValueError, match=r"purity.json: not made as library.npz was \(.*flip"):
        cluster_folder(library, tmp_path / "made", ClusterOptions(purity=promise))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("unknown", ["purity.json", "library.npz", ""])
def test_a_promise_beside_a_file_that_names_no_model_says_so(found: Purity, tmp_path: Path, unknown: str):
    """Rows of other pixels lay in one cluster, and the promise of 5 % was printed over it."""
    promise, library = tmp_path / "purity.json", tmp_path / "library.npz"
    replace(found, origin=None if unknown == promise.name else OLD).write_json(promise)
    write_embeddings(library, replace(known_people(20), origin=None if unknown == library.name else OLD))
    made = cluster_folder(library, tmp_path / "made", ClusterOptions(purity=promise))
    said = TRUST.format("known.npz" if unknown == promise.name else library.name)
    assert (said in str(made.promise)) == bool(unknown)


TRUST = "nothing in {} says which model made it: that one model made both files is taken on trust; "
DETECTED = replace(OLD, alignment="arcface_112x112 by MTCNN")


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        (replace(DETECTED, model="cd" * 32), "weights abababababab... against cdcdcdcdcdcd..."),
        (replace(DETECTED, flip=True), "flip false against true"),
        (replace(DETECTED, precision="int8"), "precision float32 against int8"),
        (replace(DETECTED, preprocessing=replace(PIXELS, size=(96, 112))), "size 112 x 112 against 96 x 112"),
        (replace(DETECTED, preprocessing=replace(PIXELS, colour="BGR")), "colour RGB against BGR"),
        (replace(DETECTED, preprocessing=replace(PIXELS, mean=0.0)), "mean 127.5 against 0"),
        (replace(DETECTED, preprocessing=replace(PIXELS, scale=255.0)), "scale 127.5 against 255"),
        (replace(DETECTED, alignment="sphereface_112x96 by MTCNN"), "template arcface_112x112 against sphereface"),
        (replace(DETECTED, alignment="arcface_112x112 by YuNet"), "detector MTCNN against YuNet"),
    ],
)
def test_clusters_of_another_model_or_other_pixels_are_refused_a_promise(
    found: Purity, tmp_path: Path, capsys: pytest.CaptureFixture[str], origin: Origin, said: str
):
    promise, library, out = (tmp_path / name for name in ("purity.json", "library.npz", "made"))
    replace(found, origin=DETECTED).write_json(promise)
    write_embeddings(library, replace(known_people(20), origin=origin))
    assert main(["cluster", str(library), "--purity", str(promise), "--out", str(out)]) == 2
    line = capsys.readouterr().err
    assert f"purity.json: not made as library.npz was ({said}" in line
    assert len(line.splitlines()) == 1
    assert not out.exists()


def test_known_faces_are_recognised_in_another_file_and_under_other_names(known: Path, found: Purity, tmp_path: Path):
    promise, options = tmp_path / "purity.json", ClusterOptions(purity=tmp_path / "purity.json")
    found.write_json(promise)

    def promised(path: Path) -> str:
        return str(cluster_folder(path, tmp_path / path.stem, options).promise)

    (tmp_path / "copy.npz").write_bytes(known.read_bytes())
    assert promised(tmp_path / "copy.npz") == "nothing is promised: the threshold was chosen on these faces"
    faces, others = known_people(500), known_people(500, seed=8).take(np.arange(40))
    rows = np.concatenate([others.embeddings, faces.embeddings[:7]])
    renamed = Embeddings(rows, names=[f"new/{row}" for row in range(47)], identities=["?"] * 47)
    write_embeddings(tmp_path / "renamed.npz", renamed)
    said = "nothing is promised: the threshold was chosen on 7 of these 47 faces"
    assert promised(tmp_path / "renamed.npz") == said
    write_embeddings(tmp_path / "others.npz", others)
    assert promised(tmp_path / "others.npz").startswith(f"{TRUST.format('known.npz')}promised: ")
    before = json.loads(promise.read_text())
    del before["rows"]  # as in a file of an earlier version
    promise.write_text(json.dumps(before))
    assert read_purity(promise) == replace(found, rows=())


def test_a_wrong_impurity_is_named_so(known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["purity", str(known), "--faces", "60", "--impurity", "x", "--out", str(tmp_path / "no.json")]) == 2
    assert "an impurity must be a decimal number such as 1e-4, got 'x'" in capsys.readouterr().err


def test_pixels_that_a_file_does_not_record_are_refused_or_said_first(
    known: Path, found: Purity, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    promise, library, old = tmp_path / "purity.json", tmp_path / "library.npz", replace(OLD, preprocessing=None)
    write_embeddings(tmp_path / "old.npz", replace(known_people(500), origin=old))
    call = ["purity", str(tmp_path / "old.npz"), "--faces", "60", "--out", str(promise)]
    assert main(call) == 2
    assert "which did not record the pixels" in capsys.readouterr().err
    assert not promise.exists()
    assert main([*call, "--accept-unrecorded-pixels"]) == 0
    for of_promise, of_library in ((old, OLD), (OLD, old)):
        replace(found, origin=of_promise).write_json(promise)
        write_embeddings(library, replace(known_people(20), origin=of_library))
        made = cluster_folder(library, tmp_path / str(of_library == old), ClusterOptions(purity=promise))
        assert (made.promise or "").startswith("a file was made by an earlier version, which did not record the pixels")


def test_a_threshold_or_a_promise_is_asked_for(tmp_path: Path):
    with pytest.raises(ValueError, match="either a threshold"):
        ClusterOptions()
    with pytest.raises(ValueError, match="either a threshold"):
        ClusterOptions(threshold=0.4, purity=tmp_path)
    with pytest.raises(ValueError, match=r"--margin 0.1: .* has a margin, on which its promise rests"):
        ClusterOptions(margin=0.1, purity=tmp_path)


def test_how_often_merges_were_wrong_is_said_for_scores_seen(found: Purity):
    above, below = found.threshold - 0.01, found.joined[0].least - 0.01
    assert found.risk(below) == found.risk(found.threshold) == ""
    assert found.risk(above).endswith("joined two people")
