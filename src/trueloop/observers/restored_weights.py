"""Which weights an evaluation saw, and which values were printed then: are weights of an earlier evaluation used last?

Weights are recognized by a few of their numbers, so a restored state, a copied model and a file are all the same here.
Only numbers are kept.
"""

import weakref
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import Tensor, nn

from trueloop.event import EvaluatedWeights, Place, WeightsRestored
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import unwrapped
from trueloop.taps.calls import LinePrinted, ModuleCall, RunEnd, StateLoad, StateSave
from trueloop.taps.checkpoint_contents import path_of
from trueloop.torch_private.tensors import tensor_version
from trueloop.usercode.names import words_of
from trueloop.usercode.printed import validation_metrics

__all__ = ["RestoredWeightsObserver"]

MOST: Final = 512  # evaluated states of a run: with more, a model is called without gradients in every step
WEIGHTS: Final = 3  # of a model
NUMBERS: Final = 8  # of each
FEWEST: Final = 2  # evaluated states of a model, of which one may be used again
FILES: Final = 16


@dataclass(slots=True)
class _Look:
    model: int
    step: int
    weights: tuple[float, ...]
    place: Place | None
    values: dict[str, float] = field(default_factory=dict)
    again: "_Look | None" = None  # the same weights were evaluated before, and others since


@dataclass(slots=True)
class _Watched:
    """A model, and a few of its weights as they were at its latest look."""

    name: str
    weights: tuple[weakref.ref[Tensor], ...]
    look: _Look
    versions: int


class RestoredWeightsObserver(Observer):
    emits = (WeightsRestored,)

    def prepare(self) -> None:
        self._looks: list[_Look] = []
        self._models: dict[int, _Watched] = {}
        self._loaded: tuple[int, Place | None] = (-1, None)  # step and line of the latest load
        self._files: dict[str, tuple[_Look, Place | None]] = {}
        self._off = False

    def module_call_started(self, call: ModuleCall) -> None:
        if call.grad or self._off:
            return
        known = self.objects.model(call.module)
        if known is None:
            return
        watched = self._models.get(known.number)
        if watched is not None and watched.look.step == self.bus.step and watched.versions == _versions(watched):
            return
        if watched is None:
            watched = self._watch(known.number, known.name, unwrapped(call.module))
        if watched is not None:
            self._look(known.number, watched, call.place)

    def _watch(self, number: int, name: str, module: nn.Module) -> _Watched | None:
        fit = [p for p in module.parameters() if is_plain(p) and p.is_floating_point() and is_readable(p)]
        if not fit:
            return None
        chosen = fit[:: max(1, -(-len(fit) // WEIGHTS))]
        watched = _Watched(name, tuple(map(weakref.ref, chosen)), _Look(number, -1, (), None), -1)
        self._models[number] = watched
        return watched

    def _look(self, number: int, watched: _Watched, place: Place | None) -> None:
        weights = _numbers(watched)
        before, step = watched.look, self.bus.step
        watched.versions = _versions(watched)
        if weights == before.weights:
            if before.step != step:  # evaluated again without a step of its own in between
                before.step = step
            return
        again = next((look for look in reversed(self._looks) if look.weights == weights and look.step < step), None)
        watched.look = _Look(number, step, weights, place, again=again)
        self._looks.append(watched.look)
        if len(self._looks) > MOST:
            self._off = True
            self._looks.clear()
            self._models.clear()
            self._files.clear()

    def line_printed(self, line: LinePrinted) -> None:
        current = [watched.look for watched in self._models.values() if watched.look.step == self.bus.step]
        values = validation_metrics(line.text) if current else {}
        for look in current if values else ():
            look.values = values | look.values

    def state_loading(self, load: StateLoad) -> None:
        self._loaded = (self.bus.step, load.place)

    def state_saving(self, save: StateSave) -> None:
        path = path_of(save.file)
        current = [watched.look for watched in self._models.values() if watched.look.step == self.bus.step]
        if path and len(current) == 1 and (path in self._files or len(self._files) < FILES):
            self._files[path] = (current[0], save.place)

    def run_ended(self, end: RunEnd) -> None:
        last = [watched.look for watched in self._models.values() if watched.look.step == self.bus.step]
        restored = {look.again.step for look in self._looks if look.step == self.bus.step and look.again is not None}
        used = [(look, look.again) for look in last if look.again is not None]
        if len(restored) == 1 and used:  # several: all kept states are evaluated, one after the other
            (look, before), (loaded, place) = used[0], self._loaded
            self._report(before, place if loaded == self.bus.step and place is not None else look.place, "")
        for path, (look, at) in self._files.items() if not restored else ():
            if "best" in words_of(path.rpartition("/")[2]):
                self._report(look, at, path)

    def _report(self, look: _Look, place: Place | None, path: str) -> None:
        course = [one for one in self._looks if one.model == look.model and (one.again is None or one is look)]
        if len(course) < FEWEST:
            return
        evaluated = tuple(EvaluatedWeights(one.step, tuple(one.values.items())) for one in course)
        self.emit(WeightsRestored, place, self._models[look.model].name, course.index(look), evaluated, path)


def _versions(watched: _Watched) -> int:
    return sum(tensor_version(p) for ref in watched.weights if (p := ref()) is not None)


@torch.no_grad()
def _numbers(watched: _Watched) -> tuple[float, ...]:
    parts = [evenly_spaced(p.detach().reshape(-1), NUMBERS) for ref in watched.weights if (p := ref()) is not None]
    if len({(part.device, part.dtype) for part in parts}) == 1:
        return tuple(torch.cat(parts).tolist())
    return tuple(number for part in parts for number in part.tolist())
