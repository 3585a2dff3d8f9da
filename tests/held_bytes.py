"""The most bytes of arrays and tensors that a call holds at once: counted, so neither machine nor allocator matters."""

import tracemalloc
from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile


def most_held(call: Callable[[], object]) -> int:
    """The most bytes that NumPy and Python hold during the call, plus the most that torch's tensors on the CPU hold.

    The two need not be reached together, so the sum is an upper limit.
    """
    tracemalloc.start()
    try:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
            call()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    results = profiled.profiler.kineto_results
    taken = sorted((event.start_ns(), event.nbytes()) for event in results.events() if event.name() == "[memory]")
    held = tensors = 0
    for _, size in taken:
        held += size
        tensors = max(tensors, held)
    return most + tensors
