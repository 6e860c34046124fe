"""States that are taken, kept, written and read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = ["Contents", "FileOpened", "FileWritten", "KeptNumber", "Resumed", "ScheduleAtResume", "StateReused"]


@dataclass(frozen=True, slots=True)
class StateReused(Event):
    """A state_dict that was kept, and used when the weights it shares had moved on. `place` is where it was taken."""

    use: Literal["load", "save"]
    use_place: Place | None
    taken_step: int
    shared: int
    tensors: int


@dataclass(frozen=True, slots=True)
class KeptNumber:
    """A whole number that a file keeps under a name: an epoch, a step."""

    name: str
    value: int


@dataclass(frozen=True, slots=True)
class Contents:
    """What a value that is written or read holds, as far as one can tell from its shape."""

    modules: tuple[tuple[str, str], ...] = ()
    """CompiledStep modules with weights: (key, class); the key is empty where the value itself is the module."""
    weights: int = 0
    """Tensors in state dicts of models."""
    optimizers: int = 0
    """State dicts of optimizers that hold something for some parameter."""
    schedules: int = 0
    """State dicts of schedules that have been stepped."""
    scalers: int = 0
    random: bool = False
    """The state of torch's random generator."""
    counters: tuple[KeptNumber, ...] = ()


@dataclass(frozen=True, slots=True)
class FileWritten(Event):
    """torch.save has written something."""

    file: str
    """Its absolute path; empty where it went into memory."""
    contents: Contents
    direct: bool
    """The user's own line calls torch.save, with no library between."""


@dataclass(frozen=True, slots=True)
class FileOpened(Event):
    """torch.load has read something."""

    file: str
    """Its absolute path; empty where it came from memory."""
    unsafe: bool
    """weights_only=False, or an unpickler of the caller's own: the file may run code."""
    direct: bool
    """The user's own line calls torch.load, with no library between."""
    own: bool
    """This very run has written the file."""
    foreign: tuple[str, ...]
    """Classes of what it holds that only an unsafe load can read; empty if a safe load gives the same."""
    looked_through: bool
    """All of it was looked at."""


@dataclass(frozen=True, slots=True)
class ScheduleAtResume:
    """A schedule of the optimizer that takes the first step after a load."""

    schedule: int
    name: str
    last_epoch: int
    users: bool
    """Its class, or the function it computes rates with, is the user's: it may know the epoch by other ways."""


@dataclass(frozen=True, slots=True)
class Resumed(Event):
    """A model that had not been trained was given all its weights by a file, and took its first step. `place` is where
    it was loaded."""

    file: str
    """The absolute path of the file; empty where it came from memory."""
    model: str
    optimizer: int
    name: str
    """The class of the optimizer."""
    optimizer_place: Place | None
    """Where it was built."""
    fresh: bool
    """It held no state before that step."""
    stateful: bool
    """It holds state after it: there was something to lose."""
    key: tuple[str, ...]
    """Where the file keeps the state of an optimizer for these very parameters: ('optimizer',); empty if it has
    none."""
    kept: int
    """Parameters for which that state holds something."""
    steps_before: int
    """Steps that it had counted; 0 where it does not count."""
    same_settings: bool
    """That state was written by an optimizer with the same settings and the same kind of state."""
    rate_moved: bool
    """A schedule had moved the learning rate that it was written with."""
    contents: Contents
    """Of the file."""
    schedules: tuple[ScheduleAtResume, ...]
    scaler_used: bool
    scaler_restored: bool
    random_restored: bool
