"""From images to an embeddings set, batch by batch."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from verisphere.backbones.backbone import Backbone
from verisphere.base.device import device_of, full_float32
from verisphere.base.trained_on import TrainedOn, image_digests
from verisphere.base.vocabulary import Embeddings, Progress, quietly
from verisphere.base.work import Arrays, divided, for_first_rank, ranges, results
from verisphere.images.faces import Faces
from verisphere.images.loader import batches

BATCHES_A_PIECE, LEAST_PIECES, MOST_PIECES = 8, 64, 4096


@torch.inference_mode()
def extract(
    backbone: Backbone,
    faces: Faces,
    *,
    batch_size: int = 128,
    workers: int = 0,
    flip: bool = False,
    precision: torch.dtype = torch.float32,
    progress: Progress = quietly,
    trained_on: TrainedOn | None = None,
    made_by: Mapping[str, Any] | None = None,
    for_all: bool = True,
) -> Embeddings:
    """The embedding of every image, in the order of the set; images are read batch by batch.

    A piece of work is some whole batches, so every batch has the same images and results for any number of ranks. The
    result is replicated.

    The backbone is used in evaluation mode, on its device; afterwards it has its previous mode again.

    >>> from verisphere.backbones import Pixels
    >>> from verisphere.images import InMemory
    >>> faces = InMemory(torch.randint(256, (2, 3, 112, 112), dtype=torch.uint8), ("a/1", "b/1"), ("a", "b"))
    >>> people = extract(Pixels(side=8), faces)
    >>> people.embeddings.shape, people.identities.tolist()
    ((2, 64), ['a', 'b'])

    Args:
        backbone: the network.
        faces: aligned images of the backbone's input size.
        batch_size: images at a time.
        workers: processes that read images; 0 reads in this one.
        flip: add the embedding of the mirror image before anything is normalised.
        precision: float32, or bfloat16 by autocast.
        progress: reports the progress of the embedding.
        trained_on: record of the backbone's training, with which people and images are compared; None compares nothing.
        made_by: what else determines an embedding, as JSON values, for pieces that are kept.
        for_all: whether every rank gets the embeddings; else PartEnded is raised on all but rank 0.

    Raises:
        ValueError: the set is empty, an image cannot be read, or an embedding is not finite.
    """
    if not len(faces):
        raise ValueError("there is no image to embed")
    device = device_of(backbone)
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; allowed is 1 or more")
    mode = backbone.training

    def embed(images: Tensor) -> Tensor:
        with full_float32(), torch.autocast(device.type, torch.bfloat16, enabled=precision == torch.bfloat16):
            return backbone(images).float()

    count = -(-len(faces) // batch_size)
    together = max(min(count // LEAST_PIECES, BATCHES_A_PIECE), -(-count // MOST_PIECES), 1) if divided() else count
    pieces = ranges(len(faces), together * batch_size)
    outside, inside = (progress, quietly) if divided() else (quietly, progress)

    def compute(some: Iterable[range]) -> Iterator[Arrays]:
        chosen = [*some]
        order = torch.tensor([image for piece in chosen for image in piece], dtype=torch.int64)
        everything = batches(faces, order, batch_size, workers, pin=device.type == "cuda") if chosen else iter(())
        steps = iter(inside(everything, "embedding", -(-len(order) // batch_size)))
        for piece in chosen:
            rows = np.empty((len(piece), backbone.embedding_size), np.float32)
            digests = np.zeros(len(piece), np.int64)
            for batch in islice(steps, -(-len(piece) // batch_size)):
                places = batch.indices.numpy() - piece.start
                if trained_on is not None:
                    digests[places] = image_digests(batch.images.numpy())
                pixels = backbone.normalise(batch.images.to(device, non_blocking=True))
                embedded = embed(pixels)
                if flip:
                    embedded = embedded + embed(pixels.flip(-1))
                rows[places] = embedded.cpu().numpy()
            if piece is chosen[-1]:
                next(steps, None)  # lets workers end
            yield {"rows": rows, "digests": digests}

    def about() -> list[object]:
        contents = faces.contents(range(len(faces))).hex()
        names = [np.array(faces.names), np.array(faces.identities), contents, repr(backbone)]
        how = [batch_size, flip, str(precision), device.type, trained_on is not None, made_by]
        return [*names, *how, *backbone.state_dict(), *backbone.state_dict().values()]

    try:
        backbone.eval()
        found = results("rows", about, pieces, compute, outside, "embedding")
        parts = [*(found if for_all else for_first_rank(found))]
    finally:
        backbone.train(mode)
    rows, digests = (
        parts[0][name] if len(parts) == 1 else np.concatenate([part[name] for part in parts])
        for name in ("rows", "digests")
    )
    domains, identities = None if faces.domains is None else np.array(faces.domains), np.array(faces.identities)
    rule = faces.names_rule
    known = None if trained_on is None else trained_on.rows(identities, digests, rule)
    return Embeddings(rows, np.array(faces.names), identities, domains, in_training=known, names_rule=rule)
