"""TAR at a FAR from arrays in memory: the call that a user of NumPy or PyTorch makes first."""

import logging
from dataclasses import replace
from os import PathLike
from typing import Any, overload

from verisphere.base.vocabulary import Embeddings, OperatingPoint, Progress, Rule, quietly
from verisphere.base.words import Names
from verisphere.decide import Far, exact_rate
from verisphere.files.embeddings import known_people, note_crowds
from verisphere.files.results import EvaluatedFile, first_lines
from verisphere.measure.protocols.all_pairs import all_pairs, require_pairs
from verisphere.measure.protocols.plausible import implausible_set
from verisphere.score.templates import templates_of

log = logging.getLogger(__name__)


def set_of(embeddings: Any, identities: Any = None, names: Names | None = None) -> Embeddings:
    """A set from arrays, or the given set; where it has templates or media, the set of its templates."""
    if isinstance(embeddings, str | PathLike):
        raise TypeError(
            f"embeddings is the path {str(embeddings)[:200]!r}; give the numbers in the file (the verbs of the command "
            "line take the path)"
        )
    if not isinstance(embeddings, Embeddings):
        if identities is None:
            raise TypeError("identities are missing; give one for each row of embeddings")
        embeddings = Embeddings(embeddings, identities=identities, names_rule=names)
        identities = None
    elif names is not None:
        embeddings = replace(embeddings, names_rule=names, spelled=frozenset())
    if not len(embeddings):
        raise ValueError("embeddings are empty; give at least two rows of one person and one of another")
    if identities is not None:
        raise TypeError("identities came beside Embeddings, which have their own; give one of the two")
    embeddings = templates_of(embeddings)
    note_crowds("embeddings", embeddings.identities)
    return known_people(embeddings, "embeddings")


@overload
def evaluate(
    embeddings: Any,
    identities: Any = None,
    far: Far = "1e-4",
    rule: Rule = "at_most",
    *,
    names: Names | None = ...,
    progress: Progress = ...,
) -> OperatingPoint: ...


@overload
def evaluate(
    embeddings: Any,
    identities: Any = None,
    far: list[Far] | tuple[Far, ...] = ...,
    rule: Rule = "at_most",
    *,
    names: Names | None = ...,
    progress: Progress = ...,
) -> list[OperatingPoint]: ...


def evaluate(
    embeddings: Any,
    identities: Any = None,
    far: Far | list[Far] | tuple[Far, ...] = "1e-4",
    rule: Rule = "at_most",
    *,
    names: Names | None = None,
    progress: Progress = quietly,
) -> OperatingPoint | list[OperatingPoint]:
    """TAR at a FAR over all pairs of a set, with threshold, counts and exact 95 % bounds.

    Every two rows are compared once by their cosine, genuine where their identities agree; the counts are exact, and no
    matrix of all scores is held. The log warns where `Embeddings` state that the model was trained on people or images
    of the set, and where the scores cannot be those of a working model with these identities.

    >>> people = [[9.0, 1.0], [8.0, 2.0], [1.0, 9.0], [2.0, 9.0]]
    >>> point = evaluate(people, ["Ann", "Ann", "Ben", "Ben"], far="0.25")
    >>> point.tar, point.genuine_total, point.impostor_accepted, point.impostor_total
    (1.0, 2, 1, 4)

    Args:
        embeddings: a row for each image, as an array, a tensor of any device or lists; or `Embeddings`, without
            `identities`. The rows need no unit length.
        identities: the person of each row, as text or whole numbers.
        far: target FAR, as a decimal string or a number; or a list of several.
        rule: see `verisphere.decide.threshold_at`.
        names: `merge` takes identities that are equal but for case, blanks, Unicode form or invisible letters as one
            person, `exact` as different people; None refuses them.
        progress: reports the progress of each pass over the pairs.

    Returns:
        The point of a single FAR, or a list of points for a list. If the set has too few impostor pairs for a FAR,
            `below_resolution` is set and none of the impostor pairs may pass.

    Raises:
        TypeError: identities are missing.
        ValueError: the arrays do not fit together (see `Embeddings`), there is no genuine or no impostor pair, or a FAR
            is not in [0, 1].
    """
    fars = list(far) if isinstance(far, list | tuple) else [far]
    if not fars:
        raise ValueError("far is empty; name a FAR, such as 1e-4")
    for target in fars:
        exact_rate(target)  # refused before the pairs are compared
    people = set_of(embeddings, identities, names)
    require_pairs(people, "identities")
    known = people.shared_with_training
    sources = [EvaluatedFile("embeddings", "", in_training=known)] if known else []
    for line in first_lines(sources, implausible_set(people)).splitlines():
        log.warning("%s", line)
    points = list(all_pairs(replace(people, domains=None), fars, rule, progress=progress).operating_points)
    return points if isinstance(far, list | tuple) else points[0]
