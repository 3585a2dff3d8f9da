"""IJB from Python: rows come in portions, options refuse what cannot be, a result gives its fields."""

from pathlib import Path

import numpy as np
import pytest

from verisphere.files import streamed_rows
from verisphere.files.ijb import IjbFiles
from verisphere.files.results import to_json
from verisphere.measure.ijb import IjbOptions, evaluate_ijb


@pytest.fixture
def files(tmp_path: Path) -> IjbFiles:
    """20 people by 3 templates of 2 media by 2 faces; in no order."""
    random = np.random.default_rng(0)
    template = np.repeat(np.arange(60), 4)
    person = template // 3
    rows = random.normal(size=(20, 16))[person] + random.normal(size=(240, 16))
    names = np.array([f"{face}.jpg" for face in range(240)])
    np.savez(tmp_path / "e.npz", embeddings=rows.astype(np.float32), names=names)
    shuffled = random.permutation(240)
    (tmp_path / "meta.txt").write_text("".join(f"{face}.jpg {template[face]} {face // 2}\n" for face in shuffled))
    left, right = np.triu_indices(60, 1)
    pairs = zip(left.tolist(), right.tolist(), strict=True)
    (tmp_path / "pairs.txt").write_text("".join(f"{a} {b} {int(a // 3 == b // 3)}\n" for a, b in pairs))
    return IjbFiles(tmp_path / "meta.txt", tmp_path / "pairs.txt")


def test_portions_change_nothing(files: IjbFiles, monkeypatch: pytest.MonkeyPatch):
    path, options = files.meta.with_name("e.npz"), IjbOptions(fars=("0.1", "1e-2"))
    whole = evaluate_ijb(path, files, options)
    monkeypatch.setattr(streamed_rows, "ROWS_AT_ONCE", 7)
    in_portions = evaluate_ijb(path, files, options)
    assert to_json(whole.fields()) == to_json(in_portions.fields())
    point = whole.fields()["operating_points"][0]
    assert (point.genuine_total, point.impostor_total, point.impostor_accepted) == (60, 1710, 171)


def test_people_of_the_training_are_said_first(files: IjbFiles):
    path = files.meta.with_name("e.npz")
    arrays = dict(np.load(path)) | {"identities": np.repeat([f"p{person}" for person in range(20)], 12)}
    trained = {"trained_people": np.arange(240) < 30, "trained_images": np.zeros(240, bool)}
    np.savez(path, **arrays, **trained, trained_record=np.array('{"named": true, "gap": ""}'))
    found = evaluate_ijb(path, files, IjbOptions(fars=("0.1",)))
    assert found.text().startswith("e.npz: the model was trained on 3 of the 20 people (by name); these figures say")


@pytest.mark.parametrize(("subject", "says"), [
    ("p{}", "the model was trained on 3 of the 20 people (by name); "),
    ("{:03}", "the model was trained on 3 of the 20 people (by name); "),
    ("q{}", "none of the 240 images were in the training; people were renamed after the comparison with the training"),
    ("{}", "none of the 240 images were in the training; people could not be compared, since the set or the training"),
])  # fmt: skip
def test_people_that_the_protocol_names_are_compared_with_the_training(files: IjbFiles, subject: str, says: str):
    """The embeddings name the folders of the images, and a list of templates the people."""
    path = files.meta.with_name("e.npz")
    whose = np.repeat([f"p{person}" for person in range(20)], 12)
    trained = {"trained_people": np.arange(240) < 30, "trained_images": np.zeros(240, bool)}
    record = np.array('{"named": true, "gap": ""}')
    if subject in ("q{}", "{}"):
        whose, trained = np.full(240, "loose_crop"), trained | {"trained_people": np.zeros(240, bool)}
    np.savez(path, **dict(np.load(path)), identities=whose, **trained, trained_record=record)
    sides = []
    for side, first in (("gallery", 0), ("probes", 1)):
        lines = [f"{3 * person + first},{subject.format(person)}" for person in range(20)]
        lines += [f"{3 * person + 2},{subject.format(person)}" for person in range(20) if first]
        sides.append(path.with_name(f"{side}.csv"))
        sides[-1].write_text("\n".join(["TEMPLATE_ID,SUBJECT_ID", *lines]) + "\n")
    both = IjbFiles(files.meta, files.pairs, galleries=(sides[0],), probes=sides[1])
    found = evaluate_ijb(path, both, IjbOptions(fars=("0.1",), fpirs=()))
    assert found.text().startswith(f"e.npz: {says}")


def test_a_crowd_of_templates_under_unknown_is_named(files: IjbFiles, caplog: pytest.LogCaptureFixture):
    path = files.meta.with_name("e.npz")
    for side, first in (("gallery", 0), ("probes", 1)):
        people = ["unknown" if person < 8 and not first else f"p{person}" for person in range(20)]
        lines = [f"{3 * person + first},{subject}" for person, subject in enumerate(people)]
        path.with_name(f"{side}.csv").write_text("\n".join(["TEMPLATE_ID,SUBJECT_ID", *lines]) + "\n")
    sides = IjbFiles(files.meta, None, galleries=(path.with_name("gallery.csv"),), probes=path.with_name("probes.csv"))
    evaluate_ijb(path, sides, IjbOptions(fars=("0.1",), fpirs=()))
    assert caplog.text.count("gallery.csv: 'unknown' holds 32 images, where the median person has 4: are they all") == 1
    assert "probes.csv: 'unknown'" not in caplog.text


def test_people_of_an_exact_training_are_compared_as_written(files: IjbFiles):
    path = files.meta.with_name("e.npz")
    people = np.repeat(["Ann", "ann", *(f"p{person}" for person in range(2, 20))], 12)
    trained = {"trained_people": people == "Ann", "trained_images": np.zeros(240, bool)}
    record = np.array('{"named": true, "gap": "", "written": true}')
    arrays = dict(np.load(path)) | {"identities": people, "names_rule": np.array("exact")}
    np.savez(path, **arrays, **trained, trained_record=record)
    for side, first in (("gallery", 0), ("probes", 1)):  # of two people the lists say nothing
        lines = [f"{3 * person + first},p{person}" for person in range(2, 20)]
        path.with_name(f"{side}.csv").write_text("\n".join(["TEMPLATE_ID,SUBJECT_ID", *lines]) + "\n")
    gallery, probes = (path.with_name(f"{side}.csv") for side in ("gallery", "probes"))
    sides = IjbFiles(files.meta, files.pairs, galleries=(gallery,), probes=probes)
    found = evaluate_ijb(path, sides, IjbOptions(fars=("0.1",), fpirs=()))
    assert found.text().startswith("e.npz: the model was trained on 1 of the 20 people (by name); ")


def test_progress_is_told_how_many_portions_come(files: IjbFiles, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streamed_rows, "ROWS_AT_ONCE", 100)
    seen: dict[str, tuple[int, int | None]] = {}

    def progress(items, description, total=None, done=0):
        held = list(items)
        seen[description] = len(held), total
        return held

    evaluate_ijb(files.meta.with_name("e.npz"), files, IjbOptions(progress=progress))
    assert seen["pooling templates"] == (3, 3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"fars": ["0"], "fpirs": ["-1"]}, "-1"),
        ({"fars": ["two"]}, "two"),
        ({"ranks": [0]}, "rank must be at least 1"),
        ({"group_names": {"0": "F"}}, "--group-name names the groups of --group-by"),
    ],
)
def test_options_that_cannot_be(options: dict, says: str):
    with pytest.raises(ValueError, match=says):
        IjbOptions(**options)


def test_a_covariate_without_its_column_or_a_column_without_its_file(files: IjbFiles):
    path = files.meta.with_name("e.npz")
    with pytest.raises(ValueError, match="give both or neither"):
        evaluate_ijb(path, files, IjbOptions(group_by="GENDER"))
