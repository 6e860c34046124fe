"""What was registered for a custom operation; and which node of the autograd graph is at work."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from trueloop.torch_private.autograd import forward_number, node_number
from trueloop.torch_private.custom_ops import (
    custom_definition,
    default_overload,
    has_fake,
    in_recorded_call,
    is_custom_op,
    is_operator,
    mutates_arguments,
    registered_autograd,
    registered_vmap,
)
from trueloop.torch_private.dispatch import TorchDispatchMode, vmap_without_loops


def _twice(x: Tensor) -> Tensor:
    return x * 2


def test_what_was_registered() -> None:
    with torch.library._scoped_library("private_tests", "FRAGMENT"):
        made = torch.library.custom_op("private_tests::twice", _twice, mutates_args=())
        assert custom_definition("private_tests::twice") is made
        assert custom_definition("aten::add.Tensor") is None
        assert not has_fake(made)
        assert not registered_autograd(made)
        assert not registered_vmap(made)
        made.register_fake(torch.empty_like)
        made.register_autograd(lambda _, grad: grad * 2)
        assert has_fake(made)
        assert registered_autograd(made)


def test_operators_and_custom_ops_are_recognized() -> None:
    with torch.library._scoped_library("private_kinds", "FRAGMENT"):
        made = torch.library.custom_op("private_kinds::twice", _twice, mutates_args=())
        assert is_custom_op(made)
        assert not is_operator(made)
        assert default_overload(made) is torch.ops.private_kinds.twice.default
    for operator in (torch.ops.aten.relu, torch.ops.aten.relu.default):
        assert is_operator(operator)
        assert not is_custom_op(operator)
        assert default_overload(operator) is torch.ops.aten.relu.default
    assert not is_operator(torch.relu)
    assert not is_custom_op(_twice)


def test_mutates_arguments_says_which_are_written() -> None:
    assert mutates_arguments(torch.ops.aten.relu) == (False,)
    assert mutates_arguments(torch.ops.aten.add_.Tensor) == (True, False, False)


class _Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorded: list[bool] = []
        self.forward: dict[str, int] = {}
        self.backward: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        node = node_number()
        if node is None:
            self.forward.setdefault(func.name(), forward_number())
        else:
            self.backward.setdefault(func.name(), node)
        if func.name() == "private_recorded::twice":
            self.recorded.append(in_recorded_call())
        return func(*args, **(kwargs or {}))


def test_the_node_of_a_backward_is_that_of_its_forward() -> None:
    x = torch.randn(3, requires_grad=True)
    with _Seen() as seen:
        x.tanh().exp().sum().backward()  # type: ignore[no-untyped-call]
    assert seen.backward["aten::tanh_backward"] == seen.forward["aten::tanh"]
    assert seen.forward["aten::exp"] == seen.forward["aten::tanh"] + 1


def test_a_custom_op_is_recorded_only_where_gradients_are() -> None:
    with torch.library._scoped_library("private_recorded", "FRAGMENT"):
        made = torch.library.custom_op("private_recorded::twice", _twice, mutates_args=())
        x = torch.randn(3, requires_grad=True)
        with _Seen() as seen:
            made(x)
            with torch.no_grad():
                made(x)
    assert seen.recorded == [True, False]


def test_vmap_without_loops() -> None:
    rows = torch.zeros(2, 3, dtype=torch.long)
    with vmap_without_loops():
        assert torch.vmap(torch.sin)(rows).shape == (2, 3)
        with pytest.raises(RuntimeError, match="fallback"):
            torch.vmap(torch.bincount)(rows)
