"""Number formats: autocast regions, gradient scalers, weights in half precision."""

from __future__ import annotations

__all__: list[str] = []
