"""Each image of a suite embedded once: equal bytes have one embedding, in every set and in later runs."""

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from verisphere.base.collectives import on_first_rank
from verisphere.base.identity import decided
from verisphere.base.vocabulary import Embeddings, Progress, quietly
from verisphere.base.work import ranges, steps_of
from verisphere.files.disk import write_text
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.images.detect.unaligned import warn_if_unaligned
from verisphere.measure.suite.images import SetFaces, SetImages
from verisphere.models.embed import EmbeddingModel, embed, origin_of

log = logging.getLogger(__name__)

_AT_ONCE = 4096  # images between two reports of progress


@dataclass
class EmbedOnce:
    """Writes the embeddings files of a suite, and remembers the file and row of each image's embedding.

    `reused` is the number of rows that were copied from equal images, or from a file of an earlier run.
    """

    model: EmbeddingModel
    folder: Path
    flip: bool = False
    precision: torch.dtype = torch.float32
    batch_size: int = 128
    workers: int = 0
    progress: Progress = quietly
    embedded: int = 0
    reused: int = 0
    _rows: dict[bytes, tuple[Path, int]] = field(default_factory=dict)

    def write(self, name: str, images: SetImages) -> Path:
        """The embeddings file of these images, `name`.npz; an equal file of an earlier run is used unchanged."""
        path, record = self.folder / f"{name}.npz", self.folder / f"{name}.images.txt"
        self._faces(images).source.check_template(self.model.template, name)
        keys: list[bytes] = []
        parts = ranges(len(images), _AT_ONCE)
        for part in self.progress(parts, f"reading {name}", len(parts)):
            keys += images.keys(part)
        text = "".join(f"{key.hex()} {image}\n" for key, image in zip(keys, images.names, strict=True))
        if path.exists() and not record.exists():
            raise ValueError(
                f"{path}: there already, and not written by a suite, which lists its images in {record.name}; name "
                "another folder by --embeddings, or omit --model to measure the file as it is"
            )

        def write() -> None:
            if path.exists():  # never the old embeddings beside the new list, even if the process is killed between
                log.warning("%s: replaced, made by another model, in another way or of other images", path)
                path.unlink()
            write_text(record, text)
            write_embeddings(path, made)

        if on_first_rank(lambda: str(self._equal(path, record, text, images))) == str(True):
            self.reused += len(keys)
        else:
            with steps_of(name):
                made = self._embeddings(name, keys, images)
            on_first_rank(write)
        for row, key in enumerate(keys):
            self._rows.setdefault(key, (path, row))
        return path

    def _equal(self, path: Path, record: Path, text: str, images: SetImages) -> bool:
        """Whether an earlier run embedded the same images by the same model in the same way."""
        origin = origin_of(self.model, self.flip, self.precision, "", self._faces(images).source)
        if origin is None or not path.is_file():
            return False
        try:
            earlier = read_embeddings(path)
            listed = record.read_text(encoding="utf-8")
        except (ValueError, OSError) as error:
            log.warning("%s: cannot be used again: %s", path, error)
            return False
        before = earlier.origin
        made_alike = before is not None and before.preprocessing is not None and not before.differences(origin)
        return (
            listed == text
            and made_alike
            and _columns(earlier) == _columns(self._named(images, earlier.embeddings, _digests(earlier)))
        )

    def _embeddings(self, name: str, keys: list[bytes], images: SetImages) -> Embeddings:
        """The embeddings of a set: new images from the model, the others from the files that have them."""
        first: dict[bytes, int] = {}
        for position, key in enumerate(keys):
            if key not in self._rows:
                first.setdefault(key, position)
        rows = np.empty((len(keys), self.model.backbone.embedding_size), np.float32)
        digests = np.zeros(len(keys), np.int64)
        if first:
            new = self._faces(images).select(list(first.values()))
            if images.points is None:
                warn_if_unaligned(new)
            made = embed(
                self.model,
                new,
                name,
                flip=self.flip,
                batch_size=self.batch_size,
                workers=self.workers,
                precision=self.precision,
                progress=self.progress,
            )
            place = dict(zip(first, range(len(first)), strict=True))
            here = [row for row, key in enumerate(keys) if key in first]
            chosen = [place[keys[row]] for row in here]
            rows[here], digests[here] = made.embeddings[chosen], _digests(made)[chosen]
        elsewhere: dict[Path, list[int]] = {}
        for row, key in enumerate(keys):
            if key not in first:
                elsewhere.setdefault(self._rows[key][0], []).append(row)
        for file, wanted in elsewhere.items():
            earlier, chosen = read_embeddings(file), [self._rows[keys[row]][1] for row in wanted]
            rows[wanted], digests[wanted] = earlier.embeddings[chosen], _digests(earlier)[chosen]
        self.embedded += len(first)
        self.reused += len(keys) - len(first)
        origin = origin_of(self.model, self.flip, self.precision, name, self._faces(images).source)
        return replace(self._named(images, rows, digests), origin=origin)

    def _faces(self, images: SetImages) -> SetFaces:
        return SetFaces(images, self.model.backbone.input_size)

    def _named(self, images: SetImages, rows: np.ndarray, digests: np.ndarray) -> Embeddings:
        named = Embeddings(
            rows,
            np.array(images.names),
            np.array(images.identities),
            None if images.domains is None else np.array(images.domains),
            templates=None if images.templates is None else np.array(images.templates),
            names_rule=decided(),
        )
        record = self.model.trained_on
        known = None if record is None else record.rows(named.identities, digests, named.names_rule)
        return replace(named, in_training=known)


def _digests(embeddings: Embeddings) -> np.ndarray:
    """The digest of each image; zeros in a file of an earlier version."""
    known = embeddings.in_training
    return np.zeros(len(embeddings), np.int64) if known is None or known.digests is None else known.digests


def _columns(embeddings: Embeddings) -> list[object]:
    """What an equal file has beside its rows and its origin."""
    columns = [embeddings.names, embeddings.identities, embeddings.domains, embeddings.templates]
    known = embeddings.in_training
    columns += [] if known is None else [known.people, known.images]
    rest = embeddings.names_rule, None if known is None else (known.named, known.gap)
    return [*(None if column is None else column.tolist() for column in columns), *rest]
