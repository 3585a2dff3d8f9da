"""A user's function as a network: uint8 images in, vectors out. It runs only if its code is trusted."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.backbones.backbone import LARGEST_EMBEDDING, Backbone
from verisphere.files.named_function import find_function


class CallableNetwork(Backbone):
    """A function `module:function` from uint8 RGB images (n, height, width, 3) to vectors (n, dim).

    The class lies outside `verisphere.backbones`, so that no file can name it without `--trust-code`, since importing
    the module runs its code.

    Args:
        height, width: size of a face, in pixels.
        sha256: SHA-256 of its code when it was adopted (see `find_function`); None takes any.
    """

    mean, scale = 0.0, 1.0

    def __init__(
        self, function: str, embedding_size: int, height: int = 112, width: int = 112, sha256: str | None = None
    ) -> None:
        super().__init__(embedding_size)
        self.input_size, self.function = (height, width), function
        self._call, source, digest = find_function(function, trust=True)  # the caller of this class trusts the module
        if sha256 is not None and digest != sha256:
            raise ValueError(
                f"{source}: not the code that was adopted as {function}; it has changed since, and no threshold holds "
                "for it: adopt it again"
            )

    def embed(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """The function's vectors of pixels in [0, 255]."""
        pixels = images.detach().cpu().round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
        return torch.from_numpy(vectors_of(self._call, self.function, pixels, self.embedding_size))


def vectors_of(
    call: Callable[[np.ndarray], Any], function: str, pixels: np.ndarray, size: int | None = None
) -> np.ndarray:
    """The vectors that a function gives for images, as float32."""
    try:
        rows = np.asarray(call(pixels))
    except (Exception, SystemExit) as error:  # the user's code can fail in any way
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"{function}: failed on {len(pixels)} images: {type(error).__name__}: {reason}") from error
    wanted = f"({len(pixels)}, {'dim' if size is None else size})"
    if rows.ndim != 2 or len(rows) != len(pixels) or size not in (None, rows.shape[1]) or rows.dtype.kind not in "fiu":
        raise ValueError(f"{function}: gives {rows.dtype} numbers {rows.shape}, where {wanted} are due")
    if not 1 <= rows.shape[1] <= LARGEST_EMBEDDING:
        raise ValueError(
            f"{function}: gives vectors of {rows.shape[1]:,} numbers; 1 to {LARGEST_EMBEDDING:,} are taken"
        )
    with np.errstate(over="ignore"):  # numbers too large for float32 become infinity
        vectors = rows.astype(np.float32)
    if not np.isfinite(vectors).all():
        raise ValueError(f"{function}: gives NaN or infinity")
    return vectors
