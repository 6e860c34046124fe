"""Names of checkpoints, and which old ones to remove. Pure functions."""

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["name_of", "obsolete", "step_of"]

_NAME: Final = re.compile(r"step-(\d{8,})")


def name_of(step: int) -> str:
    """Eight digits, so that sorting by name is sorting by step."""
    return f"step-{step:08d}"


def step_of(name: str) -> int | None:
    """None: not the name of a checkpoint."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def obsolete(names: Iterable[str], keep: int, written: str, best: str | None) -> list[str]:
    """Names to remove. The last `keep` and the best stay; `written` is the newest. Later steps do not count: they are
    damaged checkpoints that a resumed run skipped, and must not displace valid ones."""
    newest = step_of(written) or 0
    steps = {name: step for name in names if (step := step_of(name)) is not None and step <= newest}
    ordered = sorted(steps, key=lambda name: steps[name])
    return [name for name in ordered[: max(0, len(ordered) - max(1, keep))] if name != best]
