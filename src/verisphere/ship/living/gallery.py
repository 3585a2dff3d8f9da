"""A gallery that changes: people are enrolled and removed, and the promise about strangers is renewed with each change.

The gallery keeps the embeddings of strangers. Whatever changes it scores them anew in the same transaction, and writes
the threshold with its promise, so that there is no moment at which people are searched by another gallery's threshold.
A person's score is the highest over their photographs, and the number of people is what the promise names.
"""

import getpass
import os
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64

from verisphere.base.identity import NOBODY, as_read, decided, folded, is_missing
from verisphere.base.provenance import unrecorded
from verisphere.base.vocabulary import Origin, Progress, quietly
from verisphere.decide import Far, GalleryThreshold, Guarantee
from verisphere.files.gallery_store import create_store, open_store
from verisphere.files.json_values import shown
from verisphere.models.gallery import Cohort, Searched
from verisphere.score import unit_rows
from verisphere.ship.calibrated_files import EmbeddingsSet
from verisphere.ship.calibration_check import NOTHING, Accepted
from verisphere.ship.living.promise import KeptPromise, alarms, found_rate
from verisphere.ship.living.records import Alarm, Enrolled, GalleryInfo, GalleryListing, NewPhotographs, PersonListed

_AT_ONCE = 1 << 13  # rows of a transaction
_CANDIDATES = 64  # people of a probe that are looked at first; more where all of these pass


class _Stopped(Exception):
    """Some photographs of a part are not to be enrolled."""


class _Names(dict[int, str]):
    """The names of those people whom a search has found, by their numbers; the length is that of all."""

    count = 0

    def __len__(self) -> int:
        return self.count


class LivingGallery:
    """A gallery on disk, or in PostgreSQL, that people are enrolled in, removed from, and searched in; see the module.

    Attributes:
        promise: the strangers that the gallery keeps, and what follows from them.
        people: names by the numbers of people that `search` gives; its length is the number of people.
    """

    left_out: tuple[str, ...] = ()
    skipped: tuple[Any, ...] = ()
    names_rule = None

    def __init__(self, place: str | Path) -> None:
        self.store = open_store(place)
        self.path = Path(self.store.name)
        self.promise = KeptPromise(self.store)

        self.people = _Names()
        self.people.count = self.store.count("people")

    @property
    def origin(self) -> Origin | None:
        """How its rows are made, as of now: photographs of probes must be embedded in the same way."""
        return self.promise.origin

    @property
    def threshold(self) -> GalleryThreshold:
        """The threshold with its promise, for the gallery as it is now."""
        return self.promise.threshold

    @property
    def gallery(self) -> "LivingGallery":
        """Itself, as what is searched."""
        return self

    def search(
        self,
        probes: Float32[np.ndarray, "probes dim"],
        statistic: str = "best",
        cohort: Cohort | None = None,
        candidates: int = _CANDIDATES,
        progress: Progress = quietly,
    ) -> Searched:
        """The best people of each probe as by `Gallery.search`: those who pass and a few, none of expired consent."""
        units = unit_rows(probes)
        with self.store.reading():
            self.promise.check_model(probes.shape[1])
            expired = self._expired()
            everybody = self.store.count("people") - len(expired)
            count, limit = max(min(candidates, _CANDIDATES, everybody), 1), self.threshold.threshold
            while True:
                scores, persons, slots = self.store.nearest(units, count, expired)
                if count >= min(candidates, everybody) or not (scores[:, -1] > limit).any():
                    break
                count = min(4 * count, candidates, everybody)
            self.people.count = everybody
            numbers = np.unique(persons[persons >= 0]).tolist()
            self.people.update(self.store.among("SELECT person, name FROM people WHERE person IN", numbers))
        return Searched(scores, scores, persons, slots)

    def person(self, name: str) -> tuple[str, Float32[np.ndarray, "photographs dim"]]:
        """The name of a person as it was enrolled, and their rows."""
        with self.store.reading():
            self.promise.check_model()
            number, spelled, expires = self._known([name])[0]
            if expires and expires <= _today():
                raise ValueError(f"{self.store.name}: the consent of {shown(spelled)} has expired on {expires}")
            found = self.store.select("SELECT slot FROM photographs WHERE person = ? ORDER BY slot", number)
            return spelled, self.store.rows(np.array(found, np.int64).flatten())

    def enrol(
        self,
        photographs: NewPhotographs,
        *,
        consent: str = "",
        expires: date | None = None,
        operator: str | None = None,
        margin: float = 0.0,
        accept_alarms: bool = False,
        progress: Progress = quietly,
    ) -> Enrolled:
        """Enrol photographs of people, some thousands at a time: each such part is enrolled completely or not at all.

        Photographs that look like another person's than their own (`alarms`) are not enrolled unless it is accepted;
        the margin is that of a gate. A photograph that a person has already is not enrolled again, so that an enrolment
        which was interrupted is repeated. A stranger of the promise who is enrolled by name is a stranger no longer.

        Refused are missing names, spellings of another's name, photographs that were embedded in another way, and what
        would leave the promise too few strangers.
        """
        operator = operator or _user()
        whole = Enrolled(0, 0, 0, (), ())
        order = sorted(range(len(photographs.people)), key=lambda row: folded(photographs.people[row]))
        starts = range(0, len(order), _AT_ONCE)
        for start in progress(starts, "enrolling", len(starts)):
            part = photographs.take(order[start : start + _AT_ONCE])
            about = consent, None if expires is None else expires.isoformat(), _now(), operator
            stopped: list[Alarm] = []
            while True:
                try:
                    with self.store.writing():
                        self.promise.check_model(part.rows.shape[1])
                        self._keep_origins(part.origins)
                        done, slots = self._enrol(part, about)
                        fresh = slots[slots >= 0]
                        if accept_alarms or not (looking := alarms(self.store, fresh, margin, self._expired())):
                            break
                        raise _Stopped  # and once more without them
                except _Stopped:
                    stopped += looking.values()
                    part = part.take(np.flatnonzero(~np.isin(slots, [*looking])).tolist())
            done = replace(done, stopped=tuple(stopped))
            whole = Enrolled(*(getattr(whole, name) + getattr(done, name) for name in vars(whole)))
        return whole

    def remove(self, names: Sequence[str], operator: str | None = None) -> int:
        """Remove people with all of their photographs; the number of these. `compact` then removes every trace."""
        with self.store.writing():
            return self._remove([number for number, *_ in self._known(names)], operator or _user())

    def remove_expired(self, operator: str | None = None) -> int:
        """Remove everybody whose consent has expired; the number of their photographs."""
        with self.store.writing():
            return self._remove(self._expired(), operator or _user())

    def listing(self) -> GalleryListing:
        """Everybody who is enrolled, by name."""
        found = self.store.select(
            "SELECT p.name, count(*), p.enrolled, p.operator, p.consent, coalesce(p.expires, '') FROM people p "
            "JOIN photographs f ON f.person = p.person "
            "GROUP BY p.person, p.name, p.enrolled, p.operator, p.consent, p.expires ORDER BY 1"
        )
        return GalleryListing(tuple(PersonListed(*row) for row in found))

    def info(self, found: bool = False) -> GalleryInfo:
        """What the gallery holds and promises; on request also how many people are found, which takes a search."""
        with self.store.reading():
            counts = {table: self.store.count(table) for table in ("people", "photographs", "strangers", "removed")}
            promise, expired = self.threshold if counts["people"] else None, self._expired()
            if promise is not None and found:
                promise = replace(promise, identified=found_rate(self.store, expired))
            trusted = None in self.promise.enrolled
            return GalleryInfo(
                self.store.name,
                expired=len(expired),
                size=self.store.size(),
                origin=self.origin,
                trusted=trusted,
                threshold=promise,
                unrecorded=unrecorded(*self.promise.origins),
                names_rule=self.promise.terms.names_rule,
                weak_strangers=self.promise.terms.weak,
                **counts,
            )

    def _enrol(
        self, new: NewPhotographs, about: tuple[str, str | None, str, str]
    ) -> tuple[Enrolled, Int64[np.ndarray, " photographs"]]:
        """What was enrolled, and the slot of each photograph; -1 for one that the person had before."""
        if bad := [name for name in new.people if is_missing(name) or folded(name) == NOBODY]:
            raise ValueError(f"{shown(bad[0])} is no name of a person")
        store, forms = self.store, [folded(name) for name in new.people]
        sql = "SELECT folded, name, person, consent, expires FROM people WHERE folded IN"
        there = {form: known for form, *known in store.among(sql, sorted(set(forms)))}
        spelled, renewed = {form: known[0] for form, known in there.items()}, list[tuple[Any, ...]]()
        how = decided()
        for _, person, *before in there.values():
            consent = [latest or former for latest, former in zip(about[:2], before, strict=True)]
            renewed += [(*consent, person)] if consent != before else []
        for name, form in zip(new.people, forms, strict=True):
            known = spelled.setdefault(form, as_read(name, how))
            if as_read(known, how) != as_read(name, how) and how != "merge":
                raise ValueError(
                    f"{store.name}: {shown(name)} is {shown(known)} but for case, blanks, Unicode form, invisible "
                    "letters or the spelling of a number; --names merge takes such names as one person"
                )
        added = [(name, form, secrets.token_hex(8), *about) for form, name in spelled.items() if form not in there]
        columns = "name, folded, code, consent, expires, enrolled, operator"
        store.change(f"INSERT INTO people ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", added)
        numbers = dict(store.among("SELECT folded, person FROM people WHERE folded IN", [*spelled]))
        sql = "SELECT person, digest FROM photographs WHERE person IN"
        held = set(store.among(sql, sorted(numbers.values())))
        slots, first = np.full(len(forms), -1), store.next_slot()
        photographs, kept = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
        for row, (form, digest) in enumerate(zip(forms, new.digests, strict=True)):
            person, image = numbers[form], None if new.images is None else new.images[row]
            if (person, digest) not in held:
                held.add((person, digest))
                slots[row] = first + len(photographs)
                photographs.append((int(slots[row]), person, new.names[row], digest, image, *about[2:]))
            elif image is not None:
                kept.append((image, person, digest))
        store.change("UPDATE people SET consent = ?, expires = ? WHERE person = ?", renewed)
        store.change("UPDATE photographs SET image = ? WHERE image IS NULL AND person = ? AND digest = ?", kept)
        columns = "slot, person, name, digest, image, enrolled, operator"
        store.change(f"INSERT INTO photographs ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", photographs)
        rows = new.rows[slots >= 0]
        store.add_rows(first, rows)
        strangers_left = self.promise.drop([*spelled])
        self.promise.rescore(rows, first)
        self.promise.renew()
        self._audit("enrol", Counter(person for _, person, *_ in photographs), about[3])
        self._audit("consent", Counter({person: 0 for *_, person in renewed}), about[3])
        known = len(forms) - len(rows)
        return Enrolled(len(rows), len(added), known, tuple(strangers_left), (), len(renewed)), slots

    def _keep_origins(self, origins: Sequence[Origin]) -> None:
        """Keep how new photographs were embedded, or that nothing says so; the next ones are compared with it, too."""
        kept = list(self.promise.enrolled)
        for origin in origins or (None,):
            if origin is not None:  # else the file is named where it is read, and every answer says so
                self.promise.check_origin("the new photographs", origin, said=True)
            kept += [origin] if origin not in kept else []
        self.store.set_fact("enrolled", kept)

    def _remove(self, numbers: Sequence[int], operator: str) -> int:
        count = Counter[int]()
        slots = list[int]()
        for person, slot in self.store.among("SELECT person, slot FROM photographs WHERE person IN", numbers):
            count[person] += 1
            slots.append(slot)
        self._audit("remove", count, operator)
        self.store.change("INSERT INTO removed VALUES (?)", [(slot,) for slot in slots])
        for table in ("photographs", "people"):
            self.store.change(f"DELETE FROM {table} WHERE person = ?", [(number,) for number in numbers])
        self.promise.rescore_removed(slots)
        self.promise.renew()
        return len(slots)

    def _known(self, names: Sequence[str]) -> list[tuple[int, str, str | None]]:
        found = []
        for name in names:
            person = self.store.select("SELECT person, name, expires FROM people WHERE folded = ?", folded(name))
            how = decided()
            if not person or (as_read(person[0][1], how) != as_read(name, how) and how != "merge"):
                spelled = f" (but {shown(person[0][1])} is)" if person else ""
                raise ValueError(f"{self.store.name}: {shown(name)} is not enrolled{spelled}")
            found += person
        return found

    def _expired(self) -> list[int]:
        return [number for (number,) in self.store.select("SELECT person FROM people WHERE expires <= ?", _today())]

    def _audit(self, action: str, photographs: Counter[int], operator: str) -> None:
        codes = self.store.among("SELECT person, code FROM people WHERE person IN", sorted(photographs))
        entries = [(_now(), operator, action, code, photographs[person]) for person, code in codes]
        columns = "moment, operator, action, code, photographs"
        self.store.change(f"INSERT INTO audit ({columns}) VALUES (?, ?, ?, ?, ?)", entries)


def create_gallery(
    folder: str | Path,
    strangers: EmbeddingsSet,
    fpir: Far,
    guarantee: Guarantee = "confident",
    *,
    seed: int = 0,
    accepted: Accepted = NOTHING,
) -> LivingGallery:
    """Make an empty gallery for people whose photographs are embedded as these strangers: see `set_strangers`."""
    about = strangers, fpir, guarantee, seed, accepted
    create_store(folder, {"dim": str(strangers.dim)}, lambda store: KeptPromise(store).set_strangers(*about))
    return LivingGallery(folder)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # as in a container whose user has a number alone
        return f"user {os.getuid()}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _today() -> str:
    return date.today().isoformat()
