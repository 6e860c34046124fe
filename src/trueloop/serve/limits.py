"""What a caller may ask of the server, and how a body is read within it: never more bytes, never more seconds than are
allowed."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, final

__all__ = ["RETRY", "Budget", "Limits", "Refused", "Share", "read_body"]

SWALLOWED: Final = 256 * 2**20
"""Bytes of a body that is too large which are still read, and thrown away, so that the caller can finish sending and
see why."""
SECONDS_TO_SWALLOW: Final = 2.0
"""How long that may take; then the connection is closed."""
RETRY: Final = {"Retry-After": "1"}
"""A queue that is full is empty again within a second, or the server is too small."""


@dataclass(frozen=True, slots=True)
class Limits:
    """All that is limited, as `trueloop serve` says it."""

    batch: int = 32
    """Samples that the model computes at once."""
    wait: float = 0.005
    """Seconds that the first sample of a batch waits for others."""
    latency: float = math.inf
    """Seconds within which a request that was read is answered, or refused because of those before it."""
    queue: int = 256
    """Samples that may wait; one request can have no more than these."""
    body: int = 10_000_000
    """Bytes of a request."""
    timeout: float = 10.0
    """Seconds that a caller may take to send a request, and then those that it waits for the answer."""
    grace: float = 10.0
    """Seconds between SIGTERM and the end."""
    pixels: int = 16_000_000
    """Of a picture, before it is decoded: a small file can be a huge picture."""
    connections: int = 1_000
    """At the same time; further ones are closed unanswered."""
    held: int = 256 * 2**20
    """Bytes of all bodies together, from the first byte until they are samples."""


@final
class Refused(Exception):
    """A request that is not answered; the sentence is all that the caller is told."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, dict(headers or {})


@final
class Budget:
    """Bytes that all requests together may keep, until they are samples."""

    def __init__(self, most: int) -> None:
        self.most, self.taken = most, 0

    @contextmanager
    def share(self) -> Iterator[Share]:
        share = Share(self)
        try:
            yield share
        finally:
            self.taken -= share.bytes


@final
class Share:
    """One request's part of it."""

    def __init__(self, budget: Budget) -> None:
        self.budget, self.bytes = budget, 0

    def take(self, count: int) -> None:
        if self.budget.taken + count > self.budget.most:
            raise Refused(
                429, "The server is reading as many requests as it may at once: try again in a second.", RETRY
            )
        self.budget.taken += count
        self.bytes += count


class Sent(Protocol):
    """A request, as far as it is read here."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    def stream(self) -> AsyncIterator[bytes]: ...


async def read_body(request: Sent, limits: Limits, share: Share) -> bytes:
    """All of it. Raises Refused: 413 too large, 408 too slow, 429 too many at once. Nothing is kept of a body that is
    too large."""
    sentence = f"The request is larger than {limits.body:,} bytes, which is all that this server reads."
    too_large = Refused(413, sentence, {"Connection": "close"})
    if _announced(request) > limits.body:
        if (
            "100-continue" not in request.headers.get("expect", "").lower()
        ):  # who asks before sending has sent nothing yet
            await _swallow(request.stream())
        raise too_large
    pieces: list[bytes] = []
    stream = request.stream()
    try:
        async with asyncio.timeout(limits.timeout):
            async for piece in stream:
                share.take(len(piece))
                pieces.append(piece)
                if share.bytes > limits.body:
                    break
    except TimeoutError:
        sentence = f"The request was not sent within {limits.timeout:g} seconds."
        raise Refused(408, sentence, {"Connection": "close"}) from None
    if share.bytes > limits.body:
        pieces.clear()
        await _swallow(stream)
        raise too_large
    return b"".join(pieces)


def _announced(request: Sent) -> int:
    """What the header says; a wrong header is the HTTP parser's to refuse."""
    said = request.headers.get("content-length", "0")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 20 else 0


async def _swallow(stream: AsyncIterator[Any]) -> None:
    left = SWALLOWED
    try:
        async with asyncio.timeout(SECONDS_TO_SWALLOW):
            async for piece in stream:
                left -= len(piece)
                if left < 0:
                    return
    except TimeoutError:
        return
