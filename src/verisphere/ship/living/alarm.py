"""New photographs of a gallery that look like another person's than their own: they are stopped, and shown."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64

from verisphere.base.vocabulary import printable
from verisphere.files.gallery_store import Store, among
from verisphere.score import pair_scores


@dataclass(frozen=True)
class Alarm:
    """A new photograph, the other person whom it looks like, and its scores with that person and with its own.

    A first photograph has no score with its own person.
    """

    photograph: str
    person: str
    other: str
    score: float
    own: float | None

    def __str__(self) -> str:
        return f"{printable(self.photograph)}: {self.reason()}"

    def reason(self) -> str:
        """Why it is stopped, in words."""
        other, person = printable(self.other), printable(self.person)
        if self.own is None:
            return f"the first of {person}, and it is found as {other} ({self.score:.4f})"
        return f"nearer to {other} ({self.score:.4f}) than to {person} ({self.own:.4f})"


def alarms(store: Store, slots: Int64[np.ndarray, " new"], threshold: float, margin: float = 0.0) -> dict[int, Alarm]:
    """The alarm of each new photograph that is to be stopped, by its slot, within `writing` and once they are added.

    A photograph of a person with others is stopped where it is nearer to another person by more than the margin, and a
    first one where it is above the gallery's threshold with somebody. One that is nearest to another new photograph
    which stands out more is not among them: it may be right once that is stopped, so look again without that.
    """
    if not len(slots):
        return {}
    units = torch.from_numpy(store.rows(slots))
    scores, persons, nearest = store.nearest(units, 2)
    owner = dict(among(store, "SELECT slot, person FROM photographs WHERE slot IN", slots.tolist()))
    of_person: dict[int, list[int]] = {}
    people = sorted(set(owner.values()))
    for person, slot in among(store, "SELECT person, slot FROM photographs WHERE person IN", people):
        of_person.setdefault(person, []).append(slot)
    stopped: dict[int, tuple[int, float, float | None]] = {}
    excess: dict[int, float] = {}
    seen: dict[int, int] = {}  # the photograph of the other person
    for place, slot in enumerate(slots.tolist()):
        person = owner[slot]
        column = int(persons[place, 0] == person)
        other, score = int(persons[place, column]), float(scores[place, column])
        rest = np.array([held for held in of_person[person] if held != slot], np.int64)
        own = None
        if len(rest):
            rows = torch.from_numpy(store.rows(rest))
            zeros = torch.zeros(len(rest), dtype=torch.int64)
            own = float(pair_scores(units[place : place + 1], zeros, torch.arange(len(rest)), rows).max())
        excess[slot] = score - (threshold if own is None else own + margin)
        seen[slot] = int(nearest[place, column])
        if other >= 0 and excess[slot] > 0:
            stopped[slot] = other, score, own
    worst = {slot for slot in stopped if excess.get(seen[slot], 0.0) <= excess[slot]}
    stopped = {slot: found for slot, found in stopped.items() if slot in worst}
    known = {*(other for other, *_ in stopped.values()), *(owner[slot] for slot in stopped)}
    names = dict(among(store, "SELECT person, name FROM people WHERE person IN", sorted(known)))
    photographs = dict(among(store, "SELECT slot, name FROM photographs WHERE slot IN", sorted(stopped)))
    return {
        slot: Alarm(photographs[slot], names[owner[slot]], names[other], score, own)
        for slot, (other, score, own) in stopped.items()
    }
