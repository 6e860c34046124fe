"""Means of named values over the steps between two rows of metrics, kept on the device until a row is written."""

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor

from trueloop.data.source import moved

__all__ = ["RunningMeans"]


@final
class RunningMeans:
    """Non-finite values do not count."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._sums: dict[str, Tensor] = {}  # name -> [sum, count]

    def add(self, values: Mapping[str, Any]) -> None:
        """Tensors stay on the device: the host does not wait."""
        for name, value in values.items():
            number = torch.as_tensor(value, dtype=torch.float32, device=self.device).detach()
            finite = torch.isfinite(number)
            entry = torch.stack([number.masked_fill(~finite, 0.0), finite.to(torch.float32)])
            self._sums[name] = self._sums[name] + entry if name in self._sums else entry

    def take(self) -> dict[str, float]:
        """The means since the last call. Waits for the device."""
        sums, self._sums = self._sums, {}
        if not sums:
            return {}
        totals = torch.stack(list(sums.values())).tolist()
        return {name: total / count for name, (total, count) in zip(sums, totals, strict=True) if count}

    def state(self) -> dict[str, Tensor]:
        return dict(self._sums)

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self._sums = dict(moved(dict(state), self.device))
