"""The same server on a cluster of Ray: each replica of Ray Serve is the whole application, with its own queue and
batches, behind Ray's HTTP proxy."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any, final

import ray
from ray import serve

from trueloop.serve.app import build_app
from trueloop.serve.asgi import App, Message, Receive, Scope, Send
from trueloop.serve.limits import Limits
from trueloop.serve.model import Source
from trueloop.serve.service import Service

__all__ = ["ReadyApp", "run_on_ray"]


@final
class ReadyApp:
    """An application that has started only when its models are ready: Ray then sends it requests."""

    def __init__(self, service: Service) -> None:
        self.service, self.started = service, asyncio.Event()
        self.app: App = build_app(service, self.started.set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def held(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                await self.started.wait()
                if self.service.failure is not None:
                    message = {"type": "lifespan.startup.failed", "message": str(self.service.failure)}
            await send(message)

        await self.app(scope, receive, held if scope["type"] == "lifespan" else send)


def run_on_ray(
    sources: Sequence[Source],
    limits: Limits,
    key: str,
    *,
    host: str,
    port: int,
    replicas: int,
    say: Callable[[str], None],
) -> None:
    """Until SIGTERM or Ctrl-C, on the cluster of RAY_ADDRESS, or a new one on this machine."""

    def build() -> Any:  # in a replica
        return ReadyApp(Service(sources, limits, key=key))

    replica = serve.ingress(build)(type("Replica", (), {}))
    options = {"num_replicas": replicas, "max_ongoing_requests": limits.queue}
    deployment = serve.deployment(replica, name="trueloop", graceful_shutdown_timeout_s=limits.grace, **options)
    ended = threading.Event()
    try:
        ray.init(logging_level="error", include_dashboard=False)
        serve.start(http_options={"host": host, "port": port})
        serve.run(deployment.bind(), name="trueloop", route_prefix="/")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())  # after Ray has set its own, which abort
        say("ready")
        ended.wait()
    finally:
        serve.shutdown()
        ray.shutdown()
