"""The dry run of an experiment: its trainings, counted, with the cost of each and of all; nothing is trained."""

import json
from dataclasses import replace

from verisphere.files.errors import errors_naming
from verisphere.study.experiments.arms import Experiment
from verisphere.study.search.definition import planned_rounds
from verisphere.study.search.rounds import epochs_trained
from verisphere.train.dry_run.measured import BackboneCost
from verisphere.train.dry_run.one_training import NO_DATA, DryRunOptions
from verisphere.train.dry_run.several import SeveralCosts, Trainings
from verisphere.train.dry_run.training_cost import Measurements, training_cost
from verisphere.train.preparation import check_plateau
from verisphere.train.recipe import Settings, read_recipe

_CLEANED = "Arms on cleaned data are counted as if the cleaning dropped nothing."
_MEASURING = "Cleaning and measuring are not counted."


def experiment_cost(experiment: Experiment, options: DryRunOptions, jobs: int = 1) -> SeveralCosts:
    """The cost of every training of an experiment, in a process each, of which `jobs` share the machine's memory."""
    place = options.place
    backbones: dict[str, dict[str, BackboneCost]] = {}  # a backbone is measured once
    entries, seeds = [], experiment.seeds or (0,)

    def add(name: str, settings: Settings, count: int, searched: bool = False) -> None:
        with errors_naming(name):
            own = settings if options.classes is None else _without_data(settings)
            read = read_recipe(experiment.recipe, (), [*experiment.common, *own.items()])
            if options.classes is None:
                check_plateau(read.recipe)
            measured = Measurements(backbones.setdefault(json.dumps(read.resolved["backbone"]), {}))
            number, of_data = options.sizes(read.recipe)
            cost = training_cost(read.recipe, number, device=place.type, measurements=measured)
            entry = Trainings.of(name, float(count), cost, read.recipe, of_data)
            entries.append(entry if not searched else _search(entry, experiment, read.recipe.seed))

    if experiment.warm is not None:
        add("warm", experiment.warm, 1)
    for name, settings in experiment.arms.items():
        add(name, settings, min(experiment.first_seeds.get(name, len(seeds)), len(seeds)), name in experiment.searches)
    notes = (*((_CLEANED,) if experiment.cleaned else ()), _MEASURING)
    return SeveralCosts(tuple(entries), jobs, options.available, notes)


def _search(entry: Trainings, experiment: Experiment, seed: int) -> Trainings:
    """The searches of an arm, which cost several trainings each."""
    rounds = planned_rounds(experiment.searches[entry.name], entry.epochs, seed)
    return replace(entry, count=entry.count * epochs_trained(rounds) / entry.epochs)


def _without_data(settings: Settings) -> Settings:
    """Settings whose images and validation are replaced by a set that takes no time."""
    replaced = {field.partition(".")[0] for field in NO_DATA}
    return {field: value for field, value in settings.items() if field.partition(".")[0] not in replaced} | NO_DATA
