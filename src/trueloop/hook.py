"""What may listen to a run of ours, and what it is told: numbers, never live objects. No torch.

    class Stopwatch(Hook):
        def logged(self, row: Row) -> None:
            print(row.step, row.values["loss"])

A hook overrides what it needs. The loop needs none: what every run does is written out in `engine/train.py`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trueloop.event import Event

__all__ = ["Collapse", "Ending", "Hook", "Hooks", "Row", "Start"]


@dataclass(frozen=True, slots=True)
class Start:
    """What is about to run."""

    name: str
    model: str
    parameters: int
    device: str
    samples: int
    total_steps: int
    steps_per_epoch: int
    from_step: int
    """0 for a new run; where a resumed one goes on."""
    notes: tuple[str, ...]
    """What was decided and why: 'data: resident on cpu (14.9 MB)'."""
    folder: str = ""
    """The run's folder: runs/NAME."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of metrics."""

    kind: Literal["train", "valid", "test", "layers"]
    step: int
    epoch: float
    values: Mapping[str, float]
    best: bool = False
    """valid: the best so far."""


@dataclass(frozen=True, slots=True)
class Collapse:
    """An evaluation that is below the run's baseline, or no better than a constant answer."""

    kind: Literal["baseline", "constant"]
    step: int
    metric: str
    value: float
    expected: float
    """What it was held against."""
    noise: float
    sentence: str


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run of ours ended."""

    reason: Literal["finished", "early-stopped", "signal", "nonfinite", "collapsed", "failed", "hung"]
    step: int
    message: str = ""
    """One sentence for a person; empty when it simply finished."""
    best: float | None = None
    best_step: int | None = None
    best_checkpoint: str = ""
    """Where it lies; empty: there is none."""
    metric: str = ""
    test: Mapping[str, float] | None = None
    signal: int = 0


class Hook(ABC):  # noqa: B024 - every method may be left as it is
    """Override what you need."""

    def started(self, start: Start) -> None:
        """Before the first step."""

    def heard(self, event: Event) -> None:
        """A fact that rules may judge."""

    def logged(self, row: Row) -> None:
        """Metrics of training, validation or test; statistics of layers."""

    def saved(self, step: int, path: str) -> None:
        """A checkpoint is whole on disk."""

    def noted(self, sentence: str) -> None:
        """Something a person should know: a step was skipped, the run went back to a checkpoint."""

    def collapsed(self, collapse: Collapse) -> None:
        """The run has fallen below its baseline: it stops, or is marked, as the recipe says."""

    def ended(self, ending: Ending) -> None:
        """After the last step, whatever the reason."""


class Hooks(Hook):
    """Several as one, told in their order."""

    def __init__(self, *members: Hook) -> None:
        self.members = members

    def started(self, start: Start) -> None:
        for member in self.members:
            member.started(start)

    def heard(self, event: Event) -> None:
        for member in self.members:
            member.heard(event)

    def logged(self, row: Row) -> None:
        for member in self.members:
            member.logged(row)

    def saved(self, step: int, path: str) -> None:
        for member in self.members:
            member.saved(step, path)

    def noted(self, sentence: str) -> None:
        for member in self.members:
            member.noted(sentence)

    def collapsed(self, collapse: Collapse) -> None:
        for member in self.members:
            member.collapsed(collapse)

    def ended(self, ending: Ending) -> None:
        for member in self.members:
            member.ended(ending)
