"""Several ranks: what each of them did, so that one can compare."""

from __future__ import annotations

__all__: list[str] = []
