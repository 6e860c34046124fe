"""Passes over data, and what came out of them."""

from __future__ import annotations

from dataclasses import dataclass

from trueloop.event.base import Event

__all__ = ["EpochStarted"]


@dataclass(frozen=True, slots=True)
class EpochStarted(Event):
    loader: int
    """Which loader, counted in the order of first use."""
    batches: int | None
    """How many batches it says it has."""
    passes: int
    """How many times it has been started, this one included."""
