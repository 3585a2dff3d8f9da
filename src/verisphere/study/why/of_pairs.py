"""Whether a list of pairs has the labels of its people and its scores, and folds that are alike."""

import numpy as np
from scipy.special import chdtrc, ndtr, ndtri

from verisphere.base.vocabulary import NOBODY
from verisphere.decide.bounds import binomial_bounds
from verisphere.study.why.answer import FALSE_ALARM, Cause, Seen
from verisphere.study.why.case import ModelCase
from verisphere.study.why.of_model import CONTRADICTIONS

#: Share of strangers that score below two images which a model takes for one person. Of such pairs, more have to be
#: labelled genuine than halfway from the share of all pairs to 1: lists are also made of strangers who look alike.
_ALIKE = 0.99


def labels_and_folds(case: ModelCase) -> Cause | Seen:
    """Whether the labels of a list are those of the people, and each fold has both kinds."""
    listed = case.listed
    if listed is None:
        return Seen("no list of pairs of images", "not asked")
    left, right = listed.positions(list(case.faces.names))
    genuine, people = np.array(listed.genuine), case.people
    known = (people[left] != NOBODY) & (people[right] != NOBODY)

    def contradicting(labels: np.ndarray, whose: np.ndarray) -> float:
        return float(((whose[left] == whose[right]) != labels)[known].mean())

    if known.any() and listed.people is None and (wrong := contradicting(genuine, people)) > CONTRADICTIONS:
        evidence = f"{wrong:.1%} of {int(known.sum()):,} labels contradict the people of the set"
        for name, how, labels, whose in (
            *(("list order", "the labels moved by one line", np.roll(genuine, by), people) for by in (1, -1)),
            ("list order", "the labels inverted", ~genuine, people),
            *(("label shift", "the people moved by one row", genuine, np.roll(people, by)) for by in (1, -1)),
        ):
            if contradicting(labels, whose) <= CONTRADICTIONS:
                return Cause(name, f"{evidence}, and {contradicting(labels, whose):.1%} do with {how}")
        return Cause("list order", evidence)
    folds = np.zeros(len(genuine), int) if listed.folds is None else np.array(listed.folds)
    numbers, fold, size = np.unique(folds, return_inverse=True, return_counts=True)
    share, whole = np.bincount(fold, genuine) / size, genuine.mean()
    apart = float((size * (share - whole) ** 2).sum() / max(whole * (1 - whole), 1e-9))
    if len(numbers) > 1 and chdtrc(len(numbers) - 1, apart) < FALSE_ALARM:
        evidence = f"{share.min():.1%} to {share.max():.1%} of the pairs of a fold are genuine, and {whole:.1%} of all "
        evidence += f"(chi square {apart:.0f} for {len(numbers)} folds): the others' threshold is for another mixture"
        return Cause("fold rule", evidence)
    labelled = f"{int(known.sum()):,} of {len(genuine):,} labels are those of the set's people"
    folded = f"{len(numbers)} folds" if len(numbers) > 1 else "no folds"
    return Seen(f"{labelled}, {folded}", "well" if known.any() else "too few to tell")


def flags(case: ModelCase) -> Cause | Seen:
    """Whether pairs that score far above strangers are those that the list calls genuine."""
    listed = case.listed
    if listed is None:
        return Seen("no list of pairs of images", "not asked")
    rows, listed = case.rows_of_pairs
    left, right = listed.positions(rows.names.tolist())
    units = rows.embeddings.astype(np.float64) / np.linalg.norm(rows.embeddings, axis=1, keepdims=True)
    first, second = units[left], units[right]
    strangers = np.concatenate([(first * np.roll(second, by, 0)).sum(1) for by in range(5, 45, 4)])
    middle, low = np.quantile(strangers, (0.5, ndtr(-1.0)))  # of the lower half: some strangers may be one person
    high = (first * second).sum(1) > middle + ndtri(_ALIKE) * (middle - low)
    alike, genuine = int(high.sum()), int((high & np.array(listed.genuine)).sum())
    evidence = f"{genuine} of {alike} pairs that score above {_ALIKE:.0%} of strangers are labelled genuine, and "
    evidence += f"{np.mean(listed.genuine):.1%} of all {len(listed)}"
    if alike and binomial_bounds(genuine, alike, 1 - 2 * FALSE_ALARM)[1] < (1 + np.mean(listed.genuine)) / 2:
        return Cause("list order", evidence)
    return Seen(evidence, "well" if alike >= 20 else "too few to tell")
