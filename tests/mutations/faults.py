"""Faults put into the sources, to measure what the tests would find: the table `faults.yaml` beside this file.

Each row names a function by its module and its name (`passes.OtherClasses.first_pass`), whatever room the module stands
in, and a statement or an expression of it, before and after; it is found by its syntax, however its lines are broken.
"""

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

TABLE = Path(__file__).with_name("faults.yaml")
ROOT = TABLE.parents[2]
SOURCES = "src/verisphere"


@dataclass(frozen=True)
class Fault:
    """A small change that makes the sources wrong.

    Attributes:
        name: name of the fault.
        why: what is wrong then.
        function: module and qualified name of the function or class that is changed.
        before, after: a statement or an expression of it; an empty `after` removes a statement.
        found_by: tests that fail then, as pytest takes them, relative to the root of the project.
    """

    name: str
    why: str
    function: str
    before: str
    after: str
    found_by: tuple[str, ...]

    @cached_property
    def module(self) -> str:
        """The name of the changed module's file, without its suffix."""
        return self.function.partition(".")[0]

    def apply(self, root: Path) -> Path:
        """Put the fault into the sources below a folder; returns the changed file.

        Raises:
            ValueError: not exactly one function has the name, or not exactly one place in it is `before`.
        """
        found = self.functions(root)
        if len(found) != 1:
            raise ValueError(f"{self.name}: {len(found)} functions are called {self.function}, not one")
        ((path, node),) = found
        text = path.read_bytes()
        wanted = _parsed(self.before)
        places = [(start, end) for inner, start, end in _nodes(node, text) if ast.dump(inner) == ast.dump(wanted)]
        if len(places) != 1:
            raise ValueError(f"{self.name}: {self.before!r} stands {len(places)} times in {self.function}, not once")
        ((start, end),) = places
        changed = text[:start] + (self.after or "pass").encode() + text[end:]
        compile(changed, path.name, "exec")
        path.write_bytes(changed)
        return path

    def functions(self, root: Path) -> list[tuple[Path, ast.AST]]:
        """The functions of the name, each with its file."""
        return [
            (path, node)
            for path in sorted((root / SOURCES).rglob(f"{self.module}.py"))
            for name, node in _functions_of(path.read_bytes())
            if f"{self.module}.{name}" == self.function
        ]


def _parsed(text: str) -> ast.AST:
    (statement,) = ast.parse(textwrap.dedent(text)).body
    return statement.value if isinstance(statement, ast.Expr) else statement


@cache  # a module that holds many functions is parsed once
def _functions_of(text: bytes) -> list[tuple[str, ast.AST]]:
    return list(_functions(ast.parse(text)))


def _functions(node: ast.AST, outer: str = "") -> Iterator[tuple[str, ast.AST]]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.FunctionDef | ast.ClassDef):
            yield f"{outer}{inner.name}", inner
            yield from _functions(inner, f"{outer}{inner.name}.")
        else:
            yield from _functions(inner, outer)


def _nodes(node: ast.AST, text: bytes) -> Iterator[tuple[ast.AST, int, int]]:
    """The statements and expressions of a function, each with its start and its end in bytes."""
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for inner in ast.walk(node):
        if isinstance(inner, ast.stmt | ast.expr):
            assert inner.end_lineno is not None
            assert inner.end_col_offset is not None
            yield inner, lines[inner.lineno - 1] + inner.col_offset, lines[inner.end_lineno - 1] + inner.end_col_offset


def read_faults(path: Path = TABLE) -> list[Fault]:
    """The faults of a table.

    Raises:
        ValueError: a row has another form.
    """
    rows: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    keys = ["why", "function", "before", "after", "found_by"]
    for name, row in rows.items():
        if list(row) != keys or not all(test.startswith("tests/") for test in row["found_by"]):
            raise ValueError(f"{path.name}: {name}: a fault has {', '.join(keys)}, and tests find it")
    return [Fault(name, **{**row, "found_by": tuple(row["found_by"])}) for name, row in rows.items()]


FAULTS = read_faults()
