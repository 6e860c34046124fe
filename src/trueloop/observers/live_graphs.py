"""Graphs that stay in memory: an object in the node of each loss is counted until it is freed with the graph."""

from __future__ import annotations

from typing import Final

from torch import Tensor

from trueloop.event import GraphsAlive, Place
from trueloop.observers.observer import Observer
from trueloop.taps.calls import BackwardCall, LossCall, StepCall
from trueloop.taps.graph import through_factors
from trueloop.taps.graph_notes import KEPT, read_note, write_note

__all__ = ["LiveGraphsObserver"]

SMALLEST: Final = 8  # graphs of earlier steps that are reported; then each eight up to STEADY, then each doubling
STEADY: Final = 32


class _Tally:
    """The losses of one place whose graphs are alive."""

    __slots__ = ("living", "made", "next_told")

    def __init__(self) -> None:
        self.made = 0
        self.living: dict[int, int] = {}  # number of the loss -> its step, oldest first
        self.next_told = SMALLEST

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
        self._tallies: dict[tuple[bool, Place | None], _Tally] = {}

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

    def _new_life(self, place: Place | None, *, training: bool) -> _Marker:
        key = (training, place)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = _Tally()
        return tally.add(self.bus.step)

    def step_ended(self, call: StepCall) -> None:
        for (training, place), tally in self._tallies.items():
            if len(tally.living) < tally.next_told:
                continue
            steps = tally.of_earlier_steps(self.bus.step)
            if len(steps) < tally.next_told:
                continue
            while tally.next_told <= len(steps):
                tally.next_told = tally.next_told + SMALLEST if tally.next_told < STEADY else 2 * tally.next_told
            self.emit(GraphsAlive, place, len(steps), tally.made, min(steps), training)
