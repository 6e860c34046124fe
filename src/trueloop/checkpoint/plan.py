"""What to keep and what to remove: pure decisions about checkpoints, as values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["name_of", "step_of", "superfluous"]

_NAME: Final = re.compile(r"step-(\d{8,})")


def name_of(step: int) -> str:
    """Eight digits, so that sorting by name is sorting by step."""
    return f"step-{step:08d}"


def step_of(name: str) -> int | None:
    """None: no checkpoint's name."""
    fits = _NAME.fullmatch(name)
    return int(fits[1]) if fits else None


def superfluous(names: Iterable[str], keep: int, written: str, best: str | None) -> list[str]:
    """Which to remove so that the last `keep` and the best stay, `written` being the newest.

    Those of later steps are not counted: they are damaged ones that a resumed run has passed over, and must not push
    out whole ones.
    """
    newest = step_of(written) or 0
    steps = {name: step for name in names if (step := step_of(name)) is not None and step <= newest}
    ordered = sorted(steps, key=lambda name: steps[name])
    return [name for name in ordered[: max(0, len(ordered) - max(1, keep))] if name != best]
