"""Our Triton kernels in Triton's interpreter, on a CPU: every edge of a block, against float64.

    TRITON_INTERPRET=1 python -m pytest tests/kernels/test_interpreted.py        # where Triton is installed

In float16: the interpreter multiplies bfloat16 wrongly. On a GPU, tests/gpu/test_own_kernels.py does the same and more.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trueloop.kernels.triton_here import INTERPRETED

if not INTERPRETED:
    pytest.skip("runs with TRITON_INTERPRET=1, where Triton is installed", allow_module_level=True)
pytest.importorskip("triton")

from trueloop.kernels import attention, matmul, mlp, norm, softmax
from trueloop.kernels.adamw import AdamW

Function = Callable[..., Tensor]
CLOSE = {torch.float32: 2e-6, torch.float16: 1e-3}


def drawn(*shape: int, dtype: torch.dtype = torch.float16, scale: float = 1.0) -> Tensor:
    return (torch.randn(*shape) * scale).to(dtype).requires_grad_()


def agrees(function: Function, reference: Function, inputs: tuple[Tensor, ...]) -> None:
    wide = tuple(each.detach().double().requires_grad_() for each in inputs)
    result, wanted = function(*inputs), reference(*wide)
    arrived = torch.randn_like(result)
    found = result, *torch.autograd.grad(result, inputs, arrived)
    expected = wanted, *torch.autograd.grad(wanted, wide, arrived.double())
    for one, other in zip(found, expected, strict=True):
        apart = (one.detach().double() - other.detach()).norm() / other.detach().norm().clamp(min=1e-30)
        assert float(apart) < CLOSE[inputs[0].dtype]


@pytest.mark.parametrize("dtype", CLOSE)
def test_softmax(dtype: torch.dtype) -> None:
    agrees(softmax.softmax, softmax.reference, (drawn(5, 3, 37, dtype=dtype),))
    agrees(lambda x: softmax.softmax(x[:, 3:9]), lambda x: softmax.reference(x[:, 3:9]), (drawn(4, 20, dtype=dtype),))


@pytest.mark.parametrize("dtype", CLOSE)
def test_norms(dtype: torch.dtype) -> None:
    x, weight, bias = drawn(9, 37, dtype=dtype), drawn(37, dtype=dtype), drawn(37, dtype=dtype)
    agrees(norm.layer_norm, norm.layer_norm_reference, (x, weight, bias))
    agrees(norm.rms_norm, norm.rms_norm_reference, (x, weight))


def test_matmul() -> None:
    agrees(matmul.matmul, matmul.reference, (drawn(70, 56), drawn(56, 96)))
    agrees(lambda a, b: matmul.matmul(a.t(), b.t()), lambda a, b: a.t() @ b.t(), (drawn(56, 72), drawn(96, 56)))


def test_mlp() -> None:
    weights = drawn(48, 16, scale=0.3), drawn(48), drawn(16, 48, scale=0.3), drawn(16)
    agrees(mlp.mlp, mlp.reference, (drawn(2, 33, 16), *weights))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("length", [40, 64, 130])
def test_attention(causal: bool, length: int) -> None:
    inputs = tuple(drawn(1, 2, length, 16) for _ in range(3))
    agrees(
        lambda q, k, v: attention.attention(q, k, v, causal),
        lambda q, k, v: attention.reference(q, k, v, causal),
        inputs,
    )


def test_adamw() -> None:
    start = [torch.randn(size) for size in (3, 17, 1500, 1)]
    ours, plain = ([each.clone().requires_grad_() for each in start] for _ in range(2))
    one, other = AdamW(ours, lr=1e-2, weight_decay=0.1), torch.optim.AdamW(plain, lr=1e-2, weight_decay=0.1)
    for step in range(12):
        for mine, its in zip(ours, plain, strict=True):
            mine.grad = torch.randn_like(mine) * 10.0 ** (step % 3)
            its.grad = mine.grad.clone()
        if step == 5:
            ours[0].grad = plain[0].grad = None
        if step == 8:
            kept = one.state_dict()
            one = AdamW(ours, lr=1e-2, weight_decay=0.1)
            one.load_state_dict(kept)
        one.step()
        other.step()
    for mine, its in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-5, atol=1e-6)


def test_adamw_after_its_state_was_cleared_and_with_what_it_leaves_to_torch() -> None:
    """A table of old addresses would write into memory that is free."""
    ours, plain = ([torch.ones(5).requires_grad_() for _ in range(3)] for _ in range(2))
    one, other = AdamW(ours, lr=1e-2), torch.optim.AdamW(plain, lr=1e-2)
    for step in range(8):
        for mine, its in zip(ours, plain, strict=True):
            mine.grad = torch.full_like(mine, step + 1.0)
            its.grad = mine.grad.clone()
        if step == 3:
            one.state.clear()
            other.state.clear()
        one.param_groups[0]["maximize"] = other.param_groups[0]["maximize"] = step == 5  # torch's own step
        one.step()
        other.step()
    for mine, its in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-5, atol=1e-6)


def test_mlp_of_one_row_and_of_widths_that_no_tile_fits() -> None:
    for width, out in ((16, 15), (15, 16), (16, 16)):
        weights = drawn(48, width, scale=0.3), drawn(48), drawn(out, 48, scale=0.3), drawn(out)
        agrees(mlp.mlp, mlp.reference, (drawn(width), *weights))
