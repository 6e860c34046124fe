"""Work that is recorded once and replayed: by CUDA graphs, or, without such a device, by repeating it (the fake)."""

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final

import torch

__all__ = ["CudaGraphRecorder", "GraphRecorder", "RepeatRecorder", "Work"]

Work = Callable[[], None]  # Reads and writes tensors with fixed addresses only


class GraphRecorder(ABC):
    """Makes a function that replays work with what its tensors hold by then."""

    @abstractmethod
    def warm_up(self, work: Work) -> None:
        """Run it once, so that libraries and compilers are initialized."""

    @abstractmethod
    def record(self, work: Work) -> Work:
        """The function that replays it."""


@final
class CudaGraphRecorder(GraphRecorder):
    """All recordings share one memory pool: they are replayed one after the other."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._pool: Any = None

    def warm_up(self, work: Work) -> None:
        # On a side stream, since recordings do not run on the default stream either.
        side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            work()
        torch.cuda.current_stream(self.device).wait_stream(side)

    def record(self, work: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        try:
            # thread_local: a loader's thread that pins memory meanwhile would invalidate the recording.
            with _garbage_kept(), torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                work()
        except RuntimeError:
            # A failed recording leaves the device's random generator in capture mode, which refuses every later draw.
            generator = torch.cuda.default_generators[self.device.index or 0]
            generator.graphsafe_set_state(generator.clone_state())
            raise
        self._pool = self._pool or graph.pool()
        replay: Work = graph.replay
        return replay


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Garbage of an earlier run (its graphs, events, pinned memory) that is collected during a recording invalidates
    it: such calls are forbidden then."""
    gc.collect()
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@final
class RepeatRecorder(GraphRecorder):
    """Records nothing and repeats the work each time: the same numbers, at the speed of Python."""

    def warm_up(self, work: Work) -> None:
        work()

    def record(self, work: Work) -> Work:
        return work
