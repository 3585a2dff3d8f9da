"""Loss search: numeric fields of a recipe, chosen while it trains by a reward that is a figure of an evaluation."""

from verisphere.search.grid import GridDraws
from verisphere.search.halving import SuccessiveHalving
from verisphere.search.maps import Linear, Logarithmic, Map, ModulatingFactor
from verisphere.search.maximize import Maximum, maximize
from verisphere.search.method import Method, RandomDraws
from verisphere.search.population import PopulationBased
from verisphere.search.q_learning import QLearning
from verisphere.search.reinforce import Reinforce
from verisphere.search.sampler import Optuna
from verisphere.search.schedule import EachEpoch, SearchSchedule, WholeTrainings

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
