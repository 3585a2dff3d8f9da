"""A living gallery under another model: photographs that were kept are embedded anew, other rows cross a bridge."""

import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float32, Int64
from PIL import Image

from verisphere.base.provenance import check_recorded, check_same_origin, unrecorded
from verisphere.base.vocabulary import ImageSource, Origin, Progress, quietly
from verisphere.base.words import counted, printable
from verisphere.decide import Far, Guarantee
from verisphere.files.bridge import Bridge
from verisphere.files.json_values import shown
from verisphere.files.results import Result
from verisphere.models.folder import Model
from verisphere.score import unit_rows
from verisphere.ship.calibrated_files import EmbeddingsSet
from verisphere.ship.calibration_check import NOTHING, Accepted
from verisphere.ship.living.gallery import LivingGallery
from verisphere.ship.living.promise import omitted
from verisphere.ship.living.records import GalleryInfo

_EMBEDDED_AT_ONCE = 1 << 8


class LeftBehindError(ValueError):
    """Nothing of these people can be carried over, and they were not to be dropped; none where nobody would be lost."""

    def __init__(self, message: str, people: Sequence[str]) -> None:
        super().__init__(message)
        self.people = tuple(people)


@dataclass(frozen=True)
class Migrated(Result):
    """What a gallery became under another model: photographs by their road, and people of whom nothing was left.

    Those dropped are of people with other photographs; people of the strangers' file who fitted the bridge are omitted.
    """

    embedded: int
    carried: int
    dropped: int
    people_left: tuple[str, ...]
    fitted: int
    info: GalleryInfo

    def text(self) -> str:
        """The photographs by their road, who was left behind, and the gallery with its new promise."""
        roads = [
            f"{counted(self.embedded, 'photograph')} embedded anew",
            f"{counted(self.carried, 'row')} carried over by the bridge",
        ]
        roads += [f"{counted(self.dropped, 'photograph')} dropped"] if self.dropped else []
        left = [f"{omitted(self.fitted)}."] if self.fitted else []
        if self.people_left:
            left += ["No longer enrolled, as nothing of them could be carried over:", *map(printable, self.people_left)]
        return "\n".join([f"{', '.join(roads)}.", *left, self.info.text()])


def migrate(
    gallery: LivingGallery,
    model: Model,
    strangers: EmbeddingsSet,
    bridge: Bridge | None = None,
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
    the rows as they then are; people on whom the bridge was fitted are none of them. FPIR and guarantee stay as they
    are unless they are given. Without a bridge, photographs whose image was not kept are dropped, or nothing is done.
    """
    store = gallery.store
    origin = _origin(gallery, model)
    check_recorded(strangers.name, strangers.origin, accepted.unrecorded_pixels)
    check_same_origin(f"{model.folder} embeds", origin, strangers.name, strangers.origin, "embed with the new model")
    if bridge is not None:
        named = f"the bridge from {bridge.old_source.file} to {bridge.new_source.file}"
        for side in (bridge.old, bridge.new):
            check_recorded(named, side, accepted.unrecorded_pixels)
        gallery.promise.check_origin(named, bridge.old, "make one from its model")
        check_same_origin(f"{model.folder} embeds", origin, named, bridge.new, "make one to this model")
    migrations = 1 + (gallery.promise.migrations or 0)
    with store.writing():
        gallery.promise.check_model()
        left, dropped = ([], []) if bridge is not None else _left_behind(gallery, drop)
        kept = np.array(store.select("SELECT slot FROM photographs WHERE image IS NOT NULL ORDER BY slot"), np.int64)
        embedded = _embedded(gallery, model, kept.flatten().tolist(), progress)

        def convert(slots: Int64[np.ndarray, " some"], former: Float32[np.ndarray, "some dim"]) -> np.ndarray:
            rows = np.empty((len(slots), embedded.shape[1]), np.float32) if bridge is None else bridge.apply(former)
            anew = np.isin(slots, kept)
            rows[anew] = embedded[np.searchsorted(kept.flatten(), slots[anew])]
            return rows

        store.rewrite(convert, model.backbone.embedding_size)
        store.set_fact("origin", origin)
        carried = store.count("photographs") - len(kept)
        enrolled: list[Origin | None] = [origin]
        if bridge is not None and carried:
            before, new = (bridge.old, *gallery.promise.enrolled), bridge.new
            if new is not None and unrecorded(*before):
                new = replace(new, preprocessing=None)
            enrolled += [new, None] if None in before else [new]
        store.set_fact("enrolled", enrolled)
        of_map = {*(store.fact("fitted") or ()), *bridge.fitted} if bridge is not None and carried else ()
        store.set_fact("fitted", sorted(of_map))
        fitted = gallery.promise.set_strangers(strangers, fpir, guarantee, seed, accepted)
        store.set_fact("migrations", migrations)
    gallery.promise.migrations = migrations
    with suppress(OSError, ValueError), store.writing():
        pass  # the rows of before are removed; where the disk or another writer hinders it, by the next change
    return Migrated(len(kept), carried, len(dropped), tuple(left), fitted, gallery.info())


def _origin(gallery: LivingGallery, model: Model) -> Origin:
    """How the rows are made under another model: of kept crops, else of crops as the model takes them."""
    kept = gallery.store.select("SELECT 1 FROM photographs WHERE image IS NOT NULL LIMIT 1")
    known = [made.alignment for made in gallery.promise.origins if kept and made.alignment]
    made = model.origin(ImageSource("", None, (*known, None)[0]))
    if made.source.template not in (None, model.template):
        raise ValueError(
            f"{gallery.path}: its kept crops are aligned to {made.source.template}, and {model.folder} takes "
            f"{model.template}, so they cannot be embedded anew: enrol the photographs again"
        )
    return made


def _left_behind(gallery: LivingGallery, drop: bool) -> tuple[list[str], list[tuple[int]]]:
    """Remove photographs without an image, unless it is refused: people who had no other, and slots of the others'."""
    store, without = gallery.store, "FROM photographs WHERE image IS NULL"
    there = "SELECT person FROM photographs WHERE image IS NOT NULL"
    names = [name for (name,) in store.select(f"SELECT name FROM people WHERE person NOT IN ({there}) ORDER BY name")]
    lacking = int(store.select(f"SELECT count(*) {without}")[0][0])
    if lacking and not drop:
        who = f"{counted(len(names), 'person')} would be lost, such as {shown(names[0])}" if names else "nobody is lost"
        raise LeftBehindError(
            f"{gallery.path}: no image was kept of {counted(lacking, 'photograph')}, so they cannot be embedded anew "
            f"({who}); carry their rows over by --bridge, or say --drop",
            names,
        )
    gallery.remove(names)
    dropped = store.select(f"SELECT slot {without}")
    store.change("INSERT INTO removed VALUES (?)", dropped)
    store.change(f"DELETE {without}")
    return names, dropped


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
        parts.append(unit_rows(model.embed(np.stack(crops))).numpy())
    return np.concatenate(parts)
