"""Where the time goes: waiting, copying, synchronising, compiling."""

from __future__ import annotations

from dataclasses import dataclass

from trueloop.event.base import Event, Place

__all__ = [
    "BatchesAwaited",
    "BatchesCopied",
    "CompilerRan",
    "DeviceReads",
    "DeviceWorked",
    "GraphBreak",
    "LoaderSeen",
    "ModelMoved",
    "ReadLine",
    "Recompilation",
    "UpdatePath",
]


@dataclass(frozen=True, slots=True)
class LoaderSeen(Event):
    """A loader, at its first pass. `place` is where it was built, or where the pass began if that was not seen."""

    loader: int
    """Which loader, counted in the order of first use, as in `EpochStarted`."""
    workers: int
    cores: int
    """Cores that this process may run on."""
    batch_size: int | None
    pinned: bool
    """It was asked to put its batches into pinned memory."""
    stream: bool
    """Its dataset is iterated over, not asked for samples by number."""


@dataclass(frozen=True, slots=True)
class BatchesAwaited(Event):
    """How long the loop stood still for the batches of a loader, over a row of training steps past the first ones."""

    loader: int
    device: str
    """Where the trained parameters are: cpu, cuda, mps ..."""
    steps: int
    step_ms: float
    """Median time of a step, from batch to batch."""
    waited_ms: float
    """Median time of that in which the loop waited."""
    computed_ms: float
    """Median time of the wait in which the loop's own thread computed, so that it did not wait for a disk, a network or
    a worker."""
    idle: float | None
    """Share of the batches at whose arrival the device had nothing left to do; None where that cannot be asked."""


@dataclass(frozen=True, slots=True)
class ReadLine:
    """A line of the user's that makes the host wait for the device, in each step of a row."""

    place: Place
    readers: tuple[str, ...]
    """item, cpu, bool ..."""
    reads: int
    waited_ms: float
    """Per step."""


@dataclass(frozen=True, slots=True)
class DeviceReads(Event):
    """Values that the user's lines took from the device, over a row of steps."""

    device: str
    steps: int
    step_ms: float
    waited_ms: float
    """Per step, over all lines."""
    lines: tuple[ReadLine, ...]
    """Those that were there in each of the steps."""


@dataclass(frozen=True, slots=True)
class DeviceWorked(Event):
    """Lines of the user's that gave work to a device: calls of models, backwards, steps. Told once, at the end."""

    device: str
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class BatchesCopied(Event):
    """Batches of a loader that were copied from pageable memory to a CUDA device, in each step of a row."""

    loader: int
    steps: int
    megabytes: float
    """Per step."""
    copies: int
    """Per step."""


@dataclass(frozen=True, slots=True)
class GraphBreak:
    place: Place
    reason: str
    """The compiler's, in one line."""
    on_purpose: bool
    """The user asked for it: torch.compiler.disable, torch._dynamo.graph_break()."""


@dataclass(frozen=True, slots=True)
class Recompilation:
    """One function of the user's that was compiled again."""

    place: Place
    """Where the guard that failed was made, or where the function begins."""
    function: str
    times: int
    reasons: tuple[str, ...]
    """What had changed, each once, at most a few."""


@dataclass(frozen=True, slots=True)
class CompilerRan(Event):
    """What torch.compile did in the whole run. Told once, at the end."""

    graphs: int
    breaks: tuple[GraphBreak, ...]
    recompilations: tuple[Recompilation, ...]


@dataclass(frozen=True, slots=True)
class UpdatePath(Event):
    """How an optimizer with parameters on a device walks over them. `place` is where it was built."""

    optimizer: int
    name: str
    device: str
    tensors: int
    """Parameters that had a gradient at its first step."""
    one_by_one: int
    """Those of them in groups whose `foreach` was switched off, with no fused kernel instead."""
    differentiable: bool
    """The step itself is differentiated: that works one by one only."""


@dataclass(frozen=True, slots=True)
class ModelMoved(Event):
    """One line moved a model that is being trained, in several steps in a row."""

    model: int
    name: str
    function: str
    """to, cuda, half ..."""
    moves: int
    """In a row, each with a step between it and the one before."""
    changed: bool
    """Its parameters went to another device or type; otherwise they were there already."""
    tensors: int
    """Parameters and buffers that are walked over each time."""
    took_ms: float
    """The last call."""
