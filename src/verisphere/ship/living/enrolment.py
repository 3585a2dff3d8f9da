"""Photographs for a living gallery: found in folders and archives or read as rows, and compared with its people."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from verisphere.base.identity import as_known, decided, names_taken
from verisphere.base.provenance import check_recorded
from verisphere.base.vocabulary import Embeddings, Progress, printable, quietly
from verisphere.base.words import Names, counted
from verisphere.decide import lower_median
from verisphere.files.clusters import PEOPLE, read_clusters, read_people
from verisphere.files.embeddings import read_embeddings, read_known_people
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.results import Result
from verisphere.files.sharded import digest_of_embeddings
from verisphere.models.folder import Model
from verisphere.score import unit_rows
from verisphere.ship.align import image_file
from verisphere.ship.deciding import Match
from verisphere.ship.face_search import FaceOfPhotograph, FindFaces, Skipped, file_contents
from verisphere.ship.gate import gate_of
from verisphere.ship.living.gallery import LivingGallery
from verisphere.ship.living.records import NewPhotographs
from verisphere.ship.notes import (
    SETS_IN_GALLERY,
    notes_on_faces,
    notes_on_model,
    notes_on_skipped,
    origins_of,
    promise_in_words,
)
from verisphere.ship.opened_gallery import files_of_people
from verisphere.ship.people import Person, embedded_person, photographs_at, photographs_in, scores_between


def new_rows(
    path: Path,
    gallery: LivingGallery,
    accept_unrecorded: bool = False,
    clusters: Path | None = None,
    cluster: str | None = None,
    person: str | None = None,
) -> NewPhotographs:
    """The rows of an embeddings file, made in the same way as those of a gallery.

    Of a folder of clusters these are the faces that are confirmed, or those of one cluster, under the name of a person.
    """
    rows = read_known_people(path) if clusters is None else _clustered(path, clusters, cluster, person)
    check_recorded(path, rows.origin, accept_unrecorded)
    gallery.promise.check_origin(path, rows.origin)
    return NewPhotographs.of(rows)


def _clustered(path: Path, folder: Path, cluster: str | None, person: str | None) -> Embeddings:
    if (cluster is None) != (person is None):
        raise ValueError("--cluster names the faces and --person whom they show; write both, or neither")
    with names_taken("exact"):  # identities are not looked at
        faces = read_embeddings(path)
    if (grouped := read_clusters(folder).source).sha256 != digest_of_embeddings(path):
        raise ValueError(
            f"{path}: {folder} groups the faces of another file, {grouped.file}; to carry over what is confirmed: "
            f"verisphere cluster {path} --before {folder}"
        )
    people, owners = read_people(folder, faces.names.tolist())
    if cluster is not None and person is not None:
        cluster = as_known([cluster], people.values(), decided())[cluster]
        owners = {name: person for name, written in people.items() if written and written == cluster}
    if not owners:
        nobody = "nobody is confirmed there" if cluster is None else f"there is no cluster {shown(cluster)}"
        raise ValueError(f"{folder / PEOPLE}: {nobody}")
    if absent := sorted(owners.keys() - set(faces.names.tolist())):
        raise ValueError(
            f"{path}: it lacks {len(absent):,} of {counted(len(owners), 'face')} to enrol, as {absent[0]!r}"
        )
    faces = faces.take(np.isin(faces.names, list(owners)))
    persons = [owners[name] for name in faces.names.tolist()]
    return Embeddings(faces.embeddings, faces.names, persons, origin=faces.origin)


def new_photographs(
    path: Path,
    gallery: LivingGallery,
    model: Model,
    find: FindFaces,
    *,
    person: str | None = None,
    keep_images: bool = False,
    gate: Path | None = None,
    progress: Progress = quietly,
) -> tuple[NewPhotographs, tuple[Skipped, ...]]:
    """The photographs of one person, or of a folder or zip archive with a folder a person, and those to be skipped.

    A photograph without a face is skipped, and one that a gate refuses.
    """
    origins = origins_of(model, find)
    for origin in origins:
        gallery.promise.check_origin(path, origin)
    refuses = None if gate is None else gate_of(gate, model, find)
    if person is not None and not path.is_dir() and path.suffix.lower() != ".zip":
        photographs, contents, owners = photographs_at(path, find, progress), [path.read_bytes], [person]
    else:
        files, owners = files_of_people(path, person)
        photographs, contents = photographs_in(files, find, progress), list(file_contents(files))
    with errors_naming(path):
        rows = photographs.embed(model)
    names, skipped, kept = photographs.names, list(photographs.skipped), list[int]()
    used = photographs.used
    reasons = [()] * len(used) if refuses is None else refuses([photographs.faces[place] for place in used], rows)
    for row, (place, why) in enumerate(zip(used, reasons, strict=True)):
        if why:
            skipped.append(Skipped(names[place], f"refused: {'; '.join(why)}"))
        else:
            kept.append(row)
    used = [used[row] for row in kept]
    new = NewPhotographs(
        [owners[place] for place in used],
        [names[place] for place in used],
        [hashlib.sha256(contents[place]()).hexdigest() for place in used],
        unit_rows(rows[kept]).numpy(),
        [png(photographs.faces[place]) for place in used] if keep_images else None,
        origins,
    )
    return new, tuple(skipped)


def png(face: FaceOfPhotograph) -> bytes:
    """The aligned crop of a face as a PNG file."""
    assert face.pixels is not None
    return image_file(face.pixels, "png")


@dataclass(frozen=True)
class Claim(Result):
    """Whether photographs show the person of a gallery whom they are said to show.

    The score of a photograph is the highest over the person's own; more than half of the photographs must be above the
    threshold. Fewer strangers pass as one person than are found as anybody, so the gallery's promise covers a claim.
    """

    person: str
    match: Match
    threshold: float
    promise: str
    meaning: str
    notes: tuple[str, ...]
    probe: Person
    names_rule: Names | None = None

    @property
    def same(self) -> bool:
        """Whether the claim is accepted."""
        return self.match.score > self.threshold

    def text(self, *, explain: bool = False) -> str:
        """The notes, the verdict and the promise, and on request its exact wording."""
        verdict = f"{'This is' if self.same else 'This is not shown to be'} {printable(self.person)}"
        answer = f"{verdict}: score {self.match.score:.4f}, threshold {self.threshold:.4f}. {self.promise}"
        exact = [self.meaning] if explain else []
        return "\n".join([*self.notes, answer, *exact, *notes_on_skipped(self.probe)])


def verify_claim(
    gallery: LivingGallery,
    probe: Path,
    person: str,
    model: Model,
    find: FindFaces,
    *,
    accept_drawn: bool = False,
    progress: Progress = quietly,
) -> Claim:
    """Whether a photograph, or more than half of several, shows a person of a gallery."""
    with gallery.store.reading():
        threshold, (name, rows) = gallery.threshold, gallery.person(person)
    enrolled = gallery.promise.enrolled
    notes = notes_on_model(model, threshold, accept_drawn, find, gallery.path, gallery.origin, *enrolled)
    probed = embedded_person(probe, model, find, progress)
    scores, limit = scores_between(probed.rows, rows).max(1), threshold.threshold
    match = Match(name, lower_median(scores), int((scores > limit).sum()), len(scores))
    notes += ((SETS_IN_GALLERY,) if len(scores) > 1 else ()) + tuple(notes_on_faces(probed.person))
    words = promise_in_words(model, threshold), threshold.meaning()
    return Claim(name, match, limit, *words, notes, probed.person, decided())
