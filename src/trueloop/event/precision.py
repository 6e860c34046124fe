"""Number formats: autocast regions, gradient scalers, weights in half precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = ["BackwardFormats", "ClippedScaled", "LogFiltered", "LossHidden", "Matmuls", "ScalerCounted", "UpdateRounded"]


@dataclass(frozen=True, slots=True)
class BackwardFormats(Event):
    """In which number formats a backward computed: on the first calls at each place, then now and then."""

    device: str
    formats: tuple[str, ...]
    """16-bit formats that operations of its graph gave their results in: float16, bfloat16. Casts and views do not
    count."""
    whole: bool
    """Every operation was seen: the graph was walked to its end, and nothing in it was compiled or recomputed out of
    sight."""
    weights: tuple[str, ...]
    """Formats of the parameters that it brought gradients to."""
    scaling: Literal["scaler", "by hand", "none"]
    """What had multiplied the loss."""
    scaler: int | None
    scaler_place: Place | None
    """Where the scaler was built, also one that is switched off."""
    scaler_off: bool
    """The loss went through a GradScaler that does nothing: enabled=False."""
    autocast: str
    """The format of the autocast region that backward was called in; empty outside."""
    zeros: float | None = None
    """Share of the gradients' entries that are exactly zero; None when it was not measured."""
    subnormals: float | None = None
    """Share of those that are so small that float16 has lost digits of them."""


@dataclass(frozen=True, slots=True)
class ClippedScaled(Event):
    """Gradients were clipped that still carried a GradScaler's factor, and nothing had touched them since the
    backward."""

    function: str
    limit: float
    scale: float
    optimizer: int
    backward_place: Place | None


@dataclass(frozen=True, slots=True)
class ScalerCounted(Event):
    """How often a GradScaler was asked for a step, and how often it left the step out, so far. `place` is where it was
    asked last."""

    scaler: int
    steps: int
    skipped: int
    late_steps: int
    """Steps after the scale had time to come down from its first value to one."""
    late_skipped: int
    first_scale: float
    scale: float
    growth_interval: int
    ended: bool
    """The run is over: there will be no later count."""


@dataclass(frozen=True, slots=True)
class UpdateRounded(Event):
    """What a step did to a weight in half precision, on a few of the steps. `place` is the step."""

    optimizer: int
    name: str
    index: int
    """Steps that the optimizer had taken before."""
    parameter: str
    format: str
    entries: int
    """Entries looked at: those whose gradient is not smaller than the mean."""
    unchanged: float
    """Share of them that the step left exactly as they were."""
    learning_rate: float
    optimizer_place: Place | None
    """Where the optimizer was built."""


@dataclass(frozen=True, slots=True)
class Matmuls(Event):
    """The float32 matrix products of a training forward on a CUDA device. `place` is the call of the model."""

    model: int
    name: str
    capability: tuple[int, int]
    precision: str
    """How they are computed: ieee, tf32 ..."""
    layers: int
    gigaflops: float
    """Of one forward."""
    said: bool
    """The user's file names the setting: it was chosen."""


@dataclass(frozen=True, slots=True)
class LogFiltered(Event):
    """A framework that runs this training takes losses that are no numbers out of its log."""

    framework: str
    option: str


@dataclass(frozen=True, slots=True)
class LossHidden(Event):
    """Something was no number, and the training went on without it."""

    what: Literal["loss", "value", "gradient"]
    """A loss; a single value without a graph (a norm, a loss taken out of its graph); the gradient of a parameter."""
    how: Literal["left out", "replaced"]
    """No backward followed; or another value was put in its place."""
