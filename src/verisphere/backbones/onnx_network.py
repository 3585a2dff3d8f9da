"""A network that was made elsewhere, as an ONNX graph: no graph states which pixels it takes, so its user must."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.backbones.backbone import Backbone, Colour, Layout
from verisphere.files.onnx_graph import first_line, open_session

#: Number types of an image input, by the name that NumPy gives them.
Numbers: TypeAlias = Literal["float32", "float16", "uint8"]
#: Images that one thread runs at a time. Measured for 1, 2, 4 and 8: two embed the most images in a second of a core
#: (MobileFaceNet; with IResNet-50 all are alike), and take a quarter of the memory that eight take.
PART = 2


class OnnxNetwork(Backbone):
    """An ONNX graph from elsewhere, run by onnxruntime on the CPU (extra: export). It cannot be trained.

    `read` opens the graph; before that, the network has no weights. Images are RGB in NCHW, as for every backbone, and
    are converted here to the pixels that the graph takes.

    >>> OnnxNetwork(embedding_size=128, height=160, width=160, colour="BGR").input_size
    (160, 160)

    Args:
        embedding_size: numbers in an embedding.
        height, width: size of a face, in pixels.
        mean: value that is subtracted from a pixel in [0, 255]; 0 for a graph that normalises by itself.
        scale: value by which the difference is divided; 1 for a graph that normalises by itself.
        colour: order of the colours.
        layout: order of the axes of the graph's input.
        numbers: number type of the graph's input.
        batch: the only number of images that the graph takes at a time; None if it takes any number.
        image_input: name of the graph's input.
        embedding_output: name of the graph's output.
    """

    def __init__(
        self,
        embedding_size: int,
        height: int = 112,
        width: int = 112,
        mean: float = 127.5,
        scale: float = 127.5,
        colour: Colour = "RGB",
        layout: Layout = "NCHW",
        numbers: Numbers = "float32",
        batch: int | None = None,
        image_input: str = "data",
        embedding_output: str = "embedding",
    ) -> None:
        super().__init__(embedding_size)
        if min(height, width) < 1:
            raise ValueError(f"a face of {height} x {width} pixels; both sides have at least one")
        if scale <= 0:
            raise ValueError(f"scale is {scale:g}; pixels are divided by it, so it is above 0")
        if numbers == "uint8" and (mean, scale) != (0.0, 1.0):
            raise ValueError(
                f"mean {mean:g} and scale {scale:g} for an input of uint8 pixels, which nothing normalises before the "
                "graph; give mean 0 and scale 1"
            )
        if batch is not None and batch < 1:
            raise ValueError(f"batch is {batch}; a graph takes one image at a time or more")
        self.input_size, self.mean, self.scale = (height, width), mean, scale
        self.colour, self.layout, self.numbers, self.batch = colour, layout, numbers, batch
        self.image_input, self.embedding_output = image_input, embedding_output
        self._session: Session | None = None

    def read(self, content: bytes, file: Path) -> None:
        """Open the graph.

        Args:
            content: bytes of the ONNX file, which have been checked.
            file: source of the bytes, for messages.

        Raises:
            ValueError: onnxruntime cannot run the graph.
        """
        self._session = Session(content, file)

    def embed(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """The graph's embeddings of normalised RGB images.

        Raises:
            ValueError: no graph was read, it fails, or it gives another shape than was declared.
        """
        if self._session is None:
            raise ValueError("no graph was read; load the folder that `verisphere adopt` made")
        if not len(images):
            return images.new_empty(0, self.embedding_size)
        pixels = images.detach().cpu().float()
        pixels = pixels.flip(1) if self.colour == "BGR" else pixels
        pixels = pixels.permute(0, 2, 3, 1) if self.layout == "NHWC" else pixels
        given = pixels.contiguous().numpy()
        given = np.rint(given).astype(np.uint8) if self.numbers == "uint8" else given.astype(self.numbers)
        rows = self._session.run(self.image_input, self.embedding_output, given, self.batch)
        if rows.shape != (len(given), self.embedding_size):
            raise ValueError(
                f"{self._session.file}: gives numbers of shape {rows.shape} for {len(given)} images, where "
                f"{(len(given), self.embedding_size)} is due"
            )
        return torch.from_numpy(rows.astype(np.float32, copy=False))


class Session:
    """A session of onnxruntime on the CPU; it runs as many small parts of a batch at a time as PyTorch has threads.

    One thread runs each part: two parts on one thread each take less time than one part on two threads, and a part of a
    few images stays in the cache. The parts are the same for any number of threads, and so are the results.

    The bytes are of an ONNX file that was checked and holds all its weights; `file` is their source, for messages.
    """

    def __init__(self, content: bytes, file: Path) -> None:
        self.file, self.runtime = file, open_session(content, file)

    def run(self, name: str, output: str, images: np.ndarray, batch: int | None = None) -> np.ndarray:
        """The rows of an output for images, which its input of this name takes as they are.

        `batch` is the only number of images that the graph takes at a time; None for any.
        """
        at_once = PART if batch is None else batch
        parts = [images[start : start + at_once] for start in range(0, len(images), at_once)]
        threads = min(torch.get_num_threads(), len(parts))
        if threads == 1:
            return np.concatenate([self._part(name, output, part, batch) for part in parts])
        with ThreadPoolExecutor(threads) as pool:
            return np.concatenate(list(pool.map(lambda part: self._part(name, output, part, batch), parts)))

    def _part(self, name: str, output: str, images: np.ndarray, batch: int | None) -> np.ndarray:
        """The rows of one part; if it has fewer images than the graph takes, the first image is repeated."""
        missing = 0 if batch is None else batch - len(images)
        padded = np.concatenate([images, images[:1].repeat(missing, 0)]) if missing else images
        try:
            (rows,) = self.runtime.run([output], {name: padded})
        except Exception as error:  # onnxruntime's exceptions have no common base of their own
            raise ValueError(f"{self.file}: does not run on a batch of {len(padded)}: {first_line(error)}") from None
        if rows.shape[:1] != (len(padded),):
            raise ValueError(f"{self.file}: gives numbers of shape {rows.shape} for {len(padded)} images")
        return rows[: len(images)]
