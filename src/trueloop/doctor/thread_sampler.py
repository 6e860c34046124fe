"""Samples a thread from a second thread: the user's lines on its stack, whether it is loading data, since when it makes
no progress.

Progress is another instruction, collective, sample or batch; while a batch is fetched, also any CPU time or reads of
this thread or of the worker processes.
"""

import os
import sys
import threading
import time
from types import FrameType
from typing import Final, final

from trueloop.doctor.process import Work, has_worked, state_of, work_of
from trueloop.doctor.rank_status import RankStatus
from trueloop.event import Place
from trueloop.taps.collective_log import STACK
from trueloop.taps.place import is_users, outer_frames, place_in
from trueloop.torch_private.dataloader import PendingBatch, pending_batch

__all__ = ["ThreadSampler"]

_SOURCES: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data") + os.sep
_STATES: Final = {"S": "asleep", "D": "waiting for a disk", "T": "stopped", "R": "running", "Z": "dead", "": "gone"}


@final
class ThreadSampler:
    """Samples the thread that creates it, from another thread."""

    def __init__(self) -> None:
        self._thread, self._native = threading.get_ident(), threading.get_native_id()
        self._seen: object = None
        self._work: dict[int, Work | None] = {}
        self._since = self._sampled = time.monotonic()

    def sample(self, written: int, longest: float) -> RankStatus:
        """`written`: collectives called so far. After a gap of more than `longest` seconds this process was itself
        stopped: start again."""
        now = time.monotonic()
        frames = list(outer_frames(sys._current_frames().get(self._thread)))
        innermost = (id(frames[0]), frames[0].f_lasti) if frames else (0, -1)
        batch, within = _batch(frames)
        worked = batch is not None and self._has_worked(batch.workers)
        waits = batch is not None and batch.workers  # it polls them
        seen = (written, *(() if waits else innermost), *((batch.loader, batch.number, *within) if batch else ()))
        if seen != self._seen or worked or now - self._sampled > longest:
            self._seen, self._since = seen, now
        self._sampled = now
        places = tuple(place_in(frame) for frame in frames if is_users(frame.f_code.co_filename))[:STACK]
        if batch is None or None in self._work.values():  # without /proc, nobody knows whether a worker works
            return RankStatus(now, self._since, "elsewhere", places, "", os.getpid())
        by = ", ".join(f"{worker} ({_STATES.get(state_of(worker), 'running')})" for worker in batch.workers)
        samples = _samples(batch.dataset)
        first = _getitem_place(samples) if batch.workers else None  # the worker's own line is not visible from here
        fetching = type(samples).__name__ + (f", by worker process {by}" if by else "")
        return RankStatus(now, self._since, "loading", (first, *places) if first else places, fetching, os.getpid())

    def excuse(self, seconds: float) -> None:
        """The sampling thread itself was busy for this long: the process was not stopped."""
        self._sampled += seconds

    def _has_worked(self, workers: tuple[int, ...]) -> bool:
        """Did this thread, or a process that it waits for, do any work?"""
        before = self._work
        self._work = {0: work_of(os.getpid(), self._native), **{worker: work_of(worker) for worker in workers}}
        return any(has_worked(before.get(who), work) for who, work in self._work.items())


def _batch(frames: list[FrameType]) -> tuple[PendingBatch | None, tuple[int, ...]]:
    """The batch that a loader or a trueloop source is fetching, if any; and the integer arguments of the user's
    functions below it: `index` of a dataset's __getitem__ distinguishes one sample from the next."""
    for find in (pending_batch, _own_fetch):
        for depth, frame in enumerate(frames):
            if (batch := find(frame)) is not None:
                users = [inner for inner in frames[:depth] if is_users(inner.f_code.co_filename)]
                called = [(inner.f_locals, inner.f_code.co_varnames[: inner.f_code.co_argcount]) for inner in users]
                return batch, tuple(
                    value for names, wanted in called for name in wanted if isinstance(value := names.get(name), int)
                )
    return None, ()


def _own_fetch(frame: FrameType) -> PendingBatch | None:
    """`trueloop train` fetches without a loader in its preflight, and when the data are in memory."""
    if frame.f_code.co_name != "fetch" or not frame.f_code.co_filename.startswith(_SOURCES):
        return None
    return PendingBatch(id(frame), 0, frame.f_locals.get("self"), ())


def _samples(dataset: object) -> object:
    """The innermost dataset: inside a Subset, or inside a trueloop source."""
    for name in ("dataset", "source", "samples"):
        inner = getattr(dataset, name, None)
        if inner is not None and not isinstance(inner, (list, tuple)):
            return _samples(inner)
    return dataset


def _getitem_place(dataset: object) -> Place | None:
    """The line where the user's dataset returns a sample."""
    for name in ("__getitem__", "__getitems__", "__iter__"):
        code = getattr(getattr(type(dataset), name, None), "__code__", None)
        if code is not None and is_users(code.co_filename):
            return Place(os.path.abspath(code.co_filename), code.co_firstlineno, code.co_qualname)
    return None
