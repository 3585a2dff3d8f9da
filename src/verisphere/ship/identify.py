"""1:N identification of a photograph in a gallery, at the threshold that a model ships."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from verisphere.base.identity import decided
from verisphere.base.vocabulary import Progress, printable, quietly
from verisphere.base.words import Names, of_things, share
from verisphere.decide import Far, GuaranteedThreshold
from verisphere.files.embeddings import note_crowds, read_known_people
from verisphere.files.errors import errors_naming
from verisphere.files.results import Result
from verisphere.images.packs.columns import spelled_once
from verisphere.images.packs.image_files import image_files
from verisphere.models.folder import Model
from verisphere.models.model_json import TrainingRecord
from verisphere.report.tables import number, table
from verisphere.ship.face_search import FaceOfPhotograph, FindFaces, Pixels, Skipped
from verisphere.ship.notes import (
    PHOTOGRAPHS_NAMED,
    first_few,
    notes_on_faces,
    notes_on_model,
    notes_on_origin,
    notes_on_skipped,
    promise_in_words,
    refuse_drawn,
    sentence,
)
from verisphere.ship.people import OtherFace, Person, embedded_person, lower_median, photographs_in, scores_between


@dataclass(frozen=True)
class Match:
    """A person of the gallery, with the score and the number of comparisons that pass."""

    name: str
    score: float
    passed: int
    comparisons: int


@dataclass(frozen=True)
class OtherMatch:
    """The person of the gallery whom a face of the probe matches that is not the most central of its photograph.

    Attributes:
        face: the face.
        match: the best match of this face alone.
    """

    face: OtherFace
    match: Match

    def __str__(self) -> str:
        """The match in one sentence."""
        return sentence(f"{self.face} would match {printable(self.match.name)}: score {self.match.score:.4f}")


@dataclass(frozen=True)
class Identification(Result):
    """The result of an identification.

    Attributes:
        matches: the people who pass, best score first, at most as many as requested.
        passing: number of people who pass in total.
        best: the best person who does not pass, which shows the distance to the threshold; None where all pass.
        people: number of people in the gallery with a photograph that was compared.
        left_out: people of the gallery without a photograph that could be used.
        promise, meaning, misses, training, drawn, notes: see `Verification`.
        other_matches: matches of faces that are not the most central of their photograph, best first.
        gallery_note: a note on the gallery; mostly empty.
        names_rule: how names of the gallery that are equal once folded were taken; None if nothing decided.
    """

    matches: tuple[Match, ...]
    passing: int
    best: Match | None
    people: int
    left_out: tuple[str, ...]
    threshold: GuaranteedThreshold
    promise: str
    meaning: str
    misses: str
    training: TrainingRecord
    drawn: str
    notes: tuple[str, ...]
    other_matches: tuple[OtherMatch, ...]
    probe: Person
    skipped: tuple[Skipped, ...]
    gallery_note: str
    names_rule: Names | None
    model: str

    def __str__(self) -> str:
        return self.text()

    def text(self, *, explain: bool = False) -> str:
        """The notes; the matches as a table, or 'nobody', with what the threshold means for a gallery of this size.

        Args:
            explain: also give the exact wording of the promise.
        """
        if self.matches:
            rows = [
                [match.name, number(match.score), f"{match.passed} / {match.comparisons}"] for match in self.matches
            ]
            answer = table(["person", "score", "comparisons that pass"], rows)
            if self.passing > len(self.matches):
                answer += f"\nand {self.passing - len(self.matches)} more"
        else:
            near = f"; the nearest is {printable(self.best.name)}, score {self.best.score:.4f}" if self.best else ""
            answer = f"Nobody: no score is above the threshold {self.threshold.threshold:.4f}{near}."
        threshold = f"Threshold {self.threshold.threshold:.4f}. " if self.matches else ""
        lines = [*self.notes, answer, threshold + self.promise, self._passes_by_chance()]
        lines += [self.meaning, self.misses] if explain else []
        lines += notes_on_skipped(self.probe)
        lines += first_few([f"{photo.name} ({photo.reason})" for photo in self.skipped], "Skipped")
        lines += first_few(self.left_out, "Excluded, as none of their photographs can be used")
        return "\n".join(lines)

    def _passes_by_chance(self) -> str:
        far = float(self.threshold.far_target)
        return (
            f"{self.people:,} people were compared, so where {of_things(share(far, 'upper'), 'pairs of strangers')} "
            f"pass, a stranger passes as {far * self.people:.3g} of them on average (up to twice that where people "
            "have several photographs)."
        )


def identify(
    probe: Path,
    gallery: Path,
    model: Model,
    find: FindFaces,
    *,
    far: Far | None = None,
    top: int = 5,
    accept_drawn: bool = False,
    progress: Progress = quietly,
) -> Identification:
    """Finds the people of a gallery whose photographs pass the threshold, best first.

    A person with several photographs passes by the rule of `verify`, and is ranked by its score.

    Args:
        probe: an image file, or a folder or archive of photographs of one person.
        gallery: folder or zip archive with a folder of photographs for each person, or an embeddings file of the same
            model.
        model: the model with its thresholds.
        find: finds the face on each photograph.
        far: target FAR of the threshold; required where the model has several.
        top: most matches in the result.
        accept_drawn: accept a model that was trained or calibrated on drawn faces.
        progress: reports the progress over the photographs.
    """
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    asked = None if far is None else str(far)
    threshold, notes = model.threshold(asked), notes_on_model(model, far, accept_drawn, find)
    probed = embedded_person(probe, model, find, progress)
    if gallery.suffix.lower() == ".npz":
        enrolled = _from_embeddings(gallery, model, find)
    else:
        enrolled = _from_photographs(gallery, model, find, progress)
    matches = _compared(probed.rows, enrolled, threshold.threshold)
    passing = [match for match in matches if match.score > threshold.threshold]
    best_of_others = [
        OtherMatch(face, _compared(row[None], enrolled, threshold.threshold)[0])
        for face, row in zip(probed.others, probed.other_rows, strict=True)
    ]
    others = [other for other in best_of_others if other.match.score > threshold.threshold]
    others.sort(key=lambda other: -other.match.score)
    return Identification(
        matches=tuple(passing[:top]),
        passing=len(passing),
        best=matches[len(passing)] if len(passing) < len(matches) else None,
        people=len(matches),
        left_out=enrolled.left_out,
        threshold=threshold,
        promise=promise_in_words(model, threshold),
        meaning=model.promise(asked),
        misses=threshold.misses(),
        training=model.training,
        drawn=refuse_drawn(model, far, accept_drawn),
        notes=(*notes, *enrolled.notes, *notes_on_faces(probed.person), *map(str, others[:PHOTOGRAPHS_NAMED])),
        other_matches=tuple(others),
        probe=probed.person,
        skipped=enrolled.skipped,
        gallery_note=enrolled.note,
        names_rule=enrolled.names_rule,
        model=str(model.folder),
    )


@dataclass(frozen=True, eq=False)
class _Gallery:
    """The people with whom a probe is compared.

    Attributes:
        embeddings: a row for each photograph that can be compared.
        people: the person on each photograph.
        left_out: people without a photograph that can be compared.
        skipped: photographs that cannot be compared.
        note: a note for the user.
        names_rule: see `Identification`.
    """

    embeddings: Float32[np.ndarray, "photos dim"]
    people: np.ndarray
    left_out: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    note: str = ""
    names_rule: Names | None = None

    @property
    def notes(self) -> list[str]:
        """The note as a list of at most one sentence."""
        return [sentence(printable(self.note))] if self.note else []


def _from_photographs(gallery: Path, model: Model, find: FindFaces, progress: Progress) -> _Gallery:
    files = image_files(gallery, "Name/image.jpg")
    owners = [_owner(name, gallery) for name in files.names]
    with errors_naming(gallery):
        owners = list(spelled_once(owners, files.names, decided()))
    note_crowds(gallery, np.array(owners))

    def find_central(photographs: Sequence[Pixels], names: Sequence[str]) -> list[FaceOfPhotograph]:
        return [replace(face, others=()) for face in find(photographs, names)]  # crops would pile up

    photographs = photographs_in(files, find_central, progress)
    with errors_naming(gallery):
        embeddings = photographs.embed(model)
    people = np.array([owners[place] for place in photographs.used])
    everybody = {*owners, *(name.rpartition("/")[0] for name in files.unread)} - {""}
    left_out = tuple(sorted(everybody - set(people.tolist())))
    return _Gallery(embeddings, people, left_out, photographs.skipped, names_rule=decided())


def _from_embeddings(gallery: Path, model: Model, find: FindFaces) -> _Gallery:
    """The people of an embeddings file of the same model."""
    embedded = read_known_people(gallery)
    size = model.backbone.embedding_size
    if embedded.embeddings.shape[1] != size:
        raise ValueError(
            f"{gallery}: {embedded.embeddings.shape[1]} numbers a row, but the model gives {size}; a gallery has to be "
            "embedded by the model that compares"
        )
    if embedded.origin is None:
        note = f"nothing in {gallery.name} says which model made its embeddings: that it was this one is taken on trust"
    else:
        note = "; ".join(notes_on_origin(model, find, gallery, embedded.origin, "embed the gallery"))
    return _Gallery(embedded.embeddings, embedded.identities, note=note, names_rule=embedded.names_rule)


def _compared(rows: Float32[np.ndarray, "probe dim"], gallery: _Gallery, threshold: float) -> list[Match]:
    """Every person of the gallery with the lower median of the scores, best first."""
    people, place = np.unique(gallery.people, return_inverse=True)
    order = np.argsort(place, kind="stable")
    scores = scores_between(rows, gallery.embeddings[order])  # (probe, photos), columns grouped by person
    borders = np.cumsum(np.bincount(place))[:-1]
    matches = [
        Match(str(name), lower_median(columns.flatten()), int((columns > threshold).sum()), columns.size)
        for name, columns in zip(people, np.split(scores, borders, axis=1), strict=True)
    ]
    return sorted(matches, key=lambda match: -match.score)


def _owner(name: str, gallery: Path) -> str:
    folder, _, _ = name.rpartition("/")
    if not folder:
        raise ValueError(f"{gallery}: {name!r} lies in no person's folder; a gallery has one folder a person")
    return folder
