"""The MLP of a transformer block, linear + GELU + linear, with bias and GELU inside the first product.

    y = mlp(x, weight1, bias1, weight2, bias2)        # x [..., D], weight1 [H, D], weight2 [D, H]
    y = reference(...)                                # the same in plain torch

Between the two products lie H numbers for each row. Written, read, passed through GELU and written again they cost a
good part of the time of the arithmetic; here GELU happens while a tile is still in registers, and so does its gradient
in the backward. The other products are torch's own (cuBLAS). In float16 and bfloat16, as under autocast; any other
dtype, and a device without Triton, gets the reference.
"""

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor

from trueloop.kernels.matmul import fits

__all__ = ["mlp", "reference"]


def mlp(x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor) -> Tensor:
    given = x, weight1, bias1, weight2, bias2
    if torch.is_autocast_enabled(x.device.type):
        narrow = torch.get_autocast_dtype(x.device.type)
        given = tuple(each.to(narrow) for each in given)  # type: ignore[assignment]
    rows = given[0].reshape(-1, x.shape[-1])
    # The backward multiplies by `weight2` in tiles, too, so its lines must be ones that the copy engine can read.
    both = fits(rows, given[1].t()) and fits(given[3], given[3].t())
    if len({each.dtype for each in given}) > 1 or not both:
        return reference(*given)
    keep = torch.is_grad_enabled() and any(each.requires_grad for each in given)
    y: Tensor = _forward(rows, *given[1:], keep)[0]
    return y.view(*x.shape[:-1], len(weight2))


def reference(x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor) -> Tensor:
    return F.linear(F.gelu(F.linear(x, weight1, bias1)), weight2, bias2)


@torch.library.custom_op("trueloop::mlp", mutates_args=())
def _forward(
    x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor, keep: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The result; and, with `keep`, what lies before and after GELU, for the gradient."""
    from trueloop.kernels import matmul_triton as tiled  # only here: it needs Triton

    with torch.autocast(x.device.type, enabled=False):  # the types are chosen, and chosen once
        after, before = tiled.matmul_gelu(x, weight1.t(), bias1, keep)
        return torch.addmm(bias2, after, weight2.t()), before, after if keep else after.new_empty(0)


@torch.library.custom_op("trueloop::mlp_backward", mutates_args=())
def _gradients(
    arrived: Tensor, x: Tensor, weight1: Tensor, weight2: Tensor, before: Tensor, after: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    from trueloop.kernels import matmul_triton as tiled

    arrived = arrived.contiguous()
    with torch.autocast(x.device.type, enabled=False):
        inner = tiled.matmul_gelu_backward(arrived, weight2, before)
        return inner @ weight1, inner.t() @ x, inner.sum(0), arrived.t() @ after, arrived.sum(0)


@_forward.register_fake
def _(
    x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor, keep: bool
) -> tuple[Tensor, Tensor, Tensor]:
    before = x.new_empty((len(x), len(weight1)) if keep else (0,))
    return x.new_empty((len(x), len(weight2))), before, torch.empty_like(before)


@_gradients.register_fake
def _(
    arrived: Tensor, x: Tensor, weight1: Tensor, weight2: Tensor, before: Tensor, after: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    of_biases = x.new_empty(len(weight1)), x.new_empty(len(weight2))
    of_weights = x.new_empty(weight1.shape), x.new_empty(weight2.shape)
    return x.new_empty(x.shape), of_weights[0], of_biases[0], of_weights[1], of_biases[1]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    x, weight1, _, weight2, _, keep = inputs
    _, before, after = output
    if not keep:
        raise RuntimeError("trueloop::mlp was called without keep, so its gradient is missing: call mlp instead.")
    ctx.mark_non_differentiable(before, after)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, weight1, weight2, before, after)


def _backward(ctx: Any, arrived: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if arrived is None:
        return (None,) * 6
    if torch.is_grad_enabled():
        raise RuntimeError("trueloop::mlp can be differentiated once, so create_graph=True is not supported.")
    return (*_gradients(arrived, *ctx.saved_tensors), None)


_forward.register_autograd(_backward, setup_context=_keep)
