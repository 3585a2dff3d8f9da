"""`verisphere evaluate distractors`, `two-sets`, and the distractors of `identification`."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from feature_files import write_matrix

pytestmark = pytest.mark.usefixtures("process_as_it_was")

#: Cosines: Ann's 1-2 0.8, 1-3 0.6, 2-3 0.96, Ben's 0.8; for those with the distractors, see the protocol's tests.
PROBES = np.array([[1, 0, 0], [4, 3, 0], [3, 4, 0], [0, 0, 1], [0, 3, 4], [0, 0, -1]], np.float32)
NAMES = ["Ann/ann1.png", "Ann/ann2.png", "Ann/ann3.png", "Ben/ben1.png", "Ben/ben2.png", "Cem/cem1.png"]
DISTRACTORS = np.array([[6, 8, 0], [2, 0, 0], [0, -4, 3]], np.float32)


@pytest.fixture
def run(run):
    return partial(run, "evaluate")


def save(path: Path, rows: np.ndarray, names: list[str], identities: list[str], **arrays: object) -> Path:
    np.savez(path, embeddings=rows, names=names, identities=identities, **arrays)
    return path


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six photos of three people as probes, and three distractors in two files; the folder is the current one."""
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "probes.npz", PROBES, NAMES, ["Ann"] * 3 + ["Ben"] * 2 + ["Cem"])
    save(tmp_path / "d1.npz", DISTRACTORS[:1], ["1/2@N00/3.jpg"], ["-1"])
    save(tmp_path / "d2.npz", DISTRACTORS[1:], ["1/2@N00/4.jpg", "5/6@N00/3.jpg"], ["x", "y"])
    return tmp_path


MEGAFACE = ("distractors", "probes.npz", "--distractors", "d1.npz", "--distractors", "d2.npz")


TRILLION = (*MEGAFACE, "--layout", "trillion-pairs")


def test_megaface_prints_and_writes(says, files: Path):
    out = says(*(*MEGAFACE, "--rank", 1, "--rank", 2, "--far", "0.25", "--json", "out.json", "--plot", "out.png"))
    assert "3 people by 6 photos among 3 distractors; 8 searches" in out
    assert "1 probe photos are the only one of their person" in out
    read = json.loads((files / "out.json").read_text())
    assert [(rate["rank"], rate["identified"], rate["mated_total"]) for rate in read["ranks"]] == [(1, 2, 8), (2, 5, 8)]
    (point,) = read["operating_points"]
    assert (point["genuine_accepted"], point["genuine_total"]) == (3, 4)
    assert (point["impostor_accepted"], point["impostor_total"]) == (4, 18)
    assert [source["file"] for source in read["sources"]] == ["probes.npz", "d1.npz", "d2.npz"]
    assert "identification_points" not in read
    assert (files / "out.png").stat().st_size > 10_000


def test_noisy_images_are_dropped_by_list_and_counted(says, files: Path):
    (files / "probe_noise.txt").write_text("# FaceScrub\nann3.png\nZoe_9.png\n")
    (files / "noise.txt").write_text("1/2@N00/4.jpg\n")
    out = says(
        *(*MEGAFACE, "--noisy-probes", "probe_noise.txt", "--noisy-distractors", "noise.txt", "--json", "out.json")
    )
    assert "excluded as noisy: 1 probe photos, 1 distractors" in out
    assert "1 of 2 pictures of probe_noise.txt are in no file" in out
    read = json.loads((files / "out.json").read_text())
    # Left are ann1 and ann2, which are 0.8 alike, ben1 and ben2, and the distractors (3, 4, 0) and (0, -4, 3):
    # ann1 has 0.6 and 0, so 1; ann2 has 0.96, so 2; ben1 has 0 and 0.6, ben2 0.48 and 0, so 1 and 1: 3 of 4.
    assert (read["noisy_probes"], read["noisy_distractors"], read["distractors"]) == (1, 1, 2)
    assert (read["ranks"][0]["identified"], read["ranks"][0]["mated_total"]) == (3, 4)
    assert read["operating_points"][0]["below_resolution"] is True  # 1e-6 of 5 x 2 impostors


def test_features_as_the_development_kit_writes_them(says, run, files: Path):
    for folder, names, rows in (
        ("facescrub", NAMES, PROBES),
        ("megaface", ["1/2@N00/3.jpg", "1/2@N00/4.jpg", "5/6@N00/3.jpg"], DISTRACTORS),
    ):
        for name, row in zip(names, rows, strict=True):
            (files / folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_matrix(files / folder / f"{name}_arc.bin", row[:, None])
    people = ["Ann", "Ann", "Ann", "Ben", "Ben", "Cem"]
    (files / "facescrub_features_list.json").write_text(json.dumps({"path": NAMES, "id": people}))
    out = says(
        *("distractors", "facescrub", "--probe-list", "facescrub_features_list.json", "--distractors", "megaface"),
        *("--ending", "_arc.bin", "--rank", 2),
    )
    assert "|    2 |     0.6250 |" in out
    write_matrix(files / "merged.bin", DISTRACTORS)
    assert "|    2 |     0.6250 |" in run("distractors", "probes.npz", "--distractors", "merged.bin", "--rank", 2)[1]


@pytest.mark.parametrize(("names", "people"), [("merge", 2), ("exact", 3)])
def test_how_the_names_of_a_list_were_taken_is_recorded(run, files: Path, names: str, people: int):
    write_matrix(files / "facescrub.bin", PROBES)
    write_matrix(files / "merged.bin", DISTRACTORS)
    listed = {"path": NAMES, "id": ["Ann", "Ann", "ANN", "ANN", "Ben", "Ben"]}
    (files / "facescrub_features_list.json").write_text(json.dumps(listed))
    words = "--probe-list", "facescrub_features_list.json", "--names", names, "--json", "o.json"
    assert run("distractors", "facescrub.bin", "--distractors", "merged.bin", *words)[0] == 0
    made = json.loads((files / "o.json").read_text())
    assert (made["people"], [source["names_rule"] for source in made["sources"]]) == (people, [names, None])


def test_a_probe_list_chooses_among_named_rows(says, files: Path):
    (files / "list.txt").write_text("\n".join(NAMES[:2]) + "\n")
    out = says(*MEGAFACE, "--probe-list", "list.txt")
    assert "1 people by 2 photos" in out
    assert "4 photos of probes.npz are not in list.txt and are excluded" in out


def test_a_distractor_list_chooses_among_the_rows_of_all_files(says, files: Path):
    (files / "megaface_features_list.json_2_1").write_text('{"path": ["1/2@N00/3.jpg", "5/6@N00/3.jpg"]}')
    (files / "noise.txt").write_text("1/2@N00/4.jpg\n5/6@N00/3.jpg\n")
    out = says(*MEGAFACE, "--distractor-list", "megaface_features_list.json_2_1")
    assert "among 2 distractors" in out
    assert "1 distractors are not in megaface_features_list.json_2_1 and are excluded" in out
    assert "excluded as noisy: 0 probe photos, 1 distractors" in says(
        *(*MEGAFACE, "--distractor-list", "megaface_features_list.json_2_1", "--noisy-distractors", "noise.txt")
    )


def test_what_the_identities_say_is_counted(run, files: Path):
    save(files / "d2.npz", DISTRACTORS[1:], ["a", "b"], ["Ann", "-1"])
    save(files / "probes.npz", PROBES, NAMES, ["Ann"] * 3 + ["Ben"] * 2 + ["-1"])
    code, out, _ = run(*MEGAFACE)
    assert (code, "2 people by 5 photos" in out) == (0, True)
    assert "1 photos of probes.npz show nobody who is known (-1) and are excluded" in out
    assert "1 distractors have the identity of a probe person; they count as other people" in out


def test_trillion_pairs(says, run, files: Path):
    says(*(*TRILLION, "--fpir", "0.5", "--far", "0.25", "--json", "out.json", "--plot", "out.svg"))
    read = json.loads((files / "out.json").read_text())
    (point,) = read["identification_points"]
    assert (point["mated_identified"], point["mated_total"], point["nonmated_passed"]) == (2, 8, 3)
    run(*TRILLION, "--json", "out.json")
    read = json.loads((files / "out.json").read_text())
    assert read["identification_points"][0]["fpir_target"] == "1e-3"
    assert read["operating_points"][0]["far_target"] == "1e-9"
    assert "notes" in read


def test_a_far_that_takes_too_many_scores_is_left_out_by_name(run, files: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.measure.distractors.MOST_HELD", 5)
    code, _, _ = run(*MEGAFACE, "--far", "0.25", "--far", "0.12", "--json", "out.json")
    read = json.loads((files / "out.json").read_text())
    assert (code, [point["far_target"] for point in read["operating_points"]]) == (0, ["0.12"])
    assert read["notes"][0].startswith("no verification at FAR 0.25: it would take 6 of 18 impostor scores in memory")


def lists(files: Path) -> None:
    (files / "empty.txt").write_text("# none\n")
    (files / "other.txt").write_text("Zoe_1.png\n")
    (files / "flickr.txt").write_text("1/2@N00/3.jpg\n1/2@N00/4.jpg\n5/6@N00/3.jpg\n")
    (files / "all.txt").write_text("\n".join(NAMES))
    (files / "lacking.txt").write_text("Ann/ann1.png\nAnn/ann9.png\n")
    save(files / "wide.npz", np.ones((1, 4), np.float32), ["w"], ["w"])
    save(files / "same.npz", PROBES[:1], NAMES[:1], ["-1"])
    save(files / "nan.npz", np.full((1, 3), np.nan, np.float32), ["n"], ["n"])
    save(files / "single.npz", PROBES[[0, 3]], ["a", "b"], ["a", "b"])
    (files / "pack.bin").write_bytes(b"\x80\x04\x95" + bytes(40))
    (files / "folder").mkdir()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*MEGAFACE, "--noisy-probes", "empty.txt"), "empty.txt: it lists no picture"),
        ((*MEGAFACE, "--ending", ".bin"), "--ending does nothing here: no folder of feature files is read"),
        ((*MEGAFACE, "--noisy-probes", "other.txt"), "none of its 1 pictures, the first is 'Zoe_1.png', is in probes"),
        ((*MEGAFACE, "--noisy-distractors", "other.txt"), "is in d1.npz, d2.npz; is it the list of another set?"),
        ((*MEGAFACE, "--noisy-probes", "all.txt"), "all.txt: it lists all 6 probes of probes.npz"),
        ((*MEGAFACE, "--noisy-distractors", "flickr.txt"), "flickr.txt: it lists all distractors"),
        ((*MEGAFACE, "--probe-list", "lacking.txt"), "1 of 2 listed pictures are not in probes.npz, the first is"),
        ((*MEGAFACE, "--distractors", "./d1.npz"), "named twice among the distractors"),
        ((*MEGAFACE, "--distractors", "same.npz"), "'Ann/ann1.png' is a probe in probes.npz too"),
        ((*MEGAFACE, "--distractors", "pack.bin"), "pack.bin: no matrix of features; its header states"),
        ((*MEGAFACE, "--distractor-list", "all.txt"), "6 of 6 listed pictures are not in d1.npz, d2.npz, the first"),
        (
            (*MEGAFACE, "--distractors", "pack.bin", "--distractor-list", "all.txt"),
            "is for embeddings files, or for one file or folder of features",
        ),
    ],
)
def test_errors_are_one_line_and_write_nothing(refused, files: Path, arguments, message):
    lists(files)
    before = sorted(path.name for path in files.iterdir())
    assert message in refused(*arguments)
    assert sorted(path.name for path in files.iterdir()) == before


# --- identification with distractors (TinyFace) ---


@pytest.fixture
def tiny(files: Path) -> Path:
    """Two mated probes and one of nobody in the gallery; two distractors, one of them of a probe's identity."""
    save(files / "p.npz", np.array([[1, 0], [0, 1], [1, 1]], np.float32), ["p1", "p2", "p3"], ["Ann", "Ben", "Zoe"])
    save(files / "g.npz", np.array([[24, 7], [3, 4], [3, -4]], np.float32), ["g1", "g2", "g3"], ["Ann", "Ann", "Ben"])
    save(files / "d.npz", np.array([[4, 3], [0, 2]], np.float32), ["g1", "d2"], ["-1", "Ben"])
    return files


TINY = ("identification", "p.npz", "--gallery", "g.npz", "--distractors", "d.npz")


def test_distractors_are_people_nobody_probes(says, tiny: Path):
    out = says(*TINY, "--closed-set", "--rank", 1, "--rank", 5, "--by-image", "--json", "out.json")
    read = json.loads((tiny / "out.json").read_text())
    gallery = read["galleries"]["g"]
    # Ann by (1, 0): hers 0.96 and 0.6; Ben 0.6, the distractors 0.8 and 0. Rank 1; precision (1/1 + 2/4) / 2 = 0.75.
    # Ben by (0, 1): his -0.8; Ann's 0.28 and 0.8, the distractors 0.6 and 1, though one is called Ben: three other
    # people are before him, so rank 4 of 4; precision 1/5.
    assert (gallery["people"], gallery["images"], gallery["mated_probes"]) == (4, 5, 2)
    assert gallery["cmc"]["rank"] == [1, 4]
    images = read["by_image"]["g"]
    assert (images["mean_average_precision"], images["mated_total"]) == (pytest.approx((0.75 + 0.2) / 2), 2)
    assert [rate["identified"] for rate in images["ranks"]] == [1, 2]  # Ben's is the fifth of five images
    assert "ranks of images, not of people" in out
    assert read["distractors"] == 2
    assert "2 of the images are distractors" in out
    assert "1 distractors have the identity of a probe" in out


def test_distractors_stand_in_every_gallery(says, tiny: Path):
    save(tiny / "h.npz", np.array([[3, -4]], np.float32), ["h1"], ["Ben"])
    out = says(*TINY, "--gallery", "h.npz", "--closed-set")
    assert "g: 4 people by 5 images" in out
    assert "h: 3 people by 3 images" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("identification", "p.npz", "--distractors", "d.npz"), "so name one too"),
        ((*TINY, "--distractors", "d.npz"), "d.npz: its images are distractors, so it cannot be named a second time"),
        ((*TINY, "--distractors", "g.npz"), "g.npz: its images are distractors"),
        ((*TINY, "--distractors", "q.npz"), "q.npz: 1 of its images are probes in p.npz too, the first is 'p1'"),
    ],
)
def test_distractors_that_cannot_be_enrolled(refused, tiny: Path, arguments, message):
    save(tiny / "q.npz", np.array([[1, 0]], np.float32), ["p1"], ["-100"])
    assert message in refused(*arguments, "--closed-set")


# --- two sets (the mask track of MFR) ---


@pytest.fixture
def masks(files: Path) -> Path:
    save(files / "masked.npz", np.array([[1, 0], [0, 1]], np.float32), ["m1", "m2"], ["Ann", "Ben"])
    save(files / "plain.npz", np.array([[4, 3], [3, 4], [2, 0]], np.float32), ["u1", "u2", "u3"], ["Ann", "Ben", "Ben"])
    return files


def test_two_sets(says, masks: Path):
    out = says("two-sets", "masked.npz", "plain.npz", "--far", "0.34", "--json", "out.json")
    (point,) = json.loads((masks / "out.json").read_text())["operating_points"]
    # Genuine 0.8, 0.8 and 0; impostor 0.6, 1 and 0.6: one of them may pass, so the threshold is 0.6.
    assert (point["genuine_accepted"], point["genuine_total"], point["impostor_total"]) == (2, 3, 3)
    assert "0.6667" in out


@pytest.mark.parametrize(
    ("right", "message"),
    [
        ("masked.npz", "2 of its images are probes in masked.npz too"),
        ("strangers.npz", "masked.npz and strangers.npz: there are no genuine scores"),
    ],
)
def test_two_sets_that_cannot_be_compared(refused, masks: Path, right, message):
    save(masks / "strangers.npz", np.ones((1, 2), np.float32), ["s"], ["Zoe"])
    assert message in refused("two-sets", "masked.npz", right, "--json", "out.json")
    assert not (masks / "out.json").exists()
