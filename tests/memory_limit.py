"""A limit on the memory that a block of a test may take beyond what the process has."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def memory_limit(megabytes: int) -> Iterator[None]:
    """With more, an allocation raises MemoryError; where the system does not tell what there is, nothing is limited."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        yield
        return
    limits = resource.getrlimit(resource.RLIMIT_AS)
    here = int(statm.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (here + (megabytes << 20), limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
