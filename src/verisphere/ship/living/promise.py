"""The promise of a living gallery about strangers, whom it keeps and scores anew, and alarms by its threshold."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float32, Int64

from verisphere.base.identity import folded
from verisphere.base.provenance import check_same_origin
from verisphere.base.seeds import numpy_generator
from verisphere.base.trained_on import SharedWithTraining, name_digest
from verisphere.base.vocabulary import ImageSource, Origin
from verisphere.base.words import Names, counted
from verisphere.decide import (
    Far,
    FoundRate,
    GalleryThreshold,
    Guarantee,
    TooFewComparisonsError,
    gallery_threshold,
    one_probe_each,
    strangers_needed,
)
from verisphere.decide.gallery import too_few_strangers
from verisphere.decide.point import far_text
from verisphere.files.gallery_calibration import check_fpirs
from verisphere.files.gallery_store import Store
from verisphere.files.json_values import from_json, shown
from verisphere.files.results import warnings_of
from verisphere.score import pair_scores, unit_rows
from verisphere.score.top_k import best_people
from verisphere.ship.calibrated_files import EmbeddingsSet
from verisphere.ship.calibration_check import NOTHING, Accepted, known_of, refuse_templates
from verisphere.ship.living.records import Alarm

_MEASURED, _COMPARED = 1_000, 1 << 27  # people by whom misses are measured, and comparisons with photographs


@dataclass(frozen=True)
class Terms:
    """What a promise is asked to be, and what is known of its strangers; see `GalleryThreshold`."""

    fpir: str
    guarantee: Guarantee
    seed: int
    calibrated_on: ImageSource | None = None
    in_training: SharedWithTraining | None = None
    implausible: str = ""
    names_rule: Names | None = None  # how names of strangers that are equal once folded were taken

    @property
    def weak(self) -> tuple[str, ...]:
        """What weakens the promise because of the strangers, a clause each; empty for nothing."""
        return *warnings_of("the strangers", self.in_training, ()), *filter(None, (self.implausible,))


def omitted(people: int) -> str:
    """How many people of a file are no strangers, because a bridge was fitted on them."""
    return f"{counted(people, 'person')} of this file fitted the bridge, and none of them is a stranger to its rows"


class KeptPromise:
    """The strangers of a gallery in its store, the highest score of each, and the promise that follows."""

    def __init__(self, store: Store) -> None:
        self.store, self.migrations = store, store.fact("migrations")

    @property
    def origin(self) -> Origin | None:
        """How the rows were made, if known."""
        origin = self.store.fact("origin")
        return None if origin is None else from_json(Origin, origin)

    @property
    def terms(self) -> Terms:
        """What the promise is asked to be."""
        return from_json(Terms, self.store.fact("terms"))

    @property
    def enrolled(self) -> tuple[Origin | None, ...]:
        """How the enrolled photographs were embedded; None where nothing says so of some."""
        known = self.store.fact("enrolled") or []
        return tuple(None if origin is None else from_json(Origin, origin) for origin in known)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """How the strangers and the enrolled photographs were embedded, as far as it is known; all of them agree."""
        return tuple(origin for origin in (self.origin, *self.enrolled) if origin is not None)

    def check_origin(
        self, file: object, origin: Origin | None, hint: str = "embed with its model", said: bool = False
    ) -> None:
        """Refuse rows that were made in another way than the strangers, or than a photograph that is enrolled."""
        for known in self.origins:
            check_same_origin(f"what is in {self.store.name} was", known, file, origin, hint, said=said)

    def check_model(self, dim: int | None = None) -> None:
        """Refuse rows, of this many numbers, that are not of the gallery's model, in the transaction that takes them.

        They were embedded for the gallery as it was opened; another process may have carried it over since.
        """
        if self.store.fact("migrations") != self.migrations:
            raise ValueError(f"{self.store.name}: it was carried over to another model meanwhile; begin anew with that")
        if dim not in (None, self.store.dim):
            raise ValueError(f"{dim} numbers a row, and {self.store.name} has {self.store.dim}")

    @property
    def threshold(self) -> GalleryThreshold:
        """The threshold with its promise, for the gallery as it is now."""
        promise = self.store.fact("promise")
        if promise is None:
            raise ValueError(f"{self.store.name}: nobody is enrolled, so there is nobody to find and no threshold")
        return from_json(GalleryThreshold, promise)

    def set_strangers(
        self,
        strangers: EmbeddingsSet,
        fpir: Far | None = None,
        guarantee: Guarantee | None = None,
        seed: int = 0,
        accepted: Accepted = NOTHING,
    ) -> int:
        """Take one row of each of these people, none of whom is enrolled, as the strangers from now on.

        FPIR and guarantee stay as they are unless they are given. People on whom a bridge of this gallery was fitted
        are omitted; their number is returned.
        """
        fpir, guarantee = fpir or self.terms.fpir, guarantee or self.terms.guarantee
        check_fpirs([fpir], guarantee)
        store, name, origin = self.store, strangers.name, strangers.origin
        self.check_origin(name, origin)
        if strangers.dim != store.dim:
            raise ValueError(f"{name}: {strangers.dim} numbers a row, and {store.name} has {store.dim}")
        refuse_templates(name, [strangers.source])
        rows = strangers.embeddings
        names, row = np.unique(rows.identities, return_inverse=True)
        of_map = np.isin([name_digest(person) for person in names.tolist()], store.fact("fitted") or [])
        people, fitted = int((~of_map).sum()), int(of_map.sum())
        if people < strangers_needed(fpir, guarantee):
            lacking = too_few_strangers(people, fpir, guarantee)
            raise TooFewComparisonsError(f"{name}: {lacking}{f'; {omitted(fitted)}' if fitted else ''}")
        rows = rows.take(~of_map[row])
        known = known_of(strangers.with_rows(rows), accepted) | {"names_rule": rows.names_rule}
        terms = Terms(far_text(fpir), guarantee, seed, **known)
        person = np.unique(rows.identities, return_inverse=True)[1].astype(np.int64)
        drawn = rows.take(one_probe_each(person, seed))
        forms = [folded(person) for person in drawn.identities.tolist()]
        with store.writing():
            self.check_model()
            if enrolled := [person for (person,) in store.among("SELECT name FROM people WHERE folded IN", forms)]:
                raise ValueError(
                    f"{name}: {len(enrolled):,} of its people are enrolled in {store.name}, such as "
                    f"{shown(enrolled[0])}; strangers are people who are not enrolled"
                )
            store.change("DELETE FROM strangers")
            before = next((known.alignment for known in self.origins), None)
            store.set_fact("origin", origin and replace(origin, alignment=origin.alignment or before))
            units = [row.tobytes() for row in unit_rows(drawn.embeddings).numpy()]
            columns = zip(drawn.names.tolist(), forms, units, strict=True)
            store.change("INSERT INTO strangers (name, folded, embedding) VALUES (?, ?, ?)", columns)
            store.set_fact("terms", terms)
            self.rescore()
            self.renew()
        return fitted

    def rescore(self, rows: Float32[np.ndarray, "rows dim"] | None = None, first: int = 0) -> None:
        """Find the highest score of each stranger with new rows, whose first has this slot.

        Without rows it is the highest over all photographs, of strangers who have none.
        """
        which = "WHERE score IS NULL" if rows is None else ""
        strangers = self.store.select(f"SELECT stranger, embedding FROM strangers {which}")
        if not strangers:
            return
        content = np.frombuffer(b"".join(row for _, row in strangers), "<f4").astype(np.float32)
        units = torch.from_numpy(content.reshape(-1, self.store.dim))
        if rows is None:
            scores, _, slots = self.store.nearest(units, 1)
        else:
            scores, near = best_people(units, rows, np.zeros(len(rows), np.int64), 1)
            slots = first + near
        found = zip(scores[:, 0].tolist(), slots[:, 0].tolist(), strangers, strict=True)
        higher = [(score, slot, number, score) for score, slot, (number, _) in found if score > -np.inf]
        sql = "UPDATE strangers SET score = ?, slot = ? WHERE stranger = ? AND (score IS NULL OR score < ?)"
        self.store.change(sql, higher)

    def rescore_removed(self, slots: Sequence[int]) -> None:
        """Find the highest score of the strangers to whom one of these photographs, now removed, was nearest."""
        lost = list(self.store.among("SELECT stranger FROM strangers WHERE slot IN", slots))
        self.store.change("UPDATE strangers SET score = NULL, slot = NULL WHERE stranger = ?", lost)
        self.rescore()

    def drop(self, forms: Sequence[str]) -> list[str]:
        """Remove the strangers who are enrolled now, by their folded names; the names of their photographs."""
        found = list(self.store.among("SELECT stranger, name FROM strangers WHERE folded IN", forms))
        self.store.change("DELETE FROM strangers WHERE stranger = ?", [(number,) for number, _ in found])
        return [name for _, name in found]

    def renew(self) -> None:
        """Write the threshold and promise that follow from the strangers' scores, or refuse what has too few."""
        people, terms = self.store.count("people"), self.terms
        if not people:
            self.store.change("DELETE FROM facts WHERE name IN ('promise', 'enrolled')")
            return
        scores = np.array(self.store.select("SELECT score FROM strangers"), np.float64).flatten()
        try:
            promise = gallery_threshold(scores, terms.fpir, terms.guarantee, people=people, seed=terms.seed)
        except TooFewComparisonsError as error:
            hint = "nobody who is enrolled is a stranger; verisphere gallery strangers gives this gallery others"
            raise TooFewComparisonsError(f"{self.store.name}: {error}; {hint}") from None
        about = {name: getattr(terms, name) for name in ("calibrated_on", "in_training", "implausible")}
        self.store.set_fact("promise", replace(promise, **about))


def _compared(
    store: Store, slots: Int64[np.ndarray, " some"], without: Sequence[int]
) -> tuple[dict[int, float], dict[int, tuple[float, int, int]]]:
    """Of photographs by their slots the highest score with others of their person, where there are others.

    And that with anybody else, with the number of that person and the slot of the photograph; some people are omitted.
    """
    units = torch.from_numpy(store.rows(slots))
    scores, persons, nearest = store.nearest(units, 2, without)
    of_slot = dict(store.among("SELECT slot, person FROM photographs WHERE slot IN", slots.tolist()))
    of_person: dict[int, list[int]] = {}
    for person, slot in store.among(
        "SELECT person, slot FROM photographs WHERE person IN", sorted({*of_slot.values()})
    ):
        of_person.setdefault(person, []).append(slot)
    own, others = dict[int, float](), dict[int, tuple[float, int, int]]()
    for place, slot in enumerate(slots.tolist()):
        column = place, int(persons[place, 0] == of_slot[slot])
        others[slot] = float(scores[column]), int(persons[column]), int(nearest[column])
        rest = np.array([held for held in of_person[of_slot[slot]] if held != slot], np.int64)
        if len(rest):
            zeros = torch.zeros(len(rest), dtype=torch.int64)
            rows = torch.from_numpy(store.rows(rest))
            own[slot] = float(pair_scores(units[place : place + 1], zeros, torch.arange(len(rest)), rows).max())
    return own, others


def alarms(
    store: Store, slots: Int64[np.ndarray, " new"], margin: float = 0.0, expired: Sequence[int] = ()
) -> dict[int, Alarm]:
    """The alarm of each new photograph that is to be stopped, by its slot, within `writing` and once they are added.

    A photograph of a person with others is stopped where it is nearer to another person by more than the margin, and a
    first one where it is above the gallery's threshold with somebody. One that is nearest to another new photograph
    which stands out more is not among them: it may be right once that is stopped, so look again without that. People
    whose consent has expired, by their numbers, are not found here either.
    """
    if not len(slots):
        return {}
    threshold = KeptPromise(store).threshold.threshold
    own, others = _compared(store, slots, expired)
    excess = {slot: score - (own[slot] + margin if slot in own else threshold) for slot, (score, *_) in others.items()}
    stopped = [slot for slot, (*_, seen) in others.items() if 0 < excess[slot] >= excess.get(seen, 0.0)]
    joined = "SELECT slot, f.name, p.name FROM photographs f JOIN people p USING (person) WHERE slot IN"
    about = {slot: (photograph, person) for slot, photograph, person in store.among(joined, stopped)}
    people = sorted({others[slot][1] for slot in stopped})
    names = dict(store.among("SELECT person, name FROM people WHERE person IN", people))
    found = dict[int, Alarm]()
    for slot in stopped:
        score, other, _ = others[slot]
        found[slot] = Alarm(*about[slot], names[other], score, own.get(slot))
    return found


def found_rate(store: Store, expired: Sequence[int]) -> FoundRate | None:
    """How many enrolled people are found by one of their photographs in the gallery without it, within `reading`.

    One photograph is drawn of each person who has two, of at most 1,000 people, and of fewer where photographs are very
    many; nobody whose consent has expired counts. None where nobody has two, and where rows may have been carried over:
    they are more alike than a photograph by the new model is to them.
    """
    if store.fact("migrations") and store.select("SELECT 1 FROM photographs WHERE image IS NULL LIMIT 1"):
        return None
    several = "SELECT person FROM photographs GROUP BY person HAVING count(*) > 1"
    held = store.select(f"SELECT slot, person FROM photographs WHERE person IN ({several}) ORDER BY slot")
    slot, person = np.array(held, np.int64).reshape(-1, 2)[~np.isin([person for _, person in held], expired)].T
    if not len(slot):
        return None
    drawn = slot[one_probe_each(np.unique(person, return_inverse=True)[1], seed=0)]
    most = min(_MEASURED, -(-_COMPARED // store.count("photographs")))
    own, others = _compared(store, np.sort(numpy_generator(0).permutation(drawn)[:most]), expired)
    threshold = KeptPromise(store).threshold.threshold
    found = sum(score > max(threshold, others[one][0]) for one, score in own.items())
    return FoundRate.of("the gallery's own photographs, each looked for without itself", found, len(own))
