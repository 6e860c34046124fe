"""What a trial is told when it starts: plain values, so that they can be written as one line of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Spec"]


@dataclass(frozen=True, slots=True)
class Spec:
    """What to try."""

    word: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    data: str | None = None
    download: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)
    reference: Mapping[str, Any] = field(default_factory=dict)
    """What makes the recipe the reference."""
    log_every: int = 0
    """Steps between two lines of metrics; 0: find out how many are worth it."""
    fraction: float = 1.0
    """Of the CUDA device's memory that it may take."""
