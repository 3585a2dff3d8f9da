"""From images to an embeddings set, batch by batch."""

import numpy as np
import torch
from torch import Tensor

from verisphere.data.faces import Faces
from verisphere.data.loader import batches
from verisphere.embed.backbone import Backbone
from verisphere.vocabulary import Embeddings, Progress, quietly


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
) -> Embeddings:
    """The embedding of every image, in the set's order; images are read as they are needed.

    The backbone is used in evaluation mode, on the device it is on, and left in the mode it was in.

    Args:
        backbone: the network.
        faces: aligned images of the backbone's input size.
        batch_size: images at a time.
        workers: processes that read images; 0 reads in this one.
        flip: add the embedding of the mirror image before anything is normalised.
        precision: float32, or bfloat16 by autocast.
        progress: shown while embedding.

    Raises:
        ValueError: the set is empty, an image cannot be read, or an embedding is not finite.
    """
    if not len(faces):
        raise ValueError("there is no image to embed")
    device = next((tensor.device for tensor in backbone.parameters()), torch.device("cpu"))
    rows = np.empty((len(faces), backbone.embedding_size), np.float32)
    mode = backbone.training
    backbone.eval()

    def embed(images: Tensor) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == torch.bfloat16):
            return backbone(images).float()

    try:
        everything = batches(faces, torch.arange(len(faces)), batch_size, workers, pin=device.type == "cuda")
        for batch in progress(everything, "embedding", -(-len(faces) // batch_size)):
            images = backbone.normalise(batch.images.to(device, non_blocking=True))
            embedded = embed(images)
            if flip:
                embedded = embedded + embed(images.flip(-1))
            rows[batch.indices.numpy()] = embedded.cpu().numpy()
    finally:
        backbone.train(mode)
    domains = None if faces.domains is None else np.array(faces.domains)
    return Embeddings(rows, np.array(faces.names), np.array(faces.identities), domains)
