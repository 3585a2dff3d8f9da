"""A recipe: a training described as data. Reads YAML into a typed object, and writes the resolved YAML."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_type_hints

import yaml

from verisphere.backbones.backbone import Backbone
from verisphere.base.identity import decided
from verisphere.base.seeds import seed_start_weights
from verisphere.base.words import check_at_least, check_positive
from verisphere.decide import exact_rate
from verisphere.files.definitions import Based, build, complete, options, place_of, read_based, with_values
from verisphere.files.documents import YAML_FLOAT
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.packaged_recipes import comment, find_recipe
from verisphere.head.sampled import SAMPLE_RATE
from verisphere.head.sparse import why_not_sparse
from verisphere.head.streamed import Precision
from verisphere.head.subcenters import Pooling, SubCenters
from verisphere.images.augment import Augment
from verisphere.images.faces import Faces
from verisphere.images.loader import MOST_WORKERS
from verisphere.losses.class_loss import ClassLoss
from verisphere.pairs.pair_term import PairTerm
from verisphere.train.distill.teachers import Distillation
from verisphere.train.optimizer import Optimizer
from verisphere.train.schedule import Schedule, Unit, check_whole_steps

#: Length of a training whose recipe states none.
EPOCHS = 20.0
#: Smallest and largest value of each count. The largest are beyond any training, and small enough that a mistake is
#: reported before it fills the memory or exceeds 64-bit sizes.
_ALLOWED = {
    "batch_size": (2, 2**20),
    "accumulate": (1, 2**20),
    "subcenters": (1, 1000),
    "log_every": (1, 10**9),
    "workers": (0, MOST_WORKERS),
    "seed": (0, inf),
    "images_per_identity": (1, 2**20),
    "max_unreadable": (0, 2**20),
}
_MOST = {"epochs": 10**6, "steps": 10**9}
_MOST_PULL = 10**6  # beyond it the loss would consist of this term alone


def check_counts(fields: Mapping[str, Any]) -> None:
    """Refuse counts and weights of a recipe that are too small or too large."""
    for name, (least, most) in _ALLOWED.items():
        check_at_least(name, fields[name], least)
        if fields[name] > most:
            raise ValueError(f"{name} must be at most {most:,}, got {fields[name]:,}")
    if fields["seed"] >= 2**31:
        raise ValueError(f"seed must be below 2^31, got {fields['seed']}")
    if not 0 <= fields["pull_together"] <= _MOST_PULL:
        raise ValueError(f"pull_together must lie in [0, {_MOST_PULL:,}], got {fields['pull_together']}")


def check_length(fields: Mapping[str, Any]) -> None:
    """Refuse a recipe that states no length or two, and lengths and intervals that are no training's."""
    epochs, steps, unit = fields["epochs"], fields["steps"], fields["unit"]
    if epochs is None and steps is None:
        raise ValueError("epochs and steps are both null; one of them states the length of the training")
    if epochs is not None:
        check_positive("epochs", epochs)
    if steps is not None and not 0 < steps <= _MOST["steps"]:
        raise ValueError(f"steps must be at least 1 and at most {_MOST['steps']:,}, got {steps:,}")
    if steps is not None and epochs not in (None, EPOCHS):
        raise ValueError(f"epochs is {epochs:g} and steps is {steps:,}; a training has one length, so make one null")
    check_positive("save_every", fields["save_every"])
    if not (isfinite(fields["validate_every"]) and fields["validate_every"] >= 0):
        raise ValueError(f"validate_every must not be negative, got {fields['validate_every']}")
    if epochs is not None and epochs > _MOST["epochs"]:
        raise ValueError(f"epochs must be at most {_MOST['epochs']:,} epochs, got {epochs:g}")
    for name in ("save_every", "validate_every"):
        if fields[name] > _MOST[unit]:
            raise ValueError(f"{name} must be at most {_MOST[unit]:,} {unit}, got {fields[name]:g}")
    if unit == "steps":
        check_whole_steps({name: fields[name] for name in ("save_every", "validate_every")})
        fields["schedule"].check_whole_steps()
        if fields["save_every"] == 1:
            raise ValueError(
                "save_every is 1 step, since unit is steps: every step would write a checkpoint; state an interval "
                "such as 1000"
            )


_CLASS_FIELDS = ("data", "backbone", "loss", "pair_terms", "validation")
_FIRST_FIELD = re.compile(r"\W{0,2}([A-Za-z_]\w*(?:\.\w+)*)")  # most messages begin with the field
_UNKNOWN_FIELD = re.compile(r"there is no field '(\w+)'")
_LENGTHS = ("epochs", "steps")
_WRITTEN_OUT = ("init_args", "class_path")  # which the command line may omit


def read_recipe_text(path: Path) -> Based:
    """The fields of a recipe's file, over those of its bases."""
    based = read_based(path)
    for file in based.files:
        with errors_naming(file.path):
            check_names(file.content)
    return replace(based, content=_with_one_length(based))


def with_one_length(given: Sequence[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    """Values by name; a length in steps or epochs replaces the recipe's in either unit."""
    values = dict(given)
    for stated, other in (_LENGTHS, _LENGTHS[::-1]):
        if values.get(stated) not in (None, "null") and other not in values:
            return (*given, (other, None))
    return tuple(given)


def _with_one_length(based: Based) -> Any:
    """The fields, in which the length of the nearest file that states one replaces that of a base."""
    for file in based.files:
        stated = [name for name in _LENGTHS if isinstance(file.content, dict) and file.content.get(name) is not None]
        if stated:
            others = {name: None for name in _LENGTHS if name in based.content and name not in file.content}
            return {**based.content, **others}
    return based.content


def recipe_yaml(fields: Any) -> str:
    """Fields as YAML, which reads back to the same values."""
    return yaml.dump(fields, Dumper=_Dumper, sort_keys=False)


def with_origin(message: str, place: str, name: str, based: Based | None, overrides: Sequence[str]) -> str:
    """A message about a recipe, with the recipe's name before it and, where a file set the value, file and line.

    Args:
        place: dotted name of the object that refused its arguments; empty for an error that names the whole field.
    """
    found = None if based is None else _origin(message, place, based)
    if based is None or found is None or _overridden(found[0], overrides):
        return f"{name}: {message}"
    path, line = found[1]
    if path == based.files[0].path:
        return f"{name}: {message} (line {line})"
    return f"{name}: {message} (line {line} of its base {path})"


def _origin(message: str, place: str, based: Based) -> tuple[list[str], tuple[Path, int]] | None:
    """The keys that lead to the value that a message names, with the file and line that set it; None if none did."""
    begin, unknown = _FIRST_FIELD.match(message), _UNKNOWN_FIELD.search(message)
    word, of_place = begin[1].split(".") if begin else [], place.split(".") if place else []
    field = [unknown[1]] if unknown else []
    for parts in ([*word, *field], [*word, "init_args", *field], field, word, [*of_place, *word], of_place):
        if parts and (origin := based.origin(parts)) is not None:
            return parts, origin
    return None


def _overridden(parts: Sequence[str], overrides: Sequence[str]) -> bool:
    """Whether the command line sets this value, or part of it."""
    place = [part for part in parts if part not in _WRITTEN_OUT]
    for override in overrides:
        names = [name for name in override.removesuffix("+").split(".") if name not in _WRITTEN_OUT]
        if all(name == part for name, part in zip(names, place, strict=False)):
            return True
    return False


def check_names(content: object) -> None:
    """Refuse names by which a recipe could set a field twice, or include another file."""
    if not isinstance(content, dict):
        return
    if "recipe" in content and "space" in content:
        raise ValueError("it is a search, not a recipe: verisphere search takes it")
    if "recipe" in content:
        raise ValueError("there is no field 'recipe': a recipe stands on another one by base: NAME")
    for name, value in content.items():
        if isinstance(name, str) and "." in name:
            group, _, field = name.partition(".")
            raise ValueError(f"{shown(name)}: write it as {shown(field)} under {shown(group)}")
        if isinstance(value, dict) and name not in _CLASS_FIELDS:
            check_names(value)


class _Dumper(yaml.SafeDumper):
    """Quotes strings such as 1e-3: PyYAML reads them as strings, but other readers as numbers."""


_Dumper.add_implicit_resolver(*YAML_FLOAT)


#: Values of recipe fields, by their names on the command line, such as `loss.init_args.margin`.
Settings: TypeAlias = dict[str, Any]
#: The same in an order, in which a later value goes over an earlier one.
Values: TypeAlias = Sequence[tuple[str, Any]]
#: The fields that hold images, which take long to open.
IMAGES = ("data", "validation")
#: What other trainers call a field.
_OTHER_NAMES = {"lr": "rate", "learning_rate": "rate"}


@dataclass(frozen=True, eq=False)
class Recipe:
    """All settings of a training.

    Data, backbone and loss are given by class path and arguments; a user's own class is named by its import path.

    Attributes:
        data: images to train on; each identity becomes a class.
        backbone: network that makes the embeddings.
        loss: class-center loss.
        pair_terms: terms that compare embeddings and are added to the class-center loss, such as AnchorFace.
        start: folder of a run, or a checkpoint, whose backbone and class centers this training starts from; or a model
            folder with `backbone.safetensors`, exported or adopted, which holds only a backbone; null starts anew.
            Optimizer, schedule and memories always start anew.
        start_head: whether the centers are copied as well, where there are any; the people must then be the same.
        subcenters: number of centers per class (ArcFace eq. 7).
        pooling: how the cosines to the sub-centers of a class are combined: max or softmax.
        temperature: temperature of softmax pooling, above 0; pooling max does not use it.
        pull_together: weight of the mean distance between a class's sub-centers, added to the loss.
        engine: how the head runs the loss: dense, streamed (class chunks), sparse (the few classes that have a gradient
            under a loss such as QMargin), auto, which streams many classes or takes sparse, or sampled (PartialFC: each
            step looks at the batch's classes and at random others).
        head_precision: precision of the head's products, in all engines but dense: float32, or bfloat16 with float32
            sums and centers.
        sample_rate: share of the classes that a step of engine sampled compares with, in (0, 1].
        augment: augmentation of the images.
        optimizer: sgd or adamw, and its rates.
        schedule: schedule of learning rate and margin.
        epochs: length of the training; null where `steps` states it.
        steps: length of the training in steps; null where `epochs` states it.
        unit: unit of the schedule's positions, of `save_every`, `validate_every` and the `after` of pair terms: epochs,
            which may be fractions, or whole steps.
        distill: the teachers of a distillation, and how the training follows them.
        images_per_identity: number of consecutive images of one person in a batch, for people who have as many; 1 means
            any order. Triplets within a batch need 2 or more.
        shuffle_buffer: size of a shuffle buffer, in images: the set is read from its first image to its last, and mixed
            only as such a buffer mixes it, for packs on disks that seek slowly; null shuffles the whole set.
        batch_size: images a step, over all ranks; an epoch's incomplete last batch is skipped.
        accumulate: number of parts in which a batch is processed, one after another, to save memory. The step is that
            of the whole batch, but batch norm and the state of a loss are updated part by part, and a loss that
            compares the rows of a batch compares those of one part.
        sync_batch_norm: batch norm over the images of all ranks; by default each rank normalises its own.
        precision: precision of the backbone: float32, or bfloat16 by autocast.
        clip: largest gradient norm over the backbone; null does not clip.
        compile: compile the backbone, if a compiler is available.
        seed: seed of start weights, order of the images, and augmentation.
        validation: images on which TAR is measured during the training; null measures nothing.
        validation_far: target FARs of the validation.
        validate_every: interval of the validations, in `unit`; 0 validates only at the end.
        save_every: interval of the checkpoints, in `unit`.
        log_every: steps between entries of the log.
        workers: processes that read images; 0 reads in the training process.
        in_memory: read all training images once, before training.
        max_unreadable: largest number of training images that may be unreadable: each is skipped, the next readable
            image of the set takes its place under its own label, and the log counts them; 0 ends the training at the
            first one.
    """

    data: Faces
    backbone: Backbone
    loss: ClassLoss
    pair_terms: list[PairTerm] = field(default_factory=list)
    start: str | None = None
    start_head: bool = True
    subcenters: int = 1
    pooling: Pooling = "max"
    temperature: float = SubCenters.temperature
    pull_together: float = 0.0
    engine: Literal["dense", "streamed", "sparse", "auto", "sampled"] = "auto"
    head_precision: Precision = "float32"
    sample_rate: float = SAMPLE_RATE
    augment: Augment = field(default_factory=Augment)
    distill: Distillation = field(default_factory=Distillation)
    optimizer: Optimizer = field(default_factory=Optimizer)
    schedule: Schedule = field(default_factory=Schedule)
    epochs: float | None = EPOCHS
    steps: int | None = None
    unit: Unit = "epochs"
    images_per_identity: int = 1
    shuffle_buffer: int | None = None
    batch_size: int = 128
    accumulate: int = 1
    sync_batch_norm: bool = False
    precision: Literal["float32", "bfloat16"] = "float32"
    clip: float | None = None
    compile: bool = False
    seed: int = 0
    validation: Faces | None = None
    validation_far: tuple[str | float, ...] = ("1e-2", "1e-3")
    validate_every: float = 0.0
    save_every: float = 1.0
    log_every: int = 50
    workers: int = 1
    in_memory: bool = False
    max_unreadable: int = 0

    def __post_init__(self) -> None:
        check_counts(vars(self))
        check_length(vars(self))
        for faces in filter(None, (self.data, self.validation)):
            faces.take_rule(decided(faces.names_rule))
        if self.accumulate > self.batch_size:
            raise ValueError(
                f"accumulate is {self.accumulate}, more parts than a batch of {self.batch_size} has images"
            )
        if self.engine == "sampled" and self.accumulate > 1:
            raise ValueError(
                f"accumulate is {self.accumulate}, which engine sampled cannot: it updates the classes of one draw"
            )
        if self.images_per_identity > self.batch_size:
            raise ValueError(
                f"images_per_identity is {self.images_per_identity}, more than a batch of {self.batch_size} has images"
            )
        if self.shuffle_buffer is not None and self.shuffle_buffer < 1:
            raise ValueError(f"shuffle_buffer is {self.shuffle_buffer}; it holds at least 1 image, or is null")
        if self.shuffle_buffer is not None and self.images_per_identity > 1:
            raise ValueError(
                f"images_per_identity is {self.images_per_identity}, which groups the images of the whole set, and "
                f"shuffle_buffer is {self.shuffle_buffer}, which reads it in order; set one of them"
            )
        SubCenters(temperature=self.temperature)  # raises if it is no positive number
        if self.temperature != SubCenters.temperature and self.pooling != "softmax":
            raise ValueError(f"temperature {self.temperature} is for pooling softmax, not {self.pooling}")
        if self.engine == "dense" and self.head_precision != "float32":
            raise ValueError(f"head_precision {self.head_precision!r} is for engine streamed or auto, not dense")
        if not 0 < self.sample_rate <= 1:
            raise ValueError(f"sample_rate must lie in (0, 1], got {self.sample_rate}")
        if self.sample_rate != SAMPLE_RATE and self.engine != "sampled":
            raise ValueError(f"sample_rate {self.sample_rate} is for engine sampled, not {self.engine}")
        if self.engine == "sampled" and self.optimizer.name != "sgd":
            raise ValueError(
                f"optimizer.name {self.optimizer.name!r} moves every class, drawn or not: engine sampled needs sgd"
            )
        if self.engine == "sparse":
            centers = SubCenters(self.subcenters, self.pooling, self.temperature, self.pull_together)
            reason = why_not_sparse(self.loss, centers)
            if reason is None and self.optimizer.name != "sgd":
                reason = f"optimizer.name {self.optimizer.name!r} moves every class"
            if reason is not None:
                raise ValueError(f"engine is sparse, but {reason}; choose streamed or auto")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be positive, or null not to clip, got {self.clip}")
        if self.distill.teachers and self.distill.kl and self.loss.similarity != "cosine":
            raise ValueError(
                f"distill.kl compares cosines to the classes, and {type(self.loss).__name__} compares raw products; "
                "set distill.kl to 0, or choose another loss"
            )
        if self.distill.start_centers and self.distill.teachers:
            if self.start is not None and self.start_head:
                raise ValueError("distill.start_centers and start_head both set the class centers; set one to false")
            if self.subcenters > 1:
                raise ValueError(
                    f"distill.start_centers: subcenters is {self.subcenters}; centers that start alike stay alike"
                )
        for term in self.pair_terms:
            if type(term).forward is PairTerm.forward:
                raise ValueError(f"pair_terms: {type(term).__name__} computes nothing; name one that derives from it")
        for far in self.validation_far:
            try:
                exact_rate(far)
            except ValueError as error:
                raise ValueError(f"validation_far: {error}") from None


@dataclass(frozen=True, eq=False)
class ReadRecipe:
    """A recipe as an object, and the value of every field as plain data."""

    recipe: Recipe
    resolved: dict[str, Any]

    @property
    def yaml(self) -> str:
        """The resolved recipe as YAML, which reads back to the same training."""
        return recipe_yaml(self.resolved)


def read_recipe(path: str | Path | None, overrides: Sequence[str], values: Values = ()) -> ReadRecipe:
    """Read a YAML recipe, which may stand on others by `base`; options `--field value` override any field.

    The seed is set before the backbone is built, so a recipe always gives the same start weights.

    `path` is a file or the name of a packaged recipe; None takes the fields from the options alone. `values`, by dotted
    name, stand over the options.
    """
    given = _Given.of(path, overrides, values)
    with given.errors():
        resolved = given.resolved()
        return ReadRecipe(_built(resolved), resolved)


def read_training(path: str | Path | None, overrides: Sequence[str], values: Values = ()) -> ReadRecipe:
    """The recipe of one training, as `read_recipe` has it; its `distill` names teachers, or an empty list of them."""
    read, given = read_recipe(path, overrides, values), _Given.of(path, overrides, values)
    if given.fields.get("distill") and "teachers" not in with_values(Recipe, given.fields, given.values)["distill"]:
        raise ValueError(
            "--distill.teachers is missing: runs, model folders (`verisphere adopt` makes one of an ONNX file) or "
            "embeddings files, as [A, B]; [] trains without"
        )
    return read


def changed_recipe(read: ReadRecipe, settings: Settings) -> ReadRecipe:
    """A recipe with other values, built anew except for the images of `data` and `validation`, which it shares."""
    given = _Given("recipe", None, read.resolved, tuple(settings.items()))
    with given.errors():
        resolved = given.resolved()
        assert all(resolved[name] == read.resolved[name] for name in IMAGES)
        return ReadRecipe(_built(resolved, {name: getattr(read.recipe, name) for name in IMAGES}), resolved)


def with_defaults(fields: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """A recipe from a file as plain data with all fields, those that are missing at their defaults; nothing is built.

    A recipe that an earlier version wrote lacks the fields and arguments that were added later. Finding the arguments
    of a class imports the class, so a file may name only classes of verisphere and those that the user has `given`.
    """
    if foreign := _dotted(fields) - _dotted(given):
        raise ValueError(f"{shown(min(foreign))} stands in the file alone")
    check_names(dict(fields))
    return _Given("recipe", None, fields).resolved()


def _dotted(value: Any) -> set[str]:
    """The texts in plain data that could name a class outside verisphere."""
    if isinstance(value, Mapping):
        return _dotted([*value.keys(), *value.values()])
    if isinstance(value, list | tuple):
        return set().union(*map(_dotted, value))
    return {value} if isinstance(value, str) and "." in value and not value.startswith("verisphere.") else set()


def resolve_recipe(path: str | Path | None, overrides: Sequence[str]) -> dict[str, Any]:
    """All fields of a recipe with their values, as plain data; nothing is built, so the images need not exist."""
    given = _Given.of(path, overrides)
    with given.errors():
        return given.resolved()


@dataclass(frozen=True, eq=False)
class _Given:
    """The sources of a recipe: a file or none, its fields, and values over them."""

    name: str
    based: Based | None
    fields: Any
    values: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, path: str | Path | None, overrides: Sequence[str], values: Values = ()) -> "_Given":
        named = None if path is None else find_recipe(path)
        based = None if named is None else read_recipe_text(named.path)
        name, fields = ("recipe", {}) if named is None or based is None else (named.name, based.content)
        with errors_naming(name):
            given = [*options(overrides), *values]
            if "recipe" in dict(given):
                raise ValueError("--recipe: there is one recipe, and it comes before the fields")
        return cls(name, based, fields, with_one_length(given))

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Errors of values and of the objects as one line each."""
        try:
            yield
        except ValueError as error:
            line = "; ".join(line for line in (line.strip() for line in str(error).splitlines()) if line)
            names = [name for name, _ in self.values]
            raise ValueError(with_origin(line, place_of(error), self.name, self.based, names)) from error

    def resolved(self) -> dict[str, Any]:
        """The values of all fields, as plain data; a length that `steps` replaces is null."""
        fields = self.fields
        if isinstance(fields, Mapping):
            fields = with_values(Recipe, fields, self.values)
            _check_groups(fields)
        resolved: dict[str, Any] = complete(Recipe, fields)
        if resolved["steps"] is not None and resolved["epochs"] == EPOCHS:  # the default, which then states nothing
            resolved["epochs"] = None
        return resolved


def _check_groups(fields: Mapping[str, Any]) -> None:
    """Refuse a field at the top that belongs into a group, such as `optimizer.rate`, also by its usual name `lr`."""
    for name in fields.keys() - Recipe.__dataclass_fields__.keys():
        field_of_group = _OTHER_NAMES.get(name, name)
        for group, hint in get_type_hints(Recipe).items():
            if field_of_group in getattr(hint, "__dataclass_fields__", ()):
                raise ValueError(f"there is no field {name!r} (did you mean {group}.{field_of_group}?)")


def _built(resolved: Mapping[str, Any], shared: Mapping[str, Faces | None] | None = None) -> Recipe:
    """The recipe with the objects that it names; `shared` ones are not built."""
    seed_start_weights(resolved["seed"] % 2**31)  # the recipe itself refuses a larger seed
    built: dict[str, Any] = {**(shared or {})}
    hints = get_type_hints(Recipe)
    fields = {name: build(hints[name], value, name) for name, value in resolved.items() if name not in built}
    return Recipe(**built, **fields)


def printed_recipe(named: str | Path) -> str:
    """The YAML of a recipe without bases, below its comment."""
    file = find_recipe(named)
    based = read_based(file.path)
    whole = isinstance(based.content, dict) and {"data", "backbone", "loss"} <= based.content.keys()
    fields = resolve_recipe(named, []) if whole else based.content
    return f"{comment(file.path)}{recipe_yaml(fields)}".rstrip("\n")
