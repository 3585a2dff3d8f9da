"""Made-up embeddings of the same photographs by two models that share nothing."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from verisphere.base.vocabulary import Embeddings, Origin, Preprocessing
from verisphere.files.embeddings import write_embeddings

PIXELS = Preprocessing((112, 112), "RGB", "NCHW", 127.5, 127.5)
OLD = Origin("ab" * 32, flip=False, precision="float32", images="faces.zip", preprocessing=PIXELS)
NEW = replace(OLD, model="cd" * 32)


def two_models(people: int, images: int = 2, seed: int = 0) -> tuple[Embeddings, Embeddings]:
    """Photographs of people as two models with random weights of their own embed them: other sizes, not linear."""
    weights, drawn = np.random.default_rng(99), np.random.default_rng(seed)
    person = np.repeat(np.arange(people), images)
    latent = drawn.normal(size=(people, 12))[person] + 0.4 * drawn.normal(size=(len(person), 12))
    latent[:, 0] += 1.0
    sides = []
    for size, origin in ((24, OLD), (32, NEW)):
        inner, outer = weights.normal(size=(12, 48)) / 4, weights.normal(size=(48, size))
        rows = np.tanh(latent @ inner) @ outer + 0.1 * drawn.normal(size=(len(person), size))
        names = [f"p{one}/{row % images}" for row, one in enumerate(person)]
        identities = [f"{seed}-{one}" for one in person]
        sides.append(Embeddings(rows.astype(np.float32), names=names, identities=identities, origin=origin))
    return sides[0], sides[1]


def saved(folder: Path, old: Embeddings, new: Embeddings) -> tuple[Path, Path]:
    write_embeddings(folder / "old.npz", old)
    write_embeddings(folder / "new.npz", new)
    return folder / "old.npz", folder / "new.npz"
