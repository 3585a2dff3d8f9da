"""What docstrings, recipes and pages say of the papers: sections exist and have that subject, tables have those rows.

The papers are not part of the project, so their sections are listed here, by their titles and by words of which a
reference has at least one nearby. Where the papers' texts lie beside the project, the titles are looked up in them.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from conftest import DATA
from verisphere.files.definitions import read_based
from verisphere.files.packaged_recipes import comment, packaged_recipes

ROOT = Path(__file__).parents[2]

#: The sections that a reference can name, each with its title and its subjects; not introductions and conclusions.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "ArcFace": {
        "3.1": ("ArcFace", "margin|triplet|intra|inter"),
        "3.2": ("Sub-center ArcFace", "sub-?_?cent|clean"),
        "3.3": ("Inversion of ArcFace", "inver"),
        "4.1": ("Implementation Details", "casia|schedule|states it"),
        "4.2": ("Ablation Study on ArcFace", "margin|ablation"),
        "4.3": ("Ablation Study on Sub-center ArcFace", "sub-?_?cent|ablation"),
        "4.4": ("Benchmark Results", "distil|teach|megaface|ijb|similarity_kl"),
        "4.5": ("Inversion of ArcFace", "inver"),
    },
    "SphereFace2": {
        "2.1": ("Overview and Preliminaries", "binary"),
        "2.2": ("A Principled View on Loss Function", "adjust|balance|margin|bias"),
        "2.3": ("Geometric Interpretation", "geometr"),
        "2.4": ("Efficient Model Parallelization on GPUs", "parallel|shard"),
        "3.1": ("Ablation Study and Exploratory Experiments", "ablation|combined|hyperparameter|margin"),
        "3.2": ("Evaluations on Large-scale Benchmarks", "ijb|megaface"),
        "3.3": ("Noisy Label Learning", "noise|wrong"),
        "3.4": ("Model Parallelization", "gpu|parallel"),
    },
    "AnchorFace": {
        "3.1": ("Preliminary on the computation of TAR and FAR", "far|tar"),
        "3.2": ("AnchorFace", "online-updating|anchor threshold|far loss|tar loss"),
        "3.3": ("Discussion", "discuss"),
        "4.1": ("Implementation details", "schedule|batch|trained"),
        "4.2": ("Results on the IJB-B and IJB-C datasets", "ijb"),
        "4.3": ("Results on the IFRT dataset", "ifrt"),
        "4.4": ("Results on the LFW and MegaFace datasets", "lfw|megaface"),
        "4.5": ("Ablation study", "ablation"),
        "4.6": ("Further analysis", "class centers|figure"),
    },
    "OneFace": {
        "3": ("Preliminary", "preliminar"),
        "4.1": ("One-Threshold-for-All Evaluation Protocol", "one.threshold"),
        "4.2": ("Threshold Consistency Penalty", "penalt|domain|queue"),
        "5.1": ("Implementation Details", "bupt|ms1m"),
        "5.2": ("Experimental results under the OTA evaluation protocol", "compared|races|genders"),
        "5.3": ("Analysis", "compared|cost|fair"),
        "5.4": ("Discussion", "discuss"),
    },
    "Loss search": {
        "3.1": ("Analysis of Margin-based Softmax Loss", "margin"),
        "3.2": ("Random Search", "random"),
        "3.3": ("Reward-guided Search", "reward"),
        "3.4": ("Optimization", "algorithm|reinforce"),
        "4.1": ("Datasets", "overlap|images"),
        "4.2": ("Experimental Settings", "scale|numbers of its paper|virtual classes"),
        "4.3": ("Ablation Study", "modulating factor|candidates"),
        "4.4": ("Results on LFW, SLLFW, CALFW, CPLFW, AgeDB, CFP", "lfw"),
        "4.5": ("Results on RFW", "rfw"),
        "4.6": ("Results on MegaFace and Trillion-Pairs", "megaface|trillion"),
    },
}

#: How the papers are named; other publications are named so that a reference to them counts for none of the five.
NAMES = {
    "ArcFace": r"\bArcFace\b|1801\.07698|Deng et al",
    "SphereFace2": r"\bSphereFace2\b|2108\.01513|Wen et al",
    "AnchorFace": r"\bAnchorFace\b",
    "OneFace": r"\bOneFace\b",
    "Loss search": r"\b[Ll]oss(?:-function)? search\b|2007\.06542|Wang et al\. 2020",
    "Liu": r"Liu et al\.? ?\(?,? ?(?:AAAI )?2022",  # AnchorFace or OneFace, the one that was named before
    "another": r"arXiv:\d{4}\.\d{4,5}|[A-Z]\w+(?: et al\.| and [A-Z]\w+)? \(?\d{4}\b|\bRFC \d+|\bMobileFaceNet\b",
}
_REFERENCE = re.compile(r"\bsections? ((?:\d(?:\.\d)?)(?:(?:, | and | to )\d(?:\.\d)?)*)\b(?!\.\d)")
_NEARBY = 200  # letters on either side in which a reference has a word of its section's subject


def papers_named(text: str) -> list[tuple[int, str]]:
    """Where publications are named in a text, in order; of names at one place the first of `NAMES` counts."""
    found: dict[int, str] = {}
    for paper, pattern in NAMES.items():
        for match in re.finditer(pattern, text):
            found.setdefault(match.start(), paper)
    named: list[tuple[int, str]] = []
    for place, paper in sorted(found.items()):
        if paper == "Liu":
            paper = next((before for _, before in reversed(named) if before in ("AnchorFace", "OneFace")), "another")
        named.append((place, paper))
    return named


def wrong_sections(text: str, path: str) -> list[str]:
    """The references of a text to sections that are not there, or that are about something else."""
    wrong = []
    named = papers_named(text) if _REFERENCE.search(text) else []
    for match in _REFERENCE.finditer(text):
        paper = next((paper for place, paper in reversed(named) if place < match.start()), "another")
        if paper == "another":
            continue
        nearby = path + " " + text[max(match.start() - _NEARBY, 0) : match.end() + _NEARBY].lower()
        for number in re.findall(r"\d(?:\.\d)?", match[1]):
            if number not in SECTIONS[paper]:
                wrong.append(f"{path}: {paper} has no section {number}, or a part of it is meant")
            elif not re.search(SECTIONS[paper][number][1], nearby):
                wrong.append(f"{path}: section {number} of {paper} is {SECTIONS[paper][number][0]!r}")
    return wrong


def texts() -> Iterator[Path]:
    """The files in which papers are named; the reference pages are made of the others."""
    for folder, suffixes in (("src", (".py", ".yaml")), ("docs", (".py", ".md")), ("benchmarks", (".py",))):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and ("reference" not in path.parts or path.suffix == ".py"):
                yield path
    yield from (ROOT / "README.md", ROOT / "CHANGELOG.md")


@cache
def prose(path: Path) -> str:
    """The text of a file without the marks of comments and without line ends in sentences."""
    return re.sub(r"\s+", " ", re.sub(r"^\s*#:? ", " ", path.read_text(encoding="utf-8"), flags=re.MULTILINE))


def test_the_sections_of_papers_exist_and_are_about_the_subject():
    wrong = [fault for path in texts() for fault in wrong_sections(prose(path), str(path.relative_to(ROOT)))]
    assert not wrong


def test_references_are_found():
    counted = [len(_REFERENCE.findall(prose(path))) for path in texts()]
    assert sum(counted) > 40  # so that a change of the pattern cannot silently check nothing


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("Cleaning (ArcFace, section 3.2) drops sub-centers.", ""),
        ("Cleaning (ArcFace, section 3.3) drops sub-centers.", "is 'Inversion of ArcFace'"),
        ("The L2 of distillation (Deng et al. 2021, section 4.5).", "is 'Inversion of ArcFace'"),
        ("Inversion (Deng et al. 2021, arXiv:1801.07698v4, section 5).", "ArcFace has no section 5"),
        ("Inversion (ArcFace, sections 3.3 and 4.4).", "section 4.4 of ArcFace is 'Benchmark Results'"),
        ("Inversion (ArcFace, section 4.6).", "ArcFace has no section 4.6"),
        ("OneFace's one threshold (Liu et al. 2022, section 3).", "is 'Preliminary'"),
        ("FaceNet, arXiv:1503.03832, section 9.9, after ArcFace", ""),
    ],
)
def test_a_wrong_section_is_found(text: str, fault: str):
    wrong = wrong_sections(text, "x.py")
    assert len(wrong) == bool(fault)
    assert all(fault in line for line in wrong)


@pytest.mark.parametrize("paper", SECTIONS)
def test_the_titles_are_those_of_the_papers(paper: str):
    path = DATA.parent / "papers" / {"Loss search": "loss_function_search"}.get(paper, paper.lower())
    path = path.with_suffix(".txt")
    if not path.is_file():
        pytest.skip(f"{path} is not there; the papers are not part of the project")
    text = re.sub(r"\s+", " ", path.read_text(encoding="utf-8")).lower()
    for number, (title, _) in SECTIONS[paper].items():
        assert title.lower() in text, number
        if paper != "ArcFace":  # whose numbers are partly lost in the text
            assert f"{number} {title.lower()}" in text, number


#: The network that a table's rows are trained with: its class and depth.
NETWORKS = {
    "ArcFace": {2: "IResNet 50", 3: "IResNet 50", 4: "IResNet 100", 5: "IResNet 100", 8: "IResNet 100"},
    "SphereFace2": dict.fromkeys((2, 3, 4, 5, 11, 12, 14, 15, 16), "SFNet 20") | dict.fromkeys((6, 7, 8), "SFNet 64"),
    "AnchorFace": dict.fromkeys((1, 2, 3, 4, 7, 8), "IResNet 100") | dict.fromkeys((5, 6), "IResNet 50"),
    "OneFace": {2: "IResNet 34", 3: "IResNet 100", 4: "IResNet 34"},
    "Loss search": dict.fromkeys(range(3, 11), "SEResNet 50"),
}
#: Folders of recipes, and the paper that "its table" means in them.
FOLDERS = {
    "losses": "",
    "subcenter": "ArcFace",
    "sphereface2": "SphereFace2",
    "anchorface": "AnchorFace",
    "oneface": "OneFace",
}


def wrong_tables(recipe: str, comment: str, network: str) -> list[str]:
    """The tables that a recipe's comment names as its own and that have rows of another network.

    A sentence that names another recipe speaks of that one's table.
    """
    wrong = []
    text = " ".join(comment.split())
    named = papers_named(text)
    for match in re.finditer(r"\btables? (\d+(?:(?:, | and | to )\d+)*)", text):
        sentence = text[text.rfind(". ", 0, match.start()) + 1 :].split(". ")[0]
        others = [name for name in re.findall(r"\w+/\w+", sentence) if name in packaged_recipes() and name != recipe]
        before = [paper for place, paper in named if place < match.start() and paper in SECTIONS]
        paper = FOLDERS[recipe.split("/")[0]] or (before[-1] if before else "")
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", match[1]):
            for number in range(int(first), int(last or first) + 1):
                trained = NETWORKS.get(paper, {}).get(number, network)
                if trained != network and not others:
                    wrong.append(f"{recipe}: the rows of {paper}'s table {number} are trained with {trained}")
    return wrong


def network_of(recipe: str) -> str:
    """Class and depth of the network of a packaged recipe."""
    backbone: Any = read_based(packaged_recipes()[recipe]).content["backbone"]
    if "backbone" in backbone["init_args"]:  # a network around another
        backbone = backbone["init_args"]["backbone"]
    return f"{backbone['class_path'].rpartition('.')[2]} {backbone['init_args'].get('depth', '')}"


def test_a_recipe_names_the_tables_whose_rows_are_trained_as_it_is():
    recipes = [name for name in packaged_recipes() if name.split("/")[0] in FOLDERS]
    assert not [
        fault for name in recipes for fault in wrong_tables(name, comment(packaged_recipes()[name]), network_of(name))
    ]


@pytest.mark.parametrize(
    ("recipe", "comment", "fault"),
    [
        ("losses/a", "A loss. It is also a row of SphereFace2's table 5.", "table 5 are trained with SFNet 20"),
        ("losses/a", "A loss. A row of SphereFace2's table 5 is sphereface2/curricularface_20.", ""),
        ("anchorface/a", "AnchorFace on ArcFace: tables 1 and 4 to 7.", "table 6 are trained with IResNet 50"),
        ("anchorface/a", "AnchorFace on ArcFace: tables 1, 3, 4, 7 and 8.", ""),
        ("losses/a", "A loss (ArcFace, table 8).", ""),
    ],
)
def test_a_wrong_table_is_found(recipe: str, comment: str, fault: str):
    wrong = wrong_tables(recipe, comment, "IResNet 100")
    assert bool(wrong) == bool(fault)
    assert not wrong or fault in wrong[-1]
