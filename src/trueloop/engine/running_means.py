"""Means of named values over the steps between two rows of metrics, kept on the device until a row is written."""

from collections.abc import Mapping
from typing import Any, Final, final

import torch
from torch import Tensor

from trueloop.data.source import moved

__all__ = ["RunningMeans"]

KEPT: Final = 256  # Values of a name before they are added up: until then each costs one copy


@final
class RunningMeans:
    """Non-finite values do not count."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._values: dict[str, list[Any]] = {}  # name -> values that are not added up yet
        self._sums: dict[str, Tensor] = {}  # name -> [sum, count]

    def add(self, values: Mapping[str, Any]) -> None:
        """Tensors stay on the device: the host does not wait."""
        for name, value in values.items():
            kept = self._values.setdefault(name, [])
            kept.append(value.detach().clone() if isinstance(value, Tensor) else value)  # it may be changed in place
            if len(kept) == KEPT:
                self._add_up(name)

    def _add_up(self, name: str) -> None:
        numbers = self._stacked(self._values.pop(name))
        finite = torch.isfinite(numbers)
        entry = torch.stack([numbers.masked_fill(~finite, 0.0).sum(), finite.sum().to(torch.float32)])
        self._sums[name] = self._sums[name] + entry if name in self._sums else entry

    def take(self) -> dict[str, float]:
        """The means since the last call. Waits for the device."""
        for name in list(self._values):
            self._add_up(name)
        sums, self._sums = self._sums, {}
        if not sums:
            return {}
        totals = torch.stack(list(sums.values())).tolist()
        return {name: total / count for name, (total, count) in zip(sums, totals, strict=True) if count}

    def _stacked(self, values: list[Any]) -> Tensor:
        return torch.stack([torch.as_tensor(value, dtype=torch.float32, device=self.device) for value in values])

    def state(self) -> dict[str, dict[str, Tensor]]:
        """Values are not added up for it: a resumed run adds in the same order: its means are bit-identical."""
        return {"values": {name: self._stacked(kept) for name, kept in self._values.items()}, "sums": dict(self._sums)}

    def restore(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        values, sums = (moved(dict(state[key]), self.device) for key in ("values", "sums"))
        self._values, self._sums = {name: list(kept.unbind()) for name, kept in values.items()}, sums
