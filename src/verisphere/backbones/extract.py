"""From images to an embeddings set, batch by batch."""

import numpy as np
import torch
from torch import Tensor

from verisphere.backbones.backbone import Backbone
from verisphere.base.collectives import gathered
from verisphere.base.device import device_of, full_float32
from verisphere.base.distributed import World
from verisphere.base.trained_on import TrainedOn, image_digests
from verisphere.base.vocabulary import Embeddings, Progress, quietly
from verisphere.images.faces import Faces
from verisphere.images.loader import batches


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
    here: World | None = None,
    trained_on: TrainedOn | None = None,
) -> Embeddings:
    """The embedding of every image, in the order of the set; images are read batch by batch.

    Each rank computes whole batches, so every batch has the same images and results for any number of ranks. The result
    is replicated.

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
        here: this process among those that share the work, all of which must call this function with the same
            arguments; None computes everything in this process.
        trained_on: record of the backbone's training, with which people and images are compared; None compares nothing.

    Raises:
        ValueError: the set is empty, an image cannot be read, or an embedding is not finite.
    """
    if not len(faces):
        raise ValueError("there is no image to embed")
    device = device_of(backbone)
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; allowed is 1 or more")
    here = World() if here is None else here
    shares = [
        _images(here.share(-(-len(faces) // batch_size), rank), batch_size, len(faces)) for rank in range(here.size)
    ]
    own = shares[here.rank]
    rows = np.empty((len(own), backbone.embedding_size), np.float32)
    digests = np.zeros(len(own), np.int64)
    mode = backbone.training
    backbone.eval()

    def embed(images: Tensor) -> Tensor:
        with full_float32(), torch.autocast(device.type, torch.bfloat16, enabled=precision == torch.bfloat16):
            return backbone(images).float()

    try:
        order = torch.arange(own.start, own.stop)
        everything = batches(faces, order, batch_size, workers, pin=device.type == "cuda")
        for batch in progress(everything, "embedding", -(-len(own) // batch_size)):
            places = batch.indices.numpy() - own.start
            if trained_on is not None:
                digests[places] = image_digests(batch.images.numpy())
            images = backbone.normalise(batch.images.to(device, non_blocking=True))
            embedded = embed(images)
            if flip:
                embedded = embedded + embed(images.flip(-1))
            rows[places] = embedded.cpu().numpy()
    finally:
        backbone.train(mode)
    if here.size > 1:
        sizes = [len(share) for share in shares]
        rows, digests = (gathered(torch.from_numpy(column), sizes).numpy() for column in (rows, digests))
    domains, identities = None if faces.domains is None else np.array(faces.domains), np.array(faces.identities)
    known, rule = None if trained_on is None else trained_on.rows(identities, digests), faces.names_rule
    return Embeddings(rows, np.array(faces.names), identities, domains, in_training=known, names_rule=rule)


def _images(numbers: range, batch_size: int, images: int) -> range:
    """The images of some batches in a row."""
    return range(min(numbers.start * batch_size, images), min(numbers.stop * batch_size, images))
