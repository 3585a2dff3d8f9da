"""Results as JSON: the field names of the objects, null for a number that is not finite and a field that says so.

A curve is CSV.
"""

import csv
import dataclasses
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from verisphere.decide import Curve
from verisphere.vocabulary import OperatingPoint, Origin

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


@dataclasses.dataclass(frozen=True)
class EvaluatedFile:
    """A file that figures are of.

    Attributes:
        file: its name, without its folder.
        sha256: its digest, in hexadecimal.
        origin: what made its embeddings, where it says so.
    """

    file: str
    sha256: str
    origin: Origin | None = None


Json: TypeAlias = dict[str, Any] | list[Any] | str | int | float | bool | None


def to_json(value: object) -> Json:
    """A result as plain JSON values.

    Dataclasses become objects with their field names. A number that is not finite becomes null, and beside it stands
    `<name>_is_infinite`: true for an infinity, with its sign in `<name>_sign`. Beside a list of numbers that holds such
    a one both are lists.
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


def json_text(value: object) -> str:
    """A result as JSON text, which any JSON reader takes (no NaN or Infinity)."""
    return json.dumps(to_json(value), indent=2, allow_nan=False) + "\n"


def curve_csv(curve: Curve, points: Sequence[OperatingPoint] = ()) -> str:
    """A curve as CSV, FAR descending: the first line accepts everything.

    Accept iff score > threshold. The columns far_target and rule are filled where the threshold is that of an operating
    point; several targets stand with a space between.

    Args:
        curve: the curve.
        points: operating points whose thresholds are among its own (see `with_points`).
    """
    targets: dict[float, list[str]] = {}
    for point in points:
        targets.setdefault(point.threshold, []).append(point.far_target)
    rules = " ".join(dict.fromkeys(point.rule for point in points))
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(CURVE_COLUMNS)
    columns = (curve.thresholds, curve.far, curve.tar, curve.frr, curve.impostor_accepted, curve.genuine_accepted)
    for threshold, far, tar, frr, passed, accepted in zip(*(column[::-1].tolist() for column in columns), strict=True):
        marks = [" ".join(targets[threshold]), rules] if threshold in targets else ["", ""]
        counts = [passed, curve.impostor_total, accepted, curve.genuine_total]
        lines.writerow([repr(threshold), repr(far), repr(tar), repr(frr), *counts, *marks])
    return text.getvalue()
