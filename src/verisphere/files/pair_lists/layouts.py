"""The table of layouts, and a list of pairs in any of them."""

import itertools
from pathlib import Path

from verisphere.files.disk import check_file
from verisphere.files.json_values import shown
from verisphere.files.pair_lists.calfw import CALFW
from verisphere.files.pair_lists.cfp import CFP
from verisphere.files.pair_lists.labels import LABEL_FIRST, LABEL_LAST
from verisphere.files.pair_lists.lfw import LFW
from verisphere.files.pair_lists.pair_list import Layout, PairList
from verisphere.files.pair_lists.rfw import RFW
from verisphere.files.pair_lists.sllfw import SLLFW
from verisphere.files.pair_lists.table import TABLE
from verisphere.files.pair_lists.ytf import YTF
from verisphere.files.text import text_lines

#: All layouts, in the order in which they are tried. A new layout is a file that defines a `Layout`, and its name here.
LAYOUTS: tuple[Layout, ...] = (TABLE, CFP, RFW, YTF, LABEL_LAST, LABEL_FIRST, LFW, SLLFW, CALFW)
_LINES_LOOKED_AT = 8


def read_pairs(path: str | Path) -> PairList:
    """The pairs of a list in any layout of `LAYOUTS`, recognised by its first lines, or its name for a folder."""
    path = Path(path)
    if path.suffix == ".mat":
        raise ValueError(f"{path}: MATLAB files are not read; write the pairs as CSV with left,right,label,fold")
    head: list[str] = []
    if not path.is_dir():
        check_file(path)
        with text_lines(path) as lines:
            head = [line.strip() for line in itertools.islice(filter(str.strip, lines), _LINES_LOOKED_AT)]
        if not head:
            raise ValueError(f"{path}: no pairs; the file is empty")
    for layout in LAYOUTS:
        if layout.looks(path, head):
            return layout.read(path)
    place, begins = ("", "a folder") if path.is_dir() else ("line 1: ", f"begins with {shown(head[0], 60)}")
    known = "; ".join(f"{layout.name} ({layout.example})" for layout in LAYOUTS)
    raise ValueError(f"{path}: {place}no known layout of a list of pairs: {begins}; known are {known}")
