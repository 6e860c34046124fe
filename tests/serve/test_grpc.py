"""The KServe v2 protocol over gRPC, asked by Triton's own client and message by message."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

from tests.serve.made import Served, artifact, served, shade
from trueloop.export.exporter import FakeRunner
from trueloop.serve.inputs import Inputs
from trueloop.serve.limits import Limits, Refused
from trueloop.serve.model import Source
from trueloop.serve.server import listen
from trueloop.serve.service import Service

grpc = pytest.importorskip("grpc")
triton = pytest.importorskip("tritonclient.grpc")
service_pb2 = pytest.importorskip("tritonclient.grpc.service_pb2")
from trueloop.serve.grpc_messages import METHODS, SERVICE, build_messages  # noqa: E402 - after importorskip
from trueloop.serve.grpc_server import GrpcServer, infer_of  # noqa: E402

BATCH = np.arange(2 * 12, dtype=np.uint8).reshape(2, 1, 3, 4) * 10
MESSAGES = build_messages()
KEY = "seven"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(key=KEY, grpc=True, body=100_000, queue=16) as made:
        yield made


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[Any]:
    with triton.InferenceServerClient(f"127.0.0.1:{server.grpc}") as made:
        yield made


HEADERS = {"authorization": f"bearer {KEY}"}


def asked(array: Any, name: str = "input") -> Any:
    tensor = triton.InferInput(name, list(array.shape), "UINT8")
    tensor.set_data_from_numpy(array)
    return tensor


def call(server: Served, method: str, body: bytes, key: str = KEY) -> bytes:
    """As bytes, as any gRPC library would."""
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        answer: bytes = channel.unary_unary(f"/{SERVICE}/{method}")(
            body, metadata=(("x-api-key", key),), timeout=30, wait_for_ready=True
        )
        return answer


# -- the messages --


def test_every_field_has_the_number_and_type_of_the_published_protocol() -> None:
    published: dict[str, Any] = {}
    waiting = list(service_pb2.DESCRIPTOR.message_types_by_name.values())
    while waiting:
        each = waiting.pop()
        published[each.name] = each
        waiting += each.nested_types
    assert {f"{method}{kind}" for method in METHODS for kind in ("Request", "Response")} < set(MESSAGES)
    for name, message in MESSAGES.items():
        theirs = {field.name: field for field in published[name].fields}
        for field in message.DESCRIPTOR.fields:
            other = theirs[field.name]
            assert (field.number, field.type) == (other.number, other.type), f"{name}.{field.name}"
            assert field.is_repeated == other.is_repeated, f"{name}.{field.name}"


def test_the_service_and_its_methods_are_those_of_the_published_protocol() -> None:
    published = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    assert published.full_name == SERVICE
    assert set(METHODS) < set(published.methods_by_name)


# -- a server --


def test_triton_s_client_finds_the_server_and_its_model(client: Any) -> None:
    assert client.is_server_live()  # without the key
    assert client.is_server_ready()
    assert client.is_model_ready("shades", headers=HEADERS)
    assert client.is_model_ready("shades", "1", headers=HEADERS)
    assert client.get_server_metadata(headers=HEADERS).name == "trueloop"
    told = client.get_model_metadata("shades", headers=HEADERS, as_json=True)
    assert told == {
        "name": "shades",
        "versions": ["1"],
        "platform": "trueloop_onnx",
        "inputs": [{"name": "input", "datatype": "UINT8", "shape": ["-1", "1", "3", "4"]}],
        "outputs": [{"name": "output", "datatype": "FP32", "shape": ["-1", "3"]}],
    }


def test_triton_s_client_gets_the_model_s_own_numbers(client: Any) -> None:
    wanted = [triton.InferRequestedOutput("output")]
    result = client.infer("shades", [asked(BATCH)], request_id="seven", outputs=wanted, headers=HEADERS)
    assert np.array_equal(result.as_numpy("output"), shade(BATCH)[0])
    answer = result.get_response()
    assert (answer.model_name, answer.model_version, answer.id) == ("shades", "1", "seven")


def test_triton_s_client_asks_many_at_once(client: Any) -> None:
    answers: SimpleQueue[tuple[int, Any, Any]] = SimpleQueue()
    for value in range(8):
        array = np.full_like(BATCH, value)
        client.async_infer(
            "shades", [asked(array)], lambda result, error, at=value: answers.put((at, result, error)), headers=HEADERS
        )
    for _ in range(8):
        value, result, error = answers.get(timeout=30)
        assert error is None
        assert np.array_equal(result.as_numpy("output"), shade(np.full_like(BATCH, value))[0])


def test_typed_contents_are_answered_with_typed_contents(server: Served) -> None:
    request = MESSAGES["ModelInferRequest"](model_name="shades")
    tensor = request.inputs.add(name="input", datatype="UINT8", shape=BATCH.shape)
    tensor.contents.uint_contents.extend(BATCH.reshape(-1).tolist())
    answer = MESSAGES["ModelInferResponse"].FromString(call(server, "ModelInfer", request.SerializeToString()))
    assert not answer.raw_output_contents
    found = np.array(answer.outputs[0].contents.fp32_contents, np.float32).reshape(answer.outputs[0].shape)
    assert np.array_equal(found, shade(BATCH)[0])


@pytest.mark.parametrize(
    ("name", "version", "tensor", "code", "why"),
    [
        ("shades", "", asked(BATCH, "inptu"), "INVALID_ARGUMENT", "Did you mean input"),
        ("other", "", asked(BATCH), "NOT_FOUND", "There is no model 'other' here: it is 'shades'"),
        ("shades", "2", asked(BATCH), "NOT_FOUND", "shades has version 1 only"),
        ("shades", "", asked(BATCH[..., :3].copy()), "INVALID_ARGUMENT", "the model takes [1, 3, 4]"),
        ("shades", "", asked(np.repeat(BATCH, 10, 0)), "INVALID_ARGUMENT", "the same number of samples, 1 to 16"),
        ("shades", "", asked(np.zeros((10_000, 1, 3, 4), np.uint8)), "RESOURCE_EXHAUSTED", "larger than max"),
    ],
    ids=["input", "model", "version", "shape", "samples", "bytes"],
)  # fmt: skip
def test_a_refusal_has_a_status_and_a_sentence(
    client: Any, name: str, version: str, tensor: Any, code: str, why: str
) -> None:
    error = pytest.importorskip("tritonclient.utils").InferenceServerException
    with pytest.raises(error) as raised:
        client.infer(name, [tensor], model_version=version, headers=HEADERS)
    assert raised.value.status() == f"StatusCode.{code}"
    assert why in raised.value.message()


def test_the_key_is_asked_for(server: Served) -> None:
    for method in METHODS[2:]:
        with pytest.raises(grpc.RpcError) as raised:
            call(server, method, b"", "six")
        assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED, method
        assert "The API key is missing or wrong" in raised.value.details()


def test_bytes_that_are_no_message_and_methods_that_are_not_there_are_refused(server: Served) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        call(server, "ModelInfer", b"\xff" * 20)
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "not a message ModelInferRequest" in raised.value.details()
    with pytest.raises(grpc.RpcError) as raised:
        call(server, "ModelConfig", b"")
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_answers_are_counted_with_those_of_http(server: Served, client: Any) -> None:
    client.infer("shades", [asked(BATCH)], headers=HEADERS)
    with pytest.raises(grpc.RpcError):
        call(server, "ModelReady", b"", "six")
    counts = server.get("/metrics", x_api_key=KEY)[1]
    assert 'trueloop_requests_total{path="grpc/infer",status="200"}' in counts
    assert 'trueloop_requests_total{path="grpc",status="401"}' in counts
    assert "trueloop_predict_seconds_count 0.0" not in counts


def test_a_server_that_ends_answers_those_who_wait() -> None:
    with served(model="slow", grpc=True) as server, triton.InferenceServerClient(f"127.0.0.1:{server.grpc}") as client:
        answers: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        client.async_infer("shades", [asked(BATCH)], lambda result, error: answers.put((result, error)))
        while not float(server.get("/metrics")[1].partition("\ntrueloop_taken_requests ")[2].split()[0]):
            pass  # until the server has it
        assert server.end() == 0
        result, error = answers.get(timeout=30)
        assert error is None
        assert np.array_equal(result.as_numpy("output"), shade(BATCH)[0])


def test_answers_and_callers_that_left_hold_nothing() -> None:
    limits = Limits(unread=1, held=1)  # one request at a time is always allowed: what is not given back is refused
    open_runner = partial(FakeRunner, held_back)
    tensor = {"name": "input", "datatype": "UINT8", "shape": BATCH.shape}

    async def ask() -> None:
        service = Service([Source(lambda: (artifact(), open_runner))], limits)
        with listen("127.0.0.1", 0) as door:
            port = door.getsockname()[1]
        beside, ready = GrpcServer(service, "127.0.0.1", port), asyncio.Event()
        service.start(ready.set)
        await beside.start()
        await ready.wait()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            method = channel.unary_unary(f"/{SERVICE}/ModelInfer")

            def infer(value: int) -> Any:
                raw = [np.full_like(BATCH, value).tobytes()]
                request = MESSAGES["ModelInferRequest"](model_name="shades", inputs=[tensor], raw_input_contents=raw)
                return method(request.SerializeToString())

            for _ in range(3):
                assert await infer(7)
            left = infer(HELD)
            await asyncio.to_thread(COMPUTING.wait)
            left.cancel()
            with pytest.raises(asyncio.CancelledError):
                await left
            while service.budget.taken:
                await asyncio.sleep(0)  # until the server has noticed
            RELEASED.set()
            assert await infer(7)
        await beside.stop(1.0)
        assert service.unread.taken == 0
        assert b'path="grpc/infer",status="499"} 1.0' in service.metrics.text()
        service.stop()
        service.close(10.0)

    asyncio.run(asyncio.wait_for(ask(), 30))


HELD = 9
COMPUTING, RELEASED = threading.Event(), threading.Event()


def held_back(*inputs: Any) -> Any:
    """Computes the number 9 only when it is released."""
    if (inputs[0] == HELD).all():
        COMPUTING.set()
        RELEASED.wait(30)
    return shade(*inputs)


# -- requests, without a server --


def read(raw: tuple[bytes, ...] = (), **tensors: tuple[str, list[int], str, list[Any]]) -> Any:
    """name=(datatype, shape, field, values)."""
    request = MESSAGES["ModelInferRequest"](raw_input_contents=raw)
    for name, (datatype, shape, field, values) in tensors.items():
        tensor = request.inputs.add(name=name, datatype=datatype, shape=shape)
        if field:
            getattr(tensor.contents, field).extend(values)
    return infer_of(request, Inputs(artifact("tensors"), Limits(queue=4)))


LEFT = ("FP32", [2, 2], "fp32_contents", [1, 2.5, 3, 4])
RIGHT = ("INT64", [2, 1], "int64_contents", [5, 2**53 + 1])


def test_raw_and_typed_tensors_are_the_same() -> None:
    raw = (np.array([1, 2.5, 3, 4], "<f4").tobytes(), np.array([5, 2**53 + 1], "<i8").tobytes())
    bare = read(raw, left=(*LEFT[:2], "", []), right=(*RIGHT[:2], "", []))
    for found in (read(left=LEFT, right=RIGHT), bare):
        values = [(left.tolist(), right.tolist()) for left, right in found.samples]
        assert values == [([1, 2.5], [5]), ([3, 4], [2**53 + 1])]
        assert [array.dtype for array in found.samples[0]] == [np.float32, np.int64]


@pytest.mark.parametrize(
    ("raw", "left", "why"),
    [
        ((bytes(16),), LEFT, "There are 2 inputs, and 1 raw_input_contents"),
        ((bytes(16), bytes(16)), LEFT, "left has contents beside raw_input_contents"),
        ((bytes(12), bytes(16)), (*LEFT[:2], "", []), "left has 12 bytes"),
        ((), ("FP16", [2, 2], "", []), "left has datatype 'FP16': send it in raw_input_contents"),
        ((), ("FP32", [2, 2], "fp64_contents", [1, 2, 3, 4]), "left has 0 values"),
        ((), ("FP32", [2, -2], "fp32_contents", [1, 2, 3, 4]), "must be 2 sizes"),
        ((), ("FP32", [2, 2], "fp32_contents", [1, 2, 3, float("nan")]), "NaN or Inf"),
    ],
)  # fmt: skip
def test_a_request_that_is_wrong_is_refused(raw: tuple[bytes, ...], left: Any, why: str) -> None:
    right = (*RIGHT[:2], "", []) if raw else RIGHT
    with pytest.raises(Refused) as refused:
        read(raw, left=left, right=right)
    assert why in refused.value.sentence
    assert refused.value.status in (400, 422)
