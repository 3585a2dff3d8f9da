"""Made-up people and strangers for galleries that change, and what such a gallery must promise."""

import numpy as np

from verisphere.base.vocabulary import Embeddings
from verisphere.decide import gallery_threshold
from verisphere.models.gallery import Gallery
from verisphere.ship.calibrated_files import EmbeddingsSet
from verisphere.ship.living.gallery import LivingGallery

DIM, STRANGERS = 16, 320


def people(prefix: str, count: int, images: int = 2, seed: int = 0) -> Embeddings:
    random = np.random.default_rng(seed)
    rows = np.repeat(random.standard_normal((count, DIM)), images, 0) + 0.3 * random.standard_normal(
        (count * images, DIM)
    )
    owners = [f"{prefix}{number:03}" for number in range(count) for _ in range(images)]
    return Embeddings(rows, [f"{owner}/{row}.png" for row, owner in enumerate(owners)], owners)


STRANGE = people("stranger", STRANGERS, seed=1)
ENROLLED = people("person", 30, 3, seed=2)


def strangers(embeddings: Embeddings = STRANGE) -> EmbeddingsSet:
    return EmbeddingsSet(embeddings, "strangers.npz", "0" * 64)


def promised(gallery: LivingGallery, enrolled: Embeddings) -> None:
    """The gallery's threshold is that of its strangers, searched in a gallery of these rows made at once."""
    kept = dict(gallery.store.select("SELECT name, embedding FROM strangers ORDER BY stranger"))
    rows = np.array([np.frombuffer(row, "<f4") for row in kept.values()])
    best = Gallery(enrolled).search(rows).statistic
    wanted = gallery_threshold(best, "1e-2", people=len(set(enrolled.identities.tolist())), seed=0)
    found = gallery.threshold
    assert (found.threshold, found.rank, found.people) == (wanted.threshold, wanted.rank, wanted.people)
    scores = [score for (score,) in gallery.store.select("SELECT score FROM strangers ORDER BY stranger")]
    assert scores == best.tolist()


def without(names: list[str], enrolled: Embeddings = ENROLLED) -> Embeddings:
    return enrolled.take(~np.isin(enrolled.identities, names))
