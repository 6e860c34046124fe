"""Connects taps and observers: who subscribes to which topic, when to watch at all, and what watching has cost.

It keeps three promises for all observers:
- watching never breaks the run: an observer that raises is removed, and the report says so;
- observers compute without gradients;
- it ignores calls that an observer makes itself (`busy`), and everything that torch traces, compiles or transforms;
- watching stays inside its budget: between windows of watched steps the taps sleep.
"""

import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

import torch

from trueloop.event import Event
from trueloop.taps.calls import TOPICS, ModuleCall, RunEnd
from trueloop.taps.collective_log import CollectiveLog
from trueloop.torch_private.dispatch import dispatch_modes, is_transformed, set_grad, tracing_state

if TYPE_CHECKING:
    from trueloop.taps.step_log import StepLog

__all__ = ["DEEP_BACKWARDS", "DEEP_STEPS", "Bus", "StopTheRun"]

DEEP_STEPS: Final = 3
"""Deep steps run expensive checks (inner modules, graph walks): at the start and from a new model's first call."""
DEEP_BACKWARDS: Final = 40
"""Backward passes after which deep steps end even without an optimizer step: the loop updates its weights itself."""


_Subscribers = tuple[tuple[object, Callable[[Any], None]], ...]  # each with its method


class StopTheRun(BaseException):
    """Ends the user's loop early. Not an Exception, so that no handler in the script catches it."""


class Bus:
    """One per watched run."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self.emit = emit  # Where observers put their events
        self.step = 0  # Optimizer steps so far, over all optimizers
        self.deep = True  # Are expensive checks allowed at this step?
        self.deep_until = DEEP_STEPS
        self._deep_backwards = 0
        self.busy = False
        self.awake = True
        self.grad = True  # While observers run: did the script's own code record gradients?
        self.in_backward = False
        self.recording = False  # operations are being published
        self.fetching = False  # a loader reads samples: not a part of the step
        self.in_step = 0  # Optimizer steps on the stack: > 0 inside a closure
        self.call: ModuleCall | None = None  # The outermost call of a model that is running
        self.stop_reason = ""  # Why the run must end at the next step; empty to continue
        self.scaler_used = False  # A GradScaler is in use: it may skip steps, and it scales losses
        self.steps_taken: Counter[int] = Counter()  # Steps of each optimizer, by number, also while the bus slept
        self.ranks_folder: Path | None = None  # Where ranks of this machine read one another's collective logs
        self.collective_log: CollectiveLog | None = None  # The collectives of this rank; None in a run with one process
        self.on_joined: Callable[[], None] = lambda: None  # Called when this process has joined a process group
        self.watch_function: Callable[[Any], None] = lambda _: None  # Publish the next call of a custom function
        self.step_log: StepLog | None = None  # The curve of the run; called at every step, also while the bus sleeps
        self.sharded = False  # Some weights are sharded over several ranks
        self.spent_ns = 0
        self.failures: list[str] = []
        self._subscribers: dict[str, _Subscribers] = dict.fromkeys(TOPICS, ())
        self._usual: dict[str, _Subscribers] = dict.fromkeys(TOPICS, ())  # on steps that are neither deep nor recorded
        self.thread = get_ident()
        self._ordinals: dict[tuple[str, int], int] = {}
        self._counts: dict[str, int] = {}

    def subscribe(self, observers: Iterable[object]) -> None:
        """An observer subscribes to a topic by having a method of that name."""
        for observer in observers:
            for topic in TOPICS:
                if hasattr(observer, topic):
                    pair = (observer, getattr(observer, topic))
                    self._subscribers[topic] += (pair,)
                    if topic not in getattr(observer, "rarely", ()):
                        self._usual[topic] += (pair,)

    def subscribers(self, topic: str) -> _Subscribers:
        """Each subscriber with its method."""
        return self._subscribers[topic]

    def has_subscribers(self, *topics: str) -> bool:
        return any(self._subscribers[topic] for topic in topics)

    def publish(self, topic: str, subject: Any) -> None:
        """Call the subscribers, unless torch traces or transforms, or the caller is an observer or another thread.

        On most steps, observers that would return at once are not called."""
        subscribers = (self._subscribers if self.deep or self.recording else self._usual)[topic]
        if not subscribers or self.busy or get_ident() != self.thread:
            return
        if is_transformed() is not None or tracing_state() is not None or dispatch_modes():
            return
        self.busy = True
        began = perf_counter_ns()
        grad = self.grad = torch.is_grad_enabled()
        if grad:
            set_grad(False)  # once for all observers: a decorator on each costs more than they do
        try:
            for observer, method in subscribers:
                try:
                    method(subject)
                except Exception:  # noqa: BLE001 - watching never breaks the run
                    self._retire(observer)
        finally:
            if grad:
                set_grad(True)
            self.busy = False
            self.spent_ns += perf_counter_ns() - began

    def publish_run_end(self, end: RunEnd) -> None:
        """Publish to all, asleep or not, from whichever thread ends the run."""
        self.awake, self.busy, self.thread = True, False, get_ident()
        self.publish("run_ended", end)

    def fail(self, what: str) -> None:
        """Record the exception that is being handled as trueloop's own failure; the run continues."""
        self.failures.append(f"{what}:\n{traceback.format_exc()}")

    def _retire(self, observer: object) -> None:
        self.fail(f"observer {type(observer).__name__} failed and was removed")
        self._keep(lambda other: other is not observer)

    def skip_shard_readers(self) -> None:
        """Weights are sharded over several ranks: from now on call only observers that do not read their values."""
        if not self.sharded:
            self.sharded = True
            self._keep(lambda observer: getattr(observer, "safe_on_shards", False))

    def _keep(self, condition: Callable[[object], bool]) -> None:
        for table in (self._subscribers, self._usual):
            for topic, subscribers in table.items():
                table[topic] = tuple(pair for pair in subscribers if condition(pair[0]))

    def ignores(self) -> bool:
        """Are the taps asleep, or does this call not belong to the run?"""
        return self.busy or not self.awake or get_ident() != self.thread

    def is_foreign(self) -> bool:
        """Does this call not belong to the run: an observer's, a forked child's, another thread's?"""
        return self.busy or get_ident() != self.thread

    def allow_deep_steps(self) -> None:
        """Something new appeared (another model): allow expensive checks for some steps from here."""
        self.deep = True
        self.deep_until = self.step + DEEP_STEPS
        self._deep_backwards = 0

    def count_backward(self) -> None:
        self._deep_backwards += 1
        if self._deep_backwards >= DEEP_BACKWARDS:
            self.deep = False

    def ordinal(self, kind: str, thing: object) -> int:
        """A small stable number for a live object, in the order of first use."""
        key = (kind, id(thing))
        if key not in self._ordinals:
            self._ordinals[key] = self._counts.get(kind, 0)
            self._counts[kind] = self._ordinals[key] + 1
            weakref.finalize(thing, self._ordinals.pop, key, None).atexit = False
        return self._ordinals[key]

    def living(self, kind: str) -> int:
        """How many objects of a kind are numbered and alive."""
        return sum(known == kind for known, _ in tuple(self._ordinals))
