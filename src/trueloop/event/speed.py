"""Where the time goes: waiting, copying, synchronizing, compiling."""

from dataclasses import dataclass

from trueloop.event.base import Event, Place

__all__ = ["BatchesAwaited", "BatchesCopied", "CompilerRan", "DeviceReads", "DeviceWorked", "GraphBreak", "LoaderSeen"]
__all__ += ["ModelMoved", "ReadLine", "Recompilation", "UpdatePath"]


@dataclass(frozen=True, slots=True)
class LoaderSeen(Event):
    """A loader, at its first pass. `place`: where it was built, or where the pass began if that was not seen."""

    loader: int  # numbered in the order of first use
    workers: int
    cores: int  # CPU cores available to this process
    batch_size: int | None
    pinned: bool  # pin_memory=True
    stream: bool  # an iterable dataset


@dataclass(frozen=True, slots=True)
class BatchesAwaited(Event):
    """How long the loop waited for the batches of a loader, over consecutive training steps after the first ones."""

    loader: int
    device: str  # of the trained parameters: cpu, cuda, mps ...
    steps: int
    step_ms: float  # median time from batch to batch
    waited_ms: float  # median wait of the loop in it
    computed_ms: float  # median part of the wait in which the loop's own thread computed: no disk, network or worker
    idle: float | None  # share of batches at whose arrival the device had no work queued; None: not measurable


@dataclass(frozen=True, slots=True)
class ReadLine:
    """A user's line that makes the host wait for the device, in each of several consecutive steps."""

    place: Place
    readers: tuple[str, ...]  # item, cpu, bool ...
    reads: int
    waited_ms: float  # per step


@dataclass(frozen=True, slots=True)
class DeviceReads(Event):
    """Values that the user's lines read from the device, over consecutive steps."""

    device: str
    steps: int
    step_ms: float
    waited_ms: float  # per step, over all lines
    lines: tuple[ReadLine, ...]  # those present in every step


@dataclass(frozen=True, slots=True)
class DeviceWorked(Event):
    """The user's lines that gave work to a device: model calls, backward calls, steps. Emitted once, at the end."""

    device: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class BatchesCopied(Event):
    """Batches of a loader that were copied from pageable memory to a CUDA device, in consecutive steps."""

    loader: int
    steps: int
    megabytes: float  # per step
    copies: int  # per step


@dataclass(frozen=True, slots=True)
class GraphBreak:
    place: Place
    reason: str  # the compiler's, in one line
    on_purpose: bool  # torch.compiler.disable, torch._dynamo.graph_break()


@dataclass(frozen=True, slots=True)
class Recompilation:
    """A user's function that was compiled again."""

    place: Place  # where the failed guard was created, or where the function begins
    function: str
    times: int
    reasons: tuple[str, ...]  # what changed, each once, at most a few


@dataclass(frozen=True, slots=True)
class CompilerRan(Event):
    """What torch.compile did in the run. Emitted once, at the end."""

    graphs: int
    breaks: tuple[GraphBreak, ...]
    recompilations: tuple[Recompilation, ...]


@dataclass(frozen=True, slots=True)
class UpdatePath(Event):
    """How an optimizer updates its parameters on a device. `place`: where it was built."""

    optimizer: int
    name: str
    device: str
    tensors: int  # parameters with a gradient at its first step
    one_by_one: int  # those in groups with foreach=False and no fused kernel
    differentiable: bool  # differentiable=True: works one by one only


@dataclass(frozen=True, slots=True)
class ModelMoved(Event):
    """One line moved a model in training, in several consecutive steps."""

    model: int
    name: str
    function: str  # to, cuda, half ...
    moves: int  # consecutive ones, with a step between each
    changed: bool  # device or dtype of its parameters changed; otherwise the call had no effect
    tensors: int  # parameters and buffers visited each time
    took_ms: float  # of the last call
