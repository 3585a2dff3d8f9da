"""docs/own_loop.md: every block runs, in order; the one for several ranks on one rank and on two."""

import re
from itertools import pairwise
from pathlib import Path

import torch

from processes import run

TEXT = (Path(__file__).parents[2] / "docs" / "own_loop.md").read_text(encoding="utf-8")
*BLOCKS, RANKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_every_block_runs_in_order():
    torch.manual_seed(0)
    names: dict = {}
    centers = []
    for block in BLOCKS:
        exec(block, names)
        centers.append(names["head"].centers.detach().clone())
    assert all(not torch.equal(before, after) for before, after in pairwise(centers[2:-1]))
    assert names["norm"] > 5.0
    assert torch.equal(names["again"].centers, names["head"].centers)
    torch.testing.assert_close(names["exported"].module()(names["images"]), names["backbone"](names["images"]))


def on_ranks(block: str) -> list:
    names: dict = {}
    exec(block, names)
    return [names["loss"].detach(), names["backbone"][1].weight.detach(), names["head"].centers.detach()]


def test_two_ranks_step_as_one_does():
    loss, weight, centers = on_ranks(RANKS)
    ranks = run(on_ranks, 2, RANKS)
    for of_rank in ranks:
        torch.testing.assert_close(of_rank[0], loss)
        torch.testing.assert_close(of_rank[1], weight)
    torch.testing.assert_close(torch.cat([of_rank[2] for of_rank in ranks]), centers)
