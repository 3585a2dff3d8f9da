"""An experiment of trainings that take a second each, and stand-ins for trainings."""

import sys
from dataclasses import dataclass
from pathlib import Path

from processes import forked
from verisphere.base.vocabulary import Progress
from verisphere.study.experiments.folder import Run
from verisphere.study.experiments.run import Failure, Launch
from verisphere.study.search.candidate import Computing
from verisphere.study.search.definition import read_search
from verisphere.study.search.search import run_search
from verisphere.train.recipe import read_recipe
from verisphere.train.session import train_run

OWN = Path(__file__).parent / "train"  # own_parts.py
RECIPE = """\
data: {class_path: own_parts.Noise, init_args: {people: 6, images: 4}}
backbone: {class_path: own_parts.TinyNet}
loss: {class_path: own_parts.OwnLoss}
optimizer: {rate: 0.02}
epochs: 1
batch_size: 6
log_every: 2
workers: 0
"""
EXPERIMENT = """\
recipe: recipe.yaml
set: {batch_size: 8}
warm: {epochs: 2}
arms:
  base: {}
  fast: {optimizer.rate: 0.5}
seeds: [0, 3]
baseline: base
evaluate:
  plain: {faces: own_parts.Noise, far: ["0.1", "1e-6"], flip: true}
  rooms/2: {faces: own_parts.Rooms, far: ["0.2", "0.05"], one_far: "0.1"}
"""


@dataclass(frozen=True)
class Forking(Launch):
    """Starts the warm training as an experiment does, and forks the others, which saves 4 s of CPU each."""

    def words(self, run: Run) -> list[str]:
        """The command, without starting Python anew."""
        words = super().words(run)
        return words if run.arm == "warm" else [*forked(), *words[3:]]


QUICK = Forking(jobs=2, threads=1, device="cpu", default_allocator=True)


@dataclass(frozen=True)
class Refusing(Launch):
    """Stands in for trainings of which only the warm one comes to its end."""

    def words(self, run: Run) -> list[str]:
        """A command that does nothing."""
        run.begin()
        return [sys.executable, "-S", "-c", f"raise SystemExit({int(run.arm != 'warm')})"]


def train_here(runs: list[Run], launch: Launch, progress: Progress) -> list[Failure]:
    """Stands in for `train_runs`: the same trainings and searches in this process, which has loaded everything."""
    for run in runs:
        if not run.finished and run.search is None:
            train_run(read_recipe(run.begin(), []), run.folder, resume=True, device="cpu")
        elif not run.finished:
            run_search(read_search(run.begin()), run.folder, Computing("cpu"))
        run.end(0.1, done=True)
    return []
