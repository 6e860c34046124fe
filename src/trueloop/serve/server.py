"""The process: a socket, uvicorn behind a stricter door, and an end that answers everybody who is still waiting."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from trueloop.errors import Misuse
from trueloop.serve.app import HEADERS, build_app
from trueloop.serve.limits import Limits
from trueloop.serve.service import Service

__all__ = ["listening", "run"]

KEEP: Final = 75
"""Seconds that a connection may stay open without a question."""
BACKLOG: Final = 512
LAST: Final = 0.2
"""Seconds for the model's thread to end, once nobody waits for it."""


def listening(host: str, port: int) -> socket.socket:
    """Raises Misuse. Port 0: any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if not 0 <= port < 2**16:
        raise Misuse(f"--port {port} is none. Nothing was served: write a number from 0 to 65535.")
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]  # newer Pythons say it twice
        raise Misuse(f"{host}:{port} cannot be listened at ({why}). Nothing was served: choose another --port, or --port 0.") from None


def run(service: Service, door: socket.socket, say: Callable[[str], None], *, log: bool = False) -> None:
    """Until SIGTERM or Ctrl-C. Raises what kept the model from being opened."""
    begun = time.perf_counter()
    server: Server | None = None

    def started() -> None:
        if service.batcher.failure is not None and server is not None:
            server.should_exit = True
        else:
            gc.collect()
            gc.freeze()  # what is there now stays for good: looking through it again and again would only make callers wait
            say(f"ready after {time.perf_counter() - begun:.1f} s")

    app = build_app(service, started, say if log else None)
    server = Server(
        uvicorn.Config(
            app,
            http=_strict(service.limits),
            ws="none",
            interface="asgi3",
            lifespan="on",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=HEADERS,
            timeout_keep_alive=KEEP,
            timeout_graceful_shutdown=max(1, round(service.limits.grace)),
        ),
        service,
        say,
    )
    server.run(sockets=[door])
    service.batcher.thread.join(LAST)
    if service.batcher.failure is not None:
        raise service.batcher.failure


@final
class Server(uvicorn.Server):
    """Ends with 0 when it is told to end: uvicorn would raise the signal again, and die of it."""

    def __init__(self, config: uvicorn.Config, service: Service, say: Callable[[str], None]) -> None:
        super().__init__(config)
        self.service, self.say = service, say

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._end) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _end(self, number: int, frame: FrameType | None) -> None:
        if self.service.draining:
            self.force_exit = True  # asked twice
            return
        self.service.draining = True
        self.should_exit = True
        self.say(f"{signal.Signals(number).name}: answering what is still asked, within {self.service.limits.grace:g} s")


def _strict(limits: Limits) -> type[H11Protocol]:
    """uvicorn's HTTP, which waits for headers for ever, with an end to its patience and to the number of connections."""

    @final
    class Strict(H11Protocol):
        """A connection."""

        patience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.abort()
            else:
                self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self.patience is not None:
                self.patience.cancel()

        def send_400_response(self, msg: str) -> None:
            """As JSON, and only where no answer has begun."""
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                body = json.dumps({"error": "This is no HTTP request, or its headers are too large."}).encode()
                headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
                self._write(h11.Response(status_code=400, headers=headers, reason=b"Bad Request"), h11.Data(data=body), h11.EndOfMessage())
            self.transport.close()

        def _write(self, *events: Any) -> None:
            for event in events:
                self.transport.write(self.conn.send(event) or b"")

        def _watch(self) -> None:
            """While headers are due, a clock runs; it is not set back by further bytes."""
            busy = self.cycle is not None and not self.cycle.response_complete
            if busy and self.patience is not None:
                self.patience.cancel()
                self.patience = None
            elif not busy and self.patience is None:
                self.patience = self.loop.call_later(limits.timeout, self._give_up)

        def _give_up(self) -> None:
            if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
                self.transport.close()

    return Strict
