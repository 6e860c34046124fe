"""The input of the first layer with weights of a model: its range, and the spread of its columns. Once per model."""

from dataclasses import dataclass
from math import isqrt
from typing import Any, Final

import torch
from torch import Tensor, nn

from trueloop.event import FirstLayerInput
from trueloop.measure.tensors import is_readable, on_host
from trueloop.observers.observer import Observer
from trueloop.observers.run_objects import unwrapped
from trueloop.taps.calls import InnerCall, ModuleCall, StepCall, tensors_in
from trueloop.torch_private.modules import ConvNd, NormBase

__all__ = ["InputScaleObserver"]

NUMBERS: Final = 1 << 15  # elements of a batch to read, evenly spaced
TRANSFER_WINDOWS: Final = 16  # fewest rows of a table that show the spread of a column
MOST_ROWS: Final = 256  # most rows to read
MOST_COLUMNS: Final = 4096
SMALLEST_SIDE: Final = 16  # fewest pixels per side: as many columns as such a square image has pixels count as an image

_NORMS: Final = (NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm, nn.LocalResponseNorm)
_TOUCHING: Final = (nn.Linear, nn.Bilinear, ConvNd, nn.Embedding, nn.EmbeddingBag, nn.RNNBase, *_NORMS)
"""Layers whose output no longer shows the scale of the data."""


@dataclass(slots=True)
class _Look:
    """The first layer of one call, waiting for the step that trains it."""

    facts: dict[str, Any]
    weight: int  # identity of its weight
    output: int  # address of its output


class InputScaleObserver(Observer):
    emits = (FirstLayerInput,)
    rarely = ("module_call_ended",)

    def prepare(self) -> None:
        self._reported: set[int] = set()
        self._looks: dict[int, _Look] = {}  # by model
        self._open: int | None = None  # the running model, while its first layer has not run
        self._after: _Look | None = None  # the first layer has just run

    def module_call_started(self, call: ModuleCall) -> None:
        if not self.bus.deep:
            self._open = None
            return
        known = self.objects.model(call.module) if call.grad else None
        seen = known is None or known.number in self._reported or known.number in self._looks
        self._open = None if seen or known is None else known.number
        self._after = None

    def inner_call_ended(self, inner: InnerCall) -> None:
        module = inner.module
        if self._after is not None and not any(True for _ in module.children()):
            first = next(tensors_in(inner.args), None)
            if first is not None and first.data_ptr() == self._after.output:
                self._after.facts["normalized_next"] = isinstance(module, _NORMS)
            self._after = None
        if self._open is not None and isinstance(module, _TOUCHING):
            self._look(self.bus.call, module, inner.args, inner.output)
            self._open = None

    def module_call_ended(self, call: ModuleCall) -> None:
        if self._open is not None and isinstance(call.module, _TOUCHING):
            self._look(call, call.module, call.args, call.output)
        self._open = self._after = None

    def step_ended(self, call: StepCall) -> None:
        if not self._looks:
            return
        held = self.objects.held_ids()
        for number, look in tuple(self._looks.items()):
            del self._looks[number]
            if look.weight in held:
                self._reported.add(number)
                self.bus.emit(FirstLayerInput(**look.facts))

    def _look(self, call: ModuleCall | None, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        fed = args[0] if args else None
        if call is None or self._open is None or not isinstance(fed, Tensor) or not isinstance(output, Tensor):
            return
        weight = getattr(module, "weight", None) if isinstance(module, (nn.Linear, ConvNd)) and _is_data(fed) else None
        if weight is None or not weight.requires_grad:
            return
        with torch.no_grad():
            facts = _facts(fed.detach(), _is_image(module, fed, call))
        model = unwrapped(call.module)
        name = next((name for name, part in model.named_modules() if part is module), "")
        layer = f"{name} ({type(module).__name__})" if name else type(module).__name__
        facts |= {"step": self.bus.step, "place": call.place, "model": self._open, "name": type(model).__name__}
        facts |= {"layer": layer, "normalized_next": False}
        self._after = self._looks[self._open] = _Look(facts, id(weight), output.data_ptr())


def _is_data(tensor: Tensor) -> bool:
    """Computed without parameters, and readable."""
    return is_readable(tensor) and tensor.is_floating_point() and not tensor.requires_grad and tensor.dim() >= 2


def _is_image(module: nn.Module, fed: Tensor, call: ModuleCall) -> bool:
    """At least two dimensions per sample, at the layer or the model; or as many columns as a square image's pixels."""
    if isinstance(module, (nn.Conv2d, nn.Conv3d)):
        return True
    first = next(tensors_in((call.args, call.kwargs), limit=16), None)
    if first is not None and first.dim() >= 3 and first.shape[0] == fed.shape[0] and first.numel() == fed.numel():
        return fed.dim() == 2
    columns = fed.shape[-1]
    sides = [(channels, isqrt(columns // channels)) for channels in (1, 3)]
    return fed.dim() == 2 and any(columns == n * side * side for n, side in sides if side >= SMALLEST_SIDE)


def _facts(fed: Tensor, image: bool) -> dict[str, Any]:
    flat = fed.reshape(-1)
    some = on_host(flat[:: -(-flat.numel() // NUMBERS)]).float()
    rest = some[some != 0]
    middle = rest.median() if rest.numel() else some[0]
    numbers = torch.stack([some.min(), some.max(), (some == some.round()).float().mean(), middle]).tolist()
    names = ("smallest", "largest", "integer_share", "typical", "narrowest", "widest")
    spreads = (None, None) if image else _spreads(fed)
    return {"shape": tuple(fed.shape), "image": image, **dict(zip(names, (*numbers, *spreads), strict=True))}


def _spreads(table: Tensor) -> tuple[tuple[int, float] | None, tuple[int, float] | None]:
    """The columns with the smallest and the largest spread."""
    if table.dim() != 2 or table.shape[0] < TRANSFER_WINDOWS or not 2 <= table.shape[1] <= MOST_COLUMNS:
        return None, None
    rows = on_host(table[:: -(-table.shape[0] // MOST_ROWS)]).float()
    low, high = torch.quantile(rows, rows.new_tensor([0.1, 0.9]), dim=0)
    spreads = [(column, spread) for column, spread in enumerate((high - low).tolist()) if spread > 0]
    if len(spreads) < 2:
        return None, None
    return min(spreads, key=lambda pair: pair[1]), max(spreads, key=lambda pair: pair[1])
