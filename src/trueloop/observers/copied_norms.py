"""Copies of a model whose weights follow the training while their batch norm statistics stay as they were built."""

from collections import Counter
from typing import Final

from torch import Tensor, nn

from trueloop.event import CopyNormsInitial
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import ModuleCall
from trueloop.torch_private.modules import BatchNorm

__all__ = ["CopiedNormsObserver"]

LEAST_STEPS: Final = 20
LOOKS: Final = 64  # evaluating calls of a model that are examined
NEAR: Final = 0.5  # of the way that the trained model has gone


class CopiedNormsObserver(Observer):
    emits = (CopyNormsInitial,)

    def prepare(self) -> None:
        self._trained: set[int] = set()
        self._calls: Counter[int] = Counter()
        self._before: dict[int, Tensor] = {}  # a sample of the weights at the first training call
        self._done: set[int] = set()

    def module_call_started(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is None or known.number in self._done:
            return
        if call.training:
            if known.number not in self._trained:
                self._trained.add(known.number)  # its own calls update the statistics
                if (sample := _sample(call.module)) is not None:
                    self._before[known.number] = sample
            return
        if call.grad or known.number in self._trained or self._calls[known.number] >= LOOKS:
            return
        self._calls[known.number] += 1
        norms = [m for m in call.module.modules() if isinstance(m, BatchNorm) and m.track_running_stats]
        initial = [norm for norm in norms if _is_initial(norm)]
        if norms and len(initial) == len(norms) and self.bus.step >= LEAST_STEPS and self._follows(call.module):
            self._done.add(known.number)
            self.emit(CopyNormsInitial, call.place, known.name, len(initial), self._calls[known.number])

    def _follows(self, module: nn.Module) -> bool:
        """Are its weights nearer to those of a trained model of its class than this model was when it began?"""
        sample = _sample(module)
        for known, other in self.objects.living_models():
            before, now = self._before.get(known.number), _sample(other)
            if sample is None or before is None or now is None or type(other) is not type(module):
                continue
            if now.shape == before.shape == sample.shape:
                moved, apart = float((now - before).norm()), float((now - sample).norm())
                if moved > 0 and apart < NEAR * moved:
                    return True
        return False


def _sample(module: nn.Module) -> Tensor | None:
    first = next((p for p in module.parameters() if p.ndim >= 2), None)
    if first is None or not is_plain(first) or not first.is_cpu:
        return None
    return evenly_spaced(first.detach().reshape(-1), 256).double().clone()


def _is_initial(norm: BatchNorm) -> bool:
    mean, variance = norm.running_mean, norm.running_var
    if mean is None or variance is None or not is_readable(mean) or not mean.is_cpu:
        return False
    return not bool(mean.any()) and bool((variance == 1).all())
