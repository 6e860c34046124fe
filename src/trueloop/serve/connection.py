"""uvicorn's HTTP protocol with limits: it has no timeout for headers and no limit on connections."""

import asyncio
import json
import re
from typing import ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from trueloop.serve.app import HEADERS
from trueloop.serve.limits import Limits

__all__ = ["limited_protocol"]

NO_HTTP: Final = json.dumps({"error": "Not an HTTP request, or its headers are too large."}).encode()
REFUSAL: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(NO_HTTP), NO_HTTP)
)
LINGER: Final = 0.5  # Seconds that an idle connection stays open at shutdown: a request may be on its way
UPGRADE: Final = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
"""Some clients ask for HTTP/2 first (Java). The parser would then ignore the body, so it must not see this header."""


class LimitedProtocol(HttpToolsProtocol):
    limits: ClassVar[Limits]
    patience: asyncio.TimerHandle | None = None
    ending = False
    heading = True  # Expecting headers?
    fruitless = 0  # Bytes since the last complete headers or piece of a body

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
            data = UPGRADE.sub(b"\r\nX-Ignored:", head) + end + body
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
        """As JSON, unless an answer has begun. A complete request before it is answered first."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering and not self.cycle.more_body:
            self.cycle.keep_alive = False
            return
        if not self.transport.is_closing() and not (answering and self.cycle.response_started):
            self.transport.write(REFUSAL)
        self.transport.close()

    def shutdown(self) -> None:
        """The current answer, or the next one, says `Connection: close`."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        else:
            self.ending = True
            self.loop.call_later(LINGER, self._give_up)

    def _unsupported_upgrade_warning(self) -> None:
        """The header came with a pipelined request: it is answered, then the connection closes."""
        self.cycle.keep_alive = False

    def _watch(self) -> None:
        """A timeout while headers are expected; further bytes do not reset it."""
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy and self.patience is not None:
            self.patience.cancel()
            self.patience = None
        elif not busy and self.patience is None:
            self.patience = self.loop.call_later(self.limits.timeout, self._give_up)

    def _give_up(self) -> None:
        if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()


def limited_protocol(limits: Limits) -> type[LimitedProtocol]:
    """uvicorn takes a class."""
    return type("Limited", (LimitedProtocol,), {"limits": limits})
