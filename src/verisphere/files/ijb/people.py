"""The person of each template (gallery and probe files), and groups of templates or people (covariates)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from verisphere.base.identity import decided, folded, is_missing, spellings
from verisphere.base.vocabulary import NOBODY
from verisphere.files.json_values import shortened, shown
from verisphere.files.text import LONGEST_NAME, csv_rows, is_count

TEMPLATE, SUBJECT = "TEMPLATE_ID", "SUBJECT_ID"


@dataclass(frozen=True, eq=False)
class TemplatePeople:
    """Templates of a gallery, or probes, each once, in the order of the file, with its person and first line."""

    source: Path
    templates: Int64[np.ndarray, " templates"]
    subjects: tuple[str, ...]
    lines: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Covariate:
    """One column of a file of covariates."""

    by: str  # `TEMPLATE_ID` or `SUBJECT_ID`
    values: dict[str, str]
    several: int  # number of templates or people whose rows disagree; they have no value
    missing: int  # number of templates or people whose rows state no value


def read_people(path: Path) -> TemplatePeople:
    """Reads a gallery or probe file: CSV with a header that has TEMPLATE_ID and SUBJECT_ID; other columns are ignored.

    A template has one row, or one for each of its faces.
    """
    templates, named, rows = list[str](), list[str](), list[int]()
    for line, (template, subject) in _cells(path, (TEMPLATE, SUBJECT)):
        if not is_count(template):
            raise ValueError(f"{path}: line {line}: {TEMPLATE} is {shown(template)}; it must be a whole number")
        if is_missing(subject) or folded(subject) == NOBODY or len(subject) > LONGEST_NAME:
            raise ValueError(f"{path}: line {line}: {SUBJECT} is {shown(subject)}, which names no person")
        templates.append(template)
        named.append(subject)
        rows.append(line)
    first: dict[int, tuple[str, int]] = {}
    for template, subject, line in zip(templates, one_spelling([(path, named, rows)])[0], rows, strict=True):
        known, known_line = first.setdefault(int(template), (subject, line))
        if known != subject:
            raise ValueError(
                f"{path}: line {line}: template {template} shows {shown(subject)}, but {shown(known)} on line "
                f"{known_line}"
            )
    if not first:
        raise ValueError(f"{path}: it lists no template")
    subjects, lines = zip(*first.values(), strict=True)
    return TemplatePeople(path, np.array(list(first), np.int64), subjects, lines)


def one_spelling(columns: Sequence[tuple[Path, Sequence[str], Sequence[int]]]) -> list[list[str]]:
    """The people of each column, each with its file and lines, with one spelling in all together; see `spellings`."""
    parts = [people for _, people, _ in columns]
    every = list(chain.from_iterable(parts))

    def where(row: int) -> str:
        for path, _, lines in columns:
            if row < len(lines):
                return f"{path}: line {lines[row]}"
            row -= len(lines)
        raise IndexError(row)

    new = spellings(dict.fromkeys(every), every, where, decided(), parts)
    return [[new.get(person, person) for person in people] for people in parts]


def read_covariate(path: Path, column: str) -> Covariate:
    """Reads one column of a file of covariates, as text: whole numbers lose their decimals (`1.0` is `1`)."""
    header = _header(path)
    by = next((name for name in (TEMPLATE, SUBJECT) if name in header), TEMPLATE)
    values: dict[str, str] = {}
    several: set[str] = set()
    seen: set[str] = set()
    owners, stated, lines = list[str](), list[str](), list[int]()
    for line, (whose, value) in _cells(path, (by, column)):
        if by == TEMPLATE and not is_count(whose):
            raise ValueError(f"{path}: line {line}: {TEMPLATE} is {shown(whose)}; it must be a whole number")
        if by == SUBJECT and is_missing(whose):
            continue
        owners.append(str(int(whose)) if by == TEMPLATE else whose)
        stated.append(value)
        lines.append(line)
    for whose, value in zip(one_spelling([(path, owners, lines)])[0], stated, strict=True):
        seen.add(whose)
        value = _plain(value)
        if value and values.setdefault(whose, value) != value:
            several.add(whose)
    for whose in several:
        del values[whose]
    return Covariate(by, values, len(several), len(seen) - len(values) - len(several))


def _plain(value: str) -> str:
    """A value without the decimals of a whole number; empty if it is missing."""
    if is_missing(value):
        return ""
    head, _, tail = value.partition(".")
    return head if head.removeprefix("-").isdigit() and not tail.strip("0") else value


def _header(path: Path) -> list[str]:
    for _, row in csv_rows(path):
        return [cell.strip().upper() for cell in row]
    raise ValueError(f"{path}: it is empty; its first line names the columns")


def _cells(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of these columns, for each row after the header."""
    header = _header(path)
    lacking = [name for name in columns if name.upper() not in header]
    if lacking:
        raise ValueError(
            f"{path}: no column {' and no column '.join(lacking)}; its first line names the columns, which are "
            f"{shortened(', '.join(header), 200)}"
        )
    if twice := next((name.upper() for name in columns if header.count(name.upper()) > 1), None):
        raise ValueError(
            f"{path}: {header.count(twice)} columns are called {twice}; rename all but the one that counts"
        )
    places = [header.index(name.upper()) for name in columns]
    for number, (line, row) in enumerate(csv_rows(path)):
        if number == 0:
            continue
        if len(row) <= max(places):
            raise ValueError(f"{path}: line {line}: {len(row)} entries where the header has {len(header)}")
        yield line, [row[place].strip() for place in places]
