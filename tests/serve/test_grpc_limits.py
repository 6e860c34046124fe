"""gRPC clients that open too many calls, or calls without a message: they are refused, and others are served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest

from tests.serve.made import PATIENCE, artifact, shade
from trueloop.export.exporter import FakeRunner
from trueloop.serve.limits import Limits
from trueloop.serve.model import Source
from trueloop.serve.server import listen
from trueloop.serve.service import Service

grpc = pytest.importorskip("grpc")
from trueloop.serve.grpc_messages import SERVICE, build_messages  # noqa: E402 - after importorskip
from trueloop.serve.grpc_server import GrpcServer, _address  # noqa: E402

MESSAGES = build_messages()
TENSOR = {"name": "input", "datatype": "UINT8", "shape": (1, 1, 3, 4)}
REQUEST = MESSAGES["ModelInferRequest"](model_name="shades", inputs=[TENSOR], raw_input_contents=[bytes(12)])
INFER = REQUEST.SerializeToString()


def ask(channel: Any, method: str, body: bytes = b"") -> Any:
    return channel.unary_unary(f"/{SERVICE}/{method}")(body, timeout=PATIENCE, wait_for_ready=True)


def ask_without_end(channel: Any) -> Any:
    """A call whose message never comes."""
    return channel.stream_unary(f"/{SERVICE}/ModelInfer")(timeout=PATIENCE, wait_for_ready=True)


async def refusal(call: Any) -> tuple[Any, str, dict[str, str]]:
    with pytest.raises(grpc.RpcError):
        await call
    return await call.code(), await call.details(), dict(await call.trailing_metadata())


@asynccontextmanager
async def serving(**limits: Any) -> AsyncIterator[tuple[GrpcServer, int]]:
    open_runner = partial(FakeRunner, shade)
    service = Service([Source(lambda: (artifact(), open_runner))], Limits(**limits))
    with listen("127.0.0.1", 0) as door:
        port = door.getsockname()[1]
    server, ready = GrpcServer(service, "127.0.0.1", port), asyncio.Event()
    service.start(ready.set)
    await server.start()
    try:
        await ready.wait()
        yield server, port
    finally:
        await server.stop(0)
        service.stop()
        service.close(10.0)


@asynccontextmanager
async def other_address(port: int) -> AsyncIterator[str]:
    """An address whose connections reach the port from 127.0.0.2: a gRPC client cannot choose where it calls from."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, on = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.2", 0))
        await asyncio.gather(copied(reader, on), copied(back, writer))

    async def copied(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while piece := await source.read(2**16):
            sink.write(piece)
        sink.close()

    relay = await asyncio.start_server(forward, "127.0.0.1", 0)
    yield f"127.0.0.1:{relay.sockets[0].getsockname()[1]}"
    relay.close()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.01)


def run(test: Callable[[AsyncExitStack], Awaitable[None]]) -> None:
    async def within() -> None:
        async with AsyncExitStack() as stack:
            await test(stack)

    asyncio.run(asyncio.wait_for(within(), 2 * PATIENCE))


def test_a_client_with_too_many_open_calls_is_refused_and_others_are_served() -> None:
    async def test(stack: AsyncExitStack) -> None:
        server, port = await stack.enter_async_context(serving(per_client=3, queue=32))
        elsewhere = await stack.enter_async_context(other_address(port))
        greedy = [await stack.enter_async_context(channel(f"127.0.0.1:{port}", at)) for at in range(2)]
        other = await stack.enter_async_context(channel(elsewhere))
        held = [ask_without_end(greedy[at % 2]) for at in range(3)]
        await until(lambda: server.calls["ipv4:127.0.0.1"] == 3)
        for each in greedy:
            code, sentence, more = await refusal(ask(each, "ModelInfer", INFER))
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert sentence == "You have too many open calls: try again in a second."
            assert more["retry-after"] == "1"
        assert await ask(greedy[0], "ServerLive")  # as /health
        assert await ask(greedy[0], "ServerReady")
        assert await ask(other, "ModelInfer", INFER)
        assert b'path="grpc/infer",status="429"} 2.0' in server.service.metrics.text()
        for call in held:
            call.cancel()
        await until(lambda: not server.calls["ipv4:127.0.0.1"])
        assert await ask(greedy[0], "ModelInfer", INFER)
        await until(lambda: not server.calls)  # nothing is kept of clients that have no call

    run(test)


def test_all_clients_together_have_a_limit_and_may_still_ask_whether_it_lives() -> None:
    async def test(stack: AsyncExitStack) -> None:
        server, port = await stack.enter_async_context(serving(connections=2, queue=32))
        client = await stack.enter_async_context(channel(f"127.0.0.1:{port}"))
        held = [ask_without_end(client) for _ in range(2)]
        await until(lambda: server.calls.total() == 2)
        code, sentence, _ = await refusal(ask(client, "ModelInfer", INFER))
        assert (code, sentence) == (
            grpc.StatusCode.UNAVAILABLE,
            "The server has too many open calls: try again in a second.",
        )
        assert await ask(client, "ServerLive")
        for call in held:
            call.cancel()

    run(test)


def test_a_call_whose_message_does_not_come_ends_after_the_timeout() -> None:
    async def test(stack: AsyncExitStack) -> None:
        server, port = await stack.enter_async_context(serving(timeout=0.3))
        client = await stack.enter_async_context(channel(f"127.0.0.1:{port}"))
        code, sentence, _ = await refusal(ask_without_end(client))
        assert (code, sentence) == (
            grpc.StatusCode.DEADLINE_EXCEEDED,
            "The message was not sent within 0.3 seconds.",
        )
        empty = client.stream_unary(f"/{SERVICE}/ModelInfer")(timeout=PATIENCE)
        await empty.done_writing()
        assert (await refusal(empty))[:2] == (grpc.StatusCode.INVALID_ARGUMENT, "The call has no message.")
        assert not server.service.budget.taken

    run(test)


@asynccontextmanager
async def channel(address: str, own: int = 0) -> AsyncIterator[Any]:
    """`own`: channels with the same number share a connection."""
    async with grpc.aio.insecure_channel(address, options=(("test.own", own),)) as made:
        yield made


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.1:50000", "ipv4:10.0.0.1"),
        ("ipv6:%5B::1%5D:50000", "ipv6:%5B::1%5D"),
        ("unix:/run/a.sock", "unix:/run/a.sock"),
    ],
)
def test_a_client_is_its_address_without_the_port(peer: str, address: str) -> None:
    assert _address(peer) == address
