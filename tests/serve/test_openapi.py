"""The OpenAPI document, judged by JSON Schema itself: what the server takes fits it, what it refuses does not."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from tests.serve.made import TABLE, artifact, points
from trueloop.results.artifact import Port
from trueloop.serve.inputs import Inputs, column_range
from trueloop.serve.limits import Limits, Refused
from trueloop.serve.openapi import answers, example, predict_operation, request_body


def schema_of(kind: str, **fields: Any) -> tuple[Inputs, Draft202012Validator]:
    told = artifact(kind, **fields)
    taker = Inputs(told, Limits(queue=3))
    schema = request_body(told, taker)["content"]["application/json"]["schema"]
    Draft202012Validator.check_schema(schema)
    return taker, Draft202012Validator(schema)


RIGHT: list[tuple[str, Any]] = [
    ("image", {"input": points()}),
    ("image", {"inputs": [points()] * 3}),
    ("image", {"input": [[[1.0] * 4] * 3]}),
    ("tokens", {"input": [1, 2, 255]}),
    ("tokens", {"input": "hello"}),
    ("table", {"input": [0.5, 1, 0, 0]}),
    ("table", {"input": {"length": 3, "colour": "green"}}),
    ("tensors", {"input": {"left": [1.5, 2], "right": [-3]}}),
]
WRONG: list[tuple[str, Any]] = [
    ("image", {}),
    ("image", {"input": points(), "more": 1}),
    ("image", {"inputs": []}),
    ("image", {"inputs": [points()] * 4}),
    ("image", {"input": [[[256] * 4] * 3]}),
    ("image", {"input": [[[-1] * 4] * 3]}),
    ("image", {"input": [[[1.5] * 4] * 3]}),
    ("image", {"input": [[[1] * 5] * 3]}),
    ("image", {"input": [[["1"] * 4] * 3]}),
    ("image", {"input": "hello"}),
    ("tokens", {"input": []}),
    ("tokens", {"input": [1] * 17}),
    ("tokens", {"input": [256]}),
    ("tokens", {"input": ""}),
    ("tokens", {"input": "x" * 17}),
    ("table", {"input": [0.5, 1, 0]}),
    ("table", {"input": [1e39, 1, 0, 0]}),
    ("table", {"input": {"length": 3}}),
    ("table", {"input": {"length": "3", "colour": "green"}}),
    ("table", {"input": {"length": 1e300, "colour": "green"}}),
    ("tensors", {"input": {"left": [1.5, 2]}}),
    ("tensors", {"input": {"left": [1.5, 2], "right": [2**63]}}),
]


@pytest.mark.parametrize("at", range(len(RIGHT)))
def test_what_the_document_allows_is_taken(at: int) -> None:
    kind, value = RIGHT[at]
    taker, schema = schema_of(kind)
    schema.validate(value)
    assert taker.of_json(_dumped(value))


@pytest.mark.parametrize("at", range(len(WRONG)))
def test_what_the_document_forbids_is_refused(at: int) -> None:
    kind, value = WRONG[at]
    taker, schema = schema_of(kind)
    with pytest.raises(ValidationError):
        schema.validate(value)
    with pytest.raises(Refused):
        taker.of_json(_dumped(value))


def _dumped(value: Any) -> bytes:
    import json

    return json.dumps(value).encode()


@pytest.mark.parametrize("kind", ["image", "tokens", "table", "tensors"])
def test_the_example_fits(kind: str) -> None:
    taker, schema = schema_of(kind)
    value = {"input": example(taker.artifact, taker)}
    schema.validate(value)
    assert taker.of_json(_dumped(value))


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("image", ["application/json", "image/png", "image/jpeg", "multipart/form-data"]),
        ("tokens", ["application/json", "text/plain"]),
        ("table", ["application/json"]),
        ("tensors", ["application/json"]),
    ],
)
def test_the_content_types_are_those_of_the_model(kind: str, types: list[str]) -> None:
    taker, _ = schema_of(kind)
    assert list(request_body(taker.artifact, taker)["content"]) == types


def test_a_length_without_a_limit_has_none_in_the_document() -> None:
    _, schema = schema_of("tokens", inputs=(Port("input", "int64", (None, None)),))
    schema.validate({"input": [1] * 1_000})


def test_the_key_is_spoken_of_only_where_there_is_one() -> None:
    taker, _ = schema_of("image")
    assert "401" in predict_operation(taker.artifact, taker, keyed=True)["responses"]
    assert "401" not in predict_operation(taker.artifact, taker, keyed=False)["responses"]


def test_every_refusal_is_a_sentence_under_error() -> None:
    for told in answers(400, 401, 408, 413, 415, 422, 429, 503).values():
        schema = Draft202012Validator(told["content"]["application/json"]["schema"])
        schema.validate({"error": "No."})
        for wrong in ({}, {"error": 3}, {"error": "No.", "trace": "x"}):
            with pytest.raises(ValidationError):
                schema.validate(wrong)


def test_the_ends_of_a_column_s_reach_are_still_finite() -> None:
    import numpy as np

    from trueloop.serve.inputs import row_of

    port = Port("input", "float32", (None, 4))
    for end in column_range(TABLE["columns"][0], port):
        assert np.isfinite(row_of({"length": end, "colour": "red"}, TABLE["columns"], port, "input")).all()
