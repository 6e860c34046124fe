"""Train mode and eval mode."""

from __future__ import annotations

from dataclasses import dataclass

from trueloop.event.base import Event, Place

__all__ = ["DropoutWhileEvaluating", "ModeSet", "SteppedWhileEvaluating"]


@dataclass(frozen=True, slots=True)
class ModeSet(Event):
    model: int
    name: str
    training: bool


@dataclass(frozen=True, slots=True)
class SteppedWhileEvaluating(Event):
    """A step moved a model that was in eval mode in every forward the step had its gradients from, with dropout or batch norm idle.

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


@dataclass(frozen=True, slots=True)
class DropoutWhileEvaluating(Event):
    function: str
    probability: float
    module: str
    """Class of the module, in eval mode, whose method called it."""
    on_purpose: bool
    """The name of the function or class says Monte Carlo."""
