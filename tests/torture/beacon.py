"""One byte that a child shows and its parent sees: what the run is doing right now."""

from __future__ import annotations

import mmap
from enum import IntEnum
from typing import final

from trueloop.hook import Hook, Start

__all__ = ["Beacon", "Phase"]


class Phase(IntEnum):
    STARTING = 0
    """Assembling, reading a checkpoint."""
    TRAINING = 1
    EVALUATING = 2


@final
class Beacon(Hook):
    """Memory that parent and children share. As a hook, it shows that the training begins."""

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)

    def show(self, phase: Phase) -> None:
        self._byte[0] = phase

    def seen(self) -> Phase:
        return Phase(self._byte[0])

    def started(self, start: Start) -> None:
        self.show(Phase.TRAINING)
