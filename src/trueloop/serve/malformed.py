"""Requests that no server should answer with more than a sentence: each does its worst, and says how it was sent
away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from trueloop.serve.client import Address, Connection, Reply, read_reply

__all__ = ["RUBBISH", "Rude"]

HUGE: Final = 100_000_000
"""Bytes of a body that is far too large."""
PIECE: Final = b"1," * 2**15
DRIP: Final = 0.25
"""Seconds between two bytes of a slow caller."""

Rude = Callable[[Address, bytes], Awaitable[Reply]]
"""Takes a body that would have been right."""


async def cut_off(address: Address, body: bytes) -> Reply:
    """Announces all of it, sends half, and goes."""
    async with Connection(address) as connection:
        _, writer = await connection.open()
        writer.write(address.post(body[: len(body) // 2], length=len(body)))
        await writer.drain()
    return Reply(0)


async def half(address: Address, body: bytes) -> Reply:
    return await _once(address, address.post(body[: len(body) // 2]))


async def another_shape(address: Address, body: bytes) -> Reply:
    return await _once(address, address.post(json.dumps({"input": [json.loads(body)["input"]] * 2}).encode()))


async def no_number(address: Address, body: bytes) -> Reply:
    return await _once(address, address.post(json.dumps({"input": _with_nan(json.loads(body)["input"])}).encode()))


async def huge(address: Address, body: bytes) -> Reply:
    """As large as it says."""
    return await _flood(address, address.post(b"", length=HUGE), lambda piece: piece)


async def huge_in_pieces(address: Address, body: bytes) -> Reply:
    """Without saying how large."""
    head = address.head("POST", "/predict", "Content-Type: application/json", "Transfer-Encoding: chunked")
    return await _flood(address, head, lambda piece: f"{len(piece):x}\r\n".encode() + piece + b"\r\n")


async def slow(address: Address, body: bytes) -> Reply:
    """A byte at a time, for as long as it is listened to."""
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


async def too_deep(address: Address, body: bytes) -> Reply:
    return await _once(address, address.post(b'{"input": ' + b"[" * 100_000))


async def no_http(address: Address, body: bytes) -> Reply:
    return await _once(address, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n")


async def many_headers(address: Address, body: bytes) -> Reply:
    return await _once(address, address.post(body, *(f"X-{number}: {'a' * 100}" for number in range(2_000))))


RUBBISH: Final[Mapping[str, Rude]] = {
    "cut off": cut_off,
    "half a body": half,
    "another shape": another_shape,
    "NaN": no_number,
    "100 MB": huge,
    "100 MB in pieces": huge_in_pieces,
    "a slow caller": slow,
    "nested too deep": too_deep,
    "no HTTP": no_http,
    "a flood of headers": many_headers,
}


async def _once(address: Address, request: bytes) -> Reply:
    async with Connection(address) as connection:
        return await connection.ask(request)


async def _flood(address: Address, head: bytes, framed: Callable[[bytes], bytes]) -> Reply:
    """Sends until it is answered, or has sent it all."""
    async with Connection(address) as connection:
        reader, writer = await connection.open()
        answer = asyncio.ensure_future(read_reply(reader))
        writer.write(head)
        piece, left = framed(PIECE), HUGE
        with suppress(ConnectionError):  # closed on us: what the server said before is what counts
            while left > 0 and not answer.done():
                writer.write(piece)
                left -= len(PIECE)
                await writer.drain()
        return await answer


def _with_nan(value: Any) -> Any:
    return [_with_nan(value[0]), *value[1:]] if isinstance(value, list) else float("nan")
