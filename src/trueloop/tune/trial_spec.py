"""What a trial process is started with: plain values, sent as one line of JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["TrialSpec"]


@dataclass(frozen=True, slots=True)
class TrialSpec:
    word: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    data: str | None = None
    download: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)
    reference: Mapping[str, Any] = field(default_factory=dict)  # Changes that make the recipe the reference
    log_every: int = 0  # Steps between two rows of metrics; 0: calibrate it
    fraction: float = 1.0  # Share of the CUDA device's memory that it may use
