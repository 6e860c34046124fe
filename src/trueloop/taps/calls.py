"""What a tap tells: live objects, valid only during the telling.

A observer listens by having a method named after the moment. It must not keep a tensor, a module or an optimizer: numbers,
names, places and weak references only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from torch import Tensor, nn
from torch.amp import GradScaler
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader

from trueloop.event import Place
from trueloop.measure import tensors

__all__ = [
    "TOPICS",
    "TRANSFER_WINDOWS",
    "BackwardCall",
    "BatchDrawn",
    "BuiltLoader",
    "BuiltOptimizer",
    "BuiltScaler",
    "BuiltSchedule",
    "BuiltWrapper",
    "ClipCall",
    "CollectiveCall",
    "DecisionCall",
    "DetachCall",
    "DeviceCopy",
    "DeviceRead",
    "DropoutCall",
    "FileRead",
    "FiniteCheck",
    "InnerCall",
    "Joined",
    "LoaderStart",
    "LossCall",
    "ModeChange",
    "ModuleCall",
    "ModuleMove",
    "NanReplaced",
    "ParameterSet",
    "PredictionCompared",
    "Restored",
    "RunEnd",
    "ScalerStep",
    "ScalerUpdate",
    "ScheduleCall",
    "StateLoad",
    "StateSave",
    "StateTaken",
    "StepCall",
    "UnscaleCall",
    "tensors_in",
]


TRANSFER_WINDOWS: Final = (range(4, 16), range(32, 44))
"""Steps, counted over all optimizers, on which traffic between host and device is told: past the first looks of the
observers, inside the steps that are watched whatever the budget, long enough for three rounds of a loop with three
optimizers; and once more, so that what a script does in its first steps only is not taken for its habit."""


tensors_in: Final = partial(tensors.tensors_in, limit=64)
"""The tensors in nested tuples, lists and mappings, at most 64 items of each."""


@dataclass(slots=True)
class ModuleCall:
    """A call of a module from outside any other module."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    place: Place | None
    number: int
    grad: bool
    training: bool
    compiled: bool
    recalibration: bool
    dropouts: int = 0
    """Calls of dropout functions so far that were active."""
    output: Any = None
    failed: bool = False


@dataclass(slots=True)
class InnerCall:
    """A call of a module from inside another one; told on deep steps only, when it has ended."""

    module: nn.Module
    args: tuple[Any, ...]
    output: Any


@dataclass(slots=True)
class LossCall:
    function: str
    input: Tensor
    target: Tensor
    options: Mapping[str, Any]
    """The other arguments, by name."""
    output: Tensor
    place: Place | None
    began_ns: int = 0
    """When it was called, by `perf_counter_ns`."""
    watch_predictions: bool = False
    """Set by a listener that wants to hear of predictions that are compared with such targets:
    `prediction_compared`."""


@dataclass(slots=True)
class DetachCall:
    """The user took a tensor out of its graph; told on deep steps only."""

    function: str
    """detach, item, tolist or numpy."""
    tensor: Tensor
    place: Place


@dataclass(slots=True)
class PredictionCompared:
    """The outcome of an argmax or of a rounding was compared, by ==, with another tensor."""

    kind: Literal["argmax", "round"]
    other: Tensor
    place: Place | None


@dataclass(slots=True)
class DecisionCall:
    """argmax, max over a dimension, or topk: scores became a choice."""

    function: str
    input: Tensor


@dataclass(slots=True)
class FiniteCheck:
    """A line of the user's asked a single value whether it is a number: isnan, isinf, isfinite."""

    tensor: Tensor
    place: Place


@dataclass(slots=True)
class NanReplaced:
    """A line of the user's is about to put numbers where there are none: nan_to_num."""

    tensor: Tensor
    place: Place


@dataclass(slots=True)
class BackwardCall:
    tensors: tuple[Tensor, ...]
    gradients: Sequence[Tensor | None] | None
    retain_graph: bool | None
    create_graph: bool
    place: Place | None
    number: int
    inside_step: bool


@dataclass(slots=True)
class BuiltOptimizer:
    optimizer: Optimizer
    place: Place | None


@dataclass(slots=True)
class StepCall:
    optimizer: Optimizer
    place: Place | None
    index: int
    """Steps that this optimizer had taken before, under watch."""
    closure: bool


@dataclass(slots=True)
class UnscaleCall:
    """A GradScaler takes its factor out of the gradients of an optimizer."""

    optimizer: Optimizer
    place: Place | None


@dataclass(slots=True)
class BuiltScaler:
    scaler: GradScaler
    place: Place | None


@dataclass(slots=True)
class ScalerStep:
    """A GradScaler was asked for a step of an optimizer."""

    scaler: GradScaler
    optimizer: Optimizer
    place: Place | None
    skipped: bool | None
    """It left the step out; None where the optimizer does that itself, in its kernel, so that only the scale tells."""


@dataclass(slots=True)
class ScalerUpdate:
    """A GradScaler has set its scale anew."""

    scaler: GradScaler


@dataclass(slots=True)
class ClipCall:
    function: str
    parameters: tuple[Tensor, ...]
    limit: float
    place: Place | None


@dataclass(slots=True)
class BuiltSchedule:
    scheduler: LRScheduler
    place: Place | None


@dataclass(slots=True)
class ScheduleCall:
    scheduler: LRScheduler
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    place: Place | None
    inside: bool
    """Another schedule's step called it."""


@dataclass(slots=True)
class BuiltLoader:
    loader: DataLoader[Any]
    place: Place | None


@dataclass(slots=True)
class DeviceRead:
    """A line of the user's took a value from a device to the host, which waits for it; told on a few rows of steps
    only."""

    function: str
    """item, cpu, bool ..."""
    device: str
    place: Place
    waited_ns: int


@dataclass(slots=True)
class DeviceCopy:
    """A tensor of the host's was copied to a device; told on a few rows of steps only."""

    tensor: Tensor
    device: str


@dataclass(slots=True)
class ModuleMove:
    """to(), cuda(), half() ... of a module, called by the user from outside any module; told when it has ended."""

    module: nn.Module
    function: str
    changed: bool
    """Its first parameter went to another device or type."""
    place: Place
    took_ns: int


@dataclass(slots=True)
class ParameterSet:
    """A module was given a parameter, under a name that may have held another one."""

    module: nn.Module
    name: str
    parameter: nn.Parameter
    place: Place | None
    loading: bool
    """By load_state_dict(assign=True)."""


@dataclass(slots=True)
class LoaderStart:
    loader: DataLoader[Any]
    place: Place | None


@dataclass(slots=True)
class BatchDrawn:
    loader: DataLoader[Any] | None
    batch: Any
    stacked: bool = False
    """PyTorch's own collate made it: the first dimension of its tensors counts the samples."""
    waited_ns: int = 0
    """How long the loop stood still for it."""
    computed_ns: int | None = None
    """How much of that its own thread computed; measured in the first steps of a run only."""
    number: int | None = None
    """Which loader, counted in the order of first use; known also of one that only its iterator has outlived."""


@dataclass(slots=True)
class ModeChange:
    module: nn.Module
    training: bool
    place: Place | None


@dataclass(slots=True)
class DropoutCall:
    function: str
    probability: float
    place: Place | None
    owner: nn.Module | None
    """The module whose method called it, directly or through functions."""
    callers: tuple[str, ...]
    """The user's functions under way, innermost first."""


@dataclass(slots=True)
class StateTaken:
    module: nn.Module
    state: Mapping[str, Any]
    place: Place | None


@dataclass(slots=True)
class StateLoad:
    module: nn.Module
    state: Mapping[str, Any]
    place: Place | None
    direct: bool = True
    """The user's own line calls it, with no library between."""


@dataclass(slots=True)
class StateSave:
    value: object
    file: object
    """What torch.save was told to write into: a path, or something with a write method."""
    place: Place | None
    direct: bool = True
    """The user's own line calls it, with no library between."""


@dataclass(slots=True)
class FileRead:
    """What torch.load has read."""

    value: object
    file: object
    """What it was told to read from: a path, or something with a read method."""
    unsafe: bool
    """The caller asked for everything that a pickle can hold: weights_only=False, or an unpickler of its own."""
    place: Place | None
    direct: bool
    """The user's own line calls it, with no library between."""


@dataclass(slots=True)
class Restored:
    """The user put back the state of something that is neither a model nor an optimizer."""

    kind: Literal["scaler", "random"]


@dataclass(slots=True)
class Joined:
    """This process has become one of several ranks."""

    rank: int
    world_size: int


@dataclass(slots=True)
class CollectiveCall:
    """A function of torch.distributed that all members of a group call together; told before it is entered."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    members: tuple[int, ...]
    place: Place | None


@dataclass(slots=True)
class BuiltWrapper:
    wrapper: DistributedDataParallel
    members: tuple[int, ...]
    place: Place | None


@dataclass(slots=True)
class RunEnd:
    reason: str
    exception: BaseException | None = field(default=None)


TOPICS: Final = (
    "parameter_set",  # ParameterSet
    "module_call_started",  # ModuleCall: kwargs known, output not
    "module_call_ended",  # ModuleCall
    "inner_call_ended",  # InnerCall
    "loss_called",  # LossCall
    "tensor_detached",  # DetachCall: on deep steps
    "prediction_compared",  # PredictionCompared: only after a listener asked for it
    "decision_made",  # DecisionCall
    "finite_checked",  # FiniteCheck
    "nan_replaced",  # NanReplaced
    "backward_started",  # BackwardCall
    "backward_ended",  # BackwardCall
    "gradients_taken",  # BackwardCall: torch.autograd.grad was called
    "optimizer_built",  # BuiltOptimizer
    "step_started",  # StepCall
    "step_ended",  # StepCall
    "scaler_built",  # BuiltScaler
    "unscale_started",  # UnscaleCall
    "unscale_ended",  # UnscaleCall
    "scaler_stepped",  # ScalerStep
    "scaler_updated",  # ScalerUpdate
    "clip_started",  # ClipCall
    "clip_ended",  # ClipCall
    "schedule_built",  # BuiltSchedule
    "schedule_stepped",  # ScheduleCall
    "loader_built",  # BuiltLoader
    "loader_started",  # LoaderStart
    "batch_drawn",  # BatchDrawn
    "device_copied",  # DeviceCopy: on a few rows of steps
    "device_read",  # DeviceRead: on a few rows of steps
    "module_moved",  # ModuleMove
    "mode_set",  # ModeChange
    "dropout_called",  # DropoutCall: only those that are active while the outermost module is in eval mode
    "state_taken",  # StateTaken
    "state_loading",  # StateLoad
    "state_saving",  # StateSave
    "state_saved",  # StateSave
    "file_read",  # FileRead
    "state_restored",  # Restored
    "group_joined",  # Joined: where there are several ranks
    "wrapper_built",  # BuiltWrapper
    "wrapper_called",  # DistributedDataParallel: with a graph
    "collective_called",  # CollectiveCall
    "collective_ended",  # CollectiveCall: it was left, by whichever way
    "watching_resumed",  # None: the observers slept for some steps; what they remember of the last one is out of date
    "run_ended",  # RunEnd
)
"""Every moment, in the order of a training loop."""
