"""Lists of labels: the identity of each image of a data set, by the image's name, and optionally its true identity.

Such a list changes the labels of a data set without changing the data set: `kept.txt` of `verisphere clean`, and what
`verisphere clean noise`, `clean duplicates` and `clean overlap` write. It is CSV with a header; the columns are

    name,identity[,domain][,true_identity]

An image of the data set that is not in the list is excluded. `true_identity` is present if the truth is known.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from verisphere.base.identity import decided, refuse_missing, spellings
from verisphere.files.disk import write_whole
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.text import LONGEST_NAME, table_rows

COLUMNS = ("name", "identity", "domain", "true_identity")


@dataclass(frozen=True)
class LabelList:
    """The labels of some images, named as the data set spells them; what the list does not state is None."""

    names: Sequence[str]
    identities: Sequence[str]
    domains: Sequence[str] | None = None
    true_identities: Sequence[str] | None = None


def read_labels(path: str | Path) -> LabelList:
    """A list of labels."""
    about = f"a list of labels begins with a line that names the columns {', '.join(COLUMNS[:2])}"
    wanted, rows = table_rows(path, COLUMNS[:2], COLUMNS[2:], f"{about}, and perhaps {', '.join(COLUMNS[2:])}")
    texts: dict[str, list[str]] = {name: [] for name in wanted}
    first: dict[str, int] = {}
    once: dict[str, str] = {}  # each identity is one object, shared by its images
    groups: dict[str, str] = {}
    for number, row in rows:
        for name, text in zip(wanted, row, strict=True):
            if not text.strip() or (name != "name" and len(text) > LONGEST_NAME):
                raise ValueError(
                    f"{path}: line {number}: {name} {shown(text)} has {len(text)} characters; allowed are 1 to "
                    f"{LONGEST_NAME}"
                )
            shared = groups if name == "domain" else once
            texts[name].append(text if name == "name" else shared.setdefault(text, text))
        image = texts["name"][-1]
        if image in first:
            raise ValueError(f"{path}: line {number}: {shown(image, 200)} is already on line {first[image]}")
        first[image] = number
    if not first:
        raise ValueError(f"{path}: no images below the header")
    people, domains, truth = texts["identity"], texts.get("domain"), texts.get("true_identity")
    together, lines = people + (truth or []), list(first.values())
    with errors_naming(path):
        refuse_missing("domain", groups, domains or (), lambda row: f"line {lines[row]}")
        new = spellings(once, together, lambda row: f"line {lines[row % len(lines)]}", decided(), (people, truth or ()))
    if new:
        people = [new.get(person, person) for person in people]
        truth = None if truth is None else [new.get(person, person) for person in truth]
    return LabelList(
        tuple(texts["name"]),
        tuple(people),
        None if domains is None else tuple(domains),
        None if truth is None else tuple(truth),
    )


def write_labels(path: str | Path, labels: LabelList) -> None:
    """Write a list of labels completely, or not at all."""
    given = (labels.names, labels.identities, labels.domains, labels.true_identities)
    present = [(name, column) for name, column in zip(COLUMNS, given, strict=True) if column is not None]

    def write(file: TextIO) -> None:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow([name for name, _ in present])
        lines.writerows(map(_checked, zip(*(column for _, column in present), strict=True)))

    def write_to(partial: Path) -> None:
        with partial.open("w", encoding="utf-8", newline="") as file:
            write(file)

    write_whole(path, write_to)


def _checked(row: tuple[str, ...]) -> tuple[str, ...]:
    for text in row:
        if "\r" in text or len(text) > csv.field_size_limit() or not _is_text(text):
            raise ValueError(
                f"{shown(text, 80)} cannot stand in a list of labels: a value has at most "
                f"{csv.field_size_limit():,} characters, no carriage return, and is text that UTF-8 can hold"
            )
    return row


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
