"""Backwards, and the gradients they make."""

from __future__ import annotations

from dataclasses import dataclass

from trueloop.event.base import Event, Place

__all__ = [
    "Backward",
    "Clipped",
    "GradientsMeasured",
    "GraphsAlive",
    "LayerGradient",
    "WeightsCompared",
    "WrittenWeight",
]


@dataclass(frozen=True, slots=True)
class Backward(Event):
    call: int
    """Counted from 0 over the run."""
    loss: float | None
    """None when reading it would have made the host wait for the device."""
    root: str
    """Name of the operation that made the loss; empty when the loss has no graph."""
    mean: bool
    """The loss is a mean: a mean or a mean-reduced loss function is all there is between it and its terms."""
    divided: bool
    """The loss was divided, or multiplied by a constant, after its reduction, or backward was given a gradient."""
    scaled_by_amp: bool
    """The outermost factor is a GradScaler's."""
    inside_step: bool
    """Called from a closure of an optimizer step."""
    retained: bool
    """retain_graph=True was passed."""
    nodes: int | None
    """Nodes of the graph; None when it was not walked on this call."""
    spanned_steps: int | None
    """Optimizer steps that were taken since the oldest node of this graph was made; None when not walked."""
    reached: int | None
    """How many parameters of known optimizers the graph reaches; None when not walked."""
    optimized: int
    """How many parameters the known optimizers hold."""
    broadcast: tuple[tuple[int, ...], tuple[int, ...]] | None
    """In a hand-written pairwise loss: (shape of the prediction, shape after the subtraction), if they differ."""
    broadcast_place: Place | None
    loss_text: str
    """The user's expression that backward was called on, as written ('loss')."""


@dataclass(frozen=True, slots=True)
class GraphsAlive(Event):
    """How many losses of earlier steps still have their graph in memory."""

    alive: int
    made: int
    """Losses counted so far at this place."""
    oldest: int
    """The step at which the oldest living one was made."""
    training: bool
    """The losses went through a backward; False: losses that were only computed."""


@dataclass(frozen=True, slots=True)
class Clipped(Event):
    function: str
    limit: float
    stale: bool
    """The gradients had been used by a step already and no backward came since: clipping them changes nothing."""
    optimizer: int | None
    step_place: Place | None
    """The step that had used them."""


@dataclass(frozen=True, slots=True)
class LayerGradient:
    name: str
    norm: float
    size: int
    depth: int
    """Order in which the layer ran in the forward, from the input."""
    weight_norm: float


@dataclass(frozen=True, slots=True)
class GradientsMeasured(Event):
    """Gradient norms per weight (biases and norms left out), on some of the steps."""

    optimizer: int
    index: int
    model: str
    layers: tuple[LayerGradient, ...]
    total: float
    clipped: bool
    learning_rate: float


@dataclass(frozen=True, slots=True)
class WrittenWeight:
    """A weight that changed between two steps of its optimizer, judged by some of its numbers."""

    name: str
    explained: bool
    """The change is a multiple of the gradient plus a multiple of the weight, to the last bit that rounding leaves."""
    of_gradient: float
    """That multiple of the gradient: -0.01 for `p -= 0.01 * p.grad`."""
    of_weight: float
    """That multiple of the weight: -0.001 for `p *= 0.999`."""
    share: float
    """Length of the gradient's part over that of the whole change."""
    weight_decay: float
    """Of its group."""


@dataclass(frozen=True, slots=True)
class WeightsCompared(Event):
    """Some weights as an optimizer's step left them, and as its next step found them: on a few of its steps."""

    optimizer: int
    name: str
    index: int
    """Of the step that left them."""
    looked: int
    written: tuple[WrittenWeight, ...]
    """Those that changed."""
