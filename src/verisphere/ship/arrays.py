"""A threshold with a guarantee, from arrays in memory."""

from typing import Any

from verisphere.base.vocabulary import Progress, Redrawing, check_word, quietly
from verisphere.base.words import Names
from verisphere.decide import Far, Guarantee
from verisphere.files.calibration import Calibration
from verisphere.measure.arrays import set_of
from verisphere.ship.calibrate import calibrate_set


def calibrate(
    embeddings: Any,
    identities: Any = None,
    far: Far | list[Far] | tuple[Far, ...] = "1e-2",
    guarantee: Guarantee = "confident",
    *,
    seed: int = 0,
    replicates: int = 1000,
    accept_implausible: bool = False,
    accept_training_people: bool = False,
    names: Names | None = None,
    progress: Progress = quietly,
) -> Calibration:
    """A threshold with a guarantee about people who are not in the set.

    >>> import numpy as np
    >>> draws = np.random.default_rng(0).normal(size=(2, 600, 16))
    >>> images = (draws[:1] + 0.5 * draws).reshape(1200, 16)  # each person's direction, in two images
    >>> calibration = calibrate(images, np.arange(1200) % 600, far="1e-2")
    >>> promise = calibration.thresholds[0]
    >>> promise.threshold == calibration.threshold, promise.people, promise.comparisons, promise.confidence
    (True, 600, 300, 0.95)
    >>> print(calibration)  # doctest: +ELLIPSIS
    Same person: score above 0.6... We are 95 % confident that at most 1 in 100 pairs of strangers pass; ...

    Args:
        embeddings: embeddings, as in `evaluate`, of people whom the model was not trained on.
        identities: the person of each row.
        far: target FAR, or several, all different.
        guarantee: `confident` (FAR at most the target with 95 % confidence), `expected` (on average over calibrations)
            or `approximate` (an estimate, for fewer people); see `verisphere.decide.guarantee`.
        seed: seed of the random matching of people. Choosing among several seeds breaks the guarantee.
        replicates: redrawings of the people, for `approximate`.
        accept_implausible: calibrate also where the embeddings cannot be those of a working model with these people:
            their labels belong to other rows, or many rows are equal. The calibration then records the reasons.
        accept_training_people: accept `Embeddings` that state that the model was trained on their people or images.
        names: see `evaluate`.
        progress: reports the progress over passes and replicates.

    Returns:
        The thresholds with their guarantees, and the rates over all pairs of the set. `write_json` writes it for
        `verisphere export --calibration`.

    Raises:
        TooFewComparisonsError: too few people for this guarantee at this FAR; states what they are enough for.
        TypeError: identities are missing.
        ValueError: the arrays do not fit together, all rows show one person, no guarantee can be about a FAR, or the
            embeddings are implausible, or the model was trained on people or images of the set.
    """
    check_word("guarantee", guarantee, Guarantee)
    fars = list(far) if isinstance(far, list | tuple) else [far]
    people = set_of(embeddings, identities, names)
    redrawing = Redrawing(replicates, seed)
    accepted = accept_implausible, accept_training_people
    return calibrate_set(people, "embeddings", fars, guarantee, redrawing, *accepted, progress)
