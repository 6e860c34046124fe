"""Models: their parts, each call, and what replays of a call showed."""

from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = ["ActivationsMeasured", "BatchIndependenceTested", "CausalityTested", "Forward", "FutureAttended"]
__all__ += ["HiddenPart", "HiddenPartInTrainMode", "PaddingAttended"]
__all__ += ["IdenticalUnits", "LayerActivations", "LayerBuiltInForward", "LooseTensor", "ModelExamined", "ModelSeen"]
__all__ += ["AddedMask", "ColumnsScored", "InputInfluenceTested", "LatentsMeasured", "OutputsCompared", "TieBroken"]
__all__ += ["LastStepRead", "LayersShared"]


@dataclass(frozen=True, slots=True)
class ModelSeen(Event):
    """A module with parameters, called from outside any other module, finished its first forward."""

    model: int
    name: str
    parameters: int  # total element count
    dropouts: int  # dropout layers with p > 0
    batch_norms: int  # normalization layers with running statistics
    compiled: bool
    defined: Place | None  # where the model's class is defined, if that is the user's file


@dataclass(frozen=True, slots=True)
class HiddenPart:
    """Layers or parameters in a container that PyTorch does not search."""

    owner: str  # class of the module that holds the container
    attribute: str
    container: str  # list, tuple, dict, set ...
    kind: Literal["module", "parameter"]
    items: int
    parameters: int  # element count
    used: bool  # took part in a forward or received a gradient
    trainable: bool
    held: bool  # an optimizer holds them all the same (passed explicitly)
    place: Place | None  # the line that assigns the attribute


@dataclass(frozen=True, slots=True)
class LooseTensor:
    """A floating-point tensor that is a plain attribute of a module: neither parameter nor buffer."""

    owner: str
    attribute: str
    shape: tuple[int, ...]
    used: bool  # the class reads it outside its constructor
    rebuilt: bool  # a different tensor or different contents later: a cache or a state, not a constant
    trainable: bool  # requires_grad: it should be a parameter, not a buffer
    place: Place | None
    computed: bool = False  # from a parameter that nothing but its graph keeps


@dataclass(frozen=True, slots=True)
class HiddenPartInTrainMode(Event):
    """The model was evaluated in eval mode, and layers in a plain container dropped values or updated statistics."""

    model: int
    name: str
    part: HiddenPart
    active_dropouts: int
    active_batch_norms: int
    calls: int  # in eval mode and without gradients


@dataclass(frozen=True, slots=True)
class LayerBuiltInForward(Event):
    """A line of a forward builds a new layer in every call. Emitted at the end of the run. `place`: where it runs."""

    model: int
    name: str
    layer: str  # its class
    kind: Literal["weights", "statistics", "dropout"]  # what is new in every call, or ignores eval()
    parameters: int  # element count
    calls: int  # training calls in which it was another one
    active_in_eval: int  # dropout: calls in eval mode that dropped values


@dataclass(frozen=True, slots=True)
class ModelExamined(Event):
    """The structure of a model, examined once, after two training steps."""

    model: int
    name: str
    hidden: tuple[HiddenPart, ...]
    loose: tuple[LooseTensor, ...]


@dataclass(frozen=True, slots=True)
class Forward(Event):
    """A call of a model from outside any other module. Emitted when its fate is known, in the order of the calls."""

    call: int  # counted from 0 over all models; in order within one model
    model: int
    name: str
    training: bool  # mode of the outermost module
    grad: bool  # gradients were being recorded
    fate: Literal["trained", "dropped", "graphless", "unknown"]
    """trained: a backward went through it; dropped: its graph was freed unused; graphless: none was recorded; unknown:
    its graph outlived many later calls or the run, or its output has no tensors."""
    active_dropouts: int  # dropout layers in train mode, or active dropout function calls if those are more
    active_batch_norms: int
    idle_dropouts: int  # dropout layers in eval mode
    idle_batch_norms: int
    batch: int | None  # first dimension of the first input tensor
    scored: bool  # a loss function gave a scalar from it, or argmax, max or topk was taken of its output
    same_input: bool  # the same tensors as the call before: Monte Carlo dropout, full-batch training
    recalibration: bool  # called from PyTorch's update_bn
    eval_place: Place | None  # the user's line that last put this model into eval mode
    backwards: int = 0  # backward calls of the run before this one: equal numbers mean no training in between
    passes: int = 0  # loader passes started before this call
    optimized: bool = False  # graphless in train mode: an optimizer that has stepped holds some of its parameters
    active_noises: int = 0  # user modules that draw random numbers `if self.training`, and did
    idle_noises: int = 0
    refused: Place | None = None  # the user's `train` method that left (a part of) it in train mode at the last eval()


@dataclass(frozen=True, slots=True)
class IdenticalUnits(Event):
    """A weight whose units (rows) are all equal and got equal gradients, after some steps."""

    model: int
    name: str
    parameter: str
    units: int
    value: float
    gradient_norm: float
    steps: int
    defined: Place | None  # the line that initializes or builds the layer, if found


@dataclass(frozen=True, slots=True)
class BatchIndependenceTested(Event):
    """The model was called again, in eval mode, with every sample but one replaced."""

    model: int
    name: str
    batch: int
    change: float  # largest output change of the unchanged sample, relative to the spread of the outputs
    repeat: float  # the same with nothing replaced
    layer: str  # the layer in which samples mix, with its class; empty: not found
    defined: Place | None  # the line in the model that mixes them; else where the layer or class is defined
    normalized: bool = False  # values there sum to 1 over the samples


@dataclass(frozen=True, slots=True)
class CausalityTested(Event):
    """Targets are inputs of later positions; the model was called again with all inputs after a position replaced.

    `place`: the call of the model; where the shift is not 1, the loss.
    """

    model: int
    name: str
    position: int
    length: int
    change: float
    repeat: float
    layer: str
    defined: Place | None
    shift: int = 1  # positions from an input to the one that is its target; 0: the targets are the inputs
    dimension: int = 1  # along which the inputs were replaced


@dataclass(frozen=True, slots=True)
class FutureAttended(Event):
    """A recorded training step outside of modules: the targets are the token ids shifted by one. `place`: attention."""

    function: str  # softmax, scaled_dot_product_attention
    length: int
    tables: int  # of attention weights between all positions
    seen: int  # of them: every position gives weight to the next one


@dataclass(frozen=True, slots=True)
class AddedMask(Event):
    """A recorded training step in which a mask of zeros and ones changed the scores of attention, and hid nothing.
    `place`: the attention, or where the scores were changed."""

    function: str  # softmax, scaled_dot_product_attention, multi_head_attention_forward
    how: str  # added, multiplied
    causal: bool  # a triangle; otherwise ones and then zeros in each row (padding)
    length: int  # positions


@dataclass(frozen=True, slots=True)
class PaddingAttended(Event):
    """A recorded training step in which attention gave weight to exactly the padding of some rows. `place`: the
    attention."""

    function: str
    padding: float | None  # the token, or 0 for rows of zeros; None: positions that are the same in all samples
    rows: int  # with both padding and data
    inverted: int  # of them: the padding is attended, nothing else
    lengths: int  # different numbers of padded positions
    length: int  # of the rows


@dataclass(frozen=True, slots=True)
class LastStepRead(Event):
    """A recorded training step in which a model read the last step of a layer, and the input was padded there.
    `place`: where it is read."""

    how: str  # the last step, the last state
    rows: int
    padded: int  # of them: they end in padding
    positions: int  # of a row
    share: float  # of all positions: padding, but for the first padded one of each row


@dataclass(frozen=True, slots=True)
class InputInfluenceTested(Event):
    """The model was called again with positions along a dimension of an input exchanged between samples."""

    model: int
    name: str
    dimension: int
    length: int  # positions
    only: Literal["", "first", "last"]  # the one position that the output depends on, of those that were computed on
    layer: str  # the last one that computed on the others, with its class
    defined: Place | None  # its line


@dataclass(frozen=True, slots=True)
class LayerActivations:
    """Outputs of the activation after one layer, over all its uses in one backward graph."""

    model: str
    layer: str  # name of the layer that feeds the activation
    function: Literal["relu", "sigmoid", "tanh"]
    units: int
    observations: int  # values per unit: samples times positions
    dead: int  # relu units that were zero for every sample of this measurement and of the consecutive ones before it
    saturated: float  # share of sigmoid or tanh values at the ends of their range, where the slope is near zero
    measurements: int  # of this layer so far, this one included
    defined: Place | None  # the line that builds the layer


@dataclass(frozen=True, slots=True)
class ActivationsMeasured(Event):
    """Hidden activations in the graph of a backward, on a few backward calls of a line."""

    backward: int  # which backward of this line, from 1
    layers: tuple[LayerActivations, ...]


@dataclass(frozen=True, slots=True)
class OutputsCompared(Event):
    """Outputs for the samples of one batch, compared with each other; a few times per run, for outputs of a loss."""

    model: int
    name: str
    training: bool
    batch: int
    different: int  # samples whose input differs from the first one's
    spread: float  # largest difference between two samples' outputs, at any position
    scale: float  # largest absolute output


@dataclass(frozen=True, slots=True)
class TieBroken(Event):
    """A model is trained with two parameters that were one under two names. `place`: the line that untied them."""

    model: int
    name: str
    first: str
    second: str
    shape: tuple[int, ...]
    tied_at: Place | None  # the line that had tied them
    steps: int  # steps while they were tied
    by: Literal["assignment", "loading", "moving", "unknown"]


@dataclass(frozen=True, slots=True)
class LatentsMeasured(Event):
    """Latents of a variational model in a recorded step. `place`: where the noise is added to their mean."""

    latents: int
    active: int  # latents whose distribution differs from a standard normal one by more than 0.01 nats
    divergence: float  # mean over latents of that difference, in nats
    rows: int  # samples


@dataclass(frozen=True, slots=True)
class ColumnsScored(Event):
    """A computed value [samples, columns] is squared in a recorded training step, as in the density of a normal
    distribution, and some of its columns are data. `place`: where it is squared."""

    columns: int
    unchanged: int  # of them: equal to a column of the data, in every sample
    rows: int
    constants: int = 0
    """Layers of one learned factor per column that the value went through. Then `unchanged` counts columns that are a
    column of the data times a constant, plus a constant."""


@dataclass(frozen=True, slots=True)
class LayersShared(Event):
    """Several entries of a container are one layer, and each forward gives all of them the same tensor. `place`: the
    line that builds them."""

    model: str
    container: str  # its path in the model
    layer: str  # class
    entries: int
    parameters: int  # element count of the layer
