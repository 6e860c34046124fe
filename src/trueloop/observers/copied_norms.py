"""Copies of a model whose weights follow the training while their batch norm statistics stay as they were built."""

from collections import Counter
from typing import Final

from torch import nn

from trueloop.event import CopyNormsInitial
from trueloop.measure.rows import digests
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import ModuleCall
from trueloop.torch_private.modules import BatchNorm

__all__ = ["CopiedNormsObserver"]

LEAST_STEPS: Final = 20
LOOKS: Final = 64  # evaluating calls of a model that are examined


class CopiedNormsObserver(Observer):
    emits = (CopyNormsInitial,)

    def prepare(self) -> None:
        self._trained: set[int] = set()
        self._calls: Counter[int] = Counter()
        self._weights: dict[int, int] = {}
        self._done: set[int] = set()

    def module_call_started(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is None or known.number in self._done:
            return
        if call.training:
            self._trained.add(known.number)  # its own calls update the statistics
            return
        if call.grad or known.number in self._trained or self._calls[known.number] >= LOOKS:
            return
        self._calls[known.number] += 1
        norms = [m for m in call.module.modules() if isinstance(m, BatchNorm) and m.track_running_stats]
        initial = [norm for norm in norms if _is_initial(norm)]
        first = next((p for p in call.module.parameters() if p.ndim >= 2), None)
        if not norms or len(initial) < len(norms) or first is None or not is_plain(first) or not first.is_cpu:
            return
        weights = digests(evenly_spaced(first.detach().reshape(-1), 256).reshape(1, -1))[0]
        followed = self._weights.setdefault(known.number, weights) != weights
        if followed and self.bus.step >= LEAST_STEPS and self._has_trained_twin(call.module, known.number):
            self._done.add(known.number)
            self.emit(CopyNormsInitial, call.place, known.name, len(initial), self._calls[known.number])

    def _has_trained_twin(self, module: nn.Module, number: int) -> bool:
        return any(
            known.number in self._trained and type(other) is type(module)
            for known, other in self.objects.living_models()
            if known.number != number
        )


def _is_initial(norm: BatchNorm) -> bool:
    mean, variance = norm.running_mean, norm.running_var
    if mean is None or variance is None or not is_readable(mean) or not mean.is_cpu:
        return False
    return not bool(mean.any()) and bool((variance == 1).all())
