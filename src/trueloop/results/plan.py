"""What `trueloop plan` says: the facts of a model, the ways to spread its training over GPUs, and which of them is
best. No torch here.

Each number is a `Figure`: it says whether it was computed, measured or assumed, and how.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["Basis", "Figure", "Kept", "Memory", "ModelFacts", "Plan", "Refused", "Row", "Scaled", "Way"]

Basis = Literal["computed", "measured", "assumed"]
Kind = Literal["none", "ddp", "fsdp", "tp", "fsdp+tp"]


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, and where it is from."""

    value: float
    basis: Basis
    how: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes that a forward keeps for its backward: for each sample, unless said otherwise."""

    per_sample: float
    fixed: float = 0.0
    """However many samples: copies of weights in the precision of autocast."""
    in_blocks: float = 0.0
    """Of `per_sample`, what blocks keep."""
    largest_block: float = 0.0
    """Of one block: what is there again for a moment when blocks are computed again."""
    block_inputs: float = 0.0
    """What enters the blocks: all that is kept of them when they are computed again."""
    split: float = 0.0
    """Of `in_blocks`, what tensor parallelism splits: all that is not as wide as the stream between blocks."""
    largest_tensor: float = 0.0
    """The largest that the forward makes: its gradient is made beside it."""
    scores: float = 0.0
    """Of a fused linear + cross entropy: the scores, if they were held all at once."""
    scores_most: float = 0.0
    """Not for each sample: as many bytes of scores as it holds at once."""
    scores_fixed: float = 0.0
    """Not for each sample: its copy of the weight."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Of a recipe's model, whatever it will run on."""

    name: str
    numbers: int
    """Of all parameters."""
    learning: int
    """Of those that have gradients."""
    parameter_bytes: int
    gradient_bytes: int
    state_bytes: int
    """Of the optimizer, and of a moving average of the weights."""
    buffer_bytes: int
    blocks: int
    """Repeated blocks: what is sharded, and computed again, as one."""
    largest_block: int
    """Numbers."""
    outside: int
    """Numbers that are in no block."""
    splittable: int
    """Numbers in matrices of blocks, which tensor parallelism splits."""
    stream: float
    """Numbers of what enters a block, for each sample, on average."""
    kept: Kept
    flops: float
    """For each sample: forward and backward."""
    flops_forward: float
    flops_blocks: float
    """Of the forward, those of blocks."""
    how: str
    """How activations and FLOPs were counted."""
    state_how: str = ""
    """How the optimizer's state was."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to spread a training."""

    kind: Kind
    recompute: bool = False
    tensor: int = 1
    """GPUs that share each layer."""

    @property
    def name(self) -> str:
        shared = f" {self.tensor}" if self.tensor > 1 else ""
        return (
            f"{'one GPU' if self.kind == 'none' else self.kind}{shared}{' + checkpointing' if self.recompute else ''}"
        )

    @property
    def sharded(self) -> bool:
        return self.kind in ("fsdp", "fsdp+tp")

    @property
    def how(self) -> str:
        """What to add to `trueloop train RECIPE` for it, or that nothing does it yet."""
        if self.kind not in ("none", "ddp"):
            return "trueloop train does not spread a model so yet"
        words = ["--nproc gpu"] if self.kind == "ddp" else []
        return " ".join([*words, *(["--set activation_checkpointing=true"] if self.recompute else [])])


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
    """A way that can be gone, with its numbers; memory and traffic are those of one GPU."""

    way: Way
    replicas: int
    """How many shares a batch is split into."""
    share: int
    """Samples of a step that one of them has."""
    memory: Memory
    fits: bool
    bus: Figure
    """Bytes that a GPU sends in a step."""
    wire_seconds: Figure
    exposed: Figure
    """Seconds of them in which it computes nothing."""
    step: Figure
    """Seconds, with what is exposed."""
    speedup: Figure
    """Over one GPU."""
    speedup_unhidden: Figure
    """The same if nothing of the communication were hidden behind the backward."""
    efficiency: Figure
    """The speed-up as a share of the number of GPUs."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A way that cannot be gone."""

    way: Way
    why: str


@dataclass(frozen=True, slots=True)
class Scaled:
    """The chosen way with another number of GPUs, and the same share of a batch on each."""

    gpus: int
    batch: int
    memory: float
    wire_seconds: float
    speedup: float
    efficiency: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The decision, and all that led to it."""

    subject: str
    facts: ModelFacts
    gpus: int
    memory: float
    """Bytes of one GPU."""
    bandwidth: float
    """Bytes per second that a GPU sends."""
    batch: int
    accumulate: int
    precision: str
    optimizer: str
    rows: tuple[Row, ...]
    refused: tuple[Refused, ...]
    chosen: int | None
    """Which of the rows; None: no way fits."""
    reasons: tuple[str, ...]
    assumed: tuple[str, ...]
    scaling: tuple[Scaled, ...] = ()

    @property
    def recommended(self) -> Row | None:
        return None if self.chosen is None else self.rows[self.chosen]

    def plain(self) -> dict[str, Any]:
        made = asdict(self)
        for row, told in zip(self.rows, made["rows"], strict=True):
            told["name"] = row.way.name
            told["memory"]["total"] = row.memory.total
        for each, told in zip(self.refused, made["refused"], strict=True):
            told["name"] = each.way.name
        best = self.recommended
        chosen = None if best is None else {"way": best.way.name, "how": best.way.how, "speedup": best.speedup.value}
        return {**made, "recommended": chosen}
