"""Experiments: trainings of a grid or of named arms, their figures, and which differences exceed chance."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from verisphere.base.device import choose_device
from verisphere.base.vocabulary import Progress, quietly
from verisphere.base.words import check_at_least
from verisphere.files.disk import real_path, write_text
from verisphere.files.lock import alone_in
from verisphere.files.results import Result
from verisphere.measure.set_figures import Figure, SetFigures
from verisphere.report.plots import save_plot
from verisphere.study.experiments.arms import Experiment
from verisphere.study.experiments.cleaned import waves
from verisphere.study.experiments.compare import ArmResult, arm_results
from verisphere.study.experiments.folder import Run, open_experiment, warm_run
from verisphere.study.experiments.grid import folder_name
from verisphere.study.experiments.measure import Measurer, training_figures
from verisphere.study.experiments.plot import experiment_plot
from verisphere.study.experiments.recipes import Resolved, resolve
from verisphere.study.experiments.run import Failure, Launch, RunsFailed, clean_runs, train_runs
from verisphere.study.experiments.text import results_csv, results_text

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExperimentResult(Result):
    """The results of an experiment.

    The bootstrap has a number of replicates, and the seed `draws`. `below_resolution` has, for each set, the target
    FARs that are too low for its number of impostor pairs; `arms` are those whose trainings all finished, and `failed`
    has a line for each training that did not. Sets on whose people or images a training was trained are `known`.
    """

    baseline: str
    seeds: tuple[int, ...]
    replicates: int
    draws: int
    people: dict[str, int]
    below_resolution: dict[str, tuple[str, ...]]
    arms: dict[str, ArmResult]
    failed: tuple[str, ...]
    known: dict[str, str]

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
    """Train every arm at every seed, measure and compare; an experiment that was stopped is continued.

    The folder `out` receives a folder for each training, `results.csv`, `results.json` and `plots/`. The bootstrap over
    people has `replicates` replicates, drawn by the seed `draws`.
    """
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
