"""From decoded uint8 batches to the network's input, on the device the network is on."""

import torch
from harness import compare

from verisphere.images import Augment, augment, normalise

BATCH = 64


def one_by_one(images: torch.Tensor) -> torch.Tensor:
    """The usual way: flip and normalise each image in a worker, then stack."""
    flip = torch.rand(len(images)) < 0.5
    return torch.stack(
        [
            ((image.flip(-1) if mirrored else image).float() / 255 - 0.5) / 0.5
            for image, mirrored in zip(images, flip, strict=True)
        ]
    )


def main() -> None:
    images = torch.randint(0, 256, (BATCH, 3, 112, 112), dtype=torch.uint8)
    everything = Augment(
        crop=0.1, low_resolution=0.2, brightness=0.3, contrast=0.3, saturation=0.3, grey=0.1, erase=0.3
    )
    compare(
        "augment",
        "batch of 64, 112 x 112",
        {
            "normalise": lambda: normalise(images),
            "flip + normalise": lambda: augment(images, Augment(), 0),
            "flip + normalise, image by image": lambda: one_by_one(images),
            "everything": lambda: augment(images, everything, 0),
        },
        BATCH,
        "images",
        21,
    )
    decoded = images.contiguous(memory_format=torch.channels_last)  # as images come from their files
    compare(
        "augment",
        "batch of 64, 112 x 112, channels last",
        {"flip + normalise": lambda: augment(decoded, Augment(), 0)},
        BATCH,
        "images",
        21,
    )


if __name__ == "__main__":
    main()
