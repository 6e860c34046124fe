"""Attention with online softmax: the scores of a block exist only in registers, never all of them in memory.

    out = attention(q, k, v, causal=True)        # [B, H, T, D] each; scale 1 / sqrt(D)
    out = reference(q, k, v, causal=True)        # the same in plain torch, scores [T, T] in memory

A program holds a block of queries and walks over the keys. For each row it keeps the largest score so far and the sum
of exponentials; when a larger score arrives, what was added up is scaled down. The gradient recomputes the scores from
that sum. Blocks that a causal mask hides are not visited. In float16 and bfloat16 with D of 16 to 128, a power of two;
anything else gets the reference. cuDNN's attention is faster (docs/performance.md): the engine does not use this.
"""

import math
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.kernels.triton_here import runs_triton

__all__ = ["attention", "reference"]

NARROW: Final = (torch.float16, torch.bfloat16)
HEADS: Final = (16, 32, 64, 128)


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = True) -> Tensor:
    if not _fits(q, k, v):
        return reference(q, k, v, causal)
    out: Tensor = _forward(q, k, v, causal)[0]
    return out


def reference(q: Tensor, k: Tensor, v: Tensor, causal: bool = True) -> Tensor:
    scores = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    if causal:
        hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, -math.inf)
    return torch.softmax(scores, -1) @ v


def _fits(q: Tensor, k: Tensor, v: Tensor) -> bool:
    one = q.dim() == 4 and q.shape == k.shape == v.shape and q.dtype == k.dtype == v.dtype
    return one and q.dtype in NARROW and q.shape[-1] in HEADS and q.numel() > 0 and runs_triton(q, "attention")


@torch.library.custom_op("trueloop::attention", mutates_args=())
def _forward(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """The result, and each row's log-sum-exp (of base 2) for the gradient."""
    from trueloop.kernels import attention_triton as online  # only here: it needs Triton

    return online.attention(q.contiguous(), k.contiguous(), v.contiguous(), causal)


@torch.library.custom_op("trueloop::attention_backward", mutates_args=())
def _gradients(
    arrived: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, total: Tensor, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    from trueloop.kernels import attention_triton as online

    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    return online.attention_backward(arrived.contiguous(), q, k, v, out, total, causal)


@_forward.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    return q.new_empty(q.shape), q.new_empty(q.shape[:-1], dtype=torch.float32)


@_gradients.register_fake
def _(
    arrived: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, total: Tensor, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, ctx.causal = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(q, k, v, *output)


def _backward(ctx: Any, arrived: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if arrived is None:
        return (None,) * 4
    if torch.is_grad_enabled():
        raise RuntimeError("trueloop::attention can be differentiated once, so create_graph=True is not supported.")
    return (*_gradients(arrived, *ctx.saved_tensors, ctx.causal), None)


_forward.register_autograd(_backward, setup_context=_keep)
