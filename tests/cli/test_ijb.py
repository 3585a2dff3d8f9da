"""`verisphere evaluate ijb` on a set of eight faces whose every figure is worked out by hand.

Template 1 (Ann) is a video of two frames, (2, 0) and (4, 0), and a still, (0, 1): ((2 + 4) / 2, 1) / 2 = (1.5, 0.5), of
length sqrt(2.5) = 1.581139. The others are one face each, in directions (0, 1), (1, 0), (0.8, 0.6), (-1, 0) and
(0.6, -0.8).
Scores: 1-2: 0.5 / 1.581139 = 0.316228 (genuine), 3-4: 0.8 (genuine); impostors 1-4: (1.2 + 0.3) / 1.581139 = 0.948683,
3-6: 0.6, 3-2: 0, 1-5: -0.948683, 3-5: -1.
"""

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("process_as_it_was")

FACES = {
    "a1": (2, 0), "a2": (4, 0), "a3": (0, 1), "b": (0, 2), "c": (1, 0), "d": (4, 3), "e": (-1, 0), "f": (3, -4),
}  # fmt: skip
META = "a1 1 10\na2 1 10\na3 1 11\nb 2 20\nc 3 30\nd 4 40\ne 5 50\nf 6 60\n"
PAIRS = "1 2 1\n3 4 1\n1 4 0\n3 6 0\n3 2 0\n1 5 0\n3 5 0\n"
PEOPLE = "TEMPLATE_ID,SUBJECT_ID\n"
POINTS = " ".join(["0"] * 10)
SCORES = "".join(f"{name} {POINTS} {0.5 if name == 'a1' else 1}\n" for name in FACES)
FILES = {
    "meta.txt": META,
    "pairs.txt": PAIRS,
    "scores.txt": SCORES,
    "G1.csv": f"{PEOPLE}1,Ann\n",
    "G2.csv": "TEMPLATE_ID,SUBJECT_ID,FILENAME\n3,Ben,c\n",
    "mixed.csv": f"{PEOPLE}2,Ann\n4,Ben\n5,Cem\n",
    "cov.csv": "TEMPLATE_ID,GENDER\n1,0.0\n2,0.0\n5,0.0\n3,1.0\n4,1.0\n6,1.0\n",
}
ONE_TO_ONE = ("--meta", "meta.txt", "--pairs", "pairs.txt")
ONE_TO_N = ("--gallery", "G1.csv", "--gallery", "G2.csv", "--probes", "mixed.csv")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    names = list(FACES)[::-1]  # the rows are found by name
    save(tmp_path, {name: FACES[name] for name in names})
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def save(folder: Path, faces: dict[str, tuple[float, float]], **columns) -> None:
    rows = np.array(list(faces.values()), np.float32)
    np.savez(folder / "e.npz", embeddings=rows, names=np.array(list(faces)), **columns)


@pytest.fixture
def run(run, files: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(files)
    return partial(run, "evaluate", "ijb", "e.npz", "--json", "out.json")


@pytest.fixture
def found(says, files: Path):
    def call(*arguments: object) -> dict:
        """What the JSON has; standard output beside it under `text`."""
        text = says(*arguments)
        return {**json.loads((files / "out.json").read_text()), "text": text}

    return call


# --- 1:1 -------------------------------------------------------------------------------------------------------------


def test_one_to_one_by_hand(found):
    out = found(*ONE_TO_ONE, "--far", "0.2", "--far", "0.4", "--far", "0.1")
    # of 5 impostors: 0.2 passes the first, threshold 0.6; 0.4 passes two, threshold 0; 0.1 none
    points = out["operating_points"]
    assert [point["threshold"] for point in points] == pytest.approx([0.6, 0, 0.948683], abs=1e-6)
    assert [point["genuine_accepted"] for point in points] == [1, 2, 0]
    assert [point["impostor_accepted"] for point in points] == [1, 2, 0]
    assert [point["below_resolution"] for point in points] == [False, False, True]
    assert (points[0]["far_target"], points[0]["rule"], points[0]["tar"]) == ("0.2", "at_most", 0.5)
    pooling = {"feature_norm": "keep", "detector_scores": None, "faces": 8, "media": 7, "templates": 6}
    assert out["pooling"] == pooling
    assert [source["file"] for source in out["sources"]] == ["e.npz", "meta.txt", "pairs.txt"]
    assert "identification" not in out
    assert "notes" not in out
    assert "6 templates of 8 faces in 7 media, weighed alike, feature norm keep" in out["text"]


def test_numbers_of_templates_and_media_may_have_18_digits(found, files: Path):
    large = 10**18 - 1
    (files / "meta.txt").write_text(
        META.replace(" 1 1", f" {large} 99999999999999999").replace("b 2", f"b {large - 1}")
    )
    (files / "pairs.txt").write_text(f"{large} {large - 1} 1\n{large} 4 0\n")
    out = found(*ONE_TO_ONE, "--far", "0.1")
    # media 10 and 11 of template 1 are now 18 digits long
    assert out["operating_points"][0]["threshold"] == pytest.approx(0.948683, abs=1e-6)
    assert out["pooling"]["media"] == 7


@pytest.mark.parametrize(
    ("options", "threshold"),
    [
        # (0.5 * 2 + 1 * 4) / 2 = 2.5, so template 1 is (1.25, 0.5) of length 1.346291; 1-4: (1 + 0.3) / 1.346291
        (("--scores", "scores.txt"), 0.965615),
        # unit rows (1, 0), (1, 0), (0, 1), so template 1 is (0.5, 0.5); 1-4: (0.8 + 0.6) / sqrt(2)
        (("--feature-norm", "drop"), 0.989949),
        # (0.5 + 1) / 2 = 0.75 and 1, so template 1 is (0.375, 0.5) of length 0.625; 1-4: (0.3 + 0.3) / 0.625
        (("--feature-norm", "drop", "--scores", "scores.txt"), 0.96),
    ],
)
def test_pooling_by_hand(found, options: tuple[str, ...], threshold: float):
    out = found(*ONE_TO_ONE, *options, "--far", "0.1")
    # below resolution: the threshold is the largest impostor's score
    assert out["operating_points"][0]["threshold"] == pytest.approx(threshold, abs=1e-6)
    assert out["pooling"]["detector_scores"] == ("scores.txt" if "scores.txt" in options else None)


def test_a_score_of_zero_counts_in_its_medium_and_is_counted(found, files: Path):
    (files / "scores.txt").write_text(SCORES.replace(f"a1 {POINTS} 0.5", f"a1 {POINTS} 0") + f"g {POINTS} 1\n")
    out = found(*ONE_TO_ONE, "--scores", "scores.txt", "--far", "0.1")
    # (0 * 2 + 4) / 2 = 2, so template 1 is (1, 0.5) of length 1.118034; 1-4: (0.8 + 0.3) / 1.118034
    assert out["operating_points"][0]["threshold"] == pytest.approx(0.983870, abs=1e-6)
    assert out["notes"] == [
        "1 lines of scores.txt are of images in no template",
        "1 images have the detector score 0: they count in their medium's mean and add nothing",
    ]


def test_the_rule_reaches_the_points(found):
    # 0.35 lies nearer to 2 of 5 impostors than to 1 of 5, which `at_most` would take
    assert found(*ONE_TO_ONE, "--far", "0.35", "--rule", "nearest")["operating_points"][0]["threshold"] == 0


def test_rows_and_templates_that_nothing_uses_are_counted(found, files: Path):
    save(files, {f"crop/{name}": row for name, row in {**FACES, "x": (1, 1), "y": (1, 1)}.items()})
    (files / "pairs.txt").write_text(PAIRS.replace("3 6 0\n", ""))
    notes = found(*ONE_TO_ONE)["notes"]
    assert notes == ["2 of 10 rows of e.npz belong to no template", "1 of 6 templates are compared with none"]


def test_repeated_pairs_can_be_kept(found, files: Path):
    (files / "pairs.txt").write_text(f"{PAIRS}2 1 1\n")
    out = found(*ONE_TO_ONE, "--keep-repeated", "--far", "0.4")
    assert out["operating_points"][0]["genuine_total"] == 3
    assert out["text"].count("repeated pairs were kept") == 1
    assert out["notes"] == [
        "repeated pairs were kept: 1 of 8 pairs repeat an earlier one, first '1' with '2' in line 1 and line 8"
    ]


def test_the_columns_of_the_embeddings_file_are_not_needed_and_not_used(found, files: Path):
    before = found(*ONE_TO_ONE, "--far", "0.4")["operating_points"]
    save(files, FACES, identities=np.array(["nan"] * 8), templates=np.array(["t"] * 8))
    assert found(*ONE_TO_ONE, "--far", "0.4")["operating_points"] == before


# --- 1:N -------------------------------------------------------------------------------------------------------------


def test_one_to_n_by_hand(found):
    """Two galleries by themselves, then their mean.

    G1 has Ann (template 1): probe 2 is mated, 0.316228; strangers 4 (0.948683) and 5 (-0.948683). FPIR 0.5 lets one of
    two pass: threshold -0.948683, TPIR 1; FPIR 0.1 lets none: threshold 0.948683, TPIR 0. G2 has Ben (template 3):
    probe 4 is mated, 0.8; strangers 2 (0) and 5 (-1): TPIR 1 at thresholds -1 and 0.
    """
    out = found("--meta", "meta.txt", *ONE_TO_N, "--fpir", "0.5", "--fpir", "0.1", "--rank", "1")
    assert "operating_points" not in out
    found = out["identification"]
    points = {name: gallery["operating_points"] for name, gallery in found["galleries"].items()}
    assert {name: [point["tpir"] for point in both] for name, both in points.items()} == {"G1": [1, 0], "G2": [1, 1]}
    assert [point["threshold"] for point in points["G1"]] == pytest.approx([-0.948683, 0.948683], abs=1e-6)
    assert [point["threshold"] for point in points["G2"]] == pytest.approx([-1, 0], abs=1e-6)
    assert [point["tpir"] for point in found["mean_points"]] == [1, 0.5]
    assert [rank["rate"] for rank in found["mean_ranks"]] == [1]
    assert [source["file"] for source in found["sources"]] == ["e.npz", "meta.txt", "G1.csv", "G2.csv", "mixed.csv"]
    assert out["notes"] == ["1 of 6 templates are compared with none"]
    assert "G2: 1 people by 1 images; 1 mated and 2 non-mated probes" in out["text"]


def test_defaults_of_one_to_n_beside_one_to_one(found):
    out = found(*ONE_TO_ONE, *ONE_TO_N)
    gallery = out["identification"]["galleries"]["G1"]
    assert [point["fpir_target"] for point in gallery["operating_points"]] == ["1e-1", "1e-2"]
    assert [rank["rank"] for rank in gallery["ranks"]] == [1, 5, 10]
    assert len(out["operating_points"]) == 6
    assert "cmc" in gallery


def test_one_merged_gallery_by_ranks_alone(found, files: Path):
    """Probe 2 (Ann) scores 0.316228 and 0: rank 1. Probe 4 (Ben) scores 0.8, and 0.948683 with Ann: rank 2."""
    (files / "all.csv").write_text(f"{PEOPLE}1,Ann\n3,Ben\n")
    (files / "mixed.csv").write_text(f"{PEOPLE}2,Ann\n4,Ben\n")
    out = found("--meta", "meta.txt", "--gallery", "all.csv", "--probes", "mixed.csv", "--closed-set", "--rank", 1)
    gallery = out["identification"]["galleries"]["all"]
    assert (gallery["ranks"][0]["rate"], gallery["operating_points"]) == (0.5, [])


def test_labels_that_the_people_contradict_are_counted(found, files: Path):
    (files / "mixed.csv").write_text(f"{PEOPLE}2,Ben\n4,Ben\n5,Ann\n")
    # 1-2 is listed as genuine, 3-2 and 1-5 as impostors
    notes = found(*ONE_TO_ONE, *ONE_TO_N)["notes"]
    says = "3 labels of pairs.txt contradict the people of the gallery and probe files, first on line 1, and were used"
    assert says in notes


# --- groups ----------------------------------------------------------------------------------------------------------


def test_groups_at_one_threshold_by_hand(found):
    """FAR 0.2 of 5 impostors: t_c = 0.6.

    Group 0 (templates 1, 2, 5): genuine 0.316228 is rejected; impostor -0.948683 is rejected, and is the group's own
    threshold. Group 1 (3, 4, 6): genuine 0.8 is accepted; impostor 0.6 is rejected, and is its own threshold. So gamma
    = sqrt((1.548683^2 + 0) / 2) = 1.095084.
    """
    groups = ("--covariates", "cov.csv", "--group-by", "GENDER", "--group-name", "0=F")
    out = found(*ONE_TO_ONE, *groups, "--far", "0.2")
    common = out["one_threshold"][0]
    assert common["calibration_threshold"] == pytest.approx(0.6, abs=1e-6)
    assert {name: (domain["tar"], domain["far"]) for name, domain in common["domains"].items()} == {
        "F": (0, 0),
        "1": (1, 0),
    }
    own = [domain["threshold"] for domain in common["domains"].values()]
    assert own == pytest.approx([-0.948683, 0.6], abs=1e-6)
    assert [domain["tar_own"] for domain in common["domains"].values()] == [1, 1]
    assert (common["union"], common["gamma"]) == ("all", pytest.approx(1.095084, abs=1e-6))
    assert "group_differences" in common


def test_groups_of_people_and_templates_without_a_group(found, files: Path):
    (files / "cov.csv").write_text("SUBJECT_ID,SKINTONE\nAnn,2\nBen,3\nCem,2\nCem,3\n")
    groups = ("--covariates", "cov.csv", "--group-by", "SKINTONE", "--skip-empty")
    (files / "pairs.txt").write_text(f"{PAIRS}1 3 0\n2 4 1\n4 5 1\n")
    (files / "mixed.csv").write_text(f"{PEOPLE}2,Ann\n4,Ann\n5,Ben\n")
    out = found(*ONE_TO_ONE, *ONE_TO_N, *groups, "--far", "0.4", "--closed-set")
    # 2: Ann's templates 1, 2, 4 with the pairs 1-2 and 2-4 (genuine) and 1-4; 3: Ben's 3, 5 with 3-5, which is skipped
    common = out["one_threshold"][0]
    assert (list(common["domains"]), common["skipped"]) == (["2"], ["3"])
    assert (common["domains"]["2"]["genuine_total"], common["domains"]["2"]["impostor_total"]) == (2, 1)
    assert "1 of 6 templates have no SKINTONE: their pairs are in no group" in out["notes"]
    assert "1 people have several values of SKINTONE, and so none" in out["notes"]


@pytest.mark.parametrize("name", ["cov.csv", "mixed.csv"])
@pytest.mark.parametrize(("ann", "ben", "otherwise", "how"), [("Ann", "Ben", "aNN", "merge"), ("1", "2", ".0", None)])
def test_people_are_who_they_are_by_the_rule_of_names(found, refused, files: Path, name, ann, ben, otherwise, how):
    texts = {file: FILES[file] for file in ("G1.csv", "G2.csv", "mixed.csv")}
    texts["cov.csv"] = "SUBJECT_ID,GENDER\nAnn,0\nBen,1\nCem,0\n"
    texts = {file: text.replace("Ann", ann).replace("Ben", ben).replace("Cem", "3") for file, text in texts.items()}
    for file, text in texts.items():
        (files / file).write_text(text)
    groups = ("--covariates", "cov.csv", "--group-by", "GENDER", "--skip-empty")
    asked = (*ONE_TO_ONE, *ONE_TO_N, *groups, "--closed-set", "--far", "0.4")
    expected = found(*asked)
    if how is None:  # every person of the file as a data frame writes a number
        number = r"^(\d)" if name == "cov.csv" else r"(\d)$"
        (files / name).write_text(re.sub(number, rf"\1{otherwise}", texts[name], flags=re.MULTILINE))
    else:
        (files / name).write_text(texts[name].replace(ann, otherwise))
        (files / "out.json").unlink()
        says = refused(*asked)
        assert "are one name but for case" in says
        assert name in says
        asked = (*asked, "--names", how)
    other = found(*asked)
    assert other["sources"][0].get("names_rule") == how
    assert expected["one_threshold"][0]["domains"]
    for key in ("one_threshold", "operating_points"):
        assert other[key] == expected[key]
    assert other["identification"]["galleries"] == expected["identification"]["galleries"]


def test_covariates_of_people_need_the_files_that_say_who_is_who(refused, files: Path):
    (files / "cov.csv").write_text("SUBJECT_ID,GENDER\nAnn,0\n")
    says = refused(*ONE_TO_ONE, "--covariates", "cov.csv", "--group-by", "GENDER")
    assert "cov.csv: its values are of a SUBJECT_ID, and it has no TEMPLATE_ID; which template shows whom is in" in says


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("pairs.txt", "1 2 1\n", "pairs.txt: there are no impostor scores"),
        ("pairs.txt", "1 4 0\n", "pairs.txt: there are no genuine scores"),
        ("meta.txt", META.replace("e 5", "x 5"), "first 'x'"),
        ("meta.txt", META.replace("e 5 50", "c 5 50\ne 5 51"), "meta.txt: line 7: template 5 of 2 faces pools to"),
        ("scores.txt", SCORES.replace(f"c {POINTS} 1", f"c {POINTS} 0"), "for its detector scores are all 0, or its"),
        ("G1.csv", f"{PEOPLE}1,Ann\n3,Dee\n", "G2.csv: line 2: template 3 shows 'Ben', but 'Dee' in G1.csv"),
        ("G1.csv", f"{PEOPLE}1,Dee\n", "mixed.csv searched in G1.csv: none of 3 probes shows a person"),
        ("mixed.csv", f"{PEOPLE}1,Ann\n", "mixed.csv: line 2: template 1 is enrolled in G1.csv too"),
        ("mixed.csv", f"{PEOPLE}2,Ann\n", "mixed.csv searched in G1.csv: all 1 probes show people"),
        ("cov.csv", "TEMPLATE_ID,GENDER\n1,nan\n", "cov.csv: GENDER has 0 values for the templates of meta.txt"),
    ],
)
def test_a_mistake_in_a_file_is_one_line(refused, files: Path, name: str, text: str, says: str):
    (files / name).write_text(text)
    groups = ("--covariates", "cov.csv", "--group-by", "GENDER")
    assert says in refused(*ONE_TO_ONE, *ONE_TO_N, *groups, "--scores", "scores.txt")
    assert not (files / "out.json").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((*ONE_TO_ONE, "--closed-set"), "--closed-set is for 1:N, which takes --gallery and --probes; give them, or"),
        ((*ONE_TO_ONE, "--rank", "3"), "--rank is for 1:N"),
        ((*ONE_TO_ONE, "--skip-empty"), "--skip-empty does nothing here: it is for the groups of --group-by"),
        (
            ("--meta", "meta.txt", *ONE_TO_N, "--closed-set", "--rule", "nearest"),
            "--rule does nothing here: ranks alone, by --closed-set",
        ),
        ((*ONE_TO_ONE, "--covariates", "cov.csv"), "--covariates names the file and --group-by its column"),
        ((*ONE_TO_ONE, "--group-by", "GENDER"), "--covariates names the file and --group-by its column"),
        ((*ONE_TO_ONE, "--group-by", "GENDER", "--group-name", "0"), "--group-name is '0'; it takes VALUE=NAME"),
        (
            (*ONE_TO_ONE, "--covariates", "cov.csv", "--group-by", "GENDER", "--group-name", "2=F"),
            "--group-name 2=F: no template has this GENDER; its values are 0, 1",
        ),
        (
            (*ONE_TO_ONE, "--covariates", "cov.csv", "--group-by", "GENDER", "--group-name", "0=1"),
            "two values of GENDER are called '1'",
        ),
    ],
)
def test_a_wrong_call_is_one_line(refused, arguments: tuple[str, ...], says: str):
    assert says in refused(*arguments)
