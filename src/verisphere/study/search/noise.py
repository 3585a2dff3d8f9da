"""How noisy a reward is: the same networks, measured on other people."""

from collections.abc import Sequence

import numpy as np

from verisphere.study.search.reward import Measured


def spread(measured: Measured | None) -> float | None:
    """Standard deviation of a reward over redrawn people; None for a candidate without a reward.

    Redrawings in which the reward has no value are not counted; the result is None if no other redrawing remains.
    """
    if measured is None or not np.isfinite(measured.replicates).any():
        return None
    return float(np.nanstd(measured.replicates))


def another_wins(measured: Sequence[Measured | None], best: int) -> float:
    """Share of the redrawings of the people in which another candidate has a higher reward than the best one.

    All candidates are measured on the same redrawings. A redrawing in which the best one has no figure is not counted;
    a candidate without a figure or with an equal one does not win there. A candidate whose training diverged is None.
    """
    ours = measured[best]
    if ours is None:  # all diverged
        return 0.0
    others = [one.replicates for place, one in enumerate(measured) if one is not None and place != best]
    valid = np.isfinite(ours.replicates)
    if not others or not valid.any():
        return 0.0
    rewards = np.stack(others)[:, valid]
    highest = np.where(np.isnan(rewards), -np.inf, rewards).max(axis=0)
    return float((highest > ours.replicates[valid]).mean())


def too_high(measured: Sequence[Measured | None]) -> float:
    """A lower bound of how much too high the best reward is because it was selected among several; never below 0.

    In each redrawing of the people the candidate with the highest reward is selected, and its deviation from its own
    mean over the redrawings is taken; the mean of these deviations is the answer. The measured rewards stand for the
    true ones, between which they differ by more, so that the true excess is larger. A candidate whose training diverged
    is None.
    """
    known = [one for one in measured if one is not None]
    if len(known) < 2:
        return 0.0
    replicates = np.stack([one.replicates for one in known])
    replicates = replicates[:, np.isfinite(replicates).all(axis=0)]
    if not replicates.size:
        return 0.0
    deviations = replicates - replicates.mean(axis=1, keepdims=True)
    rewards = np.array([one.reward for one in known])[:, None]
    selected = (rewards + deviations).argmax(axis=0)
    return max(float(deviations[selected, np.arange(deviations.shape[1])].mean()), 0.0)
