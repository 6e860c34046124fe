"""Dynamic batching: one thread owns the model and computes samples together that arrive within a few milliseconds.

Only samples of the same shape share a batch: nothing is padded, so other requests never change an answer.
"""

import asyncio
import math
import sys
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, final

import numpy as np

from trueloop.errors import Misuse
from trueloop.export.exporter import Array, Runner
from trueloop.results.artifact import Artifact, Port
from trueloop.serve.limits import RETRY, Limits, Refused
from trueloop.serve.worker import WorkerLost

__all__ = ["BatchTimes", "Batcher", "Sample", "blank", "blank_sample"]

Sample = tuple[Array, ...]  # One array per input, without the batch dimension
Shapes = tuple[tuple[int, ...], ...]
BLANK_LENGTH: Final = 8  # Of a free dimension in the warm-up sample
WARM: Final = 3  # Warm-up calls per batch size; the fastest one counts
LOST: Final = "The model's process ended twice while it computed this request."
SPARE: Final = 0.8  # Share of the latency limit for waiting and computing; the rest is for reading and writing
WEIGHT: Final = 0.2  # Of the newest batch: follows a machine that becomes slower, forgets a single slow batch
CAUTION: Final = 3.0  # Deviations above the mean: 99 of 100 batches are faster
DECAY: Final = 0.99  # Of the estimates of larger batches with each smaller one, so that a slow size is tried again


@final
class BatchTimes:
    """Batches are grouped by their number of values, to a power of two: long texts and many images are slower."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[float, float]] = {}  # Power of two -> mean and mean deviation, in seconds

    def learn(self, values: int, seconds: float) -> None:
        power = values.bit_length()
        mean, deviation = self.known.get(power, (seconds, 0.0))
        deviation += (abs(seconds - mean) - deviation) * WEIGHT
        self.known[power] = mean + (seconds - mean) * WEIGHT, deviation
        for larger, (mean, deviation) in self.known.items():
            if larger > power:
                self.known[larger] = mean * DECAY, deviation * DECAY

    def seconds(self, values: int) -> float:
        """A cautious estimate, interpolated between known sizes; 0: nothing is known."""
        power = values.bit_length()
        below = max((other for other in self.known if other <= power), default=None)
        above = min((other for other in self.known if other >= power), default=None)
        if below is None or above is None:
            known = below if above is None else above
            return 0.0 if known is None else self._cautious(known) * max(1.0, 2.0 ** (power - known))
        if below == above:
            return self._cautious(power)
        share = (2.0**power - 2.0**below) / (2.0**above - 2.0**below)
        return self._cautious(below) * (1 - share) + self._cautious(above) * share

    def _cautious(self, power: int) -> float:
        mean, deviation = self.known[power]
        return mean + CAUTION * deviation


@dataclass(slots=True)
class Pending:
    """A request and its outputs so far."""

    answer: asyncio.Future[list[Sample]]
    outputs: list[Any]
    missing: int


@dataclass(slots=True)
class Waiting:
    """A sample in the queue."""

    sample: Sample
    shapes: Shapes
    pending: Pending
    at: int
    since: float


def blank(port: Port, lengths: Sequence[int] = ()) -> Array:
    """A sample of zeros. `lengths`: lengths that the model is known to accept."""
    length = min((each for each in lengths if each >= BLANK_LENGTH), default=max(lengths, default=BLANK_LENGTH))
    limits = (min(length, port.limit(at) or length) for at in range(len(port.shape)))
    sizes = [limit if size is None else size for size, limit in zip(port.shape, limits, strict=True)]
    return np.zeros(sizes[1:], port.dtype)


def blank_sample(artifact: Artifact) -> Sample:
    """Of a length that was verified, if any was."""
    lengths = artifact.verification.lengths if artifact.verification is not None else ()
    return tuple(blank(port, lengths) for port in artifact.inputs)


@final
class Batcher:
    """`start()`, `submit(samples)` from the event loop, `stop()`."""

    def __init__(
        self,
        artifact: Artifact,
        open_runner: Callable[[], Runner],
        limits: Limits,
        computed: Callable[[int, float], None],
        workers: int = 1,
    ) -> None:
        self.artifact, self.limits = artifact, limits
        self.open_runner = open_runner
        self.warm = blank_sample(artifact)
        self.computed = computed  # Called after each batch with its samples and seconds
        most = artifact.inputs[0].limit(0)
        self.batch = min(limits.batch, most) if most else limits.batch
        self.times = BatchTimes()
        self.limited = limits.latency < math.inf
        self.enough = self.batch  # Samples that wake the model's thread
        self.warmed = 0  # Workers that are loaded and warmed up
        self.ready = False  # All of them?
        self.failure: BaseException | None = None  # Why the model could not be loaded
        self.waiting: deque[Waiting] = deque()
        self.shapes: Counter[Shapes] = Counter()  # Of the waiting samples, if there is a latency limit
        self.busy_until = [0.0] * workers  # When each worker's batch should be done; 0: idle
        self.changed = threading.Condition()
        self.stopping = False
        works = [threading.Thread(target=self._work, args=(at,), name="model", daemon=True) for at in range(workers)]
        self.threads = works
        self.runners: list[Runner] = []
        self.loop: asyncio.AbstractEventLoop | None = None
        self.finished: Callable[[], None] = lambda: None  # Called in the event loop when the model is ready or failed

    def start(self, finished: Callable[[], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.finished = finished
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        """The queue is still computed."""
        with self.changed:
            self.stopping = True
            self.changed.notify_all()

    def join(self, seconds: float | None = None) -> None:
        """Waits for the end of the last batch; after `seconds` for no longer."""
        for thread in self.threads:
            thread.join(seconds)

    def close(self) -> None:
        """Batches that are not computed by now never will be."""
        for runner in self.runners:
            runner.close()

    async def submit(self, samples: Sequence[Sample]) -> list[Sample]:
        """Their outputs. Raises Refused: 429 overloaded, 503 not ready or too slow, 422 the model cannot compute it."""
        if not self.ready:
            raise Refused(503, "The model is still loading: try again in a second.", RETRY)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Sample]] = loop.create_future()
        self._queue(samples, Pending(answer, [None] * len(samples), len(samples)))
        clock = loop.call_later(self.limits.timeout, self._too_late, answer)
        try:
            return await answer
        except BaseException:
            self._drop(answer)
            raise
        finally:
            clock.cancel()
            if not answer.done():
                answer.cancel()  # the caller is gone
            elif not answer.cancelled():
                answer.exception()  # retrieved, so that asyncio does not log it

    def _too_late(self, answer: asyncio.Future[list[Sample]]) -> None:
        sentence = f"The model did not answer within {self.limits.timeout:g} seconds: try again later."
        _refuse(answer, Refused(503, sentence, RETRY))

    def _drop(self, answer: asyncio.Future[list[Sample]]) -> None:
        """The caller left, or was refused: its samples make room for others at once."""
        with self.changed:
            self.waiting = deque(each for each in self.waiting if each.pending.answer is not answer)
            if self.limited:
                self.shapes = Counter(each.shapes for each in self.waiting)

    def _queue(self, samples: Sequence[Sample], pending: Pending) -> None:
        now = time.perf_counter()
        waiting = [
            Waiting(sample, tuple([array.shape for array in sample]), pending, at, now)
            for at, sample in enumerate(samples)
        ]
        with self.changed:
            before = len(self.waiting)
            if before + len(waiting) > self.limits.queue:
                raise Refused(429, "The queue is full: try again in a second.", RETRY)
            if self.limited:
                self._admit(waiting, now)
            self.waiting.extend(waiting)
            # Wake the model's thread only for the first sample and for a full batch.
            if not before or before < self.enough <= len(self.waiting):
                self.changed.notify()

    # -- the latency limit --

    def _admit(self, waiting: Sequence[Waiting], now: float) -> None:
        """Raises Refused if the queue would take too long. A request to an idle server is always accepted."""
        shapes = self.shapes + Counter(each.shapes for each in waiting)
        busy = sum(max(0.0, until - now) for until in self.busy_until)
        expected = (busy + sum(map(self._seconds, shapes, shapes.values()))) / len(self.threads)
        if (any(self.busy_until) or self.waiting) and expected > self.limits.latency * SPARE:
            later = max(1, math.ceil(expected))
            limit = f"over the limit of {self.limits.latency * 1e3:g} ms: try again in {later} s."
            sentence = f"The answer would take about {expected * 1e3:.0f} ms, {limit}"
            raise Refused(429, sentence, {"Retry-After": str(later)})
        self.shapes = shapes

    def _seconds(self, shapes: Shapes, count: int) -> float:
        """For `count` samples of these shapes."""
        values, most = _values(shapes), self._most(shapes)
        full, rest = divmod(count, most)
        return full * self.times.seconds(most * values) + (self.times.seconds(rest * values) if rest else 0.0)

    def _most(self, shapes: Shapes) -> int:
        """Batch size: two batches must fit into the limit, because one may be running when a sample arrives."""
        most = self.batch
        while most > 1 and 2 * self.times.seconds(most * _values(shapes)) > self.limits.latency * SPARE:
            most = (most + 1) // 2
        return most

    # -- in the model's thread --

    def _work(self, at: int) -> None:
        assert self.loop is not None
        try:
            runner = self.open_runner()
            with self.changed:
                self.runners.append(runner)
            self._warm(runner)
        except BaseException as error:  # noqa: BLE001 - reported by the main thread
            self.failure = error
            self._call(self.finished)
            return
        with self.changed:
            self.warmed += 1
            self.ready = self.warmed == len(self.threads)
        if self.ready:
            self._call(self.finished)
        while batch := self._next(at):
            self._compute(runner, batch)

    def _warm(self, runner: Runner) -> None:
        values = _values(tuple(sample.shape for sample in self.warm))
        for size in sorted({1, self.batch}):
            inputs = [np.stack([sample] * size) for sample in self.warm]
            quickest = min(_timed(runner, inputs) for _ in range(WARM if self.limited else 1))
            self.times.learn(size * values, quickest)
            if size == 1 and quickest > self.limits.latency:
                takes = f"one sample takes {quickest * 1e3:.0f} ms. Nothing was served: allow more"
                wanted = f"--latency {self.limits.latency * 1e3:g}ms is impossible"
                raise Misuse(f"{wanted}: {takes}, or export a smaller model.")

    def _next(self, at: int) -> list[Waiting]:
        """The next batch: when it is full, or its first sample has waited long enough. Empty: stopped."""
        with self.changed:
            self.busy_until[at] = 0.0
            while True:
                while not self.waiting and not self.stopping:
                    self.changed.wait()
                if not self.waiting:
                    return []
                until, self.enough = self._patience(self.waiting[0])
                while len(self.waiting) < self.enough and not self.stopping:
                    if (left := until - time.perf_counter()) <= 0:
                        break
                    self.changed.wait(left)
                if batch := self._take(self.enough):
                    if self.limited:
                        seconds = self.times.seconds(len(batch) * _values(batch[0].shapes))
                        self.busy_until[at] = time.perf_counter() + seconds
                    if self.waiting:
                        self.changed.notify()  # for another worker
                    return batch

    def _patience(self, first: Waiting) -> tuple[float, int]:
        """The deadline and size of the next batch; a latency limit reduces both."""
        if not self.limited:
            return first.since + self.limits.wait, self.batch
        most = self._most(first.shapes)
        spare = self.limits.latency * SPARE - self.times.seconds(most * _values(first.shapes))
        return first.since + min(self.limits.wait, max(0.0, spare)), most

    def _take(self, most: int) -> list[Waiting]:
        """From the front of the queue, samples of one shape. Cancelled ones are dropped, others keep their places."""
        batch: list[Waiting] = []
        kept: list[Waiting] = []
        oldest = time.perf_counter() - self.limits.latency
        while self.waiting and len(batch) < most:
            each = self.waiting.popleft()
            if each.pending.answer.done():
                continue
            if each.since < oldest:
                self._overdue(each)
                continue
            (batch if not batch or each.shapes == batch[0].shapes else kept).append(each)
        self.waiting.extendleft(reversed(kept))
        if self.limited:
            self.shapes = Counter(each.shapes for each in self.waiting)
        return batch

    def _overdue(self, each: Waiting) -> None:
        """The queue was slower than expected: computing it now would delay others too."""
        sentence = f"The request waited longer than the limit of {self.limits.latency * 1e3:g} ms: try again."
        refused = Refused(429, sentence, RETRY)
        self._call(lambda: _refuse(each.pending.answer, refused))

    def _compute(self, runner: Runner, batch: list[Waiting]) -> None:
        begun = time.perf_counter()
        try:
            outputs = runner.run([np.stack(column) for column in zip(*[each.sample for each in batch], strict=True)])
            answers = _rows(outputs, len(batch), self.artifact)
        except WorkerLost:
            for each in batch:
                self._call(partial(_refuse, each.pending.answer, Refused(503, LOST, RETRY)))
            return
        except Exception:  # noqa: BLE001 - any error of the model becomes an answer
            if len(batch) > 1:
                for each in batch:
                    if not each.pending.answer.done():  # it may have waited too long meanwhile
                        self._compute(runner, [each])  # only the bad sample fails
            else:
                self._refuse_one(runner, batch[0])
            return
        seconds = time.perf_counter() - begun
        if self.limited:
            with self.changed:
                self.times.learn(len(batch) * _values(batch[0].shapes), seconds)
        self.computed(len(batch), seconds)
        self._call(lambda: _deliver(batch, answers))

    def _refuse_one(self, runner: Runner, one: Waiting) -> None:
        """Is the sample bad or the model broken? Tried with zeros, and with the sample of the warm-up."""
        traceback.print_exc(file=sys.stderr)
        refused = Refused(500, "The model failed; see the server's log.")
        zeros = tuple(np.zeros_like(array) for array in one.sample)
        if self._runs(runner, zeros):
            refused = Refused(422, "The model cannot compute this input: its values are invalid.")
        elif one.shapes != tuple(array.shape for array in self.warm) and self._runs(runner, self.warm):
            shapes = " and ".join(str(list(shape)) for shape in one.shapes)
            refused = Refused(422, f"The model does not accept inputs of shape {shapes}: change their length.")
        self._call(lambda: _refuse(one.pending.answer, refused))

    def _runs(self, runner: Runner, sample: Sample) -> bool:
        try:
            return bool(_rows(runner.run([array[None] for array in sample]), 1, self.artifact))
        except Exception:  # noqa: BLE001 - any error of the model means that it does not
            return False

    def _call(self, what: Callable[[], None]) -> None:
        assert self.loop is not None
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(what)


def _refuse(answer: asyncio.Future[list[Sample]], refused: Refused) -> None:
    if not answer.done():
        answer.set_exception(refused)


def _rows(outputs: Sequence[Array], samples: int, artifact: Artifact) -> list[Sample]:
    """A row of each of `artifact.sample_outputs`; what a model returns beyond its description is left out. Raises
    ValueError if there is not one row per sample."""
    chosen = set(artifact.sample_outputs)
    named = zip(outputs[: len(artifact.outputs)], artifact.outputs, strict=True)
    kept = [array for array, port in named if port in chosen]
    for array in kept:
        if np.shape(array)[:1] != (samples,):
            raise ValueError(f"the model returns shape {np.shape(array)} for {samples} samples")
    return list(zip(*kept, strict=True))


def _deliver(batch: Sequence[Waiting], answers: Sequence[Sample]) -> None:
    for each, answer in zip(batch, answers, strict=True):
        pending = each.pending
        pending.outputs[each.at] = answer
        pending.missing -= 1
        if not pending.missing and not pending.answer.done():
            pending.answer.set_result(pending.outputs)


def _values(shapes: Shapes) -> int:
    """Number of values of a sample."""
    return sum(map(math.prod, shapes))


def _timed(runner: Runner, inputs: Sequence[Array]) -> float:
    begun = time.perf_counter()
    runner.run(inputs)
    return time.perf_counter() - begun
