"""The faces of an embeddings file grouped into people, by steps: what a person has confirmed stays."""

import logging
from collections import Counter
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from verisphere.base.distributed import world
from verisphere.base.identity import decided, names_taken
from verisphere.base.provenance import check_same_origin
from verisphere.base.vocabulary import NOBODY, Origin, Progress, quietly
from verisphere.base.words import counted
from verisphere.base.work import divided, working
from verisphere.decide.purity import UNSURE, figures_of
from verisphere.files.clusters import (
    ANOTHER,
    CLUSTERS,
    MOST_PROPOSALS,
    PEOPLE,
    UNSURE_BEFORE,
    Cluster,
    Clusters,
    Face,
    Proposal,
    read_clusters,
    read_links,
    read_people,
)
from verisphere.files.disk import digest
from verisphere.files.embeddings import known_people, note_crowds, read_embeddings
from verisphere.files.errors import errors_naming
from verisphere.files.purity import read_purity
from verisphere.files.results import EvaluatedFile
from verisphere.files.streamed_rows import evaluated
from verisphere.files.text import is_count
from verisphere.files.work import WorkFolder, result_folder
from verisphere.images.faces import Faces
from verisphere.measure.protocols.plausible import implausible_set
from verisphere.report.blocks import Page
from verisphere.report.pictures import check_embedded
from verisphere.score.linkage import SMALLER_GROUPS_PAY
from verisphere.ship.clusters.face_tree import Cut, FaceTree
from verisphere.ship.clusters.page import PAGE, clusters_page

log = logging.getLogger(__name__)
PAIRS_KEPT = 2**33  # pairs of rows whose comparison, of half a minute, is worth keeping


@dataclass(frozen=True)
class ClusterOptions:
    """How faces are grouped; each field is the option of `verisphere cluster` of that name."""

    threshold: float | None = None
    margin: float | None = None
    purity: Path | None = None
    photographs: Path | None = None
    together: Path | None = None
    apart: Path | None = None
    before: Path | None = None
    known: bool = False

    def __post_init__(self) -> None:
        if (self.threshold is None) == (self.purity is None):
            raise ValueError("clusters need either a threshold (--threshold) or a promise with one (--purity)")
        if self.purity is not None and self.margin is not None:
            raise ValueError(f"--margin {self.margin:g}: {self.purity} has a margin, on which its promise rests")
        if self.threshold is not None and not -1 < self.threshold < 1:
            raise ValueError(f"--threshold {self.threshold:g}: allowed are scores above -1 and below 1")
        if self.margin is not None and not 0 <= self.margin < np.inf:
            raise ValueError(f"--margin {self.margin:g}: allowed are differences of scores from 0 on")


def cluster_folder(
    embeddings: Path, out: Path, options: ClusterOptions, progress: Progress = quietly, images: Faces | None = None
) -> Clusters:
    """Group the faces of an embeddings file, and write the folder of clusters; the same call continues a killed one.

    With images, under the names of the embeddings, the folder has a page. Where the work is divided, its pieces lie
    elsewhere, and only the process that completes them makes the folder.
    """
    with ExitStack() as stack:
        work = None if divided() else stack.enter_context(result_folder(out))
        made, page = _made(embeddings, options, progress, images, work)
        if work is None:
            stack.enter_context(result_folder(out))
        if world().first:
            if page is not None:
                page.write(out / PAGE)
            made.write(out)
    return made


def _made(
    embeddings: Path, options: ClusterOptions, progress: Progress, images: Faces | None, work: Path | None
) -> tuple[Clusters, Page | None]:
    with names_taken(None if options.known else "exact"):  # identities are looked at only for the comparison
        in_file = read_embeddings(embeddings)
    faces = in_file.take(np.argsort(in_file.names))  # the order of the rows of a tree
    labelled, identity = faces.identities != NOBODY, np.unique(faces.identities, return_inverse=True)[1]
    if options.known and not labelled.any():
        raise ValueError(f"{embeddings}: no face has an identity, so there is nothing for --known to compare with")
    if options.known:
        note_crowds(embeddings, faces.identities)
    source, names = evaluated(embeddings, faces), faces.names.tolist()
    if not options.known:
        source = replace(source, names_rule=None if options.before is None else decided())
    if images is not None:
        check_embedded(embeddings, names, images)
    row = {name: number for number, name in enumerate(names)}
    people, said = ({}, {}) if options.before is None else read_people(options.before, names)
    confirmed = {name: person for name, person in said.items() if name in row}
    links = _links(options, row, people, confirmed)
    if people and people.keys().isdisjoint(names):
        raise ValueError(
            f"{options.before}: nothing of it ({counted(len(people), 'face')}) is in {embeddings}, which has to "
            "hold the faces of before and the new ones"
        )
    if options.before is not None and (options.before / CLUSTERS).exists():
        _note_origin(options.before, read_clusters(options.before).source.origin, source)
    promised = None if options.purity is None else read_purity(options.purity)
    if promised is not None:
        hint = "promise by embeddings of the model that made these"
        check_same_origin(f"{source.file} was", source.origin, options.purity, promised.origin, hint)
    chosen = promised or options
    threshold, margin = chosen.threshold or 0.0, chosen.margin or 0.0
    long = len(faces) ** 2 > PAIRS_KEPT
    continued = nullcontext() if work is None or not long else working(WorkFolder(work, anew=True))
    with continued, errors_naming(embeddings):
        tree = FaceTree(faces, threshold, *links, progress)
    cut = tree.cut(threshold, margin)
    free = tree.without_links(threshold, progress) if confirmed else cut.grouped
    clusters = _clusters(cut, free, names, people, confirmed)
    made = Clusters(
        source=source,
        threshold=threshold,
        margin=margin,
        price=SMALLER_GROUPS_PAY,
        clusters=clusters,
        proposals=_proposals(tree, cut, [cluster.person for cluster in clusters], faces.names),
        before=None if options.before is None else digest(options.before / PEOPLE),
        gone=tuple(sorted(said.keys() - row.keys())),
        promise=None if promised is None else promised.promise_for(faces, source),
        known=figures_of(cut.cluster[labelled], identity[labelled]) if options.known else None,
        implausible=implausible_set(known_people(in_file, embeddings)) if options.known else (),
    )
    page = None if images is None else clusters_page(made, images, None if promised is None else promised.risk)
    return made, page


def _note_origin(before: Path, earlier: Origin | None, source: EvaluatedFile) -> None:
    """Say that an earlier result is of other embeddings than these: faces may move for this reason alone."""
    moves = "confirmed faces stay, and others may be grouped otherwise for this reason alone"
    try:
        check_same_origin(f"{source.file} was", source.origin, before, earlier, moves)
    except ValueError as error:
        log.warning("%s", error)


def _links(
    options: ClusterOptions, row: dict[str, int], people: dict[str, str], confirmed: dict[str, str]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]], Int64[np.ndarray, " rows"]]:
    """The pairs of rows that show one person, and two, by all files, and the number of each row's confirmed person."""

    def read(path: Path | None, other: str = "other") -> list[tuple[int, int]]:
        return [] if path is None else read_links(path, other, row)

    first, person = dict[str, int](), np.full(len(row), -1)
    for name, written in people.items():
        if name in row and name not in confirmed:
            first.setdefault(written, row[name])
    same = [(row[name], first[written]) for name, written in confirmed.items() if written in first]
    person[[row[name] for name in confirmed]] = np.unique([*confirmed.values()], return_inverse=True)[1]
    return [*same, *read(options.together)], [*read(options.apart), *read(options.photographs, "photograph")], person


def _people(
    grouped: Int64[np.ndarray, " rows"], names: list[str], before: dict[str, str], confirmed: dict[str, str]
) -> tuple[list[str], dict[str, int]]:
    """The person of each cluster, as confirmed, else as before, else the next number; and the cluster of those before.

    A person of before without confirmed faces is the cluster that shares most faces with it. A cluster is one of them:
    the pair that shares most is settled first, of equals that with the larger cluster.
    """
    rows = list(zip(names, grouped.tolist(), strict=True))
    cluster_of = {confirmed[name]: cluster for name, cluster in rows if name in confirmed}
    person = {cluster: name for name, cluster in cluster_of.items()}
    shared = Counter((cluster, before[name]) for name, cluster in rows if before.get(name))
    settled = dict[int, str]()
    for (cluster, was), _ in sorted(shared.items(), key=lambda item: (-item[1], item[0])):
        if cluster not in settled and was not in cluster_of:
            settled[cluster], cluster_of[was] = was, cluster
    last = max((int(name) for name in {*before.values(), *cluster_of} if is_count(name)), default=0)
    free = map(str, count(last + 1))
    people = range(int(grouped.max()) + 1)
    return [person.get(cluster) or settled.get(cluster) or next(free) for cluster in people], cluster_of


def _clusters(
    cut: Cut, free: Int64[np.ndarray, " rows"], names: list[str], before: dict[str, str], confirmed: dict[str, str]
) -> tuple[Cluster, ...]:
    """The clusters with their faces; those grouped otherwise than before, or than where they are `free` of links."""
    person, cluster_of = _people(cut.grouped, names, before, confirmed)
    alone = now = [person[cluster] for cluster in cut.grouped.tolist()]
    if confirmed:
        without, known = _people(free, names, dict(zip(names, now, strict=True)), {})[0], {*person}
        alone = [without[cluster] if without[cluster] in known else ANOTHER for cluster in free.tolist()]
    clusters: list[tuple[list[Face], list[Face]]] = [([], []) for _ in person]
    for row in np.argsort(-cut.own, kind="stable").tolist():
        name, cluster, nearest = names[row], int(cut.cluster[row]), int(cut.nearest[row])
        said, unsure, was = name in confirmed, cluster == UNSURE, before.get(name)
        moved = not said and was is not None and (cluster_of.get(was) if was else UNSURE) != cluster
        face = Face(
            name=name,
            score=None if np.isnan(cut.own[row]) else float(cut.own[row]),
            nearest=None if nearest < 0 else person[nearest],
            nearest_score=None if nearest < 0 else float(cut.other[row]),
            confirmed=said,
            before=(was or UNSURE_BEFORE) if moved else None,
            alone=alone[row] if said and alone[row] != now[row] else None,
        )
        clusters[cut.grouped[row]][unsure].append(face)
    return tuple(
        Cluster(name, tuple(faces), tuple(unsure)) for name, (faces, unsure) in zip(person, clusters, strict=True)
    )


def _proposals(tree: FaceTree, cut: Cut, person: list[str], names: np.ndarray) -> tuple[Proposal, ...]:
    """The pairs of clusters that lack least of what would merge them, of those that hold a pair above the threshold."""
    label, number = cut.grouped, len(person)
    sizes, confirmed = np.bincount(label), np.full(number, -1)
    means = np.zeros((number, tree.units.shape[1]))
    np.add.at(means, label, tree.units)
    means /= sizes[:, None]
    np.maximum.at(confirmed, label, tree.person)

    def keys(pairs: Int64[np.ndarray, "pairs 2"]) -> Int64[np.ndarray, " pairs"]:
        both = np.sort(label[pairs], axis=1)
        return both[:, 0] * number + both[:, 1]

    key, nearest = np.unique(keys(tree.pairs), return_index=True)  # the pairs begin with the nearest
    left, right = np.divmod(key, number)
    apart = (np.minimum(confirmed[left], confirmed[right]) >= 0) | np.isin(key, keys(tree.apart))
    left, right, nearest = (column[(left != right) & ~apart] for column in (left, right, nearest))
    score = (means[left] * means[right]).sum(1)
    needed = cut.threshold + SMALLER_GROUPS_PAY / np.maximum(sizes[left], sizes[right])
    made = []
    for place in np.lexsort((right, left, needed - score))[:MOST_PROPOSALS].tolist():
        rows = sorted(tree.pairs[nearest[place]].tolist(), key=lambda row: int(label[row]))
        name, other = (str(names[row]) for row in rows)
        who, whom = person[left[place]], person[right[place]]
        made.append(Proposal(who, whom, float(score[place]), float(needed[place]), name, other))
    return tuple(made)
