"""The pairs of a set that a person should look at, with their images where these are at hand."""

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.measure.subjects import Subject
from verisphere.protocols import PairsOfSet
from verisphere.protocols.pictures import GenuinePairs
from verisphere.report.samples import Picture, SamplePair, Samples, pictures, varied
from verisphere.vocabulary import Embeddings

COUNT = 8  # pairs of each kind
_CLOSEST = 1 << 12  # impostor pairs looked at first, to find pairs of different people
_AT_MOST = 1 << 18  # and at last: the closest pairs of a set may all be of two people


def find_samples(
    subject: Subject, embeddings: Embeddings, sweep: PairsOfSet, genuine: GenuinePairs, threshold: float
) -> Samples:
    """The genuine pairs that score lowest and the impostor pairs that score highest, of different people each.

    Args:
        subject: whose images to show.
        embeddings: the set, in the order of the sweep.
        sweep: its pairs.
        genuine: all of its genuine pairs.
        threshold: decides the pairs.
    """
    own = varied(sweep.person.numpy()[genuine.rows[::-1]], COUNT)
    impostor, rows, other = _closest(sweep)
    chosen = [
        *((genuine.scores[::-1][at], genuine.rows[::-1][at].tolist(), True) for at in own),
        *((impostor[at], rows[at].tolist(), False) for at in other),
    ]
    names = [str(embeddings.names[row]) for _, both, _ in chosen for row in both]
    uris, missing = _images(subject, names)

    def picture(row: int) -> Picture:
        name = str(embeddings.names[row])
        domain = None if embeddings.domains is None else str(embeddings.domains[row])
        return Picture(name, str(embeddings.identities[row]), domain, uris.get(name))

    pairs = [
        SamplePair(picture(left), picture(right), float(score), same, bool(score > threshold))
        for score, (left, right), same in chosen
    ]
    return Samples(tuple(pairs[: len(own)]), tuple(pairs[len(own) :]), threshold, missing)


def _images(subject: Subject, names: list[str]) -> tuple[dict[str, str], str]:
    """The images by their names, or why there are none."""
    if subject.faces is None:
        return {}, subject.no_faces
    try:
        return pictures(subject.faces, names), ""
    except (ValueError, OSError) as error:  # an image that is gone costs the pictures, not the report
        return {}, f"{error}."


def _closest(sweep: PairsOfSet) -> tuple[Float64[np.ndarray, " pairs"], Int64[np.ndarray, "pairs 2"], list[int]]:
    """The highest impostor scores, their rows, and the positions of some that share no person."""
    total, wanted = sweep.everything(genuine=False).total, _CLOSEST
    while True:
        scores, rows = sweep.pairs.highest(min(wanted, total), genuine=False)
        chosen = varied(sweep.person[rows].numpy(), COUNT)
        if len(chosen) == COUNT or wanted >= min(total, _AT_MOST):
            return scores.numpy(), rows.numpy(), chosen
        wanted *= 8
