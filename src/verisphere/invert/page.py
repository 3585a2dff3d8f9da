"""The page about an inversion: `index.html` and `plots/` in its folder."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from torch import Tensor

from verisphere.invert.likeness import Compared
from verisphere.invert.marks import marked
from verisphere.report.inversion_findings import InversionFindings, InversionPage, Shown
from verisphere.report.inversion_sections import inversion_page
from verisphere.report.pictures import data_uri

PAGE = "index.html"
_MOST_SHOWN = 64


def write_page(
    findings: InversionFindings,
    pixels: UInt8[Tensor, "count 3 height width"],
    photos: Sequence[UInt8[Tensor, "3 height width"]],
    compared: Compared | None,
    out: Path,
) -> None:
    """Write `index.html`, one file without scripts, and `plots/` into the folder of an inversion.

    Args:
        findings: the figures.
        pixels: the images, not marked; the first few are shown, marked.
        photos: the photograph of each image; or an empty list.
        compared: the comparison under the judge, or without one under the model itself; None without photographs.
        out: the folder.
    """
    to_own = [] if compared is None else compared.to_own
    means = (
        [None] * len(pixels)
        if compared is None
        else [
            float(row[stranger].mean()) if stranger.any() else None
            for row, stranger in zip(compared.cosines, compared.strangers, strict=True)
        ]
    )
    shown = [
        Shown(
            findings.images[place],
            findings.people[place],
            data_uri(marked(pixels[place])),
            data_uri(photos[place]) if photos else None,
            float(to_own[place].mean()) if to_own else None,
            means[place],
        )
        for place in range(min(len(pixels), _MOST_SHOWN))
    ]
    contents = InversionPage(
        findings,
        shown,
        np.concatenate(to_own).tolist() if to_own else [],
        [] if compared is None else compared.cosines[compared.strangers].tolist(),
    )
    inversion_page(contents).write(out / PAGE)
