"""Waiting for a condition instead of for a time, so that no test depends on a quiet machine."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

__all__ = ["Clock", "until"]

_monotonic, _sleep = time.monotonic, time.sleep


def until(condition: Callable[[], object], what: str, seconds: float = 120.0) -> None:
    """Return as soon as the condition holds; fail, naming it, after a time that no busy machine needs."""
    end = _monotonic() + seconds
    while not condition():
        assert _monotonic() < end, f"not after {seconds:.0f} s: {what}"
        _sleep(0.01)


class Clock:
    """`time.monotonic` stands still until the test moves it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = _monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def move(self, seconds: float) -> None:
        self.now += seconds
