"""Fake quantization: rounds in float as int8-static will. Gradients pass through, so a model can be trained with it."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, final

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from trueloop.engine.call_model import call_model
from trueloop.quantize.scheme import Calibration

__all__ = ["Ranges", "fake_quantization", "fake_quantized", "input_ranges"]

Ranges = dict[str, tuple[float, float] | None]
"""Layer -> smallest and largest input; None: it is never called, only its weight is read."""
STEPS: Final = 255  # Between the smallest and the largest 8-bit value


def input_ranges(model: nn.Module, names: Sequence[str], calibration: Calibration) -> Ranges:
    """Measured on the calibration samples."""
    seen: Ranges = dict.fromkeys(names)

    def hook(name: str) -> Any:
        def record(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            low, high = seen[name] or (0.0, 0.0)  # padding: 0 must be representable
            seen[name] = min(low, float(inputs[0].min())), max(high, float(inputs[0].max()))

        return record

    handles = [model.get_submodule(name).register_forward_pre_hook(hook(name)) for name in names]
    try:
        with torch.no_grad():
            for batch in calibration.batches():
                call_model(model, batch.inputs)
    finally:
        for handle in handles:
            handle.remove()
    return seen


@final
class _RoundedWeight(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        scale = (weight.detach().abs().flatten(1).amax(1) / 127).clamp(min=1e-12)
        zeros = torch.zeros(len(weight), dtype=torch.int32)
        return torch.fake_quantize_per_channel_affine(weight, scale, zeros, 0, -127, 127)


def _round_input(low: float, high: float) -> Any:
    scale = max((high - low) / STEPS, 1e-12)
    zero = round(-low / scale)

    def hook(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return torch.fake_quantize_per_tensor_affine(inputs[0], scale, zero, 0, STEPS), *inputs[1:]

    return hook


def _install(model: nn.Module, ranges: Ranges) -> list[Any]:
    handles = []
    for name, span in ranges.items():
        layer = model.get_submodule(name)
        if span is not None:
            handles.append(layer.register_forward_pre_hook(_round_input(*span)))
        parametrize.register_parametrization(layer, "weight", _RoundedWeight())
    return handles


@contextmanager
def fake_quantization(model: nn.Module, ranges: Ranges) -> Iterator[None]:
    """Inside, these layers of the model round. Afterwards they have float weights again, as trained meanwhile."""
    handles = _install(model, ranges)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        for name in ranges:
            parametrize.remove_parametrizations(model.get_submodule(name), "weight", leave_parametrized=False)


def fake_quantized(model: nn.Module, ranges: Ranges) -> nn.Module:
    """A copy whose layers in `ranges` round."""
    made = copy.deepcopy(model)
    _install(made, ranges)
    return made.eval()
