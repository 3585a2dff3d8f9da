"""A gallery of enrolled people, and the statistic by which each probe is found in it or not."""

import hashlib
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from verisphere.base.vocabulary import Embeddings, Progress, check_word, quietly
from verisphere.base.work import Arrays, ranges, results
from verisphere.decide import STATISTICS, lower_median
from verisphere.decide.statistics import CANDIDATES, Best
from verisphere.files.gallery_calibration import GalleryCalibration
from verisphere.files.json_values import shown
from verisphere.score import pair_scores, unit_rows
from verisphere.score.top_k import best_people

_PROBES_AT_ONCE = 1024
_PAIRS_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class Cohort:
    """People who are neither enrolled nor probes, over whom scores are normalised; a row of length 1 for each."""

    rows: Float32[Tensor, "cohort dim"]

    @classmethod
    def of(cls, embeddings: Embeddings) -> "Cohort":
        """The first image of each person of a set."""
        first = np.sort(np.unique(embeddings.identities, return_index=True)[1])
        return cls(unit_rows(embeddings.embeddings[first]))

    @property
    def sha256(self) -> str:
        """The digest of the rows, in hexadecimal."""
        return hashlib.sha256(self.rows.numpy().tobytes()).hexdigest()

    def spread(self, rows: Float32[Tensor, "rows dim"], nearest: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of each row's scores over the cohort, or over so many of the highest of them."""
        mean, spread = np.empty(len(rows)), np.empty(len(rows))
        step = max(_PAIRS_AT_ONCE // len(self.rows), 1)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            left, right = torch.meshgrid(torch.arange(len(part)), torch.arange(len(self.rows)), indexing="ij")
            scores = pair_scores(part, left.flatten(), right.flatten(), self.rows).view(left.shape)
            if nearest:
                scores = scores.topk(min(nearest, len(self.rows)), dim=1).values
            mean[start : start + step] = scores.mean(1).numpy()
            spread[start : start + step] = scores.std(1, correction=0).numpy()
        return mean, spread


@dataclass(frozen=True, eq=False)
class Searched:
    """What was found of some probes in a gallery.

    Attributes:
        values: the number by which each candidate would be decided; the highest of a probe is its statistic.
        scores: score of each candidate's best photograph, descending; minus infinity where there is no candidate.
        persons: the number of each candidate; -1 where there is none.
        photographs: row of each candidate's best photograph; -1 where there is none.
    """

    values: Float64[np.ndarray, "probes candidates"]
    scores: Float64[np.ndarray, "probes candidates"]
    persons: Int64[np.ndarray, "probes candidates"]
    photographs: Int64[np.ndarray, "probes candidates"]

    @property
    def statistic(self) -> Float64[np.ndarray, " probes"]:
        """The number that decides each probe: it is found iff this is above a threshold."""
        return self.values.max(axis=1)

    @property
    def person(self) -> Int64[np.ndarray, " probes"]:
        """The number of the person whom the statistic of each probe names; see `Gallery.people`."""
        return self.persons[np.arange(len(self.persons)), self.values.argmax(axis=1)]

    @property
    def photograph(self) -> Int64[np.ndarray, " probes"]:
        """Row of this person's best photograph."""
        return self.photographs[np.arange(len(self.persons)), self.values.argmax(axis=1)]


@dataclass(frozen=True)
class Found:
    """The answer about one probe.

    Attributes:
        person: the person who is found; None for nobody.
        nearest: the person whom the statistic names, found or not.
        score: the statistic.
        threshold: the threshold that it must exceed.
    """

    person: str | None
    nearest: str
    score: float
    threshold: float


class Gallery:
    """Photographs or templates of enrolled people.

    >>> gallery = Gallery(Embeddings([[3.0, 4.0], [0.0, 1.0], [4.0, 3.0]], identities=["Ann", "Ben", "Ann"]))
    >>> searched = gallery.search(np.array([[1.0, 0.0]], np.float32))
    >>> gallery.people[searched.person[0]], float(searched.statistic[0].round(6)), gallery.photographs
    (np.str_('Ann'), 0.8, 3)

    Args:
        enrolled: a row for each photograph or template; a person may have several.
        digests: a digest of each row; by default of its person and its numbers.

    Attributes:
        people: the names of the people, sorted.
        person: number of each row's person.
    """

    def __init__(self, enrolled: Embeddings, digests: Int64[np.ndarray, " photographs"] | None = None) -> None:
        if not len(enrolled):
            raise ValueError("a gallery needs at least one person")
        self.enrolled = enrolled
        self.people, person = np.unique(enrolled.identities, return_inverse=True)
        self.person: Int64[np.ndarray, " photographs"] = person.astype(np.int64)
        self._digests = digests

    @property
    def photographs(self) -> int:
        """Number of rows."""
        return len(self.person)

    @cached_property
    def digests(self) -> Int64[np.ndarray, " photographs"]:
        """A digest of 8 bytes of each row."""
        if self._digests is not None:
            return self._digests
        rows = zip(self.enrolled.identities.tolist(), self.enrolled.embeddings, strict=True)
        return np.array([row_digest(person, np.ascontiguousarray(row).data) for person, row in rows], np.int64)

    @cached_property
    def units(self) -> Float32[Tensor, "photographs dim"]:
        """The rows at length 1."""
        return unit_rows(self.enrolled.embeddings)

    def search(
        self,
        probes: Float32[np.ndarray, "probes dim"],
        statistic: str = "best",
        cohort: Cohort | None = None,
        candidates: int = CANDIDATES,
        progress: Progress = quietly,
    ) -> Searched:
        """The statistic of each probe, and its best people, so many `candidates` unless the statistic needs others."""
        self.check(statistic, cohort)
        if probes.shape[1] != self.units.shape[1]:
            raise ValueError(f"probes have {probes.shape[1]} numbers a row but the gallery has {self.units.shape[1]}")
        count = candidates if statistic == "best" else CANDIDATES
        if not len(probes):
            none, nobody = np.empty((0, count)), np.empty((0, count), np.int64)
            return Searched(none, none, nobody, nobody)

        def of_probes(part: range) -> Arrays:
            return vars(self._search(unit_rows(probes[part.start : part.stop]), statistic, cohort, count))

        def about() -> list[object]:
            normal = [] if cohort is None else [cohort.rows]
            return [probes, self.enrolled.embeddings, self.person, statistic, count, _PROBES_AT_ONCE, *normal]

        pieces, title = ranges(len(probes), _PROBES_AT_ONCE), "searching the gallery"
        parts = [*results("gallery", about, pieces, partial(map, of_probes), progress, title)]
        return Searched(**{name: np.concatenate([part[name] for part in parts]) for name in parts[0]})

    def check(self, statistic: str, cohort: Cohort | None) -> None:
        """Refuse a statistic that is not known, or for which the gallery or the cohort does not suffice."""
        check_word("rule", statistic, STATISTICS)
        about = STATISTICS[statistic]
        if len(self.people) < about.people:
            raise ValueError(
                f"rule {statistic!r} needs a gallery of {about.people} people; this one has {len(self.people)}"
            )
        if (about.cohort is None) != (cohort is None):
            needs = "needs a cohort" if cohort is None else "takes no cohort"
            raise ValueError(f"rule {statistic!r} {needs} of people who are neither enrolled nor strangers (--cohort)")
        if cohort is not None and len(cohort.rows) < 2:
            raise ValueError(f"a cohort needs 2 people, this one has {len(cohort.rows)}")

    def _search(self, probes: Tensor, statistic: str, cohort: Cohort | None, count: int) -> Searched:
        scores, rows = best_people(probes, self.units, self.person, count)
        persons = np.where(rows >= 0, self.person[rows], -1)
        best = Best(scores)
        if statistic == "median":
            best = Best(scores, self._medians(probes, persons))
        if cohort is not None:
            nearest = STATISTICS[statistic].cohort or 0
            there, back = np.unique(rows[rows >= 0], return_inverse=True)
            normal = [np.ones(rows.shape), np.ones(rows.shape)]
            for values, of_row in zip(normal, cohort.spread(self.units[torch.from_numpy(there)], nearest), strict=True):
                values[rows >= 0] = of_row[back]
            of_probes = cohort.spread(probes, nearest) if STATISTICS[statistic].both else None
            best = Best(scores, photographs=(normal[0], normal[1]), probes=of_probes)
        return Searched(STATISTICS[statistic].values(best), scores, persons, rows)

    def _medians(self, probes: Tensor, persons: Int64[np.ndarray, "probes candidates"]) -> np.ndarray:
        """The lower median of the scores of all photographs of each candidate."""
        order = np.argsort(self.person, kind="stable")
        ends = np.cumsum(np.bincount(self.person))
        medians = np.full(persons.shape, -np.inf)
        for probe, candidates in enumerate(persons):
            for place, person in enumerate(candidates[candidates >= 0]):
                own = torch.from_numpy(order[ends[person - 1] if person else 0 : ends[person]])
                scores = pair_scores(probes, torch.full_like(own, probe), own, self.units)
                medians[probe, place] = lower_median(scores.numpy())
        return medians


def check_cohort(calibration: GalleryCalibration, cohort: Cohort | None) -> None:
    """Refuse a cohort that is not the one of a calibration, and one for a calibration without a cohort."""
    if ("" if cohort is None else cohort.sha256) != calibration.cohort_rows:
        of = "no cohort" if calibration.cohort is None else f"the cohort {shown(calibration.cohort.file)}"
        other = "none was named" if cohort is None else "another one was named, or its names were taken otherwise"
        raise ValueError(f"scores were calibrated with {of}, and {other if calibration.cohort else 'one was named'}")


def half_seals(gallery: Gallery) -> list[str]:
    """The digest of each row as a verdict names a photograph by it: 16 hexadecimal digits."""
    return [f"{digest % 2**64:016x}" for digest in gallery.digests.tolist()]


def row_digest(person: str, content: bytes | memoryview) -> int:
    """The digest of an enrolled photograph: 8 bytes of the SHA-256 of its person and its content."""
    digest = hashlib.sha256(person.encode("utf-8", "surrogatepass") + b"\0")
    digest.update(content)
    return int.from_bytes(digest.digest()[:8], "little", signed=True)
