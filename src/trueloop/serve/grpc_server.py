"""The KServe v2 protocol over gRPC, beside the HTTP routes: the same models, queue, limits, API key and metrics.

Messages arrive as bytes and are parsed here, so that their size and their errors are ours to count.
"""

import asyncio
import sys
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, final

import grpc
from google.protobuf.message import DecodeError

from trueloop import __version__
from trueloop.errors import Misuse
from trueloop.serve.app import CLOSED, FAILED, HEADERS, NO_KEY
from trueloop.serve.grpc_messages import METHODS, SERVICE, build_messages
from trueloop.serve.inputs import Inputs
from trueloop.serve.kserve import Infer, answer_tensors, model_metadata, wanted_tensors
from trueloop.serve.limits import RETRY, Refused
from trueloop.serve.metrics import GRPC, GRPC_INFER
from trueloop.serve.service import INLINE, Service

__all__ = ["GrpcServer", "infer_of"]

OPEN: Final = frozenset(("ServerLive", "ServerReady"))  # Methods without an API key, answered beyond the limits too
CODES: Final[Mapping[int, grpc.StatusCode]] = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}
"""The status that HTTP has for a refusal -> that of gRPC; others are INTERNAL."""
CONTENTS: Final[Mapping[str, str]] = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
}
"""Datatype -> field of InferTensorContents. FP16 has none: it is always sent as raw bytes."""
IDLE: Final = 75_000  # Milliseconds until a connection without requests is closed, as over HTTP
Answer = Callable[[Any], Awaitable[Any]]


@final
class GrpcServer:
    """`start()` in the event loop of the HTTP server, `stop()` at its end."""

    def __init__(self, service: Service, host: str, port: int, log: Callable[[str], None] | None = None) -> None:
        self.service, self.log = service, log
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.messages = build_messages()
        self.server: grpc.aio.Server | None = None
        self.calls: Counter[str] = Counter()  # Open calls by address
        self.answers: dict[str, Answer] = {
            "ServerLive": self._server_live,
            "ServerReady": self._server_ready,
            "ModelReady": self._model_ready,
            "ServerMetadata": self._server_metadata,
            "ModelMetadata": self._model_metadata,
            "ModelInfer": self._model_infer,
        }

    async def start(self) -> None:
        """Raises Misuse: the port is taken."""
        limits = self.service.limits
        patience = int(limits.timeout * 1e3)
        options = {
            "grpc.so_reuseport": 0,  # else a second server on the same port would take half of the requests
            "grpc.max_receive_message_length": limits.body,
            "grpc.max_send_message_length": -1,
            "grpc.max_metadata_size": HEADERS,
            "grpc.absolute_max_metadata_size": HEADERS,
            "grpc.max_allowed_incoming_connections": limits.connections,
            "grpc.max_concurrent_streams": limits.queue,
            "grpc.max_connection_idle_ms": IDLE,
            "grpc.server_handshake_timeout_ms": patience,
            "grpc.keepalive_time_ms": patience,  # a caller that reads nothing does not answer the ping either
            "grpc.keepalive_timeout_ms": patience,
        }
        server = grpc.aio.server(options=list(options.items()), maximum_concurrent_rpcs=2 * limits.connections)
        # As streams, so that a call is counted from its first byte on, and not only when its message is complete.
        handlers = {name: grpc.stream_unary_rpc_method_handler(partial(self._handle, name)) for name in METHODS}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        try:
            server.add_insecure_port(self.address)
        except RuntimeError:
            advice = "Nothing was served: choose another --grpc."
            raise Misuse(f"Cannot listen for gRPC on {self.address} (Address already in use). {advice}") from None
        self.server = server
        await server.start()

    async def stop(self, seconds: float) -> None:
        """New requests are refused at once; open ones have these seconds."""
        if self.server is not None:
            await self.server.stop(seconds)

    # -- around every method --

    async def _handle(self, name: str, messages: AsyncIterator[bytes], context: Any) -> bytes:
        begun, status = time.perf_counter(), 200
        stack = ExitStack()  # what the call holds until its answer is sent
        context.add_done_callback(lambda _: stack.close())
        try:
            self._count(name, _address(context.peer()), stack)
            self._check_key(name, context)
            # These two ask for nothing; waiting for their message would give a crowd more to hold.
            answer = await self._answer(name, b"" if name in OPEN else await self._message(messages))
            stack.enter_context(self.service.unread.share()).take(len(answer))
            return answer
        except Refused as refused:
            status = refused.status
            again = tuple((key.lower(), value) for key, value in refused.headers.items() if key == "Retry-After")
            await context.abort(CODES.get(status, grpc.StatusCode.INTERNAL), refused.sentence, again)
        except asyncio.CancelledError:
            status = CLOSED
            raise
        except Exception:  # noqa: BLE001 - our own failure: the details are in the log
            status = 500
            traceback.print_exc(file=sys.stderr)
            await context.abort(grpc.StatusCode.INTERNAL, FAILED)
        finally:
            seconds = time.perf_counter() - begun
            self.service.metrics.answered(GRPC_INFER if name == "ModelInfer" else GRPC, status, seconds)
            if self.log is not None:
                self.log(f"gRPC {name} {status} {seconds * 1e3:.1f} ms")
        raise AssertionError("abort() raises")

    def _count(self, name: str, client: str, stack: ExitStack) -> None:
        """As connections of HTTP are counted, but calls: a client has many of them on one connection."""
        self.calls[client] += 1
        stack.callback(self._uncount, client)
        limits = self.service.limits
        if name in OPEN:
            return
        if self.calls[client] > limits.per_client:
            raise Refused(429, "You have too many open calls: try again in a second.", RETRY)
        if self.calls.total() > limits.connections:
            raise Refused(503, "The server has too many open calls: try again in a second.", RETRY)

    def _uncount(self, client: str) -> None:
        self.calls[client] -= 1
        if not self.calls[client]:
            del self.calls[client]

    async def _message(self, messages: AsyncIterator[bytes]) -> bytes:
        seconds = self.service.limits.timeout
        try:
            async with asyncio.timeout(seconds):
                return await anext(messages)
        except StopAsyncIteration:
            raise Refused(400, "The call has no message.") from None
        except TimeoutError:
            raise Refused(408, f"The message was not sent within {seconds:g} seconds.") from None

    def _check_key(self, name: str, context: Any) -> None:
        metadata = {
            key.encode(): value if isinstance(value, bytes) else value.encode()
            for key, value in context.invocation_metadata()
        }
        if name not in OPEN and not self.service.accepts_key(metadata):
            raise Refused(401, NO_KEY)

    async def _answer(self, name: str, body: bytes) -> bytes:
        with self.service.budget.share() as share:
            share.take(len(body))
            request = self.messages[f"{name}Request"]()
            try:
                request.ParseFromString(body)
            except DecodeError:
                raise Refused(400, f"The bytes are not a message {name}Request.") from None
            answer = await self.answers[name](request)
        data: bytes = answer.SerializeToString()
        return data

    # -- the methods --

    async def _server_live(self, _: Any) -> Any:
        return self.messages["ServerLiveResponse"](live=True)

    async def _server_ready(self, _: Any) -> Any:
        return self.messages["ServerReadyResponse"](ready=self.service.ready and not self.service.draining)

    async def _model_ready(self, request: Any) -> Any:
        model = self.service.named(request.name, request.version)
        return self.messages["ModelReadyResponse"](ready=model.batcher.ready and not self.service.draining)

    async def _server_metadata(self, _: Any) -> Any:
        return self.messages["ServerMetadataResponse"](name="trueloop", version=__version__)

    async def _model_metadata(self, request: Any) -> Any:
        model = self.service.named(request.name, request.version)
        told = model_metadata(model.artifact, model.name, self.service.numbers(model.name))
        return self.messages["ModelMetadataResponse"](**told)

    async def _model_infer(self, request: Any) -> Any:
        service = self.service
        with service.using(service.named(request.model_name, request.model_version)) as model:
            with service.metrics.taken.track_inprogress():
                if request.ByteSize() <= INLINE:
                    asked = infer_of(request, model.inputs)
                else:
                    async with service.decoding:
                        asked = await asyncio.to_thread(infer_of, request, model.inputs)
                rows = await model.batcher.submit(asked.samples)
            tensors = answer_tensors(asked, rows, model.artifact)
        answer = self.messages["ModelInferResponse"](
            model_name=model.name, model_version=str(model.version), id=request.id
        )
        # In the form of the request: raw for raw, typed for typed.
        raw = bool(request.raw_input_contents) or any(kind not in CONTENTS for _, kind, _ in tensors)
        for name, kind, array in tensors:
            added = answer.outputs.add(name=name, datatype=kind, shape=array.shape)
            if raw:
                answer.raw_output_contents.append(array.tobytes())
            else:
                getattr(added.contents, CONTENTS[kind]).extend(array.reshape(-1).tolist())
        return answer


def _address(peer: str) -> str:
    """`ipv4:10.0.0.1:50000` without the port, which differs for each connection."""
    return peer.rpartition(":")[0] if peer.startswith("ip") else peer


def infer_of(request: Any, inputs: Inputs) -> Infer:
    """A ModelInferRequest as the HTTP route would read it. Raises Refused."""
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise Refused(400, f"There are {len(request.inputs)} inputs, and {len(raw)} raw_input_contents.")
    told = [_tensor(tensor, raw[at] if raw else None) for at, tensor in enumerate(request.inputs)]
    outputs = [{"name": output.name} for output in request.outputs]
    binary = raw[0] if len(raw) == 1 else b"".join(raw)
    return wanted_tensors({"inputs": told, "outputs": outputs}, memoryview(binary), inputs)


def _tensor(tensor: Any, raw: bytes | None) -> dict[str, Any]:
    told = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
    if raw is not None:
        if tensor.HasField("contents"):
            raise Refused(400, f"{tensor.name[:80]} has contents beside raw_input_contents: send one of them.")
        return told | {"parameters": {"binary_data_size": len(raw)}}
    field = CONTENTS.get(tensor.datatype, "")
    if not field:
        raise Refused(400, f"{tensor.name[:80]} has datatype {tensor.datatype[:20]!r}: send it in raw_input_contents.")
    return told | {"data": list(getattr(tensor.contents, field))}
