"""What taps publish: live objects, valid only during the call.

An observer subscribes to a topic by having a method of that name. It must not keep a tensor, a module or an optimizer:
only numbers, names, places and weak references.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from torch import Tensor, nn
from torch.amp import GradScaler
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader

from trueloop.event import Place
from trueloop.measure import tensors

__all__ = ["TOPICS", "TRANSFER_WINDOWS", "BackwardCall", "BatchDrawn", "BuiltLoader", "BuiltOptimizer", "BuiltScaler"]
__all__ += ["BuiltSchedule", "BuiltWrapper", "ClipCall", "CollectiveCall", "DecisionCall", "DetachCall", "DeviceCopy"]
__all__ += [
    "DeviceRead",
    "DropoutCall",
    "FileOpened",
    "FileRead",
    "FiniteCheck",
    "FunctionCall",
    "InnerCall",
    "Joined",
    "LinePrinted",
    "LoaderStart",
    "LossCall",
]
__all__ += ["ModeChange", "ModuleCall", "ModuleMove", "NanReplaced", "OperationCall", "ParameterSet"]
__all__ += ["PredictionCompared", "ProgramStart", "Restored", "RunEnd", "ScalerStep", "ScalerUpdate", "ScheduleCall"]
__all__ += [
    "AliasCopied",
    "StateLoad",
    "StateSave",
    "StateTaken",
    "StepCall",
    "UnscaleCall",
    "WeightDetached",
    "tensors_in",
]


TRANSFER_WINDOWS: Final = (range(4, 16), range(32, 44))
"""Steps, over all optimizers, on which transfers between host and device are published: after the deep steps, inside
the steps that every budget watches, long enough for three iterations of a loop with three optimizers; and once more
later, so that a habit of the first steps is not taken for the rule."""


tensors_in: Final = partial(tensors.tensors_in, limit=64)
"""The tensors in nested tuples, lists and mappings, at most 64 items of each."""


@dataclass(slots=True)
class ModuleCall:
    """A call of a model, or of a module without parameters (a criterion), from outside of any model."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    place: Place | None
    number: int
    grad: bool
    training: bool
    compiled: bool
    recalibration: bool
    dropouts: int = 0  # Active dropout calls so far
    output: Any = None
    failed: bool = False


class InnerCall(NamedTuple):
    """A call of a module inside another call, when it has ended; on deep steps only."""

    module: nn.Module
    args: tuple[Any, ...]
    output: Any


@dataclass(slots=True)
class LossCall:
    function: str
    input: Tensor
    target: Tensor
    options: Mapping[str, Any]  # The other arguments by name
    output: Tensor
    place: Place | None
    began_ns: int = 0  # `perf_counter_ns` at the call
    watch_predictions: bool = False  # Set by an observer that needs `prediction_compared`


class DetachCall(NamedTuple):
    """The user detached a tensor from its graph; on deep steps only."""

    function: str  # detach, item, tolist or numpy
    tensor: Tensor
    place: Place


class WeightDetached(NamedTuple):
    """The user detached a trained parameter or a value of a state dict, or called `numpy()` on a tensor that is not
    trained; the first ones of a line in each step."""

    tensor: Tensor
    alias: Any  # the result, a tensor or an array, which shares its memory
    place: Place


class AliasCopied(NamedTuple):
    """A result of `WeightDetached` is about to be copied into a tensor, by `copy_`."""

    target: Tensor
    alias: Tensor
    place: Place | None


class PredictionCompared(NamedTuple):
    """The result of an argmax or of a rounding was compared by == with another tensor."""

    kind: Literal["argmax", "round"]
    other: Tensor
    place: Place | None


class DecisionCall(NamedTuple):
    """argmax, max over a dimension, or topk."""

    function: str
    input: Tensor


class FiniteCheck(NamedTuple):
    """The user's line checked one value by isnan, isinf or isfinite."""

    tensor: Tensor
    place: Place


class NanReplaced(NamedTuple):
    """The user's line calls nan_to_num."""

    tensor: Tensor
    place: Place


class BackwardCall(NamedTuple):
    tensors: tuple[Tensor, ...]
    gradients: Sequence[Tensor | None] | None
    retain_graph: bool | None
    create_graph: bool
    place: Place | None
    number: int
    inside_step: bool


class FunctionCall(NamedTuple):
    """A custom `torch.autograd.Function` is called; the first call after `bus.watch_function`."""

    function: Any
    args: tuple[Any, ...]
    place: Place | None


class BuiltOptimizer(NamedTuple):
    optimizer: Optimizer
    place: Place | None


@dataclass(slots=True)
class StepCall:
    optimizer: Optimizer
    place: Place | None
    index: int  # Watched steps of this optimizer before this one
    closure: bool


class UnscaleCall(NamedTuple):
    """A GradScaler unscales the gradients of an optimizer."""

    optimizer: Optimizer
    place: Place | None


class BuiltScaler(NamedTuple):
    scaler: GradScaler
    place: Place | None


class ScalerStep(NamedTuple):
    """`scaler.step(optimizer)`."""

    scaler: GradScaler
    optimizer: Optimizer
    place: Place | None
    skipped: bool | None  # None if the optimizer skips in its own kernel: then only a smaller scale shows it


class ScalerUpdate(NamedTuple):
    """`scaler.update()` has run."""

    scaler: GradScaler


class ClipCall(NamedTuple):
    function: str
    parameters: tuple[Tensor, ...]
    limit: float
    place: Place | None


class BuiltSchedule(NamedTuple):
    scheduler: LRScheduler
    place: Place | None


class ScheduleCall(NamedTuple):
    scheduler: LRScheduler
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    place: Place | None
    inside: bool  # Called by the step of another scheduler


class BuiltLoader(NamedTuple):
    loader: DataLoader[Any]
    place: Place | None


class DeviceRead(NamedTuple):
    """The user's line read a value from a device, and the host waited for it; in TRANSFER_WINDOWS only."""

    function: str  # item, cpu, bool ..
    device: str
    place: Place
    waited_ns: int


class DeviceCopy(NamedTuple):
    """A CPU tensor was copied to a device; in TRANSFER_WINDOWS only."""

    tensor: Tensor
    device: str


class ModuleMove(NamedTuple):
    """The user called to(), cuda(), half() ... of a module from outside of any module."""

    module: nn.Module
    function: str
    changed: bool  # Its first parameter has a new device or dtype
    place: Place
    took_ns: int


class ParameterSet(NamedTuple):
    """A parameter was assigned to a module, perhaps over another parameter."""

    module: nn.Module
    name: str
    parameter: nn.Parameter
    place: Place | None
    loading: bool  # By load_state_dict(assign=True)


class LoaderStart(NamedTuple):
    loader: DataLoader[Any]
    place: Place | None


class BatchDrawn(NamedTuple):
    loader: DataLoader[Any] | None
    batch: Any
    stacked: bool = False  # Built by PyTorch's default collate: dimension 0 of its tensors is the batch
    waited_ns: int = 0  # How long the loop waited for it
    computed_ns: int | None = None  # CPU time of that in its own thread; measured in the first steps only
    number: int | None = None  # Which loader, in the order of first use; known even if only the iterator is still alive


class ModeChange(NamedTuple):
    """The user asked for train or eval mode; a `train` method of the user's class may do something else."""

    module: nn.Module
    training: bool
    place: Place | None


class DropoutCall(NamedTuple):
    function: str
    probability: float
    place: Place | None
    owner: nn.Module | None  # The module whose method called it, directly or indirectly
    callers: tuple[str, ...]  # The user's functions on the stack, innermost first


class StateTaken(NamedTuple):
    module: nn.Module
    state: Mapping[str, Any]
    place: Place | None


class StateLoad(NamedTuple):
    module: nn.Module
    state: Mapping[str, Any]
    place: Place | None
    direct: bool = True  # Called by the user's own line, not by a library
    strict: bool = True


class StateSave(NamedTuple):
    value: object
    file: object  # A path, or an object with a write method
    place: Place | None
    direct: bool = True  # Called by the user's own line, not by a library


class FileOpened(NamedTuple):
    """A file that the user's code opened, itself or through a library."""

    path: str  # absolute
    writing: bool
    place: Place


class FileRead(NamedTuple):
    """The result of torch.load."""

    value: object
    file: object  # A path, or an object with a read method
    unsafe: bool  # weights_only=False, or a custom unpickler
    place: Place | None
    direct: bool  # Called by the user's own line, not by a library


class Restored(NamedTuple):
    """The user restored the state of a GradScaler, of a random generator or of an optimizer."""

    kind: Literal["scaler", "random", "optimizer"]
    owner: object = None  # Whose state it is


class Joined(NamedTuple):
    """This process has joined a process group with several ranks."""

    rank: int
    world_size: int


class CollectiveCall(NamedTuple):
    """A collective of torch.distributed, before it starts."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    members: tuple[int, ...]
    place: Place | None


class BuiltWrapper(NamedTuple):
    wrapper: DistributedDataParallel
    members: tuple[int, ...]
    place: Place | None


@dataclass(slots=True)
class ProgramStart:
    """From here on operations are published."""

    phase: Literal["training", "evaluation"]


@dataclass(slots=True)
class OperationCall:
    """A call of a function of torch that has returned; in sampled steps and evaluation calls only."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    output: Any
    place: Place | None
    direct: bool = False  # Called by the user's own line, not by a library


class LinePrinted(NamedTuple):
    """The script has printed a line."""

    text: str
    place: Place | None


class RunEnd(NamedTuple):
    reason: str
    exception: BaseException | None = None


TOPICS: Final = (
    "parameter_set",  # ParameterSet
    "module_call_started",  # ModuleCall: kwargs known, output not
    "module_call_ended",  # ModuleCall
    "inner_call_ended",  # InnerCall
    "criterion_started",  # ModuleCall: of a module without parameters, outside of any model
    "criterion_ended",  # ModuleCall
    "loss_called",  # LossCall
    "tensor_detached",  # DetachCall: on deep steps
    "weight_detached",  # WeightDetached
    "alias_copied",  # AliasCopied
    "prediction_compared",  # PredictionCompared: if an observer asked for it
    "decision_made",  # DecisionCall
    "finite_checked",  # FiniteCheck
    "nan_replaced",  # NanReplaced
    "function_called",  # FunctionCall
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
    "device_copied",  # DeviceCopy
    "device_read",  # DeviceRead
    "module_moved",  # ModuleMove
    "mode_set",  # ModeChange
    "dropout_called",  # DropoutCall: active dropout while the outermost module is in eval mode
    "state_taken",  # StateTaken
    "state_loading",  # StateLoad
    "state_saving",  # StateSave
    "state_saved",  # StateSave
    "file_opened",  # FileOpened
    "file_read",  # FileRead
    "state_restored",  # Restored
    "group_joined",  # Joined
    "wrapper_built",  # BuiltWrapper
    "wrapper_called",  # DistributedDataParallel: with a graph
    "collective_called",  # CollectiveCall
    "collective_ended",  # CollectiveCall: it returned or raised
    "program_started",  # ProgramStart
    "operation_ended",  # OperationCall: between program_started and program_ended
    "program_ended",  # ProgramStart
    "line_printed",  # LinePrinted
    "watching_resumed",  # None: after a pause, so remembered steps are out of date
    "run_ended",  # RunEnd
)  # Every topic, in the order of a training loop
