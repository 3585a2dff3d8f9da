"""From a recipe and a grid, or named arms, to trainings, their figures, and what differs beyond chance."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from verisphere.device import choose_device
from verisphere.experiments.arms import Experiment
from verisphere.experiments.compare import ArmResult, arm_results
from verisphere.experiments.folder import Run, open_experiment, warm_run, write_text
from verisphere.experiments.grid import folder_name
from verisphere.experiments.measure import Figure, Measurer, SetFigures, training_figures
from verisphere.experiments.plot import experiment_plot
from verisphere.experiments.recipes import Resolved, resolve
from verisphere.experiments.run import Failure, Launch, RunsFailed, train_runs
from verisphere.experiments.text import results_csv, results_text
from verisphere.files.disk import real_path
from verisphere.files.results import json_text
from verisphere.report.plots import save_plot
from verisphere.train.run_folder import alone_in
from verisphere.vocabulary import Progress, quietly

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExperimentResult:
    """What an experiment has come to.

    Attributes:
        baseline: the arm that differences are to.
        seeds: of each arm.
        replicates: of the bootstrap over people.
        draws: seed of its draws.
        people: how many each measured set has.
        below_resolution: for each set the target FARs that its impostors cannot show.
        arms: results of each arm all of whose trainings came to their end.
        failed: the others' failures, a line each.
    """

    baseline: str
    seeds: tuple[int, ...]
    replicates: int
    draws: int
    people: dict[str, int]
    below_resolution: dict[str, tuple[str, ...]]
    arms: dict[str, ArmResult]
    failed: tuple[str, ...]

    def text(self) -> str:
        """The tables."""
        return results_text(self.arms, self.baseline, self.seeds, self.people, self.below_resolution)

    def check(self) -> None:
        """Pass over an experiment that is whole.

        Raises:
            RunsFailed: a training failed; names each.
        """
        if self.failed:
            kept = ", ".join(self.arms) or "none"
            raise RunsFailed(
                f"{len(self.failed)} trainings failed (arms in the results: {kept}): " + "; ".join(self.failed)
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
    """Train every arm at every seed, measure, and compare; an experiment that was stopped goes on from where it was.

    `out` receives a folder for each training, `results.csv`, `results.json` and `plots/`.

    Args:
        experiment: what to train and measure.
        out: the experiment's folder; a new one, or this experiment's.
        launch: how trainings are started.
        replicates: of the bootstrap over people.
        draws: seed of its draws.
        progress: shown over trainings, and while measuring.

    Raises:
        FileNotFoundError: there is no such recipe.
        ValueError: what is wrong with a recipe or set; the folder belongs to another experiment, or another
            process works in it.
        RunsFailed: the training that all arms start from failed.
    """
    launch = Launch() if launch is None else launch
    if replicates < 1:
        raise ValueError(f"replicates must be at least 1, got {replicates}")
    device = choose_device(launch.device)
    resolved = resolve(experiment, real_path(out / "warm"))
    with alone_in(out):
        runs = open_experiment(out, resolved)
        warm = warm_run(out, resolved)
        if warm is not None:
            for failure in train_runs([warm], replace(launch, jobs=1), progress):  # it has all cores
                raise RunsFailed(f"the training that every arm starts from failed: {failure.text}")
        failures = train_runs([run for of_arm in runs.values() for run in of_arm], launch, progress)
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
        result = _result(experiment, resolved, measured, failures, replicates, draws)
        _write(out, result, measured)
    return result


def _result(
    experiment: Experiment,
    resolved: Resolved,
    measured: dict[Run, dict[str, SetFigures]],
    failures: Sequence[Failure],
    replicates: int,
    draws: int,
) -> ExperimentResult:
    broken = {failure.run.arm for failure in failures}
    whole = [arm for arm in resolved.arms if arm not in broken]
    by_arm = {arm: {run.seed: found for run, found in measured.items() if run.arm == arm} for arm in whole}
    trainings = {arm: {run.seed: training_figures(run) for run in measured if run.arm == arm} for arm in whole}
    some = next(iter(measured.values()), {})
    return ExperimentResult(
        baseline=experiment.baseline,
        seeds=resolved.seeds,
        replicates=replicates,
        draws=draws,
        people={name: one.people for name, one in some.items()},
        below_resolution={name: one.below_resolution for name, one in some.items()},
        arms=arm_results(by_arm, trainings, experiment.baseline),
        failed=tuple(failure.text for failure in failures),
    )


def _write(out: Path, result: ExperimentResult, measured: dict[Run, dict[str, SetFigures]]) -> None:
    figures: dict[tuple[str, int], dict[Figure, float]] = {
        (run.arm, run.seed): {key: value for one in found.values() for key, value in one.values.items()}
        for run, found in measured.items()
    }
    text = results_csv(figures, {(run.arm, run.seed): training_figures(run) for run in measured})
    write_text(out / "results.csv", text)
    write_text(out / "results.json", json_text(result))
    for name in result.people:
        picture = experiment_plot(result.arms, result.baseline, name, result.below_resolution[name])
        if picture is not None:
            save_plot(picture, out / "plots" / f"{folder_name(name)}.png")
