"""Work that is recorded once and played again: by CUDA graphs, or, where there is no such device, by doing it again
(the fake)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

import torch

__all__ = ["CudaGraphRecorder", "GraphRecorder", "RepeatRecorder"]

Work = Callable[[], None]
"""Reads tensors that stay where they are, and writes such tensors."""


class GraphRecorder(ABC):
    """Makes something that plays work again, with what its tensors hold by then."""

    @abstractmethod
    def warm_up(self, work: Work) -> None:
        """Do it once, so that whatever libraries and compilers prepare is prepared."""

    @abstractmethod
    def record(self, work: Work) -> Work:
        """What plays it."""


@final
class CudaGraphRecorder(GraphRecorder):
    """All recordings share one pool of memory: they are played one after the other."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._pool: Any = None

    def warm_up(self, work: Work) -> None:
        # On a stream of its own: what is recorded later runs on another stream than the default one, too.
        apart = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        apart.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(apart):
            work()
        torch.cuda.current_stream(self.device).wait_stream(apart)

    def record(self, work: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._pool):
                work()
        except RuntimeError:
            self._free_the_draws()
            raise
        self._pool = self._pool or graph.pool()
        play: Work = graph.replay
        return play

    def _free_the_draws(self) -> None:
        """A recording that broke off leaves the device's random generator waiting for its end: every later draw would
        be refused."""
        generator = torch.cuda.default_generators[self.device.index or 0]
        generator.graphsafe_set_state(generator.clone_state())


@final
class RepeatRecorder(GraphRecorder):
    """Nothing is recorded: the work is done anew each time. The same numbers, at the pace of Python."""

    def warm_up(self, work: Work) -> None:
        work()

    def record(self, work: Work) -> Work:
        return work
