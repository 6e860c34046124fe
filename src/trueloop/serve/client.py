"""A minimal HTTP client for load tests: one keep-alive connection with access to its raw streams."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Final, Self, final
from urllib.parse import urlsplit

from trueloop.errors import Misuse

__all__ = ["Address", "Connection", "Reply"]

LONGEST: Final = 2**16  # Bytes of an answer's headers


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    secure: bool = False
    key: str = ""  # API key

    @classmethod
    def of(cls, url: str, key: str = "") -> Address:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
            raise Misuse(f"{url!r} is not a server address. Nothing was sent: write http://HOST:PORT.")
        secure = parts.scheme == "https"
        return cls(parts.hostname, port or (443 if secure else 80), secure, key)

    def head(self, method: str, path: str, *lines: str) -> bytes:
        key = (f"X-API-Key: {self.key}",) if self.key else ()
        first = (f"{method} {path} HTTP/1.1", f"Host: {self.host}:{self.port}")
        return "\r\n".join((*first, *key, *lines, "", "")).encode()

    def post(self, body: bytes, *lines: str, length: int | None = None) -> bytes:
        """A request. `length`: announce another Content-Length."""
        announced = f"Content-Length: {len(body) if length is None else length}"
        return self.head("POST", "/predict", "Content-Type: application/json", announced, *lines) + body


@dataclass(frozen=True, slots=True)
class Reply:
    """Status 0: the connection was closed without an answer."""

    status: int
    body: bytes = b""
    last: bool = False  # The server closes the connection
    later: float = 0.0  # Retry-After, in seconds


@final
class Connection:
    """Opened on first use and after the server closed it; closed at the end of its `async with`."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.streams is None:
            secure = ssl.create_default_context() if self.address.secure else None
            host, port = self.address.host, self.address.port
            self.streams = await asyncio.open_connection(host, port, ssl=secure, limit=LONGEST)
        return self.streams

    async def ask(self, request: bytes) -> Reply:
        reader, writer = await self.open()
        writer.write(request)
        reply = await read_reply(reader)
        if reply.last or reply.status == 0:
            await self.close()
        return reply

    async def get(self, path: str) -> Reply:
        return await self.ask(self.address.head("GET", path))

    async def close(self) -> None:
        if self.streams is not None:
            writer = self.streams[1]
            self.streams = None
            writer.transport.abort()  # drop unsent data
            await asyncio.sleep(0)  # the transport closes in the next iteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        lines = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        body = await reader.readexactly(int(lines.get("content-length", "0")))
    except (asyncio.IncompleteReadError, ConnectionError):
        return Reply(0)
    later = lines.get("retry-after", "0")
    return Reply(
        int(head.split(" ", 2)[1]), body, lines.get("connection") == "close", float(later) if later.isdecimal() else 0.0
    )
