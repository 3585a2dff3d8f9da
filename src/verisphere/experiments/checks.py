"""What would end a training of an experiment in its first minute, found before the first one is started."""

import copy
from collections.abc import Mapping
from typing import Any

import torch

from verisphere.images.select import require_people
from verisphere.pairs.pair_term import Training
from verisphere.train.recipe import ReadRecipe, Recipe


def check_trainable(recipe: Recipe) -> None:
    """Refuse data that do not fill a batch, and pair terms that the training is nothing for.

    Raises:
        ValueError: there are too few people or images; what a term refuses.
    """
    require_people(recipe.data)
    if len(recipe.data) < recipe.batch_size:
        raise ValueError(f"{len(recipe.data)} images do not fill one batch of {recipe.batch_size}; lower batch_size")
    training = Training(
        len(recipe.data.people),
        recipe.backbone.embedding_size,
        recipe.batch_size,
        None if recipe.data.domains is None else tuple(sorted(set(recipe.data.domains))),
        recipe.backbone.side_columns,
        recipe.epochs,
    )
    with torch.device("meta"):  # memories that take no room
        for term in copy.deepcopy(recipe.pair_terms):
            try:
                term.prepare(training)
            except RuntimeError:  # a term of one's own may look at numbers, which such tensors have not
                continue


def check_start(arm: ReadRecipe, warm: ReadRecipe) -> None:
    """Refuse to start from a training whose weights would not fit.

    Raises:
        ValueError: another backbone; other people or sub-centers, and the centers are to be taken over.
    """
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


def _differing(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """What two classes with their arguments are not alike in."""
    if ours["class_path"] != theirs["class_path"]:
        return ["class_path"]
    mine, others = ours.get("init_args") or {}, theirs.get("init_args") or {}
    return [name for name in dict.fromkeys([*mine, *others]) if mine.get(name) != others.get(name)]
