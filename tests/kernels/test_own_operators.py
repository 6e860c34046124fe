"""The operators of `trueloop.kernels` where no kernel of ours runs: complete for torch, and right on the CPU too."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trueloop.kernels import attention, matmul, mlp, norm, reglu, softmax
from trueloop.kernels.adamw import AdamW
from trueloop.kernels.triton_here import INTERPRETED

pytestmark = pytest.mark.skipif(INTERPRETED, reason="TRITON_INTERPRET=1 is set: tests/kernels/test_interpreted.py")
Function = Callable[..., Tensor]


def drawn(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


CASES: dict[str, tuple[Function, Function, tuple[Tensor, ...]]] = {
    "softmax": (softmax.softmax, softmax.reference, (drawn(2, 3, 5),)),
    "layer_norm": (norm.layer_norm, norm.layer_norm_reference, (drawn(2, 3, 5), drawn(5), drawn(5))),
    "rms_norm": (norm.rms_norm, norm.rms_norm_reference, (drawn(2, 3, 5), drawn(5))),
    "matmul": (matmul.matmul, matmul.reference, (drawn(3, 4), drawn(4, 5))),
    "mlp": (mlp.mlp, mlp.reference, (drawn(2, 3, 4), drawn(6, 4), drawn(6), drawn(4, 6), drawn(4))),
    "attention": (attention.attention, attention.reference, tuple(drawn(1, 2, 5, 4) + number for number in range(3))),
}


@pytest.mark.parametrize("name", CASES)
def test_result_and_gradient(name: str) -> None:
    function, reference, inputs = CASES[name]
    inputs = tuple(each.detach().requires_grad_() for each in inputs)
    torch.testing.assert_close(function(*inputs), reference(*inputs))
    assert torch.autograd.gradcheck(function, inputs)


def test_softmax_has_a_second_gradient() -> None:
    assert torch.autograd.gradgradcheck(softmax.softmax, (drawn(3, 4),))


def test_a_second_gradient_that_does_not_exist_is_refused() -> None:
    x, weight = drawn(3, 4), drawn(4)
    with pytest.raises(RuntimeError, match="create_graph=True is not supported"):
        torch.autograd.grad(norm.rms_norm(x, weight).sum(), x, create_graph=True)


def test_operators_are_complete() -> None:
    """torch's own check: schema, fake tensors, autograd registration, under AOT autograd."""
    torch.library.opcheck(torch.ops.trueloop.softmax, (drawn(3, 4),))
    torch.library.opcheck(torch.ops.trueloop.norm, (drawn(3, 4), drawn(4), drawn(4), 1e-5))
    torch.library.opcheck(torch.ops.trueloop.norm, (drawn(3, 4), drawn(4), None, 1e-5))
    torch.library.opcheck(torch.ops.trueloop.matmul, (drawn(3, 4), drawn(4, 5)))


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"matmul needs \[M, K\] and \[K, N\].* Nothing was computed"):
        matmul.matmul(drawn(3, 4), drawn(5, 6))


def test_adamw_is_torchs_where_its_kernel_cannot_run() -> None:
    start = [torch.randn(size) for size in (3, 17)]
    ours, plain = ([each.clone().requires_grad_() for each in start] for _ in range(2))
    one, other = AdamW(ours, lr=1e-2), torch.optim.AdamW(plain, lr=1e-2)
    for step in range(4):
        for mine, its in zip(ours, plain, strict=True):
            mine.grad = torch.randn_like(mine)
            its.grad = mine.grad.clone()
        if step == 2:
            one.load_state_dict(copy.deepcopy(one.state_dict()))
        one.step()
        other.step()
    for mine, its in zip(ours, plain, strict=True):
        assert torch.equal(mine, its)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("g++") is None or shutil.which("ninja") is None, reason="needs g++ and ninja")
def test_the_extension_in_cpp() -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        gate, value = drawn(7, 5).detach().to(dtype), drawn(5, 7).detach().to(dtype).t()
        torch.testing.assert_close(reglu.reglu(gate, value), reglu.reference(gate, value))
    edge = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0])
    found, wanted = reglu.reglu(edge, torch.ones(5)), reglu.reference(edge, torch.ones(5))
    torch.testing.assert_close(found, wanted, equal_nan=True, rtol=0, atol=0)
    assert torch.autograd.gradcheck(reglu.reglu, (drawn(3, 4), drawn(4, 3).detach().t().requires_grad_()))
    assert torch.autograd.gradgradcheck(reglu.reglu, (drawn(3, 4), drawn(4, 3).detach().t().requires_grad_()))
    torch.library.opcheck(
        torch.ops.trueloop_cpp.reglu.default, (drawn(3, 4), drawn(4, 3).detach().t().requires_grad_())
    )
    with pytest.raises(RuntimeError, match="two tensors of one shape"):
        reglu.reglu(torch.ones(3), torch.ones(4))
