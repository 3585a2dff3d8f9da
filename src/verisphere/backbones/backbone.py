"""The interface of backbones: an input size, a normalisation, and embeddings before normalisation."""

from math import isfinite
from typing import Literal, TypeAlias

from jaxtyping import Float, UInt8
from torch import Tensor, nn

from verisphere.images.augment import normalise

#: Numbers in an embedding; published ones have 128 to 1,024.
LARGEST_EMBEDDING = 2**16
Colour: TypeAlias = Literal["RGB", "BGR"]
Layout: TypeAlias = Literal["NCHW", "NHWC"]


class Backbone(nn.Module):
    """Base class of backbones, from aligned RGB faces to embeddings. A subclass defines `embed`.

    Embeddings keep their length, which quality-aware losses use; a score divides by it.

    >>> import torch
    >>> class Mean(Backbone):
    ...     def embed(self, images):
    ...         return images.mean((2, 3))
    >>> network = Mean(embedding_size=3)
    >>> network(network.normalise(torch.full((1, 3, 112, 112), 255, dtype=torch.uint8)))
    tensor([[1., 1., 1.]])

    Attributes:
        embedding_size: numbers in an embedding.
        input_size: height and width of a face, in pixels.
        mean: value that `normalise` subtracts from a pixel in [0, 255].
        scale: value by which it then divides.
        colour, layout: order of the colours and axes inside the network, as its description states them; `forward`
            takes RGB in NCHW in any case.
        side_columns: number of further columns that `embed` returns in training, for a pair term; not a part of an
            embedding.
    """

    input_size: tuple[int, int] = (112, 112)
    mean: float = 127.5
    scale: float = 127.5
    colour: Colour = "RGB"
    layout: Layout = "NCHW"
    side_columns: int = 0

    def __init__(self, embedding_size: int) -> None:
        super().__init__()
        if type(self).embed is Backbone.embed and type(self).forward is Backbone.forward:
            raise ValueError(f"{type(self).__name__} computes no embeddings; name a backbone that derives from it")
        if embedding_size < 1:
            raise ValueError(f"embedding_size is {embedding_size}; an embedding needs at least 1 number")
        if embedding_size > LARGEST_EMBEDDING:
            raise ValueError(f"embedding_size is {embedding_size:,}; an embedding has at most {LARGEST_EMBEDDING:,}")
        self.embedding_size = embedding_size

    def _set_normalisation(self, mean: float | None, scale: float | None) -> None:
        """Set what `normalise` subtracts and divides by; None leaves the value of the class."""
        self.mean = self.mean if mean is None else mean
        self.scale = self.scale if scale is None else scale
        if not isfinite(self.mean):
            raise ValueError(f"mean is {self.mean}; it must be a finite number, which is subtracted from a pixel")
        if not (isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"scale is {self.scale}; it must be above 0, since pixels are divided by it")

    def normalise(self, images: UInt8[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch 3 height width"]:
        """RGB pixels in [0, 255] as the float32 input of `forward`, (pixel - mean) / scale, in channels_last order."""
        return normalise(images, self.mean, self.scale)

    def forward(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """Embeddings of normalised images, not of unit length; in training followed by `side_columns` further columns.

        Raises:
            ValueError: the images are not of `input_size`.
        """
        self.check_size(*images.shape[2:])
        return self.embed(images)

    def check_size(self, height: int, width: int) -> None:
        """Refuse images of another size than `input_size`.

        Raises:
            ValueError: the images are not of `input_size`.
        """
        if (height, width) != self.input_size:
            raise ValueError(
                f"images are {height} x {width} pixels but {type(self).__name__} takes "
                f"{self.input_size[0]} x {self.input_size[1]}; were they aligned for another backbone?"
            )

    def embed(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """The network itself, on images of the right size."""
        raise NotImplementedError(f"{type(self).__name__} has no embed(); a backbone computes its embeddings there")
