"""What a finished training can do: its embeddings of each set, and the figures that they give."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch

from verisphere.decide import OneThreshold
from verisphere.decide.paired import Redrawn
from verisphere.experiments.folder import Run
from verisphere.experiments.grid import folder_name
from verisphere.experiments.recipes import MeasuredSet
from verisphere.files.class_paths import present_name
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.files.metrics import METRICS, read_metrics
from verisphere.images.decoded_faces import in_memory
from verisphere.models.checkpoint import read_checkpoint
from verisphere.models.embed import EmbeddingModel, embed, open_model
from verisphere.protocols import PairsOfSet, all_pairs
from verisphere.protocols.redrawn import redrawn_set
from verisphere.score.cosine import cosine
from verisphere.vocabulary import Embeddings, Origin, Progress, Redrawing, quietly

log = logging.getLogger(__name__)

TAR, GAMMA, TAR_STD, FAR_STD = "tar", "gamma", "tar_std_over_domains", "neg_log10_far_std_over_domains"
ONE_THRESHOLD = "one_threshold"
DOMAIN_TAR, DOMAIN_FAR, DOMAIN_THRESHOLD = "domain_tar", "domain_far", "domain_threshold"
COMPARED = (TAR, GAMMA, TAR_STD, FAR_STD)
_AGAIN = 16  # images embedded again to see that a file's images are still the set's
_ALIKE = 1e-4  # cosine; a rounding moves it by 1e-6, another image by more
_HELD = 20_000  # images that are read once for all trainings; more are read for each


@dataclass(frozen=True)
class Figure:
    """What a number is of.

    Attributes:
        measured: name of the set.
        name: `tar` over all pairs; of one threshold `gamma`, `tar_std_over_domains`,
            `neg_log10_far_std_over_domains`, `one_threshold` and, of one domain, `domain_tar`, `domain_far`,
            `domain_threshold`.
        far_target: as it was given.
        domain: of a domain's own figures.
    """

    measured: str
    name: str
    far_target: str
    domain: str | None = None


@dataclass(frozen=True, eq=False)
class SetFigures:
    """One training on one set.

    Attributes:
        values: every figure.
        redrawn: of those that arms are compared by, over redrawn people.
        below_resolution: target FARs that the set's impostors cannot show.
        people: how many are redrawn.
    """

    values: dict[Figure, float]
    redrawn: dict[Figure, Redrawn]
    below_resolution: tuple[str, ...]
    people: int


class Measurer:
    """Measures trainings on sets, whose images are read once where they are not many."""

    def __init__(
        self,
        sets: Mapping[str, MeasuredSet],
        described: Mapping[str, Mapping[str, Any]],
        *,
        device: torch.device,
        replicates: int = 1000,
        seed: int = 0,
        progress: Progress = quietly,
    ) -> None:
        """Take the sets; images are read when they are needed.

        Args:
            sets: by their names.
            described: the sets as plain data, from which the embeddings' origin is told.
            device: where to embed.
            replicates: of the bootstrap over people.
            seed: of its draws.
            progress: shown while images are read and embedded.
        """
        self.sets = dict(sets)
        self.described = described
        self.device = device
        self.redrawing, self.progress = Redrawing(replicates, seed), progress

    def measure(self, run: Run) -> dict[str, SetFigures]:
        """The figures of a finished training on every set."""
        return {name: self._figures(name, self._embeddings(run, name)) for name in self.sets}

    def _figures(self, name: str, embeddings: Embeddings) -> SetFigures:
        asked = self.sets[name]
        pairs = PairsOfSet(embeddings if asked.one_far is not None else replace(embeddings, domains=None))
        points = all_pairs(pairs, asked.far).operating_points
        redrawn = redrawn_set(pairs, asked.far, asked.one_far, self.redrawing)
        figures = [Figure(name, TAR, point.far_target) for point in points]
        values = {figure: point.tar for figure, point in zip(figures, points, strict=True)}
        over_people = dict(zip(figures, redrawn.tars, strict=True))
        if asked.one_far is not None and redrawn.spread is not None:
            found = all_pairs(pairs, [asked.one_far]).one_threshold
            assert found is not None
            values |= _of_one_threshold(name, found[0])
            far, spread = found[0].far_target, redrawn.spread
            for figure, one in ((GAMMA, spread.gamma), (TAR_STD, spread.tar_std), (FAR_STD, spread.neg_log10_far_std)):
                over_people[Figure(name, figure, far)] = one
        below = tuple(point.far_target for point in points if point.below_resolution)
        return SetFigures(values, over_people, below, len(pairs.people))

    def _embeddings(self, run: Run, name: str) -> Embeddings:
        """A training's embeddings of a set: those beside it where they are its own, else made anew."""
        asked, path = self.sets[name], run.folder / f"{folder_name(name)}.npz"
        weights, images = read_checkpoint(run.folder).sha256["backbone"], _images(self.described[name])
        origin = Origin(weights, asked.flip, "float32", images)
        before = _stored(path, asked, origin)
        model = open_model(run.folder, self.device, trust=True)  # its recipe was given for training, code and all
        if before is not None:
            if _still(model, asked, before, origin.images):
                return before
            log.info("%s: the images of %s are not those it was made of: embedding anew", path, name)
        if len(asked.faces) <= _HELD:
            self.sets[name] = asked = replace(asked, faces=in_memory(asked.faces, progress=self.progress))
        made = embed(model, asked.faces, origin.images, flip=asked.flip, progress=self.progress)
        write_embeddings(path, made)
        return made


def _stored(path: Path, asked: MeasuredSet, origin: Origin) -> Embeddings | None:
    """A file's embeddings where they are of this origin, names, people and domains."""
    if not path.is_file():
        return None
    found = read_embeddings(path)
    columns = ((found.names, asked.faces.names), (found.identities, asked.faces.identities))
    domains = None if found.domains is None else tuple(found.domains.tolist())
    same = all(np.array_equal(*both) for both in columns) and domains == asked.faces.domains
    known = found.origin
    alike = known is not None and known.made_alike(origin) and present_name(known.images) == origin.images
    return found if same and alike else None


def _still(model: EmbeddingModel, asked: MeasuredSet, before: Embeddings, images: str) -> bool:
    """Whether a few of the set's images, evenly spaced, still have the embeddings that they had.

    A path may hold other images than it did; to read them all would cost as much as to embed them.
    """
    rows = np.unique(np.linspace(0, len(before) - 1, _AGAIN).round().astype(np.int64))
    now = embed(model, asked.faces.select(rows.tolist()), images, flip=asked.flip)
    cosines = cosine(*(torch.from_numpy(one).double() for one in (now.embeddings, before.embeddings[rows])))
    return bool((cosines >= 1 - _ALIKE).all())


def training_figures(run: Run) -> dict[str, float]:
    """The last value of each figure in a training's log, and the wall time of its process in seconds."""
    last: dict[str, float] = {}
    for entry in read_metrics(run.folder / METRICS):
        last |= {name: float(value) for name, value in entry.items() if value is not None and name != "step"}
    return {"seconds": run.seconds} | last


def _of_one_threshold(name: str, found: OneThreshold) -> dict[Figure, float]:
    far = found.far_target
    values = {
        Figure(name, GAMMA, far): found.gamma,
        Figure(name, TAR_STD, far): sqrt(found.tar_variance),
        Figure(name, FAR_STD, far): sqrt(found.neg_log10_far_variance),
        Figure(name, ONE_THRESHOLD, far): found.calibration_threshold,
    }
    for domain, one in found.domains.items():
        values[Figure(name, DOMAIN_TAR, far, domain)] = one.tar
        values[Figure(name, DOMAIN_FAR, far, domain)] = one.far
        values[Figure(name, DOMAIN_THRESHOLD, far, domain)] = one.threshold
    return values


def _images(described: Mapping[str, Any]) -> str:
    """Where a set's images come from, as an embeddings' origin says it: their path, or the class that makes them."""
    faces = described["faces"]
    return str(Path((faces.get("init_args") or {}).get("path") or faces["class_path"]))
