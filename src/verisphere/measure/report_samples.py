"""The pairs of a set that a person should look at, with their images if these are available."""

from verisphere.base.vocabulary import Embeddings
from verisphere.measure.protocols.all_pairs import PairsOfSet, ScoredPairs
from verisphere.measure.report_findings import SampleImage, SamplePair, Samples
from verisphere.measure.report_inputs import ReportInput
from verisphere.report.pictures import pictures, varied

COUNT = 8  # pairs of each kind
_FIRST_PAIRS = 1 << 12  # impostor pairs taken first, to find pairs of different people among them
_MOST_PAIRS = 1 << 18  # the maximum, since the closest pairs of a set may all show the same two people


def find_samples(
    report_input: ReportInput, embeddings: Embeddings, pairs: PairsOfSet, genuine: ScoredPairs, threshold: float
) -> Samples:
    """The genuine pairs that score lowest and the impostor pairs that score highest, of different people each.

    The rows of `embeddings` are in the order of `pairs`.
    """
    lowest = varied(pairs.person[genuine.rows[::-1]], COUNT)
    impostor, highest = _closest(pairs)

    def pair(scored: ScoredPairs, place: int) -> SamplePair:
        left, right = (_image(embeddings, row) for row in scored.rows[place].tolist())
        return SamplePair(left, right, float(scored.scores[place]), bool(scored.scores[place] > threshold))

    last = len(genuine.scores) - 1
    of_one = tuple(pair(genuine, last - place) for place in lowest)
    of_two = tuple(pair(impostor, place) for place in highest)
    names = [image.name for one in (*of_one, *of_two) for image in (one.left, one.right)]
    return Samples(of_one, of_two, *_pictures(report_input, names))


def _image(embeddings: Embeddings, row: int) -> SampleImage:
    domain = None if embeddings.domains is None else str(embeddings.domains[row])
    return SampleImage(str(embeddings.names[row]), str(embeddings.identities[row]), domain)


def _pictures(report_input: ReportInput, names: list[str]) -> tuple[dict[str, str], str]:
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
