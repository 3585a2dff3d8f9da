"""Loss search: numeric fields of a recipe, chosen while it trains by a reward that is a figure of an evaluation."""

from verisphere.study.search.grid import GridDraws
from verisphere.study.search.halving import SuccessiveHalving
from verisphere.study.search.maximize import Maximum, maximize
from verisphere.study.search.method import Method, RandomDraws
from verisphere.study.search.population import PopulationBased
from verisphere.study.search.q_learning import QLearning
from verisphere.study.search.reinforce import Reinforce
from verisphere.study.search.sampler import Optuna
from verisphere.study.search.schedule import EachEpoch, SearchSchedule, WholeTrainings
from verisphere.study.search.space import Linear, Logarithmic, Map, ModulatingFactor

__all__ = [
    "EachEpoch",
    "GridDraws",
    "Linear",
    "Logarithmic",
    "Map",
    "Maximum",
    "Method",
    "ModulatingFactor",
    "Optuna",
    "PopulationBased",
    "QLearning",
    "RandomDraws",
    "Reinforce",
    "SearchSchedule",
    "SuccessiveHalving",
    "WholeTrainings",
    "maximize",
]
