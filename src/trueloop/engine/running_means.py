"""Means of named values over the steps between two rows of metrics, kept on the device until a row is written."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import torch
from torch import Tensor

from trueloop.data.source import moved
from trueloop.parallel.peers import Peers

__all__ = ["RunningMeans"]

KEPT: Final = 256  # Values of a name before they are added up: until then each costs one copy


@final
class RunningMeans:
    """Non-finite values do not count."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._values: dict[str, list[Any]] = {}  # name -> values that are not added up yet
        self._weights: dict[str, list[float]] = {}  # name -> how much each of them counts
        self._sums: dict[str, Tensor] = {}  # name -> [sum, count]

    def add(self, values: Mapping[str, Any], weight: float = 1.0) -> None:
        """Tensors stay on the device: the host does not wait. `weight`: of several processes, each one's share."""
        for name, value in values.items():
            kept = self._values.setdefault(name, [])
            kept.append(value.detach().clone() if isinstance(value, Tensor) else value)  # it may be changed in place
            self._weights.setdefault(name, []).append(weight)
            if len(kept) == KEPT:
                self._add_up(name)

    def _add_up(self, name: str) -> None:
        numbers, weights = self._stacked(self._values.pop(name)), self._weights.pop(name)
        finite = torch.isfinite(numbers)
        if any(weight != 1.0 for weight in weights):
            shares = torch.tensor(weights, device=self.device)
            entry = torch.stack([(numbers * shares).masked_fill(~finite, 0.0).sum(), (finite * shares).sum()])
        else:
            entry = torch.stack([numbers.masked_fill(~finite, 0.0).sum(), finite.sum().to(torch.float32)])
        self._sums[name] = self._sums[name] + entry if name in self._sums else entry

    def take(self, peers: Peers | None = None) -> dict[str, float]:
        """The means since the last call, over all processes, which call this together. Waits for the device."""
        for name in list(self._values):
            self._add_up(name)
        sums, self._sums = self._sums, {}
        totals = dict(zip(sums, torch.stack(list(sums.values())).tolist(), strict=True)) if sums else {}
        if peers is not None and peers.world > 1:
            totals = _added(peers.gather(totals))
        return {name: total / count for name, (total, count) in totals.items() if count}

    def _stacked(self, values: list[Any]) -> Tensor:
        return torch.stack([torch.as_tensor(value, dtype=torch.float32, device=self.device) for value in values])

    def state(self) -> dict[str, dict[str, Tensor]]:
        """Values are not added up for it: a resumed run adds in the same order: its means are bit-identical."""
        return {
            "values": {name: self._stacked(kept) for name, kept in self._values.items()},
            "weights": {name: torch.tensor(kept, dtype=torch.float64) for name, kept in self._weights.items()},
            "sums": dict(self._sums),
        }

    def restore(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        values, sums = (moved(dict(state[key]), self.device) for key in ("values", "sums"))
        self._values, self._sums = {name: list(kept.unbind()) for name, kept in values.items()}, sums
        self._weights = {name: state["weights"][name].tolist() for name in values}


def _added(totals: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, list[float]]:
    """[sum, count] of several processes, by all names."""
    names = dict.fromkeys(name for each in totals for name in each)
    return {name: [sum(each[name][part] for each in totals if name in each) for part in (0, 1)] for name in names}
