"""Continuous batching: texts join at the next token, leave when they are over, and get their own tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from trueloop.serve.limits import Limits, Refused
from trueloop.serve.text_streams import FakeTextModel, Stream, StreamBatcher


def with_batcher(
    work: Callable[[StreamBatcher], Awaitable[Any]], **limits: Any
) -> tuple[Any, FakeTextModel, list[int]]:
    model, computed = FakeTextModel(), list[int]()

    async def main() -> Any:
        batcher = StreamBatcher(lambda: model, Limits(**limits), computed.append)
        started = asyncio.Event()
        batcher.start(started.set)
        await started.wait()
        try:
            return await work(batcher)
        finally:
            batcher.stop()
            await asyncio.to_thread(batcher.thread.join)

    return asyncio.run(main()), model, computed


async def tokens_of(stream: Stream) -> list[Any]:
    found: list[Any] = []
    while len(found) < stream.most:
        found.append(await stream.events.get())
        if not isinstance(found[-1], int):
            break
    return found


def test_each_text_gets_its_own_tokens_though_they_are_computed_together() -> None:
    streams = [Stream((first,), 1 + first % 7) for first in range(1, 60, 3)]

    async def work(batcher: StreamBatcher) -> Any:
        for stream in streams:
            batcher.submit(stream)
        return await asyncio.gather(*map(tokens_of, streams))

    found, model, computed = with_batcher(work, batch=4)
    for stream, tokens in zip(streams, found, strict=True):
        assert tokens == [stream.prompt[0] + 1 + number for number in range(stream.most)]
    assert max(model.widths) == 4
    assert sum(computed) == sum(stream.most for stream in streams)
    assert model.rows == []


def test_an_end_of_text_ends_a_text() -> None:
    async def work(batcher: StreamBatcher) -> Any:
        stream = Stream((125,), 30)
        batcher.submit(stream)
        return await tokens_of(stream)

    assert with_batcher(work)[0] == [126, 127, None]


def test_a_text_that_fails_does_not_end_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    async def work(batcher: StreamBatcher) -> Any:
        bad, good = Stream((255,), 3), Stream((5,), 3)
        batcher.submit(bad)
        batcher.submit(good)
        return await asyncio.gather(tokens_of(bad), tokens_of(good))

    ((refused,), good), _, _ = with_batcher(work)
    assert (refused.status, good) == (500, [6, 7, 8])
    assert "255 is out of range" in capsys.readouterr().err


def test_a_text_that_nobody_reads_makes_room() -> None:
    async def work(batcher: StreamBatcher) -> Any:
        left, next_one = Stream((1,), 10**9), Stream((5,), 2)
        batcher.submit(left)
        await left.events.get()
        batcher.submit(next_one)
        left.left = True
        return await tokens_of(next_one)

    assert with_batcher(work, batch=1)[0] == [6, 7]


def test_a_full_queue_is_refused() -> None:
    async def work(batcher: StreamBatcher) -> Any:
        first = Stream((1,), 10**9)
        batcher.submit(first)
        await first.events.get()
        batcher.submit(Stream((1,), 1))
        with pytest.raises(Refused) as refused:
            batcher.submit(Stream((1,), 1))
        first.left = True
        return refused.value.status

    assert with_batcher(work, batch=1, queue=1)[0] == 429


def test_nothing_is_written_before_the_model_is_there() -> None:
    def never() -> FakeTextModel:
        raise AssertionError

    async def main() -> None:
        batcher = StreamBatcher(never, Limits(), lambda _: None)
        with pytest.raises(Refused, match="still loading"):
            batcher.submit(Stream((1,), 1))
        started = asyncio.Event()
        batcher.start(started.set)
        await started.wait()
        assert isinstance(batcher.failure, AssertionError)

    asyncio.run(main())
