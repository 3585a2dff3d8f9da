"""All sets of a folder: found, embedded, evaluated, one after another."""

import logging
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import torch

from verisphere.base.collectives import on_first_rank
from verisphere.base.vocabulary import printable
from verisphere.base.work import steps_of
from verisphere.images.loader import MOST_WORKERS
from verisphere.measure.suite.embedding import EmbedOnce
from verisphere.measure.suite.result import COMBINED, SetResult, SuiteResult
from verisphere.measure.suite.sets import KNOWN_SETS, command_of_lists, evaluate_lists, find_sets
from verisphere.measure.suite.task import SuiteOptions, Task
from verisphere.models.embed import open_model

log = logging.getLogger(__name__)

#: The four sets that SphereFace2 pools as 'combined' (Wen et al. 2022), by their names in small letters alone.
POOLED = ("lfw", "agedb30", "calfw", "cplfw")
_TEMPORARY = Path("EMBEDDINGS")  # stands for the folder in a command, if the files are not kept


def run_suite(
    folder: Path,
    model: Path | None,
    options: SuiteOptions,
    *,
    embeddings: Path | None = None,
    flip: bool | None = None,
    batch_size: int = 128,
    workers: int = 0,
    precision: torch.dtype = torch.float32,
    device: torch.device,
    trust: bool = False,
) -> SuiteResult:
    """Evaluate every set of a folder; one that cannot be evaluated is recorded, and the others continue.

    The folder has a sub-folder for each set, and verification sets of InsightFace (.bin) beside them. Without a model
    the existing files in the folder `embeddings` are measured; without that folder, new ones are temporary.
    """
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder}: there is no such folder; a suite is a folder with a sub-folder for each set"
        )
    if model is None and embeddings is None:
        raise ValueError("--model embeds the images, --embeddings DIR names files that are there: give one or both")
    if model is None and embeddings is not None and not embeddings.is_dir():
        raise FileNotFoundError(f"{embeddings}: there is no such folder of embeddings files; --model makes them")
    if model is not None and embeddings is not None and embeddings.exists() and not embeddings.is_dir():
        raise FileExistsError(f"{embeddings}: a file; --embeddings names a folder, which is made where it is not there")
    if not 0 <= workers <= MOST_WORKERS:
        raise ValueError(f"--workers {workers}: allowed are 0 to {MOST_WORKERS} processes that read images")
    tasks, unknown = find_sets(folder, embeddings)
    if not tasks:
        if itself := [task.name for known in KNOWN_SETS for task in known.find(folder)]:
            raise ValueError(f"{folder}: it is itself the set {itself[0]}; name the folder above, which has all sets")
        known = ", ".join(known.name for known in KNOWN_SETS)
        seen = f"; found was {', '.join(unknown[:5])}" if unknown else ""
        raise ValueError(f"{folder}: no known set in it; known are {known}{seen}")
    opened = None if model is None else open_model(model, device, trust)
    keep = nullcontext(str(embeddings)) if embeddings is not None else tempfile.TemporaryDirectory(prefix="verisphere-")
    sets: dict[str, SetResult] = {}
    with keep as own:
        place = on_first_rank(lambda: own)  # which all ranks see
        once = None
        if opened is not None:
            mirrored = bool(opened.flip) if flip is None else flip
            once = EmbedOnce(opened, Path(place), mirrored, precision, batch_size, workers, options.progress)
        for turn, task in enumerate(tasks, 1):
            log.info("%s: set %d of %d", printable(task.name), turn, len(tasks))
            files = {part: Path(place) / f"{part}.npz" for part in task.parts}
            command = task.command([(embeddings or _TEMPORARY) / path.name for path in files.values()], options)

            def evaluate(task: Task = task, files: dict[str, Path] = files, turn: int = turn) -> SetResult:
                if once is not None:
                    for part, find in task.parts.items():
                        once.write(part, find(folder))
                with steps_of(f"set {turn}"):
                    return SetResult("", (), task.evaluate(list(files.values()), options))

            sets[task.name] = _attempt(evaluate, task.place.name, command, task.notes)
        pooled = _pooled(tasks)
        if failed := [task.name for task in pooled if sets[task.name].result is None]:
            error = f"it consists of {', '.join(failed)} too, which could not be evaluated"
            sets[COMBINED] = SetResult(folder.name, (), None, error)
        elif pooled:
            paths = [Path(place) / f"{next(iter(task.parts))}.npz" for task in pooled]
            lists = [task.pairs[0] for task in pooled]
            shown = [(embeddings or _TEMPORARY) / path.name for path in paths]
            command = command_of_lists(shown, options, lists=lists, keep_repeated=False)

            def combine() -> SetResult:
                with steps_of(COMBINED):
                    return SetResult("", (), evaluate_lists(paths, options, lists=lists, keep_repeated=False))

            notes = (f"the pairs of {', '.join(task.name for task in pooled)} in one",)
            sets[COMBINED] = _attempt(combine, folder.name, command, notes)
        on_first_rank(lambda: "")  # no rank needs the files any more
    embedded, reused = (0, 0) if once is None else (once.embedded, once.reused)
    result = SuiteResult(folder, model, options.rule, sets, embedded, reused, unknown, kept=embeddings is not None)
    result.note_unknown()
    return result


def _attempt(work: Callable[[], SetResult], place: str, command: Sequence[str], notes: tuple[str, ...]) -> SetResult:
    """The result of a set, or the reason why it has none, in one line."""
    try:
        result = work().result
    except (ValueError, OSError) as error:
        said = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            said = f"{error.filename}: {error.strerror}"
        return SetResult(place, tuple(command), None, " ".join(said.split()), notes)
    return SetResult(place, tuple(command), result, notes=notes)


def _pooled(tasks: Sequence[Task]) -> list[Task]:
    """The sets of 'combined', if all of them exist; the first of two with the same name."""
    lists = {"".join(filter(str.isalnum, task.name.lower())): task for task in reversed(tasks) if len(task.pairs) == 1}
    if "agedb" in lists:
        lists.setdefault("agedb30", lists["agedb"])
    return [lists[name] for name in POOLED] if all(name in lists for name in POOLED) else []
