"""The stopwatch of the workloads: the median of the steps after the first ones, told for one sample."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from time import perf_counter

import torch

WARM = 8


class Stopwatch:
    def __init__(self, samples: int) -> None:
        self.samples = samples
        self._times: list[float] = []

    def lap(self) -> None:
        """A step has ended."""
        if torch.cuda.is_initialized() and len(self._times) == WARM:
            torch.cuda.synchronize()
        self._times.append(perf_counter())

    def tell(self) -> None:
        """On a device steps are waited for at the end only: there the mean is what is true."""
        times = self._times[WARM:]
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
            step = (perf_counter() - times[0]) / (len(times) - 1)
        else:
            step = median(later - earlier for earlier, later in pairwise(times))
        print(f"seconds per sample {step / self.samples:.9f}")
