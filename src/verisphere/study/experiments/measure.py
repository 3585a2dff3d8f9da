"""Measurements of finished trainings: embeddings of each set, and the figures computed from them."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from verisphere.base.vocabulary import Embeddings, Origin, Progress, Redrawing, quietly
from verisphere.base.words import counted
from verisphere.files.class_paths import present_name
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.files.metrics import METRICS, read_metrics
from verisphere.images.decoded_faces import in_memory
from verisphere.images.select import even_steps
from verisphere.measure.measured_set import MeasuredSet
from verisphere.measure.set_figures import SetFigures, set_figures
from verisphere.models.embed import EmbeddingModel, embed, open_model, origin_of
from verisphere.score.cosine import cosine
from verisphere.study.experiments.cleaned import cleaning_figures
from verisphere.study.experiments.folder import Run
from verisphere.study.experiments.grid import folder_name
from verisphere.study.experiments.searched import search_figures

log = logging.getLogger(__name__)

_CHECKED_IMAGES = 16  # embedded again to check that the images of a set have not changed
_LARGEST_CHANGE = 1e-4  # of a cosine; rounding changes it by 1e-6, another image by more
_MOST_IN_MEMORY = 20_000  # images; a set with more is read anew for each training


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
        """Take the sets, whose images are read when first needed, and as plain data for the origin of embeddings."""
        self.sets = dict(sets)
        self.described = described
        self.device = device
        self.redrawing, self.progress = Redrawing(replicates, seed), progress
        self._knowing: dict[str, dict[str, list[str]]] = {}  # of each set what trainings knew of it, and which did

    def measure(self, run: Run) -> dict[str, SetFigures]:
        """The figures of a finished training on every set."""
        figures = {}
        for name, asked in self.sets.items():
            embeddings = self._embeddings(run, name)
            rows = embeddings.in_training
            if rows is not None and (shared := rows.shared(embeddings.identities)):
                self._knowing.setdefault(name, {}).setdefault(shared.found(), []).append(run.title)
            figures[name] = set_figures(name, asked, embeddings, self.redrawing)
        return figures

    @property
    def known(self) -> dict[str, str]:
        """What trainings knew of each set on whose people or images they were trained, in words."""
        return {
            name: "; ".join(f"{_first_of(titles)}: {found}" for found, titles in knowing.items())
            for name, knowing in self._knowing.items()
        }

    def _embeddings(self, run: Run, name: str) -> Embeddings:
        """A training's embeddings of a set: those in its folder if they are still valid, else new ones."""
        asked, path = self.sets[name], run.folder / f"{folder_name(name)}.npz"
        # trusted: its recipe, including its code, was given for training
        model = open_model(run.folder, self.device, trust=True)
        images = _images(self.described[name])
        origin = origin_of(model, asked.flip, torch.float32, images, asked.faces.source)
        assert origin is not None  # a run has weights
        before = _stored(path, asked, origin)
        if before is not None:
            if _unchanged(model, asked, before, origin.images):
                return before
            log.info("%s: the images of %s are not those it was made of: embedding anew", path, name)
        if len(asked.faces) <= _MOST_IN_MEMORY:
            self.sets[name] = asked = replace(asked, faces=in_memory(asked.faces, progress=self.progress))
        embeddings = embed(model, asked.faces, origin.images, flip=asked.flip, progress=self.progress)
        write_embeddings(path, embeddings)
        return embeddings


def _first_of(titles: Sequence[str]) -> str:
    """The first of some titles, and the number of the others."""
    return titles[0] + (f" and {counted(len(titles) - 1, 'other training')}" if len(titles) > 1 else "")


def _stored(path: Path, asked: MeasuredSet, origin: Origin) -> Embeddings | None:
    """The embeddings of a file if they have this origin and the names, people and domains of the set; else None."""
    if not path.is_file():
        return None
    stored = read_embeddings(path)
    columns = ((stored.names, asked.faces.names), (stored.identities, asked.faces.identities))
    domains = None if stored.domains is None else tuple(stored.domains.tolist())
    same = all(np.array_equal(*both) for both in columns) and domains == asked.faces.domains
    known = stored.origin
    alike = known is not None and not known.differences(origin) and present_name(known.images) == origin.images
    return stored if same and alike else None


def _unchanged(model: EmbeddingModel, asked: MeasuredSet, before: Embeddings, images: str) -> bool:
    """Whether some of the set's images, evenly spaced, still have the stored embeddings.

    The images at a path may have been replaced; to check all of them would cost as much as to embed them.
    """
    rows = even_steps(len(before), _CHECKED_IMAGES)
    now = embed(model, asked.faces.select(rows.tolist()), images, flip=asked.flip)
    cosines = cosine(*(torch.from_numpy(both).double() for both in (now.embeddings, before.embeddings[rows])))
    return bool((cosines >= 1 - _LARGEST_CHANGE).all())


def training_figures(run: Run) -> dict[str, float]:
    """The last value of each figure in a training's log, its wall time in seconds, and those of cleaning or search."""
    last: dict[str, float] = {}
    for entry in read_metrics(run.folder / METRICS):
        last |= {name: float(value) for name, value in entry.items() if value is not None and name != "step"}
    return {"seconds": run.seconds} | last | cleaning_figures(run.folder) | search_figures(run.folder)


def _images(described: Mapping[str, Any]) -> str:
    """The source of a set's images for the origin of embeddings: their path, or the class that makes them."""
    faces = described["faces"]
    return str(Path((faces.get("init_args") or {}).get("path") or faces["class_path"]))
