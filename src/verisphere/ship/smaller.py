"""The export of a model in a smaller precision: a separate graph, and its loss on a named set of faces."""

import hashlib
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, UInt8
from torch import Tensor

import verisphere
from verisphere.backbones.backbone import Backbone
from verisphere.backbones.extract import extract
from verisphere.backbones.onnx_network import OnnxNetwork
from verisphere.base.vocabulary import NO_CLASS, Progress, check_word, quietly
from verisphere.base.words import DROP_FARS, SmallerPrecision
from verisphere.decide import Far
from verisphere.files.disk import read_file, write_whole
from verisphere.files.errors import errors_naming
from verisphere.files.onnx_graph import LARGEST_ONNX
from verisphere.files.results import json_text
from verisphere.images.detect.unaligned import warn_if_unaligned
from verisphere.images.faces import Faces
from verisphere.images.select import require_people, split_people
from verisphere.measure.precision import (
    FORMAT,
    PrecisionDrop,
    RangeImages,
    check_fars,
    check_impostors,
    cosines,
    precision_drop,
)
from verisphere.models.described_faces import open_faces
from verisphere.models.embed import trained_on
from verisphere.models.folder import Model, is_model_folder, load
from verisphere.models.model_json import (
    FUNCTION,
    NAME,
    NETWORK,
    PRECISION,
    RECIPE,
    Description,
    FileDigest,
    ReducedPrecision,
    preprocessing,
    read_model_json,
)
from verisphere.models.onnx_file import INPUT, OUTPUT, InputFormat, compare_onnx, read_onnx, require_export, write_onnx
from verisphere.models.smaller_onnx import in_float16, in_int8
from verisphere.models.trained_on import FILE
from verisphere.ship.export import (
    ExportResult,
    ModelToShip,
    Results,
    file_digest,
    notes_on,
    of_folder,
    of_run,
    refuse_place,
    say_flip,
    shipped_origin,
    write_description,
)

#: Of the people of a set, those whose images set the ranges of int8: a tenth, at most so many, with so many images.
RANGE_SHARE, RANGE_PEOPLE, RANGE_IMAGES = 0.1, 100, 256
_SEED = 0
_BATCH = 64  # images of one run over the ranges
_TIMED_IMAGES, _TIMED_ROUNDS = 32, 3


def export_smaller(
    run: Path,
    out: Path,
    precision: SmallerPrecision,
    measured_on: Path,
    *,
    fars: Sequence[Far] = DROP_FARS,
    people: Path | None = None,
    name: str | None = None,
    calibration: Path | None = None,
    evaluation: Sequence[Path] = (),
    flip: bool | None = None,
    template: str | None = None,
    accept_training_people: bool = False,
    trust_code: bool = False,
    accept_unrecorded_pixels: bool = False,
    progress: Progress = quietly,
) -> ExportResult:
    """Creates a model folder whose network is an ONNX graph in float16 or int8, and measures its loss against float32.

    int8 takes its ranges from images of some people of the set, who are not measured. The drop is measured with the
    flip that ships. A calibration is of embeddings that this very folder made, since the same model and images give the
    same graph. The other options are those of `export_model`.
    """
    require_export()
    check_word("precision", precision, SmallerPrecision)
    check_fars(fars)
    refuse_place(out, [run, measured_on], [people, calibration, *evaluation])
    results = Results(calibration, evaluation=evaluation)
    if not accept_training_people:
        results.refuse_training_people()
    calibrated, copied_results = results.calibrated, results.copies()
    source = _source(run, name, template, trust_code)
    described = source.description
    description = replace(described, flip=results.flip(flip, described.flip))
    if calibrated is not None and calibrated.origin is not None:  # before the work that gives weights and pixels
        how = replace(calibrated.origin, flip=description.flip, precision=precision)
        replace(results, evaluation=()).check(run, how, accept_unrecorded_pixels)
    faces = open_faces(measured_on, people, source.backbone.input_size, trust_code)
    faces.source.check_template(description.template, measured_on)
    warn_if_unaligned(faces)
    with errors_naming(measured_on):
        measured, for_ranges = _parts(faces, precision)
        if precision == "int8" and fars:
            check_impostors(measured.identities, fars)
    content, arguments = _graph_in_float32(source)
    if precision == "int8":
        images = for_ranges.images(range(len(for_ranges)))
        smaller = in_int8(content, _Rows(arguments, run, images), run)
    else:
        smaller = in_float16(content, run)
    digest = FileDigest(hashlib.sha256(smaller).hexdigest(), len(smaller))
    networks = [_network(arguments, graph, run) for graph in (content, smaller)]
    own = shipped_origin(digest.sha256, networks[1], description.template, description.flip, precision)
    results.check(out, own, accept_unrecorded_pixels)
    say_flip(description.flip, run, described)
    record = trained_on(source.path)
    try:
        rows = [
            extract(network, measured, flip=description.flip, progress=progress, trained_on=record)
            for network in networks
        ]
    except ValueError as error:
        raise ValueError(f"{run}: cannot be measured in {precision} on {measured_on}: {error}") from None
    with errors_naming(measured_on):
        points = precision_drop(rows[0], rows[1], fars, progress=progress)
    people_of_ranges = len(for_ranges.people)
    drop = PrecisionDrop(
        precision,
        replace(measured.source, place=measured_on.name),
        *(len(measured), len(measured.people)),
        RangeImages(len(for_ranges), people_of_ranges, _SEED) if precision == "int8" else None,
        *(len(content), len(smaller)),
        *cosines(rows[0], rows[1]),
        points,
        description.flip,
        rows[0].shared_with_training,
        rows[0].names_rule,
    )
    description = replace(
        description,
        verisphere=verisphere.__version__,
        torch=torch.__version__,
        backbone={"class_path": "verisphere.backbones.OnnxNetwork", "init_args": arguments},
        preprocessing=preprocessing(networks[1]),
        thresholds=() if calibrated is None else calibrated.thresholds,
        files={NETWORK: digest},
        reduced=ReducedPrecision(precision, source.weights, measured_on.name),
    )

    def write(partial: Path) -> Description:
        partial.mkdir()
        (partial / NETWORK).write_bytes(smaller)
        (partial / PRECISION).write_text(json_text({"format": FORMAT, **vars(drop)}), encoding="utf-8")
        files = {name: file_digest(partial / name) for name in (NETWORK, PRECISION)}
        files |= source.copy(partial, copied_results)
        whole = write_description(partial, replace(description, files=files))
        load(partial, "cpu")
        return whole

    whole = write_whole(out, write)
    known = source.description.adopted is not None or RECIPE in source.beside
    notes = notes_on(whole, calibrated, known, with_head=False)
    return ExportResult(out, whole, None, notes, (drop.text(), _speeds(networks, measured, precision)))


def _source(run: Path, name: str | None, template: str | None, trust_code: bool) -> ModelToShip:
    """The model of a model folder, or of a run or checkpoint, in float32."""
    if not is_model_folder(run):
        return of_run(run, name, template, trust_code)
    about = read_model_json(run / NAME)
    if about.weights == FUNCTION:
        raise ValueError(f"{run}: a function cannot be written in another precision; only its author can change it")
    if about.reduced is not None:
        raise ValueError(
            f"{run}: runs in {about.reduced.precision} already; export the model in float32 that it was made of"
        )
    source = of_folder(run, about, name, template, trust_code)
    return replace(source, beside={name: file for name, file in source.beside.items() if name in (RECIPE, FILE)})


def _parts(faces: Faces, precision: SmallerPrecision) -> tuple[Faces, Faces]:
    """The images to measure on, and those of other people that set ranges: for fp16 none."""
    require_people(faces, at_least=3 if precision == "int8" else 2)
    known = faces.labels != NO_CLASS
    if not known.all():  # the images of nobody make no pair
        faces = faces.select(known.nonzero().flatten().tolist())
    measured, for_ranges = faces, faces.select([])
    without = ""
    if precision == "int8":
        for_ranges, measured = split_people(faces, min(RANGE_SHARE, RANGE_PEOPLE / len(faces.people)), _SEED)
        places = np.linspace(0, len(for_ranges) - 1, min(len(for_ranges), RANGE_IMAGES)).round().astype(int)
        without = " beside those that set the ranges of int8"
        for_ranges = for_ranges.select(places.tolist())
    if len(set(measured.identities)) == len(measured):
        raise ValueError(f"no two images{without} are of one person, so no TAR can be measured; give people with two")
    return measured, for_ranges


def _graph_in_float32(source: ModelToShip) -> tuple[bytes, dict[str, Any]]:
    """The model as an ONNX graph, and the arguments of the `OnnxNetwork` that runs it."""
    about = source.description
    if about.weights == NETWORK:
        return read_file(source.path / NETWORK, LARGEST_ONNX), dict(about.backbone["init_args"])
    size = source.backbone.input_size
    pixels = InputFormat(size, about.template, False, about.embedding_size, source.weights, about.verisphere)
    with tempfile.TemporaryDirectory() as room:
        file = Path(room) / "float32.onnx"
        write_onnx(file, source.backbone, pixels)
        here = Model(source.path, about.name, source.backbone, source.weights, False, about.template, ())
        compare_onnx(read_onnx(file), here)
        content = file.read_bytes()
    return content, {
        **{"embedding_size": about.embedding_size, "height": size[0], "width": size[1], "mean": 0.0, "scale": 1.0},
        **{"image_input": INPUT, "embedding_output": OUTPUT},
    }


def _network(arguments: dict[str, Any], content: bytes, file: Path) -> OnnxNetwork:
    network = OnnxNetwork(**arguments)
    network.read(content, file)
    return network


@dataclass(frozen=True, eq=False)
class _Rows:
    """Runs graphs with the input of a network on the images that set ranges."""

    arguments: dict[str, Any]
    file: Path
    images: UInt8[Tensor, "images 3 height width"]

    def __call__(self, content: bytes, output: str, numbers: int) -> Float64[np.ndarray, "images numbers"]:
        network = _network(self.arguments | {"embedding_output": output, "embedding_size": numbers}, content, self.file)
        batches = self.images.split(_BATCH)
        return torch.cat([network(network.normalise(batch)).double() for batch in batches]).numpy()


def _speeds(networks: Sequence[Backbone], faces: Faces, precision: str) -> str:
    """Images a second of both networks in turns, without reading images; differs from one computer to another."""
    images = networks[0].normalise(faces.images(range(min(len(faces), _TIMED_IMAGES))))
    seconds: list[list[float]] = [[], []]
    for _ in range(_TIMED_ROUNDS):
        for network, times in zip(networks, seconds, strict=True):
            began = time.perf_counter()
            network(images)
            times.append(time.perf_counter() - began)
    before, after = (len(images) / max(median(times), 1e-9) for times in seconds)
    threads = torch.get_num_threads()
    by = "one thread" if threads == 1 else f"{threads} threads"
    return f"images a second here, by {by}: {before:,.0f} in float32, {after:,.0f} in {precision}"
