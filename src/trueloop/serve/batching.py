"""Samples of many callers computed together: one thread owns the model, and what arrives within a few milliseconds is
one batch.

Only samples of the same shape share a batch, so that nothing is padded and who else is asking never changes an answer's
meaning.
"""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from trueloop.errors import Misuse
from trueloop.export.exporter import Array, Runner
from trueloop.results.artifact import Artifact, Port
from trueloop.serve.limits import RETRY, Limits, Refused
from trueloop.serve.pace import Pace

__all__ = ["Batcher", "Sample", "blank"]

Sample = tuple[Array, ...]
"""One array per input of the artifact, without the dimension of the batch."""
Shapes = tuple[tuple[int, ...], ...]
BLANK_LENGTH: Final = 8
"""Of a dimension that is free, in the sample that warms the model up."""
WARM: Final = 3
"""Times that each size of batch is computed before anybody is answered: the first one is always slow, the quickest is
what it takes."""
SPARE: Final = 0.8
"""Of the limit on latency, what waiting and computing may take: the rest is for reading the request and writing the
answer."""


@dataclass(slots=True)
class Asked:
    """A request: who waits for it, and what is there already."""

    answer: asyncio.Future[list[Sample]]
    outputs: list[Any]
    missing: int


@dataclass(slots=True)
class Waiting:
    """A sample of a request."""

    sample: Sample
    shapes: Shapes
    asked: Asked
    at: int
    since: float


def blank(port: Port) -> Array:
    """A sample of zeros, which every model takes."""
    sizes = [
        min(BLANK_LENGTH, port.limit(at) or BLANK_LENGTH) if size is None else size
        for at, size in enumerate(port.shape)
    ]
    return np.zeros(sizes[1:], port.dtype)


@final
class Batcher:
    """`start()`, `submit(samples)` from the event loop, `stop()`."""

    def __init__(
        self,
        artifact: Artifact,
        open_runner: Callable[[], Runner],
        limits: Limits,
        computed: Callable[[int, float], None],
    ) -> None:
        self.artifact, self.limits = artifact, limits
        self.open_runner = open_runner
        self.computed = computed
        """Told after each batch: how many samples, how many seconds."""
        most = artifact.inputs[0].limit(0)
        self.batch = min(limits.batch, most) if most else limits.batch
        self.pace = Pace()
        self.limited = limits.latency < math.inf
        self.enough = self.batch
        """Samples for which the model's thread is to be woken."""
        self.ready = False
        """Is the model loaded, and has it computed once?"""
        self.failure: BaseException | None = None
        """Why there will be no model."""
        self.waiting: deque[Waiting] = deque()
        self.shapes: Counter[Shapes] = Counter()
        """Of those that wait, where there is a limit on latency."""
        self.busy_until = 0.0
        """When what is being computed now should be done; 0: nothing is."""
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
        """Their outputs. Raises Refused: 429 too many wait already, 503 it takes too long or is not ready, 422 the
        model cannot."""
        if not self.ready:
            raise Refused(503, "The model is still being loaded: try again in a second.", RETRY)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Sample]] = loop.create_future()
        self._queue(samples, Asked(answer, [None] * len(samples), len(samples)))
        clock = loop.call_later(self.limits.timeout, self._too_late, answer)
        try:
            return await answer
        finally:
            clock.cancel()
            if not answer.done():
                answer.cancel()  # nobody waits for it any longer: it is not computed
            elif not answer.cancelled():
                answer.exception()  # seen, though the caller has gone

    def _too_late(self, answer: asyncio.Future[list[Sample]]) -> None:
        sentence = f"The model did not answer within {self.limits.timeout:g} seconds: try again later."
        _refuse(answer, Refused(503, sentence, RETRY))

    def _queue(self, samples: Sequence[Sample], asked: Asked) -> None:
        now = time.perf_counter()
        waiting = [
            Waiting(sample, tuple([array.shape for array in sample]), asked, at, now)
            for at, sample in enumerate(samples)
        ]
        with self.changed:
            before = len(self.waiting)
            if before + len(waiting) > self.limits.queue:
                raise Refused(429, "The queue is full: try again in a second.", RETRY)
            if self.limited:
                self._admit(waiting, now)
            self.waiting.extend(waiting)
            # The model's thread sleeps until there is something, or enough for a batch: whatever comes in between need
            # not wake it.
            if not before or before < self.enough <= len(self.waiting):
                self.changed.notify()

    # -- the limit on latency --

    def _admit(self, waiting: Sequence[Waiting], now: float) -> None:
        """Raises Refused if those before it would keep it too long. Who comes when nobody is there is always taken."""
        shapes = self.shapes + Counter(each.shapes for each in waiting)
        expected = max(0.0, self.busy_until - now) + sum(map(self._seconds, shapes, shapes.values()))
        if (self.busy_until or self.waiting) and expected > self.limits.latency * SPARE:
            later = max(1, math.ceil(expected))
            limit = f"this server's limit is {self.limits.latency * 1e3:g} ms: try again in {later} s."
            raise Refused(
                429, f"The answer would take about {expected * 1e3:.0f} ms, and {limit}", {"Retry-After": str(later)}
            )
        self.shapes = shapes

    def _seconds(self, shapes: Shapes, count: int) -> float:
        """For so many samples of these shapes."""
        numbers, most = _numbers(shapes), self._most(shapes)
        whole, rest = divmod(count, most)
        return whole * self.pace.seconds(most * numbers) + (self.pace.seconds(rest * numbers) if rest else 0.0)

    def _most(self, shapes: Shapes) -> int:
        """Samples of a batch: no more than can be computed twice within the limit, for who comes now has one running
        before it."""
        most = self.batch
        while most > 1 and 2 * self.pace.seconds(most * _numbers(shapes)) > self.limits.latency * SPARE:
            most = (most + 1) // 2
        return most

    # -- in the model's thread --

    def _work(self) -> None:
        assert self.loop is not None
        try:
            runner = self.open_runner()
            self._warm(runner)
            self.ready = True
        except BaseException as error:  # noqa: BLE001 - told to the main thread, which ends the process with a sentence
            self.failure = error
            self._tell(self.finished)
            return
        self._tell(self.finished)
        while batch := self._next():
            self._compute(runner, batch)

    def _warm(self, runner: Runner) -> None:
        samples = [blank(port) for port in self.artifact.inputs]
        numbers = _numbers(tuple(sample.shape for sample in samples))
        for size in sorted({1, self.batch}):
            inputs = [np.stack([sample] * size) for sample in samples]
            quickest = min(_timed(runner, inputs) for _ in range(WARM if self.limited else 1))
            self.pace.learn(size * numbers, quickest)
            if size == 1 and quickest > self.limits.latency:
                limit = f"--latency {self.limits.latency * 1e3:g}ms"
                takes = f"the model takes {quickest * 1e3:.0f} ms for one sample alone"
                raise Misuse(
                    f"{limit} cannot be kept: {takes}. Nothing was served: allow more, or export a smaller model."
                )

    def _next(self) -> list[Waiting]:
        """The next batch: as soon as it is full, or its first sample has waited long enough. Empty: the end."""
        with self.changed:
            self.busy_until = 0.0
            while True:
                while not self.waiting and not self.stopping:
                    self.changed.wait()
                if not self.waiting:
                    return []
                until, self.enough = self._patience(self.waiting[0])
                while (
                    len(self.waiting) < self.enough and not self.stopping and (left := until - time.perf_counter()) > 0
                ):
                    self.changed.wait(left)
                if batch := self._alike(self.enough):
                    return batch

    def _patience(self, first: Waiting) -> tuple[float, int]:
        """Until when others are waited for, and how many they may be: a limit on latency leaves less of both."""
        if not self.limited:
            return first.since + self.limits.wait, self.batch
        most = self._most(first.shapes)
        spare = self.limits.latency * SPARE - self.pace.seconds(most * _numbers(first.shapes))
        return first.since + min(self.limits.wait, max(0.0, spare)), most

    def _alike(self, most: int) -> list[Waiting]:
        """From the front of the queue, those of the first one's shape; who has gone is dropped. The others keep their
        places."""
        batch: list[Waiting] = []
        kept: list[Waiting] = []
        oldest = time.perf_counter() - self.limits.latency
        while self.waiting and len(batch) < most:
            each = self.waiting.popleft()
            if each.asked.answer.done():
                continue
            if each.since < oldest:
                self._overdue(each)
                continue
            (batch if not batch or each.shapes == batch[0].shapes else kept).append(each)
        self.waiting.extendleft(reversed(kept))
        if self.limited:
            self.shapes = Counter(each.shapes for each in self.waiting)
        if self.limited and batch:
            self.busy_until = time.perf_counter() + self.pace.seconds(len(batch) * _numbers(batch[0].shapes))
        return batch

    def _overdue(self, each: Waiting) -> None:
        """The queue was slower than expected: to compute it now would make others late as well."""
        refused = Refused(
            429,
            f"It has waited for the {self.limits.latency * 1e3:g} ms that are this server's limit: try again.",
            RETRY,
        )
        self._tell(lambda: _refuse(each.asked.answer, refused))

    def _compute(self, runner: Runner, batch: list[Waiting]) -> None:
        begun = time.perf_counter()
        try:
            outputs = runner.run([np.stack(column) for column in zip(*[each.sample for each in batch], strict=True)])
            answers = _rows(outputs, len(batch))
        except Exception:  # noqa: BLE001 - whatever a model raises, the callers get an answer and the server goes on
            if len(batch) > 1:
                for each in batch:
                    self._compute(runner, [each])  # one of them is at fault: the others get their answers
            else:
                self._blame(runner, batch[0])
            return
        seconds = time.perf_counter() - begun
        if self.limited:
            with self.changed:
                self.pace.learn(len(batch) * _numbers(batch[0].shapes), seconds)
        self.computed(len(batch), seconds)
        self._tell(lambda: _hand_over(batch, answers))

    def _blame(self, runner: Runner, one: Waiting) -> None:
        """Is it this sample that the model cannot compute, or the model that is broken? A sample of zeros tells."""
        traceback.print_exc(file=sys.stderr)
        refused = Refused(422, "The model cannot compute this input: its values are of no use to it.")
        try:
            _rows(runner.run([np.zeros((1, *array.shape), array.dtype) for array in one.sample]), 1)
        except Exception:  # noqa: BLE001 - the same failure again: it is ours
            refused = Refused(500, "The model failed; the server's log says how.")
        self._tell(lambda: _refuse(one.asked.answer, refused))

    def _tell(self, what: Callable[[], None]) -> None:
        assert self.loop is not None
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(what)


def _refuse(answer: asyncio.Future[list[Sample]], refused: Refused) -> None:
    if not answer.done():
        answer.set_exception(refused)


def _rows(outputs: Sequence[Array], samples: int) -> list[Sample]:
    """Of the first output, which is the answer; others may be about the whole batch. Raises ValueError: whose row is
    whose?"""
    if np.shape(outputs[0])[:1] != (samples,):
        raise ValueError(f"the model answers {samples} samples with an array of shape {np.shape(outputs[0])}")
    return [(row,) for row in outputs[0]]


def _hand_over(batch: Sequence[Waiting], answers: Sequence[Sample]) -> None:
    for each, answer in zip(batch, answers, strict=True):
        asked = each.asked
        asked.outputs[each.at] = answer
        asked.missing -= 1
        if not asked.missing and not asked.answer.done():
            asked.answer.set_result(asked.outputs)


def _numbers(shapes: Shapes) -> int:
    """That a sample of these shapes holds."""
    return sum(map(math.prod, shapes))


def _timed(runner: Runner, inputs: Sequence[Array]) -> float:
    begun = time.perf_counter()
    runner.run(inputs)
    return time.perf_counter() - begun
