"""The purity file: a threshold of clusters, and what is promised of the clusters of the next library."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from verisphere.base.provenance import UNRECORDED, unrecorded
from verisphere.base.vocabulary import Embeddings, Origin, check_word
from verisphere.base.words import counted
from verisphere.decide.point import exact_rate
from verisphere.files.calibration import Source
from verisphere.files.documents import read_result
from verisphere.files.results import EvaluatedFile, Result, warnings_of

FORMAT = 1
KIND = "purity"


@dataclass(frozen=True)
class MergesNotMade:
    """Merges that were not made at the threshold, of clusters whose people were known."""

    least: float  # lowest score of these merges, above which it is that of the next ones
    merges: int
    wrong: int  # merges of clusters that are mostly of two different people


@dataclass(frozen=True)
class AtSize:
    """Libraries of a number of faces at the threshold: the means of their impurity, B-cubed recall and unsure share."""

    faces: int
    libraries: int
    impurity: float
    recall: float
    unsure: float


@dataclass(frozen=True)
class Purity(Result):
    """A threshold of clusters with a promise.

    The guarantee is `expected`: 95 % of calibrations and next libraries together keep it; or `confident`: with 95 %
    confidence 95 % of libraries keep it.
    """

    origin: Origin | None
    source: Source
    threshold: float
    impurity: str
    guarantee: str
    faces: int  # of a library
    libraries: int
    rank: int  # place of the threshold among the libraries' loosest ones; 1 is the strictest
    margin: float  # how much nearer to its own cluster than to another a face must be, or it is unsure
    seed: int
    sizes: tuple[AtSize, ...]  # the last row is of the size promised
    joined: tuple[MergesNotMade, ...]
    implausible: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()  # digests of the rows that it was chosen on; nothing is promised of them in another file

    def __post_init__(self) -> None:
        check_word("guarantee", self.guarantee, ("expected", "confident"))
        exact_rate(self.impurity, "an impurity")
        if not (-1 < self.threshold <= 1 and self.margin >= 0 and 1 <= self.rank <= self.libraries and self.faces > 1):
            raise ValueError(f"threshold {self.threshold}, margin {self.margin}, rank {self.rank}, faces {self.faces}")
        if not self.sizes:
            raise ValueError("no sizes")

    def promise_for(self, library: Embeddings, source: EvaluatedFile) -> str:
        """What is promised of a library, what weakens it first, and what it costs.

        Nothing is promised of a larger library, nor of the faces known.
        """
        faces = len(library)
        if source.sha256 == self.source.sha256:
            return "nothing is promised: the threshold was chosen on these faces"
        if known := len({*self.rows}.intersection(digests_of(library))):
            return f"nothing is promised: the threshold was chosen on {known:,} of these {counted(faces, 'face')}"
        told = f"promised: {self.promise()}; this one has {faces:,}"
        if faces > self.faces:
            told = (
                f"nothing is promised of {faces:,} faces, which are more than the {self.faces:,} of: {self.promise()}"
            )
        old = [f"a file was {UNRECORDED}"] if unrecorded(self.origin, source.origin) else []
        if None in (self.origin, source.origin):
            files = self.source.file if self.origin is None else source.file
            old.append(f"nothing in {files} says which model made it: that one model made both files is taken on trust")
        at = self.sizes[-1]
        cost = (
            f"on average the calibration libraries of {at.faces:,} faces have a B-cubed recall of {at.recall:.3f}, and "
            f"{100 * at.unsure:.2f} % of their faces are unsure"
        )
        return "; ".join([*self.warnings(), *old, told, cost])

    def warnings(self) -> list[str]:
        """Why the promise does not hold, though the file was accepted; empty for nothing."""
        return warnings_of(self.source.file, self.source.in_training, self.implausible)

    def promise(self) -> str:
        """What is promised, in one sentence."""
        expected = "calibrations with their next library"
        holds = expected if self.guarantee == "expected" else "such libraries, with 95 % confidence"
        return (
            f"in a library of {self.faces:,} faces of people who are drawn like these, at most "
            f"{100 * float(self.impurity):g} % of its faces lie in a cluster of mostly another person; this holds for "
            f"95 % of {holds}"
        )

    def text(self) -> str:
        """What weakens the promise, the threshold, what is promised, and what it costs."""
        shared = self.source.in_training
        return "\n".join(
            [
                *self.warnings(),
                *([shared.described()] if shared is not None and not shared else []),
                f"threshold {self.threshold:.4f} from {self.libraries} libraries of {self.faces:,} faces "
                f"({self.source.people:,} people of {self.source.file})",
                f"promised: {self.promise()}.",
                "A larger library has more strangers for each face, and more impurity; nothing is promised of it.",
                "On average at this threshold:",
                *(
                    f"  {at.faces:,} faces ({at.libraries} libraries): impurity {100 * at.impurity:.2f} %, B-cubed "
                    f"recall {at.recall:.3f}, unsure {100 * at.unsure:.2f} %"
                    for at in self.sizes
                ),
            ]
        )

    def fields(self) -> dict[str, Any]:
        """The values of the JSON that `read_purity` reads."""
        return {"format": FORMAT, "kind": KIND, **vars(self)}

    def risk(self, score: float) -> str:
        """How often merges at about this score joined two people among those known; empty if none was seen there."""
        at = [one for one in self.joined if one.least <= score]
        if score >= self.threshold or not at or not at[-1].merges:
            return ""
        return f"of {counted(at[-1].merges, 'such merge')} among known people {at[-1].wrong:,} joined two people"


def digests_of(faces: Embeddings) -> tuple[int, ...]:
    """Digests of 8 bytes of the rows, in their own order, by which rows are known under any name and in any file."""
    return tuple(sorted(int.from_bytes(sha256(row.tobytes()).digest()[:8], "little") for row in faces.embeddings))


def read_purity(path: Path) -> Purity:
    """Reads a file that `verisphere purity` wrote, with all checks; a ValueError says what is wrong with it."""
    return read_result(Purity, path, "a file that `verisphere purity` wrote", kind=KIND, format=FORMAT)
