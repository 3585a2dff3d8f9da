"""What another program's index over a gallery costs: its answers beside those of exact search, by one threshold."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from verisphere.base.identity import as_known, decided
from verisphere.base.provenance import UNRECORDED, unrecorded
from verisphere.base.vocabulary import Embeddings, printable
from verisphere.base.words import Names, counted
from verisphere.decide.bounds import binomial_bounds
from verisphere.files.embeddings import known_people, note_crowds, read_templates, same_people
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.results import Result, first_lines
from verisphere.files.streamed_rows import evaluated
from verisphere.files.text import as_number, table_rows
from verisphere.measure.protocols.plausible import implausible_sides
from verisphere.report.tables import number, table
from verisphere.score import pair_scores, unit_rows
from verisphere.score.top_k import best_people
from verisphere.ship.living.gallery import LivingGallery
from verisphere.ship.notes import on_trust, sentence


@dataclass(frozen=True)
class AuditedRate:
    """A rate over queries as the index gives it, with Clopper and Pearson's 95 % bounds, and by exact search."""

    name: str
    queries: int
    served: float
    lower: float
    upper: float
    exact: float

    @classmethod
    def of(cls, name: str, served: np.ndarray, exact: np.ndarray) -> "AuditedRate":
        """From a share for each query; a mean of shares varies no more than one of zeros and ones does."""
        bounds = binomial_bounds(float(served.sum()), len(served))
        return cls(name, len(served), float(served.mean()), *bounds, float(exact.mean()))


@dataclass(frozen=True)
class IndexAudit(Result):
    """What an index that answers with `people` or `photographs` costs: recall of the true nearest, TPIR and FPIR.

    Nobody is found by a query without an answer. `off` is the largest difference of a score from the exact one. The
    notes say what weakens the figures.
    """

    gallery: str
    people: int
    photographs: int
    threshold: float
    answers: str
    rates: tuple[AuditedRate, ...]
    unanswered: int
    off: float
    notes: tuple[str, ...] = ()
    names_rule: Names | None = None

    def text(self) -> str:
        """The notes, the rates as a table, and how far scores are off."""
        titles = ["rate", "as served", "at least", "at most", "exact", "queries"]
        rows = [
            [rate.name, *map(number, (rate.served, rate.lower, rate.upper, rate.exact)), f"{rate.queries:,}"]
            for rate in self.rates
        ]
        held = f"{counted(self.people, 'person')}, {counted(self.photographs, 'photograph')}"
        lines = [*self.notes, f"{printable(self.gallery)}: {held}, threshold {self.threshold:.4f}", table(titles, rows)]
        lines.append(f"Scores of the index differ from exact ones by at most {self.off:.2g}.")
        lines += [f"{counted(self.unanswered, 'query')} without an answer"] if self.unanswered else []
        return "\n".join(lines)


def audit_index(gallery: LivingGallery, probes: Path, answers: Path) -> IndexAudit:
    """Compare an index's answers with exact search in a gallery, at the gallery's threshold.

    Args:
        probes: embeddings file of the queries; those whose person is enrolled are mated.
        answers: CSV with a line for each answer, best first: `query`, a name of the probes; `answer`, a person of the
            gallery or, in all lines, the name of a photograph; `score`, a cosine.
    """
    store, everything = gallery.store, read_templates(probes)
    queries = known_people(everything, probes)
    note_crowds(probes, queries.identities)
    gallery.promise.check_origin(probes, queries.origin)
    names = queries.names.tolist()
    if len(set(names)) < len(names):
        raise ValueError(f"{probes}: two queries have one name, so that it is not known whose answers are whose")
    with store.reading():
        gallery.promise.check_model()
        limit, warning = gallery.threshold.threshold, gallery.threshold.warning()
        joined = "SELECT slot, person, p.name, f.name FROM photographs f JOIN people p USING (person) ORDER BY slot"
        slots, persons, owners, photographs = zip(*store.select(joined), strict=True)
        rows = store.rows(np.array(slots, np.int64))
    if queries.embeddings.shape[1] != rows.shape[1]:
        raise ValueError(f"{probes}: {queries.embeddings.shape[1]} numbers a row, and {store.name} has {rows.shape[1]}")
    merged: Names | None = "merge" if queries.names_rule == "merge" else None
    queries, stored = same_people((probes, queries), (store.name, Embeddings(rows, slots, owners, names_rule=merged)))
    people, owners = queries.identities.tolist(), stored.identities.tolist()
    unlikely = implausible_sides(queries, stored, (probes.name, store.name))
    notes = [sentence(warning)] if warning else []
    notes += first_lines([evaluated(probes, queries)], unlikely).splitlines()
    untied = gallery.origin is None or None in gallery.promise.enrolled
    notes += [sentence(on_trust("the gallery", "some of its rows or strangers"))] if untied else []
    if unrecorded(queries.origin, *gallery.promise.origins):
        notes.append(printable(f"{probes.name} or the gallery was {UNRECORDED}"))
    given = _answers(answers, set(everything.names.tolist()))
    given = {name: found for name, found in given.items() if name in set(names)}
    said = {name for found in given.values() for name, _ in found}
    spelled = as_known(said, owners, decided(queries.names_rule))
    labels = max((owners, photographs), key=lambda names: len({*said, *spelled.values()}.intersection(names)))
    if labels is owners:
        given = {name: [(spelled[answer], score) for answer, score in found] for name, found in given.items()}
        said = {*spelled.values()}
        if twice := sorted(name for name, found in given.items() if len({who for who, _ in found}) < len(found)):
            raise ValueError(f"{answers}: two answers to {shown(twice[0])} are one person in two spellings")
    members: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        members.setdefault(label, []).append(row)
    with errors_naming(answers):
        if strange := sorted(said - set(members)):
            raise ValueError(f"{shown(strange[0])} is no {'photograph' if labels is photographs else 'person'} here")
        if labels is photographs and (twice := sorted(name for name in said if len(members[name]) > 1)):
            raise ValueError(f"{len(members[twice[0]])} photographs are named {shown(twice[0])}; answer by persons")
    units = unit_rows(queries.embeddings)
    person = np.array(persons, np.int64)
    count = min(max(map(len, given.values()), default=1), len(members))
    scores, _ = best_people(units, rows, person if labels is owners else np.arange(len(rows)), count)
    best, first = best_people(units, rows, person, 1)
    shares, right, wrong = np.zeros((2, len(names))), np.zeros((2, len(names)), bool), np.zeros((2, len(names)), bool)
    off, enrolled = 0.0, set(owners)
    for place, name in enumerate(names):
        listed = given.get(name, [])[:count]
        of_answer = [members[label] for label, _ in listed]
        near = torch.tensor([row for of_item in of_answer for row in of_item], dtype=torch.long)
        exact = pair_scores(units, torch.full_like(near, place), near, torch.from_numpy(rows)).numpy()
        true = np.array([part.max() for part in np.split(exact, np.cumsum([*map(len, of_answer)])[:-1]) if len(part)])
        off = max([off, *np.abs(true - [score for _, score in listed]).tolist()])
        shares[:, place] = (true[:1] >= scores[place, 0]).sum(), (true >= scores[place, -1]).sum() / count
        found = owners[of_answer[0][0]] if listed and listed[0][1] > limit else ""
        exactly = owners[first[place, 0]] if best[place, 0] > limit else ""
        for row, who in enumerate((found, exactly)):
            right[row, place], wrong[row, place] = who == people[place], bool(who)
    mated = np.array([person in enrolled for person in people])
    rates = [AuditedRate.of(f"recall@{k}", share, np.ones(1)) for k, share in zip((1, count), shares, strict=True)]
    if mated.any():
        rates.append(AuditedRate.of("TPIR", *right[:, mated]))
        rates.append(AuditedRate.of("found exactly, lost", (right[1] & ~right[0])[mated], np.zeros(1)))
    if not mated.all():
        rates.append(AuditedRate.of("FPIR", *wrong[:, ~mated]))
    held = len(set(persons)), len(rows), limit, "people" if labels is owners else "photographs"
    found_rates, unanswered = tuple(rates[count == 1 :]), len(names) - len(given)
    return IndexAudit(store.name, *held, found_rates, unanswered, off, tuple(notes), queries.names_rule)


def _answers(path: Path, queries: set[str]) -> Mapping[str, list[tuple[str, float]]]:
    """Name and score of the answers to each query, best first."""
    given: dict[str, list[tuple[str, float]]] = {}
    about = "a line for each answer of an index, best first: query,answer,score"
    for line, (query, answer, score) in table_rows(path, ("query", "answer", "score"), about=about)[1]:
        with errors_naming(f"{path}: line {line}"):
            if query not in queries:
                raise ValueError(f"{shown(query)} is no name of a query")
            before = given.setdefault(query, [])
            before.append((answer, as_number(score, "score")))
            if len(before) > 1 and before[-1][1] > before[-2][1]:
                raise ValueError("a score is above the one before; give cosines, best first, not distances")
            if answer in (name for name, _ in before[:-1]):
                raise ValueError(f"{shown(answer)} answers {shown(query)} twice")
    if not given:
        raise ValueError(f"{path}: no answer in it; it has {about}")
    return given
