"""Models on paper, for tests of plans: their facts made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trueloop.parallel.estimate import Terms
from trueloop.results.plan import Kept, ModelFacts

__all__ = ["EXAMPLE", "LARGE", "PLAIN", "facts", "terms"]


def facts(numbers: int, *, blocks: int = 0, **changes: Any) -> ModelFacts:
    """In fp32, with Adam; blocks hold nine tenths of the numbers, and of what is kept."""
    inside = numbers * 9 // 10 if blocks else 0
    kept = Kept(
        per_sample=1e8,
        fixed=0.0,
        in_blocks=9e7 if blocks else 0.0,
        largest_block=9e7 / blocks if blocks else 0.0,
        block_inputs=5e6 if blocks else 0.0,
        split=6e7 if blocks else 0.0,
        largest_tensor=2e6,
    )
    made = ModelFacts(
        name="Net",
        numbers=numbers,
        learning=numbers,
        parameter_bytes=4 * numbers,
        gradient_bytes=4 * numbers,
        state_bytes=8 * numbers,
        buffer_bytes=0,
        blocks=blocks,
        largest_block=inside // blocks if blocks else 0,
        outside=numbers - inside,
        splittable=inside,
        stream=1e6 if blocks else 0.0,
        kept=kept,
        flops=6e3 * numbers,
        flops_forward=2e3 * numbers,
        flops_blocks=1.8e3 * numbers if blocks else 0.0,
        how="made by hand",
        state_how="Adam keeps 2 numbers for each",
    )
    return replace(made, **changes)


def terms(gpus: int, **changes: Any) -> Terms:
    return replace(Terms(gpus=gpus, memory=80e9, bandwidth=600e9, batch=64), **changes)


EXAMPLE = facts(350_000_000)
"""The published worked example."""
PLAIN = facts(10_000_000)
"""Without blocks."""
LARGE = facts(7_000_000_000, blocks=32)
"""States of 112 GB: no GPU of 80 GB holds them."""
