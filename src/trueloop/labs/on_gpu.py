"""Times of calls on a GPU, by its own clock."""

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, Final

import torch

__all__ = ["gpu_medians"]

BUSY: Final = 1 << 28  # bytes written before each call: more than an L2 cache, and longer than a launch takes


def gpu_medians(functions: Mapping[str, Callable[[], Any]], rounds: int = 15) -> dict[str, float]:
    """Name -> median milliseconds of a call, in turns, with a cold L2 cache. Empty where there is no GPU."""
    if not torch.cuda.is_available():
        return {}
    buffer = torch.empty(4 * BUSY, dtype=torch.uint8, device="cuda")
    times: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(rounds + 3):  # the first three compile and warm up
        for name, function in functions.items():
            buffer.zero_()
            begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begun.record()
            function()
            ended.record()
            ended.synchronize()
            if number >= 3:
                times[name].append(begun.elapsed_time(ended))
    return {name: median(values) for name, values in times.items()}
