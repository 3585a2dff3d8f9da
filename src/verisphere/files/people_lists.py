"""Lists of people."""

from collections.abc import Sequence
from pathlib import Path

from verisphere.base.identity import refuse_missing
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.text import Line, is_count, numbered_lines, refuse_repeats


def read_people(path: str | Path) -> tuple[str, ...]:
    """The people in a list, in its order.

    There are three layouts: LFW's `peopleDevTrain.txt` (a line with the count, then lines `Name<TAB>images`), LFW's
    `people.txt` (a line with the number of sections, then sections of the first layout), and, for a file without tabs,
    one name per line.
    """
    lines = numbered_lines(path)
    if not lines:
        raise ValueError(f"{path}: no people; the file is empty")
    # A tab distinguishes the layouts, not a leading number: the identities of many sets are numbers.
    named = _people_with_counts(path, lines) if any("\t" in text for _, text in lines) else lines
    refuse_repeats(path, named)
    people = tuple(name for _, name in named)
    with errors_naming(path):
        refuse_missing("person", people, people, lambda row: f"line {named[row][0]}", "leave the line out")
    return people


def _people_with_counts(path: str | Path, lines: Sequence[Line]) -> list[Line]:
    heads = [index for index, (_, text) in enumerate(lines) if "\t" not in text]
    for index in heads:
        number, text = lines[index]
        if not is_count(text):
            raise ValueError(f"{path}: line {number}: {shown(text, 100)} is neither a count nor `Name<TAB>images`")
    if heads[:1] != [0]:
        raise ValueError(f"{path}: line {lines[0][0]}: {shown(lines[0][1])} where LFW's layout has the count of people")
    if heads[1:2] == [1]:
        number, sections = lines[0][0], int(lines[0][1])
        heads = heads[1:]
        if len(heads) != sections:
            raise ValueError(f"{path}: line {number}: announces {sections} sections, but {len(heads)} follow")
    people: list[Line] = []
    for head, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        number, count = lines[head][0], int(lines[head][1])
        if end - head - 1 != count:
            raise ValueError(f"{path}: line {number}: announces {count} people, but {end - head - 1} follow")
        people.extend(_person(path, line) for line in lines[head + 1 : end])
    return people


def _person(path: str | Path, line: Line) -> Line:
    number, text = line
    name, _, images = text.rpartition("\t")
    if not is_count(images) or int(images) == 0 or "\t" in name:
        raise ValueError(f"{path}: line {number}: {shown(text, 100)} is not `Name<TAB>images` with one image or more")
    return number, name
