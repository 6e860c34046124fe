"""Steps of optimizers and of schedules, and who holds which parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from trueloop.event.base import Event, Place

__all__ = ["SCALE_FREE", "ParameterAccount", "ParametersAccounted", "ScheduleBuilt", "ScheduleEnded", "ScheduleStepped", "Stepped"]


@dataclass(frozen=True, slots=True)
class Stepped(Event):
    """An optimizer took a step. `step` counts the ones before it."""

    optimizer: int
    name: str
    index: int
    """How many steps this optimizer had taken before."""
    gradients: Literal["new", "same", "none", "cleared"]
    """What the step found. new: changed since its last step; same: exactly those of its last step; none: no
    parameter has one and none was made; cleared: a backward made them, and they were reset before the step."""
    cleared: bool
    """They were reset at some moment since its last step (True for the first step)."""
    backwards: int
    """Backwards that brought gradients to this optimizer's parameters since its last step."""
    backward_places: tuple[Place, ...]
    """Where those backwards were called, each place once."""
    most_at_one_place: int
    """The largest number of those backwards that one place made."""
    averaged: bool
    """The losses of that place were divided, or were no means, or the gradients were rescaled by hand."""
    clipped: bool
    closure: bool
    """The backwards ran inside the step."""
    learning_rates: tuple[float, ...]
    scale_free: bool
    """Adam and its kin: the length of the gradient does not change the length of the update."""


@dataclass(frozen=True, slots=True)
class ParameterAccount:
    """One parameter of a model: who knows it, and what reached it."""

    name: str
    size: int
    trainable: bool
    held: bool
    """Some optimizer holds it."""
    has_gradient: bool
    """It has received a gradient at some step so far."""
    ran: bool
    """The forward of the module that owns it ran."""
    ran_with_graph: bool
    """... and recorded a graph: the gradient was lost between there and the loss."""
    defined: Place | None
    """The line of a class of the user's that makes it; None if a library's class does."""
    cuts: tuple[Place, ...]
    """Lines of the user's that took its effect out of the graph: detach, item, numpy, .data ... of a tensor computed with it."""


@dataclass(frozen=True, slots=True)
class ParametersAccounted(Event):
    """Model against optimizers, after some steps."""

    model: int
    name: str
    steps: int
    """Steps that the optimizers holding any of its parameters have taken."""
    accounts: tuple[ParameterAccount, ...]
    """Only the trainable parameters that are not in order: held by an optimizer without ever a gradient, or with one and held by none."""
    in_order: int
    """How many are in order."""
    orphans: int
    """Tensors that an optimizer of this model holds, that belong to no module seen and never had a gradient."""
    orphan_sizes: tuple[int, ...]
    optimizer_place: Place | None
    """Where the optimizer was built."""
    cuts: tuple[Place, ...]
    """Lines of the user's where a tensor computed with some parameter of this model was detached, turned into a number, or into an array,
    between the beginning of the run and now."""


@dataclass(frozen=True, slots=True)
class ScheduleBuilt(Event):
    schedule: int
    name: str
    length: int | None
    """Steps after which it has run its course, if it has such a length."""
    learning_rates: tuple[float, ...]
    optimizer: int


@dataclass(frozen=True, slots=True)
class ScheduleStepped(Event):
    schedule: int
    name: str
    index: int
    """How often the user had stepped it before."""
    length: int | None
    optimizer_steps: int
    """Steps its optimizer had taken since the schedule was built (or first seen)."""
    skipped_by_scaler: bool
    """A GradScaler is in use: the first steps may have been skipped for it."""
    built_in_view: bool
    """The schedule was built under watch, so that nothing before it went unseen."""
    learning_rates: tuple[float, ...]
    """After the step."""
    optimizer: int
    explicit: bool
    """The user said which epoch it is, instead of letting the schedule count."""


@dataclass(frozen=True, slots=True)
class ScheduleEnded(Event):
    """How a schedule stood when the run ended, or when it was thrown away. `place` is where it was built."""

    schedule: int
    name: str
    length: int | None
    steps: int
    """How often it was stepped."""
    optimizer: int
    optimizer_steps: int
    """Steps its optimizer took while it lived."""
    passes: int
    """Passes over loaders that were started while it lived."""
    inner: bool
    """Another schedule holds it, and steps it in its own time."""
    built_in_view: bool


SCALE_FREE: Final = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Rprop", "Adafactor", "Lion")
"""Optimizers for which the length of the gradient does not change the length of the update."""
