"""A warning about images that do not look like aligned crops, once for each set; nothing is refused for it.

A network that is handed loose photographs in place of aligned crops trains and embeds without an error, and its figures
are worth nothing. So a sample of every set whose images were not drawn here is looked at, which takes well below a
second. There is no switch to turn it off: it changes nothing but the talk.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from verisphere.data.decode import decode
from verisphere.data.faces import Faces, Selection
from verisphere.data.image_files import FilesOnDisk, image_files
from verisphere.data.photos import Photos
from verisphere.data.synthetic import SyntheticFaces
from verisphere.detect.placement import SAMPLE, Image, checking_detector, doubt_alignment, template_of_size

log = logging.getLogger(__name__)

_SHOWN = 3  # images that the warning names


def warn_if_unaligned(faces: Faces) -> None:
    """Warn where a sample of a set does not look aligned to the template of its size.

    Drawn faces, and images of a size that no template has, are not looked at.

    Args:
        faces: the set.
    """
    if _drawn(faces) or not len(faces):
        return
    rows = _evenly(len(faces))
    try:
        pixels = faces.images(rows)
    except ValueError:  # whoever needs the image says so
        return
    place = str(faces.path) if isinstance(faces, Photos) else type(faces).__name__
    _warn([image.permute(1, 2, 0).numpy() for image in pixels], [faces.names[row] for row in rows], place)


def warn_if_files_unaligned(path: Path, size: tuple[int, int]) -> None:
    """The same of photographs that a verb takes as aligned: an image, or those of a folder or an archive.

    Args:
        path: an image file, a folder or a zip archive.
        size: (height, width) that the model takes; images of other sizes are left to whoever reads them.
    """
    one = not path.is_dir() and path.suffix.lower() != ".zip"
    try:
        files = FilesOnDisk(path.parent, (path.name,)) if one else image_files(path)
        rows = _evenly(len(files.names))
        read = zip([files.names[row] for row in rows], files.read(rows), strict=True)
        images = [(name, decode(data, label)) for name, (label, data) in read]
    except (ValueError, OSError):  # whoever needs the images says so
        return
    fitting = [(name, pixels) for name, pixels in images if pixels.shape[:2] == size]
    _warn([pixels for _, pixels in fitting], [name for name, _ in fitting], str(path), photographs=True)


def _evenly(count: int) -> list[int]:
    """Positions of up to `SAMPLE` images, evenly spaced."""
    return np.unique(np.linspace(0, count - 1, min(count, SAMPLE)).round().astype(np.int64)).tolist()


def _drawn(faces: Faces) -> bool:
    while isinstance(faces, Selection):
        faces = faces.faces
    return isinstance(faces, SyntheticFaces)


def _warn(images: Sequence[Image], names: Sequence[str], place: str, photographs: bool = False) -> None:
    template = template_of_size(images[0].shape[:2]) if images else None
    if template is None:
        return
    doubt = doubt_alignment(images, template, checking_detector(), photographs=photographs)
    if doubt is not None:
        shown = ", ".join(names[position] for position in doubt.examples[:_SHOWN])
        log.warning(
            "%s: these do not look like aligned faces: %s; the furthest: %s. Figures of a model that takes them so are "
            "worth little; align them first: verisphere align",
            place, doubt.reason, shown,
        )  # fmt: skip
