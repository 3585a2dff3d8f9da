"""New photographs of a gallery that look like another person's than their own: they are stopped, and shown."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64

from verisphere.base.vocabulary import printable
from verisphere.files.gallery_store import Store
from verisphere.score import pair_scores
from verisphere.ship.living.promise import KeptPromise


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
    threshold, units = KeptPromise(store).threshold.threshold, torch.from_numpy(store.rows(slots))
    scores, persons, nearest = store.nearest(units, 2, expired)
    joined = "SELECT slot, person, f.name, p.name FROM photographs f JOIN people p USING (person) WHERE slot IN"
    about = {slot: (person, name, whose) for slot, person, name, whose in store.among(joined, slots.tolist())}
    of_person: dict[int, list[int]] = {}
    people = sorted({person for person, *_ in about.values()})
    for person, slot in store.among("SELECT person, slot FROM photographs WHERE person IN", people):
        of_person.setdefault(person, []).append(slot)
    excess, seen = dict[int, float](), dict[int, int]()  # and the photograph of the other person
    near: dict[int, tuple[int, float, float | None]] = {}
    for place, slot in enumerate(slots.tolist()):
        person = about[slot][0]
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
        near[slot] = other, score, own
    stopped = [slot for slot in near if 0 < excess[slot] >= excess.get(seen[slot], 0.0)]
    others = sorted({near[slot][0] for slot in stopped})
    names = dict(store.among("SELECT person, name FROM people WHERE person IN", others))
    return {slot: Alarm(*about[slot][1:], names[near[slot][0]], *near[slot][1:]) for slot in stopped}
