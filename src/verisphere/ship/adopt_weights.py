"""A checkpoint of another project as a sealed model folder, with a network of ours that can be trained further."""

import errno
import time
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

import verisphere
from verisphere.base.vocabulary import TrainingRecord
from verisphere.files.disk import digest, refuse_overwriting, write_whole
from verisphere.models.build import build_backbone
from verisphere.models.first_run import OF_NO_IMAGE, FirstRun
from verisphere.models.folder import Model, load
from verisphere.models.foreign_names import SOURCES
from verisphere.models.foreign_weights import read_foreign_weights
from verisphere.models.model_json import WEIGHTS, Adopted, Description, preprocessing
from verisphere.ship.adopt import BACKBONE, AdoptResult, backbone_yaml, refuse_file
from verisphere.ship.export import check_template, file_digest, write_description


def adopt_weights(
    path: Path,
    out: Path,
    source: str,
    *,
    template: str | None = None,
    flip: bool = False,
    name: str | None = None,
    published: str | None = None,
    licence: str | None = None,
) -> AdoptResult:
    """Create a model folder from another project's checkpoint; the folder appears only after the network has run.

    The project (`source`, a name in `SOURCES`) determines the pixels that the network takes. The folder also holds
    `backbone.yaml`, a base for a recipe that trains the network further.
    """
    refuse_overwriting(out, [path])
    refuse_file(out)
    backbone, weights = read_foreign_weights(path, source)
    network = build_backbone(backbone)
    template = SOURCES[source].template if template is None else template
    check_template(template, network)
    adopted = Adopted(path.name, digest(path), published, licence, source, flip)
    finished: list[tuple[Description, FirstRun]] = []

    def write(partial: Path) -> None:
        partial.mkdir()
        try:
            save_file(weights, partial / WEIGHTS)
        except SafetensorError as error:  # such as a full disk
            raise OSError(errno.EIO, f"cannot be written: {error}", str(partial / WEIGHTS)) from None
        (partial / BACKBONE).write_text(backbone_yaml(backbone), encoding="utf-8")
        description = Description(
            name=path.stem if name is None else name,
            verisphere=verisphere.__version__,
            torch=torch.__version__,
            backbone=backbone,
            embedding_size=network.embedding_size,
            template=template,
            preprocessing=preprocessing(network),
            flip=flip,
            thresholds=(),
            training=TrainingRecord(),
            files={name: file_digest(partial / name) for name in (WEIGHTS, BACKBONE)},
            adopted=adopted,
        )
        whole = write_description(partial, description)
        try:
            finished.append((whole, _first_run(load(partial, "cpu"))))
        except ValueError as error:
            raise ValueError(f"{path}: the network of {source} with these weights does not run: {error}") from None

    write_whole(out, write)
    return AdoptResult(out, *finished[0])


def _first_run(model: Model) -> FirstRun:
    """Embed a black image, and one of noise, by one thread."""
    pixels = torch.randint(
        0, 256, (1, 3, *model.backbone.input_size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        black = model.embed(torch.zeros_like(pixels))
        start = time.perf_counter()
        rows = model.embed(pixels)
        if (rows == black).all():
            raise ValueError(f"it {OF_NO_IMAGE}")
        return FirstRun(rows.shape[1], None, time.perf_counter() - start)
    finally:
        torch.set_num_threads(threads)
