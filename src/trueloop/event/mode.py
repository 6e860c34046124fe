"""Train mode and eval mode."""

from __future__ import annotations

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
    """A step moved a model that was in eval mode in every forward the step had its gradients from, with dropout or
    batch norm idle.

    `place` is the last of those forwards.
    """

    model: int
    name: str
    optimizer: int
    forwards: int
    """Forwards that the step had its gradients from."""
    idle_dropouts: int
    idle_batch_norms: int
    eval_place: Place | None
    """The user's line that put this model into eval mode."""
    trained_before: bool
    """The same optimizer has stepped this model in train mode before."""
    whole: bool
    """The optimizer holds every parameter of the model, and none is frozen."""
    idle_noises: int = 0
    """Modules of the user's that draw random numbers of their own `if self.training`, and did not."""


@dataclass(frozen=True, slots=True)
class DropoutWhileEvaluating(Event):
    function: str
    probability: float
    module: str
    """Class of the module, in eval mode, whose method called it."""
    on_purpose: bool
    """The name of the function or class says Monte Carlo."""


@dataclass(frozen=True, slots=True)
class EvaluationRepeated(Event):
    """A model in eval mode, scored against labels, was called again with the same samples and other random numbers."""

    model: int
    name: str
    batch: int
    """Samples that were run again."""
    change: float
    """The largest change of an output, relative to the outputs' size."""
    drawn: tuple[str, ...]
    """Functions that drew random numbers in the call; empty if none of torch's did."""
    drawn_at: Place | None
    """The user's line that drew them."""
    sampling: bool
    """The numbers are a sample from a distribution that the model describes, or names say so: chance is the point."""
