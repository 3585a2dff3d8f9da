"""Clusters of a library: links hold, what a person confirmed stays, what moved is listed, a killed run continues."""

import json
import os
import signal
import subprocess
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from made_library import edited, library, saved, table
from processes import forked
from verisphere.base.identity import names_taken
from verisphere.base.provenance import Origin, Preprocessing
from verisphere.base.trained_on import RowsInTraining
from verisphere.base.vocabulary import Embeddings
from verisphere.files.clusters import Clusters, read_clusters
from verisphere.score import near_pairs
from verisphere.ship.clusters import clusters as module
from verisphere.ship.clusters.clusters import ClusterOptions, cluster_folder
from verisphere.ship.clusters.face_tree import FaceTree

T = 0.45


def groups(made: Clusters) -> set[frozenset[str]]:
    return {frozenset(face.name for face in cluster.faces) for cluster in made.clusters}


def person_of(made: Clusters) -> dict[str, str]:
    return {face.name: cluster.person for cluster, face, unsure in made.rows() if not unsure}


def linked(folder: Path, name: str, *lines: str) -> Path:
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def test_people_are_clusters_with_their_medoid_first(tmp_path: Path):
    faces = library()
    made = cluster_folder(saved(tmp_path, faces), tmp_path / "out", ClusterOptions(T, known=True))
    assert groups(made) == {frozenset(f"p{who}/{face}" for face in range(5)) for who in range(8)}
    assert [cluster.person for cluster in made.clusters] == [str(number) for number in range(1, 9)]
    assert (made.known.impurity, made.known.f) == (0.0, 1.0)
    units = faces.embeddings / np.linalg.norm(faces.embeddings, axis=1, keepdims=True)
    for cluster in made.clusters:
        rows = [faces.names.tolist().index(face.name) for face in cluster.faces]
        scores = (units[rows] @ units[rows].T).sum(1) / 4 - 1 / 4
        assert [face.score for face in cluster.faces] == pytest.approx(scores.tolist(), abs=1e-6)
        assert scores.tolist() == sorted(scores.tolist(), reverse=True)
    assert read_clusters(tmp_path / "out") == made
    assert not (tmp_path / "out" / ".work").exists()


def test_what_weakens_the_comparison_with_identities_is_said_before_it(tmp_path: Path):
    faces = library(people=40, each=3)
    known = faces.identities == "p0"
    trained = replace(faces, in_training=RowsInTraining(known, known, True, ""))
    moved = replace(trained, identities=np.roll(faces.identities, 1))
    lines = cluster_folder(saved(tmp_path, moved), tmp_path / "out", ClusterOptions(T, known=True)).text().splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("beside the identities of the file"))
    first = "library.npz: the model was trained on 1 of the 40 people (by name) and 3 of the 120 images"
    assert lines[at - 2] == f"{first}; these figures say nothing about new people"
    assert lines[at - 1].startswith("implausible: with all labels moved by one row, TAR at FAR 0.1 rises from")
    assert "implausible" not in cluster_folder(tmp_path / "library.npz", tmp_path / "plain", ClusterOptions(T)).text()


def test_moved_labels_show_in_the_order_of_the_file_and_not_in_that_of_its_names(tmp_path: Path):
    faces = library(people=40, each=3)
    hashed = [f"{number * 7919 % 120:03}.png" for number in range(120)]
    moved = replace(faces, names=np.array(hashed), identities=np.roll(faces.identities, 1))
    text = cluster_folder(saved(tmp_path, moved), tmp_path / "out", ClusterOptions(T, known=True)).text()
    assert "implausible: with all labels moved by one row, TAR at FAR 0.1 rises from" in text


def test_an_earlier_result_of_another_model_or_of_unrecorded_pixels_is_named(tmp_path: Path, caplog):
    pixels = Preprocessing((112, 112), "RGB", "NCHW", 127.5, 127.5)
    made = Origin("1" * 64, False, "float32", "faces", preprocessing=pixels)
    faces, first = library(people=4), tmp_path / "first"
    cluster_folder(saved(tmp_path, replace(faces, origin=made)), first, ClusterOptions(T))
    for name, now, said in (
        ("same", made, ""),
        ("unknown", None, "nothing says how library.npz was made"),
        (
            "weights",
            replace(made, model="2" * 64),
            f"weights {'1' * 12}... against {'2' * 12}...); confirmed",
        ),
        ("scale", replace(made, preprocessing=replace(pixels, scale=128.0)), "scale 127.5 against 128); confirmed"),
        ("older", replace(made, preprocessing=None), "which did not record the pixels that its model took"),
    ):
        caplog.clear()
        path = saved(tmp_path, replace(faces, origin=now))
        cluster_folder(path, tmp_path / name, ClusterOptions(T, before=first))
        assert said in caplog.text
        assert bool(said) == ((str(first) if name != "older" else "library.npz was") in caplog.text)


def test_nobody_is_no_person_and_a_crowd_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path, first = saved(tmp_path, library(people=12)), tmp_path / "first"
    cluster_folder(path, first, ClusterOptions(T))
    then = ClusterOptions(T, before=first)
    for nobody in ("-1", " -1.0"):
        edited(first, {"p0/0": (nobody, "yes"), "p1/0": (nobody, "yes")})
        with pytest.raises(ValueError, match=r"people\.csv: line \d+: 'p\d/0' is confirmed, .* names nobody"):
            cluster_folder(path, tmp_path / "second", then)
    edited(first, {f"p{who}/{face}": ("unknown", "yes") for who in range(6) for face in range(5)})
    cluster_folder(path, tmp_path / "second", then)
    assert "people.csv: 'unknown' holds 30 images, where the median person has 5: are they all one" in caplog.text


def test_the_rule_of_names_is_recorded_where_identities_are_compared(tmp_path: Path):
    faces = library()
    made = [cluster_folder(saved(tmp_path, faces), tmp_path / "out", ClusterOptions(T))]
    exact = saved(tmp_path, replace(faces, names_rule="exact"))
    made.append(cluster_folder(exact, tmp_path / "known", ClusterOptions(T, known=True)))
    assert [one.source.names_rule for one in made] == [None, "exact"]
    with names_taken("merge"):
        after = cluster_folder(exact, tmp_path / "after", ClusterOptions(T, before=tmp_path / "known"))
    assert after.source.names_rule == "merge"  # of the people of the folder before


def test_nothing_to_compare_with_and_an_endless_margin_are_refused(tmp_path: Path):
    nobody = Embeddings(np.eye(3), identities=["-1"] * 3, names=list("abc"))
    with pytest.raises(ValueError, match=r"library\.npz: no face has an identity, .* --known"):
        cluster_folder(saved(tmp_path, nobody), tmp_path / "out", ClusterOptions(T, known=True))
    with pytest.raises(ValueError, match="--margin inf: allowed"):
        ClusterOptions(T, np.inf)


def test_the_order_of_the_rows_decides_nothing(tmp_path: Path):
    faces, draw = library(people=20, each=6, spread=1.1), np.random.default_rng(1)
    faces.embeddings[100:] = faces.embeddings[:20]  # some rows are equal to the last bit
    known = [f"{left},{right}" for left, right in draw.choice(faces.names, (12, 2), replace=False)]
    together = linked(tmp_path, "together.csv", "name,other", *known[:2])
    apart = linked(tmp_path, "apart.csv", "name,other", *known[2:])
    options = ClusterOptions(0.3, 0.1, together=together, apart=apart)
    made = cluster_folder(saved(tmp_path, faces), tmp_path / "out", options)
    assert 5 < len(made.clusters) < 60
    assert any(unsure for _, _, unsure in made.rows())
    for seed in range(20):
        shuffled = faces.take(draw.permutation(len(faces)))
        again = cluster_folder(saved(tmp_path, shuffled), tmp_path / f"out{seed}", options)
        assert replace(again, source=made.source) == made


def test_templates_media_and_domains_of_the_file_decide_nothing(tmp_path: Path):
    faces = library()
    rows = np.arange(len(faces))
    parts = {"templates": rows // 2, "media": rows // 3, "domains": np.array(["day", "night"])[rows % 2]}
    whole = replace(faces, **{name: column.astype(str) for name, column in parts.items()})
    plain = cluster_folder(saved(tmp_path, faces), tmp_path / "plain", ClusterOptions(T, known=True))
    order = np.random.default_rng(2).permutation(len(faces))
    made = cluster_folder(
        saved(tmp_path, whole.take(order), "parts.npz"), tmp_path / "out", ClusterOptions(T, known=True)
    )
    assert replace(made, source=plain.source) == plain  # each row is a face, also where templates hold several


def test_links_are_kept(tmp_path: Path):
    path = saved(tmp_path, library())
    options = ClusterOptions(
        T,
        photographs=linked(tmp_path, "photographs.csv", "name,photograph", "p0/0,x", "p0/1,x", "p1/0,x", "cat/0,x"),
        apart=linked(tmp_path, "apart.csv", "other,name", "p4/0,p4/1"),
    )
    made = cluster_folder(path, tmp_path / "out", options)
    who = person_of(made)
    assert len({who["p0/0"], who["p0/1"], who["p1/0"]}) == 3
    assert who["p4/0"] != who["p4/1"]
    assert frozenset((who["p4/0"], who["p4/1"])) not in {
        frozenset((pair.person, pair.other)) for pair in made.proposals
    }


def turned(**degrees: float) -> Embeddings:
    """Faces in a plane, by their names, so that scores are cosines of differences."""
    angles = np.radians(list(degrees.values()))
    return Embeddings(np.stack([np.cos(angles), np.sin(angles)], 1), list(degrees), list(degrees))


def test_one_person_of_two_looks_is_one_cluster_by_a_single_link(tmp_path: Path):
    path = saved(tmp_path, library())
    together = linked(tmp_path, "together.csv", "name,other", "p2/0,p3/0")
    made = cluster_folder(path, tmp_path / "out", ClusterOptions(T, together=together))
    who = person_of(made)
    assert {who[f"p{person}/{face}"] for person in (2, 3) for face in range(5)} == {who["p2/0"]}
    assert min(made.clusters[0].faces, key=lambda face: face.score).score > T  # with those of one look
    # who cannot be one look cannot be the other
    apart = linked(tmp_path, "apart.csv", "name,other", "p2/1,p3/1")
    together = linked(tmp_path, "together.csv", "name,other", "p2/0,p3/0", "p2/1,p2/0", "p3/0,p3/1")
    with pytest.raises(ValueError, match="'p3/0' and 'p3/1' must be together"):
        cluster_folder(path, tmp_path / "no", ClusterOptions(T, together=together, apart=apart))
    together = linked(tmp_path, "together.csv", "name,other", "p2/0,p3/0")
    who = person_of(cluster_folder(path, tmp_path / "two", ClusterOptions(T, together=together, apart=apart)))
    assert who["p2/0"] == who["p3/0"]
    assert who["p2/1"] != who["p3/1"]


def test_an_unsure_face_is_alone_and_says_between_whom(tmp_path: Path):
    # e is nearer to c than to a and b on average, and c is known to be nobody who a is
    path = saved(tmp_path, turned(a=18, b=60, c=-25, e=0))
    apart = linked(tmp_path, "apart.csv", "name,other", "a,c")
    made = cluster_folder(path, tmp_path / "out", ClusterOptions(0.5, apart=apart))
    assert groups(made) == {frozenset("ab"), frozenset("c")}
    (face,) = made.clusters[0].unsure
    assert (face.name, face.nearest) == ("e", made.clusters[1].person)
    assert face.score == pytest.approx((np.cos(np.radians(18)) + np.cos(np.radians(60))) / 2)
    assert face.nearest_score == pytest.approx(np.cos(np.radians(25)))
    row = table(tmp_path / "out" / "people.csv")["e"]
    assert (row["person"], row["unsure"]) == ("", "1 or 2")
    assert "unsure faces, nearer to another cluster than to their own: 1\n  e: 1 or 2" in made.text()
    # where a photograph says that it cannot be the other, it is sure; so it is where a person has confirmed it
    photographs = linked(tmp_path, "photographs.csv", "name,photograph", "c,x", "e,x")
    options = ClusterOptions(0.5, apart=apart, photographs=photographs)
    assert groups(cluster_folder(path, tmp_path / "shared", options)) == {frozenset("abe"), frozenset("c")}
    edited(tmp_path / "out", {"e": ("1", "yes")})
    options = ClusterOptions(0.5, apart=apart, before=tmp_path / "out")
    assert groups(cluster_folder(path, tmp_path / "later", options)) == {frozenset("abe"), frozenset("c")}


def test_a_margin_leaves_more_faces_alone(tmp_path: Path):
    path = saved(tmp_path, turned(a=18, b=30, c=-35, e=0))
    apart = linked(tmp_path, "apart.csv", "name,other", "a,c")
    for margin, unsure in ((0.0, []), (0.08, []), (0.1, ["e"])):
        made = cluster_folder(path, tmp_path / str(margin), ClusterOptions(0.5, margin, apart=apart))
        assert [face.name for _, face, left in made.rows() if left] == unsure


def test_pairs_of_clusters_are_proposed_by_what_they_lack(tmp_path: Path):
    # three faces and one lack little, two single faces lack more than the price of small groups
    path = saved(tmp_path, turned(a=0, b=2, c=4, d=36, x=120, y=152))
    made = cluster_folder(path, tmp_path / "out", ClusterOptions(0.82))
    first, second = made.proposals
    assert (first.name, first.other_name, second.name, second.other_name) == ("c", "d", "x", "y")
    assert first.score == pytest.approx(np.cos(np.radians([36, 34, 32])).mean())
    assert (first.needed, second.needed) == pytest.approx((0.82 + 0.1 / 3, 0.82 + 0.1))
    assert first.needed - first.score < second.needed - second.score
    who = person_of(made)
    assert (first.person, first.other) == (who["c"], who["d"])
    # nobody is proposed who is known to be two people
    edited(tmp_path / "out", {"a": ("Ann", "yes"), "d": ("Dora", "yes")})
    photographs = linked(tmp_path, "photographs.csv", "name,photograph", "x,1", "y,1")
    options = ClusterOptions(0.82, photographs=photographs, before=tmp_path / "out")
    assert cluster_folder(path, tmp_path / "later", options).proposals == ()


def test_no_link_is_broken_at_any_threshold():
    draw = np.random.default_rng(5)
    refused = 0
    for seed in range(60):
        faces = library(people=6, each=6, spread=1.5, seed=seed, dim=16)
        together, apart = (
            [(left, right) for left, right in draw.integers(0, len(faces), (6, 2)).tolist() if left != right]
            for _ in "ab"
        )
        confirmed = np.full(len(faces), -1)
        confirmed[draw.integers(0, len(faces), 5)] = draw.integers(0, 3, 5)
        try:
            tree = FaceTree(faces, 0.2, together, apart, confirmed)
        except ValueError as error:
            assert "links contradict each other" in str(error)  # noqa: PT017 - of some draws
            refused += 1
            continue
        order = draw.permutation(len(faces))
        links = (np.argsort(order)[np.array(pairs[::-1])].tolist() for pairs in (together, apart))
        shuffled = FaceTree(faces.take(order), 0.2, *links, confirmed[order])
        for threshold in (0.2, 0.3, 0.45, 0.6):
            of = tree.cut(threshold).grouped
            assert all(of[left] == of[right] for left, right in together)
            assert all(of[left] != of[right] for left, right in apart)
            for left, right in combinations(np.flatnonzero(confirmed >= 0), 2):
                assert (of[left] == of[right]) == (confirmed[left] == confirmed[right])
            again = shuffled.cut(threshold).grouped
            assert len(np.unique(np.stack([again, of[order]]), axis=1).T) == again.max() + 1 == of.max() + 1
    assert 5 < refused < 55


# --- increments ---


def test_what_is_confirmed_stays_and_clusters_keep_their_names(tmp_path: Path):
    faces = library(people=10, each=6)
    rows = np.array([not name.startswith(("p8", "p9")) and not name.endswith("/5") for name in faces.names])
    first = cluster_folder(saved(tmp_path, faces.take(rows)), tmp_path / "first", ClusterOptions(T))
    was = person_of(first)
    edited(tmp_path / "first", {"p0/0": ("Ann", "yes"), "p1/0": ("Ben", "YES"), "p1/1": ("Cem", "yes")})
    made = cluster_folder(saved(tmp_path, faces), tmp_path / "later", ClusterOptions(T, before=tmp_path / "first"))
    now = person_of(made)
    assert {now[f"p0/{face}"] for face in range(6)} == {"Ann"}  # the whole cluster takes the name
    assert (now["p1/0"], now["p1/1"]) == ("Ben", "Cem")
    for who in range(2, 8):
        assert {now[f"p{who}/{face}"] for face in range(6)} == {was[f"p{who}/0"]}
    assert {now["p8/0"], now["p9/0"]} == {"9", "10"}  # new numbers, none of an earlier cluster
    confirmed = {face.name for _, face, _ in made.rows() if face.confirmed}
    assert confirmed == {"p0/0", "p1/0", "p1/1"}
    # of the former cluster of p1 the larger part is its heir, the other part has moved; a new name is no move
    moved = {face.name: face.before for _, face, _ in made.rows() if face.before}
    assert moved.keys() <= {f"p1/{face}" for face in range(2, 5)}
    assert set(moved.values()) <= {was["p1/0"]}
    assert {face.name: face.alone for _, face, _ in made.rows() if face.alone} in ({"p1/0": "Cem"}, {"p1/1": "Ben"})
    assert "grouped otherwise by the embeddings alone: 1" in made.text()
    rows = table(tmp_path / "later" / "people.csv")
    assert rows["p0/0"]["confirmed"] == "yes"
    assert all(rows[name]["before"] == before for name, before in moved.items())
    # a third step from the second changes nothing
    again = cluster_folder(saved(tmp_path, faces), tmp_path / "third", ClusterOptions(T, before=tmp_path / "later"))
    assert person_of(again) == now
    assert not any(face.before for _, face, _ in again.rows())


def test_a_face_that_is_confirmed_under_the_number_of_a_cluster_joins_it(tmp_path: Path):
    path = saved(tmp_path, library())
    was = person_of(cluster_folder(path, tmp_path / "first", ClusterOptions(T)))
    edited(tmp_path / "first", {"p0/3": (was["p1/0"], "yes")})  # of p1, nobody is confirmed
    made = cluster_folder(path, tmp_path / "later", ClusterOptions(T, before=tmp_path / "first"))
    now = person_of(made)
    assert {now[f"p1/{face}"] for face in range(5)} == {now["p0/3"]} == {was["p1/0"]}
    assert [face.name for _, face, _ in made.rows() if face.confirmed] == ["p0/3"]


def test_steps_give_what_clustering_at_once_with_the_links_gives(tmp_path: Path):
    faces = library(people=30, each=4, spread=1.2, seed=3)
    path = saved(tmp_path, faces.take(np.arange(0, 120, 2)))
    first = cluster_folder(path, tmp_path / "first", ClusterOptions(T))
    said = {f"p{who}/{face}": (f"P{who}", "yes") for who in range(0, 30, 3) for face in (0, 2)}
    edited(tmp_path / "first", said)
    later = cluster_folder(saved(tmp_path, faces), tmp_path / "later", ClusterOptions(T, before=tmp_path / "first"))
    person = [int(said[name][0][1:]) if name in said else -1 for name in faces.names.tolist()]
    tree = FaceTree(faces, T, person=np.array(person))
    cut = tree.cut(T).grouped
    at_once = {frozenset(faces.names[cut == cluster].tolist()) for cluster in range(cut.max() + 1)}
    grouped = {frozenset(face.name for face in (*of.faces, *of.unsure)) for of in later.clusters}
    assert grouped == at_once
    # each face that was there and has another group of its former fellows is listed
    assert len(person_of(first)) + sum(len(of.unsure) for of in first.clusters) == 60


def test_confirmed_faces_that_are_gone_are_named(tmp_path: Path):
    faces = library()
    path = saved(tmp_path, faces)
    cluster_folder(path, tmp_path / "first", ClusterOptions(T))
    edited(tmp_path / "first", {"p0/0": ("Ann", "yes"), "p0/1": ("Ann", "yes")})
    path = saved(tmp_path, faces.take(faces.names != "p0/0"))
    made = cluster_folder(path, tmp_path / "later", ClusterOptions(T, before=tmp_path / "first"))
    assert made.gone == ("p0/0",)
    assert "confirmed before, and not in these embeddings: 1\n  p0/0" in made.text()
    assert person_of(made)["p0/2"] == "Ann"
    path = saved(tmp_path, replace(faces, names=np.array([f"new/{name}" for name in faces.names])))
    with pytest.raises(ValueError, match=r"nothing of it \(40 faces\) is in .*which has to hold the faces of before"):
        cluster_folder(path, tmp_path / "no", ClusterOptions(T, before=tmp_path / "first"))
    assert not (tmp_path / "no").exists()


def test_confirmed_faces_that_contradict_a_photograph_are_refused(tmp_path: Path):
    path = saved(tmp_path, library())
    cluster_folder(path, tmp_path / "first", ClusterOptions(T))
    edited(tmp_path / "first", {"p0/0": ("Ann", "yes"), "p0/1": ("Ann", "yes")})
    photographs = linked(tmp_path, "photographs.csv", "name,photograph", "p0/0,x", "p0/1,x")
    options = ClusterOptions(T, before=tmp_path / "first", photographs=photographs)
    with pytest.raises(ValueError, match="contradict each other: 'p0/0' and 'p0/1' must be together, and may not be"):
        cluster_folder(path, tmp_path / "later", options)


# --- a killed run ---

KILLED = """
import os, signal, sys
from pathlib import Path
from verisphere.files.work import SealedFile
from verisphere.score import all_pairs
from verisphere.ship.clusters import clusters
all_pairs.TILE_ROWS, clusters.PAIRS_KEPT = {"cpu": 16}, 1500
save, saved = SealedFile.save, []
def saving(self, state):
    save(self, state)
    saved.append(self)
    if len(saved) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
SealedFile.save = saving
clusters.cluster_folder(Path(sys.argv[1]), Path(sys.argv[2]), clusters.ClusterOptions(0.45))
"""


def test_a_killed_run_continues_and_gives_the_same_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    faces = library(people=25, each=4, spread=1.1)
    path, out = saved(tmp_path, faces), tmp_path / "out"
    monkeypatch.setattr("verisphere.score.all_pairs.TILE_ROWS", {"cpu": 16})
    whole = cluster_folder(path, tmp_path / "whole", ClusterOptions(T))
    monkeypatch.setattr(module, "PAIRS_KEPT", 1500)
    killed = subprocess.run([*forked(), "-c", KILLED, str(path), str(out)], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert os.listdir(out) == [".work"]  # nothing that looks like a result
    assert len(list(out.glob(".work/*-near-*/*.npz"))) == 3
    with pytest.raises(ValueError, match="its clusters are not finished"):
        read_clusters(out)
    compared = all_pairs_compared(monkeypatch)
    made = cluster_folder(path, out, ClusterOptions(T))
    assert compared == list(range(3, 28))  # the pieces that were missing
    assert made == whole
    for name in ("people.csv", "clusters.json"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert sorted(os.listdir(out)) == ["clusters.json", "people.csv"]


def all_pairs_compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The tiles of all pairs that are compared from now on."""
    compared: list[int] = []
    near = near_pairs.AllPairs._near

    def counted(self, scan, tile, least):
        compared.append(tile)
        return near(self, scan, tile, least)

    monkeypatch.setattr(near_pairs.AllPairs, "_near", counted)
    return compared


def test_a_run_killed_while_it_links_continues_with_other_links_and_compares_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, out = saved(tmp_path, library(people=25, each=4, spread=1.1)), tmp_path / "out"
    at_the_end = KILLED.replace("== 3", "== 28")
    killed = subprocess.run([*forked(), "-c", at_the_end, str(path), str(out)], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    monkeypatch.setattr(module, "PAIRS_KEPT", 1500)
    monkeypatch.setattr("verisphere.score.all_pairs.TILE_ROWS", {"cpu": 16})
    same, two = (linked(tmp_path, name, "name,other", "p0/0,p0/1") for name in ("same.csv", "two.csv"))
    with pytest.raises(ValueError, match="links contradict each other"):
        cluster_folder(path, out, ClusterOptions(T, together=same, apart=two))
    assert len(list(out.glob(".work/*-near-*/*.npz"))) == 28  # what is done stays for a call without the fault
    compared = all_pairs_compared(monkeypatch)
    made = cluster_folder(path, out, ClusterOptions(T, apart=two))
    assert compared == []
    assert made == cluster_folder(path, tmp_path / "whole", ClusterOptions(T, apart=two))
    assert sorted(os.listdir(out)) == ["clusters.json", "people.csv"]


def test_work_of_another_file_or_threshold_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, out = saved(tmp_path, library(people=25, each=4)), tmp_path / "out"
    subprocess.run([*forked(), "-c", KILLED, str(path), str(out)], capture_output=True, check=False)
    monkeypatch.setattr(module, "PAIRS_KEPT", 1500)
    monkeypatch.setattr("verisphere.score.all_pairs.TILE_ROWS", {"cpu": 16})
    compared = all_pairs_compared(monkeypatch)
    cluster_folder(path, out, ClusterOptions(0.5))
    assert compared == list(range(28))


def test_clusters_json_is_plain(tmp_path: Path):
    cluster_folder(saved(tmp_path, library(people=2, each=1)), tmp_path / "out", ClusterOptions(T))
    document = json.loads((tmp_path / "out" / "clusters.json").read_text())
    assert document["format"] == 1
    assert document["source"]["file"] == "library.npz"
    assert [face["score"] for cluster in document["clusters"] for face in cluster["faces"]] == [None, None]


@pytest.mark.parametrize(("before", "now"), [(True, False), (False, True), (False, False)])
def test_an_earlier_result_that_names_no_model_is_taken_on_trust(tmp_path: Path, caplog, before: bool, now: bool):
    origin = Origin("ab" * 32, False, "float32", "here", None, None, Preprocessing((4, 4), "RGB", "NCHW", 0.0, 1.0))
    for name, known in (("first", before), ("second", now)):
        (tmp_path / name).mkdir()
        saved(tmp_path / name, replace(library(), origin=origin if known else None))
    cluster_folder(next((tmp_path / "first").iterdir()), tmp_path / "was", ClusterOptions(T))
    cluster_folder(next((tmp_path / "second").iterdir()), tmp_path / "is", ClusterOptions(T, before=tmp_path / "was"))
    assert ("taken on trust" in caplog.text) == (before != now)
