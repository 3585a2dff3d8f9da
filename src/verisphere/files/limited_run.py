"""A run of a graph from elsewhere, in a separate process with limits on memory, time and files.

A graph is data, but running it in onnxruntime may take any memory and time. This file is run by its path, so that the
process loads only NumPy and onnxruntime.
"""

import json
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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

    Args:
        content: bytes of the ONNX file.
        file: source of the bytes, for messages.
        asked: `input`, `outputs` (names), `shape` of one image, `numbers`, and `mean` and `scale` of the pixels.
        batches: numbers of images to run it on.
        memory: bytes that the process may take; by default `MEMORY` and five times the file.

    Returns:
        for each batch on which the graph ran: `shape` of the first output, whether all outputs are `finite`, whether
        the first image's row is the `same` as in the first batch, and `seconds` for one image; for the first batch
        also whether the first output `repeats` in a second run, and `varies` for black images.
    """
    memory = MEMORY + 5 * len(content) if memory is None else memory
    words = json.dumps(asked | {"batches": list(batches), "memory": memory, "cpu_seconds": CPU_SECONDS})
    command = [sys.executable, "-P", __file__]  # -P: nothing beside this file is imported
    try:
        # all by standard input: names in a graph may exceed the length of an argument, and no disk space is needed
        given = b"".join([words.encode(), b"\n", content])
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, input=given)
    except subprocess.TimeoutExpired:
        raise ValueError(f"{file}: one image takes more than {SECONDS} s; it was stopped") from None
    try:
        answers = json.loads(done.stdout)
    except ValueError:
        cause = "it ended by itself" if done.returncode >= 0 else f"it was ended by signal {-done.returncode}"
        raise ValueError(
            f"{file}: does not run within {memory / 2**30:.0f} GB and {CPU_SECONDS} s of computing: {cause}"
        ) from None
    ran = {int(batch): answer for batch, answer in answers.items() if "error" not in answer}
    if not ran:
        raise ValueError(f"{file}: does not run: {answers[str(batches[-1])]['error']}")
    return ran


def _limit(memory: int, cpu_seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _run(content: bytes, asked: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The result of each batch, or its error."""
    import time

    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    pixels = np.random.default_rng(0).integers(0, 256, (max(asked["batches"]), *asked["shape"]))
    images = ((pixels - asked["mean"]) / asked["scale"]).astype(asked["numbers"])
    black = np.broadcast_to(np.float64(-asked["mean"] / asked["scale"]).astype(asked["numbers"]), images.shape)
    found: dict[int, dict[str, Any]] = {}
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
            found[batch] = {"error": (str(error).strip() or type(error).__name__).splitlines()[0][:300]}
            continue
        rows = np.asarray(outputs[0])
        first = rows[:1].astype(np.float64) if first is None and rows.ndim == 2 else first
        found[batch] = {
            "shape": list(rows.shape),
            "finite": all(bool(np.isfinite(output).all()) for output in outputs),
            "same": first is None or rows.ndim != 2 or bool(_near(first, rows[:1].astype(np.float64))),
            "seconds": seconds,
            **more,
        }
        repeated = True
    return found


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


if __name__ == "__main__":
    told = json.loads(sys.stdin.buffer.readline())
    _limit(told["memory"], told["cpu_seconds"])
    try:
        answer = _run(sys.stdin.buffer.read(), told)
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        answer = {batch: {"error": reason} for batch in told["batches"]}
    sys.stdout.write(json.dumps(answer))
