"""The float32 matrix products of a model on a CUDA device, counted on the first steps, and their precision setting."""

import sys
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from trueloop.event import Matmuls, Place
from trueloop.observers.observer import Observer
from trueloop.taps.calls import InnerCall, ModuleCall, StepCall
from trueloop.usercode.source import source_of

__all__ = ["MatmulObserver"]

TOLD_AT: Final = 8  # steps before the event: by then a script has made its settings
WORDS: Final = ("float32_matmul_precision", "allow_tf32", "fp32_precision")  # spellings of the setting


@dataclass(slots=True)
class _Work:
    """Counts of the latest training forward of a model."""

    name: str
    place: Place | None
    capability: tuple[int, int]
    layers: int = 0
    flops: int = 0


class MatmulObserver(Observer):
    emits = (Matmuls,)
    rarely = ("module_call_ended",)

    def prepare(self) -> None:
        self._works: dict[int, _Work] = {}
        self._layers = self._flops = 0  # counts of the running call
        self._reported: set[int] = set()

    def inner_call_ended(self, call: InnerCall) -> None:
        self._count(call.module, call.args, call.output)

    def module_call_ended(self, call: ModuleCall) -> None:
        if not self.bus.deep:
            return
        self._count(call.module, call.args, call.output)
        layers, flops, self._layers, self._flops = self._layers, self._flops, 0, 0
        known = self.objects.model(call.module) if flops and call.grad and call.training else None
        if known is not None and known.number not in self._reported:
            capability = torch.cuda.get_device_capability(next(call.module.parameters()).device)
            self._works[known.number] = _Work(known.name, call.place, capability, layers, flops)

    def step_ended(self, call: StepCall) -> None:
        if not self._works or self.bus.step < TOLD_AT:
            return
        for number, work in self._works.items():
            self._reported.add(number)
            facts = (number, work.name, work.capability, _precision(), work.layers, work.flops / 1e9)
            self.emit(Matmuls, work.place, *facts, set_by_user=_names_setting(work.place))
        self._works.clear()

    def _count(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """A layer with a float32 result on a CUDA device was multiplied in float32, with or without autocast."""
        if not isinstance(module, (nn.Linear, nn.MultiheadAttention)) or not args or not isinstance(args[0], Tensor):
            return
        made = output[0] if isinstance(output, tuple) and output else output
        if isinstance(made, Tensor) and made.is_cuda and made.dtype == torch.float32:
            # attention: query, key, value and output
            width = module.out_features if isinstance(module, nn.Linear) else 4 * module.embed_dim
            self._layers += 1
            self._flops += 2 * args[0].numel() * width


def _precision() -> str:
    """How CUDA multiplies float32 matrices; the older ways to ask raise where the newer setting was used."""
    precision = torch.backends.cuda.matmul.fp32_precision
    return "ieee" if precision == "none" else str(precision)


def _names_setting(place: Place | None) -> bool:
    """Does the script, or the file of this place, name the setting?"""
    paths = {getattr(sys.modules.get("__main__"), "__file__", None), place.path if place else None}
    return any(word in line for path in paths if path for line in source_of(path).lines for word in WORDS)
