"""Between torch and the observers: who listens to which moment, when to listen at all, and what listening has cost.

Three promises are kept here, once, for all observers:
- the watcher never breaks the run: a observer that raises is retired, and said so at the end;
- what a observer itself calls is not part of the run (`busy`), nor is what torch traces, compiles or transforms;
- watching stays inside its budget: between windows of watched steps the taps sleep.
"""

from __future__ import annotations

import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import get_ident
from time import perf_counter_ns
from typing import Any, Final

from trueloop.event import Event
from trueloop.taps.calls import MOMENTS, ModuleCall, RunEnd
from trueloop.taps.journal import Journal
from trueloop.torch_private.dispatch import dispatch_modes, is_transformed, tracing_state

__all__ = ["DEEP_BACKWARDS", "DEEP_STEPS", "Bus", "StopTheRun"]

DEEP_STEPS: Final = 3
"""Steps, from the start of a run and from a new model's first call, on which costly looks (inner modules, graph walks)
are allowed."""


DEEP_BACKWARDS: Final = 40
"""Backwards after which costly looks end even if no optimizer has stepped: the loop moves its weights by hand."""


class StopTheRun(BaseException):
    """Raised inside the user's loop when the run was asked to end early. Not an Exception, so that no handler keeps
    it."""


class Bus:
    """One per watched run."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self.emit = emit
        """Where observers put their events."""
        self.step = 0
        """Optimizer steps taken so far, all optimizers counted."""
        self.deep = True
        """Are costly looks allowed at this step?"""
        self.deep_until = DEEP_STEPS
        self._deep_backwards = 0
        self.busy = False
        self.awake = True
        self.in_backward = False
        self.in_step = 0
        """Optimizer steps under way: > 0 inside a closure."""
        self.call: ModuleCall | None = None
        """The outermost module call that is under way."""
        self.stop_asked = ""
        """Why the run is to end at the next step; empty to go on."""
        self.scaler_used = False
        """A GradScaler is in use: steps may be skipped for it, and losses are multiplied."""
        self.taken: Counter[int] = Counter()
        """Steps that each optimizer, by its number, has taken, also those while the bus slept."""
        self.meeting: Path | None = None
        """The folder in which the ranks of this machine can read one another's journals."""
        self.journal: Journal | None = None
        """The collectives of this rank; None as long as it is not one of several."""
        self.when_joined: Callable[[], None] = _nothing
        """Called when this process has become one of several ranks."""
        self.sharded = False
        """Weights in pieces on several ranks were seen."""
        self.spent_ns = 0
        self.failures: list[str] = []
        self._listeners: dict[str, tuple[tuple[object, Callable[[Any], None]], ...]] = dict.fromkeys(MOMENTS, ())
        self._thread = get_ident()
        self._ordinals: dict[tuple[str, int], int] = {}
        self._counts: dict[str, int] = {}

    # -- who listens --

    def connect(self, observers: Iterable[object]) -> None:
        for observer in observers:
            for moment in MOMENTS:
                if hasattr(observer, moment):
                    self._listeners[moment] += ((observer, getattr(observer, moment)),)

    def hears(self, *moments: str) -> bool:
        return any(self._listeners[moment] for moment in moments)

    def tell(self, moment: str, subject: Any) -> None:
        """Tell a moment to the observers that listen to it, if this is the run's own doing."""
        listeners = self._listeners[moment]
        if not listeners or self.busy or get_ident() != self._thread:
            return
        if is_transformed() is not None or tracing_state() is not None or dispatch_modes():
            return
        self.busy = True
        began = perf_counter_ns()
        try:
            for observer, method in listeners:
                try:
                    method(subject)
                except Exception:  # noqa: BLE001 - the watcher never breaks the run
                    self._retire(observer)
        finally:
            self.busy = False
            self.spent_ns += perf_counter_ns() - began

    def last_words(self, end: RunEnd) -> None:
        """Tell that the run has ended: to all, asleep or not, and from whichever thread it is that ends."""
        self.awake, self.busy, self._thread = True, False, get_ident()
        self.tell("run_ended", end)

    def fail(self, what: str) -> None:
        """Note the exception that is being handled as a failure of our own; the run goes on."""
        self.failures.append(f"{what}:\n{traceback.format_exc()}")

    def _retire(self, observer: object) -> None:
        self.fail(f"observer {type(observer).__name__} failed and was removed")
        for moment, listeners in self._listeners.items():
            self._listeners[moment] = tuple(pair for pair in listeners if pair[0] is not observer)

    def keep_off_shards(self) -> None:
        """The weights lie in pieces on several ranks: from here on only observers are told that read none of their
        numbers."""
        if self.sharded:
            return
        self.sharded = True
        for moment, listeners in self._listeners.items():
            self._listeners[moment] = tuple(pair for pair in listeners if getattr(pair[0], "safe_on_shards", False))

    def ignores(self) -> bool:
        """Is what happens now not the run's own, or are the taps asleep?"""
        return self.busy or not self.awake or get_ident() != self._thread

    def is_foreign(self) -> bool:
        """Is what happens now not the run's own: a observer at work, a forked child, another thread?"""
        return self.busy or get_ident() != self._thread

    def look_deep(self) -> None:
        """Something new came into the run (another model): allow costly looks for some steps from here."""
        self.deep = True
        self.deep_until = self.step + DEEP_STEPS
        self._deep_backwards = 0

    def count_backward(self) -> None:
        """Costly looks also end without steps."""
        self._deep_backwards += 1
        if self._deep_backwards >= DEEP_BACKWARDS:
            self.deep = False

    # -- names for live objects --

    def ordinal(self, kind: str, thing: object) -> int:
        """A small number for an object, the same each time, in the order of first sight."""
        key = (kind, id(thing))
        if key not in self._ordinals:
            self._ordinals[key] = self._counts.get(kind, 0)
            self._counts[kind] = self._ordinals[key] + 1
            weakref.finalize(thing, self._ordinals.pop, key, None).atexit = False
        return self._ordinals[key]


def _nothing() -> None:
    """Nobody waits for this."""
