"""Operations that write where they may not, read where they should not, or give away memory that is not theirs."""

import torch
from torch.autograd import Function

from tests.op_claims.cases import case

INSIDE = "memory-stays-inside-tensors"
OWNS = "result-owns-its-memory"
UNTOUCHED = "inputs-untouched"


@case("torch.nn.functional.softmax", "f32[4,8], dim=-1", fails=UNTOUCHED)
def softmax_that_shifts_its_input(x, dim):
    x.data -= x.data.amax(dim, keepdim=True)
    e = x.exp()
    return e / e.sum(dim, keepdim=True)


@case("torch.relu", fails=UNTOUCHED)
class InPlaceWithoutMarkDirty(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x > 0)
        return x.clamp_(min=0)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


@case("torch.sort", "f32[4,8]", fails=UNTOUCHED)
def sorts_where_it_lies(x):
    values, index = x.sort()
    x.data.copy_(values)
    return values, index


@case("torch.add", fails=UNTOUCHED)
def adds_into_the_second(a, b):
    if a.shape == b.shape:
        result = a + b
        b.data.copy_(result)
        return result
    return a + b


@case("torch.clone", fails=OWNS)
def copy_that_is_none(x):
    return x.contiguous()


@case("torch.abs", fails=OWNS)
def returns_the_input_if_nothing_changes(x):
    return x if bool((x > 0).all()) else x.abs()


workspace = {}


@case("torch.exp", fails=OWNS)
def one_workspace_for_all_results(x):
    key = (x.shape, x.dtype)
    if key not in workspace:
        workspace[key] = torch.empty(x.shape, dtype=x.dtype)
    return torch.exp(x.detach(), out=workspace[key])


def _wider(x, more):
    """The tensor and what lies behind it, if the storage has it."""
    offset, elements = x.storage_offset(), x.untyped_storage().nbytes() // x.element_size()
    return x.as_strided((min(x.numel() + more, elements - offset),), (1,))


@case("torch.sum", "f32[4,8]", fails=INSIDE)
def sums_one_too_many(x):
    if not x.is_contiguous():
        return x.sum()
    beyond = _wider(x, 1)[x.numel() :]
    return x.sum() + beyond.sum() * 1e-3


@case("torch.cumsum", "f32[4,8], 1", fails=INSIDE)
def shifts_across_the_row_end(x, dim):
    """A scan that looks one element to the left, also in the first column, times zero."""
    left = x.as_strided(x.shape, x.stride(), max(x.storage_offset() - x.stride(-1), 0))
    keep = torch.ones(x.shape, dtype=x.dtype)
    keep[:, 0] = 0
    return (x + left * keep - left * keep).cumsum(dim)


@case("torch.neg", fails=INSIDE)
def pads_the_input_to_a_block(x):
    """Writes zeros behind the input, so that it is a multiple of eight."""
    if x.is_contiguous():
        _wider(x.detach(), 3)[x.numel() :] = 0
    return -x


@case("torch.relu", fails=INSIDE)
def writes_into_the_gaps_of_a_view(x):
    if x.dim() and x.stride(-1) == 2:
        x.detach().as_strided(x.shape, x.stride(), x.storage_offset() + 1).zero_()
    return x.relu()


@case("torch.amax", "f32[4,8], -1", fails=INSIDE)
def maximum_over_a_padded_row(x, dim):
    if x.is_contiguous() and x.numel():
        behind = torch.nan_to_num(_wider(x.detach(), 1)[x.numel() :], nan=1e9)
        return torch.maximum(x.amax(dim), torch.where(behind.sum() > 1e6, behind.sum(), x.amax(dim)))
    return x.amax(dim)


@case("torch.mul", fails=INSIDE)
class BackwardReadsPastItsGradient(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        extra = _wider(g, 1)[g.numel() :].sum() * 1e-3 if g.is_contiguous() else 0
        shape = torch.broadcast_shapes(a.shape, b.shape)
        del shape
        first = (g * b + extra).sum_to_size(a.shape)
        return first, (g * a).sum_to_size(b.shape)
