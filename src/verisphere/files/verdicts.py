"""The verdicts of a person about pairs of photographs that may show one person: a CSV with a column to fill in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from verisphere.files.disk import check_file
from verisphere.files.json_values import shown
from verisphere.files.tables import csv_for_people
from verisphere.files.text import table_rows

Word = Literal["same", "different", "cannot say"]
WORDS: tuple[Word, ...] = get_args(Word)
_FACES = ("photograph", "other_photograph", "digests")
#: The columns of a list after the number of the pair, and the fields of `Suspicious` in them.
_FIELDS = {
    "person": "person",
    "photograph": "photograph",
    "other_person": "other_person",
    "other_photograph": "other",
    "score": "score",
    "digests": "seal",
    "verdict": "verdict",
}


@dataclass(frozen=True)
class Verdict:
    """What a person says of two photographs, the stranger's first where the other is of an enrolled person."""

    photograph: str  # the stranger's, where the other is of an enrolled person
    other: str
    word: Word
    seal: str  # digests of the two, by which they are known; names may be used again


@dataclass(frozen=True)
class Suspicious:
    """A pair of photographs of people who are said to be different, with what puts it on the list."""

    photograph: str
    other: str
    person: str
    other_person: str
    score: float
    seal: str
    verdict: Word | Literal[""] = ""


def verdicts_csv(pairs: Sequence[Suspicious]) -> str:
    """The pairs as a CSV whose column `verdict` a person fills in; verdicts of before are in it."""
    rows = [(number, *(getattr(pair, field) for field in _FIELDS.values())) for number, pair in enumerate(pairs, 1)]
    return csv_for_people(("pair", *_FIELDS), rows)


def resolved(
    verdicts: Sequence[Verdict], path: Path, pair_of: Callable[[str], Suspicious | None], whole: str
) -> tuple[Verdict, ...]:
    """Verdicts of a file with the names that the compared photographs have, one for each pair at most."""
    seals, found = [verdict.seal for verdict in verdicts], list[Verdict]()
    for verdict in verdicts:
        photographs = f"{path}: {shown(verdict.photograph)} and {shown(verdict.other)}"
        if seals.count(verdict.seal) > 1:
            raise ValueError(f"{photographs} have two verdicts")
        pair = pair_of(verdict.seal)
        if pair is None:
            raise ValueError(f"{photographs} are not compared here, by their digests; a review is of {whole}")
        found.append(replace(verdict, photograph=pair.photograph, other=pair.other))
    return tuple(found)


def is_unfilled(path: Path) -> bool:
    """Whether a list can be read and surely holds no verdict."""
    try:
        _, rows = table_rows(path, (*_FACES, "verdict"))
        return not any(cells[-1].strip() for _, cells in rows)
    except ValueError:
        return False


def read_verdicts(path: Path) -> tuple[Verdict, ...]:
    """Reads a filled-in file of `verdicts_csv`, its names as plain cells; rows without a verdict are skipped."""
    check_file(path)
    about = f"the file is the review.csv of `verisphere calibrate --review`, its verdicts {', '.join(WORDS)}"
    _, rows = table_rows(path, (*_FACES, "verdict"), about=about)
    verdicts: dict[str, Verdict] = {}
    for line, (photograph, other, seal, cell) in rows:
        word = " ".join(cell.split()).casefold()
        if not word:
            continue
        if word not in WORDS:
            raise ValueError(f"{path}: line {line}: the verdict is {shown(cell)}; allowed are {', '.join(WORDS)}")
        if seal in verdicts:
            raise ValueError(f"{path}: line {line}: {shown(photograph)} and {shown(other)} have a verdict already")
        verdicts[seal] = Verdict(photograph, other, next(known for known in WORDS if known == word), seal)
    if not verdicts:
        raise ValueError(f"{path}: no pair has a verdict; fill the column verdict with {', '.join(WORDS)}")
    return tuple(verdicts.values())
