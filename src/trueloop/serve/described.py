"""What the server takes and answers, as OpenAPI says it, written from the artifact: exact shapes, ranges of numbers,
columns."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from trueloop.results.artifact import Artifact, Port
from trueloop.serve.inputs import Inputs
from trueloop.serve.rows import reach

__all__ = ["ERROR", "PICTURE", "answers", "example", "model_schema", "predict_operation", "request_body", "simple"]

PICTURE: Final = "picture-base64"
"""The format of a text that is the base64 of a PNG or JPEG of the model's size."""
ERROR: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"error": {"type": "string", "description": "One sentence: what is wrong with the request."}},
    "required": ["error"],
    "additionalProperties": False,
}
MEANING: Final[Mapping[int, str]] = {
    400: "The body cannot be read: no JSON, no UTF-8, a damaged form.",
    401: "The API key is missing or wrong.",
    408: "The request was not sent in time.",
    413: "The request is too large.",
    415: "A content type that this model does not take.",
    422: "It can be read, and does not fit: another shape, values that are not finite, a damaged picture.",
    429: "Too many are asking at once, or it could not be answered within the server's limit; Retry-After says when to try again.",
    503: "The server is starting or ending, or the model took too long.",
}


def answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route, for its page."""
    return {
        status: {"description": MEANING[status], "content": {"application/json": {"schema": ERROR}}}
        for status in statuses
    }


def request_body(artifact: Artifact, inputs: Inputs) -> dict[str, Any]:
    one = _sample(artifact, inputs)
    many = {"type": "array", "items": one, "minItems": 1, "maxItems": inputs.limits.queue}
    either = [
        {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}
        for name, schema in (("input", one), ("inputs", many))
    ]
    content: dict[str, Any] = {
        "application/json": {"schema": {"anyOf": either}, "example": {"input": example(artifact, inputs)}}
    }
    if inputs.takes_pictures:
        height, width = artifact.preprocessing["size"]
        file = {
            "type": "string",
            "format": "binary",
            "description": f"{width} x {height} points, or any size with ?resize=true",
        }
        pictures = {"type": "array", "items": file, "minItems": 1, "maxItems": inputs.limits.queue}
        files = {
            "type": "object",
            "properties": {"file": pictures},
            "required": ["file"],
            "additionalProperties": False,
        }
        content |= {
            "image/png": {"schema": file},
            "image/jpeg": {"schema": file},
            "multipart/form-data": {"schema": files},
        }
    if inputs.encode is not None:
        content["text/plain"] = {"schema": _text(artifact)}
    return {"required": True, "content": content}


def _sample(artifact: Artifact, inputs: Inputs) -> dict[str, Any]:
    if len(artifact.inputs) > 1:
        ports = {port.name: _array(port, artifact.preprocessing) for port in artifact.inputs}
        return {"type": "object", "properties": ports, "required": list(ports), "additionalProperties": False}
    kinds = [_array(artifact.inputs[0], artifact.preprocessing)]
    if inputs.takes_pictures:
        coded = {"type": "string", "format": PICTURE, "contentEncoding": "base64"}
        kinds.append(
            {"type": "object", "properties": {"base64": coded}, "required": ["base64"], "additionalProperties": False}
        )
    if inputs.encode is not None:
        kinds.append(_text(artifact))
    if inputs.columns:
        columns = {column["name"]: _column(column, artifact.inputs[0]) for column in inputs.columns}
        kinds.append(
            {"type": "object", "properties": columns, "required": list(columns), "additionalProperties": False}
        )
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _text(artifact: Artifact) -> dict[str, Any]:
    """Where every letter is a token or more, no text of more letters can fit; some shorter ones do not either."""
    most = artifact.inputs[0].limit(1)
    limited = {"maxLength": most} if most and artifact.preprocessing["encoding"] != "words" else {}
    return {
        "type": "string",
        "minLength": 1,
        "description": f"Text of at most {most} tokens" if most else "Text",
        **limited,
    }


def _column(column: Mapping[str, Any], port: Port) -> dict[str, Any]:
    if column["kind"] != "number":
        return {"type": "string"}
    lowest, highest = reach(column, port)
    return {"type": "number", "minimum": lowest, "maximum": highest}


def _array(port: Port, preprocessing: Mapping[str, Any]) -> dict[str, Any]:
    """Lists in lists, of the port's sizes."""
    dtype = np.dtype(port.dtype)
    made: dict[str, Any] = {"type": "number"}
    if dtype.kind in "iu":
        known = preprocessing.get("tokens") if preprocessing["kind"] == "tokens" else None
        limits = np.iinfo(dtype)
        made = {
            "type": "integer",
            "minimum": 0 if known else int(limits.min),
            "maximum": known - 1 if known else int(limits.max),
        }
    elif dtype.kind == "f":
        made |= {"minimum": float(np.finfo(dtype).min), "maximum": float(np.finfo(dtype).max)}
    for at in range(len(port.shape) - 1, 0, -1):
        size, most = port.shape[at], port.limit(at)
        sizes = (
            {"minItems": size, "maxItems": size}
            if size is not None
            else {"minItems": 1, **({"maxItems": most} if most else {})}
        )
        made = {"type": "array", "items": made, **sizes}
    return made


def example(artifact: Artifact, inputs: Inputs) -> Any:
    """Something short that works, for people to try."""
    if inputs.encode is not None:
        return "to be, or not"
    if inputs.takes_pictures:
        return {"base64": base64.b64encode(_black(artifact.preprocessing)).decode()}
    if inputs.columns:
        return {
            column["name"]: column["mean"] if column["kind"] == "number" else column["categories"][0]
            for column in inputs.columns
        }
    from trueloop.serve.batching import blank

    arrays = {port.name: blank(port).tolist() for port in artifact.inputs}
    return arrays if len(arrays) > 1 else next(iter(arrays.values()))


def _black(preprocessing: Mapping[str, Any]) -> bytes:
    """A PNG without light."""
    from PIL import Image

    from trueloop.serve.pictures import MODES

    height, width = preprocessing["size"]
    file = io.BytesIO()
    Image.new(MODES[preprocessing["channels"]], (width, height)).save(file, "PNG")
    return file.getvalue()


# -- what is answered --


def predict_operation(artifact: Artifact, inputs: Inputs, *, keyed: bool) -> dict[str, Any]:
    """All of POST /predict."""
    resize = {
        "name": "resize",
        "in": "query",
        "schema": {"type": "boolean", "default": False},
        "description": "Scale pictures of other sizes.",
    }
    one = {
        "type": "object",
        "description": f"For the task {artifact.task}; raw scores where there is nothing better to say.",
    }
    body = {
        "type": "object",
        "properties": {"predictions": {"type": "array", "items": one}},
        "required": ["predictions"],
    }
    good = {
        "description": "One prediction for each sample, in their order",
        "content": {"application/json": {"schema": body}},
    }
    refusals = answers(400, *((401,) if keyed else ()), 408, 413, 415, 422, 429, 503)
    return {
        "summary": "The model's answer to one sample, or to many",
        "operationId": "predict",
        "parameters": [resize],
        "requestBody": request_body(artifact, inputs),
        "responses": {"200": good, **{str(status): told for status, told in refusals.items()}},
    }


def simple(word: str) -> dict[str, Any]:
    body = {"type": "object", "properties": {"status": {"const": word}}, "required": ["status"]}
    return {"description": word, "content": {"application/json": {"schema": body}}}


def model_schema() -> dict[str, Any]:
    names = ["name", "target", "task", "classes", "inputs", "preprocessing", "batch", "latency_ms", "max_body"]
    body = {"type": "object", "properties": {name: {} for name in names}, "required": names}
    return {"description": "The model", "content": {"application/json": {"schema": body}}}
