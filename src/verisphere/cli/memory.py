"""The message when memory runs out: one line, with advice on what needs less."""

import errno
import re

#: Texts of general exceptions with which PyTorch, CUDA, NumPy (in a reading process), ONNX Runtime and C++ report it.
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
#: Texts of oneDNN, which computes convolutions on a CPU. Errors of a primitive's descriptor are excluded: they are also
#: raised for operations that are not supported.
_ONEDNN = re.compile(r"could not (create a (memory|primitive(?! desc))|execute a primitive|append )")
#: The error of CPython if memory runs out while it loads a module, as seen under a limit of memory.
_LOADING = "error return without exception set"
_REQUESTED = re.compile(r"tried to allocate ([\d.]+ \w+)|unable to allocate ([\d.]+ \w+)", re.IGNORECASE)
#: Advice of verbs without advice of their own.
LESS_MEMORY = "give fewer images at a time, or a machine with more memory"


def memory_ran_out(error: BaseException) -> bool:
    """Whether an error means that memory ran out, here or in a process that reads images."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, SystemError):
        return str(error) == _LOADING
    if not isinstance(error, (RuntimeError, ImportError)):
        return False
    text = str(error).lower()
    return any(sign in text for sign in _SIGNS) or _ONEDNN.match(text) is not None


def memory_line(error: BaseException, less_memory: str) -> str:
    """The message of an error for which `memory_ran_out` holds, with advice on what needs less memory."""
    match = _REQUESTED.search(str(error))
    requested = f" where {_size(match[1] or match[2])} more were asked for" if match else ""
    return f"memory ran out{requested}: {less_memory}"


def _size(text: str) -> str:
    """A size from an error message, with bytes converted to a readable unit.

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
