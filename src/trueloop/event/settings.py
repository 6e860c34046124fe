"""The settings a run was trained with, wherever they came from, beside what they did. Emitted at the end of the run."""

from dataclasses import dataclass

from trueloop.event.base import Event, Place

__all__ = ["ClassWeights", "ClipsMeasured", "DropoutRates", "OptimizerSettings", "RateCycle"]


@dataclass(frozen=True, slots=True)
class RateCycle:
    """Learning rates that repeat exactly, three times or more, and fall back to the first at once."""

    steps: int
    first: float
    highest: float
    last: float
    linear: bool  # the first rates rise by equal amounts
    settled: bool  # the last two rates of a period are equal


@dataclass(frozen=True, slots=True)
class OptimizerSettings(Event):
    """An optimizer over the run. `place`: where it was built."""

    optimizer: int
    name: str
    steps: int
    backwards: int  # backward calls while it existed
    passes: int  # passes over the loader that was used most while it existed
    batches_per_pass: int | None
    first_rate: float
    highest_rate: float
    last_rate: float
    base_rate: float | None  # the rate a schedule starts from; None: no schedule
    collapsed: float  # share of the steps at less than a hundredth of the highest rate
    rising: float  # share of the steps at a higher rate than the step before
    weight_decay: float
    momentum: float  # or the first beta
    epsilon: float | None
    typical_gradient: float | None  # root of Adam's second moment at the end, median over the elements
    first_norm: float  # of all matrices, at the first step
    last_norm: float  # at the end
    scheduled: Place | None  # where its schedule was built
    loaded: bool = False  # weights were loaded into some of its parameters, or their model comes from a library
    built_rate: float | None = None  # that it was built with; None: not seen
    restored: bool = False  # its state was loaded, or is of earlier steps, before its first step of this run
    start: tuple[float, ...] = ()  # the rates of its first steps
    cycle: RateCycle | None = None


@dataclass(frozen=True, slots=True)
class ClipsMeasured(Event):
    """What clipping by norm left of the gradients. `place`: the clipping call."""

    calls: int
    measured: int
    limit: float
    median_norm: float  # before clipping
    clipped: float  # share of the measured calls that clipped
    scale_free: bool  # the optimizer of these parameters normalizes the gradient itself


@dataclass(frozen=True, slots=True)
class DropoutRates(Event):
    """The dropout layers of a trained model. `place`: the first call of the model in training."""

    model: int
    name: str
    rates: tuple[tuple[str, float], ...]  # name and probability, where it is above 0


@dataclass(frozen=True, slots=True)
class ClassWeights(Event):
    """A loss function with class weights, and how often the classes occurred. `place`: the loss."""

    function: str
    weights: tuple[float, ...]
    counts: tuple[int, ...]  # of the sampled targets
    calls: int
    positive: bool = False  # `pos_weight` of a binary loss: weights are (1, pos_weight) of each label, its mean if many
