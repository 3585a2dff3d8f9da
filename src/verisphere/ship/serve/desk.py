"""What a gallery and its model say of a photograph that was sent: by the functions of the command line.

Requests that wait form a batch: while some are embedded or looked for, those that arrive wait for the next one.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, Field

from verisphere.base.vocabulary import quietly
from verisphere.decide import Far, FoundRate, GalleryThreshold, GuaranteedThreshold
from verisphere.files.errors import fault_of
from verisphere.images.decode import decode
from verisphere.models.folder import Model
from verisphere.score import unit_rows
from verisphere.ship.deciding import ByGallery
from verisphere.ship.face_search import FaceOfPhotograph, FindFaces
from verisphere.ship.living.enrolment import png
from verisphere.ship.living.gallery import LivingGallery
from verisphere.ship.living.records import GalleryInfo, NewPhotographs
from verisphere.ship.notes import (
    notes_on_model,
    notes_on_origin,
    origins_of,
    promise_in_words,
    refuse_drawn,
    sealed_origin,
)
from verisphere.ship.people import scores_between
from verisphere.ship.serve.guard import Limits, Refused

Verdict = Literal["same", "unsure", "different", "found", "nobody", "enrolled", "known", "refused", "removed"]
_PROMISE = "We are 95 % confident that at most 1 in 100 strangers are found in this gallery of 40 people; ..."


class Refusal(BaseModel):
    """The one form of every error: a word for programs, and a sentence for people."""

    error: dict[Literal["code", "message"], str] = Field(examples=[{"code": "no_face", "message": "no face was found"}])


class Near(BaseModel):
    """A person of the gallery, and the best score of their photographs."""

    person: str = Field(examples=["Ann"])
    score: float = Field(examples=[0.6812])
    passes: bool


class Decision(BaseModel):
    """A verdict, and what it rests on. Something passes iff its score is above the threshold."""

    verdict: Verdict = Field(examples=["same"])
    score: float | None = Field(description="the highest score, a cosine; null where nobody may be named")
    threshold: float = Field(examples=[0.1935])
    unsure_from: float | None = Field(default=None, description="the lowest unsure score, where an FRR is promised too")
    people: list[Near] = Field(
        default=[], description="the five best who pass; for keys that may enrol the five nearest"
    )
    promise: str = Field(description="what is promised about strangers", examples=[_PROMISE])
    misses: str = Field(description="how often enrolled people, or pairs of one person, are missed, in exact wording")
    notes: list[str] = Field(description="what weakens the promise, and what was seen on the photographs")


class Change(BaseModel):
    """What became of a photograph that was to be enrolled, or of a person who was to be removed."""

    verdict: Verdict = Field(examples=["enrolled"], description="known: the person had this photograph before")
    reasons: list[str] = Field(default=[], description="why it was refused")
    photographs: int = Field(default=0, description="photographs that were enrolled or removed")
    promise: str = Field(default="", description="the promise after an enrolment", examples=[_PROMISE])
    notes: list[str] = Field(default=[], description="what weakens the promise")


class Card(BaseModel):
    """What is decided by, for whom, and what this key may do."""

    model: str
    model_card: str = Field(description="Markdown")
    people: int
    gallery: str = Field(description="threshold and promise of the gallery")
    pair: str = Field(description="threshold and promise for two photographs; empty where the model ships none")
    role: str = Field(description="read, enrol or admin")
    limits: dict[str, int | float]


T = TypeVar("T")
Question = TypeVar("Question")
Answer = TypeVar("Answer")
_NEAREST = 5


class Batches(Generic[Question, Answer]):
    """A function of a batch of at most so many questions, called with single ones; one thread carries it out."""

    def __init__(
        self,
        answers: Callable[[Sequence[Question]], Sequence[Answer]],
        most: int,
        thread: ThreadPoolExecutor | None = None,
    ) -> None:
        self._answers, self._most = answers, most
        self._waiting: list[tuple[Question, asyncio.Future[Answer]]] = []
        self._thread = thread or ThreadPoolExecutor(1)
        self._work: asyncio.Task[None] | None = None

    async def __call__(self, question: Question) -> Answer:
        """The answer to a question; questions of requests that were given up meanwhile are not answered."""
        result = asyncio.get_running_loop().create_future()
        self._waiting.append((question, result))
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._until_none_waits())
        return await result

    async def _until_none_waits(self) -> None:
        loop = asyncio.get_running_loop()
        while wanted := [(question, result) for question, result in self._waiting if not result.done()]:
            batch, self._waiting = wanted[: self._most], wanted[self._most :]
            done = loop.run_in_executor(self._thread, self._answers, [question for question, _ in batch])
            (found,) = await asyncio.gather(done, return_exceptions=True)
            for place, (_, result) in enumerate(batch):
                if result.done():
                    continue
                if isinstance(found, BaseException):
                    result.set_exception(found)
                else:
                    result.set_result(found[place])


@dataclass(frozen=True, eq=False)
class Photograph:
    """A photograph that was sent: the most central face on it, its embedding (1, dim), the digest of the bytes."""

    face: FaceOfPhotograph
    row: np.ndarray
    digest: str


@dataclass(eq=False)
class Desk:
    """A gallery and the model that embeds for it, each used by one thread at a time; the margin is that of the gate."""

    gallery: LivingGallery
    model: Model
    find: FindFaces
    limits: Limits = field(default_factory=Limits)
    far: Far | None = None
    accept_drawn: bool = False
    gate: Callable[[Sequence[FaceOfPhotograph], np.ndarray], list[tuple[str, ...]]] = lambda faces, rows: [()]
    margin: float = 0.0
    counted: Callable[[str, float], None] = lambda name, number: None

    def __post_init__(self) -> None:
        for origin in self.gallery.promise.origins:
            notes_on_origin(self.model, self.find, self.gallery.path, origin, "make the gallery again")
        refuse_drawn(self.model, self.gallery.promise.terms.calibrated_on, self.accept_drawn)
        self.pair: GuaranteedThreshold | None = None
        if self.model.thresholds:
            self.pair = self.model.threshold(self.far)
            self._sealed = sealed_origin(self.model)
            self._rests(self.pair)
        self._measured_at: float | None = None
        self._found: FoundRate | None = None
        self._decoding, self._storing = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._embedded = Batches(self._embed, self.limits.batch)
        self.identify = Batches(self._identify, self.limits.batch, self._storing)

    def info(self) -> GalleryInfo:
        """The gallery's figures; how many people are found is measured anew where the threshold has changed."""
        info = self.gallery.info()
        if info.threshold is None:
            return info
        if self._measured_at != info.threshold.threshold:
            measured = self.gallery.info(found=True).threshold
            self._measured_at, self._found = info.threshold.threshold, measured.identified if measured else None
        return replace(info, threshold=replace(info.threshold, identified=self._found))

    async def photograph(self, content: bytes) -> Photograph:
        """The most central face of a photograph, embedded together with those of other requests."""
        face = await asyncio.get_running_loop().run_in_executor(self._decoding, self._face, content)
        row = await self._embedded(face.pixels)  # type: ignore[arg-type]
        return Photograph(face, row[None], hashlib.sha256(content).hexdigest())

    async def ask(self, question: Callable[..., T], *about: object) -> T:
        """The answer of the gallery, to which one question is put at a time."""
        return await asyncio.get_running_loop().run_in_executor(self._storing, partial(question, *about))

    def _face(self, content: bytes) -> FaceOfPhotograph:
        if len(content) > self.limits.most_bytes:
            raise Refused(413, "too_large", f"a photograph has at most {self.limits.most_bytes:,} bytes")
        try:
            pixels = decode(content, "photograph", max_pixels=self.limits.most_pixels)
        except ValueError as error:
            reason = fault_of(error, "photograph").reason
            refusal = (413, "too_large") if reason.endswith("allowed)") else (422, "no_image")
            raise Refused(*refusal, reason) from None
        (face,) = self.find([pixels], ["photograph"])
        if face.pixels is None:
            raise Refused(422, "no_face", face.reason)
        return face

    def _embed(self, faces: Sequence[np.ndarray]) -> list[np.ndarray]:
        self.counted("batch_faces", float(len(faces)))
        return list(self.model.embed(np.stack(faces)))

    def compare(self, left: Photograph, right: Photograph) -> Decision:
        """Whether two photographs show one person, as `verisphere verify` decides."""
        if self.pair is None:
            raise Refused(409, "no_threshold", "the model ships no threshold for two photographs")
        score = float(scores_between(left.row, right.row)[0, 0])
        otherwise: Verdict = "unsure" if self.pair.unsure(score) else "different"
        verdict: Verdict = "same" if score > self.pair.threshold else otherwise
        frr = self.pair.frr
        below = frr.threshold if frr and frr.threshold < self.pair.threshold else None
        return Decision(verdict=verdict, score=score, unsure_from=below, **self._rests(self.pair, left, right))

    def claim(self, photograph: Photograph, person: str) -> Decision:
        """Whether a photograph shows a person, as `verisphere gallery verify` decides."""
        with self.gallery.store.reading():
            threshold, (_, rows) = self.gallery.threshold, self.gallery.person(person)
            rests = self._rests(threshold, photograph)
        score = float(scores_between(photograph.row, rows).max())
        verdict: Verdict = "same" if score > threshold.threshold else "different"
        return Decision(verdict=verdict, score=score, **rests)

    def _identify(self, asked: Sequence[tuple[Photograph, bool]]) -> list[Decision]:
        """Who is on each photograph, as `verisphere gallery identify` decides; on request also who is near it."""
        self.counted("batch_searches", float(len(asked)))
        with self.gallery.store.reading():
            threshold = self.gallery.threshold
            rows = np.concatenate([photograph.row for photograph, _ in asked])
            found = ByGallery(threshold, self.gallery).each(rows, quietly)
            rests = [self._rests(threshold, photograph) for photograph, _ in asked]
        decisions = list[Decision]()
        for (_, everybody), matches, about in zip(asked, found, rests, strict=True):
            near = [Near(person=match.name, score=match.score, passes=match.passed > 0) for match in matches]
            people = [one for one in near if everybody or one.passes][:_NEAREST]
            verdict: Verdict = "found" if near and near[0].passes else "nobody"
            score = people[0].score if people else None
            decisions.append(Decision(verdict=verdict, score=score, people=people, **about))
        return decisions

    def enrol(
        self, photograph: Photograph, person: str, consent: str, expires: date | None, keep: bool, operator: str
    ) -> Change:
        """Enrol a photograph, as `verisphere gallery enrol` does; an image of its face is kept only if asked for."""
        images = [png(photograph.face)] if keep else None
        names, units = [f"{photograph.digest[:12]}.sent"], unit_rows(photograph.row).numpy()
        new = NewPhotographs([person], names, [photograph.digest], units, images, origins_of(self.model, self.find))
        done = self.gallery.enrol(new, consent=consent, expires=expires, operator=operator, margin=self.margin)
        if done.stopped:
            return Change(verdict="refused", reasons=[f"{alarm.reason()}." for alarm in done.stopped])
        verdict: Verdict = "enrolled" if done.photographs else "known"
        rests = self._rests(self.gallery.threshold)
        about = {name: rests[name] for name in ("promise", "notes")}
        return Change(verdict=verdict, photographs=done.photographs, **about)

    def _rests(self, by: GuaranteedThreshold | GalleryThreshold, *sent: Photograph) -> dict[str, Any]:
        """What a decision rests on."""
        pair, gallery = isinstance(by, GuaranteedThreshold), self.gallery
        made = self._sealed if pair else (gallery.path, gallery.origin)
        enrolled = () if pair else gallery.promise.enrolled
        notes = list(notes_on_model(self.model, by, self.accept_drawn, self.find, *made, *enrolled))
        if any(photograph.face.faces > 1 for photograph in sent):
            notes.append("Several faces are on a photograph; the most central is taken.")
        words, misses = promise_in_words(self.model, by), by.misses()
        if isinstance(by, GalleryThreshold) and self.pair and self.pair.genuine:
            side = "below" if self.pair.threshold < by.threshold else "not below"
            other = f"the threshold for two photographs, {self.pair.threshold:.6g}, which is {side} this one"
            misses += f"; known of {other}: {self.pair.misses()}"
        return {"threshold": by.threshold, "promise": words, "misses": misses, "notes": notes}
