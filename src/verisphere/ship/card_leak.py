"""The paragraph of a model card on the faces that can be recovered from the model."""

from collections.abc import Iterator
from pathlib import Path

from verisphere.files.leak_figures import read_leak
from verisphere.report.markdown import plain
from verisphere.report.tables import number

LEAK = "leak.json"
_FROM = {"embeddings": "embeddings of photographs", "head": "class centers", "folder": "the network alone"}


def leak_section(folder: Path, source: str | None) -> Iterator[str]:
    """A paragraph on how well faces recovered from the model match their people, or a note that this was not tested.

    Args:
        folder: folder with the figures.
        source: reference to their file; None where it is not there.

    Raises:
        ValueError: the figures have another format.
    """
    if source is None:
        yield "How well faces can be recovered from this model was not tested (`verisphere leak` tests it)."
        return
    figures = read_leak(folder / LEAK)
    found = [
        f"from {_FROM[row.source]} {row.points[-1].genuine_accepted} of {row.points[-1].genuine_total} "
        f"(95 % {number(row.points[-1].tar_lower_95, 3)} .. {number(row.points[-1].tar_upper_95, 3)})"
        for row in figures.rows
        if row.source in _FROM
    ]
    real = [row.points[-1].tar for row in figures.rows if row.source == "photographs" and row.points]
    photographs = f"; of photographs {number(real[0], 3)}" if real else ""
    yield (
        f"Faces recovered from it were taken for their people by a second model ({plain(figures.judge)}), at its "
        f"threshold for FAR {figures.rows[-1].points[-1].far_target}: {', '.join(found)}{photographs}. "
        f"(From {source}.)"
    )
