"""CSV, and CSV that people open in a spreadsheet and that no verb reads back."""

import csv
import io
from collections.abc import Iterable

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def plain_cell(value: object) -> object:
    """A cell that a spreadsheet shows as it is: a text that it would run as a formula gets an apostrophe before it.

    >>> [plain_cell(value) for value in ("=1+1", "-Ann", "-0.5", -0.5, "Ann")]
    ["'=1+1", "'-Ann", '-0.5', -0.5, 'Ann']
    """
    if not isinstance(value, str) or not value.startswith(_FORMULA) or len(value) == 1:  # - stands for an empty cell
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def csv_text(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV with its header."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(header)
    lines.writerows(rows)
    return text.getvalue()


def csv_for_people(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV with its header, in plain cells."""
    return csv_text(header, (map(plain_cell, row) for row in rows))
