"""Bytes at the peak of real training steps by a recipe, in a process that has done nothing else; a program for tests.

`python peak_of_step.py CLASSES keep|default RECIPE_FIELD...` prints JSON: the peak of the resident set over some steps,
less what it was before backbone and head were built, and the sizes of what stays.
"""

import ctypes
import gc
import json
import sys
from pathlib import Path

import torch

from verisphere.base.device import keep_memory
from verisphere.base.distributed import world
from verisphere.head import Head, Sharded
from verisphere.train.objective import Objective
from verisphere.train.processes import summed_backbone
from verisphere.train.recipe import Recipe, read_recipe
from verisphere.train.recipe_head import centers_and_engine

STEPS = 3
BASE = ["--data", "verisphere.images.SyntheticFaces", "--data.people", "2"]


def status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def steps(recipe: Recipe, classes: int, count: int) -> tuple[Objective, torch.optim.Optimizer]:
    """What a training does, on random images, in one process or several."""
    centers, engine = centers_and_engine(recipe)
    head = Head(
        recipe.loss,
        classes,
        recipe.backbone.embedding_size,
        centers=centers,
        engine=Sharded(engine) if world().size > 1 else engine,
    )
    backbone = recipe.backbone.to(memory_format=torch.channels_last)
    objective = Objective(backbone, head, getattr(torch, recipe.precision), summed_backbone(backbone)).train()
    optimizer = recipe.optimizer.build(objective, head)
    own = world().share(recipe.batch_size)
    images = torch.randint(0, 256, (len(own), 3, *recipe.backbone.input_size), dtype=torch.uint8)
    labels = torch.randint(0, classes, (len(own),))
    for _ in range(count):
        optimizer.zero_grad(set_to_none=True)
        objective(backbone.normalise(images), labels).loss.backward()
        optimizer.step()
    return objective, optimizer


def main(classes: int, keep: bool, fields: list[str]) -> dict[str, int]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if keep:
        keep_memory()
    small = ["--backbone", "verisphere.backbones.MobileFaceNet", "--backbone.width", "0.1", "--batch_size", "4"]
    warm = read_recipe(None, [*BASE, *fields, *small])
    steps(warm.recipe, 8, 1)  # loads what a step needs
    recipe = read_recipe(None, [*BASE, *fields]).recipe
    del warm
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    there = sum(one.nbytes for one in (*recipe.backbone.parameters(), *recipe.backbone.buffers()))
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS") - there
    found = taken(*steps(recipe, classes, STEPS))
    return {"peak": status("VmHWM") - before, **found}


def taken(objective: Objective, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Bytes that lie there after a step."""
    centers = objective.head.centers
    states = {
        one: sum(
            part.nbytes
            for part in optimizer.state[one].values()
            if isinstance(part, torch.Tensor) and part.shape == one.shape
        )
        for one in objective.parameters()
        if one.requires_grad
    }
    modules = (objective.backbone, objective.head.loss)
    return {
        "weights": sum(one.nbytes for part in modules for one in (*part.parameters(), *part.buffers())),
        "gradients": sum(one.nbytes for part in modules for one in part.parameters() if one.requires_grad),
        "optimizer": sum(size for one, size in states.items() if one is not centers),
        "centers": centers.nbytes,
        "center_state": states[centers],
        "center_gradient": 0 if centers.grad is None else centers.grad.nbytes,
    }


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), sys.argv[2] == "keep", sys.argv[3:])))
