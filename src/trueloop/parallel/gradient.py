"""The gradient norm and gradient clipping, without a host-device synchronization."""

from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

from trueloop.measure.tensors import dense
from trueloop.torch_private.foreach import foreach_mul_, foreach_norm

__all__ = ["clip", "norm_of", "shorten"]

TINY: Final = 1e-6  # Keeps the division by a norm of zero finite


def norm_of(parameters: Sequence[Tensor]) -> Tensor:
    """The length of the whole gradient, on the device."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return torch.zeros((), device=parameters[0].device if parameters else None)
    norms: tuple[Tensor, ...] = foreach_norm(list(map(dense, gradients)))
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return norm


def clip(parameters: Sequence[Tensor], norm: Tensor, limit: float) -> None:
    """Gradients shortened to the limit if they are longer, without asking the device how long they are."""
    shorten([parameter.grad for parameter in parameters if parameter.grad is not None], norm, limit)


def shorten(gradients: list[Tensor], norm: Tensor, limit: float) -> None:
    if gradients:
        foreach_mul_(gradients, torch.clamp(limit / (norm + TINY), max=1.0))
