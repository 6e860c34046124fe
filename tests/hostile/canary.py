"""What a hostile file would do if anything executed it: leave a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.canary),)


def code_of(canary: Path) -> str:
    """The same as Python source."""
    return f"__import__('os').mkdir({str(canary)!r})"
