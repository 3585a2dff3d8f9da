"""Published sets of face images, recognised by the names of files and folders, with their publishers' statements.

The sets are the rows of `known_sets.csv`. The notes repeat what could be found of public statements (pages of
publishers and their copies, read-me files, papers, reports on what went offline) when this version was made. They are
no legal advice; the current statement of the publisher counts.
"""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Literal, cast

Terms = Literal["withdrawn", "non-commercial", "research only", "not stated"]


@dataclass(frozen=True)
class KnownSet:
    """A set of face images that others have published.

    Attributes:
        words: names of files and folders that refer to the set, in lower case without marks between letters.
        terms: the narrowest known terms. `withdrawn`: the publisher no longer offers the set, or a set whose images it
            contains. `research only`: offered for research alone. `non-commercial`: offered for non-commercial use,
            such as research and education. `not stated`: no terms could be found.
    """

    name: str
    words: tuple[str, ...]
    terms: Terms
    note: str

    def line(self) -> str:
        """One line on the set and its terms."""
        return f"{self.name}; terms: {self.terms}; {self.note}"


def _known_sets() -> tuple[KnownSet, ...]:
    table = (files("verisphere.images.packs") / "known_sets.csv").read_text(encoding="utf-8")
    return tuple(
        KnownSet(row["name"], tuple(row["words"].split()), cast(Terms, row["terms"]), row["note"])
        for row in csv.DictReader(table.splitlines())
    )


KNOWN_SETS = _known_sets()
_BY_WORD = {word: known for known in KNOWN_SETS for word in known.words}

# Words that copies of any set have in their names: what was done to the images, which part they are, formats, and
# numbers such as 112x112, 00017, v2, part3.
_OF_A_COPY = re.compile(
    r"""
    align(ed)? | arcface | clean(ed)? | crop(s|ped)? | gr[ae]y | insightface | mask(ed)? | mtcnn | orig(inal)? | raw
    | retinaface | rgb | shuffled
    | benchmark | eval | full | gallery | mini | part | pairs? | probe | protocol | samples? | shards? | small | splits?
    | subset | test(ing|set|suite)? | tiny | train(ing|set)? | val(id|idation)?
    | bin | data(base|sets?)? | db | faces? | folders? | hf | idx | ima?ge?s? | jpe?g | kaggle | lists? | lmdb | lst
    | mdb | mxnet | pack(ed)? | parquet | png | public | rec(ordio)? | release | sets? | tar | tgz | wds
    | webdataset | zip | (fold|part|shard|split|v)? \d+ (x\d+)* (px|k|m)?
    """,
    re.VERBOSE,
)


def known_set(path: Path) -> KnownSet | None:
    """The published set that the name of a file or a folder refers to.

    A name refers to a set if it contains a name of the set and otherwise only words that copies of any set have: sizes,
    parts, formats (`faces_emore`, `lfw_112.zip`, `casia_webface_clean`). The longest name of a set is used. Any other
    word makes it another set (`lfw_ours`). If a name has only words of the second kind (`train.rec`, `images`), the
    name of the folder above it is examined in the same way. A name proves nothing about the content of the file.

    >>> known = known_set(Path("data/faces_emore/train.rec"))
    >>> known.name, known.terms
    ('MS1MV2 (InsightFace, MS1M-ArcFace)', 'withdrawn')
    >>> known_set(Path("lfw_ours/photos.zip")) is None
    True
    """
    path = path.absolute()
    for name in (path.name if path.is_dir() else path.stem, *(folder.name for folder in path.parents)):
        words = [word for word in re.split(r"[\W_]+", name.lower()) if word]
        if (known := _meant(words)) is not None:
            return known
        if not _of_a_copy(words):
            return None
    return None


def _meant(words: Sequence[str]) -> KnownSet | None:
    """The set with the longest name among consecutive words, if all other words are those of a copy."""
    for first, end in sorted(combinations(range(len(words) + 1), 2), key=lambda span: span[0] - span[1]):
        known = _BY_WORD.get("".join(words[first:end]))
        if known is not None and _of_a_copy([*words[:first], *words[end:]]):
            return known
    return None


def _of_a_copy(words: Sequence[str]) -> bool:
    """Whether all words are words that copies of any set have in their names."""
    return all(_OF_A_COPY.fullmatch(word) for word in words)
