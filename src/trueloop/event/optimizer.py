"""Optimizer and schedule steps, and which optimizer holds which parameter. `place` of an optimizer event that is not a
step: where the optimizer was built."""

from dataclasses import dataclass
from typing import Final, Literal

from trueloop.event.base import Event, Place

__all__ = ["SCALE_FREE", "SHORT_LIFE", "DecaySeen", "FreezingIgnored", "FrozenMoved", "FrozenStatisticsMoved"]
__all__ += ["FrozenWeights", "LeftFrozen", "LoaderTrained", "OpponentMoved", "OptimizerIdle", "OptimizerRebuilt"]
__all__ += ["ParameterAccount", "ParametersAccounted"]
__all__ += ["PlateauStepped", "ScheduleBuilt", "ScheduleEnded", "ScheduleStepped", "Stepped", "WeightCopies"]
__all__ += ["WeightMove", "WeightsMoved"]


@dataclass(frozen=True, slots=True)
class Stepped(Event):
    """An optimizer step. `step` counts the ones before it."""

    optimizer: int
    name: str
    index: int  # steps of this optimizer before
    gradients: Literal["new", "same", "none", "cleared"]
    """new: changed since its last step; same: exactly those of its last step; none: no parameter has one and no
    backward came; cleared: a backward computed them and they were cleared before the step."""
    cleared: bool  # gradients were cleared at some time since its last step (True for the first step)
    backwards: int  # backward calls that reached its parameters since its last step
    backward_places: tuple[Place, ...]  # where they were called, each place once
    most_at_one_place: int  # the largest number of those calls from one place
    averaged: bool  # losses at that place were divided or not means, or the gradients were rescaled manually
    clipped: bool
    closure: bool  # the backward calls ran inside the step
    learning_rates: tuple[float, ...]
    scale_free: bool  # Adam and similar: the gradient norm does not change the size of the update
    discarded: int = 0
    """Backward calls since its last step, from the line whose gradients it used, that were cleared without any use."""


@dataclass(frozen=True, slots=True)
class ParameterAccount:
    """One parameter of a model: which optimizer holds it, and whether a gradient reached it."""

    name: str
    size: int
    trainable: bool
    held: bool  # an optimizer holds it
    has_gradient: bool  # it has received a gradient at some step so far
    ran: bool  # the forward of its module ran
    ran_with_graph: bool  # and recorded a graph: the gradient was lost between there and the loss
    defined: Place | None  # the line of a user's class that creates it; None: a library's class does
    cuts: tuple[
        Place, ...
    ]  # lines of the user that detached it: detach, item, numpy, .data of a tensor computed with it


@dataclass(frozen=True, slots=True)
class ParametersAccounted(Event):
    """The parameters of a model against those of the optimizers, after some steps."""

    model: int
    name: str
    steps: int  # steps of the optimizers that hold any of its parameters
    accounts: tuple[ParameterAccount, ...]  # trainable parameters without a gradient, or without an optimizer
    complete: int  # trainable parameters with both
    orphans: int  # tensors of an optimizer of this model that belong to no known module and never had a gradient
    orphan_sizes: tuple[int, ...]
    optimizer_place: Place | None  # where the optimizer was built
    cuts: tuple[Place, ...]  # Lines that detached a tensor of this model, or made it a number or an array, so far
    unfrozen: bool = False  # all of `accounts` were frozen in the first steps, and got `requires_grad` later


@dataclass(frozen=True, slots=True)
class OptimizerIdle(Event):
    """An optimizer that was never stepped, though its gradients were computed and cleared."""

    optimizer: int
    name: str
    backwards: int  # backward calls that reached its parameters
    cleared: int  # times the gradients were cleared before the next one
    backward_place: Place | None


@dataclass(frozen=True, slots=True)
class OpponentMoved(Event):
    """Steps of an optimizer that moved a model after a loss that pushes all its outputs to one side, on inputs that
    other weights computed; and steps after other backward calls, which push its outputs both ways. First steps only."""

    optimizer: int
    name: str
    model: str  # that was moved
    values: int  # of its parameters
    steps: int  # after these backward calls
    up: int  # of them: all outputs were pushed up
    down: int
    backward: Place | None  # of these steps
    own_steps: int  # after the model's own backward calls
    both_ways: int  # of them: outputs were pushed both ways, and nothing that computed its inputs was trained
    own_backward: Place | None
    same: bool  # one optimizer takes all these steps


@dataclass(frozen=True, slots=True)
class LeftFrozen(Event):
    """All parameters of an optimizer that had trained were frozen, and stayed frozen at every later step that was
    watched, until the run ended; each of these steps followed a backward call that no other step used."""

    optimizer: int
    name: str
    model: str  # of its parameters; empty if they belong to none
    trained: int  # steps before
    frozen: int  # steps since
    watched: int  # of them, that were watched
    backward: Place | None  # the one before these steps


@dataclass(frozen=True, slots=True)
class OptimizerRebuilt(Event):
    """An optimizer was built over exactly the parameters of an earlier one that had taken steps."""

    parameter_set: int  # a number for this set of parameters
    name: str  # class of the earlier one
    steps: int  # steps of the earlier one
    parameters_with_state: int  # of the earlier one
    closure: bool  # its steps called a closure
    weights_continue: bool  # the weights are those after its last step; measured after one or two steps
    untouched: bool = False  # nothing has written to its first weight since its last step
    same_settings: bool = False  # both have the same class and settings
    passes: int = 0  # most passes over one loader while the earlier one was used
    same_loaders: bool = False  # the one before it saw the same loaders


@dataclass(frozen=True, slots=True)
class FrozenMoved(Event):
    """A step changed parameters with requires_grad=False, which they also had at the step before."""

    optimizer: int
    name: str
    parameters: tuple[str, ...]  # names of those that changed; '' where no model has it
    moved: int
    frozen: int  # frozen parameters that the optimizer holds
    gradients: Literal["zero", "stale"]  # zeros, or gradients untouched since the step before
    change: float  # largest change of one element
    decay: float  # largest weight decay of the groups
    momentum: bool  # the optimizer keeps a momentum of earlier gradients


@dataclass(frozen=True, slots=True)
class FrozenStatisticsMoved(Event):
    """Batch norm layers with frozen weights updated their running statistics while the model trained."""

    model: str
    layers: tuple[str, ...]  # names of the first few
    count: int
    steps: int  # between the two measurements
    change: float  # largest change of a running mean


@dataclass(frozen=True, slots=True)
class FreezingIgnored(Event):
    """An attribute without effect was set to False on parameters or modules that the optimizer updates."""

    model: str
    attribute: str
    on: Literal["parameter", "module"]
    names: tuple[str, ...]  # of the first few
    parameters: int  # that are trained nevertheless


@dataclass(frozen=True, slots=True)
class FrozenWeights(Event):
    """A trained model whose only trainable parameters belong to normalization layers or are biases."""

    model: str
    trained: int  # parameters
    frozen: tuple[str, ...]  # weight matrices with their initial values that require no gradient; first few
    count: int
    values: int  # elements of these


@dataclass(frozen=True, slots=True)
class ScheduleBuilt(Event):
    schedule: int
    name: str
    length: int | None  # steps until it ends, if it has an end
    learning_rates: tuple[float, ...]
    optimizer: int


@dataclass(frozen=True, slots=True)
class ScheduleStepped(Event):
    schedule: int
    name: str
    index: int  # times the user had stepped it before
    length: int | None
    optimizer_steps: int  # steps of its optimizer since the schedule was built (or first seen)
    skipped_by_scaler: bool  # a GradScaler is in use: it may have skipped the first steps
    seen_from_start: bool  # the schedule was built under observation
    learning_rates: tuple[float, ...]  # after the step
    optimizer: int
    explicit: bool  # the user passed the epoch instead of letting the schedule count


@dataclass(frozen=True, slots=True)
class ScheduleEnded(Event):
    """The state of a schedule at the end of the run, or when it was deleted. `place`: where it was built."""

    schedule: int
    name: str
    length: int | None
    steps: int  # times it was stepped
    optimizer: int
    optimizer_steps: int  # steps of its optimizer while it existed
    passes: int  # loader passes started while it existed
    inner: bool  # another schedule contains and steps it
    seen_from_start: bool
    numbers: tuple[int, ...] = ()  # whole numbers that the user's function of a LambdaLR reads
    rates: tuple[float, float] = (0.0, 0.0)  # the highest learning rate after one of its steps, and the last


@dataclass(frozen=True, slots=True)
class DecaySeen(Event):
    """An optimizer with weight decay takes its first step."""

    optimizer: int
    name: str
    decays: tuple[float, ...]  # weight_decay of each group
    folded: bool  # torch's Adam, which adds the decay to the gradient before normalizing it
    learning_rates: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PlateauStepped(Event):
    """A ReduceLROnPlateau was given a value. `place`: the line that stepped it."""

    schedule: int
    index: int  # values given before
    value: float
    is_int: bool  # the value is a Python int, not a measurement
    mode: str  # min or max
    patience: int
    learning_rates: tuple[float, ...]  # after it
    optimizer_steps: int  # steps of its optimizer so far
    built: Place | None


@dataclass(frozen=True, slots=True)
class WeightMove:
    """How far one weight matrix has moved, measured on a sample of its elements."""

    name: str
    size: int  # element count
    rms: float  # root mean square at the first measurement: near zero there is no scale to measure by
    update: float | None  # norm of this step's change over the weight's own; None: no step was measured
    distance: float  # norm of the change since the first measurement, over the weight norm then
    gradient_times_weight: float | None  # product of the norms: about the loss change if the weight changed by its norm


@dataclass(frozen=True, slots=True)
class WeightsMoved(Event):
    """What a step did to the weights of an optimizer: on a few steps, and at the end of the run."""

    optimizer: int
    name: str
    steps: int  # steps of the optimizer since the first measurement, this one included
    learning_rate: float  # largest of its groups
    moves: tuple[WeightMove, ...]


@dataclass(frozen=True, slots=True)
class LoaderTrained(Event):
    """A loader over the run, and the steps after its batches. `place`: where its latest pass was started."""

    loader: int
    built: Place | None
    passes: int
    batches: int
    stretches: int  # times its batches began after those of another loader
    stepped: tuple[tuple[int, int], ...]  # optimizer, and the batches after which it stepped before the next batch
    first_pass: int  # passes over all loaders before its first one
    last_pass: int  # and before its last one
    names: tuple[str, ...] = ()  # the words of its names in the user's code, at the first pass


@dataclass(frozen=True, slots=True)
class WeightCopies(Event):
    """Tensors of the shapes of trained weights that other code updates from them: an average, a target network.

    Measured on sampled steps. `place`: the line that updates them.
    """

    copies: int
    weight: str  # name of one weight
    shared: bool  # the copy is the weight itself: both have the same memory
    unchanged: int  # copies that the update left exactly as they were
    follow: float  # median share of the distance to the weight that one update covers; negative: it moves away
    most: float  # the largest of these shares
    distance: float  # to the weights, over their norm; median
    lost: bool = False  # the average was computed into new tensors, which nothing read


SHORT_LIFE: Final = 2
"""Steps of a dropped optimizer after which its weights are compared; the shortest epochs have two batches."""
SCALE_FREE: Final = (
    *("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta"),
    *("RMSprop", "Rprop", "Adafactor", "Lion"),
)  # Optimizers for which the gradient norm does not change the size of the update
