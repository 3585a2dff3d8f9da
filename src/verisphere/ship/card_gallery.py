"""The part of a model card about the threshold of a gallery."""

from collections.abc import Iterator
from pathlib import Path

from verisphere.files.gallery_calibration import read_gallery_calibration
from verisphere.models.model_json import GALLERY
from verisphere.report.gallery_tables import AGAIN, gallery_thresholds_table
from verisphere.report.markdown import plain
from verisphere.ship.card_words import readable


def gallery_section(folder: Path, source: str | None) -> Iterator[str]:
    """The thresholds of a gallery with what they promise; nothing for a model without them.

    Args:
        folder: folder of the model.
        source: the reference to the file of the calibration; None if there is none.
    """
    if source is None:
        return
    calibration = read_gallery_calibration(folder / GALLERY)
    warning = calibration.thresholds[0].warning()
    yield "## Threshold of a gallery"
    if warning:
        yield f"**{plain(warning[0].upper() + warning[1:])}.**"
    yield gallery_thresholds_table(calibration)
    yield "\n".join(
        f"- FPIR {found.fpir_target}: {readable(found.meaning())}; {readable(found.misses())}."
        for found in calibration.thresholds
    )
    if calibration.origin is None:
        yield "Nothing ties it to this model: its calibration does not say which model made the strangers' embeddings."
    yield (
        f"It holds for the gallery {plain(calibration.gallery.file)} alone ({calibration.gallery}), which "
        f"`verisphere identify` checks; the gallery is not inside. {AGAIN} From {source}."
    )
