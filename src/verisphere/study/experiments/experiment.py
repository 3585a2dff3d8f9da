"""Experiments: trainings of a grid or of named arms, their figures, and which differences exceed chance."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from verisphere.base.device import choose_device
from verisphere.base.vocabulary import Embeddings, Origin, Progress, Redrawing, quietly
from verisphere.base.words import check_at_least, counted
from verisphere.files.class_paths import present_name
from verisphere.files.disk import real_path, write_text
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.files.lock import alone_in
from verisphere.files.metrics import METRICS, read_metrics
from verisphere.files.results import Result
from verisphere.images.decoded_faces import in_memory
from verisphere.images.select import even_steps
from verisphere.measure.measured_set import MeasuredSet
from verisphere.measure.set_figures import Figure, SetFigures, set_figures
from verisphere.models.embed import EmbeddingModel, embed, open_model, origin_of
from verisphere.report.plots import save_plot
from verisphere.score.cosine import cosine
from verisphere.study.experiments.arms import Experiment, folder_name
from verisphere.study.experiments.cleaned import cleaning_figures, waves
from verisphere.study.experiments.compare import ArmResult, arm_results, experiment_plot, results_csv, results_text
from verisphere.study.experiments.folder import Run, open_experiment, warm_run
from verisphere.study.experiments.recipes import Resolved, resolve
from verisphere.study.experiments.run import Failure, Launch, RunsFailed, clean_runs, train_runs
from verisphere.study.experiments.searched import search_figures

log = logging.getLogger(__name__)

_CHECKED_IMAGES = 16  # embedded again to check that the images of a set have not changed
_LARGEST_CHANGE = 1e-4  # of a cosine; rounding changes it by 1e-6, another image by more
_MOST_IN_MEMORY = 20_000  # images; a set with more is read anew for each training


class Measurer:
    """Measures trainings on sets; the images of small sets are read once for all trainings."""

    def __init__(
        self,
        sets: Mapping[str, MeasuredSet],
        described: Mapping[str, Mapping[str, Any]],
        *,
        device: torch.device,
        replicates: int = 1000,
        seed: int = 0,
        progress: Progress = quietly,
    ) -> None:
        """Take the sets, whose images are read when first needed, and as plain data for the origin of embeddings."""
        self.sets = dict(sets)
        self.described = described
        self.device = device
        self.redrawing, self.progress = Redrawing(replicates, seed), progress
        self._knowing: dict[str, dict[str, list[str]]] = {}  # of each set what trainings knew of it, and which did

    def measure(self, run: Run) -> dict[str, SetFigures]:
        """The figures of a finished training on every set."""
        figures = {}
        for name, asked in self.sets.items():
            embeddings = self._embeddings(run, name)
            rows = embeddings.in_training
            if rows is not None and (shared := rows.shared(embeddings.identities)):
                self._knowing.setdefault(name, {}).setdefault(shared.found(), []).append(run.title)
            figures[name] = set_figures(name, asked, embeddings, self.redrawing)
        return figures

    @property
    def known(self) -> dict[str, str]:
        """What trainings knew of each set on whose people or images they were trained, in words."""
        return {
            name: "; ".join(f"{_first_of(titles)}: {found}" for found, titles in knowing.items())
            for name, knowing in self._knowing.items()
        }

    def _embeddings(self, run: Run, name: str) -> Embeddings:
        """A training's embeddings of a set: those in its folder if they are still valid, else new ones."""
        asked, path = self.sets[name], run.folder / f"{folder_name(name)}.npz"
        # trusted: its recipe, including its code, was given for training
        model = open_model(run.folder, self.device, trust=True)
        images = _images(self.described[name])
        origin = origin_of(model, asked.flip, torch.float32, images, asked.faces.source)
        assert origin is not None  # a run has weights
        before = _stored(path, asked, origin)
        if before is not None:
            if _unchanged(model, asked, before, origin.images):
                return before
            log.info("%s: the images of %s are not those it was made of: embedding anew", path, name)
        if len(asked.faces) <= _MOST_IN_MEMORY:
            self.sets[name] = asked = replace(asked, faces=in_memory(asked.faces, progress=self.progress))
        embeddings = embed(model, asked.faces, origin.images, flip=asked.flip, progress=self.progress)
        write_embeddings(path, embeddings)
        return embeddings


def _first_of(titles: Sequence[str]) -> str:
    """The first of some titles, and the number of the others."""
    return titles[0] + (f" and {counted(len(titles) - 1, 'other training')}" if len(titles) > 1 else "")


def _stored(path: Path, asked: MeasuredSet, origin: Origin) -> Embeddings | None:
    """The embeddings of a file if they have this origin and the names, people and domains of the set; else None."""
    if not path.is_file():
        return None
    stored = read_embeddings(path)
    columns = ((stored.names, asked.faces.names), (stored.identities, asked.faces.identities))
    domains = None if stored.domains is None else tuple(stored.domains.tolist())
    same = all(np.array_equal(*both) for both in columns) and domains == asked.faces.domains
    known = stored.origin
    alike = known is not None and not known.differences(origin) and present_name(known.images) == origin.images
    return stored if same and alike else None


def _unchanged(model: EmbeddingModel, asked: MeasuredSet, before: Embeddings, images: str) -> bool:
    """Whether some of the set's images, evenly spaced, still have the stored embeddings."""
    rows = even_steps(len(before), _CHECKED_IMAGES)
    now = embed(model, asked.faces.select(rows.tolist()), images, flip=asked.flip)
    cosines = cosine(*(torch.from_numpy(both).double() for both in (now.embeddings, before.embeddings[rows])))
    return bool((cosines >= 1 - _LARGEST_CHANGE).all())


def training_figures(run: Run) -> dict[str, float]:
    """The last value of each figure in a training's log, its wall time in seconds, and those of cleaning or search."""
    last: dict[str, float] = {}
    for entry in read_metrics(run.folder / METRICS):
        last |= {name: float(value) for name, value in entry.items() if value is not None and name != "step"}
    return {"seconds": run.seconds} | last | cleaning_figures(run.folder) | search_figures(run.folder)


def _images(described: Mapping[str, Any]) -> str:
    """The source of a set's images for the origin of embeddings: their path, or the class that makes them."""
    faces = described["faces"]
    return str(Path((faces.get("init_args") or {}).get("path") or faces["class_path"]))


@dataclass(frozen=True)
class ExperimentResult(Result):
    """The results of an experiment."""

    baseline: str
    seeds: tuple[int, ...]
    replicates: int
    draws: int  # seed of the bootstrap
    people: dict[str, int]
    below_resolution: dict[str, tuple[str, ...]]  # by set, the FARs too low for its impostor pairs
    arms: dict[str, ArmResult]
    failed: tuple[str, ...]  # a line for each training that did not finish
    known: dict[str, str]  # sets on whose people or images a training was trained

    def text(self) -> str:
        """What a training knew of a set, and the tables of all results."""
        told = [f"{name}: {words}, so its figures say little about new people\n" for name, words in self.known.items()]
        return "\n".join(
            [*told, results_text(self.arms, self.baseline, self.seeds, self.people, self.below_resolution)]
        )

    def check(self) -> None:
        """Check that no training failed."""
        if self.failed:
            finished = ", ".join(self.arms) or "none"
            raise RunsFailed(
                f"{len(self.failed)} trainings failed (arms in the results: {finished}): " + "; ".join(self.failed)
            )


def run_experiment(
    experiment: Experiment,
    out: Path,
    launch: Launch | None = None,
    *,
    replicates: int = 1000,
    draws: int = 0,
    progress: Progress = quietly,
) -> ExperimentResult:
    """Train every arm at every seed, measure and compare; an experiment that was stopped is continued."""
    launch = Launch() if launch is None else launch
    check_at_least("replicates", replicates)
    device = choose_device(launch.device)
    resolved = resolve(experiment, real_path(out / "warm"))
    with alone_in(out):
        runs = open_experiment(out, resolved)
        warm = warm_run(out, resolved)
        if warm is not None:
            for failure in train_runs([warm], replace(launch, jobs=1), progress):  # alone, so it may use all cores
                raise RunsFailed(f"the training that every arm starts from failed: {failure.text}")
        failures = []
        for arms in waves(list(runs), resolved.cleaned):
            of_wave = [run for arm in arms for run in runs[arm]]
            without_data = clean_runs(of_wave, device, progress)
            lacking = [failure.run for failure in without_data]
            failures += without_data
            failures += train_runs([run for run in of_wave if run not in lacking], launch, progress)
        measurer = Measurer(
            resolved.sets,
            resolved.described,
            device=device,
            replicates=replicates,
            seed=draws,
            progress=progress,
        )
        done = [run for of_arm in runs.values() for run in of_arm if run.finished]
        measured = {run: measurer.measure(run) for run in progress(done, "measuring", len(done))}
        result = _result(experiment, resolved, measured, failures, replicates, draws, measurer.known)
        _write(out, result, measured)
    return result


def _result(
    experiment: Experiment,
    resolved: Resolved,
    measured: dict[Run, dict[str, SetFigures]],
    failures: Sequence[Failure],
    replicates: int,
    draws: int,
    known: dict[str, str],
) -> ExperimentResult:
    failed = {failure.run.arm for failure in failures}
    finished = [arm for arm in resolved.arms if arm not in failed]
    by_arm = {arm: {run.seed: sets for run, sets in measured.items() if run.arm == arm} for arm in finished}
    trainings = {arm: {run.seed: training_figures(run) for run in measured if run.arm == arm} for arm in finished}
    sets_of_first = next(iter(measured.values()), {})
    return ExperimentResult(
        baseline=experiment.baseline,
        seeds=resolved.seeds,
        replicates=replicates,
        draws=draws,
        people={name: figures.people for name, figures in sets_of_first.items()},
        below_resolution={name: figures.below_resolution for name, figures in sets_of_first.items()},
        arms=arm_results(by_arm, trainings, experiment.baseline),
        failed=tuple(failure.text for failure in failures),
        known=known,
    )


def _write(out: Path, result: ExperimentResult, measured: dict[Run, dict[str, SetFigures]]) -> None:
    figures: dict[tuple[str, int], dict[Figure, float]] = {
        (run.arm, run.seed): {key: value for of_set in sets.values() for key, value in of_set.values.items()}
        for run, sets in measured.items()
    }
    text = results_csv(figures, {(run.arm, run.seed): training_figures(run) for run in measured})
    write_text(out / "results.csv", text)
    result.write_json(out / "results.json")
    for name in result.people:
        picture = experiment_plot(result.arms, result.baseline, name, result.below_resolution[name])
        if picture is not None:
            save_plot(picture, out / "plots" / f"{folder_name(name)}.png")
