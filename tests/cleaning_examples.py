"""The contents of a page about cleaning, by hand: six images of which two are dropped."""

from dataclasses import replace
from typing import Any

import numpy as np

from verisphere.report.cleaning_findings import (
    AtAngle,
    ByImages,
    Category,
    CleaningFindings,
    IdentityShown,
    NoiseDropped,
    Sheet,
    Shot,
    SubClass,
)


def degrees(*angles: float) -> np.ndarray:
    return np.array(angles, np.float32)


def contents(**changes: Any) -> CleaningFindings:
    """Two identities of three images each, one of them with two noisy images; 75 degrees drop both."""
    kept = Shot("Ann/1.jpg", "Ann", 40.0, kept=True, true_identity="Ann")
    beyond = Shot("Ann/2.jpg", "Ann", 90.0, kept=False, true_identity="Cid")
    whole = CleaningFindings(
        title="A cleaning",
        version="9.8.7",
        method="sub-centers of runs/k3",
        rule="Images at more than 75 degrees are dropped.",
        angle=75.0,
        images=6,
        kept=4,
        nobody=0,
        identities=2,
        sub_centers=3,
        empty=2,
        dropped={"more than 75 degrees": 2},
        lost=[],
        truth=NoiseDropped(noisy=2, clean=4, noisy_dropped=2, clean_dropped=0),
        at_angles=[
            AtAngle(70.0, 3, 1, NoiseDropped(2, 4, 2, 1)),
            AtAngle(75.0, 2, 0, NoiseDropped(2, 4, 2, 0)),
        ],
        by_images=[
            ByImages(1, 1, identities=0, lost=0, images=0, dropped=0, clean=0, clean_dropped=0),
            ByImages(3, 4, identities=2, lost=0, images=6, dropped=2, clean=4, clean_dropped=0),
        ],
        categories=[
            Category(True, False, degrees(10, 20, 30), degrees(10, 20, 30)),
            Category(True, True, degrees(80), degrees(80)),
            Category(False, False, degrees(40), degrees(20)),
            Category(False, True, degrees(90), degrees(35)),
        ],
        shown=[IdentityShown("Ann", 1, (SubClass(1, 2, 0, (kept,)), SubClass(0, 1, 1, (beyond,))), empty=1)],
        sheets_dropped=[Sheet("Dropped, largest angle first", 2, (beyond,))],
        sheets_kept=[Sheet("Kept, largest angle first", 4, (kept,))],
    )
    return replace(whole, **changes)
