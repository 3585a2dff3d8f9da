"""What a command finds: as text for people, and as JSON; a curve is written as CSV.

In JSON objects have their field names; a number that is not finite is null, with a field beside it.
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from verisphere.base.trained_on import SharedWithTraining
from verisphere.base.vocabulary import OperatingPoint, Origin, printable
from verisphere.base.words import Names
from verisphere.decide import Curve, PeopleAtThreshold, PersonCounts
from verisphere.files.disk import write_text
from verisphere.files.tables import csv_for_people, csv_text

CURVE_COLUMNS = (
    "threshold",
    "far",
    "tar",
    "frr",
    "impostor_accepted",
    "impostor_total",
    "genuine_accepted",
    "genuine_total",
    "far_target",
    "rule",
)
PEOPLE_COLUMNS = (
    "far_target",
    "threshold",
    "person",
    "frr",
    "genuine_accepted",
    "genuine_total",
    "far",
    "impostor_accepted",
    "impostor_total",
)


@dataclasses.dataclass(frozen=True)
class EvaluatedFile:
    """A file that was evaluated."""

    file: str
    sha256: str
    origin: Origin | None = None
    in_training: SharedWithTraining | None = None
    names_rule: Names | None = None  # how names that are equal once folded were taken; None where nothing had to decide
    is_list: bool = False  # whether it lists what is compared, such as pairs: no model made it


def first_lines(sources: Sequence[EvaluatedFile], implausible: Sequence[str] = ()) -> str:
    """What is said before the figures: that the model was trained on a set, or that this could not be compared; and why
    the figures cannot be right.
    """
    files: dict[str, list[str]] = {}
    for source in sources:
        known = source.in_training
        if known is not None and (known or known.gap or not known.named):
            warning = "; these figures say nothing about new people" if known else ""
            files.setdefault(f"{known.described()}{warning}", []).append(source.file)
    notes = [f"{', '.join(dict.fromkeys(named))}: {note}" for note, named in files.items()]
    notes += [f"implausible: {'; '.join(implausible)}"] if implausible else []
    return "".join(printable(note) + "\n" for note in notes)


def warnings_of(source: str, shared: SharedWithTraining | None, implausible: Sequence[str]) -> list[str]:
    """Why a promise from a set does not hold, though the set was accepted; empty for nothing."""
    known = [f"{shared.found()} of {source}, so it promises nothing about new people"] if shared else []
    return list(map(printable, (*known, *(f"scores cannot be right: {reason}" for reason in implausible))))


Json: TypeAlias = dict[str, Any] | list[Any] | str | int | float | bool | None


def to_json(value: object) -> Json:
    """A result as plain JSON values.

    A number that is not finite becomes null, with a field `<name>_is_infinite` beside it, which is true for an
    infinity, and its sign in `<name>_sign`. Beside a list with such a number both fields are lists.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_json({field.name: getattr(value, field.name) for field in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        fields: dict[str, Json] = {}
        for name, entry in value.items():
            fields[str(name)] = to_json(entry)
            if isinstance(entry, float) and not math.isfinite(entry):
                fields[f"{name}_is_infinite"], fields[f"{name}_sign"] = math.isinf(entry), _sign(entry)
            numbers = isinstance(entry, (list, tuple)) and all(isinstance(part, float) for part in entry)
            if numbers and not all(math.isfinite(part) for part in entry):
                fields[f"{name}_is_infinite"] = [math.isinf(part) for part in entry]
                fields[f"{name}_sign"] = [_sign(part) for part in entry]
        return fields
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [to_json(entry) for entry in value]
    if value is None or isinstance(value, (str, int, bool)):
        return value
    raise TypeError(f"{type(value).__name__} has no place in a result")


def _sign(value: float) -> int:
    return 0 if math.isnan(value) else int(math.copysign(1, value))


def json_text(value: object, ascii_only: bool = True) -> str:
    """A result as JSON text that any JSON reader accepts (no NaN or Infinity)."""
    return json.dumps(to_json(value), indent=2, allow_nan=False, ensure_ascii=ascii_only) + "\n"


class Result:
    """What a command finds; an option that names a file `OUT` writes it by the method `write_OUT`."""

    ascii_only: ClassVar[bool] = True  # whether other letters are escaped in the JSON

    def text(self) -> str:
        """The result for people."""
        raise NotImplementedError(f"{type(self).__name__} has no text(); a result says there what was found")

    def fields(self) -> Mapping[str, Any]:
        """The values of the JSON, for `to_json`."""
        return vars(self)

    def json(self) -> str:
        """The result as JSON."""
        return json_text(self.fields(), self.ascii_only)

    def write_json(self, path: str | Path) -> None:
        """Writes the result as JSON, completely or not at all."""
        write_text(path, self.json(), errors="backslashreplace")


def curve_csv(curve: Curve, points: Sequence[OperatingPoint] = ()) -> str:
    """A curve as CSV, FAR descending: at the first line everything is accepted.

    Accept iff score > threshold. The columns far_target and rule are filled where the threshold is that of an operating
    point, which the curve must contain (`with_points`); several targets are separated by spaces.
    """
    targets: dict[float, list[str]] = {}
    for point in points:
        targets.setdefault(point.threshold, []).append(point.far_target)
    rules = " ".join(dict.fromkeys(point.rule for point in points))
    rows: list[Sequence[object]] = []
    columns = (curve.thresholds, curve.far, curve.tar, curve.frr, curve.impostor_accepted, curve.genuine_accepted)
    for threshold, far, tar, frr, passed, accepted in zip(*(column[::-1].tolist() for column in columns), strict=True):
        marks = [" ".join(targets[threshold]), rules] if threshold in targets else ["", ""]
        counts = [passed, curve.impostor_total, accepted, curve.genuine_total]
        rows.append([repr(threshold), repr(far), repr(tar), repr(frr), *counts, *marks])
    return csv_text(CURVE_COLUMNS, rows)


def people_csv(thresholds: Sequence[PeopleAtThreshold], counts: Sequence[PersonCounts]) -> str:
    """Each person's comparisons and error rates at each threshold, as CSV; a rate of no comparisons is empty."""
    rows: list[Sequence[object]] = []
    for at, people in zip(thresholds, counts, strict=True):
        columns = (people.genuine_accepted, people.genuine_total, people.impostor_accepted, people.impostor_total)
        rates = zip(people.frr.tolist(), people.far.tolist(), strict=True)
        numbers = zip(*(column.tolist() for column in columns), strict=True)
        for name, (frr, far), (same, of_same, other, of_other) in zip(people.people, rates, numbers, strict=True):
            cells = [repr(rate) if total else "" for rate, total in ((frr, of_same), (far, of_other))]
            rows.append([at.far_target, repr(at.threshold), name, cells[0], same, of_same, cells[1], other, of_other])
    return csv_for_people(PEOPLE_COLUMNS, rows)
