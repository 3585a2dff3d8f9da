"""Grids and experiments: what is read, how arms are called, and each thing that is refused, in one line."""

from pathlib import Path

import pytest
import torch

from verisphere.files.packaged_recipes import packaged_recipes
from verisphere.images import InMemory
from verisphere.measure.measured_set import MeasuredSet
from verisphere.study.experiments.arms import (
    Experiment,
    check_folders,
    crossed,
    folder_name,
    parse_grid,
    read_experiment,
    short_names,
)

EXPERIMENT = """\
recipe: base.yaml
set: {epochs: 2}
warm: {epochs: 4, optimizer.rate: 1e-2}
arms:
  ArcFace: {}
  -FC: {pairs: [{class_path: some.Term, init_args: {far: "1e-4", weight: 1e-4}}]}
grid: {optimizer.rate: [0.05, 0.1], clip: [null, 5]}
seeds: [0, 7]
baseline: -FC
evaluate:
  unseen: {faces: {class_path: some.Faces}, far: ["1e-2"], one_far: "1e-2"}
"""


@pytest.fixture
def experiment(tmp_path: Path):
    def read(text: str, *overrides: str, **options: object) -> Experiment:
        path = tmp_path / "experiment.yaml"
        path.write_text(text)
        return read_experiment(path, overrides, **options)

    return read


# --- grids -----------------------------------------------------------------------------------------------------------


def test_values_of_a_grid_are_yaml_scalars():
    assert parse_grid(["a.b=1,2.5,1e-3,true,null", 'c=x,"1e-3","a,b"']) == {
        "a.b": [1, 2.5, 0.001, True, None],
        "c": ["x", "1e-3", "a,b"],
    }


def test_a_place_in_a_list_is_named_where_it_tells_fields_apart():
    assert list(crossed({"": {}}, {"pair_terms.0.init_args.K": [1], "pair_terms.0.init_args.M": [2]})) == ["K=1,M=2"]
    both = {"pair_terms.0.init_args.far": [1], "pair_terms.1.init_args.far": [2]}
    assert list(crossed({"": {}}, both)) == ["0.far=1,1.far=2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["loss"], "--grid loss: expected FIELD=V1,V2,... such as loss.init_args.margin=0.3,0.4"),
        (["=1"], "--grid =1: expected FIELD=V1,V2,..."),
        (["a="], "--grid a=: expected FIELD=V1,V2,..."),
        (["a=1", "a=2"], "--grid a=2: a is there twice; give all its values in one"),
        (["a=1,1"], "--grid a=1,1: a has the value 1 twice"),
        (["a=[1,2],3"], "--grid a=[1,2],3: a has the value [1, 2]; a grid takes text and numbers, an arm the rest"),
        (["a=1]"], "--grid a=1]: not YAML: "),
    ],
)
def test_a_grid_that_is_none_is_one_line(words: list[str], message: str):
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the text is compared below
        parse_grid(words)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_every_combination_has_a_name_of_its_own():
    found = crossed({"a": {"x": 1}, "b": {}}, {"loss.init_args.margin": [0.3, 0.4], "engine": ["dense"]})
    assert list(found) == [f"{arm},margin={margin},engine=dense" for arm in "ab" for margin in (0.3, 0.4)]
    assert found["a,margin=0.4,engine=dense"] == {"x": 1, "loss.init_args.margin": 0.4, "engine": "dense"}
    assert crossed({"a": {"x": 1}}, {}) == {"a": {"x": 1}}
    with pytest.raises(ValueError, match="two arms would both be called 'a,b=1'; rename one"):
        crossed({"a": {}}, {"b": [1, "1"]})


def test_a_field_is_called_by_as_much_as_tells_it_apart():
    assert short_names(["loss.init_args.scale", "head.scale", "seed"]) == {
        "loss.init_args.scale": "loss.scale",
        "head.scale": "head.scale",
        "seed": "seed",
    }


def test_folders_have_safe_names_that_are_told_apart():
    names = ["+TAR", "-FC", "a/b", "a b", "..", ".hidden", "ü", "x" * 300, "x" * 301, "margin=0.3"]
    folders = [folder_name(name) for name in names]
    assert len(set(folders)) == len(names)
    assert all("/" not in folder and not folder.startswith(".") and len(folder) < 100 for folder in folders)
    assert (folders[0], folders[1], folders[-1]) == ("+TAR", "-FC", "margin=0.3")
    assert len(folder_name("a b").partition("~")[2]) == 12
    check_folders("arms", names)


def test_names_that_would_share_a_folder_are_refused(experiment, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.study.experiments.arms._DIGITS", 0)
    with pytest.raises(ValueError, match="arms 'a b' and 'a/b' would share the folder a_b~; rename one"):
        experiment("recipe: base.yaml\narms: {a b: {}, a/b: {}}\n")
    with pytest.raises(ValueError, match="sets 'a b' and 'a/b' would share the folder a_b~; rename one"):
        experiment("recipe: base.yaml\nevaluate: {a b: {}, a/b: {}}\n")


# --- values of all trainings ------------------------------------------------------------------------------------------


def test_options_come_after_the_values_of_the_file(experiment):
    found = experiment(
        "recipe: base.yaml\nset: {epochs: 2, pair_terms.0.far: 1e-4}\n", "--pair_terms.0.K=3", "--clip", "5"
    )
    assert found.common == (("epochs", 2), ("pair_terms.0.far", 1e-4), ("pair_terms.0.K", "3"), ("clip", "5"))


# --- experiments -----------------------------------------------------------------------------------------------------


def test_an_experiment_is_read(experiment, tmp_path: Path):
    found = experiment(EXPERIMENT, "--batch_size", "6")
    assert found.recipe == tmp_path / "base.yaml"
    assert found.common == (("epochs", 2), ("batch_size", "6"))
    assert found.warm == {"epochs": 4, "optimizer.rate": 0.01}
    assert list(found.arms) == [
        f"{arm},rate={rate},clip={clip}" for arm in ("ArcFace", "-FC") for rate in (0.05, 0.1) for clip in ("null", 5)
    ]
    term = {"class_path": "some.Term", "init_args": {"far": "1e-4", "weight": 1e-4}}  # text stays text
    assert found.arms["-FC,rate=0.1,clip=5"] == {"pairs": [term], "optimizer.rate": 0.1, "clip": 5}
    assert found.seeds == (0, 7)
    assert found.baseline == "-FC,rate=0.05,clip=null"
    assert found.evaluate == {"unseen": {"faces": {"class_path": "some.Faces"}, "far": ["1e-2"], "one_far": "1e-2"}}


def test_a_recipe_alone_is_one_arm(experiment):
    found = experiment("data: {}\nloss: {}\n")
    assert (found.arms, found.baseline, found.seeds, found.warm, found.evaluate) == (
        {"recipe": {}}, "recipe", None, None, None)  # fmt: skip
    assert found.recipe.name == "experiment.yaml"


def test_the_command_line_adds_a_grid_and_seeds(experiment):
    found = experiment("data: {}\n", grid=["loss.init_args.margin=0.3,0.4"], seeds=[3, 4])
    assert list(found.arms) == ["margin=0.3", "margin=0.4"]
    assert (found.seeds, found.baseline) == ((3, 4), "margin=0.3")
    assert experiment("data: {}\n", grid=["seed=1,2"]).seeds == (1, 2)
    found = experiment(EXPERIMENT, grid=["optimizer.rate=1"], seeds=[5])  # in place of the file's own
    assert (len(found.arms), found.seeds) == (4, (5,))


ARMS = "recipe: base.yaml\narms: {a: {x: 1}, b: {}}\n"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (ARMS + "seed: 1\n", {}, "there is no field 'seed' (did you mean seeds?); allowed are recipe, set, warm, arms"),
        ("arms: {a: {}}\n", {}, "the following arguments are required: recipe"),
        ("recipe: r\narms: {}\n", {}, "arms is {}; expected names, each with its fields"),
        ("recipe: r\narms: {1: {}}\n", {}, "arms has the key 1, not text; YAML takes it for more: quote it"),
        ("recipe: r\narms: {a: {--x: 3}}\n", {}, "a names the field '--x'; expected one such as"),
        (ARMS + "baseline: c\n", {}, "baseline: there is no arm 'c'; allowed are a, b"),
        (ARMS + "grid: {x: [1]}\n", {}, "arm 'a' and the grid both set x"),
        (ARMS + "grid: {y: []}\n", {}, "grid: y has []; expected a list of values"),
        (ARMS + "seeds: [1, 1]\n", {}, "seeds is [1, 1]; expected one or more, each once"),
        (ARMS + "seeds: [-1]\n", {}, "a seed must be 0 or more and below 2^31, got -1"),
        (ARMS + "seeds: [1]\ngrid: {seed: [2]}\n", {}, "seed is in the grid and `seeds` are given; remove one of them"),
        (ARMS + "set: {seed: 1}\n", {"seeds": [2]}, "seed is set and `seeds` are given; remove one of them"),
        ("recipe: r\narms: {a: {seed: 1}}\n", {}, "arm 'a' sets seed, which is for `seeds` to say"),
        ("recipe: r\nwarm: {}\narms: {a: {start: x}}\n", {}, "arm 'a' sets start, which is for `warm` to say"),
    ],
)
def test_what_is_no_experiment_is_one_line(experiment, tmp_path: Path, text: str, options: dict, message: str):
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the text is compared below
        experiment(text, **options)
    assert str(raised.value).startswith(f"{tmp_path / 'experiment.yaml'}: {message}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "overrides", "owner"),
    [
        (ARMS, ["--x", "2"], "arm 'a'"),
        (ARMS, ["--x=2"], "arm 'a'"),
        (ARMS + "grid: {x.y: [1]}\n", ["--x.y", "2"], "the grid"),
        (ARMS + "warm: {epochs: 1}\n", ["--epochs", "2"], "warm"),
    ],
)
def test_an_override_that_would_change_nothing_is_refused(experiment, text: str, overrides: list[str], owner: str):
    with pytest.raises(ValueError, match=f"{owner} sets it; change it there"):
        experiment(text, *overrides)


def test_images_of_nobody_are_no_pair_of_a_domain():
    pixels = torch.zeros(8, 3, 1, 1, dtype=torch.uint8)
    people = ("a", "a", "b", "b", "-1", "-1", "c", "d")
    faces = InMemory(pixels, tuple("stuvwxyz"), people, ("day",) * 4 + ("night",) * 4)
    with pytest.raises(ValueError, match="domain 'night' has no genuine comparison"):
        MeasuredSet(faces, one_far="0.1")


@pytest.mark.parametrize("name", sorted(name for name in packaged_recipes() if name.startswith("experiments/")))
def test_every_packaged_experiment_reads(name: str):
    experiment = read_experiment(name)
    assert experiment.baseline in experiment.arms
