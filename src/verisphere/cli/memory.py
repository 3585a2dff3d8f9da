"""What is said when memory runs out: one line, with what would take less."""

import errno
import re

#: How PyTorch, CUDA, NumPy (through a reading process), ONNX Runtime and C++ call it in errors without a class of its
#: own.
_SIGNS = (
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "out of memory",
    "unable to allocate",
    "failed to allocate",
    "alloc_failed",
    "bad_alloc",
    "memoryerror",
)
#: How oneDNN, which computes convolutions on a CPU, calls it. A primitive's descriptor fails where an operation is not
#: supported, too, so that is left out.
_ONEDNN = re.compile(r"could not (create a (memory|primitive(?! desc))|execute a primitive|append )")
_ASKED = re.compile(r"tried to allocate ([\d.]+ \w+)|unable to allocate ([\d.]+ \w+)", re.IGNORECASE)
#: Where a verb does not say what would take less.
LESS_MEMORY = "give fewer images at a time, or a machine with more memory"


def memory_ran_out(error: BaseException) -> bool:
    """Whether an error means that memory ran out, here or in a process that reads images."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if not isinstance(error, (RuntimeError, ImportError)):
        return False
    said = str(error).lower()
    return any(sign in said for sign in _SIGNS) or _ONEDNN.match(said) is not None


def memory_line(error: BaseException, less_memory: str) -> str:
    """The line that says so.

    Args:
        error: for which `memory_ran_out` holds.
        less_memory: what would take less.
    """
    found = _ASKED.search(str(error))
    asked = f" where {_size(found[1] or found[2])} more were asked for" if found else ""
    return f"memory ran out{asked}: {less_memory}"


def _size(text: str) -> str:
    """A size as it stands in an error; one in bytes as a person reads it.

    >>> _size("51380224 bytes"), _size("512. GiB")
    ('49.0 MiB', '512 GiB')
    """
    number, unit = text.split()
    size = float(number)
    if unit == "bytes":
        power = min(max(int(size).bit_length() - 1, 0) // 10, 4)
        size, unit = size / 1024**power, ("bytes", "KiB", "MiB", "GiB", "TiB")[power]
        return f"{size:.1f} {unit}"
    return f"{size:g} {unit}"
