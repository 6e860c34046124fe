"""Was PyTorch's generator seeded? Without a seed of the user it starts from 64 bits of the machine's entropy."""

from typing import Final

import torch

from trueloop.event import SeedChecked
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BuiltOptimizer, StateLoad, StepCall

__all__ = ["SeedsObserver"]

CHOSEN: Final = 2**32  # seeds below this were set by somebody: random ones are above it, all but one in 4e9


class SeedsObserver(Observer):
    emits = (SeedChecked,)
    safe_on_shards = True

    def prepare(self) -> None:
        self._seed = torch.initial_seed()
        self._state = torch.get_rng_state()
        self._built_without = False  # the first optimizer was given parameters that were initialized without a seed
        self._loaded = False
        self._asked = False

    def optimizer_built(self, built: BuiltOptimizer) -> None:
        if not self._asked and not self._seeded() and self._drawn():
            self._built_without = True

    def state_loading(self, load: StateLoad) -> None:
        self._loaded = True

    def step_ended(self, call: StepCall) -> None:
        if self._asked:
            return
        self._asked = True
        known = self.objects.optimizer(call.optimizer)
        seeded = self._seeded()
        late, drawn = seeded and self._built_without and not self._loaded, seeded or self._drawn()
        model = next((model.name for model in self.objects.models.values()), "")
        self.emit(SeedChecked, known.place or call.place, seeded, late, drawn, model)

    def _seeded(self) -> bool:
        return self._seed < CHOSEN or torch.initial_seed() != self._seed

    def _drawn(self) -> bool:
        return not torch.equal(torch.get_rng_state(), self._state)
