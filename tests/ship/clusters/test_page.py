"""The page of clusters: counts, the promise, doubtful faces beside medoids, merge proposals, and what is left out."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from made_library import edited, library, saved
from read_page import Page, read_alone
from verisphere.base.vocabulary import Embeddings
from verisphere.files.clusters import Cluster, Clusters, Face, Proposal
from verisphere.files.streamed_rows import evaluated
from verisphere.images import InMemory
from verisphere.ship.clusters.clusters import ClusterOptions, cluster_folder
from verisphere.ship.clusters.page import FIRST, LAST, MOST_CARDS, MOST_CLUSTERS, clusters_page

ANN = Cluster(
    "Ann", (Face("a/1", 0.7, "2", 0.2, confirmed=True), Face("a/2", 0.6, "2", 0.3), Face("a/3", 0.45, None, None))
)
TWO = Cluster(
    "2", (Face("b/1", 0.5, "Ann", 0.2), Face("b/2", 0.5, None, None, before="5")), (Face("c", 0.41, "Ann", 0.44),)
)
ONE = Cluster("3", (Face("d<b>", None, "Ann", 0.42),))
MERGE = Proposal("Ann", "3", 0.42, 0.433, "a/2", "d<b>")


def images(names: list[str]) -> InMemory:
    shades = torch.arange(len(names), dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 8, 8).contiguous()
    return InMemory(shades, tuple(names), ("x",) * len(names))


@pytest.fixture
def made(tmp_path: Path) -> Clusters:
    faces = Embeddings([[1.0, 0.0]], names=["a/1"], identities=["x"])
    return Clusters(evaluated(saved(tmp_path, faces), faces), 0.4, 0.0, 0.1, (ANN, TWO, ONE), (MERGE,))


def page_of(made: Clusters, *arguments: object) -> tuple[Page, dict[str, list[str]]]:
    """The page as it is read, and the faces of each section, in order."""
    names = [face.name for _, face, _ in made.rows()]
    page = read_alone(clusters_page(made, images(names), *arguments).html(lambda plot: b""))
    shown: dict[str, list[str]] = {}
    for element, attributes in page.elements:
        if element == "h2":
            faces = shown.setdefault(str(attributes["id"]), [])
        elif element == "img":
            faces.append(str(attributes["alt"]).removeprefix("Face: "))
    return page, shown


def test_doubts_stand_beside_medoids_and_clusters_begin_with_theirs(made: Clusters):
    page, shown = page_of(made)
    assert "7 faces: 2 clusters of two or more, 1 single face, 1 unsure. Threshold 0.4." in page.text
    assert "Nothing is promised of these clusters" in page.text
    assert shown == {
        "about": [],
        "merges": ["a/1", "a/2", "d<b>"],
        "unsure": ["b/1", "c", "a/1", "c"],
        "fit": ["a/1", "a/3", "b/1", "b/2", "a/1", "a/2"],  # the lowest first, without medoids and confirmed faces
        "moved": ["b/1", "b/2"],
        "clusters": ["a/1", "a/2", "a/3", "b/1", "b/2"],
    }
    for told in (
        "score 0.4200, 0.4330 needed",
        "Ann: 3 faces, 1 confirmed",
        "3: 1 face",
        "score 0.410 with 2",
        "score 0.440 with Ann",
        "before: 5",
        "score 0.450 with Ann: 3 faces, 1 confirmed",
        "0.700 confirmed",
    ):
        assert told in page.text
    assert "These pictures show people" in page.text


def test_the_promise_the_risk_of_a_merge_and_known_people_are_stated(made: Clusters, tmp_path: Path):
    promised = replace(made, promise="promised: at most 1 % of faces")
    page, _ = page_of(promised, lambda score: f"1 in {score * 50:.0f} merges is wrong")
    assert "Promised: at most 1 % of faces." in page.text
    assert "Nothing is promised" not in page.text
    assert "1 in 19 merges is wrong" in page.text  # at 0.42 less the 0.033 that small groups pay
    known = cluster_folder(saved(tmp_path, library()), tmp_path / "out", ClusterOptions(0.45, known=True)).known
    page, _ = page_of(replace(made, known=known))
    whole = (
        "0.00 % of its faces are in a cluster that is mostly of another person, 0 clusters hold faces of two people or"
    )
    assert f"{whole} more, and B-cubed recall is " in page.text
    page, _ = page_of(replace(made, known=known, implausible=("all scores are equal",)))
    assert "all scores are equal." in page.text


def test_a_large_library_shows_part_and_says_so(made: Clusters):
    def cluster(number: int, size: int, unsure: int) -> Cluster:
        faces = [Face(f"{number}/{face}", 0.9 - face / 100, "1", 0.1) for face in range(size + unsure)]
        return Cluster(str(number), tuple(faces[:size]), tuple(faces[size:]))

    clusters = [cluster(1, 40, MOST_CARDS + 5), *(cluster(number, 2, 0) for number in range(2, MOST_CLUSTERS + 9))]
    page, shown = page_of(replace(made, clusters=tuple(clusters), proposals=()))
    first = [f"1/{face}" for face in (*range(FIRST), *range(40 - LAST, 40))]
    assert shown["clusters"][: len(first) + 1] == [*first, "2/0"]
    assert "28 more between" in page.text
    assert len(shown["clusters"]) == len(first) + 2 * (MOST_CLUSTERS - 1)
    assert f"The first {MOST_CLUSTERS} of {len(clusters)} are shown; people.csv has all faces." in page.text
    assert len(shown["unsure"]) == 4 * MOST_CARDS
    assert f"The first {MOST_CARDS} of {MOST_CARDS + 5} are shown" in page.text
    assert "merges" not in shown


def test_a_page_of_three_thousand_clusters_is_bounded_and_says_what_is_left_out(made: Clusters):
    def cluster(number: int) -> Cluster:
        moved = {"before": "9"} if number % 3 == 0 else {}
        faces = [Face(f"{number}/{face}", 0.9 - face / 100, "1", 0.1, **moved) for face in range(2 + number % 20)]
        unsure = (Face(f"{number}/unsure", 0.4, "1", 0.5),) if number % 2 else ()
        return Cluster(str(number), tuple(faces), unsure)

    clusters = tuple(cluster(number) for number in range(1, 3001))
    merges = tuple(Proposal("1", str(other), 0.42, 0.433, "1/0", f"{other}/1") for other in range(2, 202))
    whole = replace(made, clusters=clusters, proposals=merges)
    page, shown = page_of(whole)
    assert "3,000 clusters of two or more, 0 single faces, 1,500 unsure" in page.text
    most = {"merges": 4, "unsure": 4, "fit": 2, "moved": 2}
    for section, faces in most.items():
        assert MOST_CARDS * faces // 2 < len(shown[section]) <= MOST_CARDS * faces
    assert len(shown["clusters"]) <= MOST_CLUSTERS * (FIRST + LAST)
    assert page.text.count("more between") == sum(len(one.faces) > FIRST + LAST for one in clusters[:MOST_CLUSTERS])
    for total in ("200", "1,500", f"{sum(len(one.faces) for one in clusters[2::3]):,}"):
        assert f"The first {MOST_CARDS} of {total} are shown; people.csv has all faces." in page.text
    assert f"The first {MOST_CLUSTERS} of 3,000 are shown; people.csv has all faces." in page.text
    assert "Merge proposals, 200 at most" in page.text
    tenth = replace(made, clusters=clusters[:300], proposals=merges)
    sizes = [len(clusters_page(one, images([face.name for _, face, _ in one.rows()])).html(lambda plot: b""))
             for one in (whole, tenth)]  # fmt: skip
    assert sizes[0] < 1.1 * sizes[1]


def test_one_face_makes_a_page(made: Clusters):
    page, shown = page_of(replace(made, clusters=(ONE,), proposals=()))
    assert shown == {"about": []}
    assert "1 face: 0 clusters of two or more, 1 single face, 0 unsure" in page.text


def test_the_page_is_written_with_the_clusters_and_moved_faces_are_on_it(tmp_path: Path):
    faces = library()
    path, out, later = saved(tmp_path, faces), tmp_path / "out", tmp_path / "later"
    cluster_folder(path, out, ClusterOptions(0.45), images=images(faces.names.tolist()))
    assert read_alone((out / "index.html").read_text()).text.startswith("People of library.npz")
    edited(out, {"p1/2": ("1", "")})
    cluster_folder(path, later, ClusterOptions(0.45, before=out), images=images(faces.names.tolist()))
    assert "Faces that are grouped otherwise than before (1)" in (later / "index.html").read_text()


def test_other_images_than_those_that_were_embedded_are_refused_before_any_work(tmp_path: Path):
    path = saved(tmp_path, library())
    with pytest.raises(
        ValueError, match=r"39 of 40 images of .*library\.npz are not in the set of faces, the first is"
    ):
        cluster_folder(path, tmp_path / "out", ClusterOptions(0.45), images=images(["p0/0"]))
    assert not (tmp_path / "out").exists()
