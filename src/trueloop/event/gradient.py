"""Backward calls, and the gradients they produce."""

from dataclasses import dataclass

from trueloop.event.base import Event, Place

__all__ = [
    "Backward",
    "BackwardError",
    "BackwardTried",
    "ChangedWeight",
    "Clipped",
    "CrossedGradients",
    "GradientsErased",
    "GradientsMeasured",
    "GradientsNotCleared",
    "GraphsAlive",
    "LayerGradient",
]
__all__ += ["UpdatesUndone", "WeightsCompared"]
__all__ += ["LayersWithoutGraph", "ParametersWithoutGradient"]


@dataclass(frozen=True, slots=True)
class Backward(Event):
    call: int  # counted from 0 over the run
    loss: float | None  # None: reading it would have synchronized with the device
    root: str  # name of the operation that computed the loss; empty: the loss has no graph
    mean: bool  # a mean or a mean-reduced loss function is all there is between the loss and its terms
    divided: bool  # the loss was divided or scaled after its reduction, or backward was given a gradient
    scaled_by_amp: bool  # the outermost factor is a GradScaler's
    inside_step: bool  # called from the closure of an optimizer step
    retained: bool  # retain_graph=True
    nodes: int | None  # graph nodes; None: not walked on this call
    spanned_steps: int | None  # optimizer steps since the oldest node of this graph was created; None: not walked
    reached: int | None  # parameters of known optimizers that the graph reaches; None: not walked
    optimized: int  # parameters that the known optimizers hold
    broadcast: tuple[tuple[int, ...], tuple[int, ...]] | None
    """In a hand-written pairwise loss: (prediction shape, shape after the subtraction), if they differ."""
    broadcast_place: Place | None
    loss_text: str  # the user's expression that backward was called on ('loss')


@dataclass(frozen=True, slots=True)
class GraphsAlive(Event):
    """Losses, or outputs of models, of earlier steps whose graph is still in memory."""

    alive: int
    made: int  # losses or outputs counted so far at this place
    oldest: int  # step at which the oldest living one was computed
    training: bool  # the losses went through a backward; False: only computed
    outputs: bool = False  # outputs of a model, not losses


@dataclass(frozen=True, slots=True)
class CrossedGradients(Event):
    """A step used the gradients of two losses: of its own, and of one that another optimizer had stepped on before.

    `place`: the step. Both losses send gradients to the parameters of both optimizers.
    """

    optimizer: str  # that used both
    other: str  # that stepped between the two backward calls
    number: int  # of the optimizer
    parameters: str  # name of a parameter with the gradients of both
    own: Place | None  # the backward just before the step
    foreign: Place | None  # the backward that the other one stepped on
    left: float  # norm of the gradients that were there before the own backward, of sampled parameters
    added: float  # norm of those that the own backward added


@dataclass(frozen=True, slots=True)
class GradientsErased(Event):
    """A recorded step whose earlier gradients were gone before its last ones came, and nothing had used them.

    `place`: of the first of them, the backward, or the line that assigned them.
    """

    optimizer: int
    name: str
    used: Place | None  # the backward, or the assignment, of the gradients that the step used
    erased: int
    kept: int
    assigned: bool  # the script assigns to `.grad` what `torch.autograd.grad` returns
    dropped: bool = (
        False  # what one line of `torch.autograd.grad` returned: the last was used, the others not even read
    )


@dataclass(frozen=True, slots=True)
class GradientsNotCleared(Event):
    """Leaves that no optimizer holds, and that the script itself updates: at several backward calls in a row, their
    gradients were still those of the call before. `place`: these backward calls. Or `sums`: tensors that the
    script adds gradients to, and assigns to `.grad`, still held the gradients of the step before; `place`: where it
    adds."""

    backwards: int  # or steps
    leaves: int
    shape: tuple[int, ...]  # of the first
    sums: bool = False


@dataclass(frozen=True, slots=True)
class Clipped(Event):
    function: str
    limit: float
    stale: bool  # a step had used these gradients and no backward came since: clipping has no effect
    optimizer: int | None
    step_place: Place | None  # the step that had used them


@dataclass(frozen=True, slots=True)
class LayerGradient:
    name: str
    norm: float
    size: int
    depth: int  # order in which the layer ran in the forward
    weight_norm: float


@dataclass(frozen=True, slots=True)
class GradientsMeasured(Event):
    """Gradient norms per weight (without biases and norms), on some steps."""

    optimizer: int
    index: int
    model: str
    layers: tuple[LayerGradient, ...]
    total: float
    clipped: bool
    learning_rate: float


@dataclass(frozen=True, slots=True)
class ChangedWeight:
    """A weight that changed between two steps of its optimizer, measured on a sample of its elements."""

    name: str
    explained: bool  # the change is gradient_factor * gradient + weight_factor * weight, up to rounding
    gradient_factor: float  # -0.01 for `p -= 0.01 * p.grad`
    weight_factor: float  # -0.001 for `p *= 0.999`
    gradient_share: float  # norm of the gradient part over that of the total change
    weight_decay: float  # of its group


@dataclass(frozen=True, slots=True)
class WeightsCompared(Event):
    """Some weights after a step of an optimizer, against the same before its next step; on a few steps."""

    optimizer: int
    name: str
    index: int  # of the earlier step
    compared: int
    changed: tuple[ChangedWeight, ...]


@dataclass(frozen=True, slots=True)
class UpdatesUndone(Event):
    """Weights before two steps in a row, and between them; on a few steps."""

    optimizer: int
    name: str
    index: int  # of the later step
    compared: int  # weights that the earlier step changed
    undone: tuple[str, ...]  # of them: those that are again what they were before it
    constant: tuple[str, ...]  # of these: all elements are equal


@dataclass(frozen=True, slots=True)
class BackwardError:
    """One input of a custom function whose gradient is not the slope of its forward."""

    pattern: str  # sign, factor, ignores (the gradient of the output), missing, zero, or differs
    input: str
    ratio: float  # gradient over slope, where one ratio holds for all; for differs: -1 if some have another sign
    share: float  # of the compared elements: those that differ by more than a tenth
    compared: int
    given: float  # by the backward, at the compared element with the largest slope
    measured: float  # the slope there
    others_fit: bool = False  # the gradient of another input is right


@dataclass(frozen=True, slots=True)
class BackwardTried(Event):
    """A custom `torch.autograd.Function`: its backward against finite differences of its forward, at the end of the
    run. `place`: the line that defines the backward."""

    function: str
    called_at: Place | None
    refused: str  # why it was not compared; empty if it was
    errors: tuple[BackwardError, ...]


@dataclass(frozen=True, slots=True)
class LayersWithoutGraph(Event):
    """Layers of the prediction that run under no_grad in training: an optimizer holds them, and they are still the
    initial ones. `place`: a line that runs in the first of them. At the end of the run."""

    names: tuple[str, ...]  # of parameters
    values: int  # element count
    steps: int  # since they were seen


@dataclass(frozen=True, slots=True)
class ParametersWithoutGradient(Event):
    """Parameters that an optimizer holds and that had no gradient at any of its steps. At the end of the run."""

    names: tuple[str, ...]
