"""One person under two identities, and one picture under two: proposed from embeddings, and merged on request."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from verisphere.base.identity import as_known, decided
from verisphere.base.vocabulary import NOBODY, Progress, quietly
from verisphere.base.words import Names
from verisphere.base.work import Arrays, ranges, results
from verisphere.files.disk import write_whole
from verisphere.files.embeddings import note_crowds
from verisphere.files.json_values import shown
from verisphere.files.label_lists import LabelList
from verisphere.files.results import Result
from verisphere.files.streamed_rows import open_rows
from verisphere.files.tables import csv_for_people, csv_text
from verisphere.files.text import table_rows
from verisphere.images.faces import Faces
from verisphere.images.loader import batches
from verisphere.report.blocks import Page, Section
from verisphere.report.html import Markup, breakable, tag
from verisphere.report.pictures import check_embedded, face_row, image_line, pair_cards, pictures
from verisphere.report.tables import number, table
from verisphere.score.linkage import linked
from verisphere.score.near_pairs import near_pairs
from verisphere.study.clean.same_person.centers import class_centers

PAIRS, IMAGES, JSON, PAGE, MERGED = "pairs.csv", "images.csv", "duplicates.json", "index.html", "merged.csv"
THRESHOLD, IMAGE_THRESHOLD = 0.6, 0.85
PRINTED = 20  # pairs of each kind in the text; the files have all
_IMAGES_AT_ONCE, _BATCHES_A_PIECE = 256, 8


@dataclass(frozen=True)
class IdentityPair:
    """A proposal: two identities, in alphabetical order, that may be one person, by the score of their centers."""

    identity: str
    other: str
    score: float
    images: int
    other_images: int


@dataclass(frozen=True)
class ImagePair:
    """Two images under two identities that may be one picture, by score or, if they were read, by equal pixels."""

    name: str
    other_name: str
    identity: str
    other_identity: str
    score: float | None
    equal_pixels: bool | None = None


@dataclass(frozen=True, eq=False)
class Duplicates(Result):
    """People and pictures that may be twice in a data set."""

    embeddings: str
    images: int
    identities: int
    threshold: float
    image_threshold: float | None  # None if images were not compared
    people: Sequence[IdentityPair]
    pictures: Sequence[ImagePair]
    names_rule: Names | None = None

    def fields(self) -> dict[str, Any]:
        """All of `duplicates.json`."""
        return {
            "embeddings": self.embeddings,
            "images": self.images,
            "identities": self.identities,
            "names_rule": self.names_rule,
            "threshold": self.threshold,
            "image_threshold": self.image_threshold,
            "identity_pairs": [asdict(pair) for pair in self.people],
            "image_pairs": [asdict(pair) for pair in self.pictures],
        }

    def write(self, folder: Path, page: Page | None = None) -> None:
        """Write `pairs.csv`, `images.csv`, `duplicates.json` and, where there is one, the page; all or nothing."""

        def write(partial: Path) -> None:
            partial.mkdir()
            (partial / PAIRS).write_text(_csv(IdentityPair, self.people, False), encoding="utf-8", newline="")
            (partial / IMAGES).write_text(_csv(ImagePair, self.pictures, True), encoding="utf-8", newline="")
            (partial / JSON).write_text(self.json(), encoding="utf-8")
            if page is not None:
                page.write(partial / PAGE)

        write_whole(folder, write)

    def text(self) -> str:
        """The first pairs of each kind as text."""
        lines = [
            f"{self.embeddings}: {self.images:,} images of {self.identities:,} people",
            f"{len(self.people):,} merge proposals: pairs of identities whose centers score {self.threshold:g} or "
            "more; nothing is merged",
        ]
        if self.people:
            rows = [
                [f"{pair.identity} / {pair.other}", number(pair.score), f"{pair.images} / {pair.other_images}"]
                for pair in self.people[:PRINTED]
            ]
            lines.append(table(["identities", "score", "images"], rows))
        if self.image_threshold is not None:
            equal = sum(bool(pair.equal_pixels) for pair in self.pictures)
            pixels = (
                "" if all(pair.equal_pixels is None for pair in self.pictures) else f", {equal:,} with equal pixels"
            )
            lines.append(
                f"{len(self.pictures):,} pairs of images of two identities that score {self.image_threshold:g} or more"
                f"{pixels}"
            )
            if self.pictures:
                lines.append(
                    table(["images", "score", "equal pixels"], [_image_row(p) for p in self.pictures[:PRINTED]])
                )
        return "\n".join(lines)


def _image_row(pair: ImagePair) -> list[str]:
    equal = {None: "-", True: "yes", False: "no"}[pair.equal_pixels]
    return [f"{pair.name} / {pair.other_name}", "-" if pair.score is None else number(pair.score), equal]


def check_thresholds(threshold: float = THRESHOLD, image_threshold: float | None = IMAGE_THRESHOLD) -> None:
    """Refuse, by a ValueError, a threshold that no score can be on both sides of."""
    for option, value in (("threshold", threshold), ("image_threshold", image_threshold)):
        if value is not None and not -1 < value <= 1:
            raise ValueError(f"{option} is {value}; a threshold of scores lies above -1 and is at most 1")


def find_duplicates(
    path: Path,
    faces: Faces | None = None,
    threshold: float = THRESHOLD,
    image_threshold: float | None = IMAGE_THRESHOLD,
    workers: int = 0,
    progress: Progress = quietly,
) -> Duplicates:
    """Identities whose centers nearly coincide, and images of two identities that nearly do.

    No matrix of all pairs is held. With `image_threshold` the embeddings are held, 4 bytes a number. With `faces`, of
    the same names, images of two identities with equal pixels are found as well.
    """
    check_thresholds(threshold, image_threshold)
    rows = open_rows(path, ("names", "identities"))
    assert rows.identities is not None
    note_crowds(path, rows.identities)
    if faces is not None:
        check_embedded(path, rows.names.tolist(), faces)
    units: list[Float32[Tensor, "rows dim"]] = []
    centers = class_centers(rows, progress, None if image_threshold is None else units.append)
    near = near_pairs(centers.units, threshold, progress=progress)
    people = [
        IdentityPair(
            centers.people[left], centers.people[right], value, int(centers.counts[left]), int(centers.counts[right])
        )
        for left, right, value in zip(near.left.tolist(), near.right.tolist(), near.score.tolist(), strict=True)
    ]
    pictures: list[ImagePair] = []
    if image_threshold is not None:
        pictures = _near_images(rows.names, rows.identities, torch.cat(units), image_threshold, progress)
    if faces is not None:
        pictures = _with_pixels(pictures, faces, workers, progress)
    found = path.name, len(rows), len(centers.people), threshold, image_threshold, people, pictures
    return Duplicates(*found, rows.source.names_rule)


def _near_images(
    names: np.ndarray,
    identities: np.ndarray | None,
    units: Float32[Tensor, "rows dim"],
    least: float,
    progress: Progress,
) -> list[ImagePair]:
    assert identities is not None
    _, people = np.unique(identities, return_inverse=True)
    near = near_pairs(units, least, people, progress=progress)
    return [
        ImagePair(str(names[left]), str(names[right]), str(identities[left]), str(identities[right]), value)
        for left, right, value in zip(near.left.tolist(), near.right.tolist(), near.score.tolist(), strict=True)
    ]


def _with_pixels(near: Sequence[ImagePair], faces: Faces, workers: int, progress: Progress) -> list[ImagePair]:
    """The pairs, marked where their pixels are equal, and further pairs of equal pixels; equal pixels first."""
    equal = {
        frozenset((faces.names[left], faces.names[right])): (left, right)
        for left, right in equal_images(faces, workers, progress)
    }
    pairs = []
    for pair in near:
        names = frozenset((pair.name, pair.other_name))
        pairs.append(replace(pair, equal_pixels=equal.pop(names, None) is not None))
    for left, right in equal.values():
        names_and_people = faces.names[left], faces.names[right], faces.identities[left], faces.identities[right]
        pairs.append(ImagePair(*names_and_people, None, True))
    return sorted(pairs, key=lambda pair: (not pair.equal_pixels, -(1.0 if pair.score is None else pair.score)))


def equal_images(faces: Faces, workers: int = 0, progress: Progress = quietly) -> list[tuple[int, int]]:
    """Positions of pairs of images of two identities with equal pixels, each image with the first such image."""
    first: dict[bytes, list[int]] = {}
    pieces = ranges(len(faces), _IMAGES_AT_ONCE * _BATCHES_A_PIECE)

    def compute(some: Iterable[range]) -> Iterator[Arrays]:
        order = torch.tensor([place for piece in some for place in piece], dtype=torch.int64)
        read = iter(batches(faces, order, _IMAGES_AT_ONCE, workers)) if len(order) else iter(())
        while keys := [
            hashlib.blake2b(image.contiguous().numpy().tobytes(), digest_size=16).digest()
            for batch in islice(read, _BATCHES_A_PIECE)
            for image in batch.images
        ]:
            yield {"keys": np.frombuffer(b"".join(keys), np.uint8).reshape(-1, 16)}

    def about() -> list[object]:
        return [_IMAGES_AT_ONCE * _BATCHES_A_PIECE, faces.contents(range(len(faces))).hex()]

    keys = (key for part in results("pixels", about, pieces, compute, progress, "comparing pixels")
            for key in part["keys"])  # fmt: skip
    for place, key in enumerate(keys):
        first.setdefault(key.tobytes(), []).append(place)
    pairs = []
    for places in first.values():
        by_person: dict[str, int] = {}
        for place in places:
            by_person.setdefault(faces.identities[place], place)
        earliest, *others = by_person.values()
        pairs += [(earliest, other) for other in others]
    return sorted(pairs)


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """The pairs of identities to merge: the columns `identity` and `other` of a CSV, such as `pairs.csv`."""
    about = "pairs to merge have the columns identity and other, as pairs.csv of `verisphere clean duplicates` has"
    pairs = []
    for line, cells in table_rows(path, ("identity", "other"), about=about)[1]:
        pair = cells[0], cells[1]
        if not all(text.strip() for text in pair) or pair[0] == pair[1]:
            raise ValueError(f"{path}: line {line}: {shown(','.join(pair), 200)}; a pair has two different identities")
        pairs.append(pair)
    return pairs


def merged_identities(counts: Mapping[str, int], pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The identity that each merged one becomes: that of the most images in its cluster.

    Of equally many images the first in the alphabet stays.

    >>> merged_identities({"Ann": 1, "Anne": 5, "A": 2, "Ben": 9}, [("Ann", "Anne"), ("A", "Ann")])
    {'A': 'Anne', 'Ann': 'Anne'}
    """
    named = sorted({identity for pair in pairs for identity in pair})
    absent = [identity for identity in named if identity not in counts]
    if absent:
        raise ValueError(
            f"{len(absent)} of {len(named)} identities to merge are not in the set, the first is "
            f"{shown(absent[0], 200)}; identities there look like {shown(min(counts, default=''), 200)}"
        )

    named.sort(key=lambda identity: -counts[identity])
    place = {identity: row for row, identity in enumerate(named)}
    links = np.array([(place[left], place[right]) for left, right in pairs], np.int64).reshape(-1, 2)
    cluster = linked(links, len(named))
    stays = np.unique(cluster, return_index=True)[1][cluster].tolist()
    return {identity: named[row] for identity, row in zip(named, stays, strict=True) if named[row] != identity}


def merged_labels(labels: LabelList, pairs: Sequence[tuple[str, str]]) -> LabelList:
    """A list of labels whose identities are merged; see `merged_identities`. Images of `NOBODY` stay unchanged."""
    identities, sizes = np.unique(np.array(labels.identities), return_counts=True)
    counts = dict(zip(identities.tolist(), sizes.tolist(), strict=True))
    counts.pop(NOBODY, None)
    spelled = as_known({name for pair in pairs for name in pair}, counts, decided())
    becomes = merged_identities(counts, [(spelled[one], spelled[other]) for one, other in pairs])
    merged = tuple(becomes.get(identity, identity) for identity in labels.identities)
    truth = labels.true_identities
    return LabelList(
        labels.names,
        merged,
        labels.domains,
        None if truth is None else tuple(becomes.get(true, true) for true in truth),
    )


def _csv(kind: type, rows: Sequence[Any], for_people: bool) -> str:
    names = list(kind.__dataclass_fields__)  # type: ignore[attr-defined]
    cells = [[_cell(getattr(row, name)) for name in names] for row in rows]
    return csv_for_people(names, cells) if for_people else csv_text(names, cells)


def _cell(value: object) -> object:
    return repr(round(value, 6)) if isinstance(value, float) else value


MOST_SHOWN = 200  # pairs of each kind; more would make the page slow, and the CSV files have all
PICTURES_EACH = 2  # pictures of an identity


def duplicates_page(duplicates: Duplicates, faces: Faces) -> Page:
    """The page, with pictures of the images that have the names of the embeddings."""
    people, images = duplicates.people[:MOST_SHOWN], duplicates.pictures[:MOST_SHOWN]
    wanted = {name for pair in people for name in (pair.identity, pair.other)}
    names_of: dict[str, list[str]] = {}
    for name, identity in zip(faces.names, faces.identities, strict=True):
        if identity in wanted and len(names_of.setdefault(identity, [])) < PICTURES_EACH:
            names_of[identity].append(name)
    names = [name for names in names_of.values() for name in names]
    names += [name for pair in images for name in (pair.name, pair.other_name)]
    uris = pictures(faces, names) if names else {}
    title = f"Duplicates of {duplicates.embeddings}"
    told = (
        f"These are merge proposals, not findings: {duplicates.images:,} images of {duplicates.identities:,} people "
        "were compared by their embeddings. Relatives and look-alikes come near to each other, too, and one "
        "wrong photo makes two people look like one. Nothing was merged. To merge, delete the lines of wrong pairs "
        f"from {PAIRS} and hand that file to verisphere clean duplicates by --merge."
    )
    sections = [
        Section("What this page shows", "about", [tag("p", told)]),
        Section(
            f"Merge proposals: centers that score {duplicates.threshold:g} or more ({len(duplicates.people):,})",
            "identities",
            [
                _shown(len(people), len(duplicates.people), PAIRS),
                pair_cards(_people_card(pair, names_of, uris) for pair in people),
            ],
        ),
    ]
    if duplicates.image_threshold is not None or images:
        at = "" if duplicates.image_threshold is None else f" that score {duplicates.image_threshold:g} or more"
        sections.append(
            Section(
                f"Images of two identities{at} ({len(duplicates.pictures):,})",
                "images",
                [
                    _shown(len(images), len(duplicates.pictures), IMAGES),
                    pair_cards(_images_card(pair, uris) for pair in images),
                ],
            )
        )
    made = "These pictures may be of people: mind to whom the page is given."
    return Page(title, sections, made)


def _shown(shown: int, total: int, file: str) -> Markup:
    if not total:
        return tag("p", "None was found.")
    return tag("p", f"The first {shown:,} are shown; {file} has all {total:,}." if shown < total else "All are shown.")


def _people_card(pair: IdentityPair, names_of: Mapping[str, list[str]], uris: Mapping[str, str]) -> list[Markup]:
    return [
        *(face_row(names_of.get(identity, ()), uris) for identity in (pair.identity, pair.other)),
        tag("p", f"score {number(pair.score)}"),
        tag("p", breakable(pair.identity), f", {pair.images:,} image{'' if pair.images == 1 else 's'}"),
        tag("p", breakable(pair.other), f", {pair.other_images:,} image{'' if pair.other_images == 1 else 's'}"),
    ]


def _images_card(pair: ImagePair, uris: Mapping[str, str]) -> list[Markup]:
    score = "equal pixels" if pair.equal_pixels else ""
    if pair.score is not None:
        score = f"score {number(pair.score)}" + (f", {score}" if score else "")
    return [
        face_row((pair.name, pair.other_name), uris),
        tag("p", score),
        image_line(pair.name, pair.identity),
        image_line(pair.other_name, pair.other_identity),
    ]
