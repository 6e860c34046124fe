"""The KServe v2 protocol, asked by Triton's own client and byte by byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.serve.made import Served, artifact, served, shade
from trueloop.results.artifact import Port
from trueloop.serve.inputs import Inputs
from trueloop.serve.kserve import Infer, infer_answer, infer_request, model_metadata
from trueloop.serve.limits import Limits, Refused

http = pytest.importorskip("tritonclient.http")
BATCH = np.arange(2 * 12, dtype=np.uint8).reshape(2, 1, 3, 4) * 10


@pytest.fixture(scope="module")
def client(pictures: Served) -> Iterator[Any]:
    with http.InferenceServerClient(f"127.0.0.1:{pictures.port}", concurrency=4) as made:
        yield made


def asked(array: Any, *, binary: bool = True) -> Any:
    tensor = http.InferInput("input", list(array.shape), "UINT8")
    tensor.set_data_from_numpy(array, binary_data=binary)
    return tensor


def test_triton_s_client_finds_the_server_and_its_model(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("shades")
    assert client.is_model_ready("shades", "1")
    assert not client.is_model_ready("shade")
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    assert client.get_model_metadata("shades") == {
        "name": "shades",
        "versions": ["1"],
        "platform": "trueloop_onnx",
        "inputs": [{"name": "input", "datatype": "UINT8", "shape": [-1, 1, 3, 4]}],
        "outputs": [{"name": "output", "datatype": "FP32", "shape": [-1, 3]}],
    }


@pytest.mark.parametrize("sent", [True, False], ids=["binary in", "json in"])
@pytest.mark.parametrize("wanted", [True, False, None], ids=["binary out", "json out", "default out"])
def test_triton_s_client_gets_the_model_s_own_numbers(client: Any, sent: bool, wanted: bool | None) -> None:
    outputs = None if wanted is None else [http.InferRequestedOutput("output", binary_data=wanted)]
    result = client.infer("shades", [asked(BATCH, binary=sent)], request_id="seven", outputs=outputs)
    assert np.array_equal(result.as_numpy("output"), shade(BATCH)[0])
    answer = result.get_response()
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("shades", "1", "seven")


def test_triton_s_client_asks_many_at_once(client: Any) -> None:
    waiting = [client.async_infer("shades", [asked(np.full_like(BATCH, value))]) for value in range(20)]
    for value, each in enumerate(waiting):
        assert np.array_equal(each.get_result().as_numpy("output"), shade(np.full_like(BATCH, value))[0])


def test_triton_s_client_is_told_what_is_wrong(client: Any) -> None:
    error = pytest.importorskip("tritonclient.utils").InferenceServerException
    wrong = http.InferInput("inptu", [1, 1, 3, 4], "UINT8")
    wrong.set_data_from_numpy(BATCH[:1])
    with pytest.raises(error, match="Did you mean input"):
        client.infer("shades", [wrong])
    with pytest.raises(error, match="There is no model 'other' here: it is 'shades'"):
        client.infer("other", [asked(BATCH)])
    with pytest.raises(error, match="shades has version 1 only"):
        client.infer("shades", [asked(BATCH)], model_version="2")
    with pytest.raises(error, match=r"samples of shape \[1, 3, 5\]; the model takes \[1, 3, 4\]"):
        client.infer("shades", [asked(np.zeros((1, 1, 3, 5), np.uint8))])
    with pytest.raises(error, match="without Content-Encoding"):
        client.infer("shades", [asked(BATCH)], request_compression_algorithm="gzip")


def test_the_key_is_asked_for_and_readiness_is_not_a_secret() -> None:
    with served(key="seven") as server, http.InferenceServerClient(f"127.0.0.1:{server.port}") as client:
        assert client.is_server_ready()
        assert server.get("/v2/models/shades")[0] == 401
        result = client.infer("shades", [asked(BATCH)], headers={"authorization": "bearer seven"})
        assert np.array_equal(result.as_numpy("output"), shade(BATCH)[0])


def test_other_paths_and_methods_are_refused(pictures: Served) -> None:
    assert pictures.get("/v2")[1]["name"] == "trueloop"
    assert pictures.get("/v2/")[0] == 200
    for path in ("/v2/models", "/v2/nothing", "/v2/models//ready", "/v2/models/shades/versions"):
        assert pictures.get(path)[0] == 404, path
    assert pictures.get("/v2/models/shades/infer")[0] == 405
    assert pictures.ask(b"", path="/v2/health/live")[0] == 405


def test_answers_are_counted_under_one_label(pictures: Served, client: Any) -> None:
    client.infer("shades", [asked(BATCH)])
    pictures.get("/v2/models/invented/ready")
    counts = pictures.get("/metrics")[1]
    assert 'trueloop_requests_total{path="/v2/infer",status="200"}' in counts
    assert 'trueloop_requests_total{path="/v2",status="404"}' in counts
    assert "invented" not in counts


# -- requests, without a server --


def read(told: Any, binary: bytes = b"", kind: str = "tensors", **fields: Any) -> Infer:
    head = told if isinstance(told, bytes) else json.dumps(told).encode()
    return infer_request(
        head + binary, len(head) if binary else None, Inputs(artifact(kind, **fields), Limits(queue=4))
    )


LEFT = {"name": "left", "shape": [2, 2], "datatype": "FP32", "data": [1, 2.5, 3, 4]}
RIGHT = {"name": "right", "shape": [2, 1], "datatype": "INT64", "data": [[5], [2**53 + 1]]}


def test_flat_nested_and_binary_tensors_are_the_same() -> None:
    plain = read({"inputs": [LEFT, RIGHT]})
    nested = read({"inputs": [RIGHT, {**LEFT, "data": [[1, 2.5], [3, 4]]}]})
    sizes = {"parameters": {"binary_data_size": 16}}
    coded = [{name: value for name, value in each.items() if name != "data"} | sizes for each in (LEFT, RIGHT)]
    binary = read(
        {"inputs": coded}, np.array([1, 2.5, 3, 4], "<f4").tobytes() + np.array([5, 2**53 + 1], "<i8").tobytes()
    )
    for found in (plain, nested, binary):
        assert [(left.tolist(), right.tolist()) for left, right in found.samples] == [
            ([1, 2.5], [5]),
            ([3, 4], [2**53 + 1]),
        ]
        assert [array.dtype for array in found.samples[0]] == [np.float32, np.int64]


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (b"[1]", "The JSON must be"),
        ({"inputs": 3}, "The JSON must be"),
        ({"inputs": [LEFT]}, "The input right is missing"),
        ({"inputs": [LEFT, LEFT, RIGHT]}, "each once"),
        ({"inputs": [3]}, "each once, not 'None'"),
        ({"inputs": [LEFT, RIGHT], "id": 3}, "id must be a string"),
        ({"inputs": [LEFT, {**RIGHT, "datatype": "INT32"}]}, "right has datatype 'INT32'; the model takes INT64"),
        ({"inputs": [LEFT, {**RIGHT, "shape": [2]}]}, "must be 2 sizes, the batch first"),
        ({"inputs": [LEFT, {**RIGHT, "shape": [2, -1]}]}, "must be 2 sizes"),
        ({"inputs": [LEFT, {**RIGHT, "shape": [2, 2]}]}, "right has 2 values"),
        ({"inputs": [LEFT, {**RIGHT, "data": "5"}]}, "neither data"),
        ({"inputs": [LEFT, {**RIGHT, "data": [[5], 6]}]}, "ragged"),
        ({"inputs": [LEFT, {**RIGHT, "data": [5, "6"]}]}, "not a number"),
        ({"inputs": [LEFT, {**RIGHT, "data": [5, 6.5]}]}, "takes integers"),
        ({"inputs": [LEFT, {**RIGHT, "data": [5, 2**63]}]}, "out of range"),
        ({"inputs": [LEFT, {**RIGHT, "shape": [1, 1], "data": [5]}]}, "the same number of samples, 1 to 4"),
        ({"inputs": [{**LEFT, "shape": [0, 2], "data": []}, {**RIGHT, "shape": [0, 1], "data": []}]}, "1 to 4"),
        ({"inputs": [LEFT, {**RIGHT, "parameters": {"binary_data_size": 8}}]}, "beyond the 0 bytes after the JSON"),
        ({"inputs": [LEFT, {**RIGHT, "parameters": 3}]}, "parameters must be an object"),
        ({"inputs": [LEFT, RIGHT], "outputs": [{"name": "outptu"}]}, "Did you mean output"),
    ],
)  # fmt: skip
def test_a_request_that_is_wrong_is_refused(told: Any, why: str) -> None:
    with pytest.raises(Refused) as refused:
        read(told)
    assert why in refused.value.sentence
    assert refused.value.status in (400, 422)


def test_bytes_that_do_not_fit_are_refused() -> None:
    one = {"name": "input", "shape": [1, 1, 3, 4], "datatype": "UINT8", "parameters": {"binary_data_size": 12}}
    assert read({"inputs": [one]}, bytes(12), "image").samples[0][0].shape == (1, 3, 4)
    with pytest.raises(Refused, match="1 bytes follow the last tensor"):
        read({"inputs": [one]}, bytes(13), "image")
    with pytest.raises(Refused, match="beyond the 11 bytes"):
        read({"inputs": [one]}, bytes(11), "image")
    with pytest.raises(Refused, match=r"input has 12 bytes; uint8 of shape \[2, 1, 3, 4\] has 24"):
        read({"inputs": [{**one, "shape": [2, 1, 3, 4]}]}, bytes(12), "image")
    with pytest.raises(Refused, match="Inference-Header-Content-Length is 9"):
        infer_request(b"{}", 9, Inputs(artifact(), Limits()))


def test_values_are_checked_as_those_of_predict() -> None:
    nan = np.array([[np.nan, 1]], "<f4").tobytes()
    told = {"inputs": [{"name": "input", "shape": [1, 2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}]}
    with pytest.raises(Refused, match="input holds NaN or Inf"):
        read(told, nan, inputs=(Port("input", "float32", (None, 2)),))
    words = {"name": "input", "shape": [1, 2], "datatype": "INT64", "data": [1, 256]}
    with pytest.raises(Refused, match="a token outside 0 to 255"):
        read({"inputs": [words]}, kind="tokens")


def test_an_answer_with_several_outputs_names_those_that_were_asked_for() -> None:
    made = artifact(
        outputs=(Port("first", "float32", (None, 2)), Port("second", "int64", (None,)), Port("loss", "float32", ()))
    )
    rows = [(np.array([1, 2], np.float32), np.int64(7)), (np.array([3, 4], np.float32), np.int64(8))]
    body, head = infer_answer(Infer([], None, {"second": False, "first": True}), rows, made, "m", "1")  # type: ignore[arg-type]
    assert head is not None
    told = json.loads(body[:head])
    assert told == {
        "model_name": "m",
        "model_version": "1",
        "outputs": [
            {"name": "first", "datatype": "FP32", "shape": [2, 2], "parameters": {"binary_data_size": 16}},
            {"name": "second", "datatype": "INT64", "shape": [2], "data": [7, 8]},
        ],
    }
    assert np.frombuffer(body[head:], "<f4").tolist() == [1, 2, 3, 4]
    assert [each["name"] for each in model_metadata(made, "m", ["1"])["outputs"]] == ["first", "second"]


def test_an_answer_that_is_not_finite_is_not_sent() -> None:
    with pytest.raises(Refused, match="NaN or Inf"):
        infer_answer(Infer([], None, {"output": True}), [(np.array([np.inf] * 3, np.float32),)], artifact(), "m", "1")
