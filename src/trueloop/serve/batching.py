"""Samples of many callers computed together: one thread owns the model, and what arrives within a few milliseconds is one batch.

Only samples of the same shape share a batch, so that nothing is padded and who else is asking never changes an answer's meaning.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from trueloop.artefact import Artefact, Port
from trueloop.export.exporter import Array, Runner
from trueloop.serve.limits import RETRY, Limits, Refused

__all__ = ["Batcher", "Sample", "blank"]

Sample = tuple[Array, ...]
"""One array per input of the artefact, without the dimension of the batch."""
BLANK_LENGTH: Final = 8
"""Of a dimension that is free, in the sample that warms the model up."""


@dataclass(slots=True)
class Waiting:
    """A sample and who waits for its outputs."""

    sample: Sample
    answer: asyncio.Future[Sample]
    since: float

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(array.shape for array in self.sample)


def blank(port: Port) -> Array:
    """A sample of zeros, which every model takes."""
    sizes = [min(BLANK_LENGTH, port.limit(at) or BLANK_LENGTH) if size is None else size for at, size in enumerate(port.shape)]
    return np.zeros(sizes[1:], port.dtype)


@final
class Batcher:
    """`start()`, `submit(samples)` from the event loop, `stop()`."""

    def __init__(
        self, artefact: Artefact, open_runner: Callable[[], Runner], limits: Limits, computed: Callable[[int, float], None]
    ) -> None:
        self.artefact, self.limits = artefact, limits
        self.open_runner = open_runner
        self.computed = computed
        """Told after each batch: how many samples, how many seconds."""
        most = artefact.inputs[0].limit(0)
        self.batch = min(limits.batch, most) if most else limits.batch
        self.ready = False
        """Is the model loaded, and has it computed once?"""
        self.failure: BaseException | None = None
        """Why there will be no model."""
        self.waiting: deque[Waiting] = deque()
        self.changed = threading.Condition()
        self.stopping = False
        self.thread = threading.Thread(target=self._work, name="model", daemon=True)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.finished: Callable[[], None] = lambda: None
        """Called in the event loop when the model is ready, or will never be."""

    def start(self, finished: Callable[[], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.finished = finished
        self.thread.start()

    def stop(self) -> None:
        """What waits is still computed."""
        with self.changed:
            self.stopping = True
            self.changed.notify()

    async def submit(self, samples: Sequence[Sample]) -> list[Sample]:
        """Their outputs. Raises Refused: 429 the queue is full, 503 it takes too long or there is no model yet, 422 the model cannot."""
        if not self.ready:
            raise Refused(503, "The model is still being loaded: try again in a second.", RETRY)
        loop = asyncio.get_running_loop()
        now = time.perf_counter()
        waiting = [Waiting(sample, loop.create_future(), now) for sample in samples]
        with self.changed:
            if len(self.waiting) + len(waiting) > self.limits.queue:
                raise Refused(429, "The queue is full: try again in a second.", RETRY)
            self.waiting.extend(waiting)
            self.changed.notify()
        answers = [each.answer for each in waiting]
        try:
            async with asyncio.timeout(self.limits.timeout):
                return [await answer for answer in answers]
        except TimeoutError:
            raise Refused(503, f"The model did not answer within {self.limits.timeout:g} seconds: try again later.", RETRY) from None
        finally:
            for answer in answers:
                if not answer.done():
                    answer.cancel()  # nobody waits for it any longer: it is not computed
                elif not answer.cancelled():
                    answer.exception()  # seen, even if another sample of the same request was refused first

    # -- in the model's thread --

    def _work(self) -> None:
        assert self.loop is not None
        try:
            runner = self.open_runner()
            for size in sorted({1, self.batch}):
                runner.run([np.stack([blank(port)] * size) for port in self.artefact.inputs])
            self.ready = True
        except BaseException as error:  # noqa: BLE001 - told to the main thread, which ends the process with a sentence
            self.failure = error
            self._tell(self.finished)
            return
        self._tell(self.finished)
        while batch := self._next():
            self._compute(runner, batch)

    def _next(self) -> list[Waiting]:
        """The next batch: as soon as it is full, or its first sample has waited long enough. Empty: the end."""
        with self.changed:
            while True:
                while not self.waiting and not self.stopping:
                    self.changed.wait()
                if not self.waiting:
                    return []
                until = self.waiting[0].since + self.limits.wait
                while len(self.waiting) < self.batch and not self.stopping and (left := until - time.perf_counter()) > 0:
                    self.changed.wait(left)
                if batch := self._alike():
                    return batch

    def _alike(self) -> list[Waiting]:
        """From the front of the queue, those of the first one's shape; who has gone is dropped. The others keep their places."""
        batch: list[Waiting] = []
        kept: list[Waiting] = []
        while self.waiting and len(batch) < self.batch:
            each = self.waiting.popleft()
            if each.answer.cancelled():
                continue
            (batch if not batch or each.shapes == batch[0].shapes else kept).append(each)
        self.waiting.extendleft(reversed(kept))
        return batch

    def _compute(self, runner: Runner, batch: list[Waiting]) -> None:
        begun = time.perf_counter()
        try:
            outputs = runner.run([np.stack(column) for column in zip(*(each.sample for each in batch), strict=True)])
        except Exception:  # noqa: BLE001 - whatever a model raises, the callers get an answer and the server goes on
            if len(batch) > 1:
                for each in batch:
                    self._compute(runner, [each])  # one of them is at fault: the others get their answers
            else:
                self._blame(runner, batch[0])
            return
        self.computed(len(batch), time.perf_counter() - begun)
        answers = list(zip(*outputs, strict=True))
        self._tell(lambda: _hand_over(batch, answers))

    def _blame(self, runner: Runner, one: Waiting) -> None:
        """Is it this sample that the model cannot compute, or the model that is broken? A sample of zeros tells."""
        traceback.print_exc(file=sys.stderr)
        refused = Refused(422, "The model cannot compute this input: its values are of no use to it.")
        try:
            runner.run([np.zeros((1, *array.shape), array.dtype) for array in one.sample])
        except Exception:  # noqa: BLE001 - the same failure again: it is ours
            refused = Refused(500, "The model failed; the server's log says how.")
        self._tell(lambda: None if one.answer.done() else one.answer.set_exception(refused))

    def _tell(self, what: Callable[[], None]) -> None:
        assert self.loop is not None
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(what)


def _hand_over(batch: Sequence[Waiting], answers: Sequence[Sample]) -> None:
    for each, answer in zip(batch, answers, strict=True):
        if not each.answer.done():
            each.answer.set_result(answer)
