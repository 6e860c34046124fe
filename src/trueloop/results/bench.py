"""The result of `bench`: latency and throughput of each form of a model for each batch size. No torch here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Bench", "Form", "Pace", "percentile"]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest measured value that this share of all values does not exceed; never interpolated."""
    if not values:
        raise ValueError("a percentile needs at least one value")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True, slots=True)
class Pace:
    """One form at one batch size. Times are seconds of a call."""

    batch: int
    calls: int
    p50: float
    p95: float
    p99: float
    per_second: float  # samples per second, over all calls

    @classmethod
    def of(cls, batch: int, seconds: Sequence[float]) -> Pace:
        p50, p95, p99 = (percentile(seconds, share) for share in (0.50, 0.95, 0.99))
        return cls(batch, len(seconds), p50, p95, p99, batch * len(seconds) / math.fsum(seconds))


@dataclass(frozen=True, slots=True)
class Form:
    """The model in one runtime."""

    name: str  # eager, compiled, onnx, int8-static-onnx
    runtime: str  # onnxruntime 1.20.1
    bytes: int  # of the model's file; 0: no file
    paces: tuple[Pace, ...] = ()  # by batch size; fewer if it failed
    opened: float = 0.0  # seconds from the start of its process to its first answer: loading, compiling, the first call
    failed: str = ""  # why numbers are missing; empty: none are

    def pace(self, batch: int) -> Pace | None:
        return next((pace for pace in self.paces if pace.batch == batch), None)


@dataclass(frozen=True, slots=True)
class Bench:
    """All forms, measured in interleaved rounds."""

    forms: tuple[Form, ...]
    batches: tuple[int, ...]
    machine: Mapping[str, Any]  # processor, cores, threads in use, versions; device: cpu or cuda:0 (the GPU's name)
    seconds: float  # per form and batch size
    rounds: int
    notes: tuple[str, ...] = ()

    @property
    def how(self) -> tuple[str, ...]:
        """How the numbers were measured, in sentences."""
        turns = f"{self.seconds:g} s for each form and batch, in {self.rounds} interleaved rounds after a warm-up"
        turns += "; each form in its own process"
        device = self.machine.get("device", "cpu")
        if device == "cpu":
            return (turns,)
        copies = "a call includes both copies, host to device and back"
        return turns, f"All on {device}, in fp32 with TF32 off; {copies}"

    def times(self, form: Form, batch: int) -> float | None:
        """Speed relative to the first form with numbers for this batch size, by the medians."""
        pace = form.pace(batch)
        first = next((other.pace(batch) for other in self.forms if other.pace(batch)), None)
        return None if pace is None or first is None else first.p50 / pace.p50

    def plain(self) -> dict[str, Any]:
        return asdict(self)
