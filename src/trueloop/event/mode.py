"""Train mode and eval mode."""

from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = ["DropoutWhileEvaluating", "EvaluationRepeated", "ModeSet", "OtherLabelsScored", "PrintedScore"]
__all__ += ["SteppedWhileEvaluating"]


@dataclass(frozen=True, slots=True)
class ModeSet(Event):
    model: int
    name: str
    training: bool


@dataclass(frozen=True, slots=True)
class SteppedWhileEvaluating(Event):
    """A step used gradients from forwards in eval mode only, with dropout or batch norm inactive. `place`: the last of
    those forwards."""

    model: int
    name: str
    optimizer: int
    forwards: int  # forwards that gave the gradients of the step
    idle_dropouts: int
    idle_batch_norms: int
    eval_place: Place | None  # the user's line that put this model into eval mode
    trained_before: bool  # the same optimizer has stepped this model in train mode before
    all_parameters: bool  # the optimizer holds every parameter of the model, and none is frozen
    idle_noises: int = 0  # user modules that draw random numbers `if self.training`, and did not


@dataclass(frozen=True, slots=True)
class DropoutWhileEvaluating(Event):
    function: str
    probability: float
    module: str  # class of the module in eval mode whose method called it
    on_purpose: bool  # the name of the function or class says Monte Carlo


@dataclass(frozen=True, slots=True)
class EvaluationRepeated(Event):
    """A model in eval mode, scored against labels, was called again with the same samples and a different seed."""

    model: int
    name: str
    batch: int  # samples that were run again
    change: float  # largest change of an output, relative to the output scale
    drawn: tuple[str, ...]  # functions that drew random numbers in the call; empty: none of torch's
    drawn_at: Place | None  # the user's line that drew them
    sampling: bool  # the output is a sample from a distribution, or a name says so: randomness is intended


@dataclass(frozen=True, slots=True)
class PrintedScore:
    """A printed number that is the score of the outputs of a model against labels of other samples."""

    score: str  # accuracy, rmse ...
    printed: float
    own: float  # the same score against the labels of the samples that the outputs were computed from
    digits: float  # decimal digits by which the number is known, less those by which one of many numbers fits by chance


@dataclass(frozen=True, slots=True)
class OtherLabelsScored(Event):
    """Numbers printed after passes over a loader: scores of the collected outputs against labels in a different order.
    `place`: the line that prints them."""

    labels: Literal["dataset", "pass"]
    """In which order the labels are: that of the dataset, while the loader shuffles; that of a different pass."""
    model: str
    rows: int  # of a pass
    passes: int  # with such a number
    own_passes: int  # whose printed numbers show a score against the labels of the same samples
    latest: PrintedScore
    digits: float  # of all these numbers
    model_place: Place | None  # where the outputs were computed
