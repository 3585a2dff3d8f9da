"""Arms of an experiment that are searches.

An arm states this beside its fields:

    search: {space: ..., method: ..., schedule: ..., reward: ...}   # as in a search's own file; see
    verisphere.study.search

or names the file of a search, whose `set` then goes below the arm's own fields. Recipe and seeds are the experiment's,
and so is the reward where the experiment has one and the arm states none. A training of such an arm is a search, whose
folder is at the end the run of its result.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from verisphere.files.definitions import read_based
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.packaged_recipes import find_recipe
from verisphere.study.experiments.cleaned import split_arms
from verisphere.study.search.definition import check_keys, parts_of
from verisphere.study.search.folder import SEARCH_JSON, SEARCHED_RECIPE, read_search_json
from verisphere.study.search.rounds import epochs_trained
from verisphere.train.recipe import Settings

SEARCH = "search"
_KEYS = ("space", "method", "schedule", "reward")
_OF_A_FILE = ("recipe", "set", *_KEYS)

#: Figures of a search that stand beside those of a training.
COST, REWARD, FOUND = "times_one_training", "reward", "found"


def split_searches(
    arms: Mapping[str, Settings], folder: Path, reward: Mapping[str, Any] | None = None
) -> tuple[dict[str, Settings], dict[str, dict[str, Any]]]:
    """Split arms into their fields and their `search` entries."""
    plain, stated = split_arms(arms, SEARCH)
    searches = {}
    for name, given in stated.items():
        with errors_naming(f"arm {name!r}: search"):
            entry, settings = _entry(given, folder)
        set_whole = {field.partition(".")[0] for field in plain[name]}
        below = {field: settings[field] for field in settings if field.partition(".")[0] not in set_whole}
        plain[name] = below | plain[name]
        keeps_its_own = reward is None or (not isinstance(given, str) and "reward" in entry)
        searches[name] = entry if keeps_its_own else {**entry, "reward": reward}
    if reward is not None and not searches:
        raise ValueError("reward is there, and no arm is a search")
    return plain, searches


def _entry(given: object, folder: Path) -> tuple[dict[str, Any], Settings]:
    """Space, method, schedule and reward of a search, and the fields that it sets."""
    if isinstance(given, str):
        content = read_based(find_recipe(given, folder, what="search").path).content
        allowed: Sequence[str] = _OF_A_FILE
    else:
        content, allowed = given, _KEYS
    if not isinstance(content, Mapping) or not isinstance(content.get("space"), Mapping):
        raise ValueError(f"it is {shown(given)}; expected {{space: ..., reward: ...}}, or the name of a search")
    check_keys(content, allowed)
    settings = content.get("set") or {}
    if not isinstance(settings, Mapping):
        raise ValueError(f"set is {shown(settings)}; expected names with values")
    return {key: content[key] for key in _KEYS if key in content}, dict(settings)


def search_yaml(described: Mapping[str, Any]) -> str:
    """The file of a search over the recipe beside it."""
    return yaml.safe_dump({"recipe": SEARCHED_RECIPE, **described}, sort_keys=False, allow_unicode=True)


def search_figures(folder: Path) -> dict[str, float]:
    """The cost of a finished search as a multiple of one training, its reward and the values; empty for a training."""
    if not (folder / SEARCH_JSON).is_file():
        return {}
    asked, whole = read_search_json(folder / SEARCH_JSON)
    space, schedule = parts_of(asked)
    rounds = [entry.round for entry in whole]
    number, candidate = schedule.result(rounds)
    reward = rounds[number].measured[candidate]
    assert reward is not None  # the best of a round did not diverge
    found = space.readable(whole[number].values[candidate])
    return {
        COST: epochs_trained(rounds, [entry.values for entry in whole]) / rounds[-1].starts[0].until,
        REWARD: reward,
        **{f"{FOUND} {name}": float(value) for name, value in found.items()},
    }
