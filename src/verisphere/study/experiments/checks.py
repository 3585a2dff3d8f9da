"""Checks of an experiment's recipes before the first training, for errors that would end one in its first minute."""

import copy
from collections.abc import Mapping
from typing import Any

import torch

from verisphere.train.preparation import domains_for_loss, length_of, training_of
from verisphere.train.recipe import ReadRecipe, Recipe


def check_trainable(recipe: Recipe) -> None:
    """Refuse data that do not fill a batch or do not fit the loss, and a pair term that the training cannot use."""
    length_of(recipe)
    domains_for_loss(recipe)
    training = training_of(recipe)
    with torch.device("meta"):  # buffers of the terms then take no memory
        for term in copy.deepcopy(recipe.pair_terms):
            try:
                term.prepare(training)
            except RuntimeError:  # a user's own term may read numbers, which tensors on the meta device do not have
                continue


def check_start(arm: ReadRecipe, warm: ReadRecipe) -> None:
    """Refuse an arm that cannot start from the weights of the warm training."""
    differing = _differing(arm.resolved["backbone"], warm.resolved["backbone"])
    if differing:
        raise ValueError(
            f"its backbone is another than that of warm, which it starts from, in {', '.join(differing)}; set it for "
            "all, under `set`"
        )
    if not arm.recipe.start_head:
        return
    if arm.recipe.data.people != warm.recipe.data.people:
        raise ValueError(
            f"its data are of {len(arm.recipe.data.people)} people and those of warm, which it starts from, of "
            f"{len(warm.recipe.data.people)}, or others; start_head: false takes the backbone alone"
        )
    if arm.recipe.subcenters != warm.recipe.subcenters:
        raise ValueError(
            f"subcenters is {arm.recipe.subcenters} and that of warm, which it starts from, {warm.recipe.subcenters}; "
            "start_head: false takes the backbone alone"
        )


def check_cleaned(arm: str, fields: Mapping[str, Any], by: str, cleaning: Mapping[str, Any]) -> None:
    """Refuse an arm whose data another arm cannot clean, or that would copy the centers of people who may be lost."""
    if fields["data"] != cleaning["data"]:
        raise ValueError(f"arm {arm!r}: cleaned: its data are not those of arm {by!r}, which cleans them")
    if fields["start"] is not None and fields["start_head"]:
        raise ValueError(
            f"arm {arm!r}: cleaned data may lack people, so the centers of {fields['start']} do not fit; "
            "start_head: false takes the backbone alone"
        )


def _differing(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Names of the arguments in which two described classes differ, or `class_path` if the classes differ."""
    if ours["class_path"] != theirs["class_path"]:
        return ["class_path"]
    left, right = ours.get("init_args") or {}, theirs.get("init_args") or {}
    return [name for name in dict.fromkeys([*left, *right]) if left.get(name) != right.get(name)]
