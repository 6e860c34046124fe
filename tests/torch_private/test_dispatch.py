"""Dispatch modes, fake tensors, operator schemas, pytrees."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from trueloop.torch_private.dispatch import (
    MODE_FRAMES,
    PYTREE_LOGGER,
    FakeTensorMode,
    TorchDispatchMode,
    dispatch_modes,
    fake_mode,
    is_transformed,
    operator_packet,
    operator_schema,
    pytree,
    set_grad,
    tracing_state,
    unset_fake_temporarily,
)


def test_a_dispatch_mode_sees_operators_with_packet_and_schema() -> None:
    seen: list[Any] = []

    class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    assert dispatch_modes() == 0
    with Mode():  # type: ignore[no-untyped-call]
        assert dispatch_modes() == 1
        torch.mm(torch.zeros(2, 2), torch.zeros(2, 2)).add_(1)
    product = next(func for func in seen if operator_packet(func) is torch.ops.aten.mm)
    assert operator_packet(product) in flop_registry
    assert not operator_schema(product).is_mutable
    write = next(func for func in seen if operator_schema(func).is_mutable)
    assert operator_schema(write).arguments[0].alias_info.is_write


def test_fake_tensors_have_shapes_only() -> None:
    with FakeTensorMode():
        assert type(torch.zeros(2)).__name__ == "FakeTensor"
        with unset_fake_temporarily():
            assert type(torch.zeros(2)) is Tensor


def test_is_transformed_inside_torch_func_only() -> None:
    states: list[bool] = []

    def square(x: Tensor) -> Tensor:
        states.append(is_transformed() is not None)
        return x * x

    torch.func.vmap(square)(torch.zeros(2))
    square(torch.zeros(2))
    assert states == [True, False]


def test_tracing_state_inside_torch_jit_trace_only() -> None:
    states: list[bool] = []

    def square(x: Tensor) -> Tensor:
        states.append(tracing_state() is not None)
        return x * x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, and users still have it
        torch.jit.trace(square, torch.zeros(2), check_trace=False)  # type: ignore[no-untyped-call]
    square(torch.zeros(2))
    assert states == [True, False]


def test_pytree_flattens_and_maps() -> None:
    nested = (torch.zeros(1), {"a": [torch.ones(1), 3]})
    leaves, tree = pytree.tree_flatten(nested)
    assert len(leaves) == len(pytree.tree_leaves(nested)) == 3
    assert pytree.tree_unflatten(leaves, tree)[1]["a"][1] == 3
    assert pytree.tree_map_only(Tensor, lambda t: t + 1, nested)[1]["a"][0].item() == 2
    if hasattr(pytree, "log"):  # torch 2.11 has no logger there, and reports nothing
        assert pytree.log is logging.getLogger(PYTREE_LOGGER)


def test_a_fake_tensor_gives_no_kernel_its_memory() -> None:
    with fake_mode() as mode:
        fake = mode.from_tensor(torch.zeros(3))
    with pytest.raises(RuntimeError, match="data pointer"):
        fake.data_ptr()


def test_only_known_frames_stand_between_a_mode_and_its_caller() -> None:
    between: list[str] = []

    class Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            frame: Any = sys._getframe(1)
            while frame.f_code.co_filename != __file__:
                between.append(Path(frame.f_code.co_filename).name)
                frame = frame.f_back
            return func(*args, **(kwargs or {}))

    x = torch.zeros(2)
    with Mode():  # type: ignore[no-untyped-call]
        x.add(1)
    assert set(between) <= set(MODE_FRAMES)


def test_set_grad_switches_gradients() -> None:
    before = torch.is_grad_enabled()
    try:
        set_grad(False)
        assert not torch.is_grad_enabled()
    finally:
        set_grad(before)
    assert torch.is_grad_enabled() is before
