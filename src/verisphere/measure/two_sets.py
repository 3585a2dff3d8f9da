"""Every image of one set compared with every image of another, as in the mask track of InsightFace's MFR."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from verisphere.base.device import choose_device
from verisphere.base.vocabulary import FARS, Embeddings, OperatingPoint, Precision, Progress, Rule, quietly
from verisphere.decide import Far, operating_point, ordered
from verisphere.files.embeddings import read_known_people, same_people
from verisphere.files.errors import errors_naming
from verisphere.files.streamed_rows import evaluated
from verisphere.measure.evaluate import Options
from verisphere.measure.evaluation import Evaluation
from verisphere.measure.protocols.all_pairs import impostor_ranks, refuse_nobody
from verisphere.measure.protocols.plausible import implausible_sides
from verisphere.measure.sides import check_sides
from verisphere.score import AllPairs, Group, unit_rows


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
            options.progress,
        )
    unlikely = implausible_sides(first, second, (left.name, right.name))
    return Evaluation(points, (evaluated(left, first), evaluated(right, second)), implausible=unlikely)


def two_sets(
    left: Embeddings,
    right: Embeddings,
    fars: Sequence[Far] = FARS,
    rule: Rule = "at_most",
    processes: int = 1,
    precision: Precision | None = None,
    device: torch.device | str = "cpu",
    progress: Progress = quietly,
) -> tuple[OperatingPoint, ...]:
    """TAR at FARs over the pairs of a row of one set and a row of the other, genuine where their identities agree.

    No two rows of one set are compared. `processes`, `device` and `precision` (of the products that screen; None
    chooses by a sample) change no figure.
    """
    for side in (left, right):
        refuse_nobody(side)
    sizes = left.embeddings.shape[1], right.embeddings.shape[1]
    if sizes[0] != sizes[1]:
        raise ValueError(f"the sets have {sizes[0]} and {sizes[1]} numbers a row; scores compare one model's alone")
    people = np.unique(np.concatenate([left.identities, right.identities]), return_inverse=True)[1]
    person = torch.from_numpy(people.astype(np.int64))
    pairs = AllPairs(
        unit_rows(left.embeddings).to(device),
        person[: len(left)],
        progress=progress,
        gallery=(unit_rows(right.embeddings).to(device), person[len(left) :]),
        precision=precision,
        processes=processes,
    )
    genuine = ordered(pairs.scores([Group(0, True)]), "genuine")
    impostor = pairs.scores([Group(0, False)])
    if impostor.total:
        pairs.settle([(impostor, rank) for far in fars for rank in impostor_ranks(impostor.total, far)])
    return tuple(operating_point(genuine, ordered(impostor, "impostor"), far, rule) for far in fars)
