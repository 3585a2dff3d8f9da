"""Label noise: counts of each class by hand, the truth, people from outside, and what a draw depends on."""

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from verisphere.base.vocabulary import ImageSource
from verisphere.images import InMemory, LabelNoise, Photos, SyntheticFaces, in_memory
from verisphere.images.label_noise import draw_noise
from verisphere.models.described_faces import open_faces

# Ann has 10 images, Ben 5, Cid 3, Dee 1, and nobody is known on 2.
IMAGES = {"Ann": 10, "Ben": 5, "Cid": 3, "Dee": 1, "-1": 2}
IDENTITIES = tuple(person for person, count in IMAGES.items() for _ in range(count))
NAMES = tuple(f"{person}/{number}" for person, count in IMAGES.items() for number in range(count))


def faces_of(names: tuple[str, ...], identities: tuple[str, ...], shade: int = 0, side: int = 2) -> InMemory:
    """Images whose pixels are their position and, as an offset, the set."""
    pixels = (torch.arange(len(names)) + shade).to(torch.uint8)[:, None, None, None].expand(-1, 3, side, side)
    return InMemory(pixels.contiguous(), names, identities)


FACES = faces_of(NAMES, IDENTITIES)
OUTSIDE = faces_of(
    tuple(f"o/{number}" for number in range(12)), ("Ann",) * 2 + ("Eva",) * 6 + ("Fay",) * 3 + ("-1",), shade=100
)


@pytest.mark.parametrize(
    ("rate", "wrong"),
    [
        # round(rate * n) of 10, 5, 3 and 1 images; a half goes to the even number: 2.5 and 1.5 are 2
        (0.2, {"Ann": 2, "Ben": 1, "Cid": 1}),
        (0.4, {"Ann": 4, "Ben": 2, "Cid": 1}),
        (0.5, {"Ann": 5, "Ben": 2, "Cid": 2}),
        (0.8, {"Ann": 8, "Ben": 4, "Cid": 2, "Dee": 1}),
        (0.01, {}),
    ],
)
def test_the_share_of_each_class(rate: float, wrong: dict[str, int]):
    noisy = LabelNoise(FACES, rate, seed=3)
    pairs = zip(noisy.identities, noisy.true_identities, strict=True)
    assert Counter(true for given, true in pairs if given != true) == wrong
    assert noisy.wrong.tolist() == [g != t for g, t in zip(noisy.identities, noisy.true_identities, strict=True)]
    assert tuple(noisy.true_identities) == IDENTITIES
    assert tuple(noisy.names) == NAMES
    # who is nobody stays nobody, and nobody becomes nobody
    assert [place for place, given in enumerate(noisy.identities) if given == "-1"] == [19, 20]


def test_the_other_identity_is_drawn_uniformly():
    # 3,000 images of Ann and one each of four others: each of the four gets 600 of Ann's 2,400 wrong ones on average;
    # the standard deviation is sqrt(2400 * 1/4 * 3/4) = 21.2, and six of them are 127
    identities = ("Ann",) * 3000 + ("Ben", "Cid", "Dee", "Eva")
    names = tuple(map(str, range(len(identities))))
    drawn = Counter(list(draw_noise(names, identities, 0.8, seed=1).identities)[:3000])
    assert drawn.pop("Ann") == 600
    assert set(drawn) == {"Ben", "Cid", "Dee", "Eva"}
    assert all(abs(count - 600) < 127 for count in drawn.values())


def test_nothing_but_the_seed_and_the_names_changes_the_draw():
    noise = dict(zip(NAMES, draw_noise(NAMES, IDENTITIES, 0.4, seed=5).identities, strict=True))
    order = np.random.default_rng(0).permutation(len(NAMES)).tolist()
    names, identities = tuple(NAMES[place] for place in order), tuple(IDENTITIES[place] for place in order)
    assert dict(zip(names, draw_noise(names, identities, 0.4, seed=5).identities, strict=True)) == noise
    assert dict(zip(NAMES, draw_noise(NAMES, IDENTITIES, 0.4, seed=6).identities, strict=True)) != noise
    # what is wrong at a rate is wrong at every higher one
    low, high = (draw_noise(NAMES, IDENTITIES, rate, seed=5).wrong for rate in (0.4, 0.8))
    assert (high | ~low).all()


def test_the_draw_is_the_same_on_every_machine():
    assert np.flatnonzero(draw_noise(NAMES, IDENTITIES, 0.4, seed=0).wrong).tolist() == [0, 1, 3, 4, 11, 12, 17]


def test_open_set_noise_is_the_same_on_every_machine():
    names = LabelNoise(FACES, 0.4, open_share=0.5, outside=OUTSIDE, seed=0).names
    assert {place: name for place, name in enumerate(names) if name not in NAMES} == {
        0: "outside/o/7",
        3: "outside/o/11",
        12: "outside/o/8",
        17: "outside/o/10",
    }


def test_outside_may_have_as_many_images_as_are_needed_and_labels_that_are_wrong():
    # all 15 wrong images at rate 0.8 are from outside, which has 15; their labels say Ann, whom the truth denies
    names = tuple(f"o/{number}" for number in range(15))
    outside = faces_of(names, ("Ann",) * 15)
    outside.true_identities = ("Eva",) * 15
    noisy = LabelNoise(FACES, 0.8, open_share=1.0, outside=outside)
    assert Counter(noisy.true_identities)["Eva"] == 15
    assert sum(name.startswith("outside/o/") for name in noisy.names) == 15


def test_people_of_the_set_under_another_spelling_are_not_outside():
    spelled = tuple(name if name == "-1" else f" {name.upper()}" for name in OUTSIDE.identities)
    outside = faces_of(OUTSIDE.names, spelled, shade=100)
    noise = LabelNoise(FACES, 0.4, 1.0, outside)
    assert [name for name in noise.names if name.startswith("outside/")]
    assert " ANN" not in noise.true_identities
    with pytest.raises(ValueError, match=r"outside has 10 \(1 of its people are in the set and excluded\)"):
        LabelNoise(FACES, 0.8, 1.0, outside)
    exact = faces_of(NAMES, IDENTITIES)
    exact.names_rule = outside.names_rule = "exact"
    assert " ANN" in LabelNoise(exact, 0.6, 1.0, outside).true_identities


def test_codes_of_people_from_outside_may_differ_in_case():
    names = tuple(f"o/{place}" for place in range(20))
    pixels = FACES.images([0]).expand(20, -1, -1, -1)
    outside = InMemory(pixels, names, ("Xy", "XY") * 10, names_rule="exact")
    noisy = LabelNoise(FACES, 0.8, 1.0, outside)
    assert {"Xy", "XY"} <= set(noisy.true_identities)
    assert (noisy.names_rule, noisy.people) == ("exact", FACES.people)
    merged = InMemory(FACES.pixels, FACES.names, FACES.identities, names_rule="merge")
    assert LabelNoise(merged, 0.4, 1.0, OUTSIDE).names_rule == "merge"


def test_domains_stay_and_a_name_may_be_no_text():
    faces = faces_of(("a/\udce9", "a/2", "b/1", "b/2"), ("a", "a", "b", "b"))
    faces.domains = ("day", "night", "day", "night")
    noisy = LabelNoise(faces, 0.5)
    assert noisy.domains == faces.domains
    assert noisy.wrong.reshape(2, 2).sum(1).tolist() == [1, 1]


def test_an_image_named_as_one_from_outside_is_refused():
    faces = faces_of(("outside/o/1", "a/2", "b/1", "b/2"), ("a", "a", "b", "b"))
    with pytest.raises(ValueError, match="the set has an image named 'outside/o/1', as an image from outside would be"):
        LabelNoise(faces, 0.5, 1.0, faces_of(("o/1", "o/1"), ("Eva", "Eva")))


def test_at_rate_0_nothing_changes():
    noisy = LabelNoise(FACES, 0.0)
    assert (tuple(noisy.names), tuple(noisy.identities)) == (NAMES, IDENTITIES)
    assert not noisy.wrong.any()
    assert torch.equal(noisy.images([3, 1]), FACES.images([3, 1]))


def test_open_set_noise_puts_people_from_outside_under_the_class():
    # rate 0.4: 4 + 2 + 1 + 0 = 7 wrong images, of which round(0.5 * 7) = round(3.5) = 4 are of people outside
    noisy = LabelNoise(FACES, 0.4, open_share=0.5, outside=OUTSIDE, seed=2)
    replaced = [place for place, name in enumerate(noisy.names) if name.startswith("outside/")]
    assert len(replaced) == 4
    assert int(noisy.wrong.sum()) == 7
    for place in replaced:
        assert noisy.identities[place] == IDENTITIES[place]
        assert noisy.true_identities[place] in {"Eva", "Fay", "-1"}  # Ann's images outside are excluded
        image = OUTSIDE.names.index(noisy.names[place].removeprefix("outside/"))
        assert noisy.images([place])[0, 0, 0, 0] == 100 + image
    assert len(set(noisy.names)) == len(NAMES)
    flipped = [place for place in np.flatnonzero(noisy.wrong).tolist() if place not in replaced]
    assert all(noisy.identities[place] != IDENTITIES[place] == noisy.true_identities[place] for place in flipped)


def test_images_of_both_sets_come_in_the_order_that_was_asked_for():
    noisy = LabelNoise(FACES, 0.4, open_share=0.5, outside=OUTSIDE, seed=2)
    asked = [20, 3, 0, 7, 1, 11, 3]
    expected = [noisy.images([place])[0] for place in asked]
    assert torch.equal(noisy.images(asked), torch.stack(expected))


def test_copies_memory_and_workers():
    faces = LabelNoise(SyntheticFaces(people=4, images=4, size=48), 0.5, seed=1)
    again = pickle.loads(pickle.dumps(faces))
    assert tuple(again.identities) == tuple(faces.identities)
    held = in_memory(again, workers=1)
    assert tuple(held.identities) == tuple(faces.identities)
    assert torch.equal(held.images([2]), faces.images([2]))


def test_photos_know_the_truth_of_their_list(tmp_path: Path):
    from PIL import Image

    for person in ("Ann", "Ben"):
        (tmp_path / "faces" / person).mkdir(parents=True)
        Image.new("RGB", (112, 112)).save(tmp_path / "faces" / person / "1.png")
    text = "name,identity,true_identity\nBen/1.png,Ann,Ben\nAnn/1.png,Ann,Ann\n"
    (tmp_path / "noisy.csv").write_text(text)
    photos = Photos(tmp_path / "faces", labels=tmp_path / "noisy.csv", max_images=1)
    assert (tuple(photos.identities), photos.true_identities) == (("Ann",), ("Ben",))


def test_a_description_names_both_sets(tmp_path: Path):
    drawn = "{class_path: verisphere.images.SyntheticFaces, init_args: {people: 4, images: 4, size: 48, seed: %d%s}}"
    (tmp_path / "noisy.yaml").write_text(
        "class_path: verisphere.images.LabelNoise\ninit_args:\n  rate: 0.5\n  open_share: 0.5\n"
        f"  faces: {drawn % (0, '')}\n  outside: {drawn % (1, ', first_person: 100')}\n"
    )
    faces = open_faces(tmp_path / "noisy.yaml")
    # 4 people with 2 wrong images of 4: 8 wrong ones, half of them of people outside
    assert sum(name.startswith("outside/") for name in faces.names) == 4
    assert isinstance(faces, LabelNoise)
    assert int(faces.wrong.sum()) == 8


def test_the_source_names_both_sets():
    class Drawn(InMemory):
        @property
        def source(self) -> ImageSource:
            return ImageSource("drawn", True, "arcface_112x112 by MTCNN")

    drawn = Drawn(OUTSIDE.pixels, OUTSIDE.names, OUTSIDE.identities)
    assert LabelNoise(FACES, 0.4).source == FACES.source
    mixed = LabelNoise(FACES, 0.4, 0.5, drawn).source
    assert mixed.place.endswith("InMemory with images of drawn")
    assert (mixed.drawn, mixed.alignment) == (True, "arcface_112x112 by MTCNN")
    both = LabelNoise(Drawn(FACES.pixels, NAMES, IDENTITIES), 0.4, 0.5, drawn).source
    assert (both.drawn, both.alignment) == (True, "arcface_112x112 by MTCNN")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"rate": 1.0}, "rate is 1.0; it is a share"),
        ({"rate": -0.1}, "rate is -0.1"),
        ({"rate": float("nan")}, "rate is nan"),
        ({"rate": 0.4, "seed": -1}, "seed must be 0 or more"),
        ({"rate": 0.4, "open_share": 1.1, "outside": OUTSIDE}, "open_share is 1.1; it is a share of the wrong"),
        ({"rate": 0.4, "open_share": 0.5}, "open_share is 0.5 but outside is not given"),
        ({"rate": 0.4, "outside": OUTSIDE}, "open_share is 0.0 but outside is given"),
        # 8 + 4 + 2 + 1 = 15 wrong images; outside has 12, of which Ann's two are excluded
        (
            {"rate": 0.8, "open_share": 1.0, "outside": OUTSIDE},
            r"15 images of people outside the set are needed, but outside has 10 \(1 of its people are in the set",
        ),
    ],
)
def test_arguments_out_of_range(arguments: dict[str, object], says: str):
    with pytest.raises(ValueError, match=says):
        LabelNoise(FACES, **arguments)


def test_what_no_noise_can_be_put_into():
    with pytest.raises(ValueError, match="the set has 1 people; a wrong identity takes at least two"):
        LabelNoise(FACES.select(range(10)), 0.4)
    with pytest.raises(ValueError, match="has wrong labels already"):
        LabelNoise(SyntheticFaces(people=8, images=4, label_noise=0.2, size=48), 0.4)


def test_images_of_two_sizes_are_refused():
    larger = faces_of(OUTSIDE.names, OUTSIDE.identities, side=4)
    noisy = LabelNoise(FACES, 0.4, 1.0, larger)
    with pytest.raises(ValueError, match="images of the set are 2 x 2 pixels but those of outside 4 x 4"):
        noisy.images(range(len(noisy)))
