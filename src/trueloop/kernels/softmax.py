"""Softmax over the last dimension, each row read once and written once.

    shares = softmax(scores)         # on a GPU one Triton kernel, and one for the gradient
    shares = reference(scores)       # the same in plain torch

A softmax does a few operations for each number that it reads, so what it costs is memory traffic: the row is kept in
registers between its largest value, its sum and its result. Sums are in float32 whatever the dtype. Rows wider than
`WIDEST` do not fit into registers and are left to torch.
"""

from typing import Any, Final

import torch
from torch import Tensor

from trueloop.kernels.triton_here import runs_triton

__all__ = ["WIDEST", "reference", "softmax"]

WIDEST: Final = 32768
"""Columns of a row that one program holds in registers."""


def softmax(scores: Tensor) -> Tensor:
    """Shares of each row, which add up to 1."""
    shares: Tensor = _forward(scores)
    return shares


def reference(scores: Tensor) -> Tensor:
    """The same from torch alone."""
    return torch.softmax(scores, -1)


def _fits(rows: Tensor) -> bool:
    return runs_triton(rows, "softmax") and rows.dim() > 0 and 0 < rows.shape[-1] <= WIDEST and rows.is_floating_point()


@torch.library.custom_op("trueloop::softmax", mutates_args=())
def _forward(scores: Tensor) -> Tensor:
    if _fits(scores):
        from trueloop.kernels import softmax_triton as fused  # only here: it needs Triton

        return fused.softmax(scores)
    return reference(scores).contiguous()


@torch.library.custom_op("trueloop::softmax_backward", mutates_args=())
def _gradient(arrived: Tensor, shares: Tensor) -> Tensor:
    if _fits(shares):
        from trueloop.kernels import softmax_triton as fused

        return fused.softmax_backward(arrived, shares)
    wide = torch.promote_types(shares.dtype, torch.float32)
    product = arrived.to(wide) * shares.to(wide)
    return (product - shares.to(wide) * product.sum(-1, keepdim=True)).to(shares.dtype).contiguous()


@_forward.register_fake
def _(scores: Tensor) -> Tensor:
    return scores.new_empty(scores.shape)


@_gradient.register_fake
def _(arrived: Tensor, shares: Tensor) -> Tensor:
    return shares.new_empty(shares.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(output)


def _backward(ctx: Any, arrived: Tensor) -> Tensor:
    (shares,) = ctx.saved_tensors
    if torch.is_grad_enabled():  # create_graph: in operations that have a gradient themselves
        product = arrived * shares
        twice: Tensor = product - shares * product.sum(-1, keepdim=True)
        return twice
    gradient: Tensor = _gradient(arrived, shares)
    return gradient


_forward.register_autograd(_backward, setup_context=_keep)
