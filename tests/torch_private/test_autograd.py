"""Nodes of the autograd graph still keep what we read from them, under the same names."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.conftest import in_child
from trueloop.torch_private.autograd import (
    custom_function,
    mask_gradient,
    result_metadata,
    saved,
    saved_names,
    saved_result,
)


@pytest.fixture
def x() -> Tensor:
    return torch.tensor([1.0, 2.0], requires_grad=True)


def test_saved_tensors_numbers_and_sizes(x: Tensor) -> None:
    assert torch.equal(saved(x.log().grad_fn, "self"), x)
    assert saved((x**3).grad_fn, "exponent") == 3
    assert saved(x.mean().grad_fn, "self_sym_sizes") == (2,)
    assert torch.equal(saved((x * torch.tensor([3.0, 4.0])).grad_fn, "other"), torch.tensor([3.0, 4.0]))
    assert saved(nn.functional.mse_loss(x, torch.zeros(2)).grad_fn, "reduction") == 1
    assert (saved(x.softmax(-1).grad_fn, "dim") + 2**63) % 2**64 - 2**63 == -1
    assert saved(x.view(1, 2).grad_fn, "self_sym_sizes") == (2,)


def test_saved_has_a_default(x: Tensor) -> None:
    assert saved(x.log().grad_fn, "nothing", 7) == 7


def test_saved_raises_after_the_graph_was_freed(x: Tensor) -> None:
    result = x.exp()
    node = result.grad_fn
    torch.autograd.backward(result.sum())
    with pytest.raises(RuntimeError, match="freed"):
        saved(node, "result")


def test_saved_names_lists_them(x: Tensor) -> None:
    assert {"self", "other"} <= set(saved_names((x * x).grad_fn))


def test_saved_result_returns_the_tensor(x: Tensor) -> None:
    result = x.exp()
    kept = saved_result(result.grad_fn)
    assert kept is not None
    assert torch.equal(kept, result)


def test_saved_result_is_none_where_reading_runs_a_hook_or_the_graph_was_freed(x: Tensor) -> None:
    calls: list[int] = []

    def unpack(tensor: Tensor) -> Tensor:
        calls.append(1)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        packed = x.exp()
    assert saved_result(packed.grad_fn) is None
    assert not calls
    result = x.exp()
    node = result.grad_fn
    torch.autograd.backward(result.sum())
    assert saved_result(node) is None


def test_result_metadata_has_shape_and_dtype(x: Tensor) -> None:
    (metadata,) = result_metadata(x.double().exp().grad_fn)
    assert tuple(metadata.shape) == (2,)
    assert metadata.dtype == torch.float64


def test_custom_function_is_the_class_whose_backward_a_node_runs(x: Tensor) -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, value: Tensor) -> Tensor:
            return value * 2

        @staticmethod
        def backward(_: Any, *gradients: Tensor) -> Tensor:
            return gradients[0] * 2

    assert custom_function(Twice.apply(x).grad_fn) is Twice  # type: ignore[no-untyped-call]
    assert custom_function(x.exp().grad_fn) is None


def test_mask_gradient_hides_entries_of_a_gradient(x: Tensor) -> None:
    result = x * 3
    mask_gradient(result, torch.tensor([True, False]))
    result.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 3.0]


def test_mask_gradient_under_ddp_leaves_the_other_outputs() -> None:
    """DDP's outputs come from one node of its own: a mask there must reach the module's output, and that one only."""

    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(2))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x * self.scale, (x * self.scale * 10).sum()

    def work() -> list[float]:
        store = torch.distributed.HashStore()  # type: ignore[attr-defined]
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        model = nn.parallel.DistributedDataParallel(Two(), static_graph=True)
        output, loss = model(torch.tensor([1.0, 2.0]))
        assert type(output.grad_fn).__name__ == "_DDPSinkBackward", "this test is about DDP's node"
        mask_gradient(output, torch.tensor([True, False]))
        (output.sum() + loss).backward()
        return list(model.module.scale.grad.tolist())

    assert in_child(work) == [10.0, 22.0]
