"""The KServe v2 protocol ("open inference protocol"): tensors in, tensors out, as JSON or with the binary tensor data
extension. Requests and answers as values; the routes are in kserve_routes, the same over gRPC in grpc_server.

The order of a body with binary tensors is: JSON, then the bytes of each tensor that has a `binary_data_size`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
import orjson

from trueloop.errors import did_you_mean
from trueloop.export.exporter import Array
from trueloop.results.artifact import Artifact, Port
from trueloop.serve.batching import Sample
from trueloop.serve.inputs import Inputs, packed, parsed
from trueloop.serve.limits import Refused

__all__ = ["Infer", "answer_tensors", "datatype", "infer_answer", "infer_request", "model_metadata", "wanted_tensors"]

DATATYPES: Final[Mapping[str, str]] = {
    "bool": "BOOL",
    **{f"uint{bits}": f"UINT{bits}" for bits in (8, 16, 32, 64)},
    **{f"int{bits}": f"INT{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"FP{bits}" for bits in (16, 32, 64)},
}


def datatype(port: Port) -> str:
    return DATATYPES.get(port.dtype, port.dtype.upper())


def model_metadata(artifact: Artifact, name: str, versions: Sequence[str]) -> dict[str, Any]:
    def plain(ports: Sequence[Port]) -> list[dict[str, Any]]:
        return [
            {
                "name": port.name,
                "datatype": datatype(port),
                "shape": [-1 if size is None else size for size in port.shape],
            }
            for port in ports
        ]

    inputs, outputs = plain(artifact.inputs), plain(artifact.sample_outputs)
    platform = f"trueloop_{artifact.target}"
    return {"name": name, "versions": list(versions), "platform": platform, "inputs": inputs, "outputs": outputs}


@dataclass(frozen=True, slots=True)
class Infer:
    """A request."""

    samples: list[Sample]
    id: str | None
    outputs: Mapping[str, bool]  # Wanted outputs -> as binary?


def infer_request(body: bytes, json_bytes: int | None, inputs: Inputs) -> Infer:
    """`json_bytes`: the header Inference-Header-Content-Length; None: all of the body is JSON. Raises Refused."""
    if json_bytes is not None and not 0 < json_bytes <= len(body):
        raise Refused(400, f"Inference-Header-Content-Length is {json_bytes:,}, and the body has {len(body):,} bytes.")
    told = parsed(body if json_bytes is None else body[:json_bytes], inputs.exact)
    if not isinstance(told, dict) or not isinstance(told.get("inputs"), list):
        raise Refused(400, 'The JSON must be {"inputs": [TENSOR, ...]}.')
    if not isinstance(told.get("id", ""), str):
        raise Refused(400, "id must be a string.")
    return wanted_tensors(told, memoryview(b"" if json_bytes is None else body)[json_bytes or 0 :], inputs)


def wanted_tensors(told: Mapping[str, Any], binary: memoryview, inputs: Inputs) -> Infer:
    """`told`: the request as JSON has it; `binary`: the bytes of tensors with a `binary_data_size`. Raises Refused."""
    tensors = _tensors(told["inputs"], binary, inputs.ports)
    outputs = _wanted(told, inputs.artifact)
    return Infer(inputs.of_tensors(tensors), told.get("id"), outputs)


def _tensors(told: Sequence[Any], binary: memoryview, ports: Sequence[Port]) -> dict[str, Array]:
    known = {port.name: port for port in ports}
    tensors: dict[str, Array] = {}
    begin = 0
    for tensor in told:
        name = tensor.get("name") if isinstance(tensor, dict) else None
        if not isinstance(name, str) or name not in known or name in tensors:
            near = did_you_mean(name, list(known)) if isinstance(name, str) else ""
            raise Refused(400, f"The inputs must be {', '.join(known)}, each once, not {str(name)[:80]!r}.{near}")
        port = known[name]
        shape = _shape(tensor, port)
        size = _parameters(tensor).get("binary_data_size")
        if size is None:
            tensors[name] = _of_json(tensor.get("data"), port).reshape(-1)
        else:
            if type(size) is not int or size < 0 or begin + size > len(binary):
                raise Refused(400, f"binary_data_size of {name} is beyond the {len(binary):,} bytes after the JSON.")
            tensors[name] = _of_bytes(binary[begin : begin + size], port, shape)
            begin += size
        if tensors[name].size != math.prod(shape):
            raise Refused(400, f"{name} has {tensors[name].size:,} values, and its shape {shape} has another number.")
        tensors[name] = tensors[name].reshape(shape)
    if missing := [name for name in known if name not in tensors]:
        raise Refused(400, f"The input {missing[0]} is missing.")
    if begin != len(binary):
        raise Refused(400, f"{len(binary) - begin:,} bytes follow the last tensor.")
    return tensors


def _shape(tensor: Mapping[str, Any], port: Port) -> list[int]:
    shape, given = tensor.get("shape"), tensor.get("datatype")
    if given != datatype(port):
        raise Refused(400, f"{port.name} has datatype {str(given)[:20]!r}; the model takes {datatype(port)}.")
    sizes = isinstance(shape, list) and all(type(size) is int and 0 <= size < 2**31 for size in shape)
    if not isinstance(shape, list) or not sizes or len(shape) != len(port.shape):
        raise Refused(400, f"The shape of {port.name} must be {len(port.shape)} sizes, the batch first.")
    return shape


def _parameters(told: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = told.get("parameters", {})
    if not isinstance(parameters, dict):
        raise Refused(400, "parameters must be an object.")
    return parameters


def _of_bytes(data: memoryview, port: Port, shape: Sequence[int]) -> Array:
    dtype = np.dtype(port.dtype).newbyteorder("<")
    if len(data) != math.prod(shape) * dtype.itemsize:
        needed = f"{port.dtype} of shape {list(shape)} has {math.prod(shape) * dtype.itemsize:,}"
        raise Refused(400, f"{port.name} has {len(data):,} bytes; {needed}.")
    return np.frombuffer(data, dtype).astype(port.dtype)


def _of_json(data: Any, port: Port) -> Array:
    """Row by row: nested lists, or one list."""
    if not isinstance(data, list):
        raise Refused(400, f"{port.name} has neither data, a list, nor binary_data_size.")
    level: list[Any] = data
    for _ in port.shape:
        kinds = {isinstance(each, list) for each in level}
        if True not in kinds:
            break
        if False in kinds:
            raise Refused(400, f"data of {port.name} is ragged.")
        level = list(chain.from_iterable(level))
    types = {*map(type, level)}
    if port.dtype == "bool":
        if types - {bool}:
            raise Refused(400, f"data of {port.name} must be true and false.")
        return np.array(level, np.bool_)
    if types - {int, float}:
        raise Refused(400, f"data of {port.name} holds a value that is not a number.")
    return packed(level, types, port, port.name)


def _wanted(told: Mapping[str, Any], artifact: Artifact) -> dict[str, bool]:
    names = [port.name for port in artifact.sample_outputs]
    all_binary = _parameters(told).get("binary_data_output") is True
    wanted = told.get("outputs")
    if not wanted:
        return dict.fromkeys(names, all_binary)
    found: dict[str, bool] = {}
    for output in wanted if isinstance(wanted, list) else [wanted]:
        name = output.get("name") if isinstance(output, dict) else None
        if not isinstance(name, str) or name not in names:
            near = did_you_mean(name, names) if isinstance(name, str) else ""
            raise Refused(400, f"The model has no output {str(name)[:80]!r}: it has {', '.join(names)}.{near}")
        found[name] = _parameters(output).get("binary_data", all_binary) is True
    return found


def infer_answer(
    asked: Infer, rows: Sequence[Sample], artifact: Artifact, name: str, version: str
) -> tuple[bytes, int | None]:
    """The body, and the bytes of its JSON where tensors follow it. Raises Refused."""
    told: list[dict[str, Any]] = []
    binary: list[bytes] = []
    for each, kind, array in answer_tensors(asked, rows, artifact):
        tensor: dict[str, Any] = {"name": each, "datatype": kind, "shape": list(array.shape)}
        if asked.outputs[each]:
            binary.append(array.tobytes())
            tensor["parameters"] = {"binary_data_size": len(binary[-1])}
        else:
            tensor["data"] = array.reshape(-1).tolist()
        told.append(tensor)
    answer = {"model_name": name, "model_version": version, "outputs": told}
    head = orjson.dumps(answer if asked.id is None else {**answer, "id": asked.id})
    return b"".join((head, *binary)), len(head) if binary else None


def answer_tensors(asked: Infer, rows: Sequence[Sample], artifact: Artifact) -> list[tuple[str, str, Array]]:
    """Name, datatype and little-endian values of each wanted output. Raises Refused."""
    tensors: list[tuple[str, str, Array]] = []
    for port, column in zip(artifact.sample_outputs, zip(*rows, strict=True), strict=True):
        if port.name not in asked.outputs:
            continue
        array = np.ascontiguousarray(np.stack(column))
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise Refused(422, "The model's output for this input is NaN or Inf.")
        kind = DATATYPES.get(array.dtype.name, array.dtype.name.upper())
        tensors.append((port.name, kind, array.astype(array.dtype.newbyteorder("<"))))
    return tensors
