"""Pages of docs/reference about the packaged recipes and the public Python names."""

import hashlib
import importlib
import json
from pathlib import Path
from types import ModuleType

import verisphere
from reference.markdown import MADE, escaped
from verisphere.cli.recipes import GROUPS
from verisphere.files.definitions import read_based
from verisphere.files.documents import read_yaml_file
from verisphere.files.packaged_recipes import LOSSES, comment, packaged_recipes
from verisphere.images.packs.formats import FORMATS

#: Rooms whose `__all__` is public, and what stands above their names; see docs/reference/public.md.
ROOMS = {
    "head": "Class centers, and the engines that run a loss over them.",
    "losses": "Class-center losses; [their equations](../losses.md).",
    "pairs": "Terms that compare embeddings, beside the class-center loss.",
    "backbones": "Networks from aligned faces to embeddings.",
    "images": "Sets of images.",
    "score": "Scores of pairs.",
    "decide": "Operating points, bounds and curves from scores.",
}


def packaged_page() -> str:
    """Every packaged recipe by group, with the comment at its head, which names its paper's table and row."""
    blocks = [
        "# Packaged recipes",
        "`verisphere train NAME` trains one, `verisphere recipes NAME` prints it in full, and a recipe of your own "
        "[stands on one](../recipes.md) by `base: NAME`. The comment of a recipe says what its paper does not state.",
        MADE,
    ]
    recipes = packaged_recipes()
    for group, meaning in GROUPS.items():
        inside = [name for name in recipes if name.rpartition("/")[0] == group]
        blocks.append(f"## {group or 'ready to train'}")
        if group:
            blocks.append(escaped(meaning[0].upper() + meaning[1:]) + ".")
        rows = "\n".join(f"| `{name}` | {_comment(recipes[name])} |" for name in inside)
        blocks.append(f"| recipe | what it is |\n|:--|:--|\n{rows}")
    return "\n\n".join(blocks) + "\n"


def _comment(path: Path) -> str:
    """The comment of a recipe, in one line."""
    return escaped(" ".join(line.removeprefix("#").strip() for line in comment(path).splitlines()))


def recipe_digests() -> str:
    """The fields of every recipe and experiment with those of its bases, by digest, so that no edit is unseen."""
    contents = {name: read_based(path).content for name, path in packaged_recipes().items() if "bases/" not in name}
    digests = {
        name: hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
        for name, content in contents.items()
    }
    return json.dumps(digests, indent=1, sort_keys=True) + "\n"


def losses_table() -> str:
    """The table of docs/losses.md, from the table of losses."""
    lines = ["| `verisphere.losses` | paper | equation | function | test |", "|:--|:--|:--|:--|:--|"]
    for name, entry in read_yaml_file(LOSSES).items():
        tests = ", ".join(f"[{test}.py](../tests/losses/{test}.py)" for test in entry["tests"])
        lines.append(f"| `{name}` | {entry['paper']} | {entry['equation']} | {entry['function']} | {tests} |")
    return "\n".join(lines) + "\n"


def formats_table() -> str:
    """The table of docs/data.md, from the formats of packs."""
    lines = ["| format | path | states by itself | `data convert` writes it |", "|:--|:--|:--|:--|"]
    for known in FORMATS:
        holds = ", ".join(column for column in ("names", "identities", "domains") if column in known.holds)
        writes = "no" if known.write is None else f"as `{known.suffix}`" if known.suffix else "yes"
        lines.append(f"| {known.name} | {escaped(known.looks)} | {holds} | {writes} |")
    return "\n".join(lines) + "\n"


def api_page() -> str:
    """The public names, each filled in from its docstring when the site is built."""
    blocks = [
        "# Python",
        "The names that a program may rely on ([what is public](public.md)); shapes stand in brackets, as in "
        '`Float[Tensor, "batch dim"]`: a tensor of floating-point numbers with one row for each of the batch.',
        MADE,
        "## verisphere",
    ]
    blocks += [_entry(importlib.import_module(verisphere._HOME[name]), name) for name in sorted(verisphere._HOME)]
    for room, meaning in ROOMS.items():
        module = importlib.import_module(f"verisphere.{room}")
        blocks += [f"## verisphere.{room}", meaning]
        for name in sorted(module.__all__, key=str.lower):
            if f"verisphere.{room}" == verisphere._HOME.get(name):
                continue  # stands above
            blocks.append(_entry(module, name))
    return "\n\n".join(blocks) + "\n"


def _entry(module: ModuleType, name: str) -> str:
    """The lines for mkdocstrings: `verisphere.score.top_k` would be the module of that name, not the function in it."""
    home = getattr(getattr(module, name), "__module__", None) or ""
    place = home if home.rpartition(".")[2] == name else module.__name__
    return f"::: {place}.{name}\n    options: {{heading_level: 3}}"
