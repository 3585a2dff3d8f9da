"""The folder of clusters: `people.csv`, which a person may edit, `clusters.json` for programs; and lists of links."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from verisphere.base.identity import decided, folded, is_missing, settled
from verisphere.base.vocabulary import NOBODY, printable
from verisphere.base.words import counted
from verisphere.decide.purity import ClusterFigures
from verisphere.files.disk import write_text
from verisphere.files.documents import read_result
from verisphere.files.embeddings import note_crowds
from verisphere.files.json_values import shown
from verisphere.files.results import EvaluatedFile, Result, first_lines
from verisphere.files.tables import csv_for_people, plain_cell
from verisphere.files.text import refuse_repeats, table_rows
from verisphere.files.work import WORK

FORMAT = 1
PEOPLE, CLUSTERS = "people.csv", "clusters.json"
UNSURE_BEFORE, ANOTHER = "unsure", "another"  # in place of a cluster
MOST_PROPOSALS = 200
_LARGEST = 2**32  # bytes of clusters.json, which has about 300 for each face
_SHOWN = 5  # entries of each kind in the text; the files have all
_COLUMNS = ("name", "person", "confirmed", "unsure", "score", "nearest", "nearest_score", "before", "alone")


@dataclass(frozen=True)
class Face:
    """A face of a cluster."""

    name: str
    score: float | None  # average with the other faces that were grouped here
    nearest: str | None  # the other cluster with the highest average score with this face
    nearest_score: float | None
    confirmed: bool = False  # whether a person has said that the face is of this person
    before: str | None = None  # the cluster of an earlier result where that was another one, or `unsure`
    alone: str | None = None  # a confirmed face's cluster by embeddings alone, if a different one, or `another`


@dataclass(frozen=True)
class Cluster:
    """Faces of one `person`, a number or a written name, the medoid first; `unsure` ones are nearer to another."""

    person: str
    faces: tuple[Face, ...]
    unsure: tuple[Face, ...] = ()


@dataclass(frozen=True)
class Proposal:
    """Two clusters that may show one person."""

    person: str
    other: str
    score: float  # average score between their faces
    needed: float  # what the average would have to be for the two to be one
    name: str  # the faces, one of each, that are nearest to each other
    other_name: str


@dataclass(frozen=True)
class Clusters(Result):
    """The faces of a library, grouped into people."""

    source: EvaluatedFile
    threshold: float  # average score from which faces are grouped
    margin: float  # a face is unsure if its score elsewhere is more than that with its cluster less this
    price: float  # what a merge must score above the threshold, over the number of faces of the larger group
    clusters: tuple[Cluster, ...]
    proposals: tuple[Proposal, ...]
    before: str | None = None  # digest of the `people.csv` of an earlier result
    gone: tuple[str, ...] = ()  # confirmed faces of that result that are not in the embeddings
    promise: str | None = None
    known: ClusterFigures | None = None
    implausible: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = Counter(face.name for _, face, _ in self.rows())
        if twice := [name for name, count in names.items() if count > 1]:
            raise ValueError(f"the face {shown(twice[0], 200)} is in it twice")

    def rows(self) -> Iterator[tuple[Cluster, Face, bool]]:
        """Each face with its cluster, and whether it is unsure, in the order of `people.csv`."""
        for cluster in self.clusters:
            yield from ((cluster, face, False) for face in cluster.faces)
            yield from ((cluster, face, True) for face in cluster.unsure)

    def counts(self) -> str:
        """How many clusters, single and unsure faces there are, in words."""
        sizes = [len(cluster.faces) for cluster in self.clusters]
        several = counted(sum(size > 1 for size in sizes), "cluster")
        unsure = sum(len(cluster.unsure) for cluster in self.clusters)
        return f"{several} of two or more, {counted(sizes.count(1), 'single face')}, {unsure:,} unsure"

    def text(self) -> str:
        """The counts, the largest clusters, and what a person should look at."""
        faces = list(self.rows())
        listed = {
            "largest clusters": [
                f"{one.person}: {len(one.faces):,} faces" for one in self.clusters if len(one.faces) > 1
            ],
            "unsure faces, nearer to another cluster than to their own": [
                f"{face.name}: {cluster.person} or {face.nearest}" for cluster, face, left in faces if left
            ],
            f"clusters that may be one person ({MOST_PROPOSALS} pairs at most)": [
                f"{pair.person} and {pair.other}: average score {pair.score:.3f}; see {pair.name} and {pair.other_name}"
                for pair in self.proposals
            ],
            "confirmed before, and not in these embeddings": self.gone,
            "grouped otherwise than before, and not confirmed": [
                f"{face.name}: {face.before} before, now {UNSURE_BEFORE if left else cluster.person}"
                for cluster, face, left in faces
                if face.before is not None
            ],
            "as confirmed, and grouped otherwise by the embeddings alone": [
                f"{face.name}: {cluster.person}, else {face.alone}" for cluster, face, _ in faces if face.alone
            ],
        }
        lines = [f"{self.source.file}: {counted(len(faces), 'face')} at threshold {self.threshold:g}: {self.counts()}"]
        lines.append(self.promise or "nothing is promised of a threshold chosen by hand")
        for title, entries in listed.items():
            lines += [f"{title}: {len(entries):,}"] * bool(entries) + [f"  {entry}" for entry in entries[:_SHOWN]]
            lines += [f"  and {len(entries) - _SHOWN:,} more"] * (len(entries) > _SHOWN)
        if (known := self.known) is not None:
            lines += first_lines([self.source], self.implausible).splitlines()
            lines.append(
                f"beside the identities of the file ({counted(known.people, 'person')}): impurity "
                f"{known.impurity:.4f}, {counted(known.mixed, 'mixed cluster')}; B-cubed precision "
                f"{known.precision:.4f}, recall {known.recall:.4f}, F {known.f:.4f}; pairs {known.pair_precision:.4f}, "
                f"{known.pair_recall:.4f}; unsure faces count alone"
            )
        return "\n".join(map(printable, lines))

    def fields(self) -> dict[str, Any]:
        """The values of `clusters.json`."""
        return {"format": FORMAT, **vars(self)}

    def write(self, folder: Path) -> None:
        """Write `people.csv` and `clusters.json` into a folder."""
        rows = []
        for cluster, face, left in self.rows():
            said, between = "yes" if face.confirmed else "", f"{cluster.person} or {face.nearest}" if left else ""
            scores = ("" if score is None else f"{score:.4f}" for score in (face.score, face.nearest_score))
            person, (score, nearest_score) = "" if left else cluster.person, scores
            rows.append((face.name, person, said, between, score, face.nearest, nearest_score, face.before, face.alone))
        write_text(folder / PEOPLE, csv_for_people(_COLUMNS, rows))
        self.write_json(folder / CLUSTERS)


def read_clusters(folder: Path) -> Clusters:
    """Reads `clusters.json` of a folder of clusters; a ValueError says what is wrong with it."""
    what = "clusters as `verisphere cluster` writes them"
    return read_result(Clusters, _finished(folder, CLUSTERS), what, _LARGEST, format=FORMAT)


def read_people(folder: Path, names: Collection[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The person of each face in `people.csv`, empty for an unsure one, and the person of each confirmed face."""
    path = _finished(folder, PEOPLE)
    cells = {plain_cell(name): name for name in names}
    about = "the file is people.csv of `verisphere cluster`, in which person and confirmed may be edited"
    people, confirmed, lines = dict[str, str](), set[str](), []
    for line, (cell, person, said) in table_rows(path, _COLUMNS[:3], about=about)[1]:
        name, person, word = str(cells.get(cell, cell)), person.strip(), said.strip().casefold()
        person = person[1:] if plain_cell(person[1:]) == person else person
        person = "" if folded(person) == NOBODY else person
        if word not in ("", "yes", "no"):
            raise ValueError(f"{path}: line {line}: confirmed is {shown(said)}; allowed are yes, no and nothing")
        if word == "yes" and not person:
            raise ValueError(f"{path}: line {line}: {shown(name, 200)} is confirmed, and column person names nobody")
        lines.append((line, name))
        people[name] = person
        confirmed |= {name} if word == "yes" else set()
    refuse_repeats(path, lines)
    sure = [name for name, person in people.items() if person]
    column = np.array(sure, str), np.array([people[name] for name in sure], str)
    settled_people = settled([(f" of {path}", *column)], decided())[0]
    note_crowds(path, settled_people)
    people |= dict(zip(sure, settled_people.tolist(), strict=True))
    return people, {name: people[name] for name in confirmed}


def _finished(folder: Path, name: str) -> Path:
    if (folder / WORK).exists():
        raise ValueError(f"{folder}: its clusters are not finished; the command that began them continues")
    return folder / name


def read_links(path: Path, other: str, rows: Mapping[str, int]) -> list[tuple[int, int]]:
    """Reads the pairs of faces of a CSV with the columns `name` and `other`, or `name` and `photograph`, as rows.

    Of photographs, with each other on which faces are paired, those lines are kept that name one.
    """
    of_photographs, lines, linked = other == "photograph", [], dict[object, list[int]]()
    for line, (name, to) in table_rows(path, ("name", other), about="it has a line for each link")[1]:
        named = [name] if of_photographs else [name, to]
        if not name.strip() or (is_missing(to) if of_photographs else not to.strip()) or named == [to, to]:
            raise ValueError(f"{path}: line {line}: {shown(f'{name},{to}', 200)} is no link of two")
        absent = [cell for cell in named if cell not in rows]
        if absent and not of_photographs:
            raise ValueError(f"{path}: line {line}: {shown(absent[0], 200)} is no face of the embeddings")
        lines.append((line, name))
        if not absent:
            linked.setdefault(to if of_photographs else line, []).extend(rows[cell] for cell in named)
    if of_photographs:
        refuse_repeats(path, lines)
    if lines and not linked:
        raise ValueError(
            f"{path}: none of what it names ({counted(len(lines), 'face')}) is in the embeddings, first "
            f"{shown(lines[0][1], 200)}"
        )
    return [pair for faces in linked.values() for pair in combinations(faces, 2)]
