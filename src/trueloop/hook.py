"""Callbacks of a training run. No torch.

    class Stopwatch(Hook):
        def logged(self, row: Row) -> None:
            print(row.step, row.values["loss"])

A hook overrides the methods it needs. The loop itself needs none: `engine/train.py` is written out. Most methods get
numbers, in the first process only. Those with a `loop` get the run itself, in every process: see
`engine/hook_calls.py`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from trueloop.event import Event

if TYPE_CHECKING:
    from trueloop.engine.loop import Loop

__all__ = ["AGAIN", "Collapse", "Ending", "Hook", "Hooks", "Row", "Start", "log", "log_to", "stop_logging_to"]

AGAIN: Final = "Start the script again to continue."  # How a loop of the user's own is resumed


@dataclass(frozen=True, slots=True)
class Start:
    """The run that is about to start."""

    name: str
    model: str
    parameters: int
    device: str
    samples: int
    total_steps: int
    steps_per_epoch: int
    from_step: int  # 0 for a new run; the step at which a resumed run continues
    notes: tuple[str, ...]  # Decisions and their reasons: 'data: resident on cpu (14.9 MB)'
    folder: str = ""  # The run's folder: runs/NAME
    line_every: int = 1  # Steps between two lines of a plain log: rows of metrics may come at every step


@dataclass(frozen=True, slots=True)
class Row:
    """One row of metrics."""

    kind: Literal["train", "valid", "test", "layers"]
    step: int
    epoch: float
    values: Mapping[str, float]
    best: bool = False  # valid: the best so far


@dataclass(frozen=True, slots=True)
class Collapse:
    """An evaluation below the run's baseline, or no better than a constant prediction."""

    kind: Literal["baseline", "constant"]
    step: int
    metric: str
    value: float
    expected: float  # The value it was compared with
    noise: float
    sentence: str


@dataclass(frozen=True, slots=True)
class Ending:
    """How a training run ended."""

    reason: Literal["finished", "early-stopped", "signal", "nonfinite", "collapsed", "failed", "hung"]
    step: int
    message: str = ""  # One sentence for the user; empty for a normal end
    best: float | None = None
    best_step: int | None = None
    best_checkpoint: str = ""  # Its path; empty if there is none
    metric: str = ""
    test: Mapping[str, float] | None = None
    signal: int = 0


class Hook(ABC):  # noqa: B024 - no method is required
    """Override what you need."""

    def started(self, start: Start) -> None:
        """Before the first step."""

    def event_emitted(self, event: Event) -> None:
        """An event for the rules."""

    def logged(self, row: Row) -> None:
        """Metrics of training, validation or test; statistics of layers."""

    def progressed(self, row: Row) -> None:
        """The run lives: its step now, a few times per second. For displays; the metrics are in `logged`."""

    def saved(self, step: int, path: str) -> None:
        """A checkpoint is complete on disk."""

    def noted(self, sentence: str) -> None:
        """A remark for the user: a step was skipped, the run returned to a checkpoint."""

    def collapsed(self, collapse: Collapse) -> None:
        """The run fell below its baseline: it stops or is marked, as the recipe says."""

    def ended(self, ending: Ending) -> None:
        """After the last step, whatever the reason."""

    # -- with the run itself --

    def begin(self, loop: Loop) -> None:
        """Once, before the first step. A resumed run has the weights and counters of its checkpoint here."""

    def stepped(self, loop: Loop) -> None:
        """After each optimizer step."""

    def evaluated(self, loop: Loop, values: Mapping[str, float]) -> None:
        """After each evaluation, with its loss and metrics."""

    def epoch_ended(self, loop: Loop) -> None:
        """After each epoch; `loop.epoch` is the number of complete ones."""

    def state_dict(self) -> Mapping[str, Any]:
        """What a checkpoint keeps of this hook: plain values and tensors."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """What `state_dict` returned, after `begin` of a resumed run."""


class Hooks(Hook):
    """Several hooks as one, called in order."""

    def __init__(self, *members: Hook) -> None:
        self.members = members

    def _all(self, method: str, *arguments: object) -> None:
        for member in self.members:
            getattr(member, method)(*arguments)

    def started(self, start: Start) -> None:
        self._all("started", start)

    def event_emitted(self, event: Event) -> None:
        self._all("event_emitted", event)

    def logged(self, row: Row) -> None:
        self._all("logged", row)

    def progressed(self, row: Row) -> None:
        self._all("progressed", row)

    def saved(self, step: int, path: str) -> None:
        self._all("saved", step, path)

    def noted(self, sentence: str) -> None:
        self._all("noted", sentence)

    def collapsed(self, collapse: Collapse) -> None:
        self._all("collapsed", collapse)

    def ended(self, ending: Ending) -> None:
        self._all("ended", ending)


# -- values of the user's own, from anywhere in a script --

LogListener = Callable[[Mapping[str, Any]], None]
_listeners: Final[list[LogListener]] = []


def log(**values: Any) -> None:
    """Add numbers, or tensors with one element, to this step's row of metrics: `trueloop.log(entropy=entropy)`.

    Under `trueloop check`, `trueloop.watch()`, `trueloop.session` and `trueloop train`; a script that runs by itself
    ignores the call. `val_` or `test_` in front of a name makes it a value of an evaluation (of a checked script).
    """
    if _listeners:
        _listeners[-1](values)


def log_to(listener: LogListener) -> None:
    """Send `log` there, until `stop_logging_to`; the latest listener gets the values."""
    _listeners.append(listener)


def stop_logging_to(listener: LogListener) -> None:
    if listener in _listeners:
        _listeners.remove(listener)
