"""The estimate of what a search for overlap misses, by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from in_plane import in_plane, text
from studies.overlap.__main__ import main
from studies.overlap.estimate import CHANGES, Share, estimate_embeddings, estimate_names, estimate_overlap
from verisphere.base.vocabulary import Embeddings
from verisphere.decide.bounds import binomial_bounds
from verisphere.files.embeddings import write_embeddings
from verisphere.study.clean.same_person.overlap import open_people


def test_how_names_are_changed():
    changes = dict(CHANGES)
    changed = {words: change("Ann_Bo_Lee", 2) for words, change in changes.items()}
    assert changed == {
        "case and separators": "ANN BO LEE",
        "accents": "Ánn_Bo_Lee",
        "order of words": "Lee Ann Bo",
        "a middle initial more": None,
        "middle names less": "Ann Lee",
        "an initial for the first name": "A. Bo Lee",
        "a letter lost (hard)": None,  # no word of four letters
    }
    assert changes["accents"]("José_Ñúñez", 0) == "Jose_Nunez"
    assert changes["a middle initial more"]("Ann_Lee", 2) == "Ann C. Lee"
    # the longest word has five letters; of its inner ones the third after the first, 1 + 2 % 3, is lost
    assert changes["a letter lost (hard)"]("Ann_Smith", 2) == "Ann_Smih"
    assert changes["order of words"]("Madonna", 0) is None
    assert changes["middle names less"]("Ann_Bo_Lee_Jr.", 0) == "Ann Lee"


def test_recall_by_name_and_false_matches():
    # All three-letter names differ; four people hide under every seed, the other four are alone.
    people = ["Abe Fox", "Bea Gum", "Cal Hay", "Dan Ivy", "Eli Jay", "Fay Kit", "Gus Lee", "Hal May"]
    recalls, false = estimate_names(people)
    by_change = {recall.change: recall.by_grade for recall in recalls}
    assert by_change["case and separators"] == (Share(4, 4),) * 4
    assert by_change["order of words"] == (Share(0, 4), Share(4, 4), Share(4, 4), Share(4, 4))
    assert by_change["a middle initial more"] == (Share(0, 4), Share(0, 4), Share(0, 4), Share(4, 4))
    assert by_change["an initial for the first name"] == (Share(0, 4), Share(0, 4), Share(4, 4), Share(4, 4))
    assert by_change["middle names less"] == (Share(0, 0),) * 4
    assert by_change["a letter lost (hard)"] == (Share(0, 0),) * 4
    assert false == (Share(0, 4),) * 4


def test_false_matches_are_counted():
    # Whichever half hides, one of two people of equal words may be on the other side; with all eight pairs the same in
    # every grade from "same words" on, the number of false matches is that of the pairs which the draw splits.
    people = [name for first, last in zip("abcdefgh", "stuvwxyz", strict=True) for name in (f"{first * 3} {last * 3}",)]
    twins = [*people, *(" ".join(reversed(name.split())) for name in people)]
    _, false = estimate_names(twins, seed=1)
    assert false[0] == Share(0, 8)
    assert false[1] == false[2] == false[3]
    assert 0 < false[1].found <= 8


def test_shares_have_exact_bounds():
    assert Share(0, 100).bounds == pytest.approx((0.0, 1 - 0.025 ** (1 / 100)))
    assert Share(3, 4).bounds == binomial_bounds(3, 4)
    assert Share(0, 0).bounds == (0.0, 1.0)
    assert Share(0, 0).text() == "-"


def test_recall_and_false_removals_by_embedding(tmp_path: Path):
    # In eight dimensions, person p lies along axis p, the images of people 0 to 3 at +10 and -10 degrees towards the
    # last axis: half-set centers are 20 degrees apart (0.9397), images of others nearly at right angles. Person 4 has
    # one image.
    near, away = np.cos(np.radians(10)), np.sin(np.radians(10))
    rows, names, people = [], [], []
    for person in range(4):
        for sign in (1, -1):
            row = np.zeros(8)
            row[person], row[7] = near, sign * away
            rows.append(row)
            names.append(f"{person}/{sign}")
            people.append(f"p{person}")
    rows += [np.eye(8)[4]]
    names += ["4/1"]
    people += ["p4"]
    write_embeddings(tmp_path / "e.npz", Embeddings(np.array(rows), names=names, identities=people))
    at, again = estimate_embeddings(tmp_path / "e.npz", 0.95)
    recall = {level.cosine: level.recall for level in at}
    assert recall == {
        0.3: Share(2, 2),
        0.4: Share(2, 2),
        0.5: Share(2, 2),
        0.6: Share(2, 2),
        0.7: Share(2, 2),
        0.95: Share(0, 2),  # cos 20 = 0.9397
    }
    # the two people who are not hidden, and p4, who has one image
    assert {level.cosine: level.false for level in at} == dict.fromkeys(recall, Share(0, 3))
    assert again == ()


def test_people_who_are_found_again_are_named(tmp_path: Path):
    # Ann is hidden, as she alone has two images; Anne, alone in the training set, is she under another name
    path = in_plane(tmp_path / "e.npz", {"1": ("Ann", 0), "2": ("Ann", 2), "3": ("Anne", 1), "4": ("Ben", 90)})
    at, again = estimate_embeddings(path, 0.5)
    assert [(one, other) for one, other, _ in again] == [("Anne", "Ann")]
    assert next(level for level in at if level.cosine == 0.5).false == Share(1, 2)


def test_nobody_has_two_images(tmp_path: Path):
    path = in_plane(tmp_path / "e.npz", {"1": ("Ann", 0), "2": ("Ben", 90)})
    with pytest.raises(ValueError, match="nobody has 2 images"):
        estimate_embeddings(path, 0.5)
    people = open_people(path)
    with pytest.raises(ValueError, match="have nobody with two images to hide"):
        estimate_overlap(people, people, {}, (path, path), 0.5)


def test_an_estimate_by_name_alone(tmp_path: Path):
    people = open_people(text(tmp_path / "people.txt", "Ann Lee", "Ben May", "Cy Fox"))
    estimate = estimate_overlap(people, people, {}, None, 0.5)
    assert estimate.at_cosines == ()
    assert "order of words" in estimate.text()
    assert estimate.summary()["by_name"]["order of words"]["same words"]["rate"] == 1.0


def test_the_command_writes_what_it_prints(tmp_path: Path, capsys: pytest.CaptureFixture[str], process_as_it_was: None):
    path = in_plane(tmp_path / "e.npz", {"1": ("Ann", 0), "2": ("Ann", 2), "3": ("Anne", 1), "4": ("Ben", 90)})
    out = tmp_path / "estimate.json"
    assert main([str(path), str(path), "--embeddings", str(path), str(path), "--out", str(out)]) == 0
    assert "estimate from hidden people of" in capsys.readouterr().out
    assert json.loads(out.read_text())["by_embedding"][2]["recall"]["found"] == 1
    assert main([str(tmp_path / "none"), str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
