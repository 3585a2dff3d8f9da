"""The figures that a training measures while it runs: TAR on its validation set."""

from collections.abc import Sequence
from dataclasses import replace

from verisphere.base.vocabulary import Embeddings
from verisphere.decide import Far
from verisphere.files.embeddings import known_people
from verisphere.measure.protocols.all_pairs import all_pairs
from verisphere.report.outcome import VALIDATION


def validation_figures(embeddings: Embeddings, fars: Sequence[Far]) -> dict[str, float]:
    """TAR at each target FAR over all pairs, by the names that the log of a run gives them.

    Domains are pooled, since one may be too small alone.
    """
    points = all_pairs(known_people(replace(embeddings, domains=None), "validation"), fars).operating_points
    return {f"{VALIDATION}{point.far_target}": point.tar for point in points}
