"""The pairs of a set that a person should look at, with their images if these are available."""

from verisphere.measure.report_inputs import ReportInput
from verisphere.protocols import PairsOfSet
from verisphere.protocols.all_pairs import ScoredPairs
from verisphere.report.samples import Picture, SamplePair, Samples, pictures, varied
from verisphere.vocabulary import Embeddings

COUNT = 8  # pairs of each kind
_FIRST_PAIRS = 1 << 12  # impostor pairs taken first, to find pairs of different people among them
_MOST_PAIRS = 1 << 18  # the maximum, since the closest pairs of a set may all show the same two people


def find_samples(
    report_input: ReportInput, embeddings: Embeddings, pairs: PairsOfSet, genuine: ScoredPairs, threshold: float
) -> Samples:
    """The genuine pairs that score lowest and the impostor pairs that score highest, of different people each.

    Args:
        report_input: the set, with its images.
        embeddings: the set, in the order of `pairs`.
        pairs: the set's pairs.
        genuine: the scores of all genuine pairs of the set.
        threshold: threshold at which the pairs are decided.
    """
    lowest = varied(pairs.person[genuine.rows[::-1]], COUNT)
    impostor, highest = _closest(pairs)
    chosen = [
        *((genuine.scores[::-1][at], genuine.rows[::-1][at].tolist(), True) for at in lowest),
        *((impostor.scores[at], impostor.rows[at].tolist(), False) for at in highest),
    ]
    names = [str(embeddings.names[row]) for _, both, _ in chosen for row in both]
    uris, missing = _images(report_input, names)

    def picture(row: int) -> Picture:
        name = str(embeddings.names[row])
        domain = None if embeddings.domains is None else str(embeddings.domains[row])
        return Picture(name, str(embeddings.identities[row]), domain, uris.get(name))

    samples = [
        SamplePair(picture(left), picture(right), float(score), same, bool(score > threshold))
        for score, (left, right), same in chosen
    ]
    return Samples(tuple(samples[: len(lowest)]), tuple(samples[len(lowest) :]), threshold, missing)


def _images(report_input: ReportInput, names: list[str]) -> tuple[dict[str, str], str]:
    """The images by their names, or the reason why there are none."""
    if report_input.faces is None:
        return {}, report_input.no_faces
    try:
        return pictures(report_input.faces, names), ""
    except (ValueError, OSError) as error:  # a missing image removes the pictures, not the report
        return {}, f"{error}."


def _closest(pairs: PairsOfSet) -> tuple[ScoredPairs, list[int]]:
    """The highest impostor scores, their rows, and the positions of some that share no person."""
    total, wanted = pairs.everything(genuine=False).total, _FIRST_PAIRS
    while True:
        highest = pairs.highest_scores(min(wanted, total), genuine=False)
        chosen = varied(pairs.person[highest.rows], COUNT)
        if len(chosen) == COUNT or wanted >= min(total, _MOST_PAIRS):
            return highest, chosen
        wanted *= 8
