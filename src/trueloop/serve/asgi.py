"""A request as ASGI delivers it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any, final

from starlette.requests import ClientDisconnect

__all__ = ["App", "Message", "PlainRequest", "Receive", "Scope", "Send"]

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


@final
class PlainRequest:
    """Headers and body. starlette's Request costs more than reading the body."""

    __slots__ = ("headers", "receive", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope, self.receive = scope, receive
        headers = ((str(name, "latin-1"), str(value, "latin-1")) for name, value in scope["headers"])
        self.headers: Mapping[str, str] = dict(headers)

    async def stream(self) -> AsyncIterator[bytes]:
        while True:
            message = await self.receive()
            if message["type"] != "http.request":
                raise ClientDisconnect
            yield message.get("body", b"")
            if not message.get("more_body", False):
                return
