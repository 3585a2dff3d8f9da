"""A living gallery under another model: photographs that were kept are embedded anew, other rows cross a bridge."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Float32, Int64
from PIL import Image

from verisphere.base.provenance import check_same_origin
from verisphere.base.vocabulary import ImageSource, Origin, Progress, quietly
from verisphere.base.words import counted
from verisphere.decide import Far, Guarantee
from verisphere.files.json_values import shown
from verisphere.files.results import Result
from verisphere.models.folder import Model
from verisphere.ship.calibrated_files import EmbeddingsSet
from verisphere.ship.calibration_check import NOTHING, Accepted
from verisphere.ship.living.gallery import LivingGallery
from verisphere.ship.living.records import GalleryInfo, NewPhotographs
from verisphere.ship.notes import first_few

_EMBEDDED_AT_ONCE = 1 << 8


class RowsCarried(Protocol):
    """A map from the rows of an old model to unit rows of a new one; see `verisphere.files.bridge.Bridge`."""

    old: Origin | None
    new: Origin | None

    def apply(self, rows: Float32[np.ndarray, "rows old"]) -> Float32[np.ndarray, "rows new"]:
        """The rows in the space of the new model."""


@dataclass(frozen=True)
class Migrated(Result):
    """What a gallery became under another model.

    Attributes:
        embedded: photographs that were kept, and embedded anew.
        carried: photographs whose rows crossed the bridge.
        dropped: photographs that could not be carried over, of people with others that could.
        people_left: people of whom nothing could be carried over; they are no longer enrolled.
        info: the gallery as it is now.
    """

    embedded: int
    carried: int
    dropped: int
    people_left: tuple[str, ...]
    info: GalleryInfo

    def text(self) -> str:
        """The photographs by their road, who was left behind, and the gallery with its new promise."""
        roads = [
            f"{counted(self.embedded, 'photograph')} embedded anew",
            f"{counted(self.carried, 'row')} carried over by the bridge",
        ]
        roads += [f"{counted(self.dropped, 'photograph')} dropped"] if self.dropped else []
        left = first_few(self.people_left, "No longer enrolled, as nothing of them could be carried over")
        return "\n".join([f"{', '.join(roads)}.", *left, self.info.text()])


def migrate(
    gallery: LivingGallery,
    model: Model,
    strangers: EmbeddingsSet,
    bridge: RowsCarried | None = None,
    *,
    drop: bool = False,
    fpir: Far | None = None,
    guarantee: Guarantee | None = None,
    seed: int = 0,
    accepted: Accepted = NOTHING,
    progress: Progress = quietly,
) -> Migrated:
    """Change the model of a gallery, with all rows, strangers and the promise, completely or not at all.

    The strangers are embedded by the new model, so that the promise is about photographs that it embeds, searched among
    the rows as they then are. FPIR and guarantee stay as they are unless they are given.

    Raises:
        ValueError: somebody cannot be carried over and is not to be dropped; the bridge is of other models; kept crops
            have another size than the model takes; or the strangers cannot give the promise.
    """
    store = gallery.store
    alignment = None if gallery.origin is None else gallery.origin.alignment
    origin = model.origin(ImageSource(gallery.path.name, None, alignment))
    if bridge is not None:
        check_same_origin(f"{gallery.path} was", gallery.origin, "bridge", bridge.old, "make one from its model")
        check_same_origin(f"{model.folder} embeds", origin, "bridge", bridge.new, "make one to this model")
    with store.writing():
        left, dropped = _refuse_left(gallery, bridge is not None, drop)
        store.change("INSERT INTO removed VALUES (?)", [(slot,) for slot in dropped])
        store.change("DELETE FROM photographs WHERE slot = ?", [(slot,) for slot in dropped])
        kept = [slot for (slot,) in store.select("SELECT slot FROM photographs WHERE image IS NOT NULL ORDER BY slot")]
        with_image = np.array(kept, np.int64)
        rows = _embedded(gallery, model, kept, progress)

        def convert(slots: Int64[np.ndarray, " some"], former: Float32[np.ndarray, "some dim"]) -> np.ndarray:
            fresh = np.isin(slots, with_image)
            converted = np.empty((len(slots), model.backbone.embedding_size), np.float32)
            converted[fresh] = rows[np.searchsorted(with_image, slots[fresh])]
            if bridge is not None and not fresh.all():
                converted[~fresh] = bridge.apply(former[~fresh])
            return converted

        store.rewrite(convert, model.backbone.embedding_size)
        store.set_fact("origin", origin)
        terms = gallery.promise.terms
        gallery.promise.set_strangers(strangers, fpir or terms.fpir, guarantee or terms.guarantee, seed, accepted)
    gallery.origin = origin
    carried = store.count("photographs") - len(kept)
    return Migrated(len(kept), carried, len(dropped) - left[1], left[0], gallery.info())


def _refuse_left(gallery: LivingGallery, bridged: bool, drop: bool) -> tuple[tuple[tuple[str, ...], int], list[int]]:
    """Remove people who cannot be carried over, unless it is refused: their names, and how many photographs they had.

    Further photographs that cannot be carried over are given by their slots.
    """
    if bridged:
        return ((), 0), []
    store = gallery.store
    lacking = store.select("SELECT slot, person FROM photographs WHERE image IS NULL ORDER BY slot")
    has = {person for (person,) in store.select("SELECT DISTINCT person FROM photographs WHERE image IS NOT NULL")}
    lost = sorted({person for _, person in lacking} - has)
    names = sorted(name for (name,) in store.among("SELECT name FROM people WHERE person IN", lost))
    if lacking and not drop:
        who = f"{counted(len(names), 'person')} would be lost, such as {shown(names[0])}" if names else "nobody is lost"
        many = counted(len(lacking), "photograph")
        raise ValueError(
            f"{gallery.path}: no image was kept of {many}, so they cannot be embedded anew ({who}); carry their rows "
            "over by --bridge, or say --drop"
        )
    removed = gallery.remove(names) if names else 0
    return (tuple(names), removed), [slot for slot, person in lacking if person in has]


def _embedded(
    gallery: LivingGallery, model: Model, slots: Sequence[int], progress: Progress
) -> Float32[np.ndarray, "photographs dim"]:
    """The kept photographs with these slots as unit rows of another model."""
    size, parts = model.backbone.input_size, [np.empty((0, model.backbone.embedding_size), np.float32)]
    starts = range(0, len(slots), _EMBEDDED_AT_ONCE)
    for start in progress(starts, "embedding anew", len(starts)):
        part = slots[start : start + _EMBEDDED_AT_ONCE]
        images = dict(gallery.store.among("SELECT slot, image FROM photographs WHERE slot IN", part))
        crops = [np.asarray(Image.open(io.BytesIO(images[slot])).convert("RGB")) for slot in part]
        if other := [crop.shape[:2] for crop in crops if crop.shape[:2] != size]:
            raise ValueError(
                f"{gallery.path}: a kept crop has {other[0][1]} x {other[0][0]} pixels and {model.folder} takes "
                f"{size[1]} x {size[0]}, so it cannot be embedded anew: enrol the photographs again"
            )
        parts.append(NewPhotographs.units(model.embed(np.stack(crops))))
    return np.concatenate(parts)
