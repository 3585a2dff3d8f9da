"""SLLFW's list of pairs: images of LFW, one per line, two lines for each pair.

Layout: `pair_SLLFW.txt` (Deng et al. 2017, Fine-grained face verification; whdeng.cn/SLLFW). For each fold 300 genuine
pairs and then 300 of people who look alike; there is neither a header nor a label.
"""

from collections.abc import Sequence
from pathlib import Path

from verisphere.files.json_values import shown
from verisphere.files.pair_lists.pair_list import Layout, PairList
from verisphere.files.pair_lists.runs import folds_of_runs, two_lines_a_pair
from verisphere.files.text import numbered_lines


def _looks(path: Path, head: Sequence[str]) -> bool:
    return bool(head) and len(head[0].split()) == 1 and "/" in head[0] and "," not in head[0]


def _read(path: Path) -> PairList:
    """Reads a list: a pair is genuine if both images lie in one folder."""
    lines = numbered_lines(path)
    for number, text in lines:
        folder, _, image = text.rpartition("/")
        if not folder or not image or len(text.split()) > 1:
            raise ValueError(f"{path}: line {number}: {shown(text, 100)} is not an image `Name/Name_0001.jpg`")
    pairs = two_lines_a_pair(path, lines)
    genuine = [left[1].rpartition("/")[0] == right[1].rpartition("/")[0] for left, right in pairs]
    numbers = tuple(left[0] for left, _ in pairs)
    rows = ((left[0], left[1], right[1], same) for (left, right), same in zip(pairs, genuine, strict=True))
    return PairList.of(path, rows, folds=folds_of_runs(path, genuine, numbers))


SLLFW = Layout("SLLFW", "Ann/Ann_0001.jpg", _looks, _read)
