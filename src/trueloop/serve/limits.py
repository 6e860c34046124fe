"""The limits of the server, and reading a body within them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, final

__all__ = ["RETRY", "Budget", "Limits", "Refused", "Share", "read_body"]

DISCARDED: Final = 256 * 2**20  # Bytes of a too large body that are read, so that the caller sees the answer
DISCARD_SECONDS: Final = 2.0  # Then the connection is closed
RETRY: Final = {"Retry-After": "1"}


@dataclass(frozen=True, slots=True)
class Limits:
    """The options of `trueloop serve`."""

    batch: int = 32  # Samples computed at once
    wait: float = 0.005  # Seconds that the first sample of a batch waits for others
    latency: float = math.inf  # Seconds from request to answer; those that would take longer are rejected with 429
    queue: int = 256  # Samples that may wait, and the most that one request can have
    body: int = 10_000_000  # Bytes of a request
    timeout: float = 10.0  # Seconds to send a request, to answer it, and to read the answer
    grace: float = 10.0  # Seconds between SIGTERM and the end
    pixels: int = 16_000_000  # Of an image, checked before it is decoded
    connections: int = 1_000  # Requests on further ones get 503, except /health and /ready
    per_client: int = 500  # Connections of one address
    pipelined: int = 16  # Requests of one connection that wait for the answer before them; then it is closed
    held: int = 256 * 2**20  # Bytes of all bodies that are being read
    unread: int = 64 * 2**20  # Bytes of all answers that are being sent


@final
class Refused(Exception):
    """A request that is refused; the caller gets the status and the sentence."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, dict(headers or {})


@final
class Budget:
    """Bytes that all requests together may hold. One that is alone may hold more."""

    def __init__(self, most: int, sentence: str) -> None:
        self.most, self.taken = most, 0
        self.sentence = sentence  # For requests beyond it

    @contextmanager
    def share(self) -> Iterator[Share]:
        share = Share(self)
        try:
            yield share
        finally:
            self.taken -= share.bytes


@final
class Share:
    """The bytes of one request."""

    def __init__(self, budget: Budget) -> None:
        self.budget, self.bytes = budget, 0

    def take(self, count: int) -> None:
        if self.budget.taken and self.budget.taken + count > self.budget.most:
            raise Refused(429, f"{self.budget.sentence}: try again in a second.", RETRY)
        self.budget.taken += count
        self.bytes += count


class Sent(Protocol):
    @property
    def headers(self) -> Mapping[str, str]: ...

    def stream(self) -> AsyncIterator[bytes]: ...


async def read_body(request: Sent, limits: Limits, share: Share) -> bytes:
    """Raises Refused: 413 too large, 408 too slow, 429 too many at once. Nothing is kept of a too large body."""
    too_large = Refused(413, f"The request is larger than the limit of {limits.body:,} bytes.", {"Connection": "close"})
    if _content_length(request) > limits.body:
        if "100-continue" not in request.headers.get("expect", "").lower():  # else the caller has not sent it yet
            await _discard(request.stream())
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
        await _discard(stream)
        raise too_large
    return b"".join(pieces)


def _content_length(request: Sent) -> int:
    """The HTTP parser refuses an invalid header."""
    text = request.headers.get("content-length", "0")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


async def _discard(stream: AsyncIterator[Any]) -> None:
    left = DISCARDED
    try:
        async with asyncio.timeout(DISCARD_SECONDS):
            async for piece in stream:
                left -= len(piece)
                if left < 0:
                    return
    except TimeoutError:
        return
