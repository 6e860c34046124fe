"""Steps of optimizers and of schedules, and who holds which parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from trueloop.event.base import Event, Place

__all__ = [
    "SCALE_FREE",
    "DecaySeen",
    "FrozenMoved",
    "FrozenStatisticsMoved",
    "OptimizerIdle",
    "OptimizerRebuilt",
    "ParameterAccount",
    "ParametersAccounted",
    "PlateauFed",
    "ScheduleBuilt",
    "ScheduleEnded",
    "ScheduleStepped",
    "Stepped",
    "WeightMove",
    "WeightsMoved",
]


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
    """Lines of the user's that took its effect out of the graph: detach, item, numpy, .data ... of a tensor computed
    with it."""


@dataclass(frozen=True, slots=True)
class ParametersAccounted(Event):
    """Model against optimizers, after some steps."""

    model: int
    name: str
    steps: int
    """Steps that the optimizers holding any of its parameters have taken."""
    accounts: tuple[ParameterAccount, ...]
    """Only the trainable parameters that are not in order: held by an optimizer without ever a gradient, or with one
    and held by none."""
    in_order: int
    """How many are in order."""
    orphans: int
    """Tensors that an optimizer of this model holds, that belong to no module seen and never had a gradient."""
    orphan_sizes: tuple[int, ...]
    optimizer_place: Place | None
    """Where the optimizer was built."""
    cuts: tuple[Place, ...]
    """Lines of the user's where a tensor computed with some parameter of this model was detached, turned into a number,
    or into an array, between the beginning of the run and now."""


@dataclass(frozen=True, slots=True)
class OptimizerIdle(Event):
    """An optimizer that was never stepped, though gradients came to its parameters and were cleared. `place` is where
    it was built."""

    optimizer: int
    name: str
    backwards: int
    """Backwards that brought gradients to its parameters."""
    cleared: int
    """How often they were cleared before the next one."""
    backward_place: Place | None


@dataclass(frozen=True, slots=True)
class OptimizerRebuilt(Event):
    """An optimizer was built over exactly the parameters that an earlier one held, which had taken steps. `place` is
    where it was built."""

    line: int
    """A number for this set of parameters."""
    name: str
    """The class of the earlier one."""
    steps: int
    """Steps that the earlier one had taken."""
    kept: int
    """Parameters for which it held state."""
    closure: bool
    """Its steps called a closure."""
    goes_on: bool
    """The weights are those that its last step left."""


@dataclass(frozen=True, slots=True)
class FrozenMoved(Event):
    """A step moved parameters that need no gradient, and had needed none at the step before."""

    optimizer: int
    name: str
    parameters: tuple[str, ...]
    """Names of those that moved; '' where no model has it."""
    moved: int
    frozen: int
    """How many frozen parameters the optimizer holds."""
    gradients: Literal["zero", "stale"]
    """What it found: zeros, or gradients that nothing had touched since the step before."""
    change: float
    """The largest change of one number."""
    decay: float
    """The largest weight decay of the groups."""
    momentum: bool
    """The optimizer remembers earlier gradients."""


@dataclass(frozen=True, slots=True)
class FrozenStatisticsMoved(Event):
    """Batch norm layers whose weights are frozen, in a model that trains, took new running statistics from the
    batches."""

    model: str
    layers: tuple[str, ...]
    """Names of the first few."""
    count: int
    steps: int
    """Steps between the two looks."""
    change: float
    """The largest change of a running mean."""


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


@dataclass(frozen=True, slots=True)
class DecaySeen(Event):
    """An optimizer that decays weights takes its first step. `place` is where it was built."""

    optimizer: int
    name: str
    decays: tuple[float, ...]
    """weight_decay of each group."""
    folded: bool
    """It is torch's own Adam, which adds the decay to the gradient before it divides by the gradient's size."""
    learning_rates: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PlateauFed(Event):
    """A ReduceLROnPlateau was told a value. `place` is the line that told it."""

    schedule: int
    index: int
    """How often it had been told one before."""
    value: float
    whole: bool
    """The value is a whole number of Python's (an int), not a measurement."""
    mode: str
    """min or max."""
    patience: int
    learning_rates: tuple[float, ...]
    """After it."""
    optimizer_steps: int
    """Steps its optimizer had taken by then."""
    built: Place | None


@dataclass(frozen=True, slots=True)
class WeightMove:
    """How far one weight matrix has moved, judged by some of its numbers."""

    name: str
    size: int
    """Numbers in the whole of it."""
    length: float
    """Root mean square of its numbers at the first look: what lies near zero there has no scale to be measured by."""
    update: float | None
    """Length of this step's change over the weight's own; None where no step was measured."""
    travelled: float
    """Length of the way from the first look to here, over the weight's length at the first look."""
    pull: float | None
    """Length of the gradient times that of the weight: about what the loss would change by if the weight changed by its
    own length."""


@dataclass(frozen=True, slots=True)
class WeightsMoved(Event):
    """What a step did to the weights of an optimizer: on a few of its steps, and at the end of the run. `place` is
    where it was built."""

    optimizer: int
    name: str
    steps: int
    """Steps that the optimizer took since the first look, this one included."""
    learning_rate: float
    """The largest of its groups."""
    moves: tuple[WeightMove, ...]


SCALE_FREE: Final = (
    "Adam",
    "AdamW",
    "NAdam",
    "RAdam",
    "Adamax",
    "Adagrad",
    "Adadelta",
    "RMSprop",
    "Rprop",
    "Adafactor",
    "Lion",
)
"""Optimizers for which the length of the gradient does not change the length of the update."""
