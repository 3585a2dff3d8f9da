"""Arms that are searches: what is read, refused, started, continued, and reported."""

import csv
import json
from pathlib import Path

import pytest
import yaml

from tiny_experiments import OWN, QUICK, RECIPE, train_here
from verisphere.models.checkpoint import read_checkpoint
from verisphere.study.experiments.arms import read_experiment
from verisphere.study.experiments.experiment import ExperimentResult, run_experiment
from verisphere.study.experiments.recipes import resolve
from verisphere.study.experiments.searched import search_figures
from verisphere.study.search import search as driver
from verisphere.train.recipe import read_recipe
from verisphere.train.session import train_run

SEARCH = """\
recipe: elsewhere.yaml
set: {loss: {class_path: verisphere.losses.CosFace, init_args: {margin: 0.1, scale: 16}}, batch_size: 8}
space: {optimizer.rate: {class_path: verisphere.study.search.Logarithmic, init_args: {low: 0.01, high: 0.1}}}
method: verisphere.study.search.RandomDraws
schedule: {class_path: verisphere.study.search.WholeTrainings, init_args: {trainings: 2, at_once: 2}}
reward: {faces: own_parts.Rooms, far: ["0.1"], replicates: 5}
"""
ARMS = """\
recipe: recipe.yaml
set: {epochs: 2, loss: {class_path: verisphere.losses.CosFace, init_args: {margin: 0.2, scale: 16}}}
arms:
  base: {}
  control:
    search:
      space:
        loss.init_args.scale: &nothing {class_path: verisphere.study.search.Linear, init_args: {low: 16, high: 16}}
      schedule: {class_path: verisphere.study.search.EachEpoch, init_args: {candidates: 1}}
      reward: &reward {faces: own_parts.Rooms, far: ["0.1"], replicates: 5}
  margin:
    first_seeds: 1
    search:
      space: {loss.init_args.margin: {class_path: verisphere.study.search.Linear, init_args: {low: 0.0, high: 0.4}}}
      schedule: {class_path: verisphere.study.search.EachEpoch, init_args: {candidates: 3}}
      reward: *reward
  best of 2 seeds:
    first_seeds: 1
    search:
      space: {seed: {class_path: verisphere.study.search.Linear, init_args: {low: 10, high: 999, whole: true}}}
      method: verisphere.study.search.RandomDraws
      schedule: {class_path: verisphere.study.search.WholeTrainings, init_args: {trainings: 2}}
      reward: *reward
  from a file: {search: search.yaml, batch_size: 6, first_seeds: 1}
seeds: [3, 4]
baseline: base
evaluate:
  plain: {faces: own_parts.Noise, far: ["0.1"]}
"""


@pytest.fixture(scope="module", autouse=True)
def _no_page_is_drawn():
    """It takes longer than such a search; tests/study/search/test_page.py draws pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "write_page", lambda *_: None)
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path)


def written(folder: Path) -> Path:
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "search.yaml").write_text(SEARCH)
    (folder / "arms.yaml").write_text(ARMS)
    return folder


def only(*arms: str) -> str:
    """ARMS with these arms alone."""
    content = yaml.safe_load(ARMS)
    return yaml.safe_dump(content | {"arms": {name: content["arms"][name] for name in arms}})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ExperimentResult]:
    """The experiment of ARMS, made once."""
    folder = written(tmp_path_factory.mktemp("searched"))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(OWN)
        patch.setattr("verisphere.study.experiments.experiment.train_runs", train_here)
        patch.setattr(driver, "write_page", lambda *_: None)  # it takes longer than such a search
        result = run_experiment(read_experiment(folder / "arms.yaml"), folder / "out", QUICK, replicates=10)
    return folder, result


def weights(run: Path) -> dict[str, str]:
    return read_checkpoint(run).sha256


def test_a_search_of_one_candidate_whose_space_does_nothing_is_the_training(made: tuple[Path, ExperimentResult]):
    runs = made[0] / "out" / "runs"
    made[1].check()
    for seed in ("seed-3", "seed-4"):
        assert weights(runs / "control" / seed) == weights(runs / "base" / seed)
    assert weights(runs / "base" / "seed-3") != weights(runs / "base" / "seed-4")


def test_a_search_is_measured_as_a_training_and_its_cost_stands_beside(made: tuple[Path, ExperimentResult]):
    folder, result = made
    with (folder / "out" / "results.csv").open() as file:
        rows = {(row["arm"], row["seed"], row["figure"]): row["value"] for row in csv.DictReader(file)}
    cost = {arm: rows[arm, "3", "times_one_training"] for arm in result.arms if arm != "base"}
    assert cost == {"control": "1.0", "margin": "3.0", "best of 2 seeds": "2.0", "from a file": "2.0"}
    assert ("base", "3", "times_one_training") not in rows
    found = read_recipe(folder / "out" / "runs" / "margin" / "seed-3" / "recipe.yaml", []).resolved
    assert float(rows["margin", "3", "found margin"]) == found["loss"]["init_args"]["margin"]
    search = json.loads((folder / "out" / "runs" / "margin" / "seed-3" / "search.json").read_text())
    last = search["rounds"][-1]
    assert float(rows["margin", "3", "reward"]) == max(entry["reward"] for entry in last["candidates"])
    assert set(result.arms["margin"].figures[0].per_seed) == {3}
    trainings = result.text().partition("trainings\n")[2].splitlines()
    (cells,) = ([cell.strip() for cell in line.split("|")] for line in trainings if line.startswith("| margin "))
    assert cells[5] == "3"
    assert cells[7] == f"margin {found['loss']['init_args']['margin']:.3g}"
    assert "margin: at seed 3 alone" in result.text()


def test_each_search_is_a_process_of_its_own(
    made: tuple[Path, ExperimentResult], folder: Path, monkeypatch: pytest.MonkeyPatch
):
    (folder / "arms.yaml").write_text(only("base", "control").replace("- 3\n", ""))
    monkeypatch.setenv("PYTHONPATH", str(OWN), prepend=":")
    run_experiment(read_experiment(folder / "arms.yaml"), folder / "out", QUICK, replicates=10).check()
    for arm in ("base", "control"):
        run = Path("out") / "runs" / arm / "seed-4"
        assert weights(folder / run) == weights(made[0] / run)
    assert "round 2, to epoch 2" in (folder / "out" / "runs" / "control" / "seed-4" / "log.txt").read_text()


def test_an_arm_s_fields_go_over_those_of_a_search_s_file_and_its_recipe_is_the_experiment_s(
    made: tuple[Path, ExperimentResult],
):
    (folder,) = (made[0] / "out" / "runs").glob("from_a_file*/seed-3")
    found = read_recipe(folder / "recipe.yaml", []).resolved
    assert (found["batch_size"], found["loss"]["init_args"]["margin"], found["epochs"]) == (6, 0.1, 2.0)


def test_the_best_of_several_seeds_trains_each(made: tuple[Path, ExperimentResult]):
    (folder,) = (made[0] / "out" / "runs").glob("best_of*/seed-3")
    (only,) = json.loads((folder / "search.json").read_text())["rounds"]
    seeds = [entry["values"]["seed"] for entry in only["candidates"]]
    assert len(set(seeds)) == 2
    assert all(type(seed) is int and 10 <= seed <= 999 for seed in seeds)
    kept = read_recipe(folder / "recipe.yaml", []).recipe
    assert kept.seed == seeds[only["best"] - 1]
    # the candidate is the training of this seed
    train_run(read_recipe(folder / "recipe.yaml", []), made[0] / "again", device="cpu", threads=1)
    assert weights(made[0] / "again") == weights(folder)


def test_a_changed_search_is_refused_once_it_has_begun(made: tuple[Path, ExperimentResult]):
    path = made[0] / "changed.yaml"
    path.write_text(ARMS.replace("high: 0.4", "high: 0.5"))
    with pytest.raises(ValueError, match=r"arm 'margin': search\.space\.loss\.init_args\.margin\.init_args\.high was"):
        run_experiment(read_experiment(path), made[0] / "out", QUICK)


def test_a_warm_training_is_where_candidates_start(folder: Path):
    (folder / "arms.yaml").write_text(ARMS.replace("seeds: [", "warm: {epochs: 1}\nseeds: ["))
    resolved = resolve(read_experiment(folder / "arms.yaml"), folder / "out" / "warm")
    assert resolved.arms["margin"].fields["start"] == str(folder / "out" / "warm")
    assert set(resolved.searches) == {"control", "margin", "best of 2 seeds", "from a file"}


def test_a_grid_searches_at_each_point(folder: Path):
    experiment = read_experiment(folder / "arms.yaml", grid=["optimizer.momentum=0.5,0.9"])
    assert [name for name in experiment.arms if name not in experiment.searches] == [
        "base,momentum=0.5",
        "base,momentum=0.9",
    ]
    assert experiment.first_seeds["margin,momentum=0.9"] == 1


def test_figures_of_what_is_no_search(tmp_path: Path):
    assert search_figures(tmp_path) == {}
    (tmp_path / "search.json").write_text("{}")
    with pytest.raises(ValueError, match=r"search.json: format is missing; not what a search writes"):
        search_figures(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("search: search.yaml", "search: 3", r"arm 'from a file': search: it is 3; expected \{space: "),
        ("search: search.yaml", "search: recipe.yaml", r"arm 'from a file': search: it is 'recipe.yaml'; expected"),
        ("reward: *reward\n  best", "rewards: *reward\n  best", r"arm 'margin': search: there is no key 'rewards'"),
        ("  base: {}", "  base: {first_seeds: 1}", r"arm 'base' is the baseline, so it has all seeds"),
        ("first_seeds: 1}", "first_seeds: 0}", r"arm 'from a file': first_seeds is 0; expected a whole number of at"),
        ("set: {", "set: {search: search.yaml, ", r"set has search, which only an arm can say"),
        ("batch_size: 6", "cleaned: {arm: base}", r"arm 'from a file' has cleaned and search; a search trains on"),
        ("batch_size: 6", "optimizer.rate: 1", r"arm 'from a file' sets optimizer.rate, which its search chooses"),
        (
            "schedule: {class_path: verisphere.study.search.WholeTrainings, init_args: {trainings: 2}}",
            "schedule: verisphere.study.search.EachEpoch",
            r"arm 'best of 2 seeds': search: space: seed: all candidates of a search share seed",
        ),
        (
            "{}\n  control",
            "{}\n  anew: {cleaned: {arm: base}, first_seeds: 1}\n  control",
            r"arm 'anew' has other seeds than arm 'base', which cleans its data",
        ),
        ("loss.init_args.margin: {class", "loss.init_args.m: {class", r"search: loss.init_args.m: there is no m in"),
    ],
)
def test_what_is_refused_before_the_first_training(folder: Path, old: str, new: str, message: str):
    assert old in ARMS
    (folder / "arms.yaml").write_text(ARMS.replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        resolve(read_experiment(folder / "arms.yaml"), folder / "warm")
