"""Recipes: what they hold, how any field is overridden, and what is said about a wrong one."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import yaml

from verisphere.base.identity import names_taken
from verisphere.losses.margin import ArcFace
from verisphere.models.build import untrained
from verisphere.train.recipe import Recipe, read_recipe, resolve_recipe

PLAIN = """\
data:
  class_path: own_parts.Noise
backbone:
  class_path: verisphere.backbones.sfnet.SFNet
  init_args: {embedding_size: 4}
loss:
  class_path: verisphere.losses.margin.ArcFace
  init_args: {margin: 0.3, scale: 32}
"""
Q_MARGIN = ("--loss", "verisphere.losses.QMargin")
FIELDS = ", ".join(Recipe.__dataclass_fields__)


@pytest.fixture
def recipe(tmp_path):
    def write(text: str = PLAIN) -> Path:
        path = tmp_path / "recipe.yaml"
        path.write_text(text)
        return path

    return write


TINY = PLAIN.replace("verisphere.backbones.sfnet.SFNet", "own_parts.TinyNet")


def test_it_holds_objects_and_defaults(recipe):
    read = read_recipe(recipe(TINY + "epochs: 3\n"), [])
    assert isinstance(read.recipe.loss, ArcFace)
    assert type(read.recipe.backbone).__name__ == "TinyNet"
    assert len(read.recipe.data) == 20
    assert (read.recipe.epochs, read.recipe.batch_size, read.recipe.clip) == (3.0, 128, None)
    assert list(read.resolved) == list(Recipe.__dataclass_fields__)


def test_sets_that_know_no_rule_of_names_take_the_one_that_is_asked_for(recipe):
    assert read_recipe(recipe(TINY), []).recipe.data.names_rule is None
    with names_taken("exact"):
        assert read_recipe(recipe(TINY), []).recipe.data.names_rule == "exact"


@pytest.mark.parametrize(
    ("overrides", "field", "value"),
    [
        (["--epochs", "2.5"], "epochs", 2.5),
        (["--batch_size=4"], "batch_size", 4),
        (["--clip", "null"], "clip", None),
        (["--clip", "5"], "clip", 5.0),
        (["--in_memory", "true"], "in_memory", True),
        (["--validation_far", "[1e-4]"], "validation_far", (1e-4,)),
        (["--validation_far", '["1e-4"]'], "validation_far", ("1e-4",)),
    ],
)
def test_any_field_on_the_command_line(recipe, overrides, field, value):
    assert getattr(read_recipe(recipe(TINY + "clip: 1\n"), overrides).recipe, field) == value


def test_nested_fields_on_the_command_line(recipe):
    read = read_recipe(
        recipe(TINY),
        ["--optimizer.name", "adamw", "--optimizer.rate=1e-3", "--schedule.milestones", "[2, 4.5]", "--schedule.shape",
         "step", "--loss.margin", "0.5", "--backbone.init_args.embedding_size", "6", "--augment.crop", "0.1"],
    ).recipe  # fmt: skip
    assert (read.optimizer.name, read.optimizer.rate) == ("adamw", 1e-3)
    assert read.schedule.milestones == (2.0, 4.5)
    assert "margin=0.5" in read.loss.extra_repr()
    assert (read.backbone.embedding_size, read.augment.crop) == (6, 0.1)


def test_classes_can_be_given_without_a_file():
    read = read_recipe(None, ["--data", "own_parts.Noise", "--data.people", "3", "--backbone", "own_parts.TinyNet",
                              "--loss", "own_parts.OwnLoss"])  # fmt: skip
    assert len(read.recipe.data.people) == 3
    assert type(read.recipe.loss).__name__ == "OwnLoss"


@pytest.mark.parametrize(
    "overrides",
    [[], ["--validation_far", "[1e-4, 0.5]", "--clip", "2"], ["--validation_far", '["1e-4"]'],
     ["--optimizer.rate", "1e-7", "--loss", "own_parts.OwnLoss", "--validation", "own_parts.Noise"]],
)  # fmt: skip
def test_the_resolved_recipe_reads_back_to_the_same(recipe, overrides):
    first = read_recipe(recipe(TINY), overrides)
    second = read_recipe(recipe(first.yaml), [])
    assert second.resolved == first.resolved
    assert second.yaml == first.yaml
    assert second.recipe.validation_far == first.recipe.validation_far


def test_the_same_seed_gives_the_same_start_weights(recipe):
    path = recipe()
    weights = [read_recipe(path, ["--seed", seed]).recipe.backbone.project.weight for seed in "773"]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    path.write_text(PLAIN + "seed: 7\n")
    assert torch.equal(untrained(path).project.weight, weights[0])


WRONG = [
    ("epoch: 3", [], f"there is no field 'epoch' (did you mean epochs?); allowed are {FIELDS}"),
    ("", ["--epoch", "3"], f"there is no field 'epoch' (did you mean epochs?); allowed are {FIELDS}"),
    ("optimizer: {lr: 1}", [], "optimizer: there is no field 'lr'; allowed are name, rate, momentum, weight_decay"),
    ("", ["--optimizer.rat=1"], "optimizer: there is no field 'rat' (did you mean rate?); allowed are name, rate, "),
    ("", ["--loss.margn", "1"], "loss: verisphere.losses.margin.ArcFace: there is no field 'margn' "
     "(did you mean margin?); allowed are margin, scale, "),
    ("", ["--epochs", "many"], "epochs must be a number, got 'many'"),
    ("precision: float16", [], "precision must be 'float32' or 'bfloat16', got 'float16'"),
    ("", ["--loss", "verisphere.losses.margin.ArcFase"],
     "loss: verisphere.losses.margin.ArcFase: module 'verisphere.losses.margin' has no attribute 'ArcFase' "
     "(did you mean ArcFace?)"),
    ("", ["--loss", "ArcFac"], "loss: ArcFac is no import path (did you mean verisphere.losses.ArcFace?)"),
    ("", ["--backbone", "IResnet"], "backbone: IResnet is no import path (did you mean verisphere.backbones.IResNet?)"),
    ("", ["--lr", "0.1"], "there is no field 'lr' (did you mean optimizer.rate?)"),
    ("warmup: 3", [], "there is no field 'warmup' (did you mean schedule.warmup?)"),
    ("", ["--loss", "absent.Loss"],
     "loss: absent.Loss: No module named 'absent'; is the folder it lies in on PYTHONPATH?"),
    ("", ["--loss", "own_parts.Noise"],
     "loss: Import path own_parts.Noise does not correspond to a subclass of ClassLoss"),
    ("validation: {class_path: verisphere.images.SyntheticFaces, init_args: null}", [],
     "validation: verisphere.images.SyntheticFaces: init_args names no arguments; omit it for the defaults"),
    ("validation: 3", [], "validation: not a Faces, got 3; expected a class_path and its init_args"),
    ("validation: verisphere.images.photos.Photos", [],
     "validation: verisphere.images.photos.Photos: the following arguments are required: path"),
    ("", ["--epochs"], "argument --epochs: expected one argument"),
    ("", ["stray"], "unrecognized arguments: stray"),
    ("", ["--optimizer.rate", "-1"], "optimizer.rate must be a positive number, got -1.0"),
    ("", ["--loss.scale", "-1"], "scale is -1.0; it must be a positive finite number"),
]  # fmt: skip


def test_a_word_that_is_not_unicode_is_said_with_its_field():
    with pytest.raises(ValueError, match=r"not Unicode") as caught:
        read_recipe(None, ["--clip", "x\udcff"])
    assert str(caught.value) == r"recipe: --clip: 'x\udcff' is not Unicode: it holds bytes that are not UTF-8"


@pytest.mark.parametrize(("line", "overrides", "message"), WRONG)
def test_a_wrong_recipe_gets_one_line_that_names_file_and_field(recipe, line, overrides, message):
    path = recipe(f"{TINY}{line}\n")
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        read_recipe(path, overrides)
    assert str(caught.value).startswith(f"{path}: {message}")
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected fields and their values, got None"),
        ("- 1\n", "expected fields and their values, got \\[1\\]"),
        (TINY[TINY.index("backbone") :], "the following arguments are required: data"),
    ],
)
def test_a_file_that_is_no_recipe(recipe, text, message):
    with pytest.raises(ValueError, match=message):
        read_recipe(recipe(text), [])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["--batch_size", "1"], "batch_size must be at least 2, got 1"),
        (["--accumulate", "0"], "accumulate must be at least 1, got 0"),
        (["--accumulate", "7", "--batch_size", "6"], "accumulate is 7, more parts than a batch of 6 has images"),
        (["--accumulate", "2", "--engine", "sampled"], "accumulate is 2, which engine sampled cannot"),
        (["--engine", "sampled", "--sample_rate", "0"], r"sample_rate must lie in \(0, 1\], got 0.0"),
        (["--engine", "sampled", "--sample_rate", ".nan"], r"sample_rate must lie in \(0, 1\], got nan"),
        (["--engine", "sparse"], "engine is sparse, but .*has no bound below which other classes have no gradient"),
        (
            ["--engine", "sparse", *Q_MARGIN, "--optimizer.name", "adamw", "--optimizer.rate", "0.001"],
            "moves every class",
        ),
        (["--engine", "sparse", *Q_MARGIN, "--pull_together", "0.1"], r"engine is sparse, but pull_together is 0\.1"),
        (["--engine", "auto", "--sample_rate", "0.2"], "sample_rate 0.2 is for engine sampled, not auto"),
        (
            ["--engine", "sampled", "--optimizer.name", "adamw", "--optimizer.rate", "0.001"],
            "optimizer.name 'adamw' moves every class, drawn or not: engine sampled needs sgd",
        ),
        (["--subcenters", "0"], "subcenters must be at least 1, got 0"),
        (["--log_every", "0"], "log_every must be at least 1, got 0"),
        (["--workers", "-1"], "workers must be at least 0, got -1"),
        (["--seed", "-1"], "seed must be at least 0, got -1"),
        (["--seed", str(2**70)], r"seed must be below 2\^31"),
        (["--epochs", "0"], "epochs must be a positive number, got 0.0"),
        (["--epochs", ".inf"], "epochs must be a positive number, got inf"),
        (["--save_every", ".nan"], "save_every must be a positive number, got nan"),
        (["--clip", "0"], "clip must be positive, or null not to clip, got 0.0"),
        (["--validate_every", "-1"], "validate_every must not be negative, got -1.0"),
        (["--validation_far", "[2]"], r"validation_far: a FAR must .*got '?2"),
        (["--validation_far", "[often]"], "validation_far: a FAR must be a decimal number such as 1e-4, got 'often'"),
    ],
)
def test_values_that_a_field_does_not_allow(recipe, overrides, message):
    with pytest.raises(ValueError, match=message):
        read_recipe(recipe(TINY), overrides)


@pytest.mark.parametrize("name", ["arcface_r50", "lfw", "photos"])
def test_our_recipes_name_fields_that_exist(name):
    # the data need not be here: another set stands in for them
    read = read_recipe(name, ["--data", "own_parts.Noise", "--validation", "null"])
    assert read.recipe.epochs > 0


# --- bases ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def based(recipe, tmp_path: Path):
    def write(text: str, base: str = TINY) -> Path:
        (tmp_path / "shared.yaml").write_text(base)
        return recipe(f"base: shared.yaml\n{text}")

    return write


def test_a_recipe_over_a_base_is_the_recipe_written_out(based, recipe):
    whole = read_recipe(recipe(TINY.replace("0.3", "0.4") + "epochs: 3\n"), ["--batch_size", "8"])
    short = read_recipe(based("epochs: 3\nloss: {init_args: {margin: 0.4}}\n"), ["--batch_size", "8"])
    assert short.yaml == whole.yaml
    assert list(short.resolved) == list(Recipe.__dataclass_fields__)


def test_the_command_line_goes_over_the_base(based):
    read = read_recipe(based("epochs: 3\n"), ["--loss.margin", "0.1", "--loss.scale=16", "--epochs=2"])
    assert (read.resolved["loss"]["init_args"]["margin"], read.recipe.loss.scale, read.recipe.epochs) == (0.1, 16, 2)


def test_another_loss_takes_no_argument_of_the_base_s(based):
    resolved = resolve_recipe(based("loss: {class_path: verisphere.losses.CosFace}\n"), [])
    assert resolved["loss"]["init_args"] == {"margin": 0.35, "scale": 64.0, "t": 1.0}


@pytest.mark.parametrize(
    ("own", "base", "message"),
    [
        ("", "epochs: many\n", "epochs must be a number, got 'many' (line 9 of its base {base})"),
        ("epochs: many\n", "epochs: 1\n", "epochs must be a number, got 'many' (line 2)"),
        ("", "optimizer:\n  lr: 1\n", "optimizer: there is no field 'lr'; allowed are name, rate, momentum, "
         "weight_decay (line 10 of its base {base})"),
        ("loss:\n  init_args:\n    scale: -1\n", "",
         "scale is -1.0; it must be a positive finite number (64 is usual for softmax losses) (line 4)"),
        ("seed: 1\n", "optimizer: {name: adamw, rate: 9}\n",
         "optimizer.rate is 9.0, which adamw does not survive; 1e-3 is usual (line 9 of its base {base})"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_the_line_that_set_it(based, tmp_path: Path, own: str, base: str, message: str):
    path = based(own, TINY + base)
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        read_recipe(path, [])
    assert str(caught.value) == f"{path}: {message.format(base=tmp_path / 'shared.yaml')}"


def test_a_wrong_value_of_the_command_line_has_no_line(based):
    with pytest.raises(ValueError, match=r"epochs must be a number, got 'few'\Z"):
        read_recipe(based("", TINY + "epochs: 1\n"), ["--epochs", "few"])


def test_a_base_holds_no_more_than_a_recipe_may(based, tmp_path: Path):
    for line, message in (("recipe: x", "there is no field 'recipe'"), ("optimizer.rate: 1", "write it as 'rate'")):
        with pytest.raises(ValueError, match=message) as caught:
            read_recipe(based("", f"{TINY}{line}\n"), [])
        assert str(caught.value).startswith(f"{tmp_path / 'shared.yaml'}: ")


def test_a_packaged_recipe_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()  # as a user's folder of faces is often called
    data = ["--data", "own_parts.Noise", "--data.people", "2"]
    assert read_recipe("photos", data).recipe.batch_size == 64
    with pytest.raises(ValueError, match=r"\Aphotos: epochs must be a number, got 'few'"):
        read_recipe("photos", [*data, "--epochs", "few"])


# --- values of every wrong kind ---------------------------------------------------------------------------------------

FULL = """\
data: {class_path: verisphere.images.SyntheticFaces, init_args: {people: 2, images: 2}}
backbone: {class_path: verisphere.backbones.Pixels, init_args: {side: 2}}
loss: {class_path: verisphere.losses.ArcFace}
pair_terms: [{class_path: verisphere.pairs.AngularTriplet}]
validation: {class_path: verisphere.images.SyntheticFaces, init_args: {people: 2, images: 2}}
"""
OF_EACH_KIND = [0, -1, 10**30, 1e308, True, None, "", "x", "1e-3", [], [[0, {}]], {}, {"x": [None]}, {"class_path": 5},
                {"class_path": "os.system", "init_args": {"command": "false"}}, {1: 2}]  # fmt: skip


def places(value: object, way: tuple = ()) -> Iterator[tuple]:
    """Where each value stands, the lists and mappings included."""
    if way:
        yield way
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inside:
        yield from places(one, (*way, name))


@pytest.mark.parametrize("junk", [5, {"x": [None]}], ids=str)
def test_a_value_of_another_kind_in_any_field_is_taken_or_refused_in_one_line(recipe, junk):
    check_junk(recipe, [junk], lambda way: len(way) == 1)


@pytest.mark.slow
@pytest.mark.parametrize("group", [*Recipe.__dataclass_fields__])
def test_a_value_of_any_kind_at_any_depth_is_taken_or_refused_in_one_line(recipe, group):
    check_junk(recipe, OF_EACH_KIND, lambda way: way[0] == group)


def check_junk(recipe, values: list, chosen: Callable[[tuple], bool]) -> None:
    whole = read_recipe(recipe(FULL), []).resolved
    for way in filter(chosen, places(whole)):
        for junk in values:
            changed = copy.deepcopy(whole)
            at = changed
            for part in way[:-1]:
                at = at[part]
            at[way[-1]] = junk
            path = recipe(yaml.safe_dump(changed))
            said = f"{path}: "
            try:
                read_recipe(path, [])
            except ValueError as error:
                said = str(error)
            assert said.startswith(f"{path}: "), (way, junk)
            assert "\n" not in said, (way, junk)
            assert len(said) < 700, (way, junk)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("optimizer: 0", "optimizer: expected fields and their values, got 0"),
        ("optimizer: {rate: null}", "optimizer.rate must be a number, got null"),
        ("backbone: {class_path: verisphere.backbones.Pixels, init_args: {side: null}}",
         "backbone.init_args.side must be a whole number, got null"),
        ("pair_terms: [{class_path: verisphere.pairs.AngularTriplet, init_args: {margin: null}}]",
         "pair_terms.0.init_args.margin must be a number, got null"),
        ("backbone: verisphere.models.build.untrained", "backbone: verisphere.models.build.untrained: "),
        ("backbone: os.system", "backbone: 'os.system' is of Python itself; a class is named by its import path, such"),
        ("backbone: {class_path: verisphere.backbones.Backbone, init_args: {embedding_size: 4}}",
         "Backbone computes no embeddings; name a backbone that derives from it"),
        ("pair_terms: [verisphere.pairs.PairTerm]", "pair_terms: PairTerm computes nothing; name one that derives"),
        ("epochs: 1\nepochs: 2", "'epochs' is there twice, in line 6 and in line 7"),
        ("optimizer: {rate: 0.1}\noptimizer.rate: 0.2", "'optimizer.rate': write it as 'rate' under 'optimizer'"),
        ("recipe: other.yaml", "there is no field 'recipe': a recipe stands on another one by base: NAME"),
        ("data: {class_path: verisphere.images.SyntheticFaces, init_args: {people: 2000000000}}",
         "people is 2,000,000,000 and images is 10; a set has at most 10,000,000 images"),
        ("backbone: {class_path: verisphere.backbones.MobileFaceNet, init_args: {width: 200}}",
         "width is 200.0; allowed is more than 0, and at most 16"),
        ("backbone: {class_path: verisphere.backbones.MobileFaceNet, init_args: {embedding_size: 100000000}}",
         "embedding_size is 100,000,000; an embedding has at most 65,536"),
        ("pair_terms: [{class_path: verisphere.pairs.ThresholdConsistency, init_args: {batches: 1000000000000}}]",
         "batches is 1,000,000,000,000; it must be at most 1,000,000"),
        ("pair_terms: [{class_path: verisphere.pairs.AngularTriplet, init_args: {memory: 1000000000000}}]",
         "memory is 1,000,000,000,000; it must be at most 1,000,000"),
        ("workers: 1000000", "workers must be at most 256, got 1,000,000"),
        ("temperature: 0", "temperature is 0.0; it must be a positive number"),
        ("temperature: 0.2", "temperature 0.2 is for pooling softmax, not max"),
        ("pull_together: 1.0e+308", "pull_together must lie in [0, 1,000,000], got 1e+308"),
        ("steps: 0", "steps must be at least 1 and at most 1,000,000,000, got 0"),
        ("steps: 9\nepochs: 5", "epochs is 5 and steps is 9; a training has one length, so make one null"),
        ("epochs: null", "epochs and steps are both null; one of them states the length of the training"),
        ("unit: steps", "save_every is 1 step, since unit is steps"),
        ("unit: steps\nsave_every: 2.5", "save_every is 2.5, but unit is steps: it must be a whole number"),
        ("unit: steps\nsave_every: 9\nschedule: {shape: step, milestones: [4, 4.5]}",
         "schedule.milestones, place 2 is 4.5, but unit is steps: it must be a whole number"),
        ("batch_size: 1000000000000", "batch_size must be at most 1,048,576"),
        ("save_every: 1.0e+300", "save_every must be at most 1,000,000 epochs"),
        ("schedule: {shape: step, milestones: [.nan]}", "schedule.milestones must be positive and ascending"),
        ("optimizer: {rate: 1.0e+308}", "optimizer.rate must be at most 1e+30"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_wrong_kind_or_size(recipe, line, message):
    kept = [one for one in FULL.splitlines(keepends=True) if not line.startswith(one.partition(":")[0] + ":")]
    # a field given here stands in place of the one in FULL; the repeated ones are not in it
    path = recipe("".join(kept) + "\n" * (5 - len(kept)) + line + "\n")
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        read_recipe(path, [])
    assert str(caught.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epochs", "[" * 5000], "--epochs: nested more than 32 deep"),
        (["--backbone", "os.system"], "backbone: 'os.system' is of Python itself"),
        (["--pair_terms+=builtins.print"], r"pair_terms.1: 'builtins.print' is of Python itself"),
        (["--recipe", "other.yaml"], "--recipe: there is one recipe, and it comes before the fields"),
    ],
)
def test_the_limits_hold_on_the_command_line_too(recipe, words, message):
    with pytest.raises(ValueError, match=message):
        read_recipe(recipe(FULL), words)


def test_a_file_named_on_the_command_line_has_the_same_limits(recipe, tmp_path):
    (tmp_path / "rates.yaml").write_text("rate: 0.1\nrate: 0.2\n")
    with pytest.raises(ValueError, match="'rate' is there twice"):
        read_recipe(recipe(FULL), [f"--optimizer={tmp_path / 'rates.yaml'}"])


def test_the_path_of_data_may_look_like_yaml(recipe):
    path = recipe("".join(FULL.splitlines(keepends=True)[1:]))
    with pytest.raises(ValueError, match=r"data.init_args.people must be a whole number, got '\[\[!x'"):
        read_recipe(path, ["--data", "own_parts.Noise", "--data.people", "[[!x"])


def test_a_long_value_is_quoted_in_part_and_at_once(recipe):
    with pytest.raises(ValueError, match=r"epochs must be a number, got 'xxx") as caught:
        read_recipe(recipe(FULL + f"epochs: {'x' * 200_000}\n"), [])
    assert len(str(caught.value)) < 700
    with pytest.raises(ValueError, match="there is no field 'abc; Given"):
        read_recipe(recipe(FULL), [f"--{'abc; Given value type: ; Given value: ' * 5000}=1"])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Raises", "backbone own_failures.Raises: RuntimeError: no weights; here"),
        ("Leaves", "backbone own_failures.Leaves: SystemExit: 0"),
        ("Forgets", "backbone own_failures.Forgets: TypeError: "),
        ("nothing", "backbone: expected a Backbone, but what it names made None"),
        ("Foreign", "own_failures.Foreign does not correspond to a subclass of Backbone"),
    ],
)
def test_code_of_ones_own_that_fails_is_named(recipe, name: str, says: str):
    path = recipe(
        PLAIN.replace("verisphere.backbones.sfnet.SFNet\n  init_args: {embedding_size: 4}", f"own_failures.{name}")
    )
    with pytest.raises(ValueError, match=r"recipe\.yaml: ") as caught:
        read_recipe(path, [])
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("code", ["1 / 0", "def", "import sys; sys.exit()", "raise RuntimeError('no licence')"])
@pytest.mark.parametrize("where", ["file", "override"])
def test_a_module_of_ones_own_that_fails_is_named(recipe, tmp_path: Path, monkeypatch, code: str, where: str):
    monkeypatch.syspath_prepend(tmp_path)
    module = f"own_broken_{abs(hash((code, where)))}"
    (tmp_path / f"{module}.py").write_text(code)
    path = recipe(PLAIN if where == "override" else PLAIN.replace("own_parts.Noise", f"{module}.Own"))
    words = [] if where == "file" else ["--data.class_path", f"{module}.Own"]
    with pytest.raises(ValueError, match=f"'{module}.Own': its module fails while it is imported: [A-Z]\\w+"):
        read_recipe(path, words)


def test_a_length_in_steps_replaces_the_default_in_epochs(recipe):
    read = read_recipe(recipe(TINY + "steps: 240000\n"), [])
    assert (read.recipe.epochs, read.recipe.steps, read.resolved["epochs"]) == (None, 240_000, None)
    assert read_recipe(recipe(TINY + "steps: 9\n"), ["--steps", "null", "--epochs", "5"]).recipe.epochs == 5.0


def test_the_nearest_length_counts(recipe, tmp_path):
    base = recipe(TINY + "epochs: 3\n")
    over = tmp_path / "over.yaml"
    over.write_text(f"base: {base}\nsteps: 70\n")
    for words, length in (
        ([], (None, 70)),
        (["--epochs", "5"], (5, None)),
        (["--steps=9"], (None, 9)),
        (["--steps", "null", "--epochs", "2"], (2, None)),
    ):
        resolved = resolve_recipe(over, words)
        assert (resolved["epochs"], resolved["steps"]) == length
    assert resolve_recipe(base, ["--steps", "8"])["epochs"] is None
    assert resolve_recipe(base, ["--steps", "null"])["epochs"] == 3
