"""People of a training set who are also in a test set, by name, id and embedding; and the training set without them."""

import logging
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from verisphere.base.identity import as_known, as_read, decided, settled
from verisphere.base.provenance import check_same_origin
from verisphere.base.vocabulary import NOBODY, Progress, quietly
from verisphere.base.words import counted
from verisphere.files.disk import write_whole
from verisphere.files.embeddings import note_crowds
from verisphere.files.image_suffixes import SUFFIXES
from verisphere.files.json_values import shown
from verisphere.files.label_lists import LabelList, read_labels, write_labels
from verisphere.files.people_lists import read_people
from verisphere.files.results import Result
from verisphere.files.sharded import holds_embeddings
from verisphere.files.streamed_rows import StreamedRows, open_rows
from verisphere.files.tables import csv_for_people
from verisphere.files.text import numbered_lines
from verisphere.images.packs.columns import coded, take
from verisphere.models.described_faces import open_faces
from verisphere.report.tables import number, table
from verisphere.score.near_pairs import near_pairs
from verisphere.score.pairs import pair_scores, unit_rows
from verisphere.study.clean.same_person.centers import Centers, class_centers
from verisphere.study.clean.same_person.names import Grade, matches

KEPT, KEPT_PEOPLE, CSV, JSON = "kept.txt", "kept_people.txt", "overlap.csv", "overlap.json"
#: Which matches of names are removed, by the word on the command line: those of this grade and closer ones.
REMOVED = {
    "none": None,
    "equal": Grade.EQUAL,
    "words": Grade.SAME_WORDS,
    "initials": Grade.INITIAL,
    "loose": Grade.FIRST_AND_LAST,
}
PRINTED = 30
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class People:
    """The people of a set, sorted and without `NOBODY`, and its images if it has any, as a list of people has not."""

    path: Path
    identities: tuple[str, ...]
    labels: LabelList | None = None

    @property
    def is_embeddings(self) -> bool:
        """Whether the path is a file of embeddings."""
        return holds_embeddings(self.path)


def open_people(path: Path, trust: bool = False) -> People:
    """The people of a data set, a list of people, a list of labels or a file of embeddings."""
    if holds_embeddings(path):
        rows = open_rows(path, ("names", "identities"))
        assert rows.identities is not None
        return _people(path, LabelList(rows.names.tolist(), rows.identities.tolist()))
    if path.is_file() and path.suffix.lower() in (".txt", ".csv", ".lst"):
        first = next((text for _, text in numbered_lines(path)), "")
        columns = [cell.strip() for cell in first.split(",")]
        images = re.search(f"({'|'.join(map(re.escape, SUFFIXES))})([\\s,]|$)", first, re.IGNORECASE)
        if {"name", "identity"} <= set(columns):
            return _people(path, read_labels(path))
        if path.suffix.lower() == ".txt" and not images:
            listed = np.array(read_people(path), str)
            people = settled([(f" of {path}", listed, listed)], decided())[0]
            return People(path, tuple(sorted({*people.tolist()} - {NOBODY})))
    faces = open_faces(path, trust=trust)
    labels = LabelList(faces.names, faces.identities, faces.domains, faces.true_identities)
    return _people(path, labels, noted=True)


def _people(path: Path, labels: LabelList, noted: bool = False) -> People:
    """The people of a list, whose crowds are named unless the reader has done it."""
    if not noted:
        note_crowds(path, labels.identities)
    return People(path, tuple(sorted({*coded(labels.identities).present()} - {NOBODY})), labels)


@dataclass(frozen=True)
class Match:
    """A person of the training set who may be in the test set."""

    identity: str
    other: str  # `NOBODY` for an image without a known person
    how: str  # `name`, `id`, `center`, or `image` where a single image reaches the threshold and the centers do not
    grade: str  # closeness of the names; empty for a match by id or embedding
    name: str  # for a match by image, the image
    other_name: str
    score: float | None  # of the two centers, or of center and image
    removed: bool


@dataclass(frozen=True, eq=False)
class Overlap(Result):
    """People of a training set who are in a test set.

    `nameless` and `unseen` count the people of either set whose identities are numbers that no list translates, and
    those without an embedding.
    """

    train: People
    test: People
    matches: Sequence[Match]
    nameless: tuple[int, int]
    threshold: float | None = None
    unseen: tuple[int, int] = (0, 0)

    @property
    def removed(self) -> list[str]:
        """The people who are removed, sorted."""
        return sorted({match.identity for match in self.matches if match.removed})

    def fields(self) -> dict[str, Any]:
        """All of `overlap.json`."""
        ways: dict[str, dict[str, int]] = {}
        for match in self.matches:
            way = f"{match.how}: {match.grade}" if match.grade else match.how
            counts = ways.setdefault(way, {"matches": 0, "removed": 0})
            counts["matches"] += 1
            counts["removed"] += match.removed
        images = 0
        if self.train.labels is not None:
            gone = set(self.removed)
            images = sum(identity in gone for identity in self.train.labels.identities)
        return {
            "train": str(self.train.path),
            "test": str(self.test.path),
            "train_people": len(self.train.identities),
            "test_people": len(self.test.identities),
            "people_without_a_name": {"train": self.nameless[0], "test": self.nameless[1]},
            "people_without_an_embedding": {"train": self.unseen[0], "test": self.unseen[1]},
            "threshold": self.threshold,
            "people_removed": len(self.removed),
            "images_removed": images,
            "matches": ways,
        }

    def write(self, folder: Path) -> None:
        """Write `overlap.csv`, `overlap.json` and the kept part of the set into a new folder, wholly or not at all."""
        gone = set(self.removed)
        people_left = [identity for identity in self.train.identities if identity not in gone]
        if not people_left:
            raise ValueError(
                f"{self.train.path}: all of its {len(gone):,} people are in {self.test.path}: nobody is left"
            )

        def write(partial: Path) -> None:
            partial.mkdir()
            labels = self.train.labels
            if labels is None:
                (partial / KEPT_PEOPLE).write_text("".join(f"{name}\n" for name in people_left), encoding="utf-8")
            else:
                rows = np.array([identity not in gone for identity in labels.identities], bool).nonzero()[0]
                kept = LabelList(
                    take(labels.names, rows),
                    take(labels.identities, rows),
                    None if labels.domains is None else take(labels.domains, rows),
                    None if labels.true_identities is None else take(labels.true_identities, rows),
                )
                write_labels(partial / KEPT, kept)
            (partial / CSV).write_text(self._csv(), encoding="utf-8", newline="")
            (partial / JSON).write_text(self.json(), encoding="utf-8")

        write_whole(folder, write)

    def _csv(self) -> str:
        rows = []
        for match in self.matches:
            score = "" if match.score is None else repr(round(match.score, 6))
            cells = asdict(match) | {"score": score, "removed": "yes" if match.removed else "no"}
            rows.append([*cells.values()])
        return csv_for_people(Match.__dataclass_fields__, rows)

    def text(self) -> str:
        """Counts, and the first matches, as text."""
        fields = self.fields()
        lines = [
            f"{self.train.path}: {fields['people_removed']:,} of {fields['train_people']:,} people are in "
            f"{self.test.path} and are removed, with {fields['images_removed']:,} images"
        ]
        if any(self.nameless):
            lines.append(
                f"{self.nameless[0]:,} people of the training set and {self.nameless[1]:,} of the test set are numbers "
                "without a name: --ids LIST states names, --same-ids compares the numbers themselves"
            )
        if any(self.unseen):
            lines.append(
                f"{self.unseen[0]:,} people of the training set and {self.unseen[1]:,} of the test set have no "
                "embedding and were searched by name alone"
            )
        if self.matches:
            rows = [
                [way, f"{counts['matches']:,}", f"{counts['removed']:,}"] for way, counts in fields["matches"].items()
            ]
            lines.append(table(["match", "pairs", "removed"], rows))
            first = [
                [
                    match.identity if match.identity == match.other else f"{match.identity} / {match.other}",
                    f"{match.how}: {match.grade}" if match.grade else match.how,
                    "-" if match.score is None else number(match.score),
                    "yes" if match.removed else "no",
                ]
                for match in self.matches[:PRINTED]
            ]
            lines.append(table(["person", "match", "score", "removed"], first))
            if len(self.matches) > PRINTED:
                lines.append(f"... and {len(self.matches) - PRINTED:,} further matches, which {CSV} has")
        return "\n".join(lines)


def find_overlap(
    train: People,
    test: People,
    *,
    names: str = "equal",
    ids: Mapping[str, Sequence[str]] | None = None,
    same_ids: bool = False,
    embeddings: tuple[Path, Path] | None = None,
    threshold: float = 0.5,
    progress: Progress = quietly,
) -> Overlap:
    """The people of a training set who are in a test set.

    By name: an identity is a name unless it is a number or `ids` has it; then its names are those of `ids`. Matches of
    all grades are returned, and those of the grades in `names`, a word of `REMOVED`, are removed. By id: equal
    identities that `ids` has, or with `same_ids` all equal ones. By embedding: a person whose center reaches the
    threshold with the center or an image of a person of the test set. No matrix of all pairs is held.
    """
    if not -1 < threshold <= 1:
        raise ValueError(f"threshold is {threshold}; a threshold of scores lies above -1 and is at most 1")
    if not train.identities:
        raise ValueError(f"{train.path}: nobody is known in it, so nobody can be removed")
    known: dict[str, tuple[str, ...]] = {}
    for identity, of_list in ({} if ids is None else ids).items():
        number = as_read(identity, None)
        known[number] = (*known.get(number, ()), *of_list)
    all_matches = _by_id(train, test, known, same_ids) + _by_name(train, test, known, REMOVED[names])
    nameless = tuple(sum(not names_of(person, known) for person in side.identities) for side in (train, test))
    unseen = (0, 0)
    if embeddings is not None:
        all_matches, unseen = _by_embedding(train, test, all_matches, embeddings, threshold, progress)
    gone = {match.identity for match in all_matches if match.removed}
    ways = {"id": 0, "name": 1, "center": 2, "image": 3}
    grades = {grade.word: int(grade) for grade in Grade}
    all_matches.sort(
        key=lambda m: (m.identity not in gone, not m.removed, ways[m.how], grades.get(m.grade, 0), m.identity, m.other)
    )
    return Overlap(
        train, test, tuple(all_matches), (nameless[0], nameless[1]), None if embeddings is None else threshold, unseen
    )


def names_of(identity: str, ids: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """The names of an identity; empty for a number without an entry in a list."""
    number = as_read(identity, None)
    if number in ids:
        return ids[number]
    return (identity,) if any(letter.isalpha() for letter in number) else ()


def _by_id(train: People, test: People, ids: Mapping[str, Sequence[str]], same_ids: bool) -> list[Match]:
    """A whole number is one id in every spelling, other ids as they are written."""
    others: dict[str, list[str]] = {}
    for other in sorted(set(test.identities)):
        others.setdefault(as_read(other, None), []).append(other)
    return [
        Match(identity, other, "id", "", identity, other, None, True)
        for identity in sorted(set(train.identities))
        for number in [as_read(identity, None)]
        for other in others.get(number, ())
        if same_ids or number in ids
    ]


def _by_name(train: People, test: People, ids: Mapping[str, Sequence[str]], weakest: Grade | None) -> list[Match]:
    people: list[dict[str, list[str]]] = [{}, {}]
    for side, of_name in zip((train, test), people, strict=True):
        for identity in side.identities:
            for name in names_of(identity, ids):
                of_name.setdefault(name, []).append(identity)
    closest: dict[tuple[str, str], Match] = {}
    grades: dict[tuple[str, str], Grade] = {}
    for match in matches(people[0], people[1]):
        for identity in people[0][match.name]:
            for other in people[1][match.other]:
                if match.grade >= grades.get((identity, other), len(Grade)):
                    continue
                grades[identity, other] = match.grade
                removed = weakest is not None and match.grade <= weakest
                closest[identity, other] = Match(
                    identity, other, "name", match.grade.word, match.name, match.other, None, removed
                )
    return list(closest.values())


def _by_embedding(
    train: People, test: People, before: Sequence[Match], paths: tuple[Path, Path], threshold: float, progress: Progress
) -> tuple[list[Match], tuple[int, int]]:
    """The matches with the scores of their centers, further matches, and the number of people without an embedding."""
    ours, theirs = (open_rows(path, ("names", "identities")) for path in paths)
    hint = "scores compare embeddings of one model, made in one way"
    check_same_origin(f"{paths[0]} was", ours.source.origin, paths[1], theirs.source.origin, hint)
    left, right = _spelled(train, ours), _spelled(test, theirs)
    centers = class_centers(ours, progress, people=left.keys())
    units: list[Float32[Tensor, "rows dim"]] = []
    assert theirs.identities is not None
    if set(theirs.identities.tolist()) <= {NOBODY}:  # distractors, or a verification set: images without people
        others = None
        units += [unit_rows(rows) for _, rows in progress(theirs.portions(), "reading embeddings", theirs.steps)]
    else:
        others = class_centers(theirs, progress, units.append, right.keys())
    of_embeddings = list[Match]()
    if others is not None:
        near = near_pairs(centers.units, threshold, others=others.units, progress=progress)
        for row, column, value in zip(near.left.tolist(), near.right.tolist(), near.score.tolist(), strict=True):
            person, other = centers.people[row], others.people[column]
            of_embeddings.append(Match(person, other, "center", "", person, other, value, True))
    meant = {*right, NOBODY}
    images = np.array([identity in meant for identity in theirs.identities.tolist()], bool).nonzero()[0]
    near = near_pairs(centers.units, threshold, others=torch.cat(units)[torch.from_numpy(images)], progress=progress)
    seen = {(match.identity, match.other) for match in of_embeddings}
    for row, image, value in zip(near.left.tolist(), near.right.tolist(), near.score.tolist(), strict=True):
        person, place = centers.people[row], int(images[image])
        other = str(theirs.identities[place])
        if (person, other) not in seen:  # the nearest image comes first
            seen.add((person, other))
            of_embeddings.append(Match(person, other, "image", "", person, str(theirs.names[place]), value, True))
    found = _with_score(before, (centers, left), (others, right))
    for match in of_embeddings:
        for name, other in product(left[match.identity], right.get(match.other, [match.other])):
            image = match.other_name if match.how == "image" else other
            found.append(replace(match, identity=name, name=name, other=other, other_name=image))
    with_embedding = (
        sum(len(written[person]) for person in ([] if side is None else side.people))
        for side, written in ((centers, left), (others, right))
    )
    without = [len(side.identities) - known for side, known in zip((train, test), with_embedding, strict=True)]
    return found, (without[0], without[1])


def _spelled(side: People, rows: StreamedRows) -> dict[str, list[str]]:
    """The people of a set by their names in its embeddings, with the spellings of each in the set.

    Where the embeddings merged spellings, each is this person; else another spelling is said to have no embedding.
    """
    assert rows.identities is not None
    known, written = dict.fromkeys(rows.identities.tolist()), defaultdict[str, list[str]](list)
    spelled = as_known(side.identities, known, "merge")
    if rows.source.names_rule != "merge":
        same = {name for name, person in spelled.items() if as_read(name, None) == as_read(person, None)}
        other = [name for name in spelled if name not in same]
        if other:
            log.warning(
                "%s: has no row of %s of %s as written there, but of other spellings, as %s for %s; if each is one "
                "person, spell people alike in a set and its embeddings, or embed with --names merge",
                *(rows.path, counted(len(other), "person"), side.path, shown(spelled[other[0]]), shown(other[0])),
            )
        spelled = {name: person if name in same else name for name, person in spelled.items()}
    for name, person in spelled.items():
        written[person].append(name)
    return dict(written)


def _with_score(
    matches_found: Sequence[Match],
    ours: tuple[Centers, Mapping[str, Sequence[str]]],
    theirs: tuple[Centers | None, Mapping[str, Sequence[str]]],
) -> list[Match]:
    """The matches, with the score of the two centers if both people have embeddings, under these spellings."""
    (centers, left), (others, right) = ours, theirs
    if others is None:
        return list(matches_found)
    rows, columns = (
        {name: row for row, person in enumerate(side.people) for name in written[person]}
        for side, written in ((centers, left), (others, right))
    )
    places = [place for place, match in enumerate(matches_found) if match.identity in rows and match.other in columns]
    scores = pair_scores(
        centers.units,
        torch.tensor([rows[matches_found[place].identity] for place in places], dtype=torch.int64),
        torch.tensor([columns[matches_found[place].other] for place in places], dtype=torch.int64),
        others.units,
    )
    score_at = dict(zip(places, scores.clamp(max=1.0).tolist(), strict=True))
    return [replace(match, score=score_at.get(place)) for place, match in enumerate(matches_found)]
