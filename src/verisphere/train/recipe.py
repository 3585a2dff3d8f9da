"""A recipe: a training described as data. Reads YAML into a typed object, and writes the resolved YAML."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_type_hints

from verisphere.backbones.backbone import Backbone
from verisphere.base.seeds import seed_start_weights
from verisphere.decide import exact_rate
from verisphere.files.bases import Based
from verisphere.files.definitions import build, complete, options, place_of, with_values
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.packaged_recipes import find_recipe
from verisphere.head.sampled import SAMPLE_RATE
from verisphere.head.sparse import why_not_sparse
from verisphere.head.streamed import Precision
from verisphere.head.subcenters import Pooling, SubCenters
from verisphere.images.augment import Augment
from verisphere.images.faces import Faces
from verisphere.losses.class_loss import ClassLoss
from verisphere.pairs.pair_term import PairTerm
from verisphere.train.distill.settings import Distillation
from verisphere.train.optimizer import Optimizer
from verisphere.train.recipe_limits import EPOCHS, check_counts, check_length
from verisphere.train.recipe_text import check_names, read_recipe_text, recipe_yaml, with_one_length, with_origin
from verisphere.train.schedule import Schedule, Unit

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
