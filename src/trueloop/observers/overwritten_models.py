"""A trained model that loads, again and again, the state of a second model which nothing trains and nothing updates.

The state is recognized by its memory: it is that of the other model's weights.
"""

import weakref
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor, nn

from trueloop.event import Place, TrainedModelOverwritten
from trueloop.measure.parameters import held_ids
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable, memory_of
from trueloop.observers.observer import Observer
from trueloop.taps.calls import ModuleCall, RunEnd, StateLoad

__all__ = ["OverwrittenModelsObserver"]

PAIRS: Final = 8
WEIGHTS: Final = 3  # of a model that are compared
NUMBERS: Final = 64  # of each
FEWEST: Final = 2  # loads that undo steps: one may be a restart
GONE: Final = (
    3  # where the second model no longer exists at the end, so that only the loads show that nothing changed it
)


@dataclass(slots=True)
class _Pair:
    model: str
    source: weakref.ref[nn.Module]
    source_number: int
    source_name: str
    weights: list[tuple[weakref.ref[Tensor], Tensor]]  # of the source, as they were at the first load
    place: Place | None
    optimizer: int
    steps_then: int  # of that optimizer, at the latest load
    undone: list[int] = field(default_factory=list)  # steps that each load has undone
    unclear: bool = False  # the second model has changed or is trained, or another optimizer trains the first


class OverwrittenModelsObserver(Observer):
    emits = (TrainedModelOverwritten,)

    def prepare(self) -> None:
        self._pairs: dict[tuple[int, int], _Pair] = {}
        self._calls: dict[int, list[int]] = {}  # by model: its latest step with a call, and number of such steps

    def module_call_started(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is not None:
            entry = self._calls.setdefault(known.number if call.grad else -1 - known.number, [-1, 0])
            if entry[0] != self.bus.step:
                entry[0] = self.bus.step
                entry[1] += 1

    def state_loading(self, load: StateLoad) -> None:
        if not self.bus.step:
            return
        own = {id(p) for p in load.module.parameters()}
        holder = [(known, o) for known, o in self.objects.living_optimizers() if known.steps and own & held_ids(o)]
        if len(holder) != 1:
            return
        given = {memory_of(t) for t in load.state.values() if is_plain(t) and t.numel()}
        optimizer, number = holder[0][0], self.bus.ordinal("model", load.module)
        for known, source in self.objects.living_models():
            weights = [p for p in source.parameters() if is_plain(p) and is_readable(p)]
            if source is load.module or not weights or not all(memory_of(p) in given for p in weights):
                continue
            pair = self._pairs.get((number, known.number))
            if pair is None and len(self._pairs) < PAIRS:
                pair = _Pair(type(load.module).__name__, weakref.ref(source), known.number, known.name,
                             [(weakref.ref(p), _numbers(p)) for p in weights[:WEIGHTS]], load.place,
                             optimizer.number, 0)  # fmt: skip
                self._pairs[number, known.number] = pair
            if pair is not None:
                self._add(pair, source, optimizer.number, optimizer.steps)

    def _add(self, pair: _Pair, source: nn.Module, optimizer: int, steps: int) -> None:
        held = self.objects.held_ids()
        trained = any(id(p) in held for p in source.parameters())
        pair.unclear = pair.unclear or trained or optimizer != pair.optimizer or not _is_unchanged(pair)
        if steps > pair.steps_then:
            pair.undone.append(steps - pair.steps_then)
        pair.steps_then = steps

    def run_ended(self, end: RunEnd) -> None:
        for (number, _), pair in self._pairs.items():
            gone = pair.source() is None
            if pair.unclear or len(pair.undone) < (GONE if gone else FEWEST) or not (gone or _is_unchanged(pair)):
                continue
            own, its = self._calls.get(number, [0, 0])[1], self._calls.get(-1 - pair.source_number, [0, 0])[1]
            self.emit(TrainedModelOverwritten, pair.place, pair.model, pair.source_name, tuple(pair.undone), own, its)


def _is_unchanged(pair: _Pair) -> bool:
    weights = ((ref(), before) for ref, before in pair.weights)
    return all(weight is not None and torch.equal(_numbers(weight), before) for weight, before in weights)


@torch.no_grad()
def _numbers(tensor: Tensor) -> Tensor:
    return evenly_spaced(tensor.detach().reshape(-1), NUMBERS).to("cpu", copy=True)
