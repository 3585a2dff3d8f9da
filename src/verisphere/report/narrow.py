"""Tables on a narrow terminal: a table that is too wide becomes several tables, one below the other."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from rich.cells import cell_len


def fitted(text: str, width: int) -> str:
    r"""A text whose Markdown tables fit into a width: no row of a table is broken by the terminal.

    The first columns, as many as are needed to distinguish the rows, are repeated before each group of other columns
    that fits. If a single column is too wide beside them, each row becomes a list of its cells. Other lines are
    unchanged. Tables are those of `verisphere.report.tables.table`; the width is in cells of the terminal.

    >>> print(fitted("| a  |  b |  c |\n|:---|---:|---:|\n| xx | 11 | 22 |", 12))
    | a  |  b |
    |:---|---:|
    | xx | 11 |
    <BLANKLINE>
    | a  |  c |
    |:---|---:|
    | xx | 22 |
    """
    lines = text.split("\n")
    shown: list[str] = []
    for lines_of_block, is_table in _blocks(lines):
        wide = is_table and max(map(cell_len, lines_of_block)) > width
        shown += _folded(lines_of_block, width) if wide else lines_of_block
    return "\n".join(shown)


def _blocks(lines: Sequence[str]) -> Iterator[tuple[list[str], bool]]:
    """The lines in portions, and whether a portion is a table: a header, a rule and rows."""
    start = 0
    while start < len(lines):
        stop = start + 1
        is_table = lines[start].startswith("| ") and stop < len(lines) and lines[stop].startswith("|:-")
        while is_table and stop < len(lines) and lines[stop].startswith("|"):
            stop += 1
        yield list(lines[start:stop]), is_table
        start = stop


def _folded(lines: Sequence[str], width: int) -> list[str]:
    """A table as several, each with the columns that name the rows and as many others as fit."""
    # The rule shows where the columns are, since a cell may contain the character that separates them.
    bars = [place for place, letter in enumerate(lines[1]) if letter == "|"]
    columns = [[line[start:stop] for line in lines] for start, stop in pairwise(bars)]  # with the bar before each cell
    widths = [max(map(cell_len, column)) for column in columns]
    names = _naming(columns)
    if sum(widths[:names]) + max(widths[names:], default=0) + 1 > width:
        return _listed([[cell[1:].strip() for cell in column] for column in columns])
    shown: list[str] = []
    for group in _groups(widths, names, width):
        chosen = (*range(names), *group)
        shown += ["".join(columns[column][row] for column in chosen) + "|" for row in range(len(lines))]
        shown.append("")
    return shown[:-1]


def _naming(columns: Sequence[Sequence[str]]) -> int:
    """The number of first columns that distinguish the rows; 1 if even all columns do not."""
    rows = len(columns[0])
    for count in range(1, len(columns)):
        if len(set(zip(*columns[:count], strict=True))) == rows:
            return count
    return 1


def _groups(widths: Sequence[int], names: int, width: int) -> Iterator[list[int]]:
    """The columns after those that name the rows, in groups that fit beside them."""
    group: list[int] = []
    for column in range(names, len(widths)):
        if group and sum(widths[other] for other in (*range(names), *group, column)) + 1 > width:
            yield group
            group = []
        group.append(column)
    yield group


def _listed(columns: Sequence[Sequence[str]]) -> list[str]:
    """The rows of a table as lists of their cells, one below the other."""
    header, *_ = zip(*columns, strict=True)
    shown: list[str] = []
    for row in list(zip(*columns, strict=True))[2:]:
        shown += [row[0], *(f"  {name}: {cell}" for name, cell in zip(header[1:], row[1:], strict=True))]
    return shown
