"""One thread, many callers: who is computed with whom, who is refused, and that each gets its own answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.serve.made import artifact, broken, picky, shade
from trueloop.errors import Misuse
from trueloop.export.exporter import Array, FakeRunner, Runner
from trueloop.results.artifact import Port
from trueloop.serve.batching import SPARE, Batcher, Pending, Sample, Waiting, blank
from trueloop.serve.limits import Limits, Refused


def picture(value: int = 0) -> Sample:
    return (np.full((1, 3, 4), value, np.uint8),)


def with_batcher(
    work: Callable[[Batcher], Awaitable[Any]],
    model: Callable[..., Sequence[Array]] = shade,
    kind: str = "image",
    **limits: Any,
) -> tuple[Any, list[int]]:
    """What the work gives, and how many samples each call of the model had, but for those that warm it up."""
    runner = FakeRunner(model)

    async def main() -> Any:
        computed: list[tuple[int, float]] = []
        batcher = Batcher(artifact(kind), lambda: runner, Limits(**limits), lambda *told: computed.append(told))
        started = asyncio.Event()
        batcher.start(started.set)
        await started.wait()
        runner.batches.clear()
        try:
            return await work(batcher)
        finally:
            batcher.stop()
            await asyncio.to_thread(batcher.join)

    return asyncio.run(main()), runner.batches


def test_callers_at_the_same_time_are_computed_together_and_get_their_own_answers() -> None:
    async def work(batcher: Batcher) -> Any:
        return await asyncio.gather(*(batcher.submit([picture(value)]) for value in range(8)))

    answers, batches = with_batcher(work, batch=8, wait=30.0)
    assert batches == [8]
    for value, ((scores,),) in enumerate(answers):
        assert np.array_equal(scores, shade(picture(value)[0][None])[0][0])


def test_a_batch_is_never_larger_than_allowed() -> None:
    async def work(batcher: Batcher) -> Any:
        return await batcher.submit([picture(value) for value in range(10)])

    answers, batches = with_batcher(work, batch=4, wait=0.01)
    assert len(answers) == 10
    assert max(batches) == 4
    assert sum(batches) == 10


def test_the_model_s_own_limit_counts_too() -> None:
    batcher = Batcher(
        artifact(inputs=(Port("input", "uint8", (None, 1, 3, 4), (2, None, None, None)),)),
        never,
        Limits(batch=32),
        lambda *_: None,
    )
    assert batcher.batch == 2


def never() -> Runner:
    raise AssertionError("not opened")


def test_one_who_is_alone_waits_no_longer_than_said() -> None:
    async def work(batcher: Batcher) -> Any:
        return await batcher.submit([picture()])

    assert with_batcher(work, batch=32, wait=0.001)[1] == [1]


def test_samples_of_other_lengths_are_computed_apart() -> None:
    async def work(batcher: Batcher) -> Any:
        return await batcher.submit([(np.ones(length, np.int64),) for length in (3, 5, 3, 5, 3)])

    answers, batches = with_batcher(work, kind="tokens", batch=8, wait=0.01)
    assert sorted(batches) == [2, 3]
    assert len(answers) == 5


def test_a_full_queue_refuses_and_takes_none_of_the_request() -> None:
    held = threading.Event()

    def waits(*inputs: Array) -> list[Array]:
        if inputs[0].any():
            held.wait(30)
        return shade(*inputs)

    async def work(batcher: Batcher) -> Any:
        first = asyncio.ensure_future(batcher.submit([picture(1)]))
        while not batcher.waiting:  # it is taken out as soon as it is computed
            await asyncio.sleep(0)
        while batcher.waiting:
            await asyncio.sleep(0.001)
        second = asyncio.ensure_future(batcher.submit([picture(2)] * 3))
        await asyncio.sleep(0)
        with pytest.raises(Refused) as refused:
            await batcher.submit([picture(3)] * 2)
        assert len(batcher.waiting) == 3
        held.set()
        await asyncio.gather(first, second)
        return refused.value

    refused, _ = with_batcher(work, waits, batch=1, queue=4, wait=0.001)
    assert (refused.status, refused.headers) == (429, {"Retry-After": "1"})


# -- the limit on latency --


def held_by(event: threading.Event) -> Callable[..., list[Array]]:
    """Computes nothing but zeros until then."""

    def waits(*inputs: Array) -> list[Array]:
        if inputs[0].any():
            event.wait(30)
        return shade(*inputs)

    return waits


def expecting(batcher: Batcher, **seconds: float) -> None:
    """As if that had been learned: the seconds of a batch of so many pictures."""
    for size, taken in seconds.items():
        batcher.times.known[(12 * int(size.removeprefix("of"))).bit_length()] = (taken, 0.0)


async def first_is_computed(batcher: Batcher) -> asyncio.Future[list[Sample]]:
    first = asyncio.ensure_future(batcher.submit([picture(1)]))
    while not batcher.waiting:
        await asyncio.sleep(0)
    while batcher.waiting:
        await asyncio.sleep(0.001)
    return first


def test_who_would_wait_too_long_is_refused_at_once_with_when_to_come_again() -> None:
    held = threading.Event()

    async def work(batcher: Batcher) -> Any:
        first = await first_is_computed(batcher)
        expecting(batcher, of1=1.2, of4=1.5)
        second = asyncio.ensure_future(batcher.submit([picture(2)]))
        await asyncio.sleep(0)
        with pytest.raises(Refused) as refused:
            await batcher.submit([picture(3)] * 8)
        assert len(batcher.waiting) == 1
        held.set()
        await asyncio.gather(first, second)
        return refused.value

    refused, _ = with_batcher(work, held_by(held), batch=4, wait=0.001, latency=4.0)
    assert refused.status == 429
    assert refused.sentence == "The answer would take about 4200 ms, over the limit of 4000 ms: try again in 5 s."
    assert refused.headers == {"Retry-After": "5"}


def test_who_comes_when_nobody_is_there_is_always_taken() -> None:
    """Or a server that was slow once would refuse for ever."""

    async def work(batcher: Batcher) -> Any:
        expecting(batcher, of1=100.0, of4=100.0)
        return await batcher.submit([picture(value) for value in range(5)])

    answers, batches = with_batcher(work, batch=4, wait=0.001, latency=30.0)
    assert len(answers) == 5
    assert sum(batches) == 5


def test_batches_are_small_enough_for_two_of_them_within_the_limit() -> None:
    async def work(batcher: Batcher) -> Any:
        expecting(batcher, of1=0.1, of2=3.0, of4=6.0, of8=20.0)
        return await batcher.submit([picture(value) for value in range(8)])

    assert with_batcher(work, batch=8, wait=0.01, latency=15.0)[1][0] == 4


def test_a_batch_is_begun_early_where_waiting_for_others_would_break_the_limit() -> None:
    async def work(batcher: Batcher) -> Any:
        expecting(batcher, of1=3.0, of8=3.0)
        one = Waiting(
            picture(), ((1, 3, 4),), Pending(asyncio.get_running_loop().create_future(), [None], 1), 0, since=100.0
        )
        return batcher._patience(one)

    assert with_batcher(work, batch=8, wait=9.0, latency=10.0)[0] == (100.0 + 10.0 * SPARE - 3.0, 8)
    assert with_batcher(work, batch=8, wait=2.0, latency=10.0)[0] == (102.0, 8)


def test_who_has_waited_too_long_is_not_computed_any_more() -> None:
    held = threading.Event()

    async def work(batcher: Batcher) -> Any:
        first = await first_is_computed(batcher)
        second = asyncio.ensure_future(batcher.submit([picture(2)]))
        await asyncio.sleep(0)
        batcher.waiting[0].since -= 60
        held.set()
        with pytest.raises(Refused, match="waited longer than the limit of 30000 ms") as refused:
            await second
        await first
        return refused.value.status

    assert with_batcher(work, held_by(held), batch=1, wait=0.001, latency=30.0) == (429, [1])


def test_texts_of_many_lengths_are_expected_to_be_computed_apart() -> None:
    async def work(batcher: Batcher) -> Any:
        batcher.times.known = dict.fromkeys(range(12), (1.0, 0.0))
        lengths = [(((length,),), count) for length, count in ((3, 4), (5, 5), (9, 1))]
        return [batcher._seconds(shapes, count) for shapes, count in lengths]

    assert with_batcher(work, kind="tokens", batch=4, latency=30.0)[0] == [1.0, 2.0, 1.0]


def test_a_limit_that_the_model_alone_breaks_is_told_before_anything_is_served() -> None:
    async def main() -> None:
        batcher = Batcher(artifact(), lambda: FakeRunner(shade), Limits(latency=1e-9), lambda *_: None)
        started = asyncio.Event()
        batcher.start(started.set)
        await started.wait()
        assert isinstance(batcher.failure, Misuse)
        assert str(batcher.failure).startswith("--latency 1e-06ms is impossible: one sample takes ")

    asyncio.run(main())


def test_who_has_gone_is_not_computed() -> None:
    held = threading.Event()

    def waits(*inputs: Array) -> list[Array]:
        if (inputs[0] == 1).any():
            held.wait(30)
        return shade(*inputs)

    async def work(batcher: Batcher) -> Any:
        first = asyncio.ensure_future(batcher.submit([picture(1)]))
        while not batcher.waiting:
            await asyncio.sleep(0)
        while batcher.waiting:
            await asyncio.sleep(0.001)
        gone = asyncio.ensure_future(batcher.submit([picture(2)] * 5))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        held.set()
        await first
        return await batcher.submit([picture(3)])

    assert with_batcher(work, waits, batch=8, wait=0.001)[1] == [1, 1]


def test_a_model_that_takes_too_long_is_no_caller_s_fault() -> None:
    held = threading.Event()

    def waits(*inputs: Array) -> list[Array]:
        if inputs[0].any():
            held.wait(30)
        return shade(*inputs)

    async def work(batcher: Batcher) -> Any:
        with pytest.raises(Refused) as refused:
            await batcher.submit([picture(1)])
        held.set()
        return refused.value

    refused, _ = with_batcher(work, waits, timeout=0.05)
    assert refused.status == 503
    assert "within 0.05 seconds" in refused.sentence


def test_only_the_sample_that_the_model_cannot_compute_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    async def work(batcher: Batcher) -> Any:
        return await asyncio.gather(*(batcher.submit([picture(value)]) for value in (6, 7, 8)), return_exceptions=True)

    (before, at, after), _ = with_batcher(work, picky, batch=3, wait=30.0)
    assert isinstance(before, list)
    assert isinstance(after, list)
    assert isinstance(at, Refused)
    assert at.status == 422
    assert "7 is out of range" in capsys.readouterr().err  # the log has it, the caller has not
    assert "7" not in at.sentence


def test_a_broken_model_is_the_server_s_fault(capsys: pytest.CaptureFixture[str]) -> None:
    async def work(batcher: Batcher) -> Any:
        with pytest.raises(Refused) as refused:
            await batcher.submit([picture(1)])
        return refused.value

    broken.asked = False  # type: ignore[attr-defined]
    assert with_batcher(work, broken)[0].status == 500
    assert "no memory" in capsys.readouterr().err


def test_nothing_is_answered_before_the_model_is_there() -> None:
    async def main() -> None:
        batcher = Batcher(artifact(), never, Limits(), lambda *_: None)
        with pytest.raises(Refused, match="still loading") as refused:
            await batcher.submit([picture()])
        assert refused.value.status == 503

    asyncio.run(main())


def test_a_model_that_cannot_be_opened_is_told() -> None:
    async def main() -> None:
        batcher = Batcher(artifact(), never, Limits(), lambda *_: None)
        started = asyncio.Event()
        batcher.start(started.set)
        await started.wait()
        assert isinstance(batcher.failure, AssertionError)
        assert not batcher.ready

    asyncio.run(main())


def test_what_waits_when_it_is_stopped_is_still_computed() -> None:
    async def work(batcher: Batcher) -> Any:
        asked = asyncio.ensure_future(batcher.submit([picture(1)] * 3))
        await asyncio.sleep(0)
        batcher.stop()
        return await asked

    answers, batches = with_batcher(work, batch=8, wait=30.0)
    assert len(answers) == 3
    assert batches == [3]


def test_a_blank_sample_fits_every_port() -> None:
    for port in (
        Port("a", "uint8", (None, 1, 3, 4)),
        Port("b", "int64", (None, None), (None, 5)),
        Port("c", "float32", (None, None)),
    ):
        assert port.refusal((1, *blank(port).shape)) == ""
