"""Tables on a narrow terminal: every cell is there, and no row is wider than the terminal."""

import pytest
from rich.cells import cell_len

from verisphere.report.narrow import fitted
from verisphere.report.tables import table

HEADER = ["domain", "TAR", "FAR", "95 % bounds", "own threshold", "TAR at own", "genuine", "impostors"]
ROWS = [
    ["day", "0.9900", "0.0995", "0.0981 .. 0.101", "0.2283", "0.9900", "300", "179,400"],
    ["night | rain", "0.9767", "0.1", "0.0991 .. 0.102", "0.2293", "-", "300", "179,401"],
]


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_no_row_is_wider_and_no_cell_is_lost(width: int):
    text = f"before {'x' * 200}\n{table(HEADER, ROWS)}\nafter"
    shown = fitted(text, width).split("\n")
    assert (shown[0], shown[-1]) == (f"before {'x' * 200}", "after")  # a command can still be copied
    assert max(map(cell_len, shown[1:-1])) <= width
    for row in (HEADER, *ROWS):
        lines = [line for line in shown if line.startswith(f"| {row[0]} ")]
        assert all(sum(line.count(cell) for line in lines) >= row.count(cell) for cell in row)
        assert len(lines) > 1
    assert len({line.count(ROWS[1][0]) for line in shown if line.startswith("| night")}) == 1


def test_what_fits_stays_as_it_is():
    text = f"head\n{table(HEADER, ROWS)}\n\n{table(['a', 'b'], [])}\n| no table"
    assert fitted(text, max(map(len, text.split("\n")))) == text


def test_letters_of_double_width_count_twice():
    text = table(["domain", "TAR", "FAR"], [["夜" * 10, "0.5", "0.1"]])
    assert fitted(text, 44) == text
    assert max(map(cell_len, fitted(text, 34).split("\n"))) <= 34


def test_a_name_as_wide_as_the_terminal_makes_a_list():
    assert fitted(table(["domain", "TAR", "FAR"], [["d" * 30, "0.5", "0.1"]]), 32).split("\n") == [
        "d" * 30,
        "  TAR: 0.5",
        "  FAR: 0.1",
    ]


def test_as_many_columns_are_repeated_as_tell_the_rows_apart():
    table = "| a |  k | long |  b |\n|:--|---:|-----:|---:|\n| x |  1 | 1111 | 11 |\n| x |  2 | 2222 | 22 |"
    folded = fitted(table, 18)
    assert folded == (
        "| a |  k | long |\n|:--|---:|-----:|\n| x |  1 | 1111 |\n| x |  2 | 2222 |\n\n"
        "| a |  k |  b |\n|:--|---:|---:|\n| x |  1 | 11 |\n| x |  2 | 22 |"
    )
    assert fitted(table, 13).splitlines()[:4] == ["x", "  k: 1", "  long: 1111", "  b: 11"]
