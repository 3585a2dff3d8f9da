import pytest
import torch

from verisphere.images.synthetic.synthetic_faces import (
    DIFFICULTIES,
    DOMAINS,
    SyntheticFaces,
    contact_sheet,
    mislabelled,
)


@pytest.fixture(scope="module")
def faces() -> SyntheticFaces:
    return SyntheticFaces(people=20, images=4, seed=3)


@pytest.fixture(scope="module")
def drawn(faces: SyntheticFaces) -> torch.Tensor:
    return faces.images(range(len(faces)))


def test_says_what_it_holds(faces: SyntheticFaces, drawn: torch.Tensor) -> None:
    assert len(faces) == 80
    assert drawn.shape == (80, 3, 112, 112)
    assert drawn.dtype == torch.uint8
    assert len(set(faces.names)) == 80
    assert faces.names[4 * 5 + 3] == "street/p00005/i00003.png"
    assert faces.identities[4 * 5 + 3] == "street-p00005"
    assert faces.domains[4 * 5 + 3] == "street"
    assert len(faces.people) == 20
    assert set(faces.domains) == set(DOMAINS)
    assert faces.identities == faces.true_identities


@pytest.mark.parametrize("batch", [1, 7, 33, 64])
def test_same_bits_for_any_batch_and_order(faces: SyntheticFaces, drawn: torch.Tensor, batch: int) -> None:
    order = torch.randperm(80, generator=torch.Generator().manual_seed(batch)).tolist()
    again = torch.cat([faces.images(order[start : start + batch]) for start in range(0, 80, batch)])
    assert torch.equal(again, drawn[order])


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_same_bits_for_any_number_of_threads(faces: SyntheticFaces, drawn: torch.Tensor, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert torch.equal(faces.images([5, 17, 40, 41, 79]), drawn[[5, 17, 40, 41, 79]])
    finally:
        torch.set_num_threads(before)


def test_same_bits_for_odd_sizes() -> None:
    small = SyntheticFaces(people=4, images=3, size=48)
    together = small.images(range(12))
    assert together.shape == (12, 3, 48, 48)
    assert torch.equal(torch.cat([small.images([index]) for index in range(12)]), together)


def test_repeats_and_no_images() -> None:
    faces = SyntheticFaces(people=4, images=1, size=48)
    twice = faces.images([2, 2])
    assert torch.equal(twice[0], twice[1])
    assert faces.images([]).shape == (0, 3, 48, 48)


def test_an_image_does_not_depend_on_how_many_others_there_are(faces: SyntheticFaces, drawn: torch.Tensor) -> None:
    later = SyntheticFaces(people=2, images=2, seed=3, first_person=7)
    assert later.names == tuple(faces.names[index] for index in (28, 29, 32, 33))
    assert torch.equal(later.images(range(4)), drawn[[28, 29, 32, 33]])


def test_sets_with_separate_numbers_share_nobody() -> None:
    first, second = SyntheticFaces(people=30, images=1), SyntheticFaces(people=30, images=1, first_person=30)
    assert not set(first.people) & set(second.people)
    traits = torch.cat([first.parameters(range(30))[0].values, second.parameters(range(30))[0].values])
    assert len(traits.unique(dim=0)) == 60


def test_a_person_keeps_their_traits_and_photographs_differ(faces: SyntheticFaces, drawn: torch.Tensor) -> None:
    person, photo, key = faces.parameters(range(80))
    traits = person.values.view(20, 4, -1)
    assert torch.equal(traits, traits[:, :1].expand_as(traits))
    assert len(traits[:, 0].unique(dim=0)) == 20
    assert len(photo.values.unique(dim=0)) == 80
    assert len(key.unique()) == 80
    assert len(drawn.flatten(1).unique(dim=0)) == 80


def test_seeds_and_domains_make_other_people() -> None:
    def traits(**arguments: object) -> torch.Tensor:
        return SyntheticFaces(people=1, images=1, **arguments).parameters([0])[0].values  # type: ignore[arg-type]

    assert not torch.equal(traits(domains=["street"], seed=0), traits(domains=["street"], seed=1))
    assert not torch.equal(traits(domains=["street"]), traits(domains=["night"]))


@pytest.mark.parametrize(("domain", "kinship"), [("lookalike", 0.5), ("studio", 0.0)])
def test_families_share_half_of_the_variance_and_strangers_nothing(domain: str, kinship: float) -> None:
    faces = SyntheticFaces(people=1200, images=1, domains=[domain])
    traits = faces.parameters(range(1200))[0].values.view(200, 6, -1)
    traits = (traits - traits.mean((0, 1))) / traits.std((0, 1))
    between = traits.mean(1).var(0).mean().item()
    assert between == pytest.approx(kinship + (1 - kinship) / 6, abs=0.04 if kinship else 0.03)


def test_domains_differ_in_their_images() -> None:
    def look(domain: str) -> tuple[float, float]:
        images = SyntheticFaces(people=20, images=2, domains=[domain]).images(range(40)).float()
        rough = (images[..., 1:] - images[..., :-1]).abs().flatten(1).median(1).values
        return images.mean().item(), rough.mean().item()

    studio, night = look("studio"), look("night")
    assert night[0] < studio[0] - 6  # grey levels: little light
    assert night[1] > studio[1] * 1.1  # neighbours differ more: noise


def test_difficulty_draws_people_together_and_photographs_apart() -> None:
    spread = {}
    for difficulty in DIFFICULTIES:
        person, photo, _ = SyntheticFaces(people=400, images=1, difficulty=difficulty).parameters(range(400))
        spread[difficulty] = (
            person["skull_width"].std().item(),
            photo["yaw"].std().item(),
            photo["grain"].mean().item(),
        )
    assert spread["easy"][0] > spread["medium"][0] > spread["hard"][0]
    assert spread["easy"][1] < spread["medium"][1] < spread["hard"][1]
    assert spread["easy"][2] < spread["medium"][2] < spread["hard"][2]


@pytest.mark.parametrize(("rate", "wrong"), [(0.0, 0), (0.1, 24), (0.25, 60), (0.333, 80), (0.99, 238)])
def test_label_noise_is_exact_and_the_truth_is_kept(rate: float, wrong: int) -> None:
    noisy = SyntheticFaces(people=24, images=10, label_noise=rate, size=48)
    changed = [index for index in range(240) if noisy.identities[index] != noisy.true_identities[index]]
    assert len(changed) == wrong
    assert noisy.true_identities == SyntheticFaces(people=24, images=10, size=48).identities
    assert all(identity.startswith(domain) for identity, domain in zip(noisy.identities, noisy.domains, strict=True))
    assert noisy.identities == SyntheticFaces(people=24, images=10, label_noise=rate, size=48).identities


def test_wrong_labels_fall_on_everyone_alike() -> None:
    truth = [str(index // 50) for index in range(500)]
    given = mislabelled(truth, ["all"] * 500, 0.5, seed=1)
    wrong = [(a, b) for a, b in zip(truth, given, strict=True) if a != b]
    assert len(wrong) == 250
    assert len(set(wrong)) > 75  # of 90 ordered pairs
    assert mislabelled(truth, ["all"] * 500, 0.5, seed=2) != given


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"people": 0}, "people is 0"),
        ({"images": 0}, "images is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"first_person": -2}, "first_person is -2"),
        ({"size": 100}, "size is 100"),
        ({"size": 32}, "size is 32"),
        ({"domains": ["studio", "moon"]}, "'moon'; known are studio, street, night, lookalike"),
        ({"domains": "studio"}, "list of names"),
        ({"domains": []}, "at least one"),
        ({"domains": ["night", "night"]}, "each once"),
        ({"difficulty": "brutal"}, "'brutal'; allowed are easy, medium, hard"),
        ({"label_noise": 1.0}, "label_noise is 1.0"),
        ({"label_noise": -0.1}, "label_noise is -0.1"),
        ({"people": 5, "label_noise": 0.5}, "domain street has one person only"),
    ],
)
def test_a_wrong_argument_is_named_in_one_line(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is checked below
        SyntheticFaces(**arguments)  # type: ignore[arg-type]
    message = str(caught.value)
    assert words in message
    assert "\n" not in message


@pytest.mark.parametrize("index", [-1, 80])
def test_a_position_outside_the_set_is_refused(faces: SyntheticFaces, index: int) -> None:
    with pytest.raises(IndexError, match=f"image {index} .* 0 to 79"):
        faces.images([0, index])


def test_contact_sheet_lays_people_in_rows(faces: SyntheticFaces, drawn: torch.Tensor) -> None:
    sheet = contact_sheet(faces, people=3, images=2)
    assert sheet.shape == (3, 336, 224)
    assert torch.equal(sheet[:, 224:, 112:], drawn[9])
    wide = contact_sheet(faces.select([0, 1, 2, 4]), people=2, images=3)
    assert torch.equal(wide[:, 112:, :112], drawn[4])
    assert not wide[:, 112:, 112:].any()
    with pytest.raises(ValueError, match="the set has 20 people"):
        contact_sheet(faces, people=21, images=1)
