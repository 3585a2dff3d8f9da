"""The recipes that come with verisphere: `recipes` lists them and prints one with all its values."""

import argparse

from verisphere.cli.parsing import Verbs, new_verb

#: The contents of each group of recipes; a group is a folder.
GROUPS = {
    "": "ready to train",
    "losses": "each loss with its paper's numbers",
    "synthetic": "each loss on drawn faces, half a minute on one core",
    "anchorface": "AnchorFace with its paper's numbers",
    "sphereface2": "the losses that SphereFace2 is compared with, on 20 and 64 layers",
    "oneface": "OneFace and the losses that its paper compares it with",
    "subcenter": "sub-centers, cleaned and large sets of ArcFace's tables 3 to 8",
    "distillation": "for `verisphere train`: a light network beside a teacher",
    "searches": "for `verisphere search`: numbers of a recipe chosen by a reward",
    "inversions": "for `verisphere invert --recipe`: steps, rate and weights, and a table",
    "experiments": "for `verisphere experiment`, and the recipes that they share",
    "bases": "for `base: NAME` in a recipe of your own; without a loss",
}


def recipes(options: argparse.Namespace) -> str:
    """List the recipes that come with verisphere, or print one with the values of all its fields."""
    if options.name is None:
        return _list()
    from verisphere.train.recipe import printed_recipe

    return printed_recipe(options.name)


def add_recipes(verbs: Verbs) -> None:
    """Add `recipes`."""
    verb = new_verb(
        verbs, "recipes", recipes, examples=("verisphere recipes", "verisphere recipes losses/arcface"), threads=None
    )
    verb.add_argument(
        "name", nargs="?", help="name or file of a recipe to print, as YAML that can be saved and trained on"
    )


def _list() -> str:
    """Every name with the first line of its comment, by group."""
    from verisphere.files.packaged_recipes import description, packaged_recipes

    names = packaged_recipes()
    blocks = []
    for group, meaning in GROUPS.items():
        inside = [name for name in names if name.rpartition("/")[0] == group]
        width = max(map(len, inside))
        title = f"{group or 'recipes'}: {meaning}"
        blocks.append("\n".join([title, *(f"  {name:<{width}}  {description(names[name])}" for name in inside)]))
    blocks.append("verisphere train NAME trains, verisphere recipes NAME > FILE.yaml makes one to edit.")
    return "\n\n".join(blocks)
