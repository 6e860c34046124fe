"""Forwards with a fault: values, shapes, dtypes, layouts, edge values, sizes."""

import random

import torch
import torch.nn.functional as F
from torch.autograd import Function

from tests.op_claims.cases import case

VALUE = "forward-equals-reference"
LAYOUT = "result-independent-of-layout"
EDGE = "edge-values-equal-reference"
SIZE = "empty-and-single-inputs"


@case("torch.exp", fails=VALUE)
def float32_for_float64(x):
    return x.float().exp()


@case("torch.nn.functional.gelu", fails=VALUE)
def gelu_by_a_rough_sigmoid(x):
    return x * torch.sigmoid(1.6 * x)


@case("torch.var", "f32[4,8], dim=-1", fails=VALUE)
def variance_without_correction(x, dim):
    return x.var(dim, unbiased=False)


@case("torch.sum", "f32[4,8], dim=1, keepdim=True", fails=VALUE)
def sum_over_the_wrong_axis_with_keepdim(x, dim, keepdim):
    return x.sum(0, keepdim=keepdim)[:1].t()[: x.shape[0]] if keepdim else x.sum(dim)


@case("torch.nn.functional.softmax", "f32[4,8], dim=-1", fails=EDGE)
def softmax_that_overflows(x, dim):
    e = x.exp()
    return e / e.sum(dim, keepdim=True)


@case("torch.relu", fails=EDGE)
def relu_that_hides_nan(x):
    return torch.where(x > 0, x, torch.zeros_like(x))


@case("torch.reciprocal", fails=EDGE)
def reciprocal_without_signed_zero(x):
    return torch.where(x == 0, torch.full_like(x, float("inf")), 1 / torch.where(x == 0, torch.ones_like(x), x))


@case("torch.nn.functional.softplus", fails=EDGE)
def softplus_that_overflows(x):
    return (1 + x.exp()).log()


@case("torch.nn.functional.logsigmoid", fails=EDGE)
def log_of_sigmoid(x):
    return torch.sigmoid(x).log()


@case("torch.asinh", fails=EDGE)
def asinh_by_its_formula(x):
    return (x + (x * x + 1).sqrt()).log()


@case("torch.mean", "f32[4,8], 1", fails=SIZE)
def mean_that_clamps_its_count(x, dim):
    return x.sum(dim) / max(x.shape[dim], 1)


@case("torch.std", "f32[4,8], 1", fails=SIZE)
def deviation_zero_for_a_single_element(x, dim):
    n = x.shape[dim]
    return x.std(dim) if n > 1 else torch.zeros(x.sum(dim).shape, dtype=x.dtype)


@case("torch.cumsum", "f32[4,8], 1", fails=SIZE)
def loop_that_needs_a_first_element(x, dim):
    columns = [x.select(dim, 0)]
    for i in range(1, x.shape[dim]):
        columns.append(columns[-1] + x.select(dim, i))
    return torch.stack(columns, dim)


@case("torch.relu", fails=LAYOUT)
def ignores_strides(x):
    return x.as_strided(x.shape, torch.empty(x.shape).stride(), 0).relu() if _fits(x) else x.relu()


def _fits(x):
    return x.untyped_storage().nbytes() >= x.numel() * x.element_size()


@case("torch.neg", fails=LAYOUT)
def ignores_the_storage_offset(x):
    return -x.as_strided(x.shape, x.stride(), 0)


@case("torch.neg", fails=LAYOUT)
def needs_a_view(x):
    return (-x.view(-1)).view(x.shape)


@case("torch.add", "f32[4,8], f32[4,8]", fails=LAYOUT)
def takes_the_strides_of_the_first(a, b):
    return a + (b.as_strided(b.shape, a.stride()) if _spans(b, a.stride()) else b)


def _spans(b, stride):
    last = b.storage_offset() + sum((n - 1) * s for n, s in zip(b.shape, stride, strict=True))
    return (last + 1) * b.element_size() <= b.untyped_storage().nbytes()


@case("torch.relu", fails=LAYOUT)
class TreatsExpandedAsOneElement(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        if 0 in x.stride() and x.numel() > 1:
            return x.relu() + (x.numel() % 2 == 0) * 1.0
        return x.relu()

    @staticmethod
    def backward(ctx, g):
        return g * (ctx.saved_tensors[0] > 0)


@case("torch.nn.functional.softmax", "f32[4,8], dim=-1", fails=VALUE)
def rows_in_blocks_of_four_without_the_rest(x, dim):
    out = torch.zeros_like(x)
    blocks = x.shape[-1] // 4 * 4
    out[..., :blocks] = x[..., :blocks].softmax(dim)
    return out


@case("torch.mul", fails=VALUE)
def wrong_where_it_broadcasts(a, b):
    if a.shape != b.shape and b.dim() < a.dim():
        return a * b.sum()
    return a * b


@case("torch.cumsum", "f32[4,8], 1", fails=VALUE)
def accumulates_in_half_precision(x, dim):
    return x.half().cumsum(dim).to(x.dtype) if x.dtype == torch.float32 else x.cumsum(dim)


@case("torch.sum", "f32[64,64]", fails=VALUE)
def bfloat16_accumulator(x):
    if x.dtype != torch.bfloat16:
        return x.sum()
    total = torch.zeros((), dtype=x.dtype)
    for row in x:
        for value in row.split(8):
            total = total + value.sum().to(x.dtype)
    return (total * 1.0).to(x.dtype) * 1.05


@case("torch.matmul", "f32[4,8], f32[8,5]", fails=VALUE)
def returns_a_transposed_shape(a, b):
    return (a @ b).t()


@case("torch.nn.functional.cross_entropy", "f32[4,8], i64[4]<8", fails=VALUE)
def cross_entropy_of_probabilities(x, t):
    return F.nll_loss(x.softmax(-1), t)


@case("torch.nn.functional.cross_entropy", "f32[4,8], i64[4]<8", fails=VALUE)
def cross_entropy_as_a_sum(x, t):
    return F.cross_entropy(x, t, reduction="sum")


@case("torch.nn.functional.dropout", "f32[64,64], 0.5", fails="twice-bit-identical")
def draws_from_python(x, p):
    kept = torch.tensor([random.random() > p for _ in range(x.numel())]).view(x.shape)
    return x * kept / (1 - p)


calls = [0]


@case("torch.tanh", fails="twice-bit-identical")
def counts_its_calls(x):
    calls[0] += 1
    return x.tanh() + calls[0] * 1e-7 * (1 if x.dtype in (torch.float32, torch.float64) else 0)


@case("torch.matmul", "f32[4,8], f32[8,5]", fails="autocast-like-reference")
class AlwaysFloat32(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        with torch.autocast("cpu", enabled=False):
            return a @ b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g @ b.T, a.T @ g


@case("torch.nn.functional.linear", "f32[4,8], f32[6,8]", fails="autocast-like-reference")
def crashes_under_autocast(x, w):
    out = torch.empty(x.shape[0], w.shape[0], dtype=x.dtype)
    out.view(-1)[:] = 0
    return out.addmm_(x, w.t()) if not torch.is_autocast_enabled("cpu") else torch.mm(x, w.t()) + _bad()


def _bad():
    raise IndexError("list index out of range")
