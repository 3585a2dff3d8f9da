"""The tables of what a room holds, from the sources of its modules: what it exports, its formats, its kinds of a verb.

They are read without an import, so that a module which no table names yet is seen, and the tables remain plain imports
that an editor and a type checker follow.
"""

import ast
import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src" / "verisphere"
_WIDTH = 120


@dataclass(frozen=True)
class Table:
    """A variable that lists what the modules beside its file hold.

    Attributes:
        file: file of the table, below `src/verisphere`.
        variable: variable with the list, which names those that are imported.
        entry: what a module has for the table: a subclass of a class, a value of a class, or a function `add_NAME` that
            lies beside a function of this word, `_` and NAME.
        sorted: whether the names are sorted; otherwise they remain in their order, and new ones come last.
    """

    file: str
    variable: str
    entry: str
    sorted: bool = False


FORMATS = "images/packs/formats.py"
HELP = "cli/data.py"  # its WRITABLE names the formats for the help, without loading them
TABLES = (
    Table("backbones/__init__.py", "__all__", "class Backbone", True),
    Table("losses/__init__.py", "__all__", "class ClassLoss", True),
    Table("pairs/__init__.py", "__all__", "class PairTerm", True),
    Table(FORMATS, "FORMATS", "value Format"),
    Table("cli/evaluating.py", "KINDS", "function evaluate"),
)


def tables() -> dict[Path, str]:
    """The text of every file with a table."""
    written = {ROOT / table.file: _written(table) for table in TABLES}
    return written | {ROOT / HELP: _with_writable(written[ROOT / FORMATS])}


def _written(table: Table) -> str:
    """The file of a table, with its imports and its variable made anew."""
    path = ROOT / table.file
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    home = ".".join(("verisphere", *Path(table.file).parent.parts))
    modules = {f"{home}.{module.stem}": module for module in sorted(path.parent.glob("*.py")) if module != path}
    sources = {name: ast.parse(module.read_text(encoding="utf-8")) for name, module in modules.items()}
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and _in_house(node)]
    variable = next(node for node in tree.body if table.variable in _assigned(node))
    assert isinstance(variable, ast.Assign | ast.AnnAssign)
    listed = [_name(item) for item in getattr(variable.value, "elts", ())]
    entries = {name: module for module, names in _entries(table.entry, sources).items() for name in names}
    # What else the table lists remains as long as its module has it: a base class, a function.
    others = {alias.name: node.module or "" for node in imports for alias in node.names}
    kept = [name for name in listed if name in entries or name in _defined(sources.get(others.get(name, "")))]
    names = [*kept, *(name for name in entries if name not in kept)]
    homes = {name: module for name, module in others.items() if name not in listed}
    homes |= {name: entries.get(name, others.get(name, "")) for name in names}
    lines = text.splitlines()
    block = "\n".join(_import(module, [n for n in homes if homes[n] == module]) for module in sorted({*homes.values()}))
    before, after = lines[: imports[0].lineno - 1], lines[imports[-1].end_lineno : variable.lineno - 1]
    value = _value(table, lines[variable.lineno - 1], sorted(names, key=_rank) if table.sorted else names)
    return "\n".join([*before, block, *after, value, *lines[variable.end_lineno :]]) + "\n"


def _with_writable(formats: str) -> str:
    """The file of `data convert`, whose help names the formats that can be written, in the order of their table."""
    tree = ast.parse(formats)
    listed = next(node for node in tree.body if "FORMATS" in _assigned(node))
    assert isinstance(listed, ast.AnnAssign)
    values: dict[str, ast.Call] = {}
    for module in (ROOT / FORMATS).parent.glob("*.py"):
        for node in ast.parse(module.read_text(encoding="utf-8")).body:
            if isinstance(call := getattr(node, "value", None), ast.Call):
                values |= dict.fromkeys(_assigned(node), call)
    calls = [values[_name(item)] for item in getattr(listed.value, "elts", ())]
    *names, last = (_argument(call, 0, "name") for call in calls if _argument(call, 4, "write") != "None")
    text = (ROOT / HELP).read_text(encoding="utf-8")
    return re.sub(r'(?m)^WRITABLE = ".*"', f'WRITABLE = "{", ".join(names)} or {last}"', text)


def _argument(call: ast.Call, position: int, name: str) -> str:
    """An argument of a call, given by its position or by its name."""
    named = {word.arg: word.value for word in call.keywords}
    return _name(named[name] if name in named else call.args[position])


def _in_house(node: ast.ImportFrom) -> bool:
    return (node.module or "").startswith("verisphere.")


def _name(item: ast.expr) -> str:
    return str(item.value) if isinstance(item, ast.Constant) else ast.unparse(item)


def _assigned(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _defined(source: ast.Module | None) -> set[str]:
    nodes = [] if source is None else source.body
    named = {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    return named | {name for node in nodes for name in _assigned(node)}


def _entries(entry: str, sources: dict[str, ast.Module]) -> dict[str, list[str]]:
    """The names of each module that belong in a table; those of its own `__all__` if it has one."""
    what, _, word = entry.partition(" ")
    bases = {node.name: [ast.unparse(base) for base in node.bases] for node in _classes(sources)}

    def derives(name: str) -> bool:
        return name == word or any(derives(base) for base in bases.get(name, ()))

    found: dict[str, list[str]] = {}
    for module, source in sources.items():
        own = [node.value for node in source.body if "__all__" in _assigned(node) and isinstance(node, ast.Assign)]
        allowed = [_name(item) for item in getattr(own[0], "elts", ())] if own else None
        names = []
        for node in source.body:
            if what == "class" and isinstance(node, ast.ClassDef) and derives(node.name):
                names.append(node.name)
            elif what == "function" and isinstance(node, ast.FunctionDef) and node.name.startswith(f"{word}_"):
                names += {f"add_{node.name.removeprefix(word + '_')}"} & _defined(source)
            elif what == "value" and isinstance(call := getattr(node, "value", None), ast.Call):
                names += _assigned(node) if ast.unparse(call.func) == word else []
        found[module] = [name for name in names if not name.startswith("_") and (allowed is None or name in allowed)]
    return found


def _classes(sources: dict[str, ast.Module]) -> Iterator[ast.ClassDef]:
    for source in sources.values():
        yield from (node for node in source.body if isinstance(node, ast.ClassDef))


def _rank(name: str) -> tuple[int, str]:
    """The order of ruff: constants, classes, functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def _import(module: str, names: list[str]) -> str:
    ordered = sorted(names, key=_rank)
    line = f"from {module} import {', '.join(ordered)}"
    return line if len(line) <= _WIDTH else f"from {module} import (\n{_one_a_line(ordered)}\n)"


def _value(table: Table, first: str, names: list[str]) -> str:
    """The assignment to the variable, formatted as ruff does."""
    target = first.partition(" = ")[0]
    if table.variable == "__all__":
        return f"{target} = [\n{_one_a_line([json.dumps(name) for name in names])}\n]"
    line = f"{target} = ({', '.join(names)})"
    return line if len(line) <= _WIDTH else f"{target} = (\n{_one_a_line(names)}\n)"


def _one_a_line(names: list[str]) -> str:
    return textwrap.indent(",\n".join(names) + ",", " " * 4)
