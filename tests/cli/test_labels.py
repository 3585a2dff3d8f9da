"""`verisphere clean noise`, `clean duplicates` and `clean overlap`: what is printed and written, and the exit codes."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from verisphere.base.vocabulary import Embeddings
from verisphere.files.embeddings import write_embeddings
from verisphere.files.label_lists import read_labels
from verisphere.images import LabelNoise, Photos
from verisphere.models.described_faces import open_faces

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.fixture
def run(run):
    return partial(run, "clean")


def folder(path: Path, people: tuple[str, ...], images: int = 5) -> Path:
    for number, person in enumerate(people):
        (path / person).mkdir(parents=True)
        for image in range(images):
            Image.new("RGB", (112, 112), (number, image, 0)).save(path / person / f"{image}.png")
    return path


def embeddings(path: Path, people: tuple[str, ...], degrees: tuple[float, ...]) -> Path:
    angles = np.radians(degrees)
    names = [f"{person}/{row}.png" for row, person in enumerate(people)]
    write_embeddings(path, Embeddings(np.stack([np.cos(angles), np.sin(angles)], 1), names=names, identities=people))
    return path


def test_noise_as_a_list_of_labels(tmp_path: Path, says):
    faces = folder(tmp_path / "faces", ("Ann", "Ben", "Cy"))
    printed = says("noise", faces, "--rate", "0.4", "--seed", "1", "--out", tmp_path / "noisy.csv")
    # 0.4 of 5 images are 2, of 3 people 6
    assert "6 of 15 labels wrong (40.0%): 6 with the identity of another person, 0 images" in printed
    assert "have no wrong label" not in printed
    listed = read_labels(tmp_path / "noisy.csv")
    assert listed.true_identities == tuple(name.split("/")[0] for name in listed.names)
    photos = Photos(faces, labels=tmp_path / "noisy.csv")
    assert tuple(photos.identities) == tuple(LabelNoise(Photos(faces), 0.4, seed=1).identities)
    assert photos.true_identities == listed.true_identities


def test_noise_from_outside_as_a_description(tmp_path: Path, refused, says):
    faces, others = folder(tmp_path / "faces", ("Ann", "Ben")), folder(tmp_path / "others", ("Ann", "Eva"))
    words = ("noise", faces, "--rate", "0.4", "--seed", "1", "--open-share", "0.5", "--outside", others)
    assert "noisy.csv: a list of labels cannot carry images of another set" in refused(
        *words, "--out", tmp_path / "noisy.csv"
    )
    says(*words, "--out", tmp_path / "NOISY.YML")
    assert "4 of 10 labels wrong (40.0%): 2 with the identity of another person, 2 images" in says(
        *words, "--out", tmp_path / "noisy.yaml"
    )
    noisy = open_faces(tmp_path / "noisy.yaml")
    assert noisy.true_identities is not None
    assert sorted(noisy.true_identities).count("Eva") == 2
    drawn = LabelNoise(Photos(faces), 0.4, 0.5, Photos(others), seed=1)
    for described in (noisy, open_faces(tmp_path / "NOISY.YML")):
        assert (tuple(described.names), tuple(described.identities)) == (tuple(drawn.names), tuple(drawn.identities))
    # a description can describe noise in a described set, too; here the noise would be a second one
    assert "has wrong labels already" in refused(
        "noise", tmp_path / "noisy.yaml", "--rate", "0.2", "--out", tmp_path / "again.csv"
    )


@pytest.mark.parametrize("names", ["merge", "exact"])
def test_a_description_of_noise_records_how_names_are_taken(tmp_path: Path, names: str, refused, says):
    faces, others = folder(tmp_path / "faces", ("Ann", "ann", "Ben")), folder(tmp_path / "others", ("Eva", "eva"))
    words = ("noise", faces, "--rate", "0.4", "--open-share", "0.5", "--outside", others)
    refused(*words, "--out", tmp_path / "refused.yaml")
    says(*words, "--names", names, "--out", tmp_path / "noisy.yaml")
    noisy = open_faces(tmp_path / "noisy.yaml")
    assert (noisy.names_rule, len(noisy.people)) == (names, 2 if names == "merge" else 3)
    joined = "class_path: verisphere.images.Joined\ninit_args:\n  prefixes: [one, two]\n  faces:\n"
    joined += "".join(
        f"  - {{class_path: verisphere.images.Photos, init_args: {{path: {path}}}}}\n" for path in (faces, others)
    )
    (tmp_path / "joined.yaml").write_text(joined)
    words = ("noise", tmp_path / "joined.yaml", "--rate", "0.4", "--names", names)
    says(*words, "--out", tmp_path / "both.yaml")
    assert open_faces(tmp_path / "both.yaml").names_rule == names


def test_noise_says_how_many_people_have_none(tmp_path: Path, says):
    faces = folder(tmp_path / "faces", ("Ann", "Ben"))
    folder(tmp_path / "faces", ("Cy",), images=1)
    assert "1 of 3 people have no wrong label" in says("noise", faces, "--rate", "0.4", "--out", tmp_path / "noisy.csv")
    # images of nobody are no person; and at rate 0 nothing has to be explained
    folder(tmp_path / "faces", ("-1",), images=2)
    assert "1 of 3 people have no wrong label" in says(
        "noise", tmp_path / "faces", "--rate", "0.4", "--out", tmp_path / "noisy.csv"
    )
    assert "have no wrong label" not in says(
        "noise", tmp_path / "faces", "--rate", "0", "--out", tmp_path / "noisy.csv"
    )


def test_a_person_whose_images_all_have_another_label_is_not_from_outside(tmp_path: Path, says):
    # 0.8 of one image is one: Cy has none left, and at this seed nobody else becomes Cy
    faces = folder(tmp_path / "faces", ("Ann", "Ben"), images=1)
    folder(tmp_path / "faces", ("Cy",), images=1)
    printed = says("noise", faces, "--rate", "0.8", "--seed", "2", "--out", tmp_path / "noisy.csv")
    assert "Cy" not in read_labels(tmp_path / "noisy.csv").identities
    assert "3 of 3 labels wrong (100.0%): 3 with the identity of another person, 0 images" in printed
    assert "have no wrong label" not in printed


def test_the_domains_stay(tmp_path: Path, says):
    drawn = "class_path: verisphere.images.SyntheticFaces\ninit_args: {people: 4, images: 2, size: 48}\n"
    (tmp_path / "drawn.yaml").write_text(drawn)
    says("noise", tmp_path / "drawn.yaml", "--rate", "0.5", "--out", tmp_path / "noisy.csv")
    assert read_labels(tmp_path / "noisy.csv").domains == tuple(open_faces(tmp_path / "drawn.yaml").domains or ())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--rate", "1"), "rate is 1.0; it is a share"),
        (
            ("--rate", "0.4", "--open-share", "0.5"),
            "takes both --open-share, a share above 0 of the noise, and --outside",
        ),
    ],
)
def test_noise_out_of_range(tmp_path: Path, refused, words: tuple[str, ...], says: str):
    faces = folder(tmp_path / "faces", ("Ann", "Ben"), images=1)
    assert says in refused("noise", faces, *words, "--out", tmp_path / "noisy.csv")
    assert not (tmp_path / "noisy.csv").exists()


def test_duplicates_are_proposed_and_merged_when_told_to(tmp_path: Path, says):
    # Ann has two images, Anne one at 5 degrees from their center
    file = embeddings(tmp_path / "e.npz", ("Ann", "Ann", "Anne", "Ben"), (0, 10, 10, 90))
    folder(tmp_path / "faces", ("Ann",), images=2)
    for name in ("Anne/2", "Ben/3"):
        (tmp_path / "faces" / name).parent.mkdir()
        Image.new("RGB", (112, 112)).save(tmp_path / "faces" / f"{name}.png")
    out = tmp_path / "twice"
    printed = says("duplicates", file, "--faces", tmp_path / "faces", "--out", out)
    assert "1 merge proposals: pairs of identities whose centers score 0.6 or more; nothing is merged" in printed
    assert sorted(path.name for path in out.iterdir()) == ["duplicates.json", "images.csv", "index.html", "pairs.csv"]
    # Anne/2, Ben/3 and Ann/0 are black, and so equal in pixels
    assert json.loads((out / "duplicates.json").read_text())["image_pairs"][0]["equal_pixels"] is True
    assert "merged.csv: 3 identities became 2 by 1 pairs of" in says(
        "duplicates", file, "--merge", out / "pairs.csv", "--out", out
    )
    assert read_labels(out / "merged.csv").identities == ("Ann", "Ann", "Ann", "Ben")
    (tmp_path / "typed.csv").write_text("identity,other\nANNE,ann\n")
    says("duplicates", file, "--merge", tmp_path / "typed.csv", "--out", tmp_path / "typed", "--names", "merge")
    assert read_labels(tmp_path / "typed" / "merged.csv").identities == ("Ann", "Ann", "Ann", "Ben")
    photos = Photos(tmp_path / "faces", labels=out / "merged.csv")
    assert photos.people == ("Ann", "Ben")


def test_duplicates_of_images_can_be_left_out(tmp_path: Path, refused, says):
    file = embeddings(tmp_path / "e.npz", ("Ann", "Ben"), (0, 1))
    assert "pairs of images" not in says("duplicates", file, "--no-images", "--out", tmp_path / "out")
    assert "a folder that is not empty" in refused("duplicates", file, "--out", tmp_path / "out")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--no-images", "--image-threshold", "0.9"), "--image-threshold: not allowed with argument --no-images"),
        (("--merge", "pairs.csv", "--threshold", "0.9"), "--threshold does nothing here: --merge compares nothing"),
        (("--merge", "pairs.csv", "--no-images"), "--no-images does nothing here: --merge compares nothing"),
        (("--workers", "2"), "--workers does nothing here: no --faces are read"),
    ],
)
def test_options_of_duplicates_that_nothing_reads(tmp_path: Path, refused, words, message):
    file = embeddings(tmp_path / "e.npz", ("Ann", "Ben"), (0, 1))
    assert message in refused("duplicates", file, *words, "--out", tmp_path / "out")


def test_overlap_by_name_and_embedding(tmp_path: Path, says):
    faces = folder(tmp_path / "faces", ("Ann_Lee", "Ben", "Cy"), images=1)
    train = embeddings(tmp_path / "train.npz", ("Ann_Lee", "Ben", "Cy"), (0, 90, 180))
    test = embeddings(tmp_path / "test.npz", ("ann lee", "Benjamin", "Benjamin", "Dee"), (40, 95, 97, 270))
    words = ("overlap", faces, test, "--embeddings", train, test, "--threshold", "0.9")
    assert "2 of 3 people are in" in says(*words, "--out", tmp_path / "out")
    assert read_labels(tmp_path / "out" / "kept.txt").identities == ("Cy",)


def test_two_embeddings_files_are_compared_by_name_and_embedding(tmp_path: Path, says):
    train = embeddings(tmp_path / "train.npz", ("Ann", "Ben"), (0, 90))
    test = embeddings(tmp_path / "test.npz", ("Xy",), (1,))
    says("overlap", train, test, "--out", tmp_path / "out")
    assert read_labels(tmp_path / "out" / "kept.txt").identities == ("Ben",)


def test_overlap_with_lists_of_ids(tmp_path: Path, says):
    (tmp_path / "train.txt").write_text("0000045\n0000046\n")
    (tmp_path / "test.txt").write_text("Bruce Lee\n")
    (tmp_path / "ids.txt").write_text("0000045 Bruce_Lee\n")
    words = ("overlap", tmp_path / "train.txt", tmp_path / "test.txt", "--ids", tmp_path / "ids.txt")
    says(*words, "--out", tmp_path / "out")
    assert (tmp_path / "out" / "kept_people.txt").read_text() == "0000046\n"


def test_a_threshold_without_embeddings_is_refused(tmp_path: Path, refused):
    (tmp_path / "people.txt").write_text("Ann\n")
    assert "--threshold is one of embeddings" in refused(
        "overlap", tmp_path / "people.txt", tmp_path / "people.txt", "--threshold", "0.4", "--out", tmp_path / "o"
    )
