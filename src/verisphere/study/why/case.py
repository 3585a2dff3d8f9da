"""A model and a set of images, of which each part is opened when a check asks for it."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64

from verisphere.base.identity import decided, names_taken
from verisphere.base.vocabulary import NOBODY, Embeddings, Origin
from verisphere.base.words import Names
from verisphere.files.embeddings import read_embeddings
from verisphere.files.image_names import find_rows
from verisphere.files.label_lists import read_labels
from verisphere.files.pair_lists.layouts import read_pairs
from verisphere.files.pair_lists.pair_list import PairList
from verisphere.files.sharded import manifest_of, read_manifest
from verisphere.images.faces import Faces
from verisphere.images.packs.bin_pairs import SUFFIX as BIN
from verisphere.images.packs.bin_pairs import read_bin_pairs
from verisphere.models.described_faces import open_faces
from verisphere.models.embed import EmbeddingModel, embed, open_model, origin_of

#: Images and pairs that are embedded where no file has their rows, in so many runs of neighbours, since labels that
#: were moved show there.
IMAGES, PAIRS, RUNS = 384, 400, 8


@dataclass(frozen=True, eq=False)
class ModelCase:
    """A model and a set of images, and what else may be wrong about figures of both; see `why` for each."""

    model: Path
    images: Path
    embeddings: Path | None = None
    pairs: Path | None = None
    calibration: Path | None = None
    identities: Path | None = None
    trust: bool = False

    @cached_property
    def opened(self) -> EmbeddingModel:
        """The model, on the CPU."""
        return open_model(self.model, torch.device("cpu"), self.trust)

    @cached_property
    def faces(self) -> Faces:
        """The images."""
        return open_faces(self.images, None, self.opened.backbone.input_size, self.trust)

    @cached_property
    def rows(self) -> Embeddings | None:
        """The rows of the file, under the identities by which people are compared."""
        rows = None if self.embeddings is None else read_embeddings(self.embeddings)
        if rows is None or self.identities is None:
            return rows
        return self._under(rows, self._listed(rows.names.tolist(), rows.names_rule))

    @cached_property
    def place(self) -> Int64[np.ndarray, " rows"]:
        """The image of each row by its name, else by its position where no name is known; -1 for none."""
        assert self.rows is not None
        at = find_rows(self.rows.names.tolist(), list(self.faces.names)).rows
        place = np.array([at.get(name, -1) for name in self.rows.names.tolist()], np.int64)
        return np.arange(len(place)) if (place < 0).all() and len(place) == len(self.faces) else place

    @cached_property
    def people(self) -> np.ndarray:
        """The identity of each image, of the list of labels where there is one."""
        own = np.array(self.faces.identities)
        return own if self.identities is None else self._listed(list(self.faces.names), self.names_rule)

    @cached_property
    def listed(self) -> PairList | None:
        """The list of pairs of images; that of a verification set by itself; None for a list of videos."""
        path = self.images if self.pairs is None and self.images.suffix.lower() == BIN else self.pairs
        listed = None if path is None else read_bin_pairs(path) if path.suffix.lower() == BIN else read_pairs(path)
        return None if listed is None or listed.videos else listed

    @cached_property
    def origin(self) -> Origin | None:
        """The origin of rows that the model makes of the set by itself."""
        return origin_of(self.opened, bool(self.opened.flip), torch.float32, str(self.images), self.faces.source)

    @cached_property
    def embedded(self) -> Embeddings:
        """The rows of the file, else those of some runs of neighbouring images, embedded now."""
        if self.rows is not None:
            return self.rows
        at = runs_of_neighbours(len(self.faces), IMAGES)
        return self._under(embed(self.opened, self.faces.select(at), str(self.images)), self.people[at])

    @cached_property
    def rows_of_pairs(self) -> tuple[Embeddings, PairList]:
        """The list with its rows; without a file of rows a part of the list, embedded now."""
        assert self.listed is not None
        if self.rows is not None:
            return self.rows, self.listed
        part = runs_of_neighbours(len(self.listed), PAIRS)
        left, right = (tuple(side[at] for at in part) for side in (self.listed.left, self.listed.right))
        short = PairList(left, right, tuple(self.listed.genuine[at] for at in part), source=self.listed.source)
        at = sorted({*np.concatenate(short.positions(list(self.faces.names))).tolist()})
        return embed(self.opened, self.faces.select(at), str(self.images)), short

    @cached_property
    def shortened(self) -> float:
        """The largest distance by which the file's rows, at length 1, were moved when they were stored as asked for."""
        manifest = None if self.embeddings is None else manifest_of(self.embeddings)
        return 0.0 if manifest is None else read_manifest(manifest).moved

    @property
    def names_rule(self) -> Names | None:
        """How names were taken: as asked, else as the rows or images that were read record."""
        read = vars(self).get("rows") or vars(self).get("faces")
        return decided(None if read is None else read.names_rule)

    @property
    def rows_file(self) -> Path:
        """The file of rows that a command reads or writes."""
        return self.embeddings or Path("embeddings.npz")

    @property
    def template(self) -> str:
        """The template of the model."""
        return self.opened.template or "arcface_112x112"

    def _listed(self, names: list[str], how: Names | None) -> np.ndarray:
        """The identity of each image in the list of labels; nobody where the list lacks it."""
        assert self.identities is not None
        with names_taken(how):
            labels = read_labels(self.identities)
        at = find_rows(names, list(labels.names)).rows
        return np.array([labels.identities[at[name]] if name in at else NOBODY for name in names])

    @staticmethod
    def _under(rows: Embeddings, people: np.ndarray) -> Embeddings:
        return replace(rows, identities=people, spelled=frozenset(people.tolist()))


def runs_of_neighbours(count: int, most: int) -> list[int]:
    """At most so many positions, in some runs that are spread evenly; all where there are no more."""
    if count <= most:
        return list(range(count))
    starts = np.linspace(0, count - most // RUNS, RUNS).astype(int)
    return sorted({at for start in starts.tolist() for at in range(start, start + most // RUNS)})
