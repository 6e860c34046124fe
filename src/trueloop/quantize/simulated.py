"""Rounding as int8-static will do it, in float: weights with a scale for each output, what comes in with one range for
all.

torch's own fake quantization lets gradients through, so a model can learn with it; and a layer alone can be looked at
without a graph.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, final

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from trueloop.quantize.scheme import Calibration

__all__ = ["Ranges", "ranges_of", "rounding", "simulated"]

Ranges = dict[str, tuple[float, float] | None]
"""Layer -> lowest and highest number that came in; None: it was never called, and only its weight is read."""
STEPS: Final = 255
"""Between the lowest and the highest number of 8 bits."""


def ranges_of(model: nn.Module, names: Sequence[str], calibration: Calibration) -> Ranges:
    """Of what these layers are given when the training samples pass."""
    seen: Ranges = dict.fromkeys(names)

    def watch(name: str) -> Any:
        def look(module: nn.Module, given: tuple[Any, ...]) -> None:
            low, high = seen[name] or (0.0, 0.0)  # zero must be one of the steps: padding is zero
            seen[name] = min(low, float(given[0].min())), max(high, float(given[0].max()))

        return look

    handles = [model.get_submodule(name).register_forward_pre_hook(watch(name)) for name in names]
    try:
        with torch.no_grad():
            for batch in calibration.batches():
                model(batch.inputs)
    finally:
        for handle in handles:
            handle.remove()
    return seen


@final
class _Rounded(nn.Module):
    """A weight, rounded; the gradient passes."""

    def forward(self, weight: Tensor) -> Tensor:
        scale = (weight.detach().abs().flatten(1).amax(1) / 127).clamp(min=1e-12)
        zeros = torch.zeros(len(weight), dtype=torch.int32)
        return torch.fake_quantize_per_channel_affine(weight, scale, zeros, 0, -127, 127)


def _rounded_input(low: float, high: float) -> Any:
    scale = max((high - low) / STEPS, 1e-12)
    zero = round(-low / scale)

    def look(module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        return torch.fake_quantize_per_tensor_affine(given[0], scale, zero, 0, STEPS), *given[1:]

    return look


@contextmanager
def rounding(model: nn.Module, ranges: Ranges) -> Iterator[None]:
    """These layers of this very model round inside; afterwards they have their own weights, as trained meanwhile."""
    layers = {name: model.get_submodule(name) for name in ranges}
    handles = [
        layers[name].register_forward_pre_hook(_rounded_input(*span))
        for name, span in ranges.items()
        if span is not None
    ]
    for layer in layers.values():
        parametrize.register_parametrization(layer, "weight", _Rounded())
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for layer in layers.values():
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)


def simulated(model: nn.Module, ranges: Ranges) -> nn.Module:
    """A copy whose layers of `ranges` round."""
    made = copy.deepcopy(model)
    for name, span in ranges.items():
        layer = made.get_submodule(name)
        if span is not None:
            layer.register_forward_pre_hook(_rounded_input(*span))
        parametrize.register_parametrization(layer, "weight", _Rounded())
    return made.eval()
