"""Models: what they are made of, each call of them, and what replays of a call have shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trueloop.event.base import Event, Place

__all__ = [
    "ActivationsMeasured",
    "Forward",
    "FutureCompared",
    "HiddenPart",
    "LayerActivations",
    "LooseTensor",
    "ModelExamined",
    "ModelSeen",
    "OutputsCompared",
    "SamplesCompared",
    "TieBroken",
    "UnitsCompared",
]


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
    """Dropout layers that were in train mode during the call; calls of dropout functions that were active in it, if
    those are more."""
    active_batch_norms: int
    idle_dropouts: int
    """Dropout layers that were in eval mode during the call."""
    idle_batch_norms: int
    batch: int | None
    """First dimension of the first tensor that went in."""
    scored: bool
    """A single number was computed from it by a loss function, or a decision made on its output by argmax, max or
    topk."""
    same_input: bool
    """The very tensors of the call before: Monte Carlo dropout, full-batch training."""
    recalibration: bool
    """Called from PyTorch's own update_bn."""
    eval_place: Place | None
    """The user's line that put this model into eval mode last, if any."""
    backwards: int = 0
    """Backwards of the run, and gradients taken, before this call: calls with the same number had no training between
    them."""
    passes: int = 0
    """Passes over loaders that had been started before this call."""
    moved: bool = False
    """Without a graph, in train mode: an optimizer that has stepped holds parameters of it, perhaps as a part of
    another model."""
    active_noises: int = 0
    """Modules of the user's that draw random numbers of their own `if self.training`, and did."""
    idle_noises: int = 0


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
class LayerActivations:
    """What came out of the activation behind one layer, all its uses in one backward's graph taken together."""

    model: str
    layer: str
    """Name of the layer that feeds the activation."""
    function: Literal["relu", "sigmoid", "tanh"]
    units: int
    observations: int
    """Values per unit: samples, and positions of each."""
    silent: int
    """Units (relu) that were zero for every sample of this look and of the looks before it that make up a row."""
    railed: float
    """The share of the values (sigmoid, tanh) at the ends of their range, where the slope is next to nothing."""
    looks: int
    """How often this layer has been looked at, this time included."""
    defined: Place | None
    """The line that builds the layer."""


@dataclass(frozen=True, slots=True)
class ActivationsMeasured(Event):
    """Hidden activations in the graph of a backward, read on a few of the backwards of a line."""

    backward: int
    """Which backward of this line, counted from 1."""
    layers: tuple[LayerActivations, ...]


@dataclass(frozen=True, slots=True)
class OutputsCompared(Event):
    """What a model gave for the samples of one batch, compared with each other; a few times per run, for outputs that a
    loss uses."""

    model: int
    name: str
    training: bool
    batch: int
    different: int
    """Samples whose input is not that of the first one."""
    spread: float
    """The largest difference between two samples' outputs, in any place of the output."""
    scale: float
    """The largest output, by size."""


@dataclass(frozen=True, slots=True)
class TieBroken(Event):
    """A model is trained with two parameters where there was one under two names. `place` is the line that parted them,
    if seen."""

    model: int
    name: str
    first: str
    second: str
    shape: tuple[int, ...]
    tied_at: Place | None
    """The line that had tied them."""
    steps: int
    """Steps taken while they were one."""
    by: Literal["assignment", "loading", "moving", "unknown"]
