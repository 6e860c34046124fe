"""Number formats: autocast regions, gradient scalers, half-precision weights."""

from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = ["BackwardDtypes", "ClippedScaled", "LogFiltered", "LossHidden", "Matmuls", "ScalerCounted", "UpdateRounded"]


@dataclass(frozen=True, slots=True)
class BackwardDtypes(Event):
    """The dtypes that a backward computed in: on the first calls at each place, then now and then."""

    device: str
    dtypes: tuple[str, ...]  # 16-bit output dtypes in its graph: float16, bfloat16; casts and views do not count
    complete: bool  # the graph was walked to its end, and nothing in it was compiled or recomputed
    weights: tuple[str, ...]  # dtypes of the parameters that it gave gradients to
    scaling: Literal["scaler", "manual", "none"]  # what multiplied the loss
    scaler: int | None
    scaler_place: Place | None  # where the scaler was built, also a disabled one
    scaler_off: bool  # the loss went through a GradScaler with enabled=False
    autocast: str  # dtype of the autocast region that backward was called in; empty: outside
    zeros: float | None = None  # share of gradient entries that are exactly zero; None: not measured
    subnormals: float | None = None  # share of those so small that float16 has lost digits


@dataclass(frozen=True, slots=True)
class ClippedScaled(Event):
    """Gradients were clipped that still had a GradScaler's factor, untouched since the backward."""

    function: str
    limit: float
    scale: float
    optimizer: int
    backward_place: Place | None


@dataclass(frozen=True, slots=True)
class ScalerCounted(Event):
    """Steps that a GradScaler took and skipped so far. `place`: its latest step."""

    scaler: int
    steps: int
    skipped: int
    late_steps: int  # steps after the scale had time to come down from its first value to one
    late_skipped: int
    first_scale: float
    scale: float
    growth_interval: int
    ended: bool  # the run is over: no later count follows


@dataclass(frozen=True, slots=True)
class UpdateRounded(Event):
    """What a step did to a half-precision weight, on a few steps. `place`: the step."""

    optimizer: int
    name: str
    index: int  # steps of the optimizer before
    parameter: str
    dtype: str
    entries: int  # entries measured: those with at least the mean gradient
    unchanged: float  # share of them that the step left exactly as they were
    learning_rate: float
    optimizer_place: Place | None  # where the optimizer was built


@dataclass(frozen=True, slots=True)
class Matmuls(Event):
    """The float32 matrix products of a training forward on a CUDA device. `place`: the call of the model."""

    model: int
    name: str
    capability: tuple[int, int]
    precision: str  # ieee, tf32 ...
    layers: int
    gigaflops: float  # of one forward
    set_by_user: bool  # the user's file names the setting


@dataclass(frozen=True, slots=True)
class LogFiltered(Event):
    """A framework that runs this training removes non-finite losses from its log."""

    framework: str
    option: str


@dataclass(frozen=True, slots=True)
class LossHidden(Event):
    """Something was NaN or Inf, and the training continued without it."""

    what: Literal["loss", "value", "gradient"]
    """A loss; a scalar without a graph (a norm, a detached loss); the gradient of a parameter."""
    how: Literal["left out", "replaced"]  # no backward followed; or a different value was used instead
