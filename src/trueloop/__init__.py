"""trueloop makes a PyTorch training run true, fast and shippable, and shows the evidence.

The names are loaded when they are first used: `trueloop explain` must not wait for torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trueloop.doctor.watch import Watch as Watch
    from trueloop.doctor.watch import watch as watch
    from trueloop.finding import Finding as Finding
    from trueloop.finding import Severity as Severity

__all__ = ["Finding", "Severity", "Watch", "watch"]

__version__: Final = "0.1.0"

_HOME: Final = {
    "Finding": "trueloop.finding",
    "Severity": "trueloop.finding",
    "Watch": "trueloop.doctor.watch",
    "watch": "trueloop.doctor.watch",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'trueloop' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
