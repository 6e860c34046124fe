"""Tensors and plain values between two processes: the same ones arrive, and nothing else can."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trueloop.checkpoint import plain_values
from trueloop.checkpoint.plain_values import NotPlain, decode, encode

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary() | st.complex_numbers(allow_nan=False),  # noqa: E501
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.integers(), st.text()), inner, max_size=4)
    ),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=40)
@given(PLAIN)
def test_plain_values_arrive_as_they_were(value: Any) -> None:
    again = decode(encode(value))
    assert again == value
    assert repr(again) == repr(value)  # 1 is not 1.0 or True


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12).reshape(3, 4),
        torch.randn(2, 3, 4).transpose(0, 2),
        torch.randn(5)[1::2],
        torch.tensor(3.5, dtype=torch.bfloat16),
        torch.zeros(0, 3),
        torch.randn(2, dtype=torch.complex128).conj(),
        torch.tensor([True, False]),
        torch.zeros(1).expand(1000),
    ],
)
def test_tensors_arrive_as_they_were(tensor: torch.Tensor) -> None:
    again = decode(encode(tensor))
    assert torch.equal(again, tensor)
    assert again.dtype == tensor.dtype


def test_kinds_of_containers_and_tensors_arrive() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    sparse = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), torch.tensor([1.0, 2.0]), (4,), check_invariants=True)
    value = OrderedDict(
        a=weight, b=torch.Size([2, 3]), c={1, 2}, d=torch.float16, e=torch.device("cpu"), f=bytearray(b"x"),
        g=Counter("aab"), h=float("nan"), i=frozenset({1}), j=sparse,
    )  # fmt: skip
    again = decode(encode(value))
    assert type(again) is OrderedDict
    assert isinstance(again["a"], torch.nn.Parameter)
    assert again["a"].requires_grad
    assert (again["h"] != again["h"], again["g"]) == (True, Counter("aab"))
    assert torch.equal(again["j"].to_dense(), sparse.to_dense())
    for name in "bcdefi":
        assert (type(again[name]), again[name]) == (type(value[name]), value[name])


def test_tied_tensors_stay_tied() -> None:
    one = torch.zeros(4)
    again = decode(encode({"a": one, "b": one[2:]}))
    again["a"][2] = 7
    assert again["b"][0] == 7


def test_other_objects_are_not_encoded() -> None:
    with pytest.raises(NotPlain, match="holds a Test"):
        encode({"a": type("Test", (), {})()})


def test_depth_and_number_of_values_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_values, "MOST_VALUES", 10_000)
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(NotPlain, match="nested more than 100 deep"):
        encode(deep)
    wide: Any = 0
    for _ in range(30):  # shared, so small in memory, but 2 ** 30 values
        wide = [wide, wide]
    with pytest.raises(NotPlain, match="more than 10,000 values"):
        encode(wide)


def answer(tree: Any, **storages: torch.Tensor) -> bytes:
    text = json.dumps(tree).encode() if not isinstance(tree, bytes) else tree
    return safetensors.torch.save({"tree": torch.frombuffer(bytearray(text), dtype=torch.uint8), **storages})


BYTES = torch.zeros(16, dtype=torch.uint8)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"x" * 100, answer(b"["), answer(b"[" * 100_000), answer({}), answer({"a": 1, "b": 2}),
        answer({"eval": "1"}), answer({"tensor": []}), answer({"tensor": [0, "torch.float32", 0, [4], [1], False]}),
        answer({"tensor": [0, "torch.float32", 1, [4], [1], False]}, **{"0": BYTES}),
        answer({"tensor": [0, "torch.float32", -1, [1], [1], False]}, **{"0": BYTES}),
        answer({"tensor": [0, "torch.float32", 0, [1 << 70], [0], False]}, **{"0": BYTES}),
        answer({"tensor": [0, "torch.float32", 0, [1 << 33], [0], False]}, **{"0": BYTES}),
        answer({"tensor": [0, "torch.float32", 0, [2, 2], [1], False]}, **{"0": BYTES}),
        answer({"tensor": [0, "torch.int64", 0, [2], [1], True]}, **{"0": BYTES}),
        answer({"tensor": [0, "torch.load", 0, [2], [1], False]}, **{"0": BYTES}),
        answer({"tensor": [0, "torch.uint8", 0, [4], [1], False]}, **{"0": torch.zeros(4)}),
        answer({"dict": [[[1], 2]]}), answer({"dict": 3}), answer({"bytes": "!"}), answer({"float": "x"}),
        answer({"device": "nowhere"}), answer({"dtype": "os"}), answer({"complex": ["0x", "1"]}),
        answer({"sparse": [{"tensor": [0, "torch.int64", 0, [1, 2], [2, 1], False]},
                           {"tensor": [0, "torch.float32", 0, [2], [1], False]}, [-4]]}, **{"0": BYTES}),
    ],
)  # fmt: skip
def test_no_answer_builds_anything_else(data: bytes) -> None:
    with pytest.raises(NotPlain):
        decode(data)


@given(st.data())
def test_changed_answers_build_nothing_else(data: st.DataObject) -> None:
    good = bytearray(encode({"a": torch.arange(6.0).reshape(2, 3), "b": [1, "x", (2.5,)]}))
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(good) - 1), st.integers(0, 255)), max_size=4)):
        good[at] = byte
    try:
        decode(bytes(good))
    except NotPlain:
        return
