"""An inversion from files to a folder: `inversion.json`, the marked images, a grid and a page."""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float64, UInt8
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from verisphere import __version__
from verisphere.backbones.backbone import Backbone
from verisphere.base.device import device_of
from verisphere.base.identity import rule_of_all, settled
from verisphere.base.provenance import check_same_origin
from verisphere.base.seeds import Stream, mixed_seed
from verisphere.base.vocabulary import ImageSource, Progress, quietly
from verisphere.base.words import Names
from verisphere.files.embeddings import read_embeddings
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.leak_figures import UNTRAINED
from verisphere.files.work import result_folder
from verisphere.images.detect.unaligned import warn_if_unaligned
from verisphere.images.faces import Faces
from verisphere.measure.precision import check_fars
from verisphere.models.described_faces import open_faces
from verisphere.models.embed import EmbeddingModel, open_model, origin_of
from verisphere.score.cosine import unit
from verisphere.study.invert.closed_set import open_closed_set
from verisphere.study.invert.findings import InversionFindings
from verisphere.study.invert.generated_pairs import GeneratedPairs
from verisphere.study.invert.inversion import (
    BatchNormStatistics,
    Identity,
    Inversion,
    TowardCenters,
    TowardEmbeddings,
    followed,
    invert,
)
from verisphere.study.invert.likeness import INVERTED, JUDGE, Compared
from verisphere.study.invert.marks import IMAGES, UNDER_MARKS, write_grid, write_marked, write_under_marks
from verisphere.study.invert.most_similar import MostSimilar, Strangers
from verisphere.study.invert.page import write_page
from verisphere.study.invert.photographs import (
    Photographs,
    chosen_people,
    labels_of,
    photographs_of,
    unit_embeddings,
    with_two_photographs,
)
from verisphere.train.dry_run.measured import saved_bytes

log = logging.getLogger(__name__)

_FEW, _MORE = 2, 4
_FLOAT = 4
_BACKWARD = 2  # memory of the backward, as a multiple of what the forward keeps for it
_OF_IMAGES = 6  # values, their gradient, two averages of Adam, the network's input, and a temporary one
_STEP = 2  # work of a step as a multiple of a forward: images need gradients, weights do not


@dataclass(frozen=True)
class Plan:
    """Memory and work of an inversion; `bytes` are of weights, and of the largest batch with its backward."""

    images: int
    batches: int
    steps: int
    bytes: int
    flops: int

    def text(self) -> str:
        """The plan in a line."""
        batches = f"{self.batches:,} batch{'es' if self.batches > 1 else ''}"
        return (
            f"{self.images:,} images in {batches} of {self.steps:,} steps: {self.bytes / 2**30:.2f} GiB beside the "
            f"libraries, {self.flops / 1e12:,.1f} TFLOP"
        )


def plan_of(backbone: Backbone, images: int, settings: Inversion) -> Plan:
    """The plan, measured in two forwards on few images."""
    backbone.eval().requires_grad_(False)
    device = device_of(backbone)
    followed(backbone, torch.zeros(1, 3, *backbone.input_size, device=device).requires_grad_())
    states = [*backbone.parameters(), *backbone.buffers()]
    counter = FlopCounterMode(display=False)

    def saved(batch: int) -> int:
        pixels = torch.zeros(batch, 3, *backbone.input_size, device=device).requires_grad_()
        with BatchNormStatistics(backbone) if settings.batch_norm else nullcontext() as statistics:

            def forward() -> torch.Tensor:
                embeddings = backbone(pixels)
                return embeddings.sum() + (statistics.distance() if statistics is not None else 0.0)

            return saved_bytes(forward, [*states, pixels])

    few = saved(_FEW)
    with counter:
        more = saved(_MORE)
    batch = min(images, settings.batch_size)
    an_image = (more - few) // (_MORE - _FEW)
    height, width = backbone.input_size
    weights = sum(tensor.nbytes for tensor in states)
    held = _BACKWARD * (few + (batch - _FEW) * an_image) + batch * _OF_IMAGES * 3 * height * width * _FLOAT
    work = counter.get_total_flops() // _MORE * _STEP * settings.steps * images
    return Plan(images, -(-images // settings.batch_size), settings.steps, weights + held, work)


_IMAGES, _CELLS = 32, 14  # images on which two models are compared, and their cells in each direction
_ALIKE = 0.85  # correlation of their cosines; docs/inversion.md has that of one network and of two


def same_network(one: EmbeddingModel, other: EmbeddingModel) -> bool:
    """Whether two models distinguish images alike, as one network does that was adopted, exported or changed twice.

    The cosines between images are compared, which remain where a network was made smaller, resamples its images, or has
    an output that was turned or padded.
    """
    coarse = torch.rand((_IMAGES, 3, _CELLS, _CELLS), generator=torch.Generator().manual_seed(0)) * 255
    drawn = [_resized(coarse, model.backbone.input_size).round().to(torch.uint8) for model in (one, other)]
    ours, theirs = (model.backbone.normalise(images) for model, images in zip((one, other), drawn, strict=True))
    first, as_ours = _cosines(one.backbone, ours), _resized(ours, other.backbone.input_size)
    return any(
        float(first @ _cosines(other.backbone, pixels)) > _ALIKE
        for given in ([theirs] if torch.equal(theirs, as_ours) else [theirs, as_ours])
        for pixels in (given, given.flip(1))
    )


def _resized(images: Float[Tensor, "images 3 _ _"], size: tuple[int, int]) -> Float[Tensor, "images 3 height width"]:
    return torch.nn.functional.interpolate(images, size, mode="bilinear", antialias=True)


def _cosines(backbone: Backbone, pixels: Float[Tensor, "images 3 height width"]) -> Float64[np.ndarray, " pairs"]:
    """The cosines of all pairs of images, less their mean and at length 1; zero if they are all equal."""
    pixels = pixels.to(next(iter(backbone.parameters()), pixels).device)
    with torch.inference_mode():
        rows = unit((backbone(pixels) + backbone(pixels.flip(3))).double().cpu())
    cosines = (rows @ rows.T).numpy()[np.triu_indices(len(rows), 1)]
    cosines -= cosines.mean()
    length = np.linalg.norm(cosines)
    return cosines / length if length > 1e-9 else np.zeros_like(cosines)


INVERSION_JSON, GRID = "inversion.json", "grid.png"
_CHOICE, _DIRECTION = 4, 5  # purposes of random numbers; see photographs.py
_CANDIDATES = 200  # people whom an image of a random direction may stand for


@dataclass(frozen=True)
class InversionSettings:
    """The settings of an inversion: the model and the targets."""

    model: Path
    settings: Inversion
    faces: Path | None = None
    people: Path | None = None  # list of those of `faces` to use
    embeddings: Path | None = None  # a file whose rows are the targets
    centers: bool = False  # whether the class centers are the targets
    judge: Path | None = None  # a second model, which compares
    pairs: Path | None = None  # list of pairs of `faces` whose images are the targets
    directions: bool = False  # random targets; an image stands for the most similar person of `faces`
    count: int = 16
    fars: tuple[str, ...] = ("1e-1", "1e-2")
    trust: bool = False

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"--count {self.count}: at least 1 image")
        check_fars(self.fars)
        if self.centers + self.directions + (self.embeddings is not None) > 1:
            raise ValueError("--centers, --embeddings, --directions: images are drawn to one of them; give one")
        if self.faces is None and self.embeddings is None and not self.centers and not self.directions:
            raise ValueError("nobody to draw images to: give --faces, --embeddings, --centers or --directions")
        elsewhere = self.centers or self.directions or self.embeddings is not None
        if self.pairs is not None and (self.faces is None or elsewhere):
            raise ValueError(
                "--pairs names photographs of --faces, whose embeddings are the targets: give --faces alone"
            )
        if self.people is not None and self.faces is None:
            raise ValueError("--people chooses among --faces; give --faces")
        if self.judge is not None and self.faces is None:
            raise ValueError("--judge compares with photographs; give --faces")


@dataclass(frozen=True, eq=False)
class Prepared:
    """An inversion before its first step."""

    model: EmbeddingModel
    judge: EmbeddingModel | None
    identity: Identity
    names: tuple[str, ...]
    people: tuple[str, ...]
    target: str  # that of `InversionFindings`
    digest: str  # SHA-256 of the targets
    photographs: Photographs | None
    pairs: GeneratedPairs | None
    plan: Plan


def prepare(
    asked: InversionSettings,
    device: torch.device,
    progress: Progress = quietly,
    opened: Mapping[Path, EmbeddingModel] | None = None,
) -> Prepared:
    """Open everything but the models that are given by their paths, choose people and photographs, and plan."""
    opened = opened or {}
    model = opened.get(asked.model) or open_model(asked.model, device, asked.trust)
    judge = None
    if asked.judge is not None:
        judge = opened.get(asked.judge) or open_model(asked.judge, device, asked.trust)
    if judge is not None and (
        (judge.sha256 is not None and judge.sha256 == model.sha256) or same_network(judge, model)
    ):
        raise ValueError(f"--judge {asked.judge}: has the weights of {asked.model}; the judge is another model")
    if judge is not None and judge.sha256 is None:
        log.warning("--judge %s %s", asked.judge, UNTRAINED)
    faces = None
    if asked.faces is not None:
        faces = open_faces(asked.faces, asked.people, model.backbone.input_size, asked.trust)
        for taken in filter(None, (model, judge)):
            faces.source.check_template(taken.template, asked.faces, "the judge" if taken is judge else "the model")
        warn_if_unaligned(faces)
    if asked.directions:
        parts = _toward_directions(asked, model, faces)
    elif asked.centers:
        parts = _toward_centers(asked, faces)
    elif asked.embeddings is not None:
        parts = _toward_stored(asked, model, faces)
    else:
        assert faces is not None
        parts = _toward_photographs(asked, model, faces, device, progress)
    identity, names, people, target, digest, photographs, pairs = parts
    with errors_naming(asked.model):
        plan = plan_of(model.backbone, len(names), asked.settings)
    return Prepared(model, judge, identity, names, people, target, digest, photographs, pairs, plan)


_Parts = tuple[Identity, tuple[str, ...], tuple[str, ...], str, str, Photographs | None, GeneratedPairs | None]


def _toward_centers(asked: InversionSettings, faces: Faces | None) -> _Parts:
    closed = open_closed_set(asked.model, asked.trust)
    seed = asked.settings.seed
    if faces is None:
        if closed.people is None:
            raise ValueError(f"{asked.model}: does not say whose its centers are; give --faces, what it was trained on")
        classes = people = closed.people
        if len(people) < asked.count:
            raise ValueError(f"--count {asked.count}: the model has {len(people):,} classes")
        order = np.random.default_rng(mixed_seed(Stream.INVERSION, seed, _CHOICE)).permutation(len(people))
        chosen = [people[place] for place in order[: asked.count].tolist()]
        photographs = None
    else:
        classes = closed.named(faces.people, str(asked.faces), faces.names_rule)
        classes = _spelled_as_in(faces, asked.faces, classes, asked.model)
        known = set(classes) & set(faces.people)
        if not known:
            raise ValueError(f"{asked.faces}: nobody on whom {asked.model} was trained")
        members = faces.select([place for place, person in enumerate(faces.identities) if person in known])
        chosen = chosen_people(members, asked.count, seed)
        photographs = photographs_of(faces, chosen, asked.count, seed)
    labels = labels_of(chosen, classes)
    digest = _digest(closed.head.centers[labels])
    return TowardCenters(closed.head, labels), tuple(chosen), tuple(chosen), "centers", digest, photographs, None


def _spelled_as_in(
    faces: Faces, path: Path | None, people: tuple[str, ...], model: Path, *rules: Names | None
) -> tuple[str, ...]:
    """People of a model, or of a file that took names by a rule, spelled as in the photographs."""
    how = rule_of_all([faces.names_rule, *rules])
    sides = [(f" of the people of {source}", np.array(names), np.array(names))
             for source, names in ((path, faces.people), (model, people))]  # fmt: skip
    spelled = tuple(settled(sides, how)[1].tolist())
    if len({*spelled}) < len({*people}):
        both = next(name for name in spelled if spelled.count(name) > 1)
        raise ValueError(
            f"{model}: has two people whose merged name is {shown(both, 100)}; --names exact distinguishes them"
        )
    return spelled


def _toward_directions(asked: InversionSettings, model: EmbeddingModel, faces: Faces | None) -> _Parts:
    """Random directions; the person of an image is determined once it exists, and is a candidate until then."""
    seed = mixed_seed(Stream.INVERSION, asked.settings.seed, _DIRECTION)
    chance = torch.Generator().manual_seed(seed)
    targets = torch.randn(asked.count, model.backbone.embedding_size, generator=chance)
    names = tuple(f"direction-{number}" for number in range(1, asked.count + 1))
    photographs = None
    if faces is not None:
        # an image of a person with a single photograph could be compared with nothing
        most = min(max(with_two_photographs(faces), 2), len(faces.people), _CANDIDATES)
        photographs = photographs_of(faces, chosen_people(faces, most, asked.settings.seed), 0, asked.settings.seed)
    return (
        TowardEmbeddings(targets),
        names,
        ("nobody",) * asked.count,
        "directions",
        _digest(targets),
        photographs,
        None,
    )


def _toward_photographs(
    asked: InversionSettings, model: EmbeddingModel, faces: Faces, device: torch.device, progress: Progress
) -> _Parts:
    seed, pairs = asked.settings.seed, None
    if asked.pairs is None:
        chosen = chosen_people(faces, asked.count, seed)
        first: dict[str, int] = {}
        for place, person in enumerate(faces.identities):
            first.setdefault(person, place)
        given: Sequence[int] = [first[person] for person in chosen]
    else:
        pairs = GeneratedPairs(asked.pairs, faces, asked.count)
        given = pairs.photos
    people = tuple(faces.identities[place] for place in given)
    photographs = photographs_of(faces, people, asked.count, seed, given)
    targets = unit_embeddings(model, faces.images(given), progress).float().to(device)
    names = tuple(faces.names[place] for place in given)
    return TowardEmbeddings(targets), names, people, "photographs", _digest(targets), photographs, pairs


def _toward_stored(asked: InversionSettings, model: EmbeddingModel, faces: Faces | None) -> _Parts:
    """Embeddings of a file; if photographs are given, they are found by name."""
    assert asked.embeddings is not None
    stored = read_embeddings(asked.embeddings)
    own = origin_of(model, bool(model.flip), torch.float32, "", ImageSource(""))
    hint = "name the model that made them"
    check_same_origin(f"{asked.model} embeds", own, asked.embeddings, stored.origin, hint, but=("flip", "precision"))
    if stored.embeddings.shape[1] != model.backbone.embedding_size:
        raise ValueError(
            f"{asked.embeddings}: {stored.embeddings.shape[1]} numbers an embedding, and {asked.model} gives "
            f"{model.backbone.embedding_size}"
        )
    if stored.origin is not None and stored.origin.flip:
        log.warning(
            "%s: its embeddings add those of mirror images; images are drawn to the sums by themselves",
            asked.embeddings,
        )
    seed = asked.settings.seed
    first: dict[str, int] = {}
    for place, person in enumerate(stored.identities.tolist()):
        first.setdefault(person, place)
    if len(first) < asked.count:
        raise ValueError(f"{asked.embeddings}: {len(first):,} people; --count {asked.count} asks for more")
    order = np.random.default_rng(mixed_seed(Stream.INVERSION, seed, _CHOICE)).permutation(len(first)).tolist()
    people = tuple(list(first)[place] for place in order[: asked.count])
    rows = [first[person] for person in people]
    names = tuple(str(stored.names[row]) for row in rows)
    photographs = None
    if faces is not None:
        position = {name: place for place, name in enumerate(faces.names)}
        absent = next((name for name in names if name not in position), None)
        if absent is not None:
            raise ValueError(f"{asked.faces}: has no photograph {absent!r}, which {asked.embeddings} names")
        people = _spelled_as_in(faces, asked.faces, people, asked.embeddings, stored.names_rule)
        photographs = photographs_of(faces, people, asked.count, seed, [position[name] for name in names])
    targets = torch.from_numpy(stored.embeddings[rows].copy())
    return TowardEmbeddings(targets), names, people, "embeddings", _digest(targets), photographs, None


def _digest(targets: Tensor) -> str:
    return hashlib.sha256(targets.detach().cpu().contiguous().numpy().tobytes()).hexdigest()


def run_inversion(
    asked: InversionSettings,
    prepared: Prepared,
    out: Path,
    device: torch.device,
    *,
    save_every: int = 100,
    progress: Progress = quietly,
) -> InversionFindings:
    """Invert, compare, and write the folder; a stopped inversion continues where it was.

    After each `save_every` steps the state is stored, and `grid.png` shows the current images.
    """
    photos = [] if prepared.target == "directions" else _photos(prepared)
    with result_folder(out) as work:

        def watch(pixels: UInt8[Tensor, "count 3 height width"]) -> None:
            write_grid(out / GRID, pixels, photos[: len(pixels)])

        pixels = invert(
            prepared.model.backbone,
            prepared.identity,
            asked.settings,
            device=device,
            work=work,
            about=prepared.model.made_by | {"targets": prepared.digest, "names": list(prepared.names)},
            save_every=save_every,
            watch=watch,
            progress=progress,
        )
        strangers = None
        if prepared.target == "directions" and prepared.photographs is not None:
            most_similar = MostSimilar(prepared.model, prepared.photographs)
            photographs, strangers = most_similar.photographs(pixels), most_similar.strangers()
            prepared = replace(prepared, people=photographs.people, photographs=photographs)
            photos = _photos(prepared)
        watch(pixels)
        findings, by_last = compare(asked, prepared, pixels, strangers)
        write_images(out / IMAGES, prepared.names, pixels)
        write_under_marks(out / UNDER_MARKS, pixels)
        write_page(findings, pixels, photos, by_last, out)
        findings.write_json(out / INVERSION_JSON)
    return findings


def compare(
    asked: InversionSettings,
    prepared: Prepared,
    pixels: UInt8[Tensor, "count 3 height width"],
    strangers: Strangers | None,
) -> tuple[InversionFindings, Compared | None]:
    """The figures of generated images; and their comparison under the judge, or without one under the model itself."""
    models = [(INVERTED, prepared.model)] + ([] if prepared.judge is None else [(JUDGE, prepared.judge)])
    compared = (
        []
        if prepared.photographs is None
        else [Compared.by(name, model, pixels, prepared.photographs) for name, model in models]
    )
    accuracies = []
    if prepared.pairs is not None:
        for entry in compared:
            accuracies += prepared.pairs.accuracies(entry.name, entry.generated, entry.given)
    likeness = tuple(
        entry.likeness(asked.fars, prepared.names, None if strangers is None else strangers.comparisons(model))
        for entry, (_, model) in zip(compared, models, strict=False)  # nothing is compared without photographs
    )
    real = likeness[0].real_same_person if likeness else None
    of_people = None if real is None else real.mean
    findings = InversionFindings(
        model=asked.model.name,
        sha256=prepared.model.sha256,
        judge=None if asked.judge is None else asked.judge.name,
        target=prepared.target,
        images=prepared.names,
        people=prepared.people,
        settings=asdict(asked.settings),
        likeness=likeness,
        distances=compared[-1].distances() if compared else (),
        pairs=tuple(accuracies),
        version=__version__,
        reached=float(prepared.identity.cosines(unit_embeddings(prepared.model, pixels)).mean()),
        needed=of_people if strangers is None else strangers.same_person,
        names_rule=None if prepared.photographs is None else prepared.photographs.faces.names_rule,
    )
    return findings, compared[-1] if compared else None


def _photos(prepared: Prepared) -> list[UInt8[Tensor, "3 height width"]]:
    photographs = prepared.photographs
    return [] if photographs is None else list(photographs.faces.images(photographs.given))


def write_images(folder: Path, names: Sequence[str], pixels: UInt8[Tensor, "count 3 height width"]) -> None:
    """Write each image, marked, under a number and the last part of its name."""
    folder.mkdir(exist_ok=True)
    for number, (name, image) in enumerate(zip(names, pixels, strict=True), start=1):
        kept = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in Path(name).stem)
        write_marked(folder / f"{number:05d}_{kept[:80]}.png", image)
