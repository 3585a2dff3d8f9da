"""The table of published sets: how each is recognised in a folder, and the function that finds it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from verisphere.measure.suite.listed_sets import find_bin, find_lfw, find_listed, find_rfw
from verisphere.measure.suite.searched_sets import find_groups, find_ijb, find_megaface, find_tinyface
from verisphere.measure.suite.task import Task


@dataclass(frozen=True)
class KnownSet:
    """The description by which a published set is recognised.

    `find` returns the tasks of a sub-folder, or of a file beside the sub-folders; empty if it is another set.
    """

    name: str
    recognised: str
    find: Callable[[Path], Iterator[Task]]


def _listed(name: str, pattern: str, note: str = "") -> KnownSet:
    return KnownSet(name, pattern, partial(find_listed, pattern=pattern, name=name, note=note))


#: Every set that a suite knows, in the order of its table; a new one is one entry here.
KNOWN_SETS = (
    KnownSet("lfw", "pairs.txt, of View 2 or in a folder called LFW; else under the name of its folder", find_lfw),
    _listed("sllfw", "pair_SLLFW.txt"),
    _listed("calfw", "pairs_CALFW.txt"),
    _listed("cplfw", "pairs_CPLFW.txt"),
    KnownSet("agedb_30", "NAME.bin, a verification set of InsightFace, under its name", find_bin),
    _listed("cfp_ff", "Protocol/Split/FF", "the published list has repeated pairs, which count as they are listed"),
    _listed("cfp_fp", "Protocol/Split/FP"),
    _listed("xqlfw", "xqlfw_pairs.txt"),
    _listed("ytf", "splits.txt"),
    KnownSet("rfw", "test/txts", find_rfw),
    KnownSet("tinyface", "Testing_Set/Gallery_Match", find_tinyface),
    KnownSet("ijbb", "meta/ijbb_face_tid_mid.txt", partial(find_ijb, prefix="ijbb")),
    KnownSet("ijbc", "meta/ijbc_face_tid_mid.txt", partial(find_ijb, prefix="ijbc")),
    KnownSet("megaface", "facescrub_lst", find_megaface),
    KnownSet("your own list", "pairs.csv, under the name of its folder", partial(find_listed, pattern="pairs.csv")),
)
#: Tried if a sub-folder has no set of the table.
GROUPS = KnownSet("groups", "GROUP/Name/image, under the name of its folder", find_groups)


def find_sets(folder: Path, *excluded: Path | None) -> tuple[list[Task], tuple[str, ...]]:
    """The sets of a folder, in the order of the table, and the names of its entries that are no known set.

    A list beside the sub-folders is no set, since its images could be those of any sub-folder.

    If two sets, or their embeddings files, have the same name, the name of the second is followed by that of its folder
    or file. `excluded` paths are skipped, such as the folder of embeddings files.
    """
    hidden = {path.resolve() for path in excluded if path is not None}
    places = [
        path
        for path in sorted(folder.iterdir())
        if not path.name.startswith(".") and path.resolve() not in hidden and (path.is_dir() or _is_set(path))
    ]
    tasks: list[tuple[int, Task]] = []
    unknown = []
    for place in places:
        here = [(order, task) for order, known in enumerate(KNOWN_SETS) for task in known.find(place)]
        if not here and place.is_dir():
            here = [(len(KNOWN_SETS), task) for task in GROUPS.find(place)]
        if not here:
            unknown.append(place.name)
        tasks += here
    loose = {path.name for known in KNOWN_SETS for task in known.find(folder) for path in task.pairs}
    unknown += sorted(name for name in loose if (folder / name).is_file() and not _is_set(folder / name))
    named: dict[str, Task] = {}
    files: set[str] = set()
    for _, task in sorted(tasks, key=lambda entry: entry[0]):
        while task.name in named or not files.isdisjoint(task.parts):
            parts = {f"{part}-{task.place.name}": find for part, find in task.parts.items()}
            task = replace(task, name=f"{task.name} ({task.place.name})", parts=parts)
        named[task.name] = task
        files.update(task.parts)
    return list(named.values()), tuple(unknown)


def _is_set(path: Path) -> bool:
    return path.suffix.lower() == ".bin" and path.is_file()
