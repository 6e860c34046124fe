"""Times that can be compared on a busy machine: functions in turns, and the median of each."""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

__all__ = ["interleaved"]


def interleaved(
    functions: Mapping[str, Callable[[], Any]], rounds: int = 15, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Name -> median seconds of a call. Each function is called once before, and once in each round, in turns.

    `clock=time.process_time` counts what this process computed, whatever else runs on the machine."""
    for function in functions.values():
        function()
    times: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(rounds):
        order = list(functions.items())
        for name, function in order if number % 2 else reversed(order):
            began = clock()
            function()
            times[name].append(clock() - began)
    return {name: median(values) for name, values in times.items()}
