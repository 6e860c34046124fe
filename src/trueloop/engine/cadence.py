"""When things happen in a run: questions about its counters. Nothing is done here."""

from dataclasses import dataclass
from typing import final

from trueloop.engine.nonfinite_guard import Guard
from trueloop.engine.row_schedule import RowSchedule
from trueloop.engine.state import State
from trueloop.engine.stop import Stop
from trueloop.recipe.recipe import Recipe

__all__ = ["Cadence"]


@final
@dataclass(frozen=True)
class Cadence:
    """Every question is about the step that was just taken."""

    recipe: Recipe
    total_steps: int
    state: State
    stop: Stop
    guard: Guard
    rows: RowSchedule
    replays: bool = False  # Are several steps replayed at once, so that the host learns their outcome later?

    def at_end(self) -> bool:
        return self.state.step >= self.total_steps

    def finished(self) -> bool:
        return self.at_end() or self.state.over or self.stop.ending is not None

    def _is_due(self, every: int | None) -> bool:
        return bool(every) and self.state.step % (every or 1) == 0

    def time_to_log(self) -> bool:
        return self.rows.is_due(self.state.step) or self.at_end() or self.guard.room == 0

    def time_to_evaluate(self, ends_epoch: bool) -> bool:
        every = self.recipe.evaluate_every
        return (ends_epoch if every is None else self._is_due(every)) or self.at_end()

    def time_to_compare_copies(self, evaluated: bool) -> bool:
        every = self.recipe.digest_every
        return evaluated if every is None else self._is_due(every)

    def time_to_save(self, evaluated: bool) -> bool:
        if self.stop.ending is not None and self.stop.ending.reason in ("nonfinite", "failed"):
            return False  # a resume must see that batch again, and must not start from weights that have diverged
        every = self.recipe.save_every
        return (evaluated if every is None else self._is_due(every)) or self.finished()

    def time_to_look(self, ends_epoch: bool) -> bool:
        """Read which steps the device has skipped: when the host waits anyway, and before statistics are used."""
        waits = self.guard.on_device and (self.time_to_log() or self.time_to_evaluate(ends_epoch))
        return self.guard.reading or waits

    def must_wait(self) -> bool:
        """Must the host know the outcome of all steps now? Yes, unless steps are replayed and nothing uses them yet."""
        used = self._is_due(self.recipe.save_every) or self.finished() or bool(self.stop.signal)
        return not self.replays or used or self.time_to_evaluate(ends_epoch=self.state.batch == 0)
