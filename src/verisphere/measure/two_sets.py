"""From two embeddings files to the figures of their pairs: every image of one with every image of the other."""

from pathlib import Path

from verisphere.base.device import choose_device
from verisphere.base.distributed import world
from verisphere.files.embeddings import read_known_people, same_people
from verisphere.files.errors import errors_naming
from verisphere.files.streamed_rows import evaluated
from verisphere.measure.evaluate import Options
from verisphere.measure.evaluation import Evaluation
from verisphere.measure.protocols.plausible import implausible_sides
from verisphere.measure.protocols.two_sets import two_sets
from verisphere.measure.sides import check_sides


def evaluate_two_sets(left: Path, right: Path, options: Options) -> Evaluation:
    """TAR at FARs over the pairs of an image of one file and an image of the other."""
    first, second = (read_known_people(path, options.feature_norm) for path in (left, right))
    check_sides(left, first, right, second, any_person=True)
    first, second = same_people((left, first), (right, second))
    with errors_naming(f"{left} and {right}"):
        points = two_sets(
            first,
            second,
            options.fars,
            options.rule,
            options.processes,
            options.screen,
            choose_device(options.device),
            world(),
            options.progress,
        )
    unlikely = implausible_sides(first, second, (left.name, right.name))
    return Evaluation(points, (evaluated(left, first), evaluated(right, second)), implausible=unlikely)
