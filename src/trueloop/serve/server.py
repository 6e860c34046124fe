"""The process: a socket, uvicorn behind a stricter door, and an end that answers everybody who is still waiting."""

from __future__ import annotations

import gc
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, final

import uvicorn

from trueloop.errors import Misuse
from trueloop.serve.app import build_app
from trueloop.serve.connection import strict
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
    if not host:
        raise Misuse(
            "--host '' would be every address of this machine. Nothing was served: write --host 0.0.0.0 if you mean that."
        )
    if not 0 <= port < 2**16:
        raise Misuse(f"--port {port} is none. Nothing was served: write a number from 0 to 65535.")
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]  # newer Pythons say it twice
        raise Misuse(
            f"{host}:{port} cannot be listened at ({why}). Nothing was served: choose another --port, or --port 0."
        ) from None


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
            http=strict(service.limits),
            ws="none",
            interface="asgi3",
            lifespan="on",
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
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
        self.say(
            f"{signal.Signals(number).name}: answering what is still asked, within {self.service.limits.grace:g} s"
        )
