"""A gallery that is opened: an embeddings file, or photographs of each person, found, cropped and embedded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from verisphere.base.identity import as_known, decided
from verisphere.base.vocabulary import Embeddings, ImageSource, Progress, quietly
from verisphere.base.words import Names
from verisphere.files.embeddings import note_crowds, read_known_people
from verisphere.files.errors import errors_naming
from verisphere.files.gallery_calibration import PromisedGallery
from verisphere.files.vectors import is_table
from verisphere.images.packs.columns import spelled_once
from verisphere.images.packs.image_files import ImageFiles, image_files
from verisphere.models.folder import Model
from verisphere.models.gallery import Gallery, row_digest
from verisphere.ship.face_search import (
    AlignedBy,
    FaceOfPhotograph,
    FindFaces,
    Pixels,
    Skipped,
    alignments_of,
    file_contents,
)
from verisphere.ship.people import photographs_in


@dataclass(frozen=True, eq=False)
class OpenedGallery:
    """A gallery, with people who have no photograph that can be compared, and such photographs."""

    path: Path
    gallery: Gallery
    left_out: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    @property
    def enrolled(self) -> Embeddings:
        """The rows."""
        return self.gallery.enrolled

    @property
    def names_rule(self) -> Names | None:
        """How names that are equal once folded were taken; None if nothing decided."""
        return self.enrolled.names_rule

    def promised(self) -> PromisedGallery:
        """The gallery as a calibration records it."""
        return PromisedGallery.of(self.path.name, len(self.gallery.people), self.gallery.digests, self.names_rule)

    def spelled(self, rows: Embeddings) -> "OpenedGallery":
        """The same gallery with its people spelled as here; its digests are those of the spelling in its files."""
        return self if rows is self.enrolled else replace(self, gallery=Gallery(rows, self.gallery.digests))


def is_embeddings(gallery: Path) -> bool:
    """Whether a gallery is an embeddings file, not a folder or archive of photographs."""
    return gallery.suffix.lower() == ".npz" or is_table(gallery)


def open_gallery(
    gallery: Path,
    model: Model | None = None,
    find: FindFaces | None = None,
    progress: Progress = quietly,
    check: Callable[[int, bool], object] | None = None,
) -> OpenedGallery:
    """The people of an embeddings file, or of a folder or zip archive with a folder of photographs for each person."""
    if is_embeddings(gallery):
        return OpenedGallery(gallery, Gallery(read_known_people(gallery)))
    if model is None or find is None:
        raise ValueError(f"{gallery}: photographs need the model that embeds them: name it by --model")
    files, owners = files_of_people(gallery)
    if check is not None:
        check(len(set(owners)), len(set(owners)) < len(owners))

    def find_central(photographs: Sequence[Pixels], names: Sequence[str]) -> list[FaceOfPhotograph]:
        return [replace(face, others=()) for face in find(photographs, names)]  # crops would pile up

    photographs = photographs_in(files, find_central, progress)
    with errors_naming(gallery):
        embeddings = photographs.embed(model)
    used = np.array([owners[place] for place in photographs.used])
    folders = [name.rpartition("/")[0] for name in files.unread]
    everybody = {*owners, *as_known(folders, owners, decided()).values()} - {""}
    contents = file_contents(files)
    how = (find.how if isinstance(find, AlignedBy) else "").encode()  # other crops are another gallery
    digests = [row_digest(owners[place], how + contents[place]()) for place in photographs.used]
    alignment = next(iter(alignments_of(find)), None)
    enrolled = Embeddings(
        embeddings,
        [photographs.names[place] for place in photographs.used],
        used,
        origin=model.origin(ImageSource(str(gallery), None, alignment)),
        names_rule=decided(),
        spelled=frozenset(owners),
    )
    left_out = tuple(sorted(everybody - set(used.tolist())))
    return OpenedGallery(gallery, Gallery(enrolled, np.array(digests, np.int64)), left_out, photographs.skipped)


def files_of_people(path: Path, person: str | None = None) -> tuple[ImageFiles, list[str]]:
    """The photographs of a folder or archive, and the person of each: the folder that it lies in, or this one."""
    files = image_files(path, "Name/image.jpg" if person is None else "")
    owners = [name.rpartition("/")[0] if person is None else person for name in files.names]
    if person is None and not all(owners):
        name = files.names[owners.index("")]
        raise ValueError(f"{path}: {name!r} lies in no person's folder; a gallery has one folder a person")
    with errors_naming(path):
        owners = list(spelled_once(owners, files.names, decided()))
    note_crowds(path, owners)
    return files, owners
