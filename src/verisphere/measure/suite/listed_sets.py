"""Published sets with lists of pairs: the LFW family, and verification sets of InsightFace."""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from verisphere.base.vocabulary import NOBODY, printable
from verisphere.files.images_json import read_source
from verisphere.files.pair_lists.layouts import read_pairs
from verisphere.files.pair_lists.pair_list import PairList
from verisphere.files.results import Result
from verisphere.files.text import numbered_lines
from verisphere.images.packs.bin_pairs import BIN
from verisphere.measure.evaluate import Options
from verisphere.measure.listed import evaluate_pairs
from verisphere.measure.suite.images import SetImages, find_images
from verisphere.measure.suite.task import SuiteOptions, Task

log = logging.getLogger(__name__)

#: FARs at which the sets of the LFW family are published; their few thousand impostors resolve no lower ones.
FARS = ("1e-2", "1e-3")
_VIEW_2 = 6_000  # pairs of LFW's View 2
_RFW_GROUPS = ("African", "Asian", "Caucasian", "Indian")


def lists_below(place: Path, pattern: str) -> list[Path]:
    """Files and folders of a set that fit a pattern, in its folder or else one level below."""
    for levels in ("", "*/"):
        if paths := sorted(place.glob(levels + pattern)):
            return paths
    return []


def find_listed(place: Path, pattern: str, name: str = "", note: str = "") -> Iterator[Task]:
    """A set with a list of pairs, whose images lie anywhere below the set's folder.

    Where several folders below that one have such a list, each is a set with the name of its folder after that of the
    first, and its images are looked for in its own folder first. `pattern` is the list, a file or, as for CFP and RFW,
    a folder. `note` is a remark on a peculiarity of the published list; if it is given, repeated pairs are kept.
    """
    paths = lists_below(place, pattern)
    for path in paths:
        title = part = name or place.name
        below = path.relative_to(place).parts[0]
        if path != paths[0]:
            title, part = f"{title} ({place.name}/{below})", f"{title}-{place.name}-{below}"
        home = place / below if len(paths) > 1 else place
        yield pairs_task(title, place, {part: partial(_listed_images, path, home)}, (path,), note)


def find_lfw(place: Path) -> Iterator[Task]:
    """LFW: a `pairs.txt` with the numbers of View 2, or in a folder named LFW; any other takes its folder's name.

    The name `pairs.txt` alone does not identify a list of LFW, and only LFW may count for the combined figure.
    """
    lists = lists_below(place, "pairs.txt")
    called_so = re.search(r"(?<![a-z])lfw", place.name.lower()) is not None
    view_2 = any(_is_view_2(path) for path in lists if path.is_file())
    yield from find_listed(place, "pairs.txt", "lfw" if called_so or view_2 else "")


def _is_view_2(path: Path) -> bool:
    """Whether a list has the header of LFW's View 2, ten folds of 300 pairs of a kind, or as many lines without it."""
    try:
        lines = [text for _, text in numbered_lines(path)]
    except (ValueError, OSError):
        return False  # its faults are reported where it is read
    return len(lines) == _VIEW_2 or (len(lines) == _VIEW_2 + 1 and lines[0].split() == ["10", "300"])


def find_rfw(place: Path) -> Iterator[Task]:
    """RFW, with a note if lists of its four groups are missing."""
    for task in find_listed(place, "test/txts", "rfw"):
        there = {path.parent.name for path in task.pairs[0].glob("*/*_pairs.txt")}
        lacking = [group for group in _RFW_GROUPS if group not in there]
        note = f"of the published groups, {', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not there"
        yield replace(task, notes=(note,)) if lacking else task


def find_bin(place: Path) -> Iterator[Task]:
    """A verification set of InsightFace, which is one file."""
    if place.suffix.lower() == ".bin" and place.is_file():
        yield pairs_task(place.stem, place, {place.stem: partial(_packed_images, place)}, (place,))


def pairs_task(
    name: str, place: Path, parts: dict[str, Callable[[Path], SetImages]], lists: tuple[Path, ...], note: str = ""
) -> Task:
    """A set that `verisphere evaluate pairs` measures; several lists are pooled, each a domain.

    There is one list for each part. `note` is what is unusual about the list; if it is given, repeated pairs are kept.
    """
    return Task(
        name,
        place,
        parts,
        partial(evaluate_lists, lists=lists, keep_repeated=bool(note)),
        partial(command_of_lists, lists=lists, keep_repeated=bool(note)),
        lists,
        (note,) if note else (),
    )


def evaluate_lists(
    embeddings: Sequence[Path], options: SuiteOptions, *, lists: Sequence[Path], keep_repeated: bool
) -> Result:
    """The figures of lists of pairs, each with its embeddings file."""
    asked = Options(
        options.fars or FARS,
        options.rule,
        progress=options.progress,
        keep_repeated=keep_repeated,
        feature_norm=options.feature_norm,
    )
    if len(lists) == 1:
        return evaluate_pairs(embeddings[0], lists[0], asked)
    return evaluate_pairs(list(embeddings), list(lists), asked)


def command_of_lists(
    embeddings: Sequence[Path], options: SuiteOptions, *, lists: Sequence[Path], keep_repeated: bool
) -> list[str]:
    """The command that repeats `evaluate_lists`."""
    words = ["verisphere", "evaluate", "pairs", *map(str, embeddings)]
    words += [word for path in lists for word in ("--pairs", str(path))] + options.words(options.fars or FARS)
    return [*words, "--keep-repeated"] if keep_repeated else words


def _listed_images(path: Path, place: Path, root: Path) -> SetImages:
    """Every image that a list names, once, in the order of the list; for videos every frame.

    The person of an image is its folder, if it has one folder and no label of the list contradicts that; else only the
    list states who is compared.
    """
    pairs = read_pairs(path)
    names = list(dict.fromkeys(name for pair in zip(pairs.left, pairs.right, strict=True) for name in pair))
    where, files, positions = find_images(names, place, root, pairs.videos)
    listed = files.keep(np.concatenate(positions))
    source = read_source(where, listed.names)
    if not pairs.videos:
        return SetImages(listed, tuple(names), _people_by_folder(pairs, names), source)
    videos = tuple(name for name, frames in zip(names, positions, strict=True) for _ in frames)
    frames = (f"{video}/{path.rpartition('/')[2]}" for video, path in zip(videos, listed.names, strict=True))
    return SetImages(listed, tuple(frames), (NOBODY,) * len(videos), source, templates=videos)


def _people_by_folder(pairs: PairList, names: Sequence[str]) -> tuple[str, ...]:
    person = {name: name.split("/")[0] if name.count("/") == 1 else NOBODY for name in names}
    sides = zip(pairs.left, pairs.right, pairs.genuine, strict=True)
    both = ((person[left], person[right], genuine) for left, right, genuine in sides)
    wrong = sum(NOBODY not in (left, right) and (left == right) != genuine for left, right, genuine in both)
    if wrong:
        log.warning(
            "%s: folders are not taken for people, which %d labels contradict, nor compared with the training's people",
            printable(str(pairs.source)),
            wrong,
        )
    return tuple(NOBODY if wrong else person[name] for name in names)


def _packed_images(path: Path, root: Path) -> SetImages:
    pack = BIN.read(path)
    return SetImages(pack.files, tuple(pack.names), tuple(pack.identities), pack.source)
