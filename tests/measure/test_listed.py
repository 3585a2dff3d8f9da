"""Published lists of pairs, from files to figures: several lists as one, videos, names that are spelt otherwise."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.identity import names_taken
from verisphere.base.vocabulary import NOBODY, Embeddings, Origin, Redrawing
from verisphere.decide import Accuracy
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.files.pair_lists.layouts import read_pairs
from verisphere.measure.evaluate import Options
from verisphere.measure.evaluation import accuracy_over_domains
from verisphere.measure.listed import evaluate_pairs
from verisphere.measure.listed_rows import list_titles, rows_of_list
from verisphere.measure.protocols.listed_pairs import listed_folds

pytestmark = pytest.mark.usefixtures("process_as_it_was")

# Scores: a-b 0.6, a-c 0, a-d -1, a-e 0.8, b-c 0.8, b-d -0.6, b-e 0.96, c-e 0.6, d-f -1.
ROWS = {"a": (1, 0), "b": (3, 4), "c": (0, 2), "d": (-5, 0), "e": (4, 3), "f": (2, 0)}
FIRST = "left,right,label,fold\na,e,1,0\na,c,0,0\nb,e,1,1\nb,d,0,1\n"
SECOND = "left,right,label,fold\nc,e,1,5\na,d,0,5\nb,c,1,7\nd,f,0,7\n"


def options(**changed) -> Options:
    return Options(**{"fars": ("0.25",), **changed})


def write(path: Path, rows: dict, people=None, domains=None) -> Path:
    names = list(rows)
    write_embeddings(
        path, Embeddings(np.array(list(rows.values()), np.float32), names, people or [NOBODY] * len(names), domains)
    )
    return path


@pytest.fixture
def lists(tmp_path: Path) -> list[Path]:
    for name, text in (("first", FIRST), ("second", SECOND)):
        (tmp_path / f"{name}.csv").write_text(text)
    return [tmp_path / "first.csv", tmp_path / "second.csv"]


def test_a_crowd_under_one_name_is_noted_once(tmp_path: Path, lists: list[Path], caplog: pytest.LogCaptureFixture):
    rows = ROWS | {f"crowd/{place}": (1, place) for place in range(20)}
    file = write(tmp_path / "rows.npz", rows, [*[NOBODY] * 3, "D", NOBODY, "F", *["unknown"] * 20])
    evaluate_pairs([file, file], lists, options())
    assert caplog.text.count("rows.npz: 'unknown' holds 20 images, where the median person has 1") == 1


@pytest.mark.parametrize("apart", [False, True])
def test_several_lists_as_one(tmp_path: Path, lists: list[Path], apart: bool):
    """The first list alone: fold 0 is cut at -0.6, the best cut of fold 1 (0.96 and -0.6), so 0.8 is right and 0 wrong,
    0.5; fold 1 is cut at 0, where 0.96 and -0.6 are right, 1. The mean is 0.75, the standard deviation sqrt(2 0.25^2),
    the standard error 0.25. The second: both cuts are -1, which rejects -1, so both folds are 1.

    Pooled: fold 0 (0.8, 0, 0.6, -1) is cut at -0.6, where 0 is wrong, 0.75; fold 1 at 0, 1. Of the impostors 0, -0.6,
    -1, -1 one may pass at FAR 0.25: the threshold is -0.6, which 0 alone exceeds, an impostor of the first list.
    """
    whole = write(tmp_path / "all.npz", ROWS)
    path = (
        [write(tmp_path / "one.npz", ROWS), write(tmp_path / "two.npz", {n: ROWS[n] for n in "fedcba"})]
        if apart
        else whole
    )
    result = evaluate_pairs(path, lists, options())
    assert result.domain_accuracy is not None
    first, second = result.domain_accuracy["first"], result.domain_accuracy["second"]
    assert (first.mean, first.per_fold, first.folds, first.pairs) == (0.75, (0.5, 1.0), 2, 4)
    assert first.std == pytest.approx(0.125**0.5)
    assert first.standard_error == pytest.approx(0.25)
    assert (second.mean, second.per_fold, second.pairs) == (1.0, (1.0, 1.0), 4)
    over = result.accuracy_over_domains
    assert (over.mean, over.std_population, over.domains) == (0.875, 0.125, 2)
    assert over.std_sample == pytest.approx(0.125 * 2**0.5)
    assert result.accuracy is not None
    assert (result.accuracy.mean, result.accuracy.per_fold, result.accuracy.pairs) == (0.875, (0.75, 1.0), 8)
    (point,) = result.operating_points
    assert (point.impostor_accepted, point.impostor_total, point.genuine_total) == (1, 4, 4)
    assert point.threshold == pytest.approx(-0.6, abs=1e-6)
    (common,) = result.one_threshold
    assert [(name, one.impostor_accepted, one.tar) for name, one in common.domains.items()] == [
        ("first", 1, 1.0),
        ("second", 0, 1.0),
    ]
    said = result.text()
    assert "| first  |  0.75000 |            0.35355 |        0.25000 |     2 |     4 |" in said
    assert "mean over 2 domains 0.87500, standard deviation 0.12500 (population), 0.17678 (sample)" in said
    assert "combined, all pairs in one list: accuracy 0.87500" in said


def test_points_alone_of_several_lists(tmp_path: Path, lists: list[Path]):
    path = write(tmp_path / "all.npz", ROWS)
    points = evaluate_pairs(path, lists, options(points_only=True))
    assert points.operating_points == evaluate_pairs(path, lists, options()).operating_points
    assert (points.accuracy, points.domain_accuracy) == (None, None)


def test_onefaces_tables_have_either_standard_deviation():
    """Table 2, ArcFace: 96.71, 93.80, 95.33, 96.22, Std. 1.107, Avg. 95.51 for 95.515. The squares of the differences
    from it are 1.428, 2.941, 0.034, 0.497, in sum 4.900: sqrt(4.900 / 4) = 1.107. Table 5, CosFace: 92.93, 92.98,
    95.12, 93.93, Avg. 93.74, Std. 1.03: 0.656 + 0.578 + 1.904 + 0.036 = 3.174, and sqrt(3.174 / 3) = 1.029.
    """

    def over(*percent: float):
        return accuracy_over_domains([Accuracy(mean, 0.0, 0.0, 10, 6000, (), ()) for mean in percent])

    two, five = over(96.71, 93.80, 95.33, 96.22), over(92.93, 92.98, 95.12, 93.93)
    assert (round(two.mean, 3), round(two.std_population, 3)) == (95.515, 1.107)
    assert (round(five.mean, 2), round(five.std_sample, 2)) == (93.74, 1.03)


@pytest.mark.parametrize(
    ("files", "named", "message"),
    [
        (1, ["first", "first"], "first.csv: the list is named twice"),
        (3, ["first", "second"], "3 embeddings files for 2 lists of pairs; name one file for all lists, or one for"),
        (2, ["first"], "2 embeddings files for 1 list of pairs"),
        (1, ["first", "uneven"], "uneven.csv: 3 folds, but .*first.csv has 2; lists that are taken together have"),
        (1, ["first", "short"], "short.csv: 1 genuine pairs do not make 10 blocks, and the list names no folds"),
        (1, ["first", "first.txt"], "two lists of pairs are both called '.*/first'; rename one"),
    ],
)
def test_lists_that_cannot_be_taken_together(
    tmp_path: Path, lists: list[Path], files: int, named: list[str], message: str
):
    (tmp_path / "uneven.csv").write_text(f"{FIRST}c,d,0,2\n")
    (tmp_path / "short.csv").write_text("left,right,label\na,e,1\na,c,0\n")
    (tmp_path / "first.txt").write_text("a e 1\na c 0\n")
    wanted = [tmp_path / (name if name.endswith("txt") else f"{name}.csv") for name in named]
    path = write(tmp_path / "all.npz", ROWS)
    with pytest.raises(ValueError, match=message):
        evaluate_pairs([path] * files, wanted, options())


def test_titles_of_lists():
    assert list_titles([Path("a/pairs.txt"), Path("b/pairs.txt"), Path("c.csv")]) == ["a/pairs", "b/pairs", "c"]


def test_repeats_are_sought_in_each_list_and_not_between_lists(tmp_path: Path, lists: list[Path]):
    """SLLFW has LFW's genuine pairs: that is no fault of either."""
    path, again = write(tmp_path / "all.npz", ROWS), tmp_path / "again.csv"
    again.write_text(FIRST)
    assert evaluate_pairs(path, [lists[0], again], options()).accuracy.pairs == 8
    again.write_text(f"{FIRST}e,a,1,0\n")
    with pytest.raises(
        ValueError, match=r"again.csv: 1 of 5 pairs repeat an earlier one, first 'a' with 'e' in line 2 and"
    ):
        evaluate_pairs(path, [lists[0], again], options())
    for points_only in (False, True):
        how = options(keep_repeated=True, points_only=points_only)
        (note,) = evaluate_pairs(path, [lists[0], again], how).notes
        assert note.startswith("again.csv: repeated pairs were kept: 1 of 5 pairs")


@pytest.mark.parametrize(("how", "people"), [("merge", 3), ("exact", 6)])
def test_people_of_several_lists_follow_the_rule_of_names(tmp_path: Path, how, people: int):
    (tmp_path / "one.csv").write_text("left,right,label,fold\na,e,1,0\na,d,0,0\nb,e,1,1\nb,f,0,1\n")
    (tmp_path / "two.csv").write_text("left,right,label,fold\nc,e,1,0\nc,d,0,0\nb,c,1,1\nd,f,0,1\n")
    names = [{"d": "ben", "f": "cem"}.get(name, "ann") for name in ROWS]
    files = write(tmp_path / "x.npz", ROWS, names), write(tmp_path / "y.npz", ROWS, [name.upper() for name in names])
    asked = (
        [tmp_path / "one.csv", tmp_path / "two.csv"],
        options(fars=("0.5",), intervals=True, redrawing=Redrawing(20)),
    )
    with pytest.raises(ValueError, match="are one name but for case"):
        evaluate_pairs(files, *asked)
    with names_taken(how):
        assert evaluate_pairs(files, *asked).intervals[0].people == people


@pytest.fixture
def packs(tmp_path: Path) -> list[Path]:
    """Two verification sets of 20 pairs each, and their embeddings: in the second every decision is wrong."""
    for name, sign in (("one", 1), ("two", -1)):
        genuine = [pair % 2 == 0 for pair in range(20)]
        (tmp_path / f"{name}.bin").write_bytes(pickle.dumps(([b"image"] * 40, genuine), 2))
        rows = {}
        for pair, same in enumerate(genuine):
            rows[f"{pair:04}/left"] = (1, 0)
            rows[f"{pair:04}/right"] = (1, 0.02 * pair + 0.1) if same == (sign > 0) else (-1, 0)
        origin = Origin(model="0" * 64, flip=True, precision="float32", images=f"sets/{name}.bin", drawn=None)
        write_embeddings(
            tmp_path / f"{name}.npz",
            Embeddings(np.array(list(rows.values()), np.float32), list(rows), [NOBODY] * 40, origin=origin),
        )
    return [tmp_path / "one.bin", tmp_path / "two.bin"]


def test_verification_sets_as_one(packs: list[Path]):
    """In the first, impostors have -1 and genuine pairs more, so the cut is -1 and the accuracy 1. In the second,
    genuine pairs have -1: a cut there decides all of them wrongly, and to accept or to refuse all is best, 0.5.
    """
    result = evaluate_pairs([path.with_suffix(".npz") for path in packs], packs, options())
    assert {name: one.mean for name, one in result.domain_accuracy.items()} == {"one": 1.0, "two": 0.5}
    assert result.accuracy.pairs == 40


def test_verification_sets_are_not_mixed_up(packs: list[Path]):
    """Their images have the same names, so the rows of another set would be found without a fault."""
    rows = [path.with_suffix(".npz") for path in packs]
    with pytest.raises(ValueError, match=r"two.bin: its images have the same names as those of one.bin, 0000/left"):
        evaluate_pairs(rows[0], packs, options())
    with pytest.raises(ValueError, match=r"two.npz: made of two.bin, but is to be compared by the pairs of one.bin;"):
        evaluate_pairs(rows[::-1], packs, options())


# --- videos ---

FRAMES = {
    "Ann/1/1.2.jpg": (4, 0),
    "Ann/1/1.10.jpg": (0, 2),
    "Ann/2/2.1.jpg": (3, 0),
    "Bo/1/1.1.jpg": (0, 1),
    "Cy/0/0.1.jpg": (1, 0),
    "Cy/1/1.1.jpg": (1, 0),
    "Di/0/0.1.jpg": (-1, 0),
    "Di/1/1.1.jpg": (0, 1),
}
SPLITS = "1, 1, Ann/1, Ann/2, 1\r\n1, 2, Ann/1, Bo/1, 0\r\n2, 1, Cy/0, Cy/1, 1\r\n2, 2, Cy/0, Di/0, 0"


def frames(path: Path, above: str = "") -> Path:
    """As `embed` reads such folders: the video is taken for a person, and the person for a domain."""
    rows = {f"{above}{name}": row for name, row in FRAMES.items()}
    return write(path, rows, [name.split("/")[1] for name in FRAMES], [name.split("/")[0] for name in FRAMES])


def above_notes(above: str) -> list[str]:
    spelt = "splits.txt: 6 of 6 videos are found under names that are spelt otherwise, such as "
    return [f"{spelt}'{above}Ann/1' for 'Ann/1'"] if above else []


@pytest.mark.parametrize(("norm", "cosine"), [("keep", 1 / 5**0.5), ("drop", 0.5**0.5)])
@pytest.mark.parametrize("above", ["", "aligned_images_DB/"])
def test_a_video_is_the_mean_of_its_frames(tmp_path: Path, norm: str, cosine: float, above: str):
    """Ann's first video: the mean of (4, 0) and (0, 2) is (2, 1), of their unit rows (0.5, 0.5); Bo's is (0, 1). The
    other impostor pair has -1, so the largest impostor score is the threshold at FAR 0.25.
    """
    (tmp_path / "splits.txt").write_text(SPLITS)
    result = evaluate_pairs(frames(tmp_path / "rows.npz", above), tmp_path / "splits.txt", options(feature_norm=norm))
    assert result.operating_points[0].threshold == pytest.approx(cosine, abs=1e-6)
    assert (result.accuracy.folds, result.accuracy.pairs, result.one_threshold) == (2, 4, None)
    unused, *otherwise = result.notes
    assert unused == "splits.txt: 1 of 8 frames are not used: the list does not name their videos (1)"
    assert otherwise == above_notes(above)


def test_media_are_videos_where_the_file_has_them(tmp_path: Path):
    (tmp_path / "splits.txt").write_text(SPLITS)
    media = [name.rpartition("/")[0] for name in FRAMES]
    people = [name.split("/")[0] for name in FRAMES]
    rows = np.array(list(FRAMES.values()), np.float32)
    names = [str(number) for number in range(len(media))]
    write_embeddings(tmp_path / "media.npz", Embeddings(rows, names, people, media=media))
    apart, by_media = (
        evaluate_pairs(path, tmp_path / "splits.txt", options())
        for path in (frames(tmp_path / "rows.npz"), tmp_path / "media.npz")
    )
    assert by_media.operating_points == apart.operating_points


def test_a_label_that_contradicts_the_names_of_videos_decides(tmp_path: Path):
    (tmp_path / "splits.txt").write_text(f"{SPLITS}".replace("Di/0, 0", "Di/0, 1"))
    result = evaluate_pairs(frames(tmp_path / "rows.npz"), tmp_path / "splits.txt", options())
    assert result.operating_points[0].genuine_total == 3
    assert "splits.txt: 1 of 4 labels contradict the names of the people; the labels decide" in result.notes


@pytest.mark.parametrize("how", [None, "merge", "exact"])
def test_people_that_a_list_names_follow_the_rule_of_names(tmp_path: Path, how):
    path = tmp_path / "splits.txt"
    path.write_text(SPLITS.replace("Ann/2", "ANN/2"))
    rows = replace(read_embeddings(frames(tmp_path / "rows.npz")), domains=None)
    rows = replace(rows, names=np.char.replace(rows.names, "Ann/2", "ANN/2"))
    with names_taken(how):
        if how is None:
            with pytest.raises(ValueError, match=r"splits.txt: 'Ann' \(line 1\) and 'ANN' \(line 1\) are one name"):
                rows_of_list(read_pairs(path), path, rows, path)
            return
        found = rows_of_list(read_pairs(path), path, replace(rows), path)
    assert (len(found.names), len(found.notes)) == ((4, 1) if how == "merge" else (5, 2))


def test_a_video_without_frames_names_its_line(tmp_path: Path):
    (tmp_path / "splits.txt").write_text(SPLITS.replace("Di/0", "Ed/0"))
    with pytest.raises(
        ValueError, match=r"rows.npz: .*splits.txt: 1 videos are not in the set, first 'Ed/0' on line 4"
    ):
        evaluate_pairs(frames(tmp_path / "rows.npz"), tmp_path / "splits.txt", options())


# --- lists that know their people, groups ---


def test_a_folder_that_was_taken_for_a_person(tmp_path: Path, lists: list[Path]):
    """`embed` takes the folder of an image for its person; a list with labels alone does not know better."""
    path = write(tmp_path / "flat.npz", ROWS, ["imgs"] * len(ROWS))
    with pytest.raises(
        ValueError, match=r"first.csv: line 3: listed as impostor, .* all of them have one identity: where"
    ):
        evaluate_pairs(path, lists[0], options())


def test_calfw_in_its_own_folders(tmp_path: Path):
    """`embed` takes the folder of all images for one person; the list knows better, and redraws its people."""
    rows, lines = {}, []
    for pair in range(10):
        for image, row in ((1, (1, 0.1 * pair)), (2, (1, 0.05 * pair))):
            rows[f"aligned images/P{pair}_000{image}.jpg"] = row
    lines = [f"P{pair}_000{image}.jpg {pair + 1}" for pair in range(10) for image in (1, 2)]
    lines += [f"P{(pair + image) % 10}_0001.jpg 0" for pair in range(10) for image in (0, 1)]
    (tmp_path / "pairs_CALFW.txt").write_text("\n".join(lines))
    path = write(tmp_path / "calfw.npz", rows, ["aligned images"] * 20)
    result = evaluate_pairs(path, tmp_path / "pairs_CALFW.txt", options(intervals=True, redrawing=Redrawing(10)))
    assert (result.accuracy.folds, result.accuracy.pairs, result.intervals[0].people) == (10, 20, 10)
    assert result.notes == (
        "pairs_CALFW.txt: 20 of 20 images are found under names that are spelt otherwise, such as "
        "'aligned images/P0_0001.jpg' for 'P0_0001.jpg'",
    )


def test_groups_of_rfw(tmp_path: Path):
    """African: 0.8 and 0 in fold 0, 0.96 and -0.6 in fold 1, as the first list above; Indian as the second."""
    pairs = {"African": "aeacbebd", "Indian": "ceadbcdf"}
    rows, number = {}, 0
    for group, letters in pairs.items():
        lines = []
        for place in range(0, 8, 2):
            number += 1
            left, right = letters[place], letters[place + 1]
            other = f"p{number}" if place % 4 == 0 else f"q{number}"
            rows[f"{group}/p{number}/p{number}_0001.jpg"] = ROWS[left]
            rows[f"{group}/{other}/{other}_0002.jpg"] = ROWS[right]
            lines.append(f"p{number}\t1\t2" if place % 4 == 0 else f"p{number}\t1\t{other}\t2")
        (tmp_path / "txts" / group).mkdir(parents=True)
        (tmp_path / "txts" / group / f"{group}_pairs.txt").write_text("\n".join(lines))
    result = evaluate_pairs(
        write(tmp_path / "rfw.npz", rows), tmp_path / "txts", options(intervals=True, redrawing=Redrawing(5))
    )
    assert {name: one.mean for name, one in result.domain_accuracy.items()} == {"African": 0.75, "Indian": 1.0}
    assert result.accuracy.mean == 0.875
    assert result.one_threshold[0].domains["African"].impostor_accepted == 1
    assert [source.file for source in result.sources] == [
        "rfw.npz",
        "txts/African/African_pairs.txt",
        "txts/Indian/Indian_pairs.txt",
    ]
    african = evaluate_pairs(tmp_path / "rfw.npz", tmp_path / "txts" / "African" / "African_pairs.txt", options())
    assert (african.accuracy.mean, african.domain_accuracy, african.one_threshold) == (0.75, None, None)


# --- LFW's View 2 ---


def rewritten(source: Path, folder: Path) -> dict[str, Path]:
    """LFW's list in the layouts of other sets; the same pairs in the same order."""
    pairs = read_pairs(source)
    both = list(zip(pairs.left, pairs.right, pairs.genuine, strict=True))
    people = [left.split("/")[1] for left, _, _ in both], [right.split("/")[1] for _, right, _ in both]
    order = sorted(range(len(both)), key=lambda pair: not both[pair][2])
    texts = {
        "headerless": source.read_text().partition("\n")[2].replace("\n", "\r\n").removesuffix("\r\n"),
        "label_last": "".join(f"{left} {right} {1 if same else -1}\n" for left, right, same in both),
        "label_first": "".join(f"{int(same)} lfw_112x112/{left} lfw_112x112/{right}\n" for left, right, same in both),
        "genuine_first": "".join(f"{both[p][0]} {both[p][1]} {int(both[p][2])}\n" for p in order),
        "sllfw": "".join(f"{left}\n{right}\n" for left, right, _ in both),
        "calfw": "".join(
            f"{side[pair]} {(pairs.folds[pair] + 1) * pairs.genuine[pair]}\n" for pair in order for side in people
        ),
    }
    for name, text in texts.items():
        (folder / f"{name}.txt").write_bytes(text.encode())
    return {name: folder / f"{name}.txt" for name in texts}


def pairs_of(path: Path, embeddings: Embeddings) -> set[tuple[int, int, bool, int]]:
    """Rows, kind and fold of each pair of a list."""
    comparisons = rows_of_list(read_pairs(path), path, embeddings, Path("lfw.npz")).comparisons
    columns = comparisons.left, comparisons.right, comparisons.genuine, listed_folds(comparisons)
    return set(zip(*(column.tolist() for column in columns), strict=True))


def test_lfw_view_2_in_every_layout(real_data: Path, tmp_path: Path):
    """0.99233. In every layout that a list of these pairs can have they are the same pairs in the same folds."""
    path, source = real_data / "lfw_embeddings.npz", real_data / "lfw_protocol" / "pairs.txt"
    expected = evaluate_pairs(path, source, options())
    assert round(expected.accuracy.mean, 5) == 0.99233
    embeddings = read_embeddings(path)
    known, layouts = pairs_of(source, embeddings), rewritten(source, tmp_path)
    assert len(known) == 6000
    assert {name: pairs_of(listed, embeddings) == known for name, listed in layouts.items()} == dict.fromkeys(
        layouts, True
    )
    other = evaluate_pairs(path, layouts["calfw"], options())
    assert (other.accuracy, other.operating_points) == (expected.accuracy, expected.operating_points)


def test_a_difference_of_accuracies_is_that_of_the_means_over_folds_of_unequal_size(tmp_path: Path):
    pairs = ["a,e,1,0", "a,d,0,0", "b,e,1,1", "b,c,1,1", "c,e,1,1", "b,d,0,1", "a,f,0,1", "d,f,0,1"]
    (tmp_path / "list.csv").write_text("\n".join(["left,right,label,fold", *pairs]))
    persons = ["Ann", "Ann", "Ann", "Dan", "Ann", "Fay"]
    one = write(tmp_path / "one.npz", ROWS, persons)
    other = write(tmp_path / "other.npz", {**ROWS, "a": (1, 2), "c": (-3, 1)}, persons)
    asked = options(fars=(), redrawing=Redrawing(20, 0))
    found = evaluate_pairs([one], [tmp_path / "list.csv"], asked, [other])
    theirs = evaluate_pairs([other], [tmp_path / "list.csv"], asked).accuracy
    assert found.accuracy is not None
    assert theirs is not None
    assert found.differences is not None
    (gap,) = (one for one in found.differences if one.figure == "accuracy")
    assert gap.value == pytest.approx(found.accuracy.mean - theirs.mean)
    assert gap.value != 0
