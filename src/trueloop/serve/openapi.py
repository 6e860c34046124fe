"""The OpenAPI document, generated from the artifact: exact shapes, value ranges, columns."""

import base64
import io
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from trueloop.results.artifact import OWN, Artifact, Port
from trueloop.serve.inputs import Inputs, column_range

__all__ = ["ERROR", "PICTURE", "answers", "example", "model_schema", "predict_operation", "request_body", "simple"]

PICTURE: Final = "picture-base64"  # Format of a string: base64 of a PNG or JPEG of the model's size
Schema = dict[str, Any]
MEANING: Final[Mapping[int, str]] = {
    400: "The body cannot be parsed: not JSON, not UTF-8, or a damaged form.",
    401: "The API key is missing or wrong.",
    408: "The request was not sent in time.",
    413: "The request is too large.",
    415: "This model does not accept the content type.",
    422: "The input does not fit: wrong shape, non-finite values, or a damaged image.",
    429: "The server is overloaded, or could not answer within its latency limit; Retry-After says when to retry.",
    503: "The server is starting or stopping, or the model took too long.",
}


def _object(properties: Mapping[str, Any], *, closed: bool = True) -> Schema:
    made: Schema = {"type": "object", "properties": dict(properties), "required": list(properties)}
    return made | ({"additionalProperties": False} if closed else {})


def _list(items: Schema, most: int) -> Schema:
    return {"type": "array", "items": items, "minItems": 1, "maxItems": most}


def _json(schema: Mapping[str, Any], description: str) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


ERROR: Final = _object({"error": {"type": "string", "description": "One sentence: what is wrong with the request."}})


def answers(*statuses: int) -> dict[int | str, Schema]:
    """The error responses of a route."""
    return {status: _json(ERROR, MEANING[status]) for status in statuses}


def request_body(artifact: Artifact, inputs: Inputs) -> Schema:
    one, most = _sample(artifact, inputs), inputs.limits.queue
    either = [_object({"input": one}), _object({"inputs": _list(one, most)})]
    shown = {"input": example(artifact, inputs)}
    content: Schema = {"application/json": {"schema": {"anyOf": either}, "example": shown}}
    if inputs.takes_pictures:
        height, width = artifact.preprocessing["size"]
        size = f"{width} x {height} pixels, or any size with ?resize=true"
        file = {"type": "string", "format": "binary", "description": size}
        files = _object({"file": _list(file, most)})
        kinds = {"image/png": file, "image/jpeg": file, "multipart/form-data": files}
        content |= {kind: {"schema": schema} for kind, schema in kinds.items()}
    if inputs.encode is not None:
        content["text/plain"] = {"schema": _text(artifact)}
    return {"required": True, "content": content}


def _sample(artifact: Artifact, inputs: Inputs) -> Schema:
    if len(artifact.inputs) > 1:
        return _object({port.name: _array(port, artifact.preprocessing) for port in artifact.inputs})
    kinds = [_array(artifact.inputs[0], artifact.preprocessing)]
    if inputs.takes_pictures:
        kinds.append(_object({"base64": {"type": "string", "format": PICTURE, "contentEncoding": "base64"}}))
    if inputs.encode is not None:
        kinds.append(_text(artifact))
    if inputs.columns:
        kinds.append(_object({column["name"]: _column(column, artifact.inputs[0]) for column in inputs.columns}))
    return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _text(artifact: Artifact) -> Schema:
    """A character is at least one token, except in word encodings."""
    most = artifact.inputs[0].limit(1)
    limited = {"maxLength": most} if most and artifact.preprocessing["encoding"] != "words" else {}
    description = f"Text of at most {most} tokens" if most else "Text"
    return {"type": "string", "minLength": 1, "description": description, **limited}


def _column(column: Mapping[str, Any], port: Port) -> Schema:
    if column["kind"] != "number":
        return {"type": "string"}
    lowest, highest = column_range(column, port)
    return {"type": "number", "minimum": lowest, "maximum": highest}


def _array(port: Port, preprocessing: Mapping[str, Any]) -> Schema:
    """Nested lists of the port's sizes."""
    dtype = np.dtype(port.dtype)
    made: Schema = {"type": "number"}
    if dtype.kind in "iu":
        known = preprocessing.get("tokens") if preprocessing["kind"] == "tokens" else None
        limits = np.iinfo(dtype)
        lowest, highest = (0, known - 1) if known else (int(limits.min), int(limits.max))
        made = {"type": "integer", "minimum": lowest, "maximum": highest}
    elif dtype.kind == "f":
        made |= {"minimum": float(np.finfo(dtype).min), "maximum": float(np.finfo(dtype).max)}
    for at in range(len(port.shape) - 1, 0, -1):
        size, most = port.shape[at], port.limit(at)
        longest = {"maxItems": size or most} if size or most else {}
        made = {"type": "array", "items": made, "minItems": 1 if size is None else size, **longest}
    return made


def example(artifact: Artifact, inputs: Inputs) -> Any:
    """A short valid input."""
    if inputs.encode is not None:
        return "to be, or not"
    if inputs.takes_pictures:
        return {"base64": base64.b64encode(_black(artifact.preprocessing)).decode()}
    if inputs.columns:
        return {
            column["name"]: column["mean"] if column["kind"] == "number" else column["categories"][0]
            for column in inputs.columns
        }
    from trueloop.serve.batching import blank_sample

    samples = zip(artifact.inputs, blank_sample(artifact), strict=True)
    arrays = {port.name: sample.tolist() for port, sample in samples}
    return arrays if len(arrays) > 1 else next(iter(arrays.values()))


def _black(preprocessing: Mapping[str, Any]) -> bytes:
    """A black PNG."""
    from PIL import Image

    from trueloop.serve.inputs import MODES

    height, width = preprocessing["size"]
    file = io.BytesIO()
    Image.new(MODES[preprocessing["channels"]], (width, height)).save(file, "PNG")
    return file.getvalue()


def predict_operation(artifact: Artifact, inputs: Inputs, *, keyed: bool) -> Schema:
    """POST /predict."""
    off, about = {"type": "boolean", "default": False}, "Resize images of other sizes."
    resize = {"name": "resize", "in": "query", "schema": off, "description": about}
    about_one = f"For the task {artifact.task}; raw scores where nothing else applies."
    if artifact.task == OWN:
        about_one = f"The model's outputs by name: {', '.join(port.name for port in artifact.sample_outputs)}."
    one = {"type": "object", "description": about_one}
    body = _object({"predictions": {"type": "array", "items": one}}, closed=False)
    refusals = answers(400, *((401,) if keyed else ()), 408, 413, 415, 422, 429, 503)
    return {
        "summary": "The model's prediction for one sample, or for many",
        "operationId": "predict",
        "parameters": [resize],
        "requestBody": request_body(artifact, inputs),
        "responses": {
            "200": _json(body, "One prediction per sample, in order"),
            **{str(status): refusal for status, refusal in refusals.items()},
        },
    }


def simple(word: str) -> Schema:
    return _json(_object({"status": {"const": word}}, closed=False), word)


def model_schema() -> Schema:
    names = ("name", "target", "task", "classes", "inputs", "preprocessing", "batch", "latency_ms", "max_body")
    return _json(_object({name: {} for name in names}, closed=False), "The model")
