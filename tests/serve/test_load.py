"""Many callers at once: what is counted is what was, wrong answers are found, and rubbish harms nobody."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from dataclasses import replace

import pytest

from tests.serve.made import artifact, served, shade
from trueloop.errors import Misuse
from trueloop.export.exporter import FakeRunner
from trueloop.results.artifact import Port
from trueloop.serve.client import Address
from trueloop.serve.load_test import Outcome, equal, fetch_questions, questions_of, random_samples, run_load
from trueloop.serve.malformed import MALFORMED


def test_every_answer_is_right_among_rubbish_and_nothing_fails() -> None:
    """A few of each kind of rubbish, 100 MB bodies and slow callers among them."""
    questions = questions_of(artifact(), FakeRunner(shade))
    with served(timeout=1.0) as server:
        outcome = asyncio.run(
            run_load(Address("127.0.0.1", server.port), questions, clients=16, requests=500, malformed=0.04)
        )
        counts = server.get("/metrics")[1]
        assert server.end() == 0
    assert outcome.failures == outcome.wrong == 0
    assert outcome.statuses == {200: 480}
    assert len(outcome.latencies) == 480
    assert {kind: set(statuses) for kind, statuses in outcome.malformed.items()} == {
        "disconnected": {0},
        "half a body": {400},
        "wrong shape": {422},
        "NaN": {422},
        "100 MB": {413},
        "100 MB chunked": {413},
        "slow": {408},
        "deeply nested": {400},
        "not HTTP": {400},
        "huge headers": {400} if 400 in outcome.malformed["huge headers"] else {431},
    }
    assert 'status="5' not in counts


@pytest.mark.long
def test_ten_thousand_requests_with_rubbish_leave_the_server_as_it_was() -> None:
    questions = questions_of(artifact(), FakeRunner(shade))
    with served() as server:
        address = Address("127.0.0.1", server.port)
        asyncio.run(
            run_load(address, questions, clients=64, requests=1_000, malformed=0.02)
        )  # what it takes once, it has taken
        outcome = asyncio.run(run_load(address, questions, clients=64, requests=10_000, malformed=0.01))
        assert server.end() == 0
    assert outcome.failures == outcome.wrong == 0
    assert outcome.statuses == {200: 9_900}
    assert sum(sum(counts.values()) for counts in outcome.malformed.values()) == 100
    before, after = outcome.memory
    assert after - before < 40e6, f"{before / 1e6:.0f} MB before, {after / 1e6:.0f} MB after"


def test_a_wrong_answer_is_found() -> None:
    right = questions_of(artifact(), FakeRunner(shade))
    wrong = [
        replace(right[0], expected={**right[0].expected, "probability": right[0].expected["probability"] + 0.01}),
        *right[1:],
    ]
    with served() as server:
        outcome = asyncio.run(run_load(Address("127.0.0.1", server.port), wrong, clients=4, requests=128))
    assert outcome.wrong == outcome.failures == 2


def test_a_server_of_which_only_the_address_is_known_is_compared_with_itself() -> None:
    with served("tokens") as server:
        address = Address("127.0.0.1", server.port)
        questions, limit = asyncio.run(fetch_questions(address))
        outcome = asyncio.run(run_load(address, questions, clients=8, requests=200))
    assert (outcome.failures, outcome.statuses[200], limit) == (0, 200, math.inf)
    assert outcome.throughput > 0


def test_nobody_there_is_a_sentence() -> None:
    with served() as server:
        address = Address("127.0.0.1", server.port)
        questions, _ = asyncio.run(fetch_questions(address))
        server.end()
        with pytest.raises(Misuse, match="cannot be reached"):
            asyncio.run(run_load(address, questions, clients=2, requests=10))


def test_a_server_that_wants_a_key_is_asked_with_it() -> None:
    with served(key="seven") as server:
        with pytest.raises(Misuse, match="or the API key is missing"):
            asyncio.run(fetch_questions(Address("127.0.0.1", server.port)))
        assert asyncio.run(fetch_questions(Address("127.0.0.1", server.port, key="seven")))


# -- what is counted --


def test_percentiles_are_of_those_that_were_answered() -> None:
    outcome = Outcome(latencies=[0.1 * number for number in range(1, 101)])
    assert [round(outcome.percentile(share), 3) for share in (0.5, 0.95, 0.99, 1.0)] == [5.0, 9.5, 9.9, 10.0]
    assert Outcome(latencies=[3.0]).percentile(0.5) == 3.0
    assert str(Outcome().percentile(0.5)) == "nan"


def test_rounds_are_counted_together() -> None:
    whole = Outcome()
    whole.add(Outcome(2.0, [0.1, 0.2], Counter({200: 2}), 1, {"slow": Counter({408: 1})}, (10.0, 20.0)))
    whole.add(
        Outcome(
            3.0,
            [0.3],
            Counter({200: 1, 429: 4}),
            0,
            {"slow": Counter({408: 2}), "NaN": Counter({422: 1})},
            (20.0, 30.0),
        )
    )
    assert (whole.seconds, whole.latencies, whole.wrong, whole.memory) == (5.0, [0.1, 0.2, 0.3], 1, (10.0, 30.0))
    assert whole.statuses == {200: 3, 429: 4}
    assert whole.malformed == {"slow": {408: 3}, "NaN": {422: 1}}


def test_who_is_told_to_come_later_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four callers of a server that computes one at a time, and refuses the fourth until it has done so."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await wait(seconds and 0.05)

    wait = asyncio.sleep
    questions = questions_of(artifact(), FakeRunner(shade))
    with served(model="slow", batch=1, queue=2) as server:
        monkeypatch.setattr("trueloop.serve.load_test.asyncio.sleep", sleep)
        outcome = asyncio.run(run_load(Address("127.0.0.1", server.port), questions, clients=4, requests=8))
    assert outcome.failures == 0
    assert outcome.statuses[429] == pytest.approx(pauses.count(1.0), abs=8)  # some while it was warmed up
    assert outcome.statuses[200] + outcome.statuses[429] == 8
    assert 1.0 in pauses


def test_the_server_s_own_limit_is_known_to_who_loads_it() -> None:
    with served(latency=0.25) as server:
        assert asyncio.run(fetch_questions(Address("127.0.0.1", server.port)))[1] == 0.25


@pytest.mark.long
def test_a_limit_is_kept_when_far_too_many_ask() -> None:
    """0.3 s for each batch of four, and sixteen callers: who could not be answered within a second is refused at
    once."""
    questions = questions_of(artifact(), FakeRunner(shade))
    with served(model="slow", batch=4, latency=1.0) as server:
        outcome = asyncio.run(run_load(Address("127.0.0.1", server.port), questions, clients=16, requests=32))
    assert outcome.failures == 0
    assert set(outcome.statuses) == {200, 429}


def test_failures_are_5xx_silence_and_wrong_answers() -> None:
    outcome = Outcome(wrong=1)
    outcome.statuses.update({200: 50, 429: 5, 503: 2, 0: 1})
    outcome.malformed["slow"] = outcome.statuses.__class__({0: 10, 408: 3, 500: 4})
    assert outcome.failures == 1 + 2 + 1 + 4


@pytest.mark.parametrize(
    ("answer", "due", "same"),
    [
        ({"a": 1.0, "b": "x"}, {"a": 1.00005, "b": "x"}, True),
        ({"a": 1.0}, {"a": 1.01}, False),
        ({"a": 1.0}, {"b": 1.0}, False),
        ([1, 2], [1, 2, 3], False),
        ([[1.0], "x"], [[1.0], "x"], True),
        ("x", "y", False),
        (1.0, "1.0", False),
    ],
)
def test_answers_are_alike_within_rounding(answer: object, due: object, same: bool) -> None:
    assert equal(answer, due) is same


def test_made_up_samples_are_such_as_the_model_takes() -> None:
    for kind in ("image", "tokens", "table", "tensors"):
        told = artifact(kind)
        samples = random_samples(told.inputs, told.preprocessing)
        assert len({json.dumps([array.tolist() for array in sample]) for sample in samples}) == len(samples)
        for sample in samples:
            for port, array in zip(told.inputs, sample, strict=True):
                assert port.refusal((1, *array.shape)) == ""
                assert array.dtype == port.dtype
    narrow = random_samples((Port("input", "uint8", (None, 5)),), {"kind": "image", "range": [0, 16]})
    assert max(int(array.max()) for (array,) in narrow) <= 16


@pytest.mark.parametrize("url", ["ftp://a", "http://", "http://a:b", "http://a/b/c", "hello"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(Misuse, match="is not a server address"):
        Address.of(url)


def test_an_address_is_read() -> None:
    assert Address.of("http://127.0.0.1:8000") == Address("127.0.0.1", 8000)
    assert Address.of("https://model.example/", "seven") == Address("model.example", 443, secure=True, key="seven")


def test_every_kind_of_rubbish_says_what_it_is() -> None:
    assert len(MALFORMED) == 10
    assert all(kind and kind == kind.strip() for kind in MALFORMED)
