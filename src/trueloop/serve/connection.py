"""uvicorn's HTTP protocol with limits: it has no timeouts for headers and for answers that nobody reads, no limit on
connections or on pipelined requests, and does not cancel the work for a caller that left."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from trueloop.serve.app import CROWDED, HEADERS, LEFT
from trueloop.serve.limits import Limits

__all__ = ["limited_protocol"]

NO_HTTP: Final = json.dumps({"error": "Not an HTTP request, or its headers are too large."}).encode()
REFUSAL: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(NO_HTTP), NO_HTTP)
)
LINGER: Final = 0.5  # Seconds that an idle connection stays open at shutdown: a request may be on its way
CROWDED_SECONDS: Final = 1.0  # For the only request of a connection beyond the limit
BUFFERED: Final = 2**15  # Bytes of an answer that the transport keeps for a caller that does not read
UPGRADE: Final = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
"""Some clients ask for HTTP/2 first (Java). The parser would then ignore the body, so it must not see this header."""


class TooManyPipelined(Exception):
    """Raised inside the parser, which then reads nothing further."""


class LimitedProtocol(HttpToolsProtocol):
    limits: ClassVar[Limits]
    clients: ClassVar[Counter[str]]  # Open connections by address
    malformed: Callable[[], None]  # Counts a request that the parser refused
    patience: asyncio.TimerHandle | None = None
    unread: asyncio.TimerHandle | None = None
    answering: RequestResponseCycle | None = None
    task: asyncio.Task[None] | None = None  # Of `answering`
    address = ""
    crowded = False  # Opened beyond the limits?
    ending = False
    heading = True  # Expecting headers?
    fruitless = 0  # Bytes since the last complete headers or piece of a body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(BUFFERED)
        self.address = self.client[0] if self.client else ""
        self.clients[self.address] += 1
        limits = self.limits
        if len(self.connections) > 2 * limits.connections:
            transport.abort()
            return
        self.crowded = len(self.connections) > limits.connections or self.clients[self.address] > limits.per_client
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self.parser is None or self.transport.is_closing():
            return
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
        if len(self.pipeline) >= self.limits.pipelined:
            raise TooManyPipelined
        self.scope["state"][CROWDED] = self.crowded
        super().on_headers_complete()
        if self.ending or self.crowded:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        self.heading = True
        super().on_message_complete()

    def on_body(self, body: bytes) -> None:
        self.fruitless = 0
        super().on_body(body)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.clients[self.address] -= 1
        if not self.clients[self.address]:
            del self.clients[self.address]
        for timer in (self.patience, self.unread):
            if timer is not None:
                timer.cancel()
        self.pipeline.clear()
        if self.answering is not None and self.task is not None and not self.task.done():
            self.answering.disconnected = True  # uvicorn sets it for the last pipelined request only
            self.answering.scope["state"][LEFT] = True
            self.task.cancel()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """As uvicorn does it, but the task is kept, to cancel it when the caller leaves."""
        self.answering = cycle
        self.task = task = self.loop.create_task(cycle.run_asgi(app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    # -- callers that do not read --

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.unread is None:
            self.unread = self.loop.call_later(self.limits.timeout, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.unread is not None and not self.transport.is_closing():
            self.unread.cancel()
            self.unread = None

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._close()
        elif not self.pipeline and (
            2 * len(self.connections) > self.limits.connections
            or 2 * self.clients[self.address] > self.limits.per_client
        ):
            self._watch()  # idle connections make room for others sooner

    def _close(self) -> None:
        """What is written is still sent, within the timeout."""
        self.transport.close()
        if self.unread is None and self.transport.get_write_buffer_size():
            self.unread = self.loop.call_later(self.limits.timeout, self.transport.abort)

    # -- refusals and the end --

    def send_400_response(self, msg: str) -> None:
        """As JSON, unless an answer has begun. A complete request before it is answered first."""
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering and not self.cycle.more_body:
            self.cycle.keep_alive = False
            return
        if not self.transport.is_closing() and not (answering and self.cycle.response_started):
            self.transport.write(REFUSAL)
            self.malformed()
        self._close()

    def shutdown(self) -> None:
        """The current answer, or the next one, says `Connection: close`."""
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        else:
            self.ending = True
            self.loop.call_later(LINGER, self._give_up)

    def timeout_keep_alive_handler(self) -> None:
        self._give_up()

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
            seconds = min(CROWDED_SECONDS, self.limits.timeout) if self.crowded else self.limits.timeout
            self.patience = self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self._close()


def limited_protocol(limits: Limits, malformed: Callable[[], None]) -> type[LimitedProtocol]:
    """uvicorn takes a class. `malformed` is called for each request that the parser refuses."""
    own = {"limits": limits, "clients": Counter(), "malformed": staticmethod(malformed)}
    return type("Limited", (LimitedProtocol,), own)
