"""A stolen gallery translated: an attacker who has its rows, and no network that made them, uses one of their own.

Of some people the attacker knows photographs that both networks have embedded. On these a map is fitted from the rows
of one to those of the other (`verisphere.score.bridge`), and photographs of other people by the attacker's network are
compared with the stolen rows, carried over.
"""

import logging
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int64

from verisphere.base.seeds import numpy_generator
from verisphere.base.vocabulary import Progress, quietly
from verisphere.decide import Far, operating_point
from verisphere.files.leak_figures import LeakRow
from verisphere.images import Faces
from verisphere.models.embed import EmbeddingModel
from verisphere.score.bridge import fit_map
from verisphere.study.invert.photographs import photograph_digests, unit_embeddings

log = logging.getLogger(__name__)

#: How many people are known, in turn, where there are twice as many with two photographs.
KNOWN = (50, 200, 500)
_MOST_OTHERS = 1_000


def pairs_to_translate(faces: Faces) -> Int64[np.ndarray, "people 2"]:
    """Positions of two photographs of each person, the stolen one first, in the order in which people become known.

    No photograph is on both sides: a person whose two photographs have equal pixels is excluded.
    """
    label, draw = faces.labels.numpy(), numpy_generator(0)
    order = draw.permutation(np.flatnonzero(label >= 0))
    order = order[np.argsort(label[order], kind="stable")]  # each person's photographs side by side, in random order
    pairs = np.stack([order[:-1], order[1:]], axis=1)
    pairs = pairs[label[pairs[:, 0]] == label[pairs[:, 1]]]
    pairs = draw.permutation(pairs[np.unique(label[pairs[:, 0]], return_index=True)[1]])[: KNOWN[-1] + _MOST_OTHERS]
    content = photograph_digests(faces, pairs.reshape(-1).tolist()).reshape(-1, 2)
    return pairs[content[:, 0] != content[:, 1]]


def translations(
    faces: Faces,
    pairs: Int64[np.ndarray, "people 2"],
    stolen: EmbeddingModel,
    own: EmbeddingModel,
    fars: Sequence[Far],
    progress: Progress = quietly,
) -> Iterator[LeakRow]:
    """How well people whom the attacker does not know match their stolen rows, a row for each number of known people.

    The first of the pairs (`pairs_to_translate`) are of people who are known. Nothing is embedded where there are too
    few, and no row comes of a number of known people for whom no map can be found.
    """
    counts = [known for known in KNOWN if 2 * known <= len(pairs)]
    if not counts:
        return
    sides = []
    for model in (stolen, own):
        rows = [unit_embeddings(model, faces.images(pair.tolist())) for pair in _parts(pairs, progress)]
        sides.append(np.concatenate([part.numpy() for part in rows]).astype(np.float32).reshape(*pairs.shape, -1))
    for known in counts:
        (old, old_rest), (new, new_rest) = ((side[:known], side[known:]) for side in sides)
        try:
            person = np.repeat(np.arange(known), 2)
            found = fit_map(old.reshape(2 * known, -1), new.reshape(2 * known, -1), person)
        except ValueError as error:
            log.info("no translation by %d known people: %s", known, error)
            continue
        scores = (new_rest[:, 1] @ found.apply(old_rest[:, 0]).T).astype(np.float64)
        own_scores, others = scores.diagonal(), scores[~np.eye(len(scores), dtype=bool)]
        points = tuple(operating_point(own_scores, others, far) for far in fars)
        yield LeakRow("bridge", float(own_scores.mean()), float(others.mean()), points, known=known)


def _parts(pairs: np.ndarray, progress: Progress) -> Iterator[np.ndarray]:
    flat = pairs.reshape(-1)
    starts = range(0, len(flat), 256)
    for start in progress(starts, "embedding for a translation", len(starts)):
        yield flat[start : start + 256]
