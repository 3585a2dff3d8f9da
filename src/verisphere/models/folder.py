"""A model folder, as `verisphere export` writes it: loaded, checked against its digests, and used."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from verisphere.backbones.backbone import Backbone
from verisphere.backbones.extract import extract
from verisphere.backbones.onnx_network import OnnxNetwork
from verisphere.base.device import device_of, full_float32
from verisphere.base.provenance import check_same_origin
from verisphere.base.trained_on import TrainedOn
from verisphere.base.vocabulary import Embeddings, ImageSource, Origin, Progress, TrainingRecord, check_set, quietly
from verisphere.base.words import check_at_least, printable
from verisphere.decide import Far, exact_rate
from verisphere.decide.guarantee import GuaranteedThreshold
from verisphere.files.disk import digest
from verisphere.files.documents import read_yaml_file
from verisphere.files.embeddings import known_people
from verisphere.files.gallery_calibration import NO_GALLERY, GalleryCalibration, read_gallery_calibration
from verisphere.files.images_json import described_source
from verisphere.files.json_values import shown
from verisphere.files.onnx_graph import read_graph
from verisphere.images.faces import Faces
from verisphere.models.build import build_backbone
from verisphere.models.callable_network import CallableNetwork
from verisphere.models.foreign_onnx import LARGEST_BATCH, LARGEST_SIDE
from verisphere.models.gallery import Cohort, Found, Gallery, check_cohort
from verisphere.models.model_json import (
    FUNCTION,
    GALLERY,
    NAME,
    NETWORK,
    RECIPE,
    WEIGHTS,
    Description,
    FileDigest,
    preprocessing,
    read_model_json,
    taken_pixels,
)
from verisphere.models.trained_on import EARLIER, FILE, read_trained_on
from verisphere.score.templates import templates_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Model:
    """A backbone and the thresholds that were exported with it.

    Attributes:
        folder: folder of the model.
        name: name of the model.
        backbone: network on its device, in evaluation mode.
        sha256: digest of the file with the weights; equals `Origin.model` of the embeddings that the model makes.
        flip: whether the embedding of the mirror image is added; the thresholds hold for this setting only.
        template: positions of eyes, nose and mouth in an aligned face.
        thresholds: thresholds, each with its guarantee.
        training: record of the images on which the network was trained.
        precision: precision in which the network runs; equals `Origin.precision` of the embeddings that it makes.
    """

    folder: Path
    name: str
    backbone: Backbone
    sha256: str
    flip: bool
    template: str
    thresholds: tuple[GuaranteedThreshold, ...]
    training: TrainingRecord = field(default_factory=TrainingRecord)
    precision: str = "float32"

    def promise(self, far: Far | None = None) -> str:
        """One sentence: the guarantee of the threshold at a FAR, whom it holds for, and the images of the training."""
        return self.threshold(far).meaning(self.training)

    def drawn(self, far: Far | None = None) -> str:
        """What used synthetic faces for a threshold: `trained`, `calibrated`, `trained and calibrated`, or empty."""
        return drawn_by(self.training, self.threshold(far).calibrated_on)

    @torch.inference_mode()
    @full_float32()
    def embed(self, images: np.ndarray | Tensor, batch_size: int = 128) -> Float32[np.ndarray, "images dim"]:
        """Embeddings of aligned faces, not normalised.

        Args:
            images: RGB in [0, 255] as uint8: an array (n, height, width, 3), or a tensor (n, 3, height, width).
            batch_size: images at a time.
        """
        device = device_of(self.backbone)
        rows = [np.empty((0, self.backbone.embedding_size), np.float32)]
        for pixels in pixel_batches(images, self.backbone.input_size, batch_size):
            normalised = self.backbone.normalise(pixels.to(device))
            embedded = self.backbone(normalised)
            if self.flip:
                embedded = embedded + self.backbone(normalised.flip(-1))
            rows.append(embedded.float().cpu().numpy())
        embeddings = np.concatenate(rows)
        bad = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
        if len(bad):
            raise ValueError(f"{len(bad)} of {len(embeddings)} embeddings hold NaN or infinity, the first is {bad[0]}")
        return embeddings

    def extract(
        self,
        faces: Faces,
        images: str,
        *,
        batch_size: int = 128,
        workers: int = 0,
        progress: Progress = quietly,
    ) -> Embeddings:
        """The embedding of every image of a set, with an origin that names this model.

        Args:
            faces: aligned images.
            images: source of the images, for the origin.
            batch_size: images at a time.
            workers: processes that read images; 0 reads in this one.
        """
        faces.source.check_template(self.template, images)
        embeddings = extract(
            self.backbone,
            faces,
            batch_size=batch_size,
            workers=workers,
            flip=self.flip,
            progress=progress,
            trained_on=trained_on_of_folder(self.folder),
        )
        return replace(embeddings, origin=self.origin(replace(faces.source, place=images)))

    def origin(self, images: ImageSource) -> Origin:
        """The origin of embeddings that this model makes of images."""
        about = images.place, images.drawn, images.alignment, taken_pixels(self.backbone), self.template
        return Origin(self.sha256, self.flip, self.precision, *about)

    def threshold(self, far: Far | None = None) -> GuaranteedThreshold:
        """The threshold at a FAR, or the only one of the model.

        Args:
            far: target FAR, compared as a number: 1e-3 and 0.001 are the same. None if the model has one threshold.
        """
        if not self.thresholds:
            raise ValueError(
                f"{self.folder}: this model ships no threshold for two photographs; find one on people it was not "
                "trained on (`verisphere calibrate`), and export it with --calibration"
            )
        there = ", ".join(threshold.far_target for threshold in self.thresholds)
        if far is None:
            if len(self.thresholds) > 1:
                raise ValueError(f"{self.folder}: this model ships thresholds at FAR {there}; name one of them")
            return self.thresholds[0]
        for threshold in self.thresholds:
            if exact_rate(threshold.far_target) == exact_rate(far):
                return threshold
        raise ValueError(f"{self.folder}: no threshold at FAR {far} is shipped with this model; there is: {there}")

    def identify(
        self,
        faces: np.ndarray | Tensor,
        gallery: Embeddings,
        *,
        calibration: GalleryCalibration | None = None,
        fpir: Far | None = None,
        cohort: Embeddings | None = None,
        progress: Progress = quietly,
    ) -> list[Found]:
        """Who of a gallery is on each face, or nobody, by the threshold that was promised for this gallery.

        Args:
            faces: aligned faces, as `embed` takes them; each is a probe.
            gallery: the enrolled people, embedded by this model.
            calibration: calibration of the gallery; None takes the one that was exported with the model.
            fpir: FPIR of the threshold; required where there are several.
            cohort: the cohort of the calibration, if it has one.

        Raises:
            TypeError: the gallery or the cohort is no `Embeddings`, or the calibration is of another kind.
            ValueError: there is no calibration of a gallery, it is one of another gallery, or another model made one
                of them.

        The log has a warning of each thing that weakens the promise, such as people of the training.
        """
        promised = self.gallery_calibration() if calibration is None else calibration
        if not isinstance(promised, GalleryCalibration | None):
            raise TypeError(f"calibration must be what calibrate(gallery=) returns, got {type(calibration).__name__}")
        gallery = known_people(templates_of(check_set("gallery", gallery)), "gallery")
        normal = None if cohort is None else Cohort.of(templates_of(check_set("cohort", cohort)))
        if promised is None:
            raise ValueError(
                f"{self.folder}: {NO_GALLERY} (verisphere.calibrate(strangers, gallery=gallery)), and give it as "
                "calibration="
            )
        for what, origin in (
            ("the gallery", gallery.origin),
            *((f"the {side} of the calibration", origin) for side, origin in promised.origins.items()),
        ):
            if origin is not None:  # arrays have none
                own, said = self.origin(ImageSource("")), what != "the gallery"  # of the calibration it is said below
                check_same_origin(f"{self.folder} was", own, what, origin, "embed it anew", said=said)
        for weakness in promised.weak:
            log.warning("calibration: %s", printable(weakness))
        promised.strangers.check_probes("calibration", pooled=False)
        probes, known = self.embed(faces), Gallery(gallery)
        if refused := promised.why_not(len(known.people), known.digests):
            raise ValueError(f"gallery: {refused}; calibrate again for this gallery")
        check_cohort(promised, normal)
        threshold = promised.threshold(fpir).threshold
        searched = known.search(probes, promised.statistic, normal, progress=progress)
        names = known.people[searched.person].tolist()
        return [
            Found(name if value > threshold else None, name, value, threshold)
            for name, value in zip(names, searched.statistic.tolist(), strict=True)
        ]

    @property
    def gallery_file(self) -> Path:
        """File of the calibration of a gallery that was exported with the model, where there is one."""
        return self.folder / GALLERY

    def gallery_calibration(self) -> GalleryCalibration | None:
        """The calibration of a gallery that was exported with the model; None if there is none."""
        if not (is_model_folder(self.folder) and GALLERY in read_model_json(self.folder / NAME).files):
            return None
        check_listed(self.gallery_file)
        return read_gallery_calibration(self.gallery_file)


def drawn_by(training: TrainingRecord, calibrated_on: ImageSource | None) -> str:
    """What used synthetic faces: `trained`, `calibrated`, `trained and calibrated`, or empty."""
    calibrated = calibrated_on is not None and bool(calibrated_on.drawn)
    uses = (("trained", training.drawn), ("calibrated", calibrated))
    return " and ".join(word for word, drawn in uses if drawn)


def is_model_folder(path: str | Path) -> bool:
    """Whether a path looks like a model folder; `load` checks whether it is complete."""
    return (Path(path) / NAME).is_file()


def load(folder: str | Path, device: str | torch.device | None = None, trust_code: bool = False) -> Model:
    """Load the model in a folder that `verisphere export` wrote, after checking that none of its files has changed.

    Files that `model.json` does not list are ignored.

    >>> load("no-such-model")
    Traceback (most recent call last):
        ...
    FileNotFoundError: no-such-model: there is no such model folder

    Args:
        folder: the model folder.
        device: device of the backbone; by default a GPU if there is one.
        trust_code: also build a backbone class from outside verisphere, which runs its code.

    Raises:
        FileNotFoundError: there is no such folder, or a file of it is missing.
        ValueError: `folder` is not a model folder, a file was changed, the backbone comes from outside verisphere, or
            there is no such device.
    """
    folder, place = Path(folder), _device(device)
    if not is_model_folder(folder):
        if not folder.exists():
            raise FileNotFoundError(f"{folder}: there is no such model folder")
        kind = f"a folder without {NAME}" if folder.is_dir() else "a file"
        raise ValueError(f"{folder}: {kind}; a model is a folder that `verisphere export` makes from a run")
    description = read_model_json(folder / NAME)
    for name, expected in description.files.items():
        _check_unchanged(folder / name, expected)
    backbone = _backbone(folder, description, trust_code)
    return Model(
        folder=folder,
        name=description.name,
        backbone=backbone.to(device=place, memory_format=torch.channels_last).eval(),  # type: ignore[call-overload]
        sha256=description.files[description.weights].sha256,
        flip=description.flip,
        template=description.template,
        thresholds=description.thresholds,
        training=training_record(folder, description),
        precision=description.precision,
    )


def training_record(folder: Path, description: Description) -> TrainingRecord:
    """The folder's record of the training; for a folder of a version without such a record, that of its recipe."""
    if description.training.sources or RECIPE not in description.files:
        return description.training
    recipe = read_yaml_file(folder / RECIPE)
    data = recipe.get("data") if isinstance(recipe, dict) else None
    sources = (described_source(data),) if isinstance(data, dict) else ()
    return replace(description.training, sources=sources)


def trained_on_of_folder(folder: Path) -> TrainedOn:
    """The folder's record of the people and images that its network was trained on."""
    about = read_model_json(folder / NAME)
    if FILE in about.files:
        check_listed(folder / FILE)
        return read_trained_on(folder / FILE)
    adopted = "the model was adopted, and nothing says what it was trained on"
    return TrainedOn.unknown(EARLIER.format(what="model folder") if about.adopted is None else adopted)


def check_listed(path: Path) -> None:
    """Check a file against the `model.json` beside it, if there is one that lists the file."""
    if is_model_folder(path.parent):
        listed = read_model_json(path.parent / NAME).files
        if path.name in listed:
            _check_unchanged(path, listed[path.name])


def pixel_batches(
    images: Any, size: tuple[int, int], batch_size: int = 128
) -> Iterator[UInt8[Tensor, "batch 3 height width"]]:
    """Images as tensors (n, 3, height, width), batch by batch; each is a copy that may be changed in place."""
    check_at_least("batch_size", batch_size)
    array = isinstance(images, np.ndarray)
    if not array and not isinstance(images, Tensor):
        raise ValueError(f"images are a {type(images).__name__}; {_EXPECTED}")
    if str(images.dtype).removeprefix("torch.") != "uint8":
        raise ValueError(
            f"images are {images.dtype}, but uint8 pixels in [0, 255] are expected; what a network subtracts and "
            "divides by is done inside"
        )
    shape = tuple(images.shape)
    if len(shape) != 4 or shape[3 if array else 1] != 3:
        raise ValueError(f"images have shape {shape}; {_EXPECTED}; one image is a batch of one: image[None]")
    pixels = shape[1:3] if array else shape[2:4]
    if pixels != size:
        raise ValueError(
            f"images are {pixels[0]} x {pixels[1]} pixels, but the model takes {size[0]} x {size[1]}; align them first "
            "(`verisphere align`)"
        )
    for start in range(0, shape[0], batch_size):
        batch = images[start : start + batch_size]
        yield torch.from_numpy(np.array(batch)).permute(0, 3, 1, 2) if isinstance(batch, np.ndarray) else batch.clone()


_EXPECTED = "an array (n, height, width, 3) or a tensor (n, 3, height, width) of uint8 RGB is expected"


def _device(device: str | torch.device | None) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:  # a build without CUDA raises AssertionError
        raise ValueError(f"device {str(device)!r} cannot be used: {str(error).splitlines()[0]}") from None
    return place


def _check_unchanged(path: Path, expected: FileDigest) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: listed in {NAME} but not there; copy the model folder anew, or export again")
    actual = digest(path)
    if actual != expected.sha256:
        raise ValueError(
            f"{path}: not the file that was exported: {path.stat().st_size:,} bytes with SHA-256 {actual[:12]}..., "
            f"but {NAME} says {expected.bytes:,} with {expected.sha256[:12]}...; was it edited or damaged?"
        )


def _backbone(folder: Path, description: Description, trust_code: bool) -> Backbone:
    arguments = description.backbone.get("init_args")
    size = arguments.get("embedding_size") if isinstance(arguments, dict) else None
    if size is not None and size != description.embedding_size:  # before a network of that size is built
        raise ValueError(
            f"{folder / NAME}: embedding_size is {description.embedding_size}, but the backbone is to be built with "
            f"{shown(size)}"
        )
    try:
        ours = folder / WEIGHTS if description.weights == WEIGHTS else None
        backbone = build_backbone(description.backbone, trust_code, ours)
    except ValueError as error:
        raise ValueError(f"{folder / NAME}: {error}") from None
    for what, recorded, actual in (
        ("embedding_size", description.embedding_size, backbone.embedding_size),
        ("preprocessing", description.preprocessing, preprocessing(backbone)),
    ):
        if recorded != actual:
            raise ValueError(
                f"{folder / NAME}: {what} is {recorded}, but {type(backbone).__name__} has {actual}; was the class "
                "changed since the export?"
            )
    if description.weights == FUNCTION:
        if not isinstance(backbone, CallableNetwork):
            raise ValueError(f"{folder / NAME}: {FUNCTION} is no function of {type(backbone).__name__}")
        return backbone
    if description.weights == NETWORK:
        if not isinstance(backbone, OnnxNetwork):
            raise ValueError(f"{folder / NAME}: {NETWORK} is no network of {type(backbone).__name__}")
        height, width = backbone.input_size
        if max(height, width) > LARGEST_SIDE or (backbone.batch or 1) > LARGEST_BATCH:
            raise ValueError(
                f"{folder / NAME}: {height} x {width} pixels, {backbone.batch or 'any number of'} images at a time; at "
                f"most {LARGEST_SIDE} a side and {LARGEST_BATCH:,} images are taken"
            )
        # its digest shows damage, but the author of the folder also computed the digest
        content, _ = read_graph(folder / NETWORK, sealed=True)
        backbone.read(content, folder / NETWORK)
        return backbone
    try:
        backbone.load_state_dict(load_file(folder / WEIGHTS))
    except (SafetensorError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(f"{folder / WEIGHTS} does not fit {type(backbone).__name__}: {reason}") from None
    return backbone
