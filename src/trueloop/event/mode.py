"""Train mode and eval mode."""

from dataclasses import dataclass

from trueloop.event.base import Event, Place

__all__ = ["DropoutWhileEvaluating", "EvaluationRepeated", "ModeSet", "SteppedWhileEvaluating"]


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
