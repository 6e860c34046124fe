"""A connection: uvicorn's HTTP, which waits for headers for ever and counts nothing, with an end to its patience."""

from __future__ import annotations

import asyncio
import json
import re
from typing import ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from trueloop.serve.app import HEADERS
from trueloop.serve.limits import Limits

__all__ = ["strict"]

NO_HTTP: Final = json.dumps({"error": "This is no HTTP request, or its headers are too large."}).encode()
REFUSAL: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(NO_HTTP), NO_HTTP)
)  # fmt: skip
LINGER: Final = 0.5
"""Seconds that a connection without a question stays open when the server ends: one may be on its way."""
UPGRADE: Final = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
"""The wish for another protocol, with which some callers begin (Java's, for HTTP/2). It may be ignored; the parser
would ignore the body instead, and is not to see it."""


class Strict(HttpToolsProtocol):
    """A caller's."""

    limits: ClassVar[Limits]
    patience: asyncio.TimerHandle | None = None
    ending = False
    """Has the server been told to end?"""
    heading = True
    """Are headers due?"""
    fruitless = 0
    """Bytes since the last that brought a request or a piece of its body: headers without an end, or what follows a
    body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.abort()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        self.fruitless += len(data)
        if self.heading and b"pgrade" in data:
            head, end, body = data.partition(b"\r\n\r\n")
            data = UPGRADE.sub(b"\r\nX-Wished:", head) + end + body
        super().data_received(data)
        if self.fruitless > HEADERS:
            self.send_400_response("")
        self._watch()

    def on_headers_complete(self) -> None:
        self.fruitless = 0
        self.heading = False
        super().on_headers_complete()
        if self.ending:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        self.heading = True
        super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        self.fruitless = 0
        super().on_body(body)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.patience is not None:
            self.patience.cancel()

    def send_400_response(self, msg: str) -> None:
        """As JSON, and only where no answer has begun. A whole request before it is answered first, and is then the
        last one."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering and not self.cycle.more_body:
            self.cycle.keep_alive = False
            return
        if not self.transport.is_closing() and not (answering and self.cycle.response_started):
            self.transport.write(REFUSAL)
        self.transport.close()

    def shutdown(self) -> None:
        """Who is answered now is told that it was the last answer; who may just be asking gets one more, and is told
        so, too."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        else:
            self.ending = True
            self.loop.call_later(LINGER, self._give_up)

    def _unsupported_upgrade_warning(self) -> None:
        """A wish that was not seen in time, in the second of two questions in one breath: it is answered, and is the
        last one."""
        self.cycle.keep_alive = False

    def _watch(self) -> None:
        """While headers are due, a clock runs; it is not set back by further bytes."""
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy and self.patience is not None:
            self.patience.cancel()
            self.patience = None
        elif not busy and self.patience is None:
            self.patience = self.loop.call_later(self.limits.timeout, self._give_up)

    def _give_up(self) -> None:
        if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()


def strict(limits: Limits) -> type[Strict]:
    """For one server: uvicorn takes a class, and makes the connections itself."""
    return type("Limited", (Strict,), {"limits": limits})
