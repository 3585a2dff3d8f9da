"""The section of a model card on a network that is smaller than the one that was trained."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from verisphere.measure.precision import read_precision_drop
from verisphere.report.markdown import plain
from verisphere.ship.card_words import DIGITS, readable

PRECISION = "precision.json"
_WHAT = {
    "fp16": "weights and computation in 16-bit floating point; a processor without it computes in float32 from weights "
    "that were rounded",
    "int8": "8-bit weights with a scale for each channel, and 8-bit values at both ends of each convolution and before "
    "each fully connected layer",
}


def precision_section(about: Mapping[str, Any], folder: Path, source: str) -> Iterator[str]:
    """The smaller precision and its cost, with the reference to its figures; empty for a network in float32."""
    reduced = about.get("reduced")
    if reduced is None:
        return
    drop = read_precision_drop(folder / PRECISION)
    yield "## Precision"
    yield (
        f"The network runs in {reduced['precision']}: {_WHAT[reduced['precision']]}. It was made of weights in float32 "
        f"with SHA-256 {plain(reduced['weights'][:DIGITS])}. Its scores differ from those in float32, so a threshold "
        "found in one precision does not hold for the other."
    )
    yield "\n".join(f"- {readable(line)}." for line in drop.lines())
    yield drop.table()
    notes = [f"{readable(line)}." for line in drop.notes()]
    yield " ".join([*notes, f"From {source}."])
