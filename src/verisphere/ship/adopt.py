"""A model from elsewhere as a sealed model folder: the user describes its input, and the model is run once."""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import save

import verisphere
from verisphere.backbones.backbone import Backbone, Layout
from verisphere.backbones.onnx_network import OnnxNetwork
from verisphere.base.vocabulary import Progress, TrainingRecord, printable, quietly
from verisphere.base.words import unknown_name
from verisphere.files.disk import digest, write_whole
from verisphere.files.errors import errors_naming
from verisphere.files.named_function import find_function
from verisphere.files.results import Result
from verisphere.images.detect import TEMPLATES, FaceDetector
from verisphere.models.build import build_backbone
from verisphere.models.callable_network import CallableNetwork
from verisphere.models.described_faces import open_faces
from verisphere.models.first_run import OF_NO_IMAGE, FirstRun, first_calls, first_run
from verisphere.models.folder import Model, load
from verisphere.models.foreign_names import SOURCES
from verisphere.models.foreign_onnx import GraphEnds, read_foreign_onnx
from verisphere.models.foreign_weights import read_foreign_weights
from verisphere.models.model_json import FUNCTION, NETWORK, WEIGHTS, Adopted, Description, FileDigest, preprocessing
from verisphere.models.named_class import CALLS
from verisphere.models.onnx_to_network import read_trainable
from verisphere.ship.export import check_template, file_digest, refuse_place, write_description
from verisphere.ship.pixels import PRESETS, Pixels, Preset, Told
from verisphere.ship.probe import ProbeResult, drawn_faces, probe

#: The file of an adopted folder that is the base of a recipe that trains its network further.
BACKBONE = "backbone.yaml"


@dataclass(frozen=True)
class AdoptResult(Result):
    """The model folder of an adoption, the first run of its network, and what was measured of its pixels."""

    folder: Path
    description: Description
    run: FirstRun
    probed: ProbeResult | None = None
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """The folder, the input of the model, and the parts that are not known."""
        about = self.description
        adopted = about.adopted
        assert adopted is not None
        lines = [
            f"{printable(str(self.folder))}: model {about.name!r}, {about.embedding_size} numbers an embedding, "
            f"{1 / max(self.run.seconds, 1e-9):,.0f} images a second by one thread",
            self.takes(),
            "trained on: not known; "
            f"licence: {printable(adopted.licence or 'not given')}; source: {printable(adopted.source or 'not given')}",
            *(
                [f"its weights can be trained further: a recipe has base: FOLDER/{BACKBONE} and start: FOLDER"]
                if BACKBONE in about.files
                else []
            ),
            "ships no threshold yet: embed people that it was not trained on, verisphere calibrate, and verisphere "
            "export FOLDER --calibration FILE --out SHIPPED",
            *self.notes,
        ]
        return "\n".join(lines if self.probed is None else [*lines, self.probed.text()])

    def takes(self) -> str:
        """The input of the model in one line."""
        about, pixels = self.description, self.description.preprocessing
        height, width = pixels["size"]
        batch = "any number of images" if self.run.batch is None else f"{self.run.batch} at a time"
        return (
            f"takes {height} x {width} pixels, {pixels['colour']}, {pixels['layout']}, (pixel - {pixels['mean']:g}) / "
            f"{pixels['scale']:g}, aligned to {printable(about.template)}, {batch}; the mirror image's embedding is "
            f"{'added' if about.flip else 'not added'}"
        )


def adopt_onnx(
    model: Path,
    out: Path,
    told: Told,
    *,
    preset: str | None = None,
    flip: bool = False,
    trainable: bool = False,
    name: str | None = None,
    source: str | None = None,
    licence: str | None = None,
    probe_with: Path | None = None,
    probe_drawn: bool = False,
    detector: FaceDetector | None = None,
    trust_code: bool = False,
    progress: Progress = quietly,
) -> AdoptResult:
    """Create a model folder from an ONNX file from elsewhere; the folder appears only after the graph has run.

    What the user says of its input (`told`) takes precedence over the preset. A `trainable` folder holds, instead of
    the graph, a `GraphNetwork` with its weights, and `backbone.yaml`, a base for a recipe that trains it further. On
    the faces of `probe_with`, of people with two images or more, other ways to prepare the pixels are measured; the
    best one is used if the user stated none. `probe_drawn` measures the normalisation alone, on drawn faces.
    """
    refuse_place(out, [], [model])
    known = None
    if preset is not None:
        if preset not in PRESETS:
            raise ValueError(unknown_name("preset", preset, list(PRESETS)))
        known = PRESETS[preset]
    content, ends = read_foreign_onnx(model, told.output)
    pixels = _pixels(ends, told, known, flip)
    if pixels is None and probe_with is None and not probe_drawn:
        raise ValueError(
            f"{model}: an ONNX file does not say what pixels it takes; give --colour, --mean and --scale, or --preset "
            f"with one of {', '.join(PRESETS)}; --probe PHOTOS measures it"
        )
    size, layout = _size_and_layout(model, ends, told, known)
    asked = {
        **{"input": ends.image_input, "output": ends.embedding_output, "numbers": ends.numbers},
        **{"shape": (3, *size) if layout == "NCHW" else (*size, 3)},
        **({"mean": 0.0, "scale": 1.0} if pixels is None else {"mean": pixels.mean, "scale": pixels.scale}),
    }
    run = first_run(content, model, asked, ends.batch)
    if ends.embedding_size not in (None, run.embedding_size):
        raise ValueError(
            f"{model}: declares {ends.embedding_size} numbers an embedding, but gives {run.embedding_size}"
        )
    arguments: dict[str, Any] = {
        **{"embedding_size": run.embedding_size, "height": size[0], "width": size[1]},
        **{"layout": layout, "numbers": ends.numbers, "batch": run.batch},
        **{"image_input": ends.image_input, "embedding_output": ends.embedding_output},
    }
    probed = None
    if probe_with is not None or probe_drawn:
        network = OnnxNetwork(**arguments, mean=0.0, scale=1.0)
        network.read(content, model)
        faces = drawn_faces(size) if probe_with is None else open_faces(probe_with, None, size, trust_code)
        with errors_naming(probe_with or model):
            probed = probe(
                network, faces, pixels, progress, detector=detector, told=told, flip=flip, drawn=probe_with is None
            )
        pixels = probed.declared
    assert pixels is not None
    arguments |= {"mean": pixels.mean, "scale": pixels.scale, "colour": pixels.colour}
    network = OnnxNetwork(**arguments)
    digest = hashlib.sha256(content).hexdigest()
    class_path, file = "verisphere.backbones.OnnxNetwork", NETWORK
    if trainable:
        arguments, content = read_trainable(content, network, model)
        class_path, file = "verisphere.backbones.GraphNetwork", WEIGHTS
    template = _template(told.template or (known.template if known else None), network)
    adopted = Adopted(model.name, digest, source, licence, preset, pixels.flip)
    backbone = {"class_path": class_path, "init_args": arguments}
    description = write_adopted(
        out, network, backbone, model.stem if name is None else name, template, adopted, file, content
    )
    return AdoptResult(out, description, run, probed)


def adopt_callable(
    function: str,
    out: Path,
    told: Told,
    *,
    flip: bool = False,
    name: str | None = None,
    source: str | None = None,
    licence: str | None = None,
    trust_code: bool = False,
) -> AdoptResult:
    """Create a model folder from a user's function, from uint8 RGB images (n, height, width, 3) to vectors (n, dim).

    The folder holds only the name of the function, `module:function`, and the SHA-256 of its code, which shows changes
    (see `find_function`); it can be used where the module can be imported and `trust_code` is given.
    """
    for_graphs = {"--colour": told.colour, "--mean": told.mean, "--scale": told.scale, "--layout": told.layout,
                  "--output": told.output}  # fmt: skip
    given = [flag for flag, value in for_graphs.items() if value is not None]
    if given:
        raise ValueError(f"{', '.join(given)} describe an ONNX file; a function is given uint8 RGB images as they are")
    refuse_place(out, [], [])
    height, width = told.size or (112, 112)
    call, _, digest = find_function(function, trust_code)
    run = first_calls(call, function, (height, width))
    arguments: dict[str, Any] = {
        **{"function": function, "embedding_size": run.embedding_size, "height": height, "width": width},
        "sha256": digest,
    }
    network = CallableNetwork(**arguments)
    template = _template(told.template, network)
    adopted = Adopted(function, digest, source, licence, flip=flip)
    backbone = {"class_path": CALLS, "init_args": arguments}
    content = (json.dumps({"function": function, "sha256": digest}, indent=2) + "\n").encode()
    name = function.rpartition(":")[2] if name is None else name
    return AdoptResult(out, write_adopted(out, network, backbone, name, template, adopted, FUNCTION, content), run)


def write_adopted(
    out: Path,
    network: Backbone,
    backbone: dict[str, Any],
    name: str,
    template: str,
    adopted: Adopted,
    file: str,
    content: bytes,
    check: Callable[[Model], None] = lambda model: None,
) -> Description:
    """Write a model folder with one file of weights, completely or not at all; it is opened once, and then checked."""
    description = Description(
        name=name,
        verisphere=verisphere.__version__,
        torch=torch.__version__,
        backbone=backbone,
        embedding_size=network.embedding_size,
        template=template,
        preprocessing=preprocessing(network),
        flip=bool(adopted.flip),
        thresholds=(),
        training=TrainingRecord(),
        files={file: FileDigest(hashlib.sha256(content).hexdigest(), len(content))},
        adopted=adopted,
    )

    def write(partial: Path) -> Description:
        partial.mkdir()
        (partial / file).write_bytes(content)
        files = dict(description.files)
        if file == WEIGHTS:
            (partial / BACKBONE).write_text(_backbone_yaml(description.backbone), encoding="utf-8")
            files[BACKBONE] = file_digest(partial / BACKBONE)
        whole = write_description(partial, replace(description, files=files))
        check(load(partial, "cpu", trust_code=file == FUNCTION))
        return whole

    return write_whole(out, write)


def _pixels(ends: GraphEnds, told: Told, known: Preset | None, flip: bool) -> Pixels | None:
    """The preparation of a face, as the user or the preset states it; None if this is incomplete."""
    colour, mean, scale = told.colour, told.mean, told.scale
    if known is not None:
        if known.mean is None and (mean is None) != (scale is None):
            raise ValueError(
                f"{'--scale' if mean is None else '--mean'} alone, beside a preset that takes both from the graph; "
                "give --mean and --scale, or neither"
            )
        by_graph = (0.0, 1.0) if ends.normalises else (127.5, 127.5)
        by_preset = by_graph if known.mean is None or known.scale is None else (known.mean, known.scale)
        colour = colour or known.colour
        mean, scale = (
            preset if given is None else given for given, preset in zip((mean, scale), by_preset, strict=True)
        )
    elif ends.numbers == "uint8":  # unchanged pixels
        mean, scale = 0.0 if mean is None else mean, 1.0 if scale is None else scale
    if colour is None or mean is None or scale is None:
        return None
    return Pixels(colour, mean, scale, flip=flip)


def _size_and_layout(model: Path, ends: GraphEnds, told: Told, known: Preset | None) -> tuple[tuple[int, int], Layout]:
    """Height and width of a face, and the order of the axes; the user's statement must agree with the graph."""
    size = ends.size or told.size or (known.size if known else None)
    for what, asked in (("--size", told.size), ("--preset", known.size if known else None)):
        if size is not None and asked is not None and asked != size:
            raise ValueError(f"{model}: takes {size[0]} x {size[1]} pixels, but {what} says {asked[0]} x {asked[1]}")
    layout = ends.layout or told.layout
    if told.layout is not None and told.layout != layout:
        raise ValueError(f"{model}: its input is {layout}, but --layout says {told.layout}")
    if size is None or layout is None:
        raise ValueError(f"{model}: leaves the size or the layout of its input open; give --size HxW and --layout")
    return size, layout


def _backbone_yaml(backbone: dict[str, Any]) -> str:
    """The network as the base of a recipe."""
    heading = (
        "# The network of this model. A recipe that trains it further has base: FOLDER/backbone.yaml and start: FOLDER."
    )
    return f"{heading}\n{yaml.safe_dump({'backbone': backbone}, sort_keys=False, default_flow_style=None, width=120)}"


def _template(named: str | None, network: Backbone) -> str:
    """The named template, or without a name the only one of the network's size."""
    fitting = [one.name for one in TEMPLATES.values() if one.size == network.input_size]
    if named is None:
        if len(fitting) != 1:
            height, width = network.input_size
            raise ValueError(f"no known template has {height} x {width} pixels; name yours by --template")
        return fitting[0]
    check_template(named, network)
    return named


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
    """Create a model folder from another project's checkpoint; the folder appears only after the network has run."""
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
