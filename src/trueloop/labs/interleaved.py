"""Times that can be compared on a busy machine: functions in turns, and the median of each."""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

__all__ = ["interleaved"]


def interleaved(functions: Mapping[str, Callable[[], Any]], rounds: int = 15) -> dict[str, float]:
    """Name -> median seconds of a call. Each function is called once before, and once in each round, in turns."""
    for function in functions.values():
        function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(rounds):
        order = list(functions.items())
        for name, function in order if number % 2 else reversed(order):
            began = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - began)
    return {name: median(values) for name, values in times.items()}
