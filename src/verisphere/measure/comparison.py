"""A model compared with others on the same images: differences over redrawn people, and whether they may be chance."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from verisphere.base.vocabulary import REDRAWING, Embeddings, Progress, Redrawing, quietly
from verisphere.base.words import FeatureNorm
from verisphere.decide import (
    Far,
    PairedDifference,
    PairScores,
    accuracy_difference,
    tar_differences_at,
    whole_thresholds,
)
from verisphere.decide.point import far_text
from verisphere.files.embeddings import check_same_images, read_templates, same_people
from verisphere.measure.evaluation import Difference
from verisphere.measure.protocols.all_pairs import PairsOfSet
from verisphere.measure.protocols.listed_pairs import ListedPairsResult
from verisphere.measure.protocols.plausible import implausible_set
from verisphere.measure.protocols.redrawn import tar_differences


def difference(figure: str, far: Far | None, against: Path, paired: PairedDifference) -> Difference:
    """A difference, named by the other model's file."""
    interval = paired.interval
    return Difference(
        figure=figure,
        far_target=None if far is None else far_text(far),
        rule=None if far is None else "at_most",
        against=against.name,
        value=interval.value,
        lower_95=interval.lower_95,
        upper_95=interval.upper_95,
        replicates=interval.replicates,
        inside_noise=interval.holds_zero,
        only_ours=paired.only_ours,
        only_theirs=paired.only_theirs,
        compared=paired.compared,
    )


def all_pairs_against(
    pairs: PairsOfSet,
    against: Sequence[tuple[Path, Embeddings]],
    fars: Sequence[Far],
    redrawing: Redrawing = REDRAWING,
    progress: Progress = quietly,
) -> list[Difference]:
    """TAR over all pairs, at each target FAR and against each other model, by its file and its rows (`same_rows`)."""
    others = [PairsOfSet(rows, progress) for _, rows in against]
    differences = tar_differences(pairs, others, fars, redrawing, progress)
    return [
        difference("tar", far, file, row[place])
        for place, far in enumerate(fars)
        for (file, _), row in zip(against, differences, strict=True)
    ]


def listed_against(
    ours: ListedPairsResult,
    theirs: ListedPairsResult,
    people: Int64[np.ndarray, "pairs 2"],
    file: Path,
    fars: Sequence[Far],
    redrawing: Redrawing = REDRAWING,
    progress: Progress = quietly,
) -> list[Difference]:
    """Accuracy of one list of pairs, and TAR at each target FAR, against another model."""
    genuine = ours.scores.genuine
    interval = accuracy_difference(ours.right_decisions, theirs.right_decisions, people, ours.weights, redrawing)
    right = ours.right_decisions > 0, theirs.right_decisions > 0
    differences = [difference("accuracy", None, file, PairedDifference.of(interval, *right))]
    if not fars:
        return differences
    first, second = (PairScores.of_list(result.scores.score, genuine, people) for result in (ours, theirs))
    gaps = tar_differences_at(first, second, fars, redrawing, progress)
    cuts = zip(whole_thresholds(first, fars), whole_thresholds(second, fars), strict=True)
    for far, gap, (our_cut, their_cut) in zip(fars, gaps, cuts, strict=True):
        accepted = ours.scores.score[genuine] > our_cut, theirs.scores.score[genuine] > their_cut
        differences.append(difference("tar", far, file, PairedDifference.of(gap, *accepted)))
    return differences


def same_rows(
    embeddings: Embeddings, file: Path, feature_norm: FeatureNorm = "keep"
) -> tuple[Embeddings, tuple[str, ...]]:
    """Another model's embeddings of the same images, in the same order; and why they cannot be, in the file's order."""
    other = read_templates(file, feature_norm)
    row = {str(name): number for number, name in enumerate(other.names)}
    missing = [str(name) for name in embeddings.names if str(name) not in row]
    if missing:
        raise ValueError(f"{file}: {len(missing)} of {len(embeddings)} images are missing, the first is {missing[0]!r}")
    rows = np.array([row[str(name)] for name in embeddings.names])
    compared = "the embeddings compared with it"
    ours, theirs = same_people((compared, embeddings), (file, other))
    if not np.array_equal(theirs.identities[rows], ours.identities):
        raise ValueError(f"{file}: it gives some of the images to other people, so the two cannot be compared")
    unlikely = implausible_set(other.take(np.sort(rows)))
    other = other.take(rows)
    check_same_images(embeddings, compared, other, file)
    other = replace(
        other,
        identities=embeddings.identities,
        domains=embeddings.domains,
        names_rule=embeddings.names_rule,
        spelled=embeddings.spelled,
    )
    return other, unlikely
