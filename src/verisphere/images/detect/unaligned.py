"""A warning about images that do not look like aligned crops, once for each set; nothing is refused.

A network that gets photographs in place of aligned crops trains and embeds without an error, but its figures are worth
little. So a sample of every set that is not recorded as drawn or aligned is examined. That takes about half a second
and only logs a warning, so there is no option to disable it.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from verisphere.base.vocabulary import ImageSource
from verisphere.files.image_suffixes import SUFFIXES
from verisphere.files.images_json import read_source
from verisphere.images.decode import decode
from verisphere.images.detect.placement import SAMPLE, Image, checking_detector, doubt_alignment, template_of_size
from verisphere.images.faces import Faces
from verisphere.images.packs.image_files import FilesOnDisk, image_files
from verisphere.images.select import even_steps

log = logging.getLogger(__name__)

_NAMED_IMAGES = 3  # images that the warning names


def warn_if_unaligned(*sets: Faces | None) -> str:
    """Warns where a sample of a set does not look aligned to the template of its size."""
    return " ".join(filter(None, (_check_sample(faces) for faces in sets if faces is not None and len(faces))))


def _check_sample(faces: Faces) -> str:
    source = faces.source
    if source.drawn:
        return ""
    rows = even_steps(len(faces), SAMPLE).tolist()
    try:
        pixels = faces.images(rows)
    except ValueError:  # the user of the image reports it
        return ""
    images = [image.permute(1, 2, 0).numpy() for image in pixels]
    return _warn(images, [faces.names[row] for row in rows], source)


def warn_if_files_unaligned(path: Path, size: tuple[int, int], *, drawn: bool = False) -> None:
    """Warns in the same way about photographs that a verb takes as aligned: an image, a folder or an archive.

    `drawn` says that the model was trained on drawn faces: a few images are then not judged, as they may be drawn too.
    """
    single = not path.is_dir() and path.suffix.lower() != ".zip"
    if single and path.suffix.lower() not in SUFFIXES:
        return
    try:
        files = FilesOnDisk(path.parent, (path.name,)) if single else image_files(path)
        source = read_source(path, files.names)
        rows = even_steps(len(files.names), SAMPLE).tolist()
        read = zip([files.names[row] for row in rows], files.read(rows), strict=True)
        images = [(name, decode(data, label)) for name, (label, data) in read]
    except (ValueError, OSError):  # the user of the images reports it
        return
    fitting = [(name, pixels) for name, pixels in images if pixels.shape[:2] == size]
    if not source.drawn:
        where = replace(source, place=str(path))
        _warn([pixels for _, pixels in fitting], [name for name, _ in fitting], where, photographs=not drawn)


def _warn(images: Sequence[Image], names: Sequence[str], source: ImageSource, photographs: bool = False) -> str:
    template = template_of_size(images[0].shape[:2]) if images else None
    if template is None or (source.alignment or "").split(" by ")[0] == template.name:
        return ""
    doubt = doubt_alignment(images, template, checking_detector(), photographs=photographs)
    if doubt is None:
        return ""
    shown = ", ".join(names[position] for position in doubt.examples[:_NAMED_IMAGES])
    warning = (
        f"{source.place}: these do not look like aligned faces: {doubt.reason}; the furthest: {shown}. Figures of a "
        "model that takes them so are worth little; align them first: verisphere align"
    )
    log.warning("%s", warning)
    return warning
