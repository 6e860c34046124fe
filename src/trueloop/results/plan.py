"""The result of `plan`: facts of a model, ways to spread its training over GPUs, and the best of them. No torch.

Each number is a `Figure`: it says whether it was computed, measured or assumed, and how.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

__all__ = ["Basis", "Figure", "Kept", "Memory", "ModelFacts", "Plan", "Refused", "Row", "Scaled", "Way"]

Basis = Literal["computed", "measured", "assumed"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, and its origin."""

    value: float
    basis: Basis
    how: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes that a forward keeps for its backward; per sample, unless stated otherwise."""

    per_sample: float
    fixed: float = 0.0  # for any batch: copies of weights in the dtype of autocast
    in_blocks: float = 0.0  # the part of `per_sample` that blocks keep
    largest_block: float = 0.0  # of one block: allocated again while activation checkpointing recomputes it
    block_inputs: float = 0.0  # inputs of the blocks: all that activation checkpointing keeps
    split: float = 0.0  # the part of `in_blocks` that tensor parallelism splits: everything but the residual stream
    largest_tensor: float = 0.0  # the largest output of the forward: its gradient needs the same size
    scores: float = 0.0  # of a fused linear + cross entropy: all logits, if they were held at once
    scores_most: float = 0.0  # not per sample: bytes of logits that it holds at once
    scores_fixed: float = 0.0  # not per sample: its copy of the weight


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Of a recipe's model, independent of hardware."""

    name: str
    numbers: int  # elements of all parameters
    learning: int  # elements of trainable parameters
    parameter_bytes: int
    gradient_bytes: int
    state_bytes: int  # of the optimizer and of an EMA of the weights
    buffer_bytes: int
    blocks: int  # repeated blocks: the unit of sharding and of activation checkpointing
    largest_block: int  # elements
    outside: int  # elements outside of blocks
    splittable: int  # elements of block matrices, which tensor parallelism splits
    stream: float  # elements of a block's input, per sample, on average
    kept: Kept
    flops: float  # per sample, forward and backward
    flops_forward: float
    flops_blocks: float  # of the blocks' forward
    how: str  # how activations and FLOPs were counted
    state_how: str = ""  # how the optimizer state was counted
    positions: int = 0  # of one sample's sequence, as blocks see it; 0: no sequence
    problems: Mapping[str, str] = field(default_factory=dict)  # tp, pp, cp -> why `train` cannot split this model so


@dataclass(frozen=True, slots=True)
class Way:
    """One way to spread a training: `kind` joins its parts by +: none, ddp, fsdp or hsdp; tp; pp; cp."""

    kind: str
    recompute: bool = False
    tensor: int = 1  # GPUs that share each layer
    pipeline: int = 1  # stages: groups of GPUs that hold some of the blocks each
    context: int = 1  # GPUs that share each sequence
    shards: int = 1  # hsdp: GPUs that hold one copy of the weights together

    @property
    def name(self) -> str:
        sizes = {"hsdp": self.shards, "tp": self.tensor, "pp": self.pipeline, "cp": self.context}
        parts = [f"{part} {sizes[part]}" if part in sizes else part for part in self.kind.split("+")]
        shown = "one GPU" if self.kind == "none" else "+".join(parts)
        return f"{shown}{' + checkpointing' if self.recompute else ''}"

    @property
    def data(self) -> str:
        """How the GPUs that share a batch hold the weights: none (there is one), ddp, fsdp or hsdp."""
        first = self.kind.partition("+")[0]
        return first if first in ("ddp", "fsdp", "hsdp") else "none"

    @property
    def sharded(self) -> bool:
        return self.data in ("fsdp", "hsdp")

    @property
    def ranks(self) -> int:
        """GPUs that compute one micro-batch together."""
        return self.tensor * self.pipeline * self.context

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of a recipe that stand for it."""
        made: dict[str, Any] = {"parallel": self.kind}
        if self.kind == "fsdp+tp":
            made["tensor_ranks"] = self.tensor
        if self.data == "hsdp":
            made["shard_ranks"] = self.shards
        return {**made, **({"activation_checkpointing": True} if self.recompute else {})}


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one GPU, in bytes."""

    parameters: Figure
    gradients: Figure
    optimizer: Figure
    activations: Figure
    workspace: Figure

    @property
    def parts(self) -> tuple[Figure, ...]:
        return (self.parameters, self.gradients, self.optimizer, self.activations, self.workspace)

    @property
    def total(self) -> float:
        return sum(part.value for part in self.parts)


@dataclass(frozen=True, slots=True)
class Row:
    """A possible way, with its numbers; memory and traffic are of one GPU."""

    way: Way
    replicas: int  # shares that a batch is split into
    share: int  # samples of a step per replica
    accumulate: int  # micro-batches of a share
    micro: int  # samples of a micro-batch
    memory: Memory
    fits: bool
    bus: Figure  # bytes that a GPU sends per step
    wire_seconds: Figure
    exposed: Figure  # seconds of communication not hidden behind compute
    step: Figure  # seconds, including exposed communication
    speedup: Figure  # over one GPU
    speedup_unhidden: Figure  # the same if no communication were hidden behind the backward
    efficiency: Figure  # speedup divided by the number of GPUs


@dataclass(frozen=True, slots=True)
class Refused:
    """A way that is not possible, or that `train` does not support."""

    way: Way
    why: str
    row: Row | None = None  # its estimate, where one can be made


@dataclass(frozen=True, slots=True)
class Scaled:
    """The chosen way with a different number of GPUs, and the same batch per GPU."""

    gpus: int
    batch: int
    memory: float
    wire_seconds: float
    speedup: float
    efficiency: float


@dataclass(frozen=True, slots=True)
class Plan:
    subject: str
    facts: ModelFacts
    gpus: int
    memory: float  # bytes of one GPU
    bandwidth: float  # bytes per second that a GPU can send inside a node
    between: float  # and to other nodes
    node: int  # GPUs of one node
    batch: int
    accumulate: int
    precision: str
    optimizer: str
    rows: tuple[Row, ...]
    refused: tuple[Refused, ...]
    unsupported: tuple[Refused, ...]  # possible, but `train` does not run them: never recommended
    chosen: int | None  # index of the chosen row; None: no way fits
    best: tuple[int, ...]  # indices of the fastest rows that fit, the chosen one first
    commands: tuple[str, ...]  # what to type, for each row
    reasons: tuple[str, ...]
    assumed: tuple[str, ...]
    scaling: tuple[Scaled, ...] = ()

    @property
    def recommended(self) -> Row | None:
        return None if self.chosen is None else self.rows[self.chosen]

    def plain(self) -> dict[str, Any]:
        made = asdict(self)
        for row, plain, command in zip(self.rows, made["rows"], self.commands, strict=True):
            plain["name"], plain["command"] = row.way.name, command
            plain["memory"]["total"] = row.memory.total
        for name in ("refused", "unsupported"):
            for each, plain in zip(getattr(self, name), made[name], strict=True):
                plain["name"] = each.way.name
        best, at = self.recommended, self.chosen
        chosen = None
        if best is not None and at is not None:
            chosen = {"way": best.way.name, "command": self.commands[at], "speedup": best.speedup.value}
        return {**made, "recommended": chosen}
