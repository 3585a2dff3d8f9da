"""The pages of docs/reference, and all else that is made from docstrings, the parser and the recipes."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from reference.commands import commands_page
from reference.docstrings import Argument, arguments, paper, summary
from reference.made_pages import (
    api_page,
    formats_table,
    losses_table,
    packaged_page,
    recipe_digests,
)
from reference.tables import tables
from verisphere import backbones, images, losses, pairs
from verisphere.study import search
from verisphere.train.recipe import Recipe

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reference"
EQUATIONS = ROOT / "docs" / "losses.md"
DATA = ROOT / "docs" / "data.md"
DIGESTS = ROOT / "tests" / "recipes" / "recipe_digests.json"
HELP = ROOT / "src" / "verisphere" / "cli" / "recipe_fields.txt"
_MADE = "Written by `make reference` from the docstrings; a test holds it equal to them."
_WIDTH, _COLUMN = 77, 30  # letters of a line of the help, and where the meaning begins

#: Pages of classes: package, base of the classes, field of a recipe, title, what stands above the classes.
_CLASSES: dict[str, tuple[ModuleType, str, str, str, str]] = {
    "backbones": (backbones, "Backbone", "backbone", "Backbones", "Networks from aligned faces to embeddings."),
    "data": (images, "Faces", "data", "Data sets", "Images to train on, to validate on and to embed."),
    "losses": (
        losses,
        "ClassLoss",
        "loss",
        "Losses",
        "Class-center losses; [losses.md](../losses.md) has their equations, tests and pictures.",
    ),
    "pairs": (
        pairs,
        "PairTerm",
        "pair_terms",
        "Pair terms",
        "Terms that compare embeddings, beside the class-center loss; a recipe's `pair_terms` is a list of them.",
    ),
    "maps": (
        search,
        "Map",
        "space",
        "Maps of a search",
        "The values that a searched field takes; [search.md](../search.md#fields-and-maps) compares them.",
    ),
    "methods": (
        search,
        "Method",
        "method",
        "Methods of a search",
        "What a search tries next; [search.md](../search.md#methods) compares them.",
    ),
    "schedules": (
        search,
        "SearchSchedule",
        "schedule",
        "Schedules of a search",
        "Which candidates are trained, and how far; [search.md](../search.md#schedules) compares them.",
    ),
}
#: What a search's file has beside a recipe; of the space the example names a field.
_OF_SEARCH = {"space": "space:\n  loss.init_args.factor", "method": "method", "schedule": "schedule"}
#: Classes that a recipe does not name: bases, a graph that is not trained, and a set that is built from tensors.
_NOT_IN_A_RECIPE = {"Backbone", "OnnxNetwork", "Faces", "InMemory", "ClassLoss", "PairTerm",
                    "Map", "Method", "SearchSchedule"}  # fmt: skip


def written() -> dict[Path, str]:
    """The text of every file that this package writes."""
    pages = {PAGES / f"{name}.md": _class_page(name) for name in _CLASSES}
    made = {"commands": commands_page(), "packaged": packaged_page(), "api": api_page()}
    further = {PAGES / f"{name}.md": text for name, text in made.items()}
    others = {
        HELP: recipe_help(),
        EQUATIONS: _with_table(EQUATIONS, losses_table()),
        DATA: _with_table(DATA, formats_table()),
        DIGESTS: recipe_digests(),
    }
    return {PAGES / "recipe.md": _recipe_page(), **pages, **further, **others, **tables()}


def _with_table(page: Path, table: str) -> str:
    """A page with this table in place of the one that has its header."""
    header = re.escape(table.splitlines()[0])
    return re.sub(rf"(?m)^{header}\n(\|.*\n)*", lambda _: table, page.read_text("utf-8"))


def classes(page: str) -> list[type]:
    """The classes of a page that a recipe may name."""
    module, base, *_ = _CLASSES[page]
    named = [getattr(module, name) for name in sorted(module.__all__, key=str.lower) if name not in _NOT_IN_A_RECIPE]
    return [owner for owner in named if isinstance(owner, type) and issubclass(owner, getattr(module, base))]


def _class_page(page: str) -> str:
    module, _, field, title, lead = _CLASSES[page]
    blocks = [
        f"# {title}",
        f"{lead} In a {'search' if field in _OF_SEARCH else 'recipe'} (`{field}`):",
        _example(module, field, _without_required(classes(page))),
        _MADE,
    ]
    for owner in classes(page):
        blocks += [f"## {owner.__name__}", _linked(summary(owner))]
        if source := paper(owner):
            blocks.append(f"*{_linked(source)}*")
        if listed := arguments(owner):
            blocks.append(_table(listed))
        else:
            blocks.append("It takes no arguments.")
    return "\n\n".join(blocks) + "\n"


def _without_required(owners: list[type]) -> type:
    """The first class that takes no argument without a default, so that the example is whole."""
    return next((owner for owner in owners if all(argument.default for argument in arguments(owner))), owners[0])


def _example(module: ModuleType, field: str, owner: type) -> str:
    named = f"class_path: {module.__name__}.{owner.__name__}"
    given = [argument for argument in arguments(owner) if argument.default][:1]
    lines = [named, *(f"init_args: {{{argument.name}: {argument.default}}}" for argument in given)]
    first, then = ("  - ", "    ") if field == "pair_terms" else ("  ", "  ")
    body = "\n".join(f"{first if number == 0 else then}{line}" for number, line in enumerate(lines))
    if field == "space":
        body = textwrap.indent(body, "  ")
    return f"```yaml\n{_OF_SEARCH.get(field, field)}:\n{body}\n```"


def _recipe_page() -> str:
    listed = arguments(Recipe)
    blocks = [
        "# Fields of a recipe",
        "A recipe is a YAML file with these fields, and any of them follows `verisphere train` as `--field value` "
        "(`--optimizer.rate 0.05`, `--loss.margin 0.3`). A field without a default must be given. "
        "[recipes.md](../recipes.md) says how a recipe stands on another one.",
        _MADE,
        _table(listed),
    ]
    for argument in listed:
        if argument.group is not None:
            blocks += [f"## {argument.name}", summary(argument.group), _table(arguments(argument.group))]
    return "\n\n".join(blocks) + "\n"


def _table(listed: list[Argument]) -> str:
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for argument in listed:
        default = f"`{argument.default}`" if argument.default else ""
        meaning = argument.meaning
        if argument.group is not None:
            meaning = f"{meaning.rstrip('.')}: [its fields](#{argument.name})."
        rows.append(f"| `{argument.name}` | {_kind(argument.kind)} | {default} | {_cell(meaning)} |")
    return "\n".join(rows)


def _kind(kind: str) -> str:
    """The type, linked to the page that lists its classes."""
    for page, (_, base, *_rest) in _CLASSES.items():
        kind = re.sub(rf"\b{base}\b", f"[{base}]({page}.md)", kind)
    return _cell(kind)


def _cell(text: str) -> str:
    return _linked(text.replace("|", "\\|"))


def _linked(text: str) -> str:
    return re.sub(r"arXiv:(\d{4}\.\d{4,5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", text)


def recipe_help() -> str:
    """The fields of a recipe for `verisphere train --help`: name, default, the first clause of its meaning."""
    lines: list[str] = []
    for name, argument in _flat(arguments(Recipe)):
        left = f"--{name} {argument.default}".rstrip()
        meaning = re.split(r"[.;:](?:\s|$)", re.sub(r" \([^)]*\)", "", argument.meaning))[0]
        if argument.kind.startswith("`") and "`" not in meaning:
            meaning = f"{meaning}: {argument.kind}"
        meaning = meaning.replace("`", "")
        wrapped = textwrap.wrap(meaning, _WIDTH - _COLUMN) or [""]
        if len(left) > _COLUMN - 2:
            lines.append(left)
            left = ""
        lines.append(f"{left:<{_COLUMN}}{wrapped[0]}".rstrip())
        lines += [" " * _COLUMN + line for line in wrapped[1:]]
    return "\n".join(lines) + "\n"


def _flat(listed: list[Argument], group: str = "") -> Iterator[tuple[str, Argument]]:
    for argument in listed:
        if argument.group is None:
            yield f"{group}{argument.name}", argument
        else:
            yield from _flat(arguments(argument.group), f"{argument.name}.")
