"""The bridge file: a map from the rows of an old model to those of a new one, and the promise of its scores."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from verisphere.base.provenance import Origin
from verisphere.base.words import printable
from verisphere.decide import GuaranteedThreshold
from verisphere.files.calibration import Source
from verisphere.files.documents import read_result
from verisphere.files.results import Result
from verisphere.score.bridge import LinearMap

FORMAT = 1


@dataclass(frozen=True)
class Bridge(Result):
    """A map from an old model to a new one, with a threshold for a new row against an old row that was carried over.

    Attributes:
        promise: the threshold and its guarantee, from people on whom the map was not fitted: one photograph by the new
            model, one of another person by the old model, carried over.
        fitted: digests of the names of the people on whom the map was fitted, who are no strangers to the rows that it
            carries over (docs/bridge.md); empty in files of earlier versions.
    """

    old: Origin | None
    new: Origin | None
    map: LinearMap
    promise: GuaranteedThreshold
    old_source: Source
    new_source: Source
    fitted: tuple[int, ...] = ()

    @property
    def threshold(self) -> float:
        """Accept a new row against a row that was carried over iff their score is above this."""
        return self.promise.threshold

    def apply(self, rows: Float32[np.ndarray, "rows old"]) -> Float32[np.ndarray, "rows new"]:
        """Rows of the old model as unit rows of the new one; see `LinearMap.apply`."""
        return self.map.apply(rows)

    def text(self) -> str:
        """Whom the map and the promise come from, and what is promised."""
        exactly = self.promise.meaning().replace(
            "scored by the same model", "one by the new model and one by the old, carried over"
        )
        trained = [source for source in (self.old_source, self.new_source) if source.in_training]
        known = [f"{printable(one.file)}: {one.in_training.found()}\n" for one in trained if one.in_training]
        first = "".join(known) if len(known) > 1 else ""  # of one, the promise says so
        return (
            f"{first}map: from {self.map.people:,} people (power {self.map.power:g}, ridge {self.map.ridge:g}); "
            f"promise: from {self.promise.people or 0:,} others; a photograph by the new model against a row that was "
            "carried over\n"
            f"{self.promise}\nexactly: {exactly}; {self.promise.misses()}"
        )

    def fields(self) -> dict[str, Any]:
        """The values of the JSON that `read_bridge` reads."""
        return {"format": FORMAT, **vars(self)}


def read_bridge(path: Path) -> Bridge:
    """Reads a file that `verisphere bridge` wrote, with all checks; a ValueError says what is wrong with it."""
    return read_result(Bridge, path, "a bridge as `verisphere bridge` writes it", format=FORMAT)
