"""All small sets in one folder, as `verisphere evaluate suite` finds the published ones."""

from pathlib import Path

from studies.protocols.published.pair_sets import (
    write_agedb,
    write_calfw,
    write_cfp,
    write_cplfw,
    write_lfw,
    write_rfw,
    write_sllfw,
    write_xqlfw,
    write_ytf,
)
from studies.protocols.published.pool import drawn_pool
from studies.protocols.published.searched_sets import write_groups, write_ijbc, write_megaface, write_tinyface
from verisphere.files.disk import write_whole
from verisphere.files.images_json import NAME, SYNTHETIC, images_json

#: What is written at each place below the folder.
WRITERS = {
    "lfw": write_lfw,
    "sllfw": write_sllfw,
    "calfw": write_calfw,
    "cplfw": write_cplfw,
    "agedb_30.bin": write_agedb,
    "cfp": write_cfp,
    "xqlfw": write_xqlfw,
    "ytf": write_ytf,
    "rfw": write_rfw,
    "tinyface": write_tinyface,
    "ijbc": write_ijbc,
    "megaface": write_megaface,
    "groups": write_groups,
}


def write_published_sets(folder: Path) -> None:
    """Draw the small sets into a folder that does not exist or is empty, in a few seconds; the folder appears whole.

    Raises:
        OSError: the folder holds something, or cannot be written.
    """
    pool = drawn_pool()

    def write(partial: Path) -> None:
        partial.mkdir()
        for place, writer in WRITERS.items():
            writer(pool, partial / place)
        (partial / NAME).write_text(images_json(SYNTHETIC.drawn, SYNTHETIC.alignment))

    write_whole(folder, write)
