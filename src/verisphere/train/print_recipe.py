"""A recipe with the values of all its fields, as YAML that reads back to the same training."""

from pathlib import Path

from verisphere.files.bases import read_based
from verisphere.files.packaged_recipes import comment, find_recipe
from verisphere.train.recipe import resolve_recipe
from verisphere.train.recipe_text import recipe_yaml


def printed_recipe(named: str | Path) -> str:
    """The YAML of a recipe without bases, below its comment.

    A recipe is printed with the values of all its fields. A base, a network alone or an experiment is printed with the
    fields that it and its bases set, and no others.
    """
    file = find_recipe(named)
    based = read_based(file.path)
    whole = isinstance(based.content, dict) and {"data", "backbone", "loss"} <= based.content.keys()
    fields = resolve_recipe(named, []) if whole else based.content
    return f"{comment(file.path)}{recipe_yaml(fields)}".rstrip("\n")
