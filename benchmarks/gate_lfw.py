"""LFW for the benchmark of the enrolment gate: embeddings, measures, and worse copies, kept in a folder."""

import io
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from PIL import Image

from verisphere.base.vocabulary import Embeddings
from verisphere.files.embeddings import read_embeddings
from verisphere.images import InMemory
from verisphere.images.detect import detector_named
from verisphere.images.detect.pose import place_of
from verisphere.images.quality import measure
from verisphere.images.worse import KINDS, defocus, worse
from verisphere.score import unit_rows
from verisphere.ship.gate import lengths_of

_OF_PERSON = 4  # photographs of a person, at most
_MARGIN = 24  # pixels around a crop in which landmarks are looked for


@dataclass(frozen=True, eq=False)
class Lfw:
    """LFW in a folder of data, with what is kept of earlier runs in another folder."""

    data: Path
    kept: Path

    @cached_property
    def embeddings(self) -> Embeddings:
        return read_embeddings(self.data / "lfw_embeddings.npz")

    @cached_property
    def units(self) -> torch.Tensor:
        return unit_rows(self.embeddings.embeddings)

    @cached_property
    def person(self) -> np.ndarray:
        """Number of each image's person."""
        return np.unique(self.embeddings.identities, return_inverse=True)[1]

    @cached_property
    def chosen(self) -> np.ndarray:
        """The first photographs of each person who has two or more."""
        count, seen, rows = np.bincount(self.person), np.zeros(self.person.max() + 1, int), []
        for row, person in enumerate(self.person):
            if count[person] > 1 and seen[person] < _OF_PERSON:
                rows.append(row)
                seen[person] += 1
        return np.array(rows)

    @cached_property
    def crops(self) -> np.ndarray:
        """All aligned faces, (images, 112, 112, 3)."""
        with zipfile.ZipFile(self.data / "lfw_112.zip") as faces:
            images = [Image.open(io.BytesIO(faces.read(name))).convert("RGB") for name in self.embeddings.names]
            return np.stack([np.asarray(image) for image in images])

    def embed(self, crops: np.ndarray) -> np.ndarray:
        """Embeddings by the public MobileFaceNet that made those of LFW."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        network = onnxruntime.InferenceSession(self.data / "pretrained_mobilefacenet.onnx", options)
        batches = (crops[start : start + 64] for start in range(0, len(crops), 64))
        pixels = (np.ascontiguousarray(batch.transpose(0, 3, 1, 2), np.float32) for batch in batches)
        return np.concatenate([network.run(None, {"data": batch})[0] for batch in pixels])

    def once(self, name: str, make: Callable[[], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        """What was made in an earlier run, or is made now and kept."""
        path = self.kept / f"{name}.npz"
        if not path.is_file():
            np.savez(path, **make())
        with np.load(path) as there:
            return dict(there)

    @cached_property
    def measured(self) -> dict[str, np.ndarray]:
        """Measures of all images."""
        return self.once("measured", lambda: measured(self.crops)) | {"length": lengths_of(self.embeddings.embeddings)}

    @cached_property
    def worse(self) -> dict[str, np.ndarray]:
        """A worse copy of each of `chosen`: its kind and extent, embedding and measures."""

        made = self.once("worse", lambda: self.copies(self.chosen))
        return made | {"length": lengths_of(made["embeddings"])}

    def copies(self, rows: Sequence[int]) -> dict[str, np.ndarray]:
        """Worse copies of images: kinds and extents, embeddings and measures."""
        made = [worse(self.crops[row], 0, int(row)) for row in rows]
        pixels = np.stack([copy for copy, *_ in made])
        kinds, extents = (np.array([copy[place] for copy in made]) for place in (1, 2))
        return {"kind": kinds, "extent": extents, "embeddings": self.embed(pixels), **measured(pixels)}

    @cached_property
    def others(self) -> dict[str, np.ndarray]:
        """Of `chosen`: size and pose by a detector, scores with its mirror image and with a blurred copy."""

        def make() -> dict[str, np.ndarray]:
            crops, units = self.crops[self.chosen], self.units[self.chosen].numpy()
            copies = {"mirrored": crops[:, :, ::-1], "blurred": np.stack([defocus(crop, 2, None) for crop in crops])}
            scores = {name: (unit_rows(self.embed(of)).numpy() * units).sum(1) for name, of in copies.items()}
            return scores | {"landmarks": landmarks(crops)}

        made = self.once("others", make)
        return made | place_of(made.pop("landmarks"))

    def extents(self, kind: str, extents: Sequence[float], count: int) -> dict[str, np.ndarray]:
        """Copies of some people's first photographs by one kind at each extent, (extents, images)."""
        rows = self.chosen[np.unique(self.person[self.chosen], return_index=True)[1]][:count]

        def make() -> dict[str, np.ndarray]:
            draw, parts = np.random.default_rng(1), []
            for extent in extents:
                pixels = np.stack([KINDS[kind](self.crops[row], extent, draw) for row in rows])
                parts.append({"embeddings": self.embed(pixels), **measured(pixels)})
            return {name: np.stack([part[name] for part in parts]) for name in parts[0]}

        return self.once(kind, make) | {"rows": rows}


def measured(crops: np.ndarray) -> dict[str, np.ndarray]:
    """Measures of crops."""
    names = tuple(map(str, range(len(crops))))
    return measure(InMemory(torch.from_numpy(crops.copy()).permute(0, 3, 1, 2), names, names))


def landmarks(crops: np.ndarray) -> np.ndarray:
    """Five points of each crop, by the detector MTCNN; NaN where no face is found."""
    detector = detector_named("mtcnn", torch.device("cpu"), 40, False)
    wide = np.pad(crops, ((0, 0), (_MARGIN, _MARGIN), (_MARGIN, _MARGIN), (0, 0)), mode="edge")
    points = np.full((len(crops), 5, 2), np.nan, np.float32)
    for start in range(0, len(crops), 32):
        for row, found in enumerate(detector.detect(list(wide[start : start + 32])), start):
            if len(found):
                away = abs(found.boxes.reshape(-1, 2, 2).mean(1) - wide.shape[1] / 2).sum(1)
                points[row] = found.landmarks[away.argmin()] - _MARGIN
    return points
