"""The server process: a socket, uvicorn with stricter connections, and a graceful shutdown."""

import asyncio
import gc
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, Protocol, final

import uvicorn

from trueloop.errors import Misuse
from trueloop.serve.app import Middleware, build_app
from trueloop.serve.connection import limited_protocol
from trueloop.serve.host import Host
from trueloop.serve.metrics import MALFORMED
from trueloop.serve.service import Service
from trueloop.serve.text_service import TextRoutes, TextService

__all__ = ["listen", "run"]

KEEP_ALIVE: Final = 75  # Seconds
BACKLOG: Final = 512
SENT: Final = 2**17  # Bytes of an answer that the system keeps for a caller that does not read; Linux doubles it
SPARE_FILES: Final = 200  # For everything but connections
LAST: Final = 0.2  # Seconds for the model's thread to end


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    """Port 0: any free one. Raises Misuse."""
    if not host:
        raise Misuse("--host '' means every address of this machine. Nothing was served: for that, --host 0.0.0.0.")
    if not 0 <= port < 2**16:
        raise Misuse(f"{option} {port} is not a valid port (0 to 65535). Nothing was served.")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        door = socket.create_server((host, port), family=family, backlog=BACKLOG)
        door.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENT)  # of its connections too
        return door
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]  # newer Pythons repeat the address
        advice = f"Nothing was served: choose another {option}, or {option} 0."
        raise Misuse(f"Cannot listen on {host}:{port} ({why}). {advice}") from None


class Beside(Protocol):
    """Another server in the same event loop: that of gRPC, which is an extra."""

    async def start(self) -> None: ...

    async def stop(self, seconds: float) -> None: ...


def run(
    service: Host,
    listener: socket.socket,
    say: Callable[[str], None],
    *,
    log: bool = False,
    beside: Beside | None = None,
) -> None:
    """Until SIGTERM or Ctrl-C. Raises the error that prevented opening the model."""
    begun = time.perf_counter()
    server: Server | None = None

    def started() -> None:
        if service.failure is not None and server is not None:
            server.should_exit = True
        else:
            gc.collect()
            gc.freeze()  # the collector need not scan what stays forever
            say(f"ready after {time.perf_counter() - begun:.1f} s")

    config = uvicorn.Config(
        _build(service, started, say if log else None),
        http=limited_protocol(service.limits, lambda: service.metrics.answered(MALFORMED, 400, 0.0)),
        ws="none",
        interface="asgi3",
        lifespan="on",
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(service.limits.grace)),
    )
    _allow_files(2 * service.limits.connections + SPARE_FILES)
    server = Server(config, service, say, beside)
    try:
        server.run(sockets=[listener])
    finally:
        service.close(LAST)
    if service.failure is not None:
        raise service.failure


def _build(service: Host, started: Callable[[], None], log: Callable[[str], None] | None) -> Middleware:
    if isinstance(service, TextService):
        return Middleware(TextRoutes(service, started), service, log)
    assert isinstance(service, Service)
    return build_app(service, started, log)


def _allow_files(count: int) -> None:
    """A connection is an open file, and many systems allow a process only 1,024 unless it asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(count, hard), hard)
        )


@final
class Server(uvicorn.Server):
    """Ends with exit code 0 on a signal; uvicorn would raise the signal again."""

    def __init__(
        self, config: uvicorn.Config, service: Host, say: Callable[[str], None], beside: Beside | None
    ) -> None:
        super().__init__(config)
        self.service, self.say, self.beside = service, say, beside
        self.hangup = False  # SIGHUP came

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._end) for number in (signal.SIGTERM, signal.SIGINT)}
        before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hang_up)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.beside is not None and not self.should_exit:
            await self.beside.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.beside is not None:
            # Among uvicorn's own tasks: it waits for them, within the grace period, before the models are stopped.
            ending = asyncio.create_task(self.beside.stop(self.service.limits.grace))
            self.server_state.tasks.add(ending)
            ending.add_done_callback(self.server_state.tasks.discard)
        await super().shutdown(sockets)

    def _hang_up(self, number: int, frame: FrameType | None) -> None:
        self.hangup = True

    async def on_tick(self, counter: int) -> bool:
        if self.hangup:
            self.hangup = False
            self.service.keep(self.service.reload_all(self.say))
        return await super().on_tick(counter)

    def _end(self, number: int, frame: FrameType | None) -> None:
        if self.service.draining:
            self.force_exit = True  # the second signal
            return
        self.service.draining = True
        self.should_exit = True
        self.say(f"{signal.Signals(number).name}: finishing open requests, within {self.service.limits.grace:g} s")
