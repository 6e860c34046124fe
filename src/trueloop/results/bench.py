"""How fast the forms of a model are, side by side: latency and throughput for each size of batch. No torch here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Bench", "Form", "Pace", "percentile"]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of all values does not exceed: one that was measured, and none between
    two."""
    if not values:
        raise ValueError("no values, no percentile")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True)
class Pace:
    """One form with one size of batch. Times are seconds of a call."""

    batch: int
    calls: int
    p50: float
    p95: float
    p99: float
    per_second: float
    """Samples per second, over all calls."""

    @classmethod
    def of(cls, batch: int, seconds: Sequence[float]) -> Pace:
        p50, p95, p99 = (percentile(seconds, share) for share in (0.50, 0.95, 0.99))
        return cls(batch, len(seconds), p50, p95, p99, batch * len(seconds) / math.fsum(seconds))


@dataclass(frozen=True, slots=True)
class Form:
    """The model as one runtime has it."""

    name: str
    """eager, compiled, onnx, int8-static-onnx ..."""
    runtime: str
    """onnxruntime 1.20.1."""
    bytes: int
    """Of the model's file; 0: it is none."""
    paces: tuple[Pace, ...] = ()
    """By batch; fewer, if it failed."""
    opened: float = 0.0
    """Seconds from the start of its process until it had answered once: loading, compiling, the first call."""
    failed: str = ""
    """Why it has no more numbers; empty: it has all."""

    def pace(self, batch: int) -> Pace | None:
        return next((pace for pace in self.paces if pace.batch == batch), None)


@dataclass(frozen=True, slots=True)
class Bench:
    """All forms, measured in one go and in turns."""

    forms: tuple[Form, ...]
    batches: tuple[int, ...]
    machine: Mapping[str, Any]
    """Its processor, cores, threads in use, versions; device: where the forms ran, cpu or cuda:0 (the GPU's name)."""
    seconds: float
    """That each form was measured, for each batch."""
    rounds: int
    notes: tuple[str, ...] = field(default=())

    @property
    def how(self) -> tuple[str, ...]:
        """What the numbers are of, in sentences."""
        turns = f"{self.seconds:g} s for each form and batch, in {self.rounds} interleaved rounds after a warm-up"
        turns += "; each form in its own process"
        device = self.machine.get("device", "cpu")
        if device == "cpu":
            return (turns,)
        copies = "a call includes both copies, host to device and back"
        return turns, f"All on {device}, in fp32 with TF32 off; {copies}"

    def times(self, form: Form, batch: int) -> float | None:
        """How many times as fast as the first form that has numbers for this batch, by the medians."""
        pace = form.pace(batch)
        first = next((other.pace(batch) for other in self.forms if other.pace(batch)), None)
        return None if pace is None or first is None else first.p50 / pace.p50

    def plain(self) -> dict[str, Any]:
        return asdict(self)
