"""Models in training that one line moves again and again (to(), cuda(), half() ...) with a step between two moves."""

from dataclasses import dataclass
from typing import Final

from torch import nn

from trueloop.event import ModelMoved, Place
from trueloop.observers.observer import Observer
from trueloop.taps.calls import LoaderStart, ModuleMove

__all__ = ["ModelMovesObserver"]

IN_A_ROW: Final = 4  # moves of one model by one line, a step apart: a phase that moves its model once is not that


@dataclass(slots=True)
class _Row:
    step: int
    passes: int
    moves: int = 1
    changed: bool = False


class ModelMovesObserver(Observer):
    emits = (ModelMoved,)

    def prepare(self) -> None:
        self._rows: dict[tuple[Place, int], _Row] = {}
        self._passes = 0

    def loader_started(self, start: LoaderStart) -> None:
        self._passes += 1

    def module_moved(self, move: ModuleMove) -> None:
        key = (move.place, self.bus.ordinal("moved", move.module))
        row = self._rows.get(key)
        step, passes = self.bus.step, self._passes
        if row is None or not self._follows(row):
            self._rows[key] = _Row(step, passes, changed=move.changed)
            return
        if step == row.step:
            return  # twice in one step counts once
        row.step, row.passes, row.moves = step, passes, row.moves + 1
        row.changed = row.changed or move.changed
        if row.moves == IN_A_ROW and self._is_trained(move.module):
            self._report(move, row, key[1])

    def _follows(self, row: _Row) -> bool:
        """At most one round of the optimizers since, and no new pass: a move at the start of an epoch is fine."""
        return self.bus.step - row.step <= max(1, len(self.objects.optimizers)) and self._passes == row.passes

    def _is_trained(self, module: nn.Module) -> bool:
        """Models that nobody trains (a teacher, a reference) are moved to save memory."""
        held = self.objects.held_ids()
        return any(id(parameter) in held for parameter in module.parameters())

    def _report(self, move: ModuleMove, row: _Row, number: int) -> None:
        name, took_ms = type(move.module).__name__, move.took_ns / 1e6
        tensors = sum(1 for _ in (*move.module.parameters(), *move.module.buffers()))
        self.emit(ModelMoved, move.place, number, name, move.function, row.moves, row.changed, tensors, took_ms)
