"""Where the time goes: waiting, copying, synchronising, compiling."""

from __future__ import annotations

__all__: list[str] = []
