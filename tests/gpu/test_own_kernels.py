"""Our Triton kernels and the C++ extension on a real CUDA device: against float64, over layouts and sizes, compiled."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from trueloop.kernels import attention, matmul, mlp, norm, reglu, softmax
from trueloop.kernels.adamw import AdamW

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA device: run `make gpu-test` on a machine that has one"
    ),
]

CLOSE = {torch.float32: 2e-6, torch.bfloat16: 8e-3, torch.float16: 1e-3}
"""Length of the difference to float64, relative to the result's: rounding of the inputs' dtype, some times over."""
Function = Callable[..., Tensor]


def drawn(*shape: int, dtype: torch.dtype, scale: float = 1.0) -> Tensor:
    return (torch.randn(*shape, device="cuda") * scale).to(dtype).requires_grad_()


def apart(one: Tensor, other: Tensor) -> float:
    one, other = one.detach().double(), other.detach().double()
    return float((one - other).norm() / other.norm().clamp(min=1e-30))


def agrees(function: Function, reference: Function, inputs: tuple[Tensor, ...]) -> None:
    """Result and every gradient; results of the same call twice are bit-identical."""
    close = CLOSE[inputs[0].dtype]
    result = function(*inputs)
    assert torch.equal(result, function(*inputs))
    wide = tuple(each.detach().double().requires_grad_() for each in inputs)
    wanted = reference(*wide)
    assert result.shape == wanted.shape
    assert result.dtype == inputs[0].dtype
    assert apart(result, wanted) < close
    arrived = torch.randn_like(result)
    found = torch.autograd.grad(result, inputs, arrived)
    for number, (one, other) in enumerate(zip(found, torch.autograd.grad(wanted, wide, arrived.double()), strict=True)):
        assert apart(one, other) < 2 * close, number


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("columns", [1, 37, 128, 4096, 5000, 32768, 40000])
def test_softmax(dtype: torch.dtype, columns: int) -> None:
    agrees(softmax.softmax, softmax.reference, (drawn(3, 5, columns, dtype=dtype),))


def test_softmax_of_strided_rows_and_of_nothing() -> None:
    base = drawn(64, 300, dtype=torch.float32)
    agrees(lambda x: softmax.softmax(x[:, 7:100]), lambda x: softmax.reference(x[:, 7:100]), (base,))
    agrees(lambda x: softmax.softmax(x.t()), lambda x: softmax.reference(x.t()), (base,))
    assert softmax.softmax(torch.empty(0, 5, device="cuda")).shape == (0, 5)
    row = torch.full((1, 9), -torch.inf, device="cuda")
    assert softmax.softmax(row).isnan().all(), "as torch's"


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 37), (700, 768), (33, 16384), (5, 20000)])
def test_norms(dtype: torch.dtype, rows: int, columns: int) -> None:
    if columns == 1:
        pytest.skip("a layer norm of one column is its bias: gradients of rounding")
    x, weight, bias = drawn(rows, columns, dtype=dtype), drawn(columns, dtype=dtype), drawn(columns, dtype=dtype)
    agrees(norm.layer_norm, norm.layer_norm_reference, (x, weight, bias))
    agrees(norm.rms_norm, norm.rms_norm_reference, (x, weight))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 1), (70, 90, 50), (129, 257, 65), (1024, 2048, 768), (2048, 640, 100)]
)
def test_matmul(dtype: torch.dtype, m: int, n: int, k: int) -> None:
    agrees(matmul.matmul, matmul.reference, (drawn(m, k, dtype=dtype), drawn(k, n, dtype=dtype)))
    agrees(
        lambda a, b: matmul.matmul(a.t(), b.t()),
        lambda a, b: a.t() @ b.t(),
        (drawn(k, m, dtype=dtype), drawn(n, k, dtype=dtype)),
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mlp(dtype: torch.dtype) -> None:
    inputs = (
        drawn(3, 333, 96, dtype=dtype), drawn(384, 96, dtype=dtype, scale=0.1), drawn(384, dtype=dtype),
        drawn(96, 384, dtype=dtype, scale=0.05), drawn(96, dtype=dtype),
    )  # fmt: skip
    agrees(mlp.mlp, mlp.reference, inputs)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("size", [16, 64, 128])
@pytest.mark.parametrize("length", [1, 77, 128, 1000, 2048])
def test_attention(causal: bool, size: int, length: int) -> None:
    inputs = tuple(drawn(2, 3, length, size, dtype=torch.bfloat16) for _ in range(3))
    if length == 1:  # one key: a share of 1, and gradients of q and k are rounding
        q, k, v = inputs
        assert torch.equal(attention.attention(q, k, v, causal), v)
        return
    agrees(
        lambda q, k, v: attention.attention(q, k, v, causal),
        lambda q, k, v: attention.reference(q, k, v, causal),
        inputs,
    )


def test_attention_of_a_transposed_layout() -> None:
    inputs = tuple(drawn(2, 100, 3, 64, dtype=torch.float16) for _ in range(3))
    agrees(
        lambda *each: attention.attention(*(one.transpose(1, 2) for one in each)),
        lambda *each: attention.reference(*(one.transpose(1, 2) for one in each)),
        inputs,
    )


def test_operators_are_complete_and_compile() -> None:
    """torch's own check: schema, fake tensors, autograd registration, under AOT autograd."""
    half = torch.bfloat16
    torch.library.opcheck(torch.ops.trueloop.softmax, (drawn(5, 37, dtype=half),))
    given = drawn(5, 37, dtype=half), drawn(37, dtype=half), drawn(37, dtype=half), 1e-5
    torch.library.opcheck(torch.ops.trueloop.norm, given)
    torch.library.opcheck(torch.ops.trueloop.matmul, (drawn(33, 20, dtype=half), drawn(20, 9, dtype=half)))
    torch.library.opcheck(torch.ops.trueloop.attention, (*(drawn(1, 2, 40, 16, dtype=half) for _ in range(3)), True))
    weights = drawn(64, 32, dtype=half), drawn(64, dtype=half), drawn(32, 64, dtype=half), drawn(32, dtype=half)
    torch.library.opcheck(torch.ops.trueloop.mlp, (drawn(40, 32, dtype=half), *weights, True))
    x = drawn(40, 32, dtype=half)
    whole = torch.compile(lambda x: softmax.softmax(mlp.mlp(x, *weights)), fullgraph=True)
    assert apart(whole(x), softmax.softmax(mlp.mlp(x, *weights))) < CLOSE[half]


@pytest.mark.parametrize("sizes", [(3, 17, 1500, 1, 0), (256,) * 400])
def test_adamw_is_torchs(sizes: tuple[int, ...]) -> None:
    draws = torch.Generator("cuda").manual_seed(0)
    start = [torch.randn(size, device="cuda", generator=draws) for size in sizes]
    ours, plain = ([each.clone().requires_grad_() for each in start] for _ in range(2))
    one, other = AdamW(ours, lr=1e-2, weight_decay=0.1), torch.optim.AdamW(plain, lr=1e-2, weight_decay=0.1)
    for step in range(20):
        for mine, its in zip(ours, plain, strict=True):
            slope = torch.randn(mine.shape, device="cuda", generator=draws) * 10.0 ** (step % 3)
            mine.grad, its.grad = slope.clone(), slope.clone()
        if step == 5:
            ours[0].grad = plain[0].grad = None
        if step == 10:  # a resume
            kept = one.state_dict()
            one = AdamW(ours, lr=1e-2, weight_decay=0.1)
            one.load_state_dict(kept)
        if step == 15:  # and another into torch's own
            other.load_state_dict(copy.deepcopy(one.state_dict()))
        one.step()
        other.step()
    for mine, its in zip(ours, plain, strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_the_extension_on_a_gpu() -> None:
    for dtype in CLOSE:
        for columns in (1000, 1001):
            inputs = drawn(7, columns, dtype=dtype), drawn(7, columns, dtype=dtype)
            agrees(reglu.reglu, reglu.reference, inputs)
            agrees(lambda a, b: reglu.reglu(a[1:], b[1:]), lambda a, b: reglu.reference(a[1:], b[1:]), inputs)
    edge = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0], device="cuda")
    found, wanted = reglu.reglu(edge, torch.ones_like(edge)), reglu.reference(edge, torch.ones_like(edge))
    torch.testing.assert_close(found, wanted, equal_nan=True, rtol=0, atol=0)


def test_adamw_after_its_state_was_cleared_and_with_what_it_leaves_to_torch() -> None:
    """A table of old addresses would write into memory that is free."""
    ours, plain = ([torch.ones(5, device="cuda").requires_grad_() for _ in range(3)] for _ in range(2))
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
        weights = (
            drawn(48, width, dtype=torch.bfloat16, scale=0.3),
            drawn(48, dtype=torch.bfloat16),
            drawn(out, 48, dtype=torch.bfloat16, scale=0.3),
            drawn(out, dtype=torch.bfloat16),
        )
        agrees(mlp.mlp, mlp.reference, (drawn(width, dtype=torch.bfloat16), *weights))
