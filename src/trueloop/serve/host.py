"""What every server has: limits, an API key, metrics, a beginning and an end."""

import asyncio
import hashlib
import hmac
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping

from trueloop.serve.limits import Budget, Limits
from trueloop.serve.metrics import Metrics

__all__ = ["Host"]


class Host(ABC):
    def __init__(self, limits: Limits, key: str) -> None:
        self.limits = limits
        self.key = hashlib.sha256(key.encode()).digest() if key else b""
        self.metrics = Metrics(lambda: self.waiting, lambda: self.ready)
        self.budget = Budget(limits.held, "The server is reading too many requests")
        self.unread = Budget(limits.unread, "The server is sending too many answers that are not read")
        self.tasks: set[asyncio.Task[object]] = set()
        self.draining = False  # After SIGTERM: requests on open connections are still answered, then closed

    def accepts_key(self, headers: Mapping[bytes, bytes]) -> bool:
        """`Authorization: Bearer KEY` (the scheme in any case) or `X-API-Key: KEY`, compared in constant time."""
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not given.strip():
            given = headers.get(b"x-api-key", b"")
        return not self.key or hmac.compare_digest(hashlib.sha256(given.strip()).digest(), self.key)

    def keep(self, work: Coroutine[object, object, object]) -> asyncio.Task[object]:
        """A task that continues after the request that began it."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    @property
    @abstractmethod
    def waiting(self) -> int:
        """Samples or texts in the queue."""

    @property
    @abstractmethod
    def ready(self) -> bool: ...

    @property
    @abstractmethod
    def failure(self) -> BaseException | None:
        """Why a model could not be loaded."""

    @abstractmethod
    def start(self, started: Callable[[], None]) -> None:
        """`started` is called once: when all is ready, or has failed to load."""

    @abstractmethod
    def stop(self) -> None:
        """The queue is still computed."""

    @abstractmethod
    def close(self, seconds: float) -> None:
        """What is not computed within these seconds never will be."""

    @abstractmethod
    async def reload_all(self, say: Callable[[str], None]) -> None:
        """After SIGHUP."""
