"""The folder of an experiment: its definition, a folder for each training, and which trainings are finished.

FOLDER/plan.json              resolved recipes, seeds and sets
FOLDER/warm/                  the warm training, if there is one
FOLDER/runs/ARM/seed-S/       a training: a run as `train` writes it, log.txt, finished.json, SET.npz; kept.txt,
                              clean.json and cleaned.json where its data are cleaned by another arm; search.json and
                              rounds/ where it is a search
FOLDER/results.csv, results.json, plots/
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from verisphere.files.class_paths import present_names
from verisphere.files.disk import real_path, write_text
from verisphere.files.documents import LARGEST_YAML, read_json_file, read_text
from verisphere.files.json_values import shown
from verisphere.files.work import begun_before, changed_values
from verisphere.models.checkpoint import list_checkpoints
from verisphere.study.clean.cleaning import cleaned_data
from verisphere.study.experiments.arms import SEED, START, folder_name
from verisphere.study.experiments.cleaned import CLEANED, CleanedFrom
from verisphere.study.experiments.recipes import Resolved, ResolvedRecipe
from verisphere.study.experiments.searched import SEARCH, search_yaml
from verisphere.study.search.folder import SEARCH_JSON, SEARCH_YAML, SEARCHED_RECIPE
from verisphere.train.recipe import recipe_yaml, with_defaults

FINISHED, STOPPED = "finished.json", "stopped.json"
_BESIDE = {CLEANED, SEARCH}  # keys of an arm beside the fields of its recipe


@dataclass(frozen=True)
class Run:
    """A training of an experiment."""

    arm: str
    seed: int
    folder: Path
    recipe: str
    cleaned: CleanedFrom | None = None
    source: Path | None = None  # folder of the cleaning arm's training at the same seed
    search: str | None = None

    @property
    def title(self) -> str:
        """Name of the training in messages."""
        return f"{self.arm}, seed {self.seed}"

    @property
    def finished(self) -> bool:
        """Whether the training reached its end."""
        return (self.folder / FINISHED).is_file()

    @property
    def seconds(self) -> float:
        """Wall time so far: of the last process, and of those that were stopped before."""
        files = [self.folder / FINISHED, self.folder / STOPPED]
        return sum((_seconds(file) for file in files if file.is_file()), 0.0)

    def begin(self) -> Path:
        """Write the recipe, or the search, unless there is something to continue from; returns its path."""
        if self.search is not None:
            if not (self.folder / SEARCH_JSON).is_file():
                write_text(self.folder / SEARCHED_RECIPE, self.recipe)
                write_text(self.folder / SEARCH_YAML, self.search)
            return self.folder / SEARCH_YAML
        path = self.folder / "recipe.yaml"
        if path.is_file() and _trained(self.folder):
            return path
        if path.is_file() and read_text(path, LARGEST_YAML) != self.recipe:
            (self.folder / STOPPED).unlink(missing_ok=True)  # the file has the time of a training by another recipe
        write_text(path, self.recipe)
        return path

    def end(self, seconds: float, done: bool) -> None:
        """Record the seconds of a process; those of processes that were stopped are added up."""
        before = 0.0 if done else self.seconds
        text = json.dumps({"seconds": round(before + seconds, 2)}) + "\n"
        write_text(self.folder / (FINISHED if done else STOPPED), text)


def _seconds(path: Path) -> float:
    try:
        seconds = read_json_file(path)["seconds"]
        if type(seconds) not in (int, float) or seconds < 0:
            raise ValueError(f"seconds is {shown(seconds)}")
        return float(seconds)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"{path}: not what an experiment keeps of a training ({error}); was it changed?") from None


def _trained(folder: Path) -> bool:
    """Whether a training in this folder has a checkpoint to continue from or is a search, or is finished."""
    begun = (folder / SEARCH_JSON).is_file() or (folder / FINISHED).is_file()
    return begun or bool(list_checkpoints(folder))


def open_experiment(out: Path, resolved: Resolved) -> dict[str, list[Run]]:
    """Create the folder of an experiment, or open it again; what has a checkpoint must be the same as before."""
    path = out / "plan.json"
    asked = {
        "warm": None if resolved.warm is None else resolved.warm.fields,
        "arms": {
            name: _compared(arm.fields, resolved.warm is not None) | _beside(name, resolved)
            for name, arm in resolved.arms.items()
        },
        "seeds": list(resolved.seeds),
        "evaluate": resolved.described,
    }

    def differing() -> list[str]:
        before = _read(path)
        found = differences(_begun(before, asked, out), asked)
        with suppress(ValueError):  # an earlier version has written fewer fields
            return found and differences(_begun(_completed(before, asked), asked, out), asked)
        return found

    begun_before(path, "experiment", differing)
    write_text(path, json.dumps(asked, indent=2) + "\n")
    return {name: [_run(out, name, seed, arm, resolved) for seed in arm.yaml] for name, arm in resolved.arms.items()}


def _run(out: Path, name: str, seed: int, arm: ResolvedRecipe, resolved: Resolved) -> Run:
    """A training; the recipe of an arm with cleaned data names them."""
    folder, cleaned, search = _folder(out, name, seed), resolved.cleaned.get(name), resolved.searches.get(name)
    if cleaned is None:
        return Run(name, seed, folder, arm.yaml[seed], search=None if search is None else search_yaml(search))
    fields = {**arm.fields, SEED: seed, "data": cleaned_data(arm.fields["data"], real_path(folder))}
    return Run(name, seed, folder, recipe_yaml(fields), cleaned, _folder(out, cleaned.arm, seed))


def _beside(name: str, resolved: Resolved) -> dict[str, Any]:
    cleaned, search = resolved.cleaned.get(name), resolved.searches.get(name)
    return ({} if cleaned is None else {CLEANED: asdict(cleaned)}) | ({} if search is None else {SEARCH: search})


def warm_run(out: Path, resolved: Resolved) -> Run | None:
    """The training that all arms start from; None if there is none."""
    if resolved.warm is None:
        return None
    ((seed, text),) = resolved.warm.yaml.items()
    return Run("warm", seed, out / "warm", text)


def _folder(out: Path, arm: str, seed: int) -> Path:
    return out / "runs" / folder_name(arm) / f"seed-{seed}"


def _begun(before: Mapping[str, Any], now: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """The definition that a folder was made for, without the parts that have not been trained yet and may change."""
    trained = {arm: [seed for seed in before["seeds"] if _trained(_folder(out, arm, seed))] for arm in before["arms"]}
    any_trained = any(trained.values())
    return {
        "warm": before["warm"] if any_trained or _trained(out / "warm") else now["warm"],
        "arms": {arm: fields for arm, fields in before["arms"].items() if trained[arm]},
        "seeds": [seed for seed in before["seeds"] if any(seed in seeds for seeds in trained.values())],
        "evaluate": before["evaluate"] if any_trained else {},
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The contradictions between the definition in an experiment's folder and a new one, in words.

    >>> old = {"warm": None, "arms": {"a": {"rate": 1}}, "evaluate": {}, "seeds": [0, 1]}
    >>> differences(old, old | {"arms": {"a": {"rate": 2}, "b": {"rate": 1}}, "seeds": [0]})
    ["arm 'a': rate was 1 and is 2", 'seed 1 is missing']
    """
    contradictions = changed_values("warm", before["warm"], now["warm"])
    for kind, noun, compared in (("arms", "arm", None), ("evaluate", "set", ("faces", "flip"))):
        for name, old in before[kind].items():
            new = now[kind].get(name)
            if new is None:
                contradictions.append(f"{noun} {name!r} is missing")
                continue
            # of a set only what its embeddings depend on is compared: figures are computed anew each time
            both = [{key: value[key] for key in compared or value} for value in (old, new)]
            contradictions += changed_values(f"{noun} {name!r}", *both)
    return contradictions + [f"seed {seed} is missing" for seed in before["seeds"] if seed not in now["seeds"]]


def _compared(recipe: Mapping[str, Any], warm: bool) -> dict[str, Any]:
    """A recipe without its seed, and without the path of the experiment's own warm training."""
    return {name: value for name, value in recipe.items() if name != SEED and not (warm and name == START)}


def _completed(definition: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """A definition whose trainings have the fields that an earlier version did not write, at their defaults."""
    warm = asked["warm"] is not None
    return {
        **definition,
        "warm": None if definition["warm"] is None else with_defaults(definition["warm"], asked),
        "arms": {
            name: _compared(with_defaults({key: fields[key] for key in fields.keys() - _BESIDE}, asked), warm)
            | {key: fields[key] for key in fields.keys() & _BESIDE}
            for name, fields in definition["arms"].items()
        },
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        definition = present_names(read_json_file(path))
        differences(definition, definition)  # reads all entries
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path}: not what an experiment was asked for; was it changed?") from None
    return definition
