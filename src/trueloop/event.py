"""What a run says about itself: facts, never tensors.

The loop, drawn, with each event beside the line that makes it happen:

    model = Net()                                   ModelSeen       once, when its first forward has ended
    optimizer = SGD(model.parameters())
    scheduler = CosineAnnealingLR(optimizer, 10)    ScheduleBuilt
    for epoch in range(10):
        for x, y in loader:                         EpochStarted    once per pass over a loader
            out = model(x)                          Forward         when its fate is known: trained, dropped, or graphless
            loss = criterion(out, y)                LossComputed
            loss.backward()                         Backward, GraphsAlive
            clip_grad_norm_(model.parameters(), 1)  Clipped
            optimizer.step()                        Stepped, GradientsMeasured, ParametersAccounted, UnitsCompared
                                                    SteppedWhileEvaluating  only if the model was in eval mode
            optimizer.zero_grad()                   (seen by the next Stepped.cleared)
        scheduler.step()                            ScheduleStepped
        model.eval()                                ModeSet
        best = model.state_dict()                   StateReused     only if it is used after the weights moved on
                                                    ScheduleEnded   one for each schedule, when the run ends
                                                    SamplesCompared, FutureCompared  counterfactual replays of a forward
                                                    NotFinite       the first value that is no number, and where it arose

Every event is a frozen, slotted dataclass of numbers, names, shapes and places, so that it can be written to disk and
judged again by newer rules, on a machine without torch. `step` is how many optimizer steps had been taken when it happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = [
    "EVENTS",
    "SCALE_FREE",
    "Backward",
    "Clipped",
    "Crashed",
    "DropoutWhileEvaluating",
    "EpochStarted",
    "Event",
    "Forward",
    "FutureCompared",
    "GradientsMeasured",
    "GraphsAlive",
    "HiddenPart",
    "LayerGradient",
    "LooseTensor",
    "LossComputed",
    "ModeSet",
    "ModelExamined",
    "ModelSeen",
    "NotFinite",
    "ParameterAccount",
    "ParametersAccounted",
    "Place",
    "RunEnded",
    "RunStarted",
    "SamplesCompared",
    "ScheduleBuilt",
    "ScheduleEnded",
    "ScheduleStepped",
    "StateReused",
    "Stepped",
    "SteppedWhileEvaluating",
    "UnitsCompared",
]


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's."""

    path: str
    line: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """What every event has."""

    step: int
    """Optimizer steps taken so far, all optimizers counted."""
    place: Place | None
    """The user's line that made it happen; None where there is none (the end of a run)."""


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    script: str
    arguments: tuple[str, ...]
    python: str
    torch: str
    rank: int
    world_size: int


@dataclass(frozen=True, slots=True)
class ModelSeen(Event):
    """A module that is called from outside any other module, has parameters, and ended its first forward."""

    model: int
    name: str
    parameters: int
    """How many numbers its parameters hold."""
    dropouts: int
    """Dropout layers with p > 0 inside."""
    batch_norms: int
    """Normalisation layers inside that keep running statistics."""
    compiled: bool
    defined: Place | None
    """Where the class of the model is written, if that is the user's file."""


@dataclass(frozen=True, slots=True)
class HiddenPart:
    """Layers or parameters that a module keeps where PyTorch does not look for them."""

    owner: str
    """Class of the module that holds the container."""
    attribute: str
    container: str
    """list, tuple, dict, set ..."""
    kind: Literal["module", "parameter"]
    items: int
    parameters: int
    """How many numbers are hidden."""
    used: bool
    """Took part in a forward or received a gradient."""
    trainable: bool
    held: bool
    """Some optimizer holds them all the same (given to it by hand)."""
    place: Place | None
    """The line that assigns the attribute."""


@dataclass(frozen=True, slots=True)
class LooseTensor:
    """A floating tensor that is a plain attribute of a module: in neither its parameters nor its buffers."""

    owner: str
    attribute: str
    shape: tuple[int, ...]
    used: bool
    """The class reads it outside its constructor."""
    rebuilt: bool
    """It was another tensor, or had other contents, at a later look: a cache or a state, not a constant."""
    trainable: bool
    """It asks for a gradient: it should be a parameter, not a buffer."""
    place: Place | None


@dataclass(frozen=True, slots=True)
class ModelExamined(Event):
    """The structure of a model, looked at once, when it has been trained for two steps."""

    model: int
    name: str
    hidden: tuple[HiddenPart, ...]
    loose: tuple[LooseTensor, ...]


@dataclass(frozen=True, slots=True)
class EpochStarted(Event):
    loader: int
    """Which loader, counted in the order of first use."""
    batches: int | None
    """How many batches it says it has."""
    passes: int
    """How many times it has been started, this one included."""


@dataclass(frozen=True, slots=True)
class Forward(Event):
    """A call of a model from outside any other module, told when its fate is known, in the order of the calls."""

    call: int
    """Counted from 0 over all models; calls are told in this order within one model."""
    model: int
    name: str
    training: bool
    """The mode of the outermost module."""
    grad: bool
    """Were gradients being recorded?"""
    fate: Literal["trained", "dropped", "graphless", "unknown"]
    """trained: a backward went through it; dropped: its graph was freed and nobody had used it; graphless: nothing was
    recorded; unknown: its graph outlived many later calls, or the run, or its output is nothing one can look into."""
    active_dropouts: int
    """Dropout layers that were in train mode during the call; calls of dropout functions that were active in it, if those are more."""
    active_batch_norms: int
    idle_dropouts: int
    """Dropout layers that were in eval mode during the call."""
    idle_batch_norms: int
    batch: int | None
    """First dimension of the first tensor that went in."""
    scored: bool
    """A single number was computed from it by a loss function, or a decision made on its output by argmax, max or topk."""
    same_input: bool
    """The very tensors of the call before: Monte Carlo dropout, full-batch training."""
    recalibration: bool
    """Called from PyTorch's own update_bn."""
    eval_place: Place | None
    """The user's line that put this model into eval mode last, if any."""
    backwards: int = 0
    """Backwards of the run, and gradients taken, before this call: calls with the same number had no training between them."""
    passes: int = 0
    """Passes over loaders that had been started before this call."""


@dataclass(frozen=True, slots=True)
class LossComputed(Event):
    """A call of a loss function of torch.nn.functional; nn.XLoss modules arrive here too."""

    function: str
    """cross_entropy, nll_loss, mse_loss, binary_cross_entropy_with_logits ..."""
    call: int
    """Counted from 0 per function and place."""
    grad: bool
    reduction: str
    input_shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    input_dtype: str
    target_dtype: str
    input_range: tuple[float, float] | None
    """Smallest and largest value; None when it was not measured on this call."""
    target_range: tuple[float, float] | None
    rows: Literal["probabilities", "log-probabilities", "scores", "unknown"]
    """What the rows of the input over the class dimension are, by their sums."""
    behind: tuple[str, ...]
    """The operations straight behind the input, nearest first, seen through views: SoftmaxBackward0 ..."""
    behind_place: Place | None
    """The user's line of the softmax, sigmoid or clamp among them, if it was seen being called."""
    behind_module: str
    """The nn module class that applied it ('Softmax'), empty for a function call."""
    target_integral: bool
    """Every target is a whole number."""
    target_distinct: int
    """How many distinct target values this call held; 0 when not measured."""
    target_rows_sum_to_one: bool | None
    """For targets of the shape of the input; None when it does not apply."""
    target_used_as_class: bool
    """These targets are compared with an argmax or a rounded prediction, or are class ids of another loss."""
    ignore_index: int | None


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
class Stepped(Event):
    """An optimizer took a step. `step` counts the ones before it."""

    optimizer: int
    name: str
    index: int
    """How many steps this optimizer had taken before."""
    gradients: Literal["new", "same", "none", "cleared"]
    """What the step found. new: changed since its last step; same: exactly those of its last step; none: no
    parameter has one and none was made; cleared: a backward made them, and they were reset before the step."""
    cleared: bool
    """They were reset at some moment since its last step (True for the first step)."""
    backwards: int
    """Backwards that brought gradients to this optimizer's parameters since its last step."""
    backward_places: tuple[Place, ...]
    """Where those backwards were called, each place once."""
    most_at_one_place: int
    """The largest number of those backwards that one place made."""
    averaged: bool
    """The losses of that place were divided, or were no means, or the gradients were rescaled by hand."""
    clipped: bool
    closure: bool
    """The backwards ran inside the step."""
    learning_rates: tuple[float, ...]
    scale_free: bool
    """Adam and its kin: the length of the gradient does not change the length of the update."""


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
class ParameterAccount:
    """One parameter of a model: who knows it, and what reached it."""

    name: str
    size: int
    trainable: bool
    held: bool
    """Some optimizer holds it."""
    has_gradient: bool
    """It has received a gradient at some step so far."""
    ran: bool
    """The forward of the module that owns it ran."""
    ran_with_graph: bool
    """... and recorded a graph: the gradient was lost between there and the loss."""
    defined: Place | None
    """The line of a class of the user's that makes it; None if a library's class does."""
    cuts: tuple[Place, ...]
    """Lines of the user's that took its effect out of the graph: detach, item, numpy, .data ... of a tensor computed with it."""


@dataclass(frozen=True, slots=True)
class ParametersAccounted(Event):
    """Model against optimizers, after some steps."""

    model: int
    name: str
    steps: int
    """Steps that the optimizers holding any of its parameters have taken."""
    accounts: tuple[ParameterAccount, ...]
    """Only the trainable parameters that are not in order: held by an optimizer without ever a gradient, or with one and held by none."""
    in_order: int
    """How many are in order."""
    orphans: int
    """Tensors that an optimizer of this model holds, that belong to no module seen and never had a gradient."""
    orphan_sizes: tuple[int, ...]
    optimizer_place: Place | None
    """Where the optimizer was built."""
    cuts: tuple[Place, ...]
    """Lines of the user's where a tensor computed with some parameter of this model was detached, turned into a number, or into an array,
    between the beginning of the run and now."""


@dataclass(frozen=True, slots=True)
class UnitsCompared(Event):
    """A weight whose units (rows) are all equal and received equal gradients, after some steps."""

    model: int
    name: str
    parameter: str
    units: int
    value: float
    gradient_norm: float
    steps: int
    defined: Place | None
    """The line that sets or builds the layer, if found."""


@dataclass(frozen=True, slots=True)
class ScheduleBuilt(Event):
    schedule: int
    name: str
    length: int | None
    """Steps after which it has run its course, if it has such a length."""
    learning_rates: tuple[float, ...]
    optimizer: int


@dataclass(frozen=True, slots=True)
class ScheduleStepped(Event):
    schedule: int
    name: str
    index: int
    """How often the user had stepped it before."""
    length: int | None
    optimizer_steps: int
    """Steps its optimizer had taken since the schedule was built (or first seen)."""
    skipped_by_scaler: bool
    """A GradScaler is in use: the first steps may have been skipped for it."""
    built_in_view: bool
    """The schedule was built under watch, so that nothing before it went unseen."""
    learning_rates: tuple[float, ...]
    """After the step."""
    optimizer: int
    explicit: bool
    """The user said which epoch it is, instead of letting the schedule count."""


@dataclass(frozen=True, slots=True)
class ScheduleEnded(Event):
    """How a schedule stood when the run ended, or when it was thrown away. `place` is where it was built."""

    schedule: int
    name: str
    length: int | None
    steps: int
    """How often it was stepped."""
    optimizer: int
    optimizer_steps: int
    """Steps its optimizer took while it lived."""
    passes: int
    """Passes over loaders that were started while it lived."""
    inner: bool
    """Another schedule holds it, and steps it in its own time."""
    built_in_view: bool


@dataclass(frozen=True, slots=True)
class ModeSet(Event):
    model: int
    name: str
    training: bool


@dataclass(frozen=True, slots=True)
class DropoutWhileEvaluating(Event):
    function: str
    probability: float
    module: str
    """Class of the module, in eval mode, whose method called it."""
    on_purpose: bool
    """The name of the function or class says Monte Carlo."""


@dataclass(frozen=True, slots=True)
class SamplesCompared(Event):
    """The model was called again, in eval mode, with every sample but one replaced."""

    model: int
    name: str
    batch: int
    change: float
    """Largest change of the output of the sample that was kept, relative to the outputs' spread."""
    repeat: float
    """The same, when nothing was replaced."""
    layer: str
    """The layer in which samples met, with its class; empty if it could not be found."""
    defined: Place | None
    """The line inside the model that brings them together; else where the layer or the class is written."""


@dataclass(frozen=True, slots=True)
class FutureCompared(Event):
    """Targets are the inputs shifted by one; the model was called again with the inputs after a position replaced."""

    model: int
    name: str
    position: int
    length: int
    change: float
    repeat: float
    layer: str
    defined: Place | None


@dataclass(frozen=True, slots=True)
class NotFinite(Event):
    """The first non-finite loss or gradient, and what a replay of the forward says of its origin."""

    what: Literal["loss", "gradient", "weight"]
    layer: str
    """The first layer with a non-finite output from finite inputs; empty if it arose outside the model."""
    operation: str
    input_range: tuple[float, float] | None
    value: str
    """nan or inf."""
    origin: Literal["input", "weight", "layer", "loss", "unknown"]
    learning_rates: tuple[float, ...]
    skipped: bool = False
    """The step was left out, as the user had asked for: the weights have not seen it."""


@dataclass(frozen=True, slots=True)
class StateReused(Event):
    """A state_dict that was kept, and used when the weights it shares had moved on. `place` is where it was taken."""

    use: Literal["load", "save"]
    use_place: Place | None
    taken_step: int
    shared: int
    tensors: int


@dataclass(frozen=True, slots=True)
class Crashed(Event):
    """The script ended with an exception that trueloop can explain."""

    kind: str
    exception: str
    explanation: str
    fix: str


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    reason: Literal["finished", "cut", "exception", "interrupted", "exit"]
    epochs: int
    """Passes over loaders that were started."""
    forwards: int
    unwatched_steps: int
    """Steps that went by while the probes slept, to stay inside the budget."""


SCALE_FREE: Final = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Rprop", "Adafactor", "Lion")
"""Optimizers for which the length of the gradient does not change the length of the update."""

EVENTS: Final[dict[str, type[Event]]] = {
    name: value for name, value in dict(globals()).items() if isinstance(value, type) and issubclass(value, Event) and value is not Event
}
"""Every event by its name, as written in a recorded run."""
