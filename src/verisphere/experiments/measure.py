"""Measurements of finished trainings: embeddings of each set, and the figures computed from them."""

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
from verisphere.experiments.cleaned import cleaning_figures
from verisphere.experiments.folder import Run
from verisphere.experiments.grid import folder_name
from verisphere.files.class_paths import present_name
from verisphere.files.embeddings import known_people, read_embeddings, write_embeddings
from verisphere.files.metrics import METRICS, read_metrics
from verisphere.images.decoded_faces import in_memory
from verisphere.measure.measured_set import MeasuredSet
from verisphere.measure.pairs_of_set import accuracies, pair_rows
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
ACCURACY = "accuracy"
COMPARED = (TAR, ACCURACY, GAMMA, TAR_STD, FAR_STD)
_CHECKED_IMAGES = 16  # embedded again to check that the images of a set have not changed
_LARGEST_CHANGE = 1e-4  # of a cosine; rounding changes it by 1e-6, another image by more
_MOST_IN_MEMORY = 20_000  # images; a set with more is read anew for each training


@dataclass(frozen=True)
class Figure:
    """The identity of a figure.

    Attributes:
        measured: name of the set.
        name: `tar` over all pairs; for one threshold `gamma`, `tar_std_over_domains`,
            `neg_log10_far_std_over_domains`, `one_threshold` and, for one domain, `domain_tar`, `domain_far`,
            `domain_threshold`; `accuracy` over the folds of listed or drawn pairs.
        far_target: target FAR as it was given; empty for an accuracy, which has none.
        domain: name of the domain, or of the list of pairs if there are several; None for figures of the whole set.
    """

    measured: str
    name: str
    far_target: str
    domain: str | None = None


@dataclass(frozen=True, eq=False)
class SetFigures:
    """The figures of one training on one set.

    Attributes:
        values: the value of each figure.
        redrawn: figures by which arms are compared, over redrawn people.
        below_resolution: target FARs that are too low for the number of impostor pairs.
        people: number of people in the set.
    """

    values: dict[Figure, float]
    redrawn: dict[Figure, Redrawn]
    below_resolution: tuple[str, ...]
    people: int


class Measurer:
    """Measures trainings on sets; the images of small sets are read once for all trainings."""

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
        """Take the sets; their images are read when they are first needed.

        Args:
            sets: sets by name.
            described: the sets as plain data, for the origin of the embeddings.
            device: device for embedding.
            replicates: number of replicates of the bootstrap over people.
            seed: seed of the bootstrap.
            progress: reports the progress of reading and embedding.
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
        embeddings = known_people(embeddings, name)
        pairs = PairsOfSet(embeddings if asked.one_far is not None else replace(embeddings, domains=None))
        points = all_pairs(pairs, asked.far).operating_points
        redrawn = redrawn_set(pairs, asked.far, asked.one_far, self.redrawing)
        figures = [Figure(name, TAR, point.far_target) for point in points]
        values = {figure: point.tar for figure, point in zip(figures, points, strict=True)}
        over_people = dict(zip(figures, redrawn.tars, strict=True))
        if asked.one_far is not None and redrawn.spread is not None:
            thresholds = all_pairs(pairs, [asked.one_far]).one_threshold
            assert thresholds is not None
            values |= _of_one_threshold(name, thresholds[0])
            far, spread = thresholds[0].far_target, redrawn.spread
            for figure, over in ((GAMMA, spread.gamma), (TAR_STD, spread.tar_std), (FAR_STD, spread.neg_log10_far_std)):
                over_people[Figure(name, figure, far)] = over
        rows = pair_rows(embeddings, asked.pairs, asked.drawn_pairs, name)
        for title, accuracy in accuracies(rows, self.redrawing).items():
            key = Figure(name, ACCURACY, "", title)
            values[key], over_people[key] = accuracy.value, accuracy
        below = tuple(point.far_target for point in points if point.below_resolution)
        return SetFigures(values, over_people, below, len(pairs.people))

    def _embeddings(self, run: Run, name: str) -> Embeddings:
        """A training's embeddings of a set: those in its folder if they are still valid, else new ones."""
        asked, path = self.sets[name], run.folder / f"{folder_name(name)}.npz"
        weights, images = read_checkpoint(run.folder).sha256["backbone"], _images(self.described[name])
        origin = Origin(weights, asked.flip, "float32", images)
        before = _stored(path, asked, origin)
        # trusted: its recipe, including its code, was given for training
        model = open_model(run.folder, self.device, trust=True)
        if before is not None:
            if _unchanged(model, asked, before, origin.images):
                return before
            log.info("%s: the images of %s are not those it was made of: embedding anew", path, name)
        if len(asked.faces) <= _MOST_IN_MEMORY:
            self.sets[name] = asked = replace(asked, faces=in_memory(asked.faces, progress=self.progress))
        embeddings = embed(model, asked.faces, origin.images, flip=asked.flip, progress=self.progress)
        write_embeddings(path, embeddings)
        return embeddings


def _stored(path: Path, asked: MeasuredSet, origin: Origin) -> Embeddings | None:
    """The embeddings of a file if they have this origin and the names, people and domains of the set; else None."""
    if not path.is_file():
        return None
    stored = read_embeddings(path)
    columns = ((stored.names, asked.faces.names), (stored.identities, asked.faces.identities))
    domains = None if stored.domains is None else tuple(stored.domains.tolist())
    same = all(np.array_equal(*both) for both in columns) and domains == asked.faces.domains
    known = stored.origin
    alike = known is not None and known.made_alike(origin) and present_name(known.images) == origin.images
    return stored if same and alike else None


def _unchanged(model: EmbeddingModel, asked: MeasuredSet, before: Embeddings, images: str) -> bool:
    """Whether some of the set's images, evenly spaced, still have the stored embeddings.

    The images at a path may have been replaced; to check all of them would cost as much as to embed them.
    """
    rows = np.unique(np.linspace(0, len(before) - 1, _CHECKED_IMAGES).round().astype(np.int64))
    now = embed(model, asked.faces.select(rows.tolist()), images, flip=asked.flip)
    cosines = cosine(*(torch.from_numpy(both).double() for both in (now.embeddings, before.embeddings[rows])))
    return bool((cosines >= 1 - _LARGEST_CHANGE).all())


def training_figures(run: Run) -> dict[str, float]:
    """The last value of each figure in a training's log, its wall time in seconds, and the figures of its cleaning."""
    last: dict[str, float] = {}
    for entry in read_metrics(run.folder / METRICS):
        last |= {name: float(value) for name, value in entry.items() if value is not None and name != "step"}
    return {"seconds": run.seconds} | last | cleaning_figures(run.folder)


def _of_one_threshold(name: str, one_threshold: OneThreshold) -> dict[Figure, float]:
    far = one_threshold.far_target
    values = {
        Figure(name, GAMMA, far): one_threshold.gamma,
        Figure(name, TAR_STD, far): sqrt(one_threshold.tar_variance),
        Figure(name, FAR_STD, far): sqrt(one_threshold.neg_log10_far_variance),
        Figure(name, ONE_THRESHOLD, far): one_threshold.calibration_threshold,
    }
    for domain, result in one_threshold.domains.items():
        values[Figure(name, DOMAIN_TAR, far, domain)] = result.tar
        values[Figure(name, DOMAIN_FAR, far, domain)] = result.far
        values[Figure(name, DOMAIN_THRESHOLD, far, domain)] = result.threshold
    return values


def _images(described: Mapping[str, Any]) -> str:
    """The source of a set's images for the origin of embeddings: their path, or the class that makes them."""
    faces = described["faces"]
    return str(Path((faces.get("init_args") or {}).get("path") or faces["class_path"]))
