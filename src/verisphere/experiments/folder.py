"""An experiment's folder: what was asked for, a folder for each training, and which of them are done.

FOLDER/plan.json              resolved recipes, seeds and sets
FOLDER/warm/                  the first training, where there is one
FOLDER/runs/ARM/seed-S/       a training each: a run as `train` leaves it, log.txt, finished.json, SET.npz
FOLDER/results.csv, results.json, plots/
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verisphere.experiments.arms import SEED, START
from verisphere.experiments.grid import folder_name
from verisphere.experiments.recipes import Resolved
from verisphere.files.class_paths import present_names
from verisphere.files.disk import write_whole
from verisphere.files.documents import LARGEST_YAML, read_json_file, read_text
from verisphere.files.json_values import shown
from verisphere.models.checkpoint import list_checkpoints

FINISHED, STOPPED = "finished.json", "stopped.json"


@dataclass(frozen=True)
class Run:
    """A training of an experiment.

    Attributes:
        arm: name of its arm.
        seed: its seed.
        folder: where it is made.
        recipe: its resolved recipe, as YAML.
    """

    arm: str
    seed: int
    folder: Path
    recipe: str

    @property
    def title(self) -> str:
        """What to call it."""
        return f"{self.arm}, seed {self.seed}"

    @property
    def finished(self) -> bool:
        """Whether it was trained to its end."""
        return (self.folder / FINISHED).is_file()

    @property
    def seconds(self) -> float:
        """Wall time of its trainings so far: the last one, and those that were stopped before."""
        files = [self.folder / FINISHED, self.folder / STOPPED]
        return sum((_seconds(file) for file in files if file.is_file()), 0.0)

    def begin(self) -> Path:
        """The recipe's file; it stays as it is once there is a checkpoint to go on from."""
        path = self.folder / "recipe.yaml"
        if path.is_file() and _trained(self.folder):
            return path
        if path.is_file() and read_text(path, LARGEST_YAML) != self.recipe:
            (self.folder / STOPPED).unlink(missing_ok=True)  # the time of another training
        write_text(path, self.recipe)
        return path

    def end(self, seconds: float, done: bool) -> None:
        """Keep how long a training took; one that was stopped or failed adds to those before."""
        before = 0.0 if done else self.seconds
        text = json.dumps({"seconds": round(before + seconds, 2)}) + "\n"
        write_text(self.folder / (FINISHED if done else STOPPED), text)


def _seconds(path: Path) -> float:
    """How long a training took, by the file that it left.

    Raises:
        ValueError: it is not what an experiment writes.
    """
    try:
        found = read_json_file(path)["seconds"]
        if type(found) not in (int, float) or found < 0:
            raise ValueError(f"seconds is {shown(found)}")
        return float(found)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"{path}: not what an experiment keeps of a training ({error}); was it changed?") from None


def write_text(path: Path, text: str) -> None:
    """A text file, whole or not at all.

    Raises:
        OSError: it cannot be written; names it.
    """
    write_whole(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def _trained(folder: Path) -> bool:
    """Whether a training has left something here to go on from."""
    return bool(list_checkpoints(folder)) or (folder / FINISHED).is_file()


def open_experiment(out: Path, resolved: Resolved) -> dict[str, list[Run]]:
    """Make an experiment's folder, or find it again; returns the trainings of each arm.

    What is there may grow: more arms, seeds, sets or FARs. A training that has left a checkpoint, and a set that it was
    measured on, stay as they are; what was only asked for may change.

    Raises:
        ValueError: the folder is another experiment's; says what differs.
    """
    path = out / "plan.json"
    asked = {
        "warm": None if resolved.warm is None else resolved.warm.fields,
        "arms": {name: _compared(one.fields, resolved.warm is not None) for name, one in resolved.arms.items()},
        "seeds": list(resolved.seeds),
        "evaluate": resolved.described,
    }
    if path.is_file():
        differing = differences(_begun(_read(path), asked, out), asked)
        if differing:
            more = f"; and {len(differing) - 3} more" if len(differing) > 3 else ""
            raise ValueError(
                f"{path}: this folder holds another experiment: {'; '.join(differing[:3])}{more}; choose another --out"
            )
    elif out.is_dir() and any(entry.name != ".lock" for entry in out.iterdir()):
        raise ValueError(f"{out}: it holds something, and no experiment; choose another --out")
    write_text(path, json.dumps(asked, indent=2) + "\n")
    return {
        name: [Run(name, seed, _folder(out, name, seed), text) for seed, text in one.yaml.items()]
        for name, one in resolved.arms.items()
    }


def warm_run(out: Path, resolved: Resolved) -> Run | None:
    """The training that the arms start from."""
    if resolved.warm is None:
        return None
    ((seed, text),) = resolved.warm.yaml.items()
    return Run("warm", seed, out / "warm", text)


def _folder(out: Path, arm: str, seed: int) -> Path:
    return out / "runs" / folder_name(arm) / f"seed-{seed}"


def _begun(before: Mapping[str, Any], now: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """What a folder was asked for, but for what has not been trained yet: that may still be another."""
    trained = {arm: [seed for seed in before["seeds"] if _trained(_folder(out, arm, seed))] for arm in before["arms"]}
    some = any(trained.values())
    return {
        "warm": before["warm"] if some or _trained(out / "warm") else now["warm"],
        "arms": {arm: one for arm, one in before["arms"].items() if trained[arm]},
        "seeds": [seed for seed in before["seeds"] if any(seed in seeds for seeds in trained.values())],
        "evaluate": before["evaluate"] if some else {},
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What an experiment's folder holds and the experiment now asked for contradicts, in words.

    >>> old = {"warm": None, "arms": {"a": {"rate": 1}}, "evaluate": {}, "seeds": [0, 1]}
    >>> differences(old, old | {"arms": {"a": {"rate": 2}, "b": {"rate": 1}}, "seeds": [0]})
    ["arm 'a': rate was 1 and is 2", 'seed 1 is missing']
    """
    found = _changed("warm", before["warm"], now["warm"])
    for kind, noun, kept in (("arms", "arm", None), ("evaluate", "set", ("faces", "flip"))):
        for name, one in before[kind].items():
            other = now[kind].get(name)
            if other is None:
                found.append(f"{noun} {name!r} is missing")
                continue
            # figures are made anew each time, embeddings are not
            both = [{key: value[key] for key in kept or value} for value in (one, other)]
            found += _changed(f"{noun} {name!r}", *both)
    return found + [f"seed {seed} is missing" for seed in before["seeds"] if seed not in now["seeds"]]


def _changed(who: str, before: object, now: object) -> list[str]:
    """The values of which the two do not agree."""
    old, new = _leaves(before), _leaves(now)
    return [
        f"{who}: {name or 'it'} was {shown(old.get(name))} and is {shown(new.get(name))}"
        for name in dict.fromkeys([*old, *new])
        if name not in old or name not in new or old[name] != new[name]
    ]


def _leaves(value: object, name: str = "") -> dict[str, object]:
    """Every value inside, by its dotted name."""
    inside: Iterable[tuple[object, object]]
    if isinstance(value, Mapping) and value:
        inside = value.items()
    elif isinstance(value, list) and value:
        inside = enumerate(value)
    else:
        return {name: value}
    return {
        leaf: found
        for key, entry in inside
        for leaf, found in _leaves(entry, f"{name}.{key}" if name else str(key)).items()
    }


def _compared(recipe: Mapping[str, Any], warm: bool) -> dict[str, Any]:
    """A recipe but for its seed, and for its start at the experiment's own first training, by whatever path."""
    return {name: value for name, value in recipe.items() if name != SEED and not (warm and name == START)}


def _read(path: Path) -> dict[str, Any]:
    """What an experiment's folder was made for.

    Raises:
        ValueError: the file is not what an experiment writes.
    """
    try:
        found = present_names(read_json_file(path))
        differences(found, found)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path}: not what an experiment was asked for; was it changed?") from None
    return found
