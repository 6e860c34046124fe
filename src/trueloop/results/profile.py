"""The result of `profile`: where the time and the memory of a training go, and what to change. No torch here.

Seconds are of one step unless a name says otherwise; a step reaches from the end of one optimizer step to the end of
the next. The phases of a step add up to it: every moment belongs to exactly one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from trueloop.event import Place

__all__ = ["PHASES", "Advice", "Bound", "Ceilings", "Compiled", "CompilerNote", "Host", "HotLine", "Kind", "Loading"]
__all__ += ["Machine", "Memory", "ModuleCost", "Operation", "Phase", "Profile", "SilentCopy", "Span", "Steps"]
__all__ += ["Updating", "Work"]

Phase = Literal[
    "data", "copy", "forward", "backward", "optimizer", "communication", "device", "python", "saving", "evaluating"
]
Kind = Literal["data", "copy", "launch", "memory", "compute", "communication", "python"]

PHASES: Final[Mapping[Phase, str]] = {
    "data": "waiting for data",
    "copy": "copying to the device",
    "forward": "forward and loss",
    "backward": "backward",
    "optimizer": "optimizer",
    "communication": "communication",
    "device": "waiting for the device",
    "python": "Python between calls",
    "saving": "saving",
    "evaluating": "evaluating",
}  # Every phase, in the order of a step, and its name in reports


@dataclass(frozen=True, slots=True)
class Machine:
    device: str  # cpu, or cuda:0
    name: str
    cores: int
    threads: int  # of torch
    torch: str
    python: str
    ranks: int = 1


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps timed without any profiler."""

    count: int
    seconds: float  # the trimmed mean; the phases add up to it
    median: float
    p95: float
    phases: Mapping[Phase, float]
    evaluations: int = 0  # steps after an evaluation, left out above where there are others; the same for saves
    evaluating: float = 0.0  # seconds of all of them together
    saves: int = 0
    saving: float = 0.0

    def share(self, phase: Phase) -> float:
        return self.phases.get(phase, 0.0) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Host:
    """The host during the steps under PyTorch's profiler, as shares of each phase: the profiler itself costs time."""

    steps: int
    inside: Mapping[Phase, float]  # share of each phase inside torch operations; the rest is Python
    launches: float = 0.0  # kernels on the device
    busy: float | None = None  # seconds in which the device computed; None without a device
    copying: float = 0.0  # seconds in which the device only received data from the host
    exchanging: float = 0.0  # seconds in which this rank only exchanged data with others


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    calls: float
    seconds: float  # own time, without the operations it calls: on the device, where there is one
    flops: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class ModuleCost:
    name: str  # in the model: encoder.0; empty for the model itself
    kind: str
    forward: float
    backward: float  # seconds of its own operations, without submodules
    flops: int = 0
    activations: int = 0  # bytes kept for the backward
    parameters: int = 0  # own bytes


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one step, counted operation by operation."""

    operations: int  # without views
    flops: int
    bytes: int  # read and written, if nothing stays in a cache
    roof: float = 0.0  # seconds at this machine's ceilings: for each operation the longer of compute and memory traffic
    flops_by_type: Mapping[str, int] = field(default_factory=dict)
    pointwise: int = 0
    pointwise_bytes: int = 0
    fused_bytes: int = 0  # the bytes left if neighboring ones were fused: their first reads and last writes
    convolutions: int = 0
    source: str = "counted"  # estimated: by PyTorch's profiler, because the model is compiled

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes if self.bytes else 0.0


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The highest rates measured on this machine."""

    flops: Mapping[str, float]  # per second, by dtype: float32, tf32, bfloat16, float16
    bandwidth: float  # bytes per second of the device's memory
    launch: float  # seconds of one small operation
    flops_all_cores: float = 0.0  # float32, one thread per core
    pinned: float = 0.0  # bytes per second from pinned memory to the device
    pageable: float = 0.0
    cold: float = 0.0  # extra seconds of a small operation after the loop was idle: cold caches, a lower clock
    cold_share: float = 0.0  # With a device: share of the host's work due to caches emptied by copying a batch

    def ridge(self, kind: str) -> float:
        """FLOPs per byte above which an operation is compute-bound, not memory-bound."""
        return self.flops.get(kind, max(self.flops.values(), default=0.0)) / self.bandwidth if self.bandwidth else 0.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on the model's device."""

    parameters: int
    gradients: int
    optimizer: int
    buffers: int
    activations: int  # kept for the backward, counted in one forward
    measured: int | None = None  # The peak: of the allocator on CUDA, else of live tensors, counted by operation
    how: str = ""  # how the peak was measured
    moment: Phase | None = None  # the phase of the peak
    module: str = ""
    workspace: int = 0  # the rest of the peak: temporaries, batches, workspaces of libraries
    fragmentation: int = 0  # reserved by the allocator at the peak and not in use
    process: int = 0  # the peak of the process on the host
    capacity: int = 0

    @property
    def predicted(self) -> int:
        return self.parameters + self.gradients + self.optimizer + self.buffers + self.activations


@dataclass(frozen=True, slots=True)
class CompilerNote:
    what: str
    place: Place | None


@dataclass(frozen=True, slots=True)
class Compiled:
    graphs: int
    seconds: float
    breaks: tuple[CompilerNote, ...] = ()
    recompiles: tuple[CompilerNote, ...] = ()


@dataclass(frozen=True, slots=True)
class Loading:
    """The loader of the training."""

    workers: int
    pinned: bool
    samples: int  # 0: unknown
    batch_size: int
    batch_bytes: int
    computed: float  # share of the waiting in which the main process built the batch
    place: Place | None  # where it is built, else where the pass over it begins


@dataclass(frozen=True, slots=True)
class Updating:
    """The optimizer."""

    name: str
    fused: bool
    foreach: bool
    fusable: bool  # torch has a fused version for this device
    tensors: int
    place: Place | None


@dataclass(frozen=True, slots=True)
class HotLine:
    """A line of the user's, and the share of the sampled steps in which it was running."""

    place: Place
    phase: Phase
    share: float


@dataclass(frozen=True, slots=True)
class SilentCopy:
    """What a line of the user's copies in one step, where a view would read alike."""

    place: Place
    how: str  # contiguous(), reshape() that cannot be a view, float32 to bfloat16, advanced indexing ...
    backward: bool  # In the backward of that line
    calls: int
    bytes: int  # read and written
    share: float  # of the memory traffic of the step


@dataclass(frozen=True, slots=True)
class Span:
    lane: str  # host, device or copy
    name: str
    start: float
    end: float  # seconds from the first


@dataclass(frozen=True, slots=True)
class Bound:
    """What limits the run."""

    kind: Kind
    sentence: str
    evidence: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Advice:
    """A change, and its predicted gain."""

    what: str
    gain: float  # times the samples per second
    computed_from: str  # the formula, with this run's numbers
    key: str  # workers, resident, pin, read, fused, compile, graph, precision, batch, lift, threads, accumulate
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    subject: str
    machine: Machine
    steps: Steps | None  # none: no training step was seen
    host: Host | None = None
    operations: tuple[Operation, ...] = ()
    modules: tuple[ModuleCost, ...] = ()
    work: Work | None = None
    ceilings: Ceilings | None = None
    memory: Memory | None = None
    compiled: Compiled | None = None
    loading: Loading | None = None
    updating: Updating | None = None
    lines: tuple[HotLine, ...] = ()
    copies: tuple[SilentCopy, ...] = ()
    timeline: tuple[Span, ...] = ()
    bound: Bound | None = None
    advice: tuple[Advice, ...] = ()
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    batch: int = 0  # batch size, where known

    def plain(self) -> dict[str, Any]:
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "bound"}
        return {"verdict": self.bound, **own, "mfu": self.mfu, "busy_share": self.busy_share}

    @property
    def precision(self) -> str:
        """The dtype of most of the arithmetic."""
        types = self.work.flops_by_type if self.work else {}
        return max(types, key=lambda name: types[name], default="float32")

    @property
    def mfu(self) -> float | None:
        """Model FLOPs per second, as a share of the measured ceiling."""
        if self.work is None or self.ceilings is None or self.steps is None or not self.work.flops:
            return None
        ceiling = self.ceilings.flops.get(self.precision, 0.0)
        return self.work.flops / self.steps.seconds / ceiling if ceiling and self.steps.seconds else None

    @property
    def busy_share(self) -> float | None:
        """Of the device; None without one."""
        if self.host is None or self.host.busy is None or self.steps is None or not self.steps.seconds:
            return None
        return min(1.0, self.host.busy / self.steps.seconds)
