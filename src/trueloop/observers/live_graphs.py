"""Graphs that stay in memory: an object in the node of each loss, and of each output of a model, is counted until it is
freed with the graph."""

from __future__ import annotations

from typing import Final

from torch import Tensor

from trueloop.event import GraphsAlive, Place
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, LossCall, ModuleCall, RunEnd, StepCall, tensors_in
from trueloop.taps.graph import through_factors
from trueloop.taps.graph_notes import KEPT, KEPT_OUTPUT, read_note, write_note

__all__ = ["LiveGraphsObserver"]

SMALLEST: Final = 8  # graphs of earlier steps that are reported; then each eight up to STEADY, then each doubling
STEADY: Final = 32
ALMOST_ALL: Final = 0.9


class _Tally:
    """The losses of one place whose graphs are alive."""

    __slots__ = ("full", "living", "made", "next_told")

    def __init__(self) -> None:
        self.made = 0
        self.living: dict[int, int] = {}  # number of the loss -> its step, oldest first
        self.next_told = SMALLEST
        self.full = (0, 0, 0)  # the latest step at which almost all were alive, their number, and the oldest's step

    def add(self, step: int) -> _Marker:
        self.made += 1
        self.living[self.made] = step
        return _Marker(self, self.made)

    def of_earlier_steps(self, step: int) -> list[int]:
        """The earlier steps whose losses are alive."""
        return [made_at for made_at in self.living.values() if made_at < step]


class _Marker:
    """Stored in a graph node; freed with it."""

    __slots__ = ("_number", "_tally")

    def __init__(self, tally: _Tally, number: int) -> None:
        self._tally, self._number = tally, number

    def end(self) -> None:
        self._tally.living.pop(self._number, None)

    __del__ = end


class LiveGraphsObserver(Observer):
    emits = (GraphsAlive,)

    def prepare(self) -> None:
        self._tallies: dict[tuple[bool, bool, Place | None], _Tally] = {}  # by outputs, training

    def module_call_ended(self, call: ModuleCall) -> None:
        output = (
            next((t for t in tensors_in(call.output, limit=4) if t.grad_fn is not None), None) if call.grad else None
        )
        if output is not None and not call.failed:
            write_note(output, KEPT_OUTPUT, self._new_life(call.place, training=False, outputs=True))

    criterion_ended = module_call_ended

    def loss_called(self, call: LossCall) -> None:
        if call.output.grad_fn is not None:
            write_note(call.output, KEPT, self._new_life(call.place, training=False))

    def backward_started(self, call: BackwardCall) -> None:
        loss = call.tensors[0] if len(call.tensors) == 1 else None
        if not isinstance(loss, Tensor) or loss.grad_fn is None:
            return
        life = self._new_life(call.place, training=True)
        for node in through_factors(loss):
            computed = read_note(node, KEPT)
            if isinstance(computed, _Marker):  # from here on it counts as a loss with a backward
                computed.end()
            node.metadata[KEPT] = life

    def _new_life(self, place: Place | None, *, training: bool, outputs: bool = False) -> _Marker:
        key = (outputs, training, place)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = _Tally()
        return tally.add(self.bus.step)

    def step_ended(self, call: StepCall) -> None:
        for (outputs, training, place), tally in self._tallies.items():
            if outputs:
                if len(tally.living) > ALMOST_ALL * tally.made:
                    tally.full = (self.bus.step, len(tally.living), next(iter(tally.living.values())))
                continue
            if len(tally.living) < tally.next_told:
                continue
            steps = tally.of_earlier_steps(self.bus.step)
            if len(steps) < tally.next_told:
                continue
            while tally.next_told <= len(steps):
                tally.next_told = tally.next_told + SMALLEST if tally.next_told < STEADY else 2 * tally.next_told
            self.emit(GraphsAlive, place, len(steps), tally.made, min(steps), training)

    def run_ended(self, _: RunEnd) -> None:
        """Outputs that were alive for most of the run: a list for each epoch is freed after it."""
        for (outputs, training, place), tally in self._tallies.items():
            until, alive, oldest = tally.full
            if outputs and alive >= SMALLEST and until >= ALMOST_ALL * self.bus.step:
                self.emit(GraphsAlive, place, alive, tally.made, oldest, training, outputs)
