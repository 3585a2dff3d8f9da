"""TAR and its mean over people, from the embeddings that the runs of an experiment keep."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from verisphere.decide.order import ordered
from verisphere.decide.point import threshold_at
from verisphere.files.embeddings import read_embeddings
from verisphere.score import unit_rows


def tars(path: Path, fars: Sequence[str]) -> list[tuple[float, float]]:
    """For each FAR the share of accepted genuine pairs, and the mean of the shares of those who have a pair."""
    faces = read_embeddings(path)
    person = np.unique(faces.identities, return_inverse=True)[1]
    units = unit_rows(faces.embeddings).double().numpy()
    left, right = np.triu_indices(len(units), 1)
    score, same = (units @ units.T)[left, right], person[left] == person[right]
    genuine, of_person = score[same], person[left][same]
    pairs, found = np.bincount(of_person), []
    for far in fars:
        accepted = genuine > threshold_at(ordered(score[~same], "impostor"), far)
        each = np.bincount(of_person, accepted, len(pairs))[pairs > 0] / pairs[pairs > 0]
        found.append((float(accepted.mean()), float(each.mean())))
    return found
