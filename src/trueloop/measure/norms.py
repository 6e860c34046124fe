"""Gradient and weight norms, layer by layer."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import torch
from torch import Tensor, nn

from trueloop.event import LayerGradient
from trueloop.torch_private.foreach import foreach_norm
from trueloop.torch_private.modules import ConvNd

__all__ = ["OWNERS", "Weight", "in_running_order", "layer_gradients", "norms", "norms_read", "weights_of"]

OWNERS: Final = (nn.Linear, nn.Bilinear, ConvNd, nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention)
"""Layers whose weights every sample passes through: not embeddings, of which a batch touches some rows."""

Weight = tuple[str, nn.Module, Tensor]  # (name, layer, weight)


def weights_of(model: nn.Module) -> Iterator[Weight]:
    """The matrices of all `OWNERS`, each once."""
    seen: set[int] = set()
    for path, module in model.named_modules():
        if not isinstance(module, OWNERS):
            continue
        for name, parameter in module.named_parameters(prefix=path, recurse=False):
            if parameter.dim() >= 2 and id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, module, parameter


def in_running_order(weights: Sequence[Weight], order: Mapping[nn.Module, int]) -> list[Weight]:
    """Weights in the order in which their layers ran; as registered where most layers were not seen."""
    ran = [weight for weight in weights if weight[1] in order]
    return sorted(ran, key=lambda weight: order[weight[1]]) if len(ran) > len(weights) / 2 else list(weights)


def norms(tensors: Sequence[Tensor]) -> Tensor:
    """Euclidean norms, on the device, in float32: half precision overflows long before a norm is large."""
    if not tensors:
        return torch.zeros(0)
    wide = [tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor for tensor in tensors]
    return torch.stack([norm.float() for norm in foreach_norm(wide)])


@torch.no_grad()
def norms_read(tensors: Sequence[Tensor]) -> list[float]:
    """The same on the host, with one read per device."""
    values: dict[int, float] = {}
    for device in dict.fromkeys(tensor.device for tensor in tensors):
        here = [number for number, tensor in enumerate(tensors) if tensor.device == device]
        values.update(zip(here, norms([tensors[number] for number in here]).tolist(), strict=True))
    return [values[number] for number in range(len(tensors))]


def layer_gradients(
    weights: Sequence[tuple[str, int]], gradient_norms: Sequence[float], weight_norms: Sequence[float]
) -> tuple[LayerGradient, ...]:
    """`weights`: name and size of each, from the input on."""
    layers = enumerate(zip(weights, gradient_norms, weight_norms, strict=True))
    return tuple(LayerGradient(name, grad, size, depth, norm) for depth, ((name, size), grad, norm) in layers)
