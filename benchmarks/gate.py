"""What the enrolment gate and its alarm refuse on LFW, and what that does to people missed and to strangers found.

`python benchmarks/gate.py --data ../shared/data --kept FOLDER` writes gate.csv beside this file, the source of the
figures of docs/enrolment.md, and the picture of that page. The first run embeds about 20,000 images, most of an hour on
one core, and keeps them in FOLDER; later ones take a few minutes. Seeds are fixed. `--only PART` keeps the other rows.

Parts:
- measures: what refusing the worst share of enrolled photographs by one measure buys.
- extents: from where on small faces, motion and defocus harm, and from where on they are refused.
- bar: a tenth of enrolments is poisoned, a third each by reduced, by blurred and by wrong photographs.
- chosen: what `gate fit` measures of each share of good photographs, and which it chooses, on 2,600 people.
"""

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gate_page
import numpy as np
import torch
from gate_lfw import Lfw

from verisphere.base.vocabulary import Embeddings
from verisphere.decide import gallery_threshold
from verisphere.files.gate import MEASURES, Gate
from verisphere.ship.gate import chosen, effects_of, fit_gate, lengths_of

ROOT = Path(__file__).parents[1]
FPIR = "1e-2"
DISCARDED = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
EXTENTS = {
    "reduced": (12, 16, 20, 24, 28, 32, 40, 48, 56, 72),
    "motion": (3, 5, 8, 12, 16, 24),
    "defocus": (1, 1.5, 2, 3, 4, 6, 8),
}
GOOD = ("2.5e-3", "1e-2", "2e-2", "4e-2")
ASKED = "2e-2"
Row = dict[str, Any]


def row(part: str, case: str, name: str, at: Any, figure: str, values: Any) -> Row:
    """A figure: its mean over splits, with the lowest and the highest."""
    values = np.asarray(values, float).ravel()
    ends = {"mean": values.mean(), "low": values.min(), "high": values.max()}
    return {"part": part, "case": case, "name": name, "at": at, "figure": figure} | ends | {"splits": len(values)}


@dataclass(frozen=True, eq=False)
class Split:
    """LFW's people in three parts: to fit the gate on, to enrol, and strangers; rows of `Lfw`."""

    lfw: Lfw
    seed: int

    def __post_init__(self) -> None:
        draw, person, chosen = np.random.default_rng(self.seed), self.lfw.person, self.lfw.chosen
        count = np.bincount(person)
        several, single = draw.permutation(np.flatnonzero(count > 1)), draw.permutation(np.flatnonzero(count == 1))
        fitted, enrolled, strangers = np.array_split(several, 3)
        of_fit, calibrating, searching = np.array_split(single, 3)
        set_ = object.__setattr__
        set_(self, "fitted", np.flatnonzero(np.isin(person, np.concatenate([fitted, of_fit]))))
        set_(self, "people", {int(of): draw.permutation(chosen[person[chosen] == of]) for of in enrolled})
        set_(self, "calibrating", np.flatnonzero(np.isin(person, calibrating)))
        set_(self, "searching", np.flatnonzero(np.isin(person, searching)))
        place = np.flatnonzero(np.isin(person[chosen], strangers))
        set_(self, "strangers", place[np.unique(person[chosen[place]], return_index=True)[1]])  # places in `chosen`

    def gate(self, good: str) -> Gate:
        """The gate fitted on the first part, which refuses this share of good photographs."""
        rows, of = self.fitted, self.lfw.embeddings
        embeddings = Embeddings(of.embeddings[rows], of.names[rows], of.identities[rows], names_rule="exact")
        return fit_gate({name: numbers[rows] for name, numbers in self.lfw.measured.items()}, embeddings, good=good)

    def threshold(self, gallery: torch.Tensor, people: int) -> float:
        """The threshold of a gallery that the second third of the single people gives, with 95 % confidence."""
        best = (self.lfw.units[self.calibrating] @ gallery.T).amax(1)
        return gallery_threshold(best, FPIR, "confident", people=people).threshold


@dataclass(frozen=True)
class New:
    """A photograph that is to be enrolled for a person: a row of `Lfw`, or a place among the worse copies."""

    person: int
    row: int
    kind: str
    worse: int = -1


def photographs(split: Split, there_already: bool) -> tuple[list[New], list[New], dict[int, int]]:
    """Photographs that are enrolled already, those that come, a tenth poisoned, and a probe of each person.

    A wrong photograph is one of another enrolled person, which is used for nothing else, or of a stranger.
    """
    draw, chosen = np.random.default_rng(split.seed + 1000), split.lfw.chosen
    place = {int(image): number for number, image in enumerate(chosen)}
    base, coming, probes, spare = [], [], {}, []
    for person, images in split.people.items():
        probe, *rest = map(int, images)
        if len(rest) < 1 + there_already:
            continue
        probes[person] = probe
        if len(rest) > 2:
            spare.append((person, rest.pop()))
        if there_already:
            base.append(New(person, rest.pop(0), "good"))
        coming += [New(person, image, "good") for image in rest]
    order = draw.permutation(len(coming))
    strangers = [(-1, int(chosen[number])) for number in split.strangers]
    wrong = [*draw.permutation(spare).tolist(), *draw.permutation(strangers).tolist()]
    left = {"reduced": len(coming) // 30, "blurred": len(coming) // 30, "wrong": len(coming) // 30}
    for number in order:
        new = coming[number]
        kind = "reduced" if split.lfw.worse["kind"][place[new.row]] == "reduced" else "blurred"
        if left[kind]:
            coming[number], left[kind] = New(new.person, new.row, kind, place[new.row]), left[kind] - 1
        elif left["wrong"]:
            member = left["wrong"] % 2 == 0
            of, image = next(pair for pair in wrong[:: 1 if member else -1] if pair[0] not in (new.person,))
            wrong.remove([of, image])
            coming[number] = New(new.person, image, "wrong, enrolled" if member else "wrong, a stranger")
            left["wrong"] -= 1
    return base, [coming[number] for number in draw.permutation(len(coming))], probes


def enrol(
    split: Split, gate: Gate | None, base: list[New], coming: list[New], threshold: float
) -> tuple[list[New], list[tuple[New, str]]]:
    """The photographs that are enrolled, one after the other, and each that came with why it was refused."""
    lfw = split.lfw
    copies = torch.nn.functional.normalize(torch.from_numpy(lfw.worse["embeddings"]), dim=1)
    enrolled, said = list(base), []
    units, people = unit_of(lfw, copies, base), [new.person for new in base]
    units = torch.cat([units, units.new_empty(len(coming), lfw.units.shape[1])])
    for new in coming:
        unit = unit_of(lfw, copies, [new])[0]
        why = ""
        if gate is not None:
            numbers = lfw.worse if new.worse >= 0 else lfw.measured
            at = new.worse if new.worse >= 0 else new.row
            (reasons,) = gate.reasons({name: numbers[name][at : at + 1] for name in ("detail", "length")})
            why = "limits" if reasons else ""
            if not why and people:
                scores, mine = (units[: len(people)] @ unit).numpy(), np.array(people) == new.person
                other, own = scores[~mine].max(initial=-1), scores[mine].max(initial=-1)
                if mine.any():
                    why = "alarm" if other > own + gate.margin else ""
                else:
                    why = "alarm, first" if other > threshold else ""
        said.append((new, why))
        if not why:
            units[len(people)] = unit
            people.append(new.person)
            enrolled.append(new)
    return enrolled, said


def unit_of(lfw: Lfw, copies: torch.Tensor, photographs: list[New]) -> torch.Tensor:
    """Embeddings of photographs at length 1."""
    rows = [copies[new.worse] if new.worse >= 0 else lfw.units[new.row] for new in photographs]
    return torch.stack(rows) if rows else lfw.units[:0]


def rates(split: Split, enrolled: list[New], probes: dict[int, int], threshold: float) -> dict[str, float]:
    """People found by their probes, and strangers found, by good photographs and by worse copies."""
    lfw = split.lfw
    copies = torch.nn.functional.normalize(torch.from_numpy(lfw.worse["embeddings"]), dim=1)
    gallery, people = unit_of(lfw, copies, enrolled), np.array([new.person for new in enrolled])
    there = [person for person in probes if person in set(people.tolist())]
    scores = (lfw.units[[probes[person] for person in there]] @ gallery.T).numpy()
    mine = np.array(there)[:, None] == people[None]
    mate, other = np.where(mine, scores, -1).max(1), np.where(mine, -1, scores).max(1)
    searched = {"fpir": lfw.units[split.searching], "fpir, worse": copies[split.strangers]}
    found = {name: float(((rows @ gallery.T).amax(1) > threshold).double().mean()) for name, rows in searched.items()}
    return {"tpir": float(((mate > threshold) & (mate > other)).mean()), "threshold": threshold} | found


def bar(lfw: Lfw, splits: int) -> Iterator[Row]:
    """A tenth of the enrolments poisoned: what is refused, and how the gallery serves, with the gate and without."""
    figures: dict[tuple[str, str, str, str], list[float]] = {}
    for seed in range(splits):
        split = Split(lfw, seed)
        gates = {"": None} | {good: split.gate(good) for good in GOOD}
        for case in ("empty at first", "one photograph each"):
            base, coming, probes = photographs(split, case != "empty at first")
            clean = [*base, *(new for new in coming if new.kind == "good")]
            good_units = lfw.units[[new.row for new in clean]]
            before = split.threshold(good_units, len(probes))
            done = {"nothing poisoned": (clean, [])}
            done |= {name or "no gate": enrol(split, gate, base, coming, before) for name, gate in gates.items()}
            for name, (enrolled, said) in done.items():
                for kind in sorted({new.kind for new, _ in said}):
                    whys = [why for new, why in said if new.kind == kind]
                    for why in ("", "limits", "alarm", "alarm, first"):
                        share = np.mean([of == why if why else bool(of) for of in whys])
                        figures.setdefault((case, name, kind, f"refused by {why}" if why else "refused"), []).append(
                            share
                        )
                units = unit_of(
                    lfw, torch.nn.functional.normalize(torch.from_numpy(lfw.worse["embeddings"]), dim=1), enrolled
                )
                for when, at in (("as before", before), ("anew", split.threshold(units, len(probes)))):
                    for figure, value in rates(split, enrolled, probes, at).items():
                        figures.setdefault((case, name, when, figure), []).append(value)
        print(f"bar: split {seed + 1} of {splits}", flush=True)
    for (case, name, at, figure), values in figures.items():
        yield row("bar", case, name, at, figure, values)


def measures(lfw: Lfw, splits: int) -> Iterator[Row]:
    """People missed and strangers found once the worst enrolled photographs by one measure are refused."""
    numbers = {
        f"{side} {name}": (1 if side == "least" else -1) * np.nan_to_num(values)
        for name, values in ({name: of[lfw.chosen] for name, of in lfw.measured.items()} | lfw.others).items()
        for side in (MEASURES[name][1] if name in MEASURES else ("least",))
    }
    numbers["chance"] = np.random.default_rng(0).random(len(lfw.chosen))
    figures: dict[tuple[str, float, str], list[float]] = {}
    person, count = lfw.person, np.bincount(lfw.person)
    single = np.flatnonzero(count[person] == 1)
    for seed in range(splits):
        draw = np.random.default_rng(seed)
        order = draw.permutation(len(lfw.chosen))
        _, first = np.unique(person[lfw.chosen[order]], return_index=True)
        rest = np.delete(order, first)
        rest = rest[np.unique(person[lfw.chosen[rest]], return_index=True)[1]]
        at, halves = order[first], np.array_split(draw.permutation(single), 2)
        gallery = lfw.units[lfw.chosen[at]]
        best, searched = (lfw.units[half] @ gallery.T for half in halves)
        threshold = gallery_threshold(best.amax(1), FPIR, "expected", people=len(at)).threshold
        scores = lfw.units[lfw.chosen[rest]] @ gallery.T
        for name, of in numbers.items():
            for share in DISCARDED:
                kept = np.sort(np.argsort(of[at], kind="stable")[int(share * len(at)) :])
                ours = scores[kept][:, kept]
                mate, other = ours.diagonal().clone(), ours.fill_diagonal_(-1).amax(1)
                missed = 1 - ((mate > threshold) & (mate > other)).double().mean()
                found = (searched[:, kept].amax(1) > threshold).double().mean()
                figures.setdefault((name, share, "fnir"), []).append(float(missed))
                figures.setdefault((name, share, "fpir"), []).append(float(found))
    for (name, share, figure), values in figures.items():
        yield row("measures", "", name, share, figure, values)


def extents(lfw: Lfw, splits: int) -> Iterator[Row]:
    """The likeness that copies keep at each extent, and the share of them that the gate's limits refuse."""
    gates = [Split(lfw, seed).gate(ASKED) for seed in range(splits)]
    for kind, all_extents in EXTENTS.items():
        made = lfw.extents(kind, all_extents, 200)
        other = [lfw.chosen[np.flatnonzero(lfw.person[lfw.chosen] == lfw.person[image])[1]] for image in made["rows"]]
        for place, extent in enumerate(all_extents):
            unit = torch.nn.functional.normalize(torch.from_numpy(made["embeddings"][place]), dim=1)
            likeness = (unit * lfw.units[other]).sum(1).numpy()
            refused = [gate.limits[0].breaks({"detail": made["detail"][place]}).mean() for gate in gates]
            yield row("extents", kind, "", extent, "likeness", [np.median(likeness)])
            yield row("extents", kind, "", extent, "refused", refused)


def share_chosen(lfw: Lfw, splits: int) -> Iterator[Row]:
    """What `verisphere gate fit` measures and chooses, by detail and by the length too."""
    draw, person = np.random.default_rng(0), lfw.person
    some, seen, rows = set(draw.permutation(person.max() + 1)[:2600].tolist()), np.zeros(person.max() + 1, int), []
    for place, of in enumerate(person.tolist()):
        if of in some and seen[of] < 3:
            seen[of] += 1
            rows.append(place)
    copies = lfw.once("chosen", lambda: lfw.copies(rows))
    worse = Embeddings(copies.pop("embeddings"), lfw.embeddings.names[rows], lfw.embeddings.identities[rows])
    copies["length"] = lengths_of(worse.embeddings)
    good = {name: numbers[rows] for name, numbers in lfw.measured.items()}
    for asked in (("detail",), ("detail", "length")):
        effects = effects_of(good, lfw.embeddings.take(np.array(rows)), copies, worse, FPIR, asked)
        for effect in effects:
            for figure in ("worse_refused", "fpir", "fpir_highest", "tpir"):
                yield row("chosen", "", " and ".join(asked), effect.good, figure, [getattr(effect, figure)])
        yield row("chosen", "", " and ".join(asked), "", "chosen", [float(chosen(effects, FPIR))])


PARTS = {"measures": measures, "extents": extents, "bar": bar, "chosen": share_chosen}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with LFW")
    parser.add_argument("--kept", type=Path, required=True, help="folder for what is embedded once")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--only", choices=PARTS)
    options = parser.parse_args()
    options.kept.mkdir(parents=True, exist_ok=True)
    lfw, rows = Lfw(options.data, options.kept), gate_page.read_rows()
    for part in [options.only] if options.only else PARTS:
        rows = [of for of in rows if of["part"] != part] + list(PARTS[part](lfw, options.splits))
        with gate_page.CSV.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            numbers = ("mean", "low", "high")
            writer.writerows(of | {name: f"{float(of[name]):.5f}" for name in numbers} for of in rows)
    gate_page.draw(gate_page.read_rows())


if __name__ == "__main__":
    main()
