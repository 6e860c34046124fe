"""Malformed and abusive requests, for load tests: each returns how the server answered."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from trueloop.serve.client import Address, Connection, Reply, read_reply

__all__ = ["MALFORMED"]

HUGE: Final = 100_000_000  # Bytes
PIECE: Final = b"1," * 2**15
DRIP: Final = 0.25  # Seconds between two bytes of a slow caller
TLS_HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n"


async def cut_off(address: Address, body: bytes) -> Reply:
    """Announces the full length, sends half, and disconnects."""
    async with Connection(address) as connection:
        _, writer = await connection.open()
        writer.write(address.post(body[: len(body) // 2], length=len(body)))
        await writer.drain()
    return Reply(0)


async def slow(address: Address, body: bytes) -> Reply:
    """Sends one byte at a time until the server gives up."""
    async with Connection(address) as connection:
        reader, writer = await connection.open()
        writer.write(address.post(b"", length=len(body)))
        answer = asyncio.ensure_future(read_reply(reader))
        for at in range(len(body)):
            if answer.done() or writer.transport.is_closing():
                break
            writer.write(body[at : at + 1])
            await asyncio.wait({answer}, timeout=DRIP)
        return await answer


async def huge(address: Address, body: bytes) -> Reply:
    """With a correct Content-Length."""
    return await _flood(address, address.post(b"", length=HUGE), lambda piece: piece)


async def huge_chunked(address: Address, body: bytes) -> Reply:
    """Without a Content-Length."""
    head = address.head("POST", "/predict", "Content-Type: application/json", "Transfer-Encoding: chunked")
    return await _flood(address, head, lambda piece: f"{len(piece):x}\r\n".encode() + piece + b"\r\n")


async def _flood(address: Address, head: bytes, framed: Callable[[bytes], bytes]) -> Reply:
    """Sends until the server answers or everything is sent."""
    async with Connection(address) as connection:
        reader, writer = await connection.open()
        answer = asyncio.ensure_future(read_reply(reader))
        writer.write(head)
        piece, left = framed(PIECE), HUGE
        with suppress(ConnectionError):  # the server's answer before it closed counts
            while left > 0 and not answer.done():
                writer.write(piece)
                left -= len(PIECE)
                await writer.drain()
        return await answer


def _request(make: Callable[[Address, bytes], bytes]) -> Callable[[Address, bytes], Awaitable[Reply]]:
    """A single request, made from the address and a valid body."""

    async def ask(address: Address, body: bytes) -> Reply:
        async with Connection(address) as connection:
            return await connection.ask(make(address, body))

    return ask


def _changed(body: bytes, change: Callable[[Any], Any]) -> bytes:
    return json.dumps({"input": change(json.loads(body)["input"])}).encode()


def _with_nan(value: Any) -> Any:
    return [_with_nan(value[0]), *value[1:]] if isinstance(value, list) else float("nan")


MALFORMED: Final[Mapping[str, Callable[[Address, bytes], Awaitable[Reply]]]] = {
    "disconnected": cut_off,
    "half a body": _request(lambda address, body: address.post(body[: len(body) // 2])),
    "wrong shape": _request(lambda address, body: address.post(_changed(body, lambda value: [value] * 2))),
    "NaN": _request(lambda address, body: address.post(_changed(body, _with_nan))),
    "100 MB": huge,
    "100 MB chunked": huge_chunked,
    "slow": slow,
    "deeply nested": _request(lambda address, _: address.post(b'{"input": ' + b"[" * 100_000)),
    "not HTTP": _request(lambda *_: TLS_HELLO),
    "huge headers": _request(lambda address, body: address.post(body, *(f"X-{n}: {'a' * 100}" for n in range(2_000)))),
}
"""Name -> sends it; takes a valid body."""
