"""Where the time and the memory of a training go: what `trueloop profile` has measured, what that means, and what to
change. No torch here.

Seconds are of one step unless a name says otherwise; a step reaches from the end of one optimizer step to the end of
the next. The phases of a step add up to it, by construction: every moment belongs to exactly one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from trueloop.event import Place

__all__ = [
    "PHASES",
    "Advice",
    "Bound",
    "Ceilings",
    "Compiled",
    "CompilerNote",
    "Host",
    "HotLine",
    "Kind",
    "Loading",
    "Machine",
    "Memory",
    "ModuleCost",
    "Operation",
    "Phase",
    "Profile",
    "Span",
    "Steps",
    "Updating",
    "Work",
]

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
    "python": "Python between",
    "saving": "saving",
    "evaluating": "evaluating",
}
"""Every phase, in the order of a step, in words."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What it was measured on."""

    device: str
    """cpu, or cuda:0."""
    name: str
    cores: int
    threads: int
    """That torch computes with."""
    torch: str
    python: str
    ranks: int = 1


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps that were timed, with nothing but the clock at work."""

    count: int
    seconds: float
    """The mean of the middle ones: what the phases add up to."""
    median: float
    p95: float
    phases: Mapping[Phase, float]
    evaluations: int = 0
    """Steps with forwards without gradients before them, left out above where there are others; so below."""
    evaluating: float = 0.0
    """Seconds of all of those together."""
    saves: int = 0
    saving: float = 0.0

    def share(self, phase: Phase) -> float:
        return self.phases.get(phase, 0.0) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Host:
    """What the processor did in the steps under PyTorch's profiler: as shares of each phase, because the profiler
    itself costs time."""

    steps: int
    inside: Mapping[Phase, float]
    """Share of each phase that lies inside of operations of torch's; the rest is Python."""
    launches: float = 0.0
    """Kernels on the device."""
    busy: float | None = None
    """Seconds in which the device computed; None on a processor alone."""
    copying: float = 0.0
    """Seconds in which the device took data from the host and did nothing else."""
    exchanging: float = 0.0
    """Seconds in which ranks exchanged data and this one did nothing else."""


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    calls: float
    seconds: float
    """Its own, without the operations that it calls: on the device, where there is one."""
    flops: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class ModuleCost:
    name: str
    """In the model: encoder.0; empty for the model itself."""
    kind: str
    forward: float
    backward: float
    """Seconds of its own operations, without those of modules inside it."""
    flops: int = 0
    activations: int = 0
    """Bytes that it keeps for its backward."""
    parameters: int = 0
    """Bytes of its own."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one step has to do, counted operation by operation."""

    operations: int
    """That compute something: views are free."""
    flops: int
    bytes: int
    """Read and written, if nothing stays in a cache."""
    roof: float = 0.0
    """Seconds that it would take at this machine's ceilings: for each operation the longer of computing and moving."""
    flops_by_type: Mapping[str, int] = field(default_factory=dict)
    pointwise: int = 0
    """Operations that work element by element."""
    pointwise_bytes: int = 0
    fused_bytes: int = 0
    """What would be left of those if neighbours were fused: their first reads and last writes."""
    convolutions: int = 0
    source: str = "counted"
    """estimated: by PyTorch's profiler, because the model is compiled."""

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes if self.bytes else 0.0


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The most that this machine has been seen to do."""

    flops: Mapping[str, float]
    """Per second, by type of number: float32, tf32, bfloat16, float16."""
    bandwidth: float
    """Bytes per second, of the memory of the device."""
    launch: float
    """Seconds that one small operation costs, whatever it computes."""
    flops_all_cores: float = 0.0
    """Of float32 with as many threads as there are cores."""
    pinned: float = 0.0
    """Bytes per second from pinned memory to the device."""
    pageable: float = 0.0
    cold: float = 0.0
    """Seconds that a small operation takes longer after the loop has stood still: caches are cold, and the processor
    has slowed down."""
    cold_share: float = 0.0
    """Beside a device: the share of the host's work that it would not take if its caches had not been emptied by
    copying a batch before."""

    def ridge(self, kind: str) -> float:
        """FLOPs per byte from which on an operation is limited by computing, no longer by moving."""
        return self.flops.get(kind, max(self.flops.values(), default=0.0)) / self.bandwidth if self.bandwidth else 0.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on the device that the model is on."""

    parameters: int
    gradients: int
    optimizer: int
    buffers: int
    activations: int
    """Kept for the backward: counted in one forward."""
    measured: int | None = None
    """The peak that was seen: of the allocator's on CUDA, else of the tensors alive, counted operation by operation."""
    how: str = ""
    """How the peak was measured."""
    moment: Phase | None = None
    """The phase of the peak."""
    module: str = ""
    workspace: int = 0
    """Of the peak, what is none of the above: temporaries, batches, workspaces of libraries."""
    fragmentation: int = 0
    """Held by the allocator at the peak and not in use."""
    process: int = 0
    """The peak of the process on the host."""
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
    samples: int
    """Of its data set; 0: not known."""
    batch_size: int
    batch_bytes: int
    computed: float
    """Share of the waiting in which the loop's own thread computed the batch."""
    place: Place | None
    """Where it is built, or else where the pass over it begins."""


@dataclass(frozen=True, slots=True)
class Updating:
    """The optimizer."""

    name: str
    fused: bool
    foreach: bool
    fusable: bool
    """torch has a fused version of it for this device."""
    tensors: int
    place: Place | None


@dataclass(frozen=True, slots=True)
class HotLine:
    """A line of the user's, and the share of the sampled steps that it was seen in."""

    place: Place
    phase: Phase
    share: float


@dataclass(frozen=True, slots=True)
class Span:
    lane: str
    """host, device or copy."""
    name: str
    start: float
    end: float
    """Seconds from the first."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What holds the run back."""

    kind: Kind
    sentence: str
    evidence: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Advice:
    """A change, and what it is predicted to gain."""

    what: str
    gain: float
    """How many times as many samples per second."""
    computed_from: str
    """The formula, with this run's numbers."""
    key: str
    """Of the change, for programs: workers, resident, pin, read, fused, compile, graph, precision, batch, lift,
    threads, accumulate."""
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """Everything about one profiled run."""

    subject: str
    machine: Machine
    steps: Steps | None
    """None: no training step was seen."""
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
    timeline: tuple[Span, ...] = ()
    bound: Bound | None = None
    advice: tuple[Advice, ...] = ()
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    batch: int = 0
    """Samples of a batch, where known."""

    def plain(self) -> dict[str, Any]:
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "bound"}
        return {"verdict": self.bound, **own, "mfu": self.mfu, "busy_share": self.busy_share}

    @property
    def precision(self) -> str:
        """The type of number that most of the arithmetic is done in."""
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
        """Of the device; None on a processor alone."""
        if self.host is None or self.host.busy is None or self.steps is None or not self.steps.seconds:
            return None
        return min(1.0, self.host.busy / self.steps.seconds)
