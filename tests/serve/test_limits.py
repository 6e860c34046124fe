"""A body is read within its limits, whatever its caller does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from trueloop.serve.limits import Budget, Limits, Refused, read_body


class Sending:
    """A request whose body comes in pieces; None is one that never comes."""

    def __init__(self, *pieces: bytes | None, headers: Mapping[str, str] | None = None) -> None:
        self.pieces, self.headers = pieces, dict(headers or {})
        self.read = 0

    async def stream(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if piece is None:
                await asyncio.sleep(3600)
            else:
                self.read += 1
                yield piece


def read(sending: Sending, budget: Budget | None = None, **limits: float) -> bytes:
    with (budget or Budget(100, "Too much")).share() as share:
        return asyncio.run(read_body(sending, Limits(**{"body": 10, "timeout": 0.05, **limits}), share))  # type: ignore[arg-type]


def test_a_body_is_all_of_its_pieces() -> None:
    assert read(Sending(b"hello", b"", b"you")) == b"helloyou"
    assert read(Sending()) == b""


def test_the_largest_body_is_still_read_and_one_byte_more_is_not() -> None:
    assert read(Sending(b"a" * 5, b"b" * 5)) == b"aaaaabbbbb"
    with pytest.raises(Refused) as refused:
        read(Sending(b"a" * 5, b"b" * 6))
    assert refused.value.status == 413


def test_a_body_that_is_too_large_is_read_to_its_end_and_thrown_away() -> None:
    sending = Sending(*[b"aaaa"] * 100)
    with pytest.raises(Refused, match="larger than the limit of 10 bytes"):
        read(sending)
    assert sending.read == 100


def test_what_is_announced_as_too_large_is_refused_before_it_is_kept() -> None:
    budget = Budget(1, "Too much")
    with pytest.raises(Refused) as refused:
        read(Sending(b"aaaaaaaaaaaa", headers={"content-length": "12"}), budget)
    assert refused.value.status == 413


def test_who_asks_first_has_not_to_send_it() -> None:
    sending = Sending(b"aaaaaaaaaaaa", headers={"content-length": "12", "expect": "100-Continue"})
    with pytest.raises(Refused):
        read(sending)
    assert sending.read == 0


def test_who_stops_sending_is_too_slow() -> None:
    with pytest.raises(Refused, match=r"not sent within 0\.05 seconds") as refused:
        read(Sending(b"a", None))
    assert refused.value.status == 408


def test_all_bodies_together_have_a_limit_that_is_given_back() -> None:
    budget = Budget(8, "Too much")
    with pytest.raises(Refused) as refused:
        read(Sending(b"a" * 5, b"b" * 5), budget)
    assert (refused.value.status, budget.taken) == (429, 0)
    assert read(Sending(b"a" * 8), budget) == b"a" * 8
    assert budget.taken == 0
    with pytest.raises(Refused):
        read(Sending(b"a", None), budget)
    assert budget.taken == 0


@pytest.mark.parametrize("said", ["", "x", "-1", "٣", "9" * 30])
def test_a_length_that_is_none_is_not_believed(said: str) -> None:
    assert read(Sending(b"hello", headers={"content-length": said})) == b"hello"


def test_one_that_is_alone_may_hold_more_than_all_together() -> None:
    budget = Budget(8, "Too much")
    with budget.share() as large, budget.share() as small:
        large.take(100)
        with pytest.raises(Refused, match="Too much: try again in a second"):
            small.take(1)
    assert budget.taken == 0
