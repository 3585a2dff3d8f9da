"""1:N identification of a photograph in a gallery, at the threshold that a model ships."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from verisphere.base.provenance import UNRECORDED, unrecorded
from verisphere.base.vocabulary import Embeddings, Progress, printable, quietly
from verisphere.base.words import Names, check_at_least, counted
from verisphere.decide import GalleryThreshold
from verisphere.files.disk import write_text
from verisphere.files.embeddings import read_templates
from verisphere.files.image_suffixes import why_unread
from verisphere.files.results import Result
from verisphere.files.tables import csv_for_people
from verisphere.models.folder import Model
from verisphere.models.model_json import TrainingRecord
from verisphere.report.tables import number, table
from verisphere.ship.catalogue import AnyThreshold
from verisphere.ship.deciding import ByGallery, Choice, Deciding, Match, Promise
from verisphere.ship.face_search import FindFaces, Skipped, aligned_faces
from verisphere.ship.living.gallery import LivingGallery
from verisphere.ship.notes import (
    PHOTOGRAPHS_NAMED,
    SETS_IN_GALLERY,
    first_few,
    made_unlike,
    note_on_folders,
    notes_on_faces,
    notes_on_model,
    notes_on_origin,
    notes_on_skipped,
    number_of,
    on_trust,
    promise_in_words,
    refuse_drawn,
    sentence,
)
from verisphere.ship.opened_gallery import OpenedGallery, is_embeddings, open_gallery
from verisphere.ship.people import OtherFace, Person, embedded_person, photographs_at


@dataclass(frozen=True)
class OtherMatch:
    """The best match of a face of the probe that is not the most central of its photograph."""

    face: OtherFace
    match: Match
    number: str = "score"

    def __str__(self) -> str:
        """The match in one sentence."""
        return sentence(f"{self.face} would match {printable(self.match.name)}: {self.number} {self.match.score:.4f}")


@dataclass(frozen=True)
class Identification(Result):
    """The result of an identification.

    Attributes:
        passing: number of people who pass in total.
        best: the best person who does not pass, which shows the distance to the threshold; None where all pass, and
            where nobody is named by more than half of the photographs.
        promise, meaning, misses, training, drawn, notes: see `Verification`.
    """

    matches: tuple[Match, ...]
    passing: int
    best: Match | None
    people: int
    left_out: tuple[str, ...]
    threshold: AnyThreshold
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
        """The notes; the matches as a table, or 'nobody'; the promise, and on request also its exact wording."""
        what = number_of(self.threshold)
        if self.matches:
            rows = [
                [match.name, number(match.score), f"{match.passed} / {match.comparisons}"] for match in self.matches
            ]
            of_what = "photographs" if isinstance(self.threshold, GalleryThreshold) else "comparisons"
            answer = table(["person", what, f"{of_what} that pass"], rows)
            if self.passing > len(self.matches):
                answer += f"\nand {self.passing - len(self.matches)} more"
        else:
            near = "no person is named by more than half of the photographs"
            if self.best is not None:
                near = f"the nearest is {printable(self.best.name)}, {what} {self.best.score:.4f}"
            answer = f"Nobody: no {what} is above the threshold {self.threshold.threshold:.4f}; {near}."
        threshold = f"Threshold {self.threshold.threshold:.4f}. " if self.matches else ""
        lines = [*self.notes, answer, threshold + self.promise]
        lines += [self.meaning, self.misses] if explain else []
        lines += notes_on_skipped(self.probe)
        lines += first_few([f"{photo.name} ({photo.reason})" for photo in self.skipped], "Skipped")
        lines += first_few(self.left_out, "Excluded, as none of their photographs can be used")
        return "\n".join(lines)


ANY = Choice()


def identify(
    probe: Path,
    gallery: Path,
    model: Model,
    find: FindFaces,
    choice: Choice = ANY,
    *,
    top: int = 5,
    progress: Progress = quietly,
) -> Identification:
    """Finds the people of a gallery whom a probe shows by the threshold, and lists the best, at most so many."""
    check_at_least("top", top)
    promise = Promise.of(model, choice, gallery)
    promise.check_probes(pooled=False)
    probed = embedded_person(probe, model, find, progress)
    search = _Search.of(promise, choice, gallery, model, find, len(probed.rows) > 1, progress)
    by, threshold = search.by, promise.threshold
    matches = by.whole(probed.rows)
    passing = [match for match in matches if match.score > threshold.threshold]
    best_of_others = [
        OtherMatch(face, matched[0], number_of(threshold))
        for face, matched in zip(probed.others, by.each(probed.other_rows, quietly), strict=True)
        if matched
    ]
    others = [other for other in best_of_others if other.match.score > threshold.threshold]
    others.sort(key=lambda other: -other.match.score)
    seen = (*note_on_folders(probed.person), *notes_on_faces(probed.person), *map(str, others[:PHOTOGRAPHS_NAMED]))
    return Identification(
        matches=tuple(passing[:top]),
        passing=len(passing),
        best=matches[len(passing)] if len(passing) < len(matches) else None,
        people=len(search.opened.gallery.people),
        left_out=search.opened.left_out,
        threshold=threshold,
        promise=promise_in_words(model, threshold),
        meaning=f"{threshold.meaning()}; {model.training.described()}",
        misses=threshold.misses(),
        training=model.training,
        drawn=refuse_drawn(model, threshold.calibrated_on, choice.accept_drawn),
        notes=(*search.notes, *seen),
        other_matches=tuple(others),
        probe=probed.person,
        skipped=search.opened.skipped,
        gallery_note=search.gallery_note,
        names_rule=search.opened.names_rule,
        model=str(model.folder),
    )


EACH_COLUMNS = ("probe", "status", "person", "nearest", "score", "reason")


@dataclass(frozen=True)
class EachProbe:
    """The answer about one of many probes, a photograph or a row.

    The status is `found`, `nobody`, or why nobody was compared (`no face`, `unreadable`, `other format`), with the
    reason, which also says that a photograph has several faces. The score is that of the person who comes nearest.
    """

    probe: str
    status: str
    person: str = ""
    nearest: str = ""
    score: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Identifications(Result):
    """The answers about many probes, each by itself; the other fields are those of `Identification`."""

    probes: tuple[EachProbe, ...]
    people: int
    threshold: AnyThreshold
    promise: str
    meaning: str
    notes: tuple[str, ...]
    names_rule: Names | None
    model: str

    def text(self) -> str:
        """The notes, the number of probes of each status, and the promise."""
        counts = Counter(probe.status for probe in self.probes)
        statuses = ", ".join(f"{count:,} {status}" for status, count in counts.most_common())
        people = f"{counted(len(self.probes), 'probe')} among {counted(self.people, 'person')}: {statuses}."
        return "\n".join([*self.notes, people, f"Threshold {self.threshold.threshold:.4f}. {self.promise}"])

    def write_each(self, path: Path) -> None:
        """Write the answers as CSV."""
        rows = [[value if value is not None else "" for value in vars(probe).values()] for probe in self.probes]
        write_text(path, csv_for_people(EACH_COLUMNS, rows))


def identify_each(
    probes: Path,
    gallery: Path,
    model: Model,
    find: FindFaces,
    choice: Choice = ANY,
    progress: Progress = quietly,
) -> Identifications:
    """Finds the person of a gallery on each of many photographs or rows of embeddings, each a probe by itself."""
    promise = Promise.of(model, choice, gallery)
    rows = read_templates(probes) if is_embeddings(probes) else None
    note = "" if rows is None else _note_on_rows(probes, rows, model, find)
    if rows is not None and rows.origin is not None and (promise.living or is_embeddings(gallery)):
        find = aligned_faces(model.backbone.input_size, tuple(filter(None, [rows.origin.alignment])))  # no photographs
    search = _Search.of(promise, choice, gallery, model, find, False, progress)
    if rows is not None:
        promise.check_probes(rows.pooled_from is not None)
        names, numbers, others = rows.names.tolist(), rows.embeddings, dict[str, EachProbe]()
        several = set[str]()
    else:
        promise.check_probes(pooled=False)
        photographs = photographs_at(probes, find, progress)
        names, numbers = [photographs.names[place] for place in photographs.used], photographs.embed(model)
        faces = zip(photographs.names, photographs.faces, strict=True)
        others = {name: EachProbe(name, face.status, reason=face.reason) for name, face in faces if face.pixels is None}
        others |= {name: EachProbe(name, "other format", reason=why_unread(name)) for name in photographs.unread}
        several = {name for name, face in zip(photographs.names, photographs.faces, strict=True) if face.faces > 1}
    limit, answers = promise.threshold.threshold, dict[str, EachProbe]()
    for name, matches in zip(names, search.by.each(numbers, progress), strict=True):
        best = matches[0]
        found = best.score > limit
        reason = "several faces, of which the most central is compared" if name in several else ""
        status = "found" if found else "nobody"
        answers[name] = EachProbe(name, status, best.name if found else "", best.name, best.score, reason)
    notes = (*search.notes, *([sentence(printable(note))] if note else []))
    in_order = tuple(sorted([*answers.values(), *others.values()], key=lambda answer: answer.probe))
    people = len(search.opened.gallery.people)
    words = promise_in_words(model, promise.threshold)
    meaning = f"{promise.threshold.meaning()}; {model.training.described()}"
    rule = search.opened.names_rule
    return Identifications(in_order, people, promise.threshold, words, meaning, notes, rule, str(model.folder))


@dataclass(frozen=True, eq=False)
class _Search:
    """A gallery that is ready to be searched, what decides, and what weakens the promise, the gravest first."""

    opened: OpenedGallery | LivingGallery
    by: Deciding
    notes: tuple[str, ...]
    gallery_note: str

    @classmethod
    def of(
        cls,
        promise: Promise,
        choice: Choice,
        gallery: Path,
        model: Model,
        find: FindFaces,
        sets: bool,
        progress: Progress,
    ) -> "_Search":
        """Open a gallery, unless the promise does not allow it, for probes that are sets of photographs or single."""
        made, enrolled = (promise.file, promise.origin), promise.living.promise.enrolled if promise.living else ()
        notes = list(notes_on_model(model, promise.threshold, choice.accept_drawn, find, *made, *enrolled))
        if promise.living is not None and isinstance(promise.threshold, GalleryThreshold):
            notes += [SETS_IN_GALLERY] if sets else []
            return cls(promise.living, ByGallery(promise.threshold, promise.living), tuple(notes), "")

        def check(people: int, several: bool) -> None:
            if note := promise.refuse_people(gallery, people, sets or several, choice.accept_pair_threshold):
                notes.append(sentence(note))

        opened = open_gallery(gallery, model, find, progress, check)
        note = ""
        if is_embeddings(gallery):
            note = _note_on_rows(gallery, opened.enrolled, model, find) or made_unlike(
                gallery, opened.enrolled.origin, promise.file, promise.origin
            )
            check(len(opened.gallery.people), len(opened.gallery.people) < opened.gallery.photographs)
            notes[:0] = [sentence(printable(note))] if note else []
        if promise.calibration is not None:
            of_strangers = promise.origin and promise.origin.source.detector  # which is noted above
            for side, known in promise.calibration.origins.items():
                named = promise.file.with_name(f"{promise.file.name} (its {side})")
                found = notes_on_origin(model, find, named, known, "calibrate")
                if known is not None and known.source.detector != of_strangers:
                    notes += [sentence(note) for note in found if UNRECORDED not in note]
            part = promise.calibration.part(len(opened.gallery.people), opened.gallery.digests)
            notes += [SETS_IN_GALLERY] if sets else []
            notes += [sentence(printable(part))] if part else []
            old = unrecorded(promise.origin)  # which is noted above
            doubts = map(sentence, promise.calibration.doubts)
            notes += [doubt for doubt in doubts if doubt not in notes and not (old and UNRECORDED in doubt)]
        return cls(opened, promise.within(opened, choice.cohort), tuple(notes), note)


def _note_on_rows(path: Path, rows: Embeddings, model: Model, find: FindFaces) -> str:
    """What is to be said of the embeddings of a gallery, or of probes; refused where another model made them."""
    size, dim = model.backbone.embedding_size, rows.embeddings.shape[1]
    if dim != size:
        raise ValueError(
            f"{path}: {dim} numbers a row, but the model gives {size}; both sides have to be embedded by "
            "the model that compares"
        )
    if rows.origin is None:
        return on_trust(path.name)
    return "; ".join(notes_on_origin(model, find, path, rows.origin, "embed"))
