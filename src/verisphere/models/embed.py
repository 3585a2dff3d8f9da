"""Embedding images by a model: any kind of model on disk is opened, and the embeddings record which model made them.

Embedding into a folder of shards takes memory that does not grow with the rows, and is continued after any stop.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from verisphere.backbones.backbone import Backbone
from verisphere.backbones.extract import extract
from verisphere.backbones.onnx_network import OnnxNetwork
from verisphere.base.collectives import on_first_rank
from verisphere.base.device import device_of
from verisphere.base.distributed import world
from verisphere.base.identity import decided
from verisphere.base.trained_on import TrainedOn
from verisphere.base.vocabulary import (
    NOBODY,
    Embeddings,
    ImageSource,
    Origin,
    Preprocessing,
    Progress,
    printable,
    quietly,
)
from verisphere.base.work import Arrays, ranges, results, shared_by_ranks, working
from verisphere.decide import Far, promised_rate
from verisphere.decide.sample_size import enough_people
from verisphere.files.disk import check_writable, refuse_overwriting
from verisphere.files.embeddings import columns_of, write_embeddings
from verisphere.files.errors import errors_naming
from verisphere.files.packaged_recipes import find_recipe, nearest_recipes, packaged_recipes
from verisphere.files.sharded import (
    MANIFEST,
    Manifest,
    Store,
    holds_embeddings,
    moved,
    read_manifest,
    shortened_rows,
    widened,
    write_manifest,
    write_shard,
)
from verisphere.files.work import WorkFolder, result_folder
from verisphere.images.detect.unaligned import warn_if_unaligned
from verisphere.images.faces import Faces
from verisphere.images.loader import MOST_WORKERS
from verisphere.images.packs.columns import Texts, coded, spelled_once, take
from verisphere.models.build import build_backbone, read_description, untrained
from verisphere.models.checkpoint import list_checkpoints, load_into, read_checkpoint
from verisphere.models.described_faces import open_faces
from verisphere.models.folder import is_model_folder, load, trained_on_of_folder
from verisphere.models.model_json import NAME, read_model_json, taken_pixels
from verisphere.models.onnx_file import OnnxBackbone, read_onnx
from verisphere.models.trained_on import of_checkpoint

log = logging.getLogger(__name__)

ROWS = 1 << 15  # of a shard


@dataclass(frozen=True, eq=False)
class EmbeddingModel:
    """A backbone ready to embed.

    Attributes:
        flip: whether the exported model adds the embedding of the mirror image; None if the model was not exported.
        fixed: whether `flip` and float32 cannot be changed, as in an ONNX file.
        precision: the only precision in which the network of a model folder runs; None where bfloat16 can be chosen.
        template: positions of eyes, nose and mouth in an aligned face; None where the model does not say.
    """

    backbone: Backbone
    sha256: str | None = None
    flip: bool | None = None
    fixed: bool = False
    precision: str | None = None
    trained_on: TrainedOn | None = None
    template: str | None = None
    described: tuple[dict[str, Any], int] | None = None

    @property
    def preprocessing(self) -> Preprocessing | None:
        """The pixels that the network takes; None for an ONNX file of a version that did not record them."""
        if isinstance(self.backbone, OnnxBackbone):
            return self.backbone.file.about.inside
        return taken_pixels(self.backbone)

    @property
    def made_by(self) -> dict[str, Any]:
        """What determines the embedding of an image, as JSON values, if `embed` uses its defaults."""
        inside, flip, precision = self.preprocessing, bool(self.flip), self.precision or "float32"
        pixels = None if inside is None else asdict(inside) | {"size": list(inside.size)}
        known = {"model": self.sha256, "preprocessing": pixels, "flip": flip, "precision": precision}
        return known if self.described is None else known | {"described": [*self.described]}


def open_model(model: Path, device: torch.device, trust: bool = False) -> EmbeddingModel:
    """Open the model of a run, checkpoint, model folder or ONNX file; or, untrained, of a recipe or backbone YAML.

    Of a run the newest checkpoint is taken. An exported ONNX file runs on the CPU.
    """
    if model.suffix in (".yaml", ".yml") or (str(model) in packaged_recipes() and not model.exists()):
        path = find_recipe(model, what="file").path
        return EmbeddingModel(_placed(untrained(path, trust), device), described=read_description(path))
    if model.suffix == ".onnx":
        file = read_onnx(model)
        about, network = file.about, OnnxBackbone(file).eval()
        return EmbeddingModel(
            *(network, about.backbone, about.flip),
            fixed=True,
            trained_on=trained_on(model),
            template=about.template,
        )
    if is_model_folder(model):
        exported = load(model, device, trust)
        fixed = exported.precision if isinstance(exported.backbone, OnnxNetwork) else None
        return EmbeddingModel(
            *(exported.backbone, exported.sha256, exported.flip),
            precision=fixed,
            trained_on=trained_on(model),
            template=exported.template,
        )
    try:
        checkpoint = read_checkpoint(model)
    except FileNotFoundError as error:
        near = "" if model.exists() else nearest_recipes(str(model))
        raise FileNotFoundError(f"{error}{near}") from None
    description = checkpoint.state.get("backbone")
    if not isinstance(description, dict):
        raise ValueError(f"{checkpoint.path / 'state.json'}: names no backbone")
    try:
        backbone = build_backbone(description, trust, checkpoint.file("backbone"))
    except ValueError as error:
        raise ValueError(f"{checkpoint.path}: {error}") from None
    load_into(backbone, checkpoint.tensors("backbone"), str(checkpoint.path))
    return EmbeddingModel(
        _placed(backbone, device), checkpoint.sha256["backbone"], trained_on=of_checkpoint(checkpoint)
    )


def trained_on(model: Path) -> TrainedOn:
    """The record of the training of a run, a checkpoint, a model folder, an ONNX file or an embeddings file."""
    if model.suffix == ".onnx" or holds_embeddings(model):
        if is_model_folder(model.parent) and model.name in read_model_json(model.parent / NAME).files:
            return trained_on_of_folder(model.parent)
        return TrainedOn.unknown(f"{model.name} does not say what its model was trained on")
    return trained_on_of_folder(model) if is_model_folder(model) else of_checkpoint(read_checkpoint(model))


def _is_model(path: Path) -> bool:
    """Whether a path looks like a model folder, a run with a checkpoint, one checkpoint, or an ONNX file."""
    if path.suffix == ".onnx":
        return True
    return path.is_dir() and (is_model_folder(path) or (path / "state.json").is_file() or bool(list_checkpoints(path)))


def _placed(backbone: Backbone, device: torch.device) -> Backbone:
    return backbone.to(device=device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]


def embed(
    model: EmbeddingModel,
    faces: Faces,
    images: str,
    *,
    flip: bool | None = None,
    batch_size: int = 128,
    workers: int = 0,
    precision: torch.dtype = torch.float32,
    progress: Progress = quietly,
    for_all: bool = True,
) -> Embeddings:
    """Embed images, and record the origin, and which people and images the model was trained on.

    The ranks of a joined group share the work. Each returns all embeddings, or, if they are not `for_all`, rank 0
    alone, and PartEnded is raised on the others.
    The embedding of the mirror image is added as `flip` says; by default by the setting of the exported model, else
    not. bfloat16 is by autocast.
    """
    faces.source.check_template(model.template, images)
    flip = bool(model.flip) if flip is None else flip
    only = "float32" if model.fixed else model.precision
    if only is not None and precision != torch.float32:
        another = ", or name the model's folder" if model.fixed else ""
        raise ValueError(
            f"precision is {str(precision).removeprefix('torch.')}, but an ONNX file runs in {only}; omit "
            f"--bfloat16{another}"
        )
    if model.fixed and flip != model.flip:
        does = "adds the mirror image's embedding inside" if model.flip else "does not add the mirror image's embedding"
        raise ValueError(f"flip is {str(flip).lower()}, but the ONNX file {does}; leave --flip and --no-flip out")
    with shared_by_ranks():
        embeddings = extract(
            model.backbone,
            faces,
            batch_size=batch_size,
            workers=workers,
            flip=flip and not model.fixed,
            precision=precision,
            progress=progress,
            trained_on=model.trained_on,
            made_by=model.made_by,
            for_all=for_all,
        )
    origin = origin_of(model, flip, precision, images, faces.source)
    return replace(embeddings, origin=origin)


def origin_of(
    model: EmbeddingModel, flip: bool, precision: torch.dtype, images: str, source: ImageSource
) -> Origin | None:
    """The origin of embeddings that a model makes; None for an untrained model, which no digest identifies."""
    if model.sha256 is None:
        return None
    only = "float32" if model.fixed else model.precision
    return Origin(
        model=model.sha256,
        flip=flip,
        precision=only or str(precision).removeprefix("torch."),
        images=images,
        drawn=source.drawn,
        alignment=source.alignment,
        preprocessing=model.preprocessing,
        template=model.template,
    )


def embed_in_shards(
    model: EmbeddingModel,
    faces: Faces,
    images: str,
    out: Path,
    rows: int | None,
    store: Store,
    how: Mapping[str, Any],
    progress: Progress = quietly,
    part: tuple[int, int] | None = None,
    merge: bool = False,
) -> Manifest:
    """Embed images into a folder of shards, and write its manifest last.

    Shards are pieces of work, which the ranks of a joined group divide. A shard has whole batches, so its rows are
    those of `embed` for the whole set, which has the options `how`.
    """
    rows, batch = ROWS if rows is None else rows, max(how["batch_size"], 1)  # `embed` refuses a wrong batch size
    if rows < 1:
        raise ValueError(f"--shards is {rows}; a shard has 1 row or more")
    rows = -(-rows // batch) * batch
    rule = decided(faces.names_rule)
    with errors_naming(images):
        people = spelled_once(faces.identities, faces.names, rule)
    settings = [*(str(value) for name, value in how.items() if name != "workers"), device_of(model.backbone).type]
    # of the origin, which a set has once
    source = {"path": images, "template": model.template, **asdict(faces.source)} if model.sha256 else None

    def about() -> list[object]:
        with errors_naming(images):
            contents = faces.contents(range(len(faces))).hex()
        settled_by = [model.made_by, source, rule, rows, store, settings]
        columns = map(Texts.of, filter(None, (faces.names, faces.identities, faces.domains)))
        return [*((column.utf8, column.ends) for column in columns), contents, settled_by]

    def write(piece: range) -> Arrays:
        here, number = np.array(list(take(people, piece))), piece.start // rows
        with folder.inside("shards", number):
            embedded = embed(model, faces.select(piece), images, **how)
            kept, units = shortened_rows(embedded.embeddings, store)
            stored = widened(kept, units)
            # what readers read is checked before it is written
            checked: Embeddings = replace(
                embedded, embeddings=stored, identities=here, spelled=frozenset(here.tolist())
            )
            columns = columns_of(checked) | ({} if units is None else {"units": units})
            return write_shard(out, number, kept, columns, moved(embedded.embeddings, stored))

    task, pieces = f"{images}, {rows} rows a shard in {store}", ranges(len(faces), rows)
    with result_folder(out, alone=part is None) as work, WorkFolder(work, task, part, merge) as folder, working(folder):
        shards = [*results("shards", about, pieces, partial(map, write), progress, "embedding shards")]
        on_first_rank(lambda: write_manifest(out, model.backbone.embedding_size, store, shards))
    return read_manifest(out / MANIFEST)


def is_one_file(out: Path, shards: int | None, store: Store) -> bool:
    """Whether embeddings are to be one file, not a folder of shards; a ValueError if the name fits neither."""
    whole = out.suffix == ".npz"
    if not whole and out.suffix:
        raise ValueError(f"--out {out}: an embeddings file ends in .npz, and a folder of shards in no suffix")
    if whole and (shards, store) != (None, "float32"):
        raise ValueError(f"--out {out}: --shards and --store are of a folder of shards, whose name has no suffix")
    return whole


def embed_faces(
    model: Path,
    faces: Path,
    out: Path,
    *,
    people: Path | None = None,
    for_far: Far | None = None,
    flip: bool | None = None,
    batch_size: int = 128,
    workers: int = 1,
    precision: torch.dtype = torch.float32,
    device: torch.device,
    trust: bool = False,
    shards: int | None = None,
    store: Store = "float32",
    part: tuple[int, int] | None = None,
    merge: bool = False,
    progress: Progress = quietly,
) -> str:
    """Embed aligned images into an embeddings file, or a folder of shards; returns one line that describes it.

    The ranks of a joined group share the images, and rank 0 writes; of a file PartEnded is raised on the others. For a
    FAR, people are counted before anything is embedded (`enough_people`). A folder takes rows by `shards` at a time,
    stored as `store`; what a stopped run has written there stands.
    """
    refuse_overwriting(out, [model, faces, people])
    if whole := is_one_file(out, shards, store):
        check_writable(out)
    if for_far is not None:
        promised_rate(for_far)
    if not 0 <= workers <= MOST_WORKERS:
        raise ValueError(f"--workers {workers}: allowed are 0 to {MOST_WORKERS} processes that read images")
    if not _is_model(model) and _is_model(faces):
        raise ValueError(f"{faces}: a model, where the faces belong; the model comes first, then the faces: {model}")
    opened = open_model(model, device, trust)
    images = open_faces(faces, people, opened.backbone.input_size, trust)
    with errors_naming(faces):  # before the work
        whose = spelled_once(images.identities, images.names, decided(images.names_rule))
    if world().first:
        warn_if_unaligned(images)
    people_known = sum(person != NOBODY for person in coded(whose).present())
    enough, needed = (True, "") if for_far is None else enough_people(for_far, people_known)
    if needed and world().first:
        log.log(logging.INFO if enough else logging.WARNING, "%s: %s", faces, needed)
    how: dict[str, Any] = {"flip": flip, "batch_size": batch_size, "workers": workers, "precision": precision}
    note = ""
    if whole:
        write_embeddings(out, embed(opened, images, str(faces), **how, progress=progress, for_all=False))
    else:
        manifest = embed_in_shards(opened, images, str(faces), out, shards, store, how, progress, part, merge)
        note = f", {len(manifest.shards)} shards of {store}"
        note += f"; no score moved by more than {2 * manifest.moved:.3g}" if manifest.moved else ""
    counts = f"{len(images)} images of {people_known} people, {opened.backbone.embedding_size} numbers each"
    return f"{printable(str(out))}: {counts}{note}" + (f"\n{needed}" if needed else "")
