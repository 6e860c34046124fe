"""LayerNorm and RMSNorm over the last dimension: each row read once, statistics in float32.

    y = layer_norm(x, weight, bias)      y = rms_norm(x, weight)
    y = layer_norm_reference(...)        y = rms_norm_reference(...)     # the same in plain torch

On a GPU the forward is one Triton kernel, the gradient two: in the first a program takes many rows, writes their
gradient and adds up its part of the gradients of weight and bias; the second adds the parts. So nothing depends on the
order in which programs end, and two runs are bit-identical.
"""

from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor

from trueloop.kernels.triton_here import runs_triton

__all__ = ["WIDEST", "layer_norm", "layer_norm_reference", "rms_norm", "rms_norm_reference"]

WIDEST: Final = 16384
"""Columns of a row that one program holds in registers."""


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    y: Tensor = _forward(x, weight, bias, eps)[0]
    return y


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    y: Tensor = _forward(x, weight, None, eps)[0]
    return y


def layer_norm_reference(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def rms_norm_reference(x: Tensor, weight: Tensor, eps: float = 1e-6) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], weight, eps)


def _fits(x: Tensor) -> bool:
    return runs_triton(x, "norm") and 0 < x.shape[-1] <= WIDEST and x.numel() > 0


@torch.library.custom_op("trueloop::norm", mutates_args=())
def _forward(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """The result, and for the gradient each row's mean (none without `bias`: an RMSNorm) and 1 / deviation."""
    if _fits(x):
        from trueloop.kernels import norm_triton as fused  # only here: it needs Triton

        return fused.norm(x, weight, bias, eps)
    wide = x.to(_wide(x))
    mean = wide.mean(-1) if bias is not None else wide.new_empty(0)
    centred = wide - mean.unsqueeze(-1) if bias is not None else wide
    scale = (centred.square().mean(-1) + eps).rsqrt()
    y = centred * scale.unsqueeze(-1) * weight.to(wide.dtype)
    if bias is not None:
        y = y + bias.to(wide.dtype)
    return y.to(x.dtype).contiguous(), mean, scale


@torch.library.custom_op("trueloop::norm_backward", mutates_args=())
def _gradient(
    arrived: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor]:
    if _fits(x):
        from trueloop.kernels import norm_triton as fused

        return fused.norm_backward(arrived, x, weight, mean, scale, has_bias)
    wide = _wide(x)
    unit = (x.to(wide) - mean.unsqueeze(-1) if has_bias else x.to(wide)) * scale.unsqueeze(-1)
    incoming = arrived.to(wide)
    through = incoming * weight.to(wide)
    inner = through - unit * (through * unit).mean(-1, keepdim=True)
    if has_bias:
        inner = inner - through.mean(-1, keepdim=True)
    of_x = (inner * scale.unsqueeze(-1)).to(x.dtype).contiguous()
    of_weight = (incoming * unit).flatten(0, -2).sum(0).to(weight.dtype)
    return of_x, of_weight, incoming.flatten(0, -2).sum(0).to(weight.dtype)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


@_forward.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor | None, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    scale = x.new_empty(x.shape[:-1], dtype=_wide(x))
    return x.new_empty(x.shape), scale.new_empty(0) if bias is None else torch.empty_like(scale), scale


@_gradient.register_fake
def _(
    arrived: Tensor, x: Tensor, weight: Tensor, mean: Tensor, scale: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), torch.empty_like(weight), torch.empty_like(weight)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x, weight, bias, _ = inputs
    _, mean, scale = output
    ctx.mark_non_differentiable(mean, scale)
    ctx.save_for_backward(x, weight, mean, scale)
    ctx.has_bias = bias is not None


def _backward(ctx: Any, arrived: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    if torch.is_grad_enabled():
        raise RuntimeError(
            "trueloop::norm can be differentiated once, so create_graph=True is not supported: use F.layer_norm or "
            "F.rms_norm instead."
        )
    x, weight, mean, scale = ctx.saved_tensors
    of_x, of_weight, of_bias = _gradient(arrived, x, weight, mean, scale, ctx.has_bias)
    return of_x, of_weight, of_bias if ctx.has_bias else None, None


_forward.register_autograd(_backward, setup_context=_keep)
