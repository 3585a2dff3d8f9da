"""A checkpoint of another project as a sealed model folder, with a network of ours that can be trained further."""

import time
from pathlib import Path

import torch
from safetensors.torch import save

from verisphere.files.disk import digest
from verisphere.models.build import build_backbone
from verisphere.models.first_run import OF_NO_IMAGE, FirstRun
from verisphere.models.folder import Model
from verisphere.models.foreign_names import SOURCES
from verisphere.models.foreign_weights import read_foreign_weights
from verisphere.models.model_json import WEIGHTS, Adopted
from verisphere.ship.adopt import AdoptResult, write_adopted
from verisphere.ship.export import check_template
from verisphere.ship.export_inputs import refuse_place


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
    refuse_place(out, [], [path])
    backbone, weights = read_foreign_weights(path, source)
    network = build_backbone(backbone)
    template = SOURCES[source].template if template is None else template
    check_template(template, network)
    adopted = Adopted(path.name, digest(path), published, licence, source, flip)
    runs: list[FirstRun] = []

    def run(model: Model) -> None:
        try:
            runs.append(_first_run(model))
        except ValueError as error:
            raise ValueError(f"{path}: the network of {source} with these weights does not run: {error}") from None

    name = path.stem if name is None else name
    description = write_adopted(out, network, backbone, name, template, adopted, WEIGHTS, save(weights), run)
    return AdoptResult(out, description, runs[0])


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
