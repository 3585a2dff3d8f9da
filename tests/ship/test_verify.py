"""Same or different, and who of a gallery: decided at the shipped threshold, on pictures whose scores are known."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from verisphere.backbones.backbone import Backbone
from verisphere.base.identity import names_taken
from verisphere.base.vocabulary import Embeddings, ImageSource, Origin, TrainingRecord
from verisphere.decide import GuaranteedThreshold, lower_median
from verisphere.decide.both_errors import PromisedFrr, Unsure
from verisphere.files.embeddings import write_embeddings
from verisphere.images.detect import TEMPLATES, Crop, Detections
from verisphere.models.folder import Model
from verisphere.ship.deciding import Choice
from verisphere.ship.face_search import FaceOfPhotograph, FindFaces, aligned_faces, detected_faces
from verisphere.ship.identify import identify as identify_promised
from verisphere.ship.identify import identify_each
from verisphere.ship.opened_gallery import open_gallery
from verisphere.ship.verify import verify

UNRECORDED = TrainingRecord()


class Direction(Backbone):
    """An embedding that a test can choose: the first two pixels' red values, less 100."""

    input_size = (4, 4)
    mean, scale = 100.0, 1.0

    def __init__(self) -> None:
        super().__init__(2)

    def embed(self, images):
        return images[:, 0, 0, :2]


def threshold(value: float, far: str = "0.25") -> GuaranteedThreshold:
    comparisons = 99
    return GuaranteedThreshold(
        far_target=far,
        guarantee="expected",
        threshold=value,
        comparisons=comparisons,
        rank=int(float(far) * (comparisons + 1)),
        people=198,
        confidence=None,
        replicates=None,
        seed=0,
    )


def model(*thresholds: GuaranteedThreshold, training: TrainingRecord = UNRECORDED) -> Model:
    return Model(Path("model"), "test", Direction().eval(), "0" * 64, False, "arcface_112x112", thresholds, training)


FIND = aligned_faces((4, 4))


# These galleries are searched by thresholds for two photographs, at FARs that find most strangers.
def identify(*searched, accept_drawn: bool = False, **options):
    choice = Choice(accept_drawn=accept_drawn, accept_pair_threshold=True)
    return identify_promised(*searched, choice, **options)


AT_A_HALF = threshold(0.5)


def photo(path: Path, x: int, y: int) -> Path:
    """A picture whose embedding is (x, y)."""
    pixels = np.full((4, 4, 3), 7, np.uint8)
    pixels[0, 0, 0], pixels[0, 1, 0] = 100 + x, 100 + y
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


def test_two_photographs_are_decided_by_their_cosine(tmp_path):
    one = photo(tmp_path / "one.png", 3, 4)
    near = photo(tmp_path / "near.png", 4, 3)  # cosine 24/25
    far = photo(tmp_path / "far.png", -4, 3)  # cosine 0
    result = verify(one, near, model(AT_A_HALF), FIND)
    assert (result.same, result.comparisons, result.passed) == (True, 1, 1)
    assert result.score == pytest.approx(0.96, abs=1e-7)
    answer, promise = result.text().splitlines()
    assert answer == "Same person: score 0.9600, threshold 0.5000."
    assert promise == (
        "On average over calibrations, at most 25 % of pairs of strangers pass; how many pairs of one person fail is "
        "not recorded. There is no record of what the model was trained on."
    )
    assert str(result) == result.text()
    assert result.text(explain=True).splitlines() == [answer, promise, result.meaning, result.misses]
    assert result.meaning.startswith("accept iff score > 0.5: of comparisons of two new people ")
    other = verify(one, far, model(AT_A_HALF), FIND)
    assert not other.same
    assert other.text().startswith("Different people: score 0.0000, threshold 0.5000.")


def test_a_score_at_the_threshold_is_rejected(tmp_path):
    one, same = photo(tmp_path / "one.png", 3, 4), photo(tmp_path / "same.png", 3, 4)
    score = verify(one, same, model(AT_A_HALF), FIND).score
    assert not verify(one, same, model(threshold(score)), FIND).same
    just_above = verify(one, same, model(threshold(float(np.nextafter(score, 0)))), FIND)
    assert just_above.same
    found, held_against = just_above.text().split("score ")[1].split(".\n")[0].split(", threshold ")
    assert found != held_against  # shown with as many digits as it takes to tell them apart


def test_a_score_between_the_thresholds_of_both_errors_is_unsure(tmp_path):
    measured = Unsure(0.0, 0.1, 0.2)
    frr = PromisedFrr("0.1", 0.3, 99, 10, "one", measured)
    both = model(replace(threshold(0.5), frr=frr))
    left = photo(tmp_path / "left.png", 10, 0)
    answers = {}
    for x, y in ((4, 3), (4, 9), (1, 9)):  # cosines 0.8, 0.41 and 0.11
        found = verify(left, photo(tmp_path / "right.png", x, y), both, FIND)
        answers[found.text().split("score ")[0].splitlines()[-1]] = (found.same, found.unsure)
    assert answers == {"Same person: ": (True, False), "Unsure: ": (False, True), "Different people: ": (False, False)}
    assert json.loads(found.json())["unsure"] is False
    photo(tmp_path / "set" / "1.png", 4, 9)
    photo(tmp_path / "set" / "2.png", 4, 9)
    sets = verify(left, tmp_path / "set", both, FIND).text()
    assert "One person's are called different at most twice as often as one comparison, too." in sets


def test_folders_need_more_than_half_of_their_comparisons(tmp_path):
    # against (1, 0): cosines 1, 0.6, 0 and -1; with the threshold 0.5 two of four pass, which is not more than half
    photo(tmp_path / "a" / "1.png", 10, 0)
    for number, (x, y) in enumerate([(5, 0), (3, 4), (0, 5), (-5, 0)]):
        photo(tmp_path / "b" / f"{number}.png", x, y)
    half = verify(tmp_path / "a", tmp_path / "b", model(AT_A_HALF), FIND)
    assert (half.same, half.passed, half.comparisons) == (False, 2, 4)
    assert half.score == pytest.approx(0.0, abs=1e-7)  # the lower one of the two in the middle
    (tmp_path / "b" / "3.png").unlink()
    most = verify(tmp_path / "a", tmp_path / "b", model(AT_A_HALF), FIND)
    assert (most.same, most.passed, most.comparisons) == (True, 2, 3)
    assert "2 of 3 comparisons pass, median score 0.6000, threshold 0.5000." in most.text()
    assert "at most twice as often" in most.text()
    assert most.right.photos == ("0.png", "1.png", "2.png")


@pytest.mark.parametrize("count", range(1, 8))
def test_the_lower_median_is_above_iff_more_than_half_are(count):
    random = np.random.default_rng(count)
    for _ in range(50):
        scores = random.integers(0, 3, count).astype(float)
        assert (lower_median(scores) > 1) == (2 * (scores > 1).sum() > count)


def test_json_holds_all_of_it(tmp_path):
    one, two = photo(tmp_path / "one.png", 3, 4), photo(tmp_path / "two.png", 4, 3)
    found = json.loads(verify(one, two, model(AT_A_HALF), FIND).json())
    assert found["same"] is True
    assert found["score"] == pytest.approx(0.96, abs=1e-7)
    assert found["threshold"]["threshold"] == 0.5
    assert found["threshold"]["guarantee"] == "expected"
    assert found["meaning"].startswith("accept iff score > 0.5")
    assert found["left"]["photos"] == ["one.png"]


def test_photographs_without_a_face_are_named_and_left_out(tmp_path):
    one = photo(tmp_path / "one.png", 3, 4)
    photo(tmp_path / "b" / "good.png", 3, 4)
    Image.new("RGB", (9, 5)).save(tmp_path / "b" / "large.png")
    (tmp_path / "b" / "broken.png").write_bytes(b"no image")
    result = verify(one, tmp_path / "b", model(AT_A_HALF), FIND)
    assert [skipped.name for skipped in result.right.skipped] == ["broken.png", "large.png"]
    assert "large.png (9 x 5 pixels, but aligned crops are 4 x 4" in result.text()
    with pytest.raises(ValueError, match=r"large\.png: 9 x 5 pixels, but aligned crops are 4 x 4; without --aligned"):
        verify(one, tmp_path / "b" / "large.png", model(AT_A_HALF), FIND)
    (tmp_path / "b" / "good.png").unlink()
    with pytest.raises(ValueError, match=r"b: none of the 2 photographs can be used; the first, broken\.png: not an"):
        verify(one, tmp_path / "b", model(AT_A_HALF), FIND)


def test_several_faces_are_said(tmp_path):
    one, two = photo(tmp_path / "one.png", 3, 4), photo(tmp_path / "two.png", 4, 3)

    def crowded(photos, names):
        return [
            FaceOfPhotograph(pixels, 3 if name == "two.png" else 1) for pixels, name in zip(photos, names, strict=True)
        ]

    result = verify(one, two, model(AT_A_HALF), crowded)
    assert result.right.with_several_faces == ("two.png",)
    note = "Several faces, of which the most central is compared, are on: two.png."
    assert result.notes == (note,)
    assert result.text().startswith(f"{note}\nSame person: ")


def crop(x: int, y: int, box: tuple[int, int, int, int]) -> Crop:
    """A face whose embedding is (x, y), at this place of a photograph."""
    pixels = np.full((4, 4, 3), 7, np.uint8)
    pixels[0, 0, 0], pixels[0, 1, 0] = 100 + x, 100 + y
    return Crop(pixels, np.zeros((5, 2), np.float32), np.array(box, np.float32), 1.0, 2)


CENTRAL, LEFT, ABOVE = (40, 40, 60, 60), (0, 30, 20, 50), (45, 0, 65, 10)


def faces_of(**photographs: list[Crop]) -> FindFaces:
    """Finds the faces that are given for each photograph, the most central first."""

    def find(photos, names):
        found = [photographs[Path(name).stem] for name in names]
        return [FaceOfPhotograph(first.pixels, 1 + len(more), crop=first, others=tuple(more)) for first, *more in found]

    return find


def test_another_face_that_would_match_is_named_first(tmp_path):
    one, two = photo(tmp_path / "one.png", 0, 0), photo(tmp_path / "two.png", 0, 0)
    group = [crop(3, 4, CENTRAL), crop(4, -3, LEFT), crop(-3, 4, ABOVE)]
    single = faces_of(one=group, two=[crop(5, 0, CENTRAL)])
    found = verify(one, two, model(threshold(0.7)), single)  # cosines 0.6, 0.8 and -0.6
    assert (found.same, found.score) == (False, pytest.approx(0.6))
    assert [(pair.left.side, pair.right) for pair in found.other_pairs] == [("left", None)]
    assert found.notes == (
        "Several faces, of which the most central is compared, are on: one.png.",
        "The face at the left (10, 40) of one.png would match: score 0.8000.",
    )
    assert found.text().splitlines()[2].startswith("Different people: ")
    assert json.loads(found.json())["other_pairs"][0]["left"] == {"photo": "one.png", "side": "left", "x": 10, "y": 40}
    swapped = verify(two, one, model(threshold(0.7)), single)
    assert [(pair.left, pair.right.side) for pair in swapped.other_pairs] == [(None, "left")]

    both = faces_of(one=[crop(3, 4, CENTRAL), crop(-5, 0, ABOVE)], two=[crop(5, 0, CENTRAL), crop(-4, 0, LEFT)])
    found = verify(one, two, model(threshold(0.7)), both)  # in neither photograph the most central face
    assert found.notes[1:] == (
        "The face at the top (55, 5) of one.png and the face at the left (10, 40) of two.png would match each other: "
        "score 1.0000.",
    )


def test_another_face_is_held_against_all_photographs_of_the_other_side(tmp_path):
    one = photo(tmp_path / "one.png", 0, 0)
    for name in "abc":
        photo(tmp_path / "set" / f"{name}.png", 0, 0)
    others = {"a": [crop(5, 0, CENTRAL), crop(0, 5, LEFT)], "b": [crop(5, 0, CENTRAL)], "c": [crop(0, 5, CENTRAL)]}
    for face, passes in ((crop(0, 4, LEFT), False), (crop(4, 0, LEFT), True)):  # like one of three; like two of three
        find = faces_of(one=[crop(-5, 0, CENTRAL), face], **others)
        found = verify(one, tmp_path / "set", model(threshold(0.5)), find)
        assert [pair.left is not None for pair in found.other_pairs] == [True] * passes


def test_another_face_of_the_probe_that_would_match_is_named(tmp_path):
    probe = photo(tmp_path / "probe.png", 0, 0)
    for name in ("ann", "bob"):
        photo(tmp_path / "people" / name / f"{name}.png", 0, 0)
    group = [crop(-3, 4, CENTRAL), crop(4, 3, LEFT), crop(-5, -5, ABOVE)]
    find = faces_of(probe=group, ann=[crop(5, 0, CENTRAL), crop(-3, 4, LEFT)], bob=[crop(0, -5, CENTRAL)])
    found = identify(probe, tmp_path / "people", model(threshold(0.75)), find)
    assert found.matches == ()  # the other face on the photograph of the gallery is not Ann's
    note = "The face at the left (10, 40) of probe.png would match ann: score 0.8000."
    assert found.notes[-1] == note
    assert found.text().splitlines()[2:4] == [
        note,
        "Nobody: no score is above the threshold 0.7500; the nearest is ann, score -0.6000.",
    ]
    assert [(other.face.x, other.match.name) for other in found.other_matches] == [(10, "ann")]


def test_the_other_faces_are_cropped_only_where_they_are_wanted():
    boxes = np.array([[0, 0, 60, 60], [110, 60, 190, 140], [200, 0, 260, 60]], np.float32)
    points = (np.array(TEMPLATES["arcface_112x112"].points) / 112).astype(np.float32)
    landmarks = boxes[:, None, :2] + points * (boxes[:, None, 2:] - boxes[:, None, :2])
    landmarks[2] = 5  # five equal points cannot be aligned

    class Three:
        name = "three"

        def detect(self, images):
            return [Detections(boxes, landmarks, np.ones(3, np.float32)) for _ in images]

        def how_searched(self, height, width):
            return ""

    image = np.zeros((200, 300, 3), np.uint8)
    (plain,), (whole,) = (
        detected_faces("arcface_112x112", Three(), others=others)([image], ["a"]) for others in (False, True)
    )
    assert (plain.faces, plain.others, len(whole.others)) == (3, (), 1)
    assert whole.crop.box.tolist() == boxes[1].tolist()
    assert whole.others[0].box.tolist() == boxes[0].tolist()
    np.testing.assert_array_equal(plain.pixels, whole.pixels)


def test_what_cannot_be_compared(tmp_path):
    one = photo(tmp_path / "one.png", 3, 4)
    with pytest.raises(FileNotFoundError, match=r"absent\.png: there is no such photograph or folder"):
        verify(one, tmp_path / "absent.png", model(AT_A_HALF), FIND)
    with pytest.raises(ValueError, match="this model ships no threshold"):
        verify(one, one, model(), FIND)
    two = model(threshold(0.5), threshold(0.7, "0.1"))
    with pytest.raises(ValueError, match=r"thresholds at FAR 0\.25, 0\.1; name one"):
        verify(one, one, two, FIND)
    assert verify(one, one, two, FIND, far="1e-1").threshold.threshold == 0.7


@pytest.fixture
def gallery(tmp_path: Path) -> Path:
    photo(tmp_path / "gallery" / "ann" / "1.png", 10, 0)
    photo(tmp_path / "gallery" / "ann" / "2.png", 10, 1)
    photo(tmp_path / "gallery" / "bob" / "1.png", 10, 5)
    photo(tmp_path / "gallery" / "eve" / "1.png", -10, 0)
    return tmp_path / "gallery"


def test_the_gallery_is_ranked_by_score(tmp_path, gallery):
    probe = photo(tmp_path / "probe.png", 20, 1)
    found = identify(probe, gallery, model(AT_A_HALF), FIND)
    assert [match.name for match in found.matches] == ["ann", "bob"]
    assert (found.passing, found.people, found.matches[0].comparisons) == (2, 3, 2)
    assert found.best is not None
    assert found.best.name == "eve"
    assert "| ann" in found.text()
    by_chance = "25 % of pairs of strangers pass), so among 3 people a stranger is found with a chance of up to 100 %."
    assert by_chance in found.text().splitlines()[0]
    with pytest.raises(ValueError, match=r"up to 100 %; calibrate one for this gallery .* --accept-pair-threshold"):
        identify_promised(probe, gallery, model(AT_A_HALF), FIND)
    assert [match.name for match in identify(probe, gallery, model(AT_A_HALF), FIND, top=1).matches] == ["ann"]
    assert "and 1 more" in identify(probe, gallery, model(AT_A_HALF), FIND, top=1).text()
    assert json.loads(found.json())["matches"][1]["name"] == "bob"


def test_how_names_of_the_gallery_were_taken_is_recorded(tmp_path, gallery):
    probe = photo(tmp_path / "probes" / "probe.png", 20, 1)
    folder, pair = probe.parent, Choice(accept_pair_threshold=True)
    assert json.loads(identify(probe, gallery, model(AT_A_HALF), FIND).json())["names_rule"] is None
    assert json.loads(identify_each(folder, gallery, model(AT_A_HALF), FIND, pair).json())["names_rule"] is None
    photo(gallery / "ANN" / "1.png", 10, 2)
    rows = Embeddings([[1.0, 0.0], [1.0, 0.1]], identities=["ann", "ANN"], names_rule="exact")
    write_embeddings(tmp_path / "exact.npz", rows)
    with names_taken("merge"):
        found = identify(probe, gallery, model(AT_A_HALF), FIND)
        each = identify_each(folder, gallery, model(AT_A_HALF), FIND, pair)
        assert open_gallery(gallery, model(AT_A_HALF), FIND).promised().names_rule == "merge"
    assert ([match.name for match in found.matches], found.people) == (["ann", "bob"], 3)
    assert [json.loads(one.json())["names_rule"] for one in (found, each)] == ["merge", "merge"]
    found = identify(probe, tmp_path / "exact.npz", model(AT_A_HALF), FIND)  # its file says so
    assert (found.people, json.loads(found.json())["names_rule"]) == (2, "exact")


def test_nobody(tmp_path, gallery):
    found = identify(photo(tmp_path / "probe.png", 0, -10), gallery, model(AT_A_HALF), FIND)
    assert (found.matches, found.passing) == ((), 0)
    assert found.text().splitlines()[1].startswith("Nobody: no score is above the threshold 0.5000; the nearest is ")
    assert str(found) == found.text()
    assert found.meaning not in found.text()
    assert {found.meaning, found.misses} < set(found.text(explain=True).splitlines())


def test_people_of_the_gallery_without_a_face(tmp_path, gallery):
    Image.new("RGB", (9, 5)).save(gallery / "bob" / "1.png")
    found = identify(photo(tmp_path / "probe.png", 20, 1), gallery, model(AT_A_HALF), FIND)
    assert (found.left_out, found.people) == (("bob",), 2)
    assert "Excluded, as none of their photographs can be used: bob." in found.text()
    assert [skipped.name for skipped in found.skipped] == ["bob/1.png"]


def test_a_gallery_that_is_none(tmp_path, gallery):
    probe = photo(tmp_path / "probe.png", 20, 1)
    photo(gallery / "loose.png", 1, 1)
    with pytest.raises(ValueError, match=r"'loose\.png' lies in no person's folder"):
        identify(probe, gallery, model(AT_A_HALF), FIND)
    with pytest.raises(FileNotFoundError, match="no such folder or archive"):
        identify(probe, tmp_path / "absent", model(AT_A_HALF), FIND)
    with pytest.raises(ValueError, match="top must be at least 1"):
        identify(probe, gallery, model(AT_A_HALF), FIND, top=0)


def test_many_photographs_are_looked_at_in_batches(tmp_path):
    sizes = []

    def find(photos, names):
        sizes.append(len(photos))
        return FIND(photos, names)

    for number in range(35):
        photo(tmp_path / "many" / f"{number:02}.png", 10, number)
    result = verify(tmp_path / "many", tmp_path / "many" / "00.png", model(AT_A_HALF), find)
    assert result.comparisons == 35
    assert sizes == [16, 16, 3, 1]
    assert result.left.photos == tuple(f"{number:02}.png" for number in range(35))


# ---- drawn faces


def drawn_threshold(value: float) -> GuaranteedThreshold:
    return replace(threshold(value), calibrated_on=ImageSource("drawn.zip", True, None))


LAST_DRAWN = replace(UNRECORDED, people=7, sources=(ImageSource("a.zip", False), ImageSource("b.zip", True)))
ONCE_DRAWN = replace(UNRECORDED, people=7, sources=(ImageSource("a.zip", True), ImageSource("b.zip", False)))


@pytest.mark.parametrize(
    ("tried", "how", "so"),
    [
        (model(drawn_threshold(0.5)), "calibrated", "about photographs its threshold promises nothing"),
        (model(AT_A_HALF, training=LAST_DRAWN), "trained", "it may tell few photographs apart"),
        (model(drawn_threshold(0.5), training=LAST_DRAWN), "trained and calibrated", "its threshold promises nothing"),
    ],
)
def test_a_model_that_knows_drawings_only_has_to_be_accepted(tmp_path, tried, how, so):
    one, two = photo(tmp_path / "b" / "one.png", 3, 4), photo(tmp_path / "b" / "two.png", 4, 3)
    for decide in (lambda **asked: verify(one, two, tried, FIND, **asked),
                   lambda **asked: identify(one, tmp_path, tried, FIND, **asked)):  # fmt: skip
        with pytest.raises(ValueError, match=f"model: this model was {how} on drawn faces, .* --accept-drawn-model"):
            decide()
        result = decide(accept_drawn=True)
        assert result.drawn.startswith(f"this model was {how} on drawn faces")
        assert result.notes[0] == f"T{result.drawn[1:]}."
        assert result.text().startswith(f"{result.notes[0]}\n")
        assert result.drawn.endswith(so)


def test_a_model_that_began_with_drawings_and_went_on_with_photographs_is_taken(tmp_path):
    one = photo(tmp_path / "one.png", 3, 4)
    result = verify(one, one, model(AT_A_HALF, training=ONCE_DRAWN), FIND)
    assert result.drawn == ""
    assert "trained on images of 7 people from b.zip" in result.meaning
    assert "after a training on drawn faces of people who do not exist" in result.meaning


def test_an_embeddings_gallery_is_searched_and_one_of_another_width_refused(tmp_path):
    probe = photo(tmp_path / "probe.png", 3, 4)
    names, people = np.array(["a", "b", "c"]), np.array(["Ann", "Bo", "Ann"])
    rows = np.array([[3, 4], [-4, 3], [4, 3]], np.float32)

    def gallery(embeddings: np.ndarray, origin: Origin | None) -> Path:
        write_embeddings(tmp_path / "gallery.npz", Embeddings(embeddings, names, people, origin=origin))
        return tmp_path / "gallery.npz"

    ours = replace(model(AT_A_HALF).origin(ImageSource("photos")), alignment="arcface_112x112 by MTCNN")
    found = identify(probe, gallery(rows, ours), model(AT_A_HALF), FIND)
    assert [(match.name, match.passed, match.comparisons) for match in found.matches] == [("Ann", 2, 2)]
    assert found.matches[0].score == pytest.approx(0.96, abs=1e-7)  # the lower one of 1 and 24/25
    assert (found.best.name, found.gallery_note) == ("Bo", "")
    assert "is taken on trust" in identify(probe, gallery(rows, None), model(AT_A_HALF), FIND).text()
    with pytest.raises(ValueError, match=r"gallery\.npz: 3 numbers a row, but the model gives 2"):
        identify(probe, gallery(np.pad(rows, ((0, 0), (0, 1))), ours), model(AT_A_HALF), FIND)


def test_photographs_of_formats_that_are_not_read_are_named(tmp_path):
    photo(tmp_path / "left" / "1.png", 3, 4)
    (tmp_path / "left" / "2.gif").write_bytes(b"GIF89a")
    photo(tmp_path / "gallery" / "Ann" / "1.png", 4, 3)
    (tmp_path / "gallery" / "Bo").mkdir()
    (tmp_path / "gallery" / "Bo" / "1.avif").write_bytes(b"")
    decided = verify(tmp_path / "left", tmp_path / "gallery" / "Ann" / "1.png", model(AT_A_HALF), FIND)
    assert [(one.name, one.reason) for one in decided.left.skipped] == [
        ("2.gif", ".gif is not read; save it as PNG or JPEG")
    ]
    assert "Skipped: 2.gif (.gif is not read" in decided.text()
    found = identify(tmp_path / "left", tmp_path / "gallery", model(AT_A_HALF), FIND)
    assert [one.name for one in found.skipped] == ["Bo/1.avif"]
    assert found.left_out == ("Bo",)


@pytest.mark.parametrize(
    ("alignment", "warned"),
    [
        ("arcface_112x112 by SCRFD", True),
        ("arcface_112x112 by MTCNN", False),
        ("arcface_112x112 by the landmarks in points.json", False),
        ("the place they are drawn at", False),
        (None, False),
    ],
)
def test_a_threshold_that_was_calibrated_on_the_crops_of_another_detector(alignment, warned, tmp_path):
    calibrated = replace(AT_A_HALF, calibrated_on=ImageSource("faces", None, alignment))
    one, find = photo(tmp_path / "one.png", 3, 4), aligned_faces((4, 4), ("arcface_112x112 by MTCNN",))
    first = verify(one, one, model(calibrated), find).text().splitlines()[0]
    said = "(detector SCRFD against MTCNN): the crops differ, and so may the rates."
    assert first.endswith(said) == warned


def test_a_threshold_that_was_calibrated_on_another_template_is_refused(tmp_path):
    calibrated = replace(AT_A_HALF, calibrated_on=ImageSource("faces", None, "arcface_144x144 by MTCNN"))
    one = photo(tmp_path / "one.png", 3, 4)
    with pytest.raises(ValueError, match="template arcface_144x144 against arcface_112x112"):
        verify(one, one, model(calibrated), FIND)
