"""The log of a training, `metrics.jsonl`: a line of JSON with the step and its figures, steps ascending."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verisphere.files.disk import MAX_TABLE, read_file, write_whole
from verisphere.files.documents import read_json

#: The step and the figures of a line; None stands for a figure that is not finite.
Entry = Mapping[str, float | int | None]

#: Name of the file in the folder of a run.
METRICS = "metrics.jsonl"


def metrics_line(step: int, figures: Mapping[str, float]) -> str:
    """The line of a step, with its line feed; a figure that is not finite becomes null."""
    finite = {name: value if math.isfinite(value) else None for name, value in figures.items()}
    return json.dumps({"step": step, **finite}) + "\n"


def read_metrics(path: Path) -> list[Entry]:
    """The lines of a log, none if there is no file yet; a last line that a killed process cut short is skipped."""
    if not path.is_file():
        return []
    lines = read_file(path, MAX_TABLE).splitlines()
    entries: list[Entry] = []
    for number, line in enumerate(lines, start=1):
        entry = _entry(line)
        if entry is not None:
            entries.append(entry)
        elif number < len(lines):
            raise ValueError(
                f"{path}: line {number} is not a line of figures as `verisphere train` writes it: {line[:60]!r}"
            )
    return entries


def cut_metrics(path: Path, step: int) -> None:
    """Remove the lines after a step, which a resumed training makes again, and all that follows a damaged line."""
    if not path.exists():
        return
    lines = []
    for line in read_file(path, MAX_TABLE).splitlines(keepends=True):
        try:
            if _parsed(line)["step"] > step:
                break  # steps only grow
        except (ValueError, KeyError, TypeError):
            break  # the last line of a killed run
        lines.append(line)
    write_whole(path, lambda partial: partial.write_bytes(b"".join(lines)))


def _parsed(line: bytes) -> Any:
    return read_json(line.decode("utf-8"))


def _entry(line: bytes) -> Entry | None:
    """The figures of a line; None if it is not a line of figures."""
    try:
        entry = _parsed(line)
    except ValueError:
        return None
    figures = isinstance(entry, dict) and all(
        value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in entry.values()
    )
    return entry if figures else None
