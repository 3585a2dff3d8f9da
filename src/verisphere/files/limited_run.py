"""A run of a graph from elsewhere, in a separate process with limits on memory, time and files.

A graph is data, but running it in onnxruntime may take any memory and time. This file is a task of
`verisphere.files.child`, whose process loads only NumPy and onnxruntime.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

#: Bytes that the process may take beside five times the file: the libraries take some 2 GB of addresses.
MEMORY = 6 << 30
#: Seconds of CPU time, and of wall time.
CPU_SECONDS, SECONDS = 120, 180
#: Largest difference, as a share of the largest number, between outputs for one image that count as the same: in other
#: batches, which libraries compute in other orders, and in a second run of the same batch.
SAME, SAME_AGAIN = 0.02, 1e-5


def run_limited(
    content: bytes, file: Path, asked: dict[str, Any], batches: Sequence[int], memory: int | None = None
) -> dict[int, dict[str, Any]]:
    """Run a graph on images of noise in a process with limits.

    `asked` has `input`, `outputs` (names), `shape` of one image, `numbers`, and `mean` and `scale` of the pixels.

    Returns:
        for each batch on which the graph ran: `shape` of the first output, whether all outputs are `finite`, whether
        the first image's row is the `same` as in the first batch, and `seconds` for one image; for the first batch
        also whether the first output `repeats` in a second run, and `varies` for black images.
    """
    from verisphere.files.child import Task, in_child  # here, since the task itself imports nothing of verisphere

    task = Task(Path(__file__), "does not run", "one image takes", CPU_SECONDS, SECONDS)
    memory = MEMORY + 5 * len(content) if memory is None else memory
    answers, _ = in_child(task, file, asked | {"batches": list(batches)}, memory, content)
    ran = {int(batch): words for batch, words in answers.items() if "error" not in words}
    if not ran:
        raise ValueError(f"{file}: does not run: {answers[str(batches[-1])]['error']}")
    return ran


def answer(asked: dict[str, Any], file: BinaryIO) -> tuple[dict[str, Any], bytes]:
    """The result of each batch, or its error; nothing beside it."""
    import time

    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(file.read(), options, providers=["CPUExecutionProvider"])
    pixels = np.random.default_rng(0).integers(0, 256, (max(asked["batches"]), *asked["shape"]))
    images = ((pixels - asked["mean"]) / asked["scale"]).astype(asked["numbers"])
    black = np.broadcast_to(np.float64(-asked["mean"] / asked["scale"]).astype(asked["numbers"]), images.shape)
    found: dict[str, Any] = {}
    first, repeated = None, False
    for batch in asked["batches"]:
        try:
            began = time.perf_counter()
            outputs = session.run(asked["outputs"], {asked["input"]: images[:batch]})
            seconds = (time.perf_counter() - began) / batch
            if any(not isinstance(output, np.ndarray) or output.dtype.kind not in "fiu" for output in outputs):
                raise ValueError("its output is no array of numbers")
            more = {} if repeated else _of_further_runs(session, asked, outputs[0], images[:batch], black[:batch])
        except Exception as error:  # onnxruntime's exceptions have no common base of their own
            found[str(batch)] = {"error": (str(error).strip() or type(error).__name__).splitlines()[0][:300]}
            continue
        rows = np.asarray(outputs[0])
        first = rows[:1].astype(np.float64) if first is None and rows.ndim == 2 else first
        found[str(batch)] = {
            "shape": list(rows.shape),
            "finite": all(bool(np.isfinite(output).all()) for output in outputs),
            "same": first is None or rows.ndim != 2 or bool(_near(first, rows[:1].astype(np.float64))),
            "seconds": seconds,
            **more,
        }
        repeated = True
    return found, b""


def _of_further_runs(session: Any, asked: dict[str, Any], rows: Any, images: Any, black: Any) -> dict[str, bool]:
    """Whether the first output is the same for the same images, and differs for black ones."""
    import numpy as np

    again, other = (session.run(asked["outputs"][:1], {asked["input"]: pixels})[0] for pixels in (images, black))
    # the same computation: the difference is 0, except for libraries that choose a method by memory address
    repeats = bool(_near(rows.astype(np.float64), again.astype(np.float64), SAME_AGAIN))
    return {"repeats": repeats, "varies": not np.array_equal(rows, other)}


def _near(one: Any, other: Any, share: float = SAME) -> bool:
    import numpy as np

    if one.shape != other.shape or not one.size:
        return True  # refused for its shape
    return float(np.abs(one - other).max()) <= share * float(np.abs(one).max())
