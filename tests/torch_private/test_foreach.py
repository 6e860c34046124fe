"""The operations on lists of tensors compute what the single ones do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from trueloop.torch_private import foreach


def _pair() -> tuple[list[Tensor], list[Tensor]]:
    return [torch.tensor([1.0, 4.0]), torch.tensor([9.0])], [torch.tensor([2.0, 3.0]), torch.tensor([5.0])]


@pytest.mark.parametrize(
    ("name", "single"),
    [("foreach_add", torch.add), ("foreach_sub", torch.sub), ("foreach_mul", torch.mul), ("foreach_div", torch.div)],
)
def test_binary_operations(name: str, single: Callable[..., Tensor]) -> None:
    left, right = _pair()
    result = getattr(foreach, name)(left, right)
    assert all(map(torch.equal, result, map(single, left, right)))


@pytest.mark.parametrize(
    ("name", "single"), [("foreach_add_", torch.add), ("foreach_sub_", torch.sub), ("foreach_mul_", torch.mul)]
)
def test_binary_operations_in_place(name: str, single: Callable[..., Tensor]) -> None:
    left, right = _pair()
    expected = list(map(single, left, right))
    getattr(foreach, name)(left, right)
    assert all(map(torch.equal, left, expected))


def test_foreach_sqrt_and_norm() -> None:
    left, _ = _pair()
    assert all(map(torch.equal, foreach.foreach_sqrt(left), map(torch.sqrt, left)))
    assert all(map(torch.equal, foreach.foreach_norm(left), map(torch.linalg.vector_norm, left)))


def test_foreach_copy_and_lerp_write_into_the_first_list() -> None:
    left, right = _pair()
    expected = [torch.lerp(a, b, 0.25) for a, b in zip(left, right, strict=True)]
    foreach.foreach_lerp_(left, right, 0.25)
    assert all(map(torch.equal, left, expected))
    foreach.foreach_copy_(left, right)
    assert all(map(torch.equal, left, right))


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
def test_fused_kernels_take_the_step_of_their_optimizer_and_skip_it_at_found_inf(kind: Any) -> None:
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    parameter.grad = torch.tensor([0.5, 0.25])
    start = parameter.detach().clone()
    optimizer = kind([parameter], lr=0.1, weight_decay=0.01, fused=True)
    optimizer.step()
    for found, expected in ((0.0, parameter.detach()), (1.0, start)):
        weights = [start.clone()]
        flags: dict[str, Any] = {"maximize": False, "grad_scale": None, "found_inf": torch.tensor(found)}
        if kind is torch.optim.SGD:
            foreach.fused_sgd_(
                weights, [parameter.grad], [], weight_decay=0.01, momentum=0.0, lr=0.1, dampening=0.0, nesterov=False,
                is_first_step=True, **flags,
            )  # fmt: skip
        else:
            kernel = foreach.fused_adamw_ if kind is torch.optim.AdamW else foreach.fused_adam_
            averages, squares = [torch.zeros(2)], [torch.zeros(2)]
            kernel(
                weights, [parameter.grad], averages, squares, [], [torch.tensor(1.0)], lr=0.1, beta1=0.9, beta2=0.999,
                weight_decay=0.01, eps=1e-8, amsgrad=False, **flags,
            )  # fmt: skip
        assert torch.equal(weights[0], expected)
