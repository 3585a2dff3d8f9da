"""Training: recipe, objective, schedule, session, and a loop that does not depend on faces."""

from verisphere.train.loop import Length, Sample, TrainingDiverged, TrainingStopped, train
from verisphere.train.objective import Objective
from verisphere.train.optimizer import Optimizer
from verisphere.train.recipe import Recipe, read_recipe
from verisphere.train.schedule import Schedule

__all__ = [
    "Length",
    "Objective",
    "Optimizer",
    "Recipe",
    "Sample",
    "Schedule",
    "TrainingDiverged",
    "TrainingStopped",
    "read_recipe",
    "train",
]
