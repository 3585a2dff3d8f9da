"""Pages of docs/reference about the command line, the packaged recipes and the public Python names."""

import argparse
import importlib
import re
from collections.abc import Iterator

import verisphere
from verisphere.cli.recipes import GROUPS
from verisphere.cli.start import parser
from verisphere.files.packaged_recipes import packaged_recipes

MADE = "Written by `make reference` from the code; a test holds it equal to it."
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


def command_page() -> str:
    """Every verb with its arguments, from the parser."""
    blocks = [
        "# The command line",
        "Every verb with what it takes. `verisphere VERB --help` prints the same. "
        "In place of a path a verb also takes a name where it says so; `--field value` sets any "
        "[field of a recipe](recipe.md) for verbs that train.",
        MADE,
    ]
    for words, verb in _verbs("verisphere", parser()):
        level = "##" if words.count(" ") == 1 else "###"
        blocks += [f"{level} {words.removeprefix('verisphere ')}", _plain(verb.description or "")]
        taken = [_argument(action) for action in verb._actions if not _is_help(action)]
        if taken:
            rows = "\n".join(f"| {name} | {meaning} |" for name, meaning in taken)
            blocks.append(f"| argument | meaning |\n|:--|:--|\n{rows}")
        if verb.epilog:
            examples = verb.epilog.removeprefix("examples:\n")
            blocks.append("```\n" + "\n".join(line.strip() for line in examples.splitlines()) + "\n```")
    return "\n\n".join(blocks) + "\n"


def _verbs(name: str, of: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every parser below another, with the words that reach it."""
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, verb in action.choices.items():
                yield f"{name} {word}", verb
                yield from _verbs(f"{name} {word}", verb)


def _is_help(action: argparse.Action) -> bool:
    return isinstance(action, argparse._HelpAction | argparse._SubParsersAction)


def _argument(action: argparse.Action) -> tuple[str, str]:
    """An argument as it is typed, and its meaning."""
    names = action.option_strings or [str(action.metavar or action.dest).upper()]
    value = ""
    if action.option_strings and action.nargs != 0:
        if action.choices is not None:
            value = " " + "|".join(str(choice) for choice in action.choices)
        else:
            value = f" {action.metavar or action.dest.upper()}"
    typed = ", ".join(f"`{name}{value}`" for name in names)
    needed = " **Needed.**" if action.required and action.option_strings else ""
    return typed.replace("|", "\\|"), _plain(action.help or "") + needed


def _plain(text: str) -> str:
    """Text of a help as a cell of a table: without line breaks, and with what argparse fills in left out."""
    text = " ".join(text.split()).replace("%%", "%").replace("%(default)s", "see the help")
    return re.sub(r"[|<>*_]", lambda match: f"\\{match[0]}" if match[0] != "_" else "\\_", text)


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
        blocks += [f"## {group or 'ready to train'}", _plain(meaning[0].upper() + meaning[1:]) + "."]
        rows = "\n".join(f"| `{name}` | {_comment(recipes[name].read_text(encoding='utf-8'))} |" for name in inside)
        blocks.append(f"| recipe | what it is |\n|:--|:--|\n{rows}")
    return "\n\n".join(blocks) + "\n"


def _comment(text: str) -> str:
    """The comment at the head of a recipe, in one line."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return _plain(" ".join(lines))


def api_page() -> str:
    """The public names, each filled in from its docstring when the site is built."""
    blocks = [
        "# Python",
        "The names that a program may rely on ([what is public](public.md)); shapes stand in brackets, as in "
        '`Float[Tensor, "batch dim"]`: a tensor of floating-point numbers with one row for each of the batch.',
        MADE,
        "## verisphere",
    ]
    blocks += [
        f"::: {verisphere._HOME[name]}.{name}\n    options: {{heading_level: 3}}" for name in sorted(verisphere._HOME)
    ]
    for room, meaning in ROOMS.items():
        module = importlib.import_module(f"verisphere.{room}")
        blocks += [f"## verisphere.{room}", meaning]
        for name in sorted(module.__all__, key=str.lower):
            if f"verisphere.{room}" == verisphere._HOME.get(name):
                continue  # stands above
            blocks.append(f"::: verisphere.{room}.{name}\n    options: {{heading_level: 3}}")
    return "\n\n".join(blocks) + "\n"
