"""The latents of a variational model: how much of each depends on the sample, and how much is noise.

Found by what runs in recorded training steps: normal noise times a learned deviation, added to a learned mean.
"""

import weakref
from typing import Final

import torch
from torch import Tensor

from trueloop.event import LatentsMeasured, Place
from trueloop.event.operation_names import ANY_ADDITION, ANY_PRODUCT, NORMAL
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import OperationCall, ProgramStart

__all__ = ["LatentsObserver"]

NUMBERS: Final = 2**18  # elements
ACTIVE: Final = 0.01  # nats of a latent, on average over samples
_SAME: Final = ("to", "type_as", "float", "cpu", "detach")


class LatentsObserver(Observer):
    emits = (LatentsMeasured,)

    def prepare(self) -> None:
        self._on = False
        self._noise: dict[int, weakref.ref[Tensor]] = {}
        self._spread: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}
        """Noise times a deviation, and a copy of that deviation."""
        self._found: dict[Place | None, tuple[int, int, float, int]] = {}

    def program_started(self, start: ProgramStart) -> None:
        self._on = start.phase == "training"
        self._noise, self._spread, self._found = {}, {}, {}

    def program_ended(self, start: ProgramStart) -> None:
        found, self._found, self._on = self._found, {}, False
        self._noise, self._spread = {}, {}
        for place, (latents, active, kl, rows) in found.items():
            self.emit(LatentsMeasured, place, latents, active, kl, rows)

    def operation_ended(self, call: OperationCall) -> None:
        if not self._on or not isinstance(call.output, Tensor):
            return
        given = [value for value in (*call.args[:3], *call.kwargs.values()) if isinstance(value, Tensor)]
        output = call.output
        if call.name in NORMAL or (call.name in _SAME and given and self._is_noise(given[0])):
            self._noise[id(output)] = weakref.ref(output)
        elif call.name in ANY_PRODUCT and len(given) == 2:
            scales = [tensor for tensor in given if tensor.requires_grad and not self._is_noise(tensor)]
            if len(scales) == 1 and any(self._is_noise(tensor) for tensor in given) and _is_read(output):
                self._spread[id(output)] = (weakref.ref(output), _copy(scales[0].expand_as(output)))
        elif call.name in ANY_ADDITION and len(given) == 2:
            for mean, noise in (given, given[::-1]):
                entry = self._spread.get(id(noise))
                if entry is not None and entry[0]() is noise and mean.requires_grad and not mean.is_leaf:
                    self._measure(call.place, mean, entry[1])

    def _is_noise(self, tensor: Tensor) -> bool:
        entry = self._noise.get(id(tensor))
        return entry is not None and entry() is tensor

    def _measure(self, place: Place | None, mean: Tensor, deviation: Tensor) -> None:
        if place in self._found or mean.ndim < 2 or mean.shape != deviation.shape or not _is_read(mean):
            return
        with torch.no_grad():
            location, scale = _copy(mean), deviation.abs().clamp_min(1e-12)
            divergence = 0.5 * (location**2 + scale**2 - 1) - scale.log()
            others = [dim for dim in range(mean.ndim) if dim != 1]
            each = divergence.mean(dim=others)
            self._found[place] = (len(each), int((each > ACTIVE).sum()), float(each.mean()), mean.shape[0])


def _is_read(tensor: Tensor) -> bool:
    return is_plain(tensor) and is_readable(tensor) and tensor.is_cpu and tensor.numel() <= NUMBERS


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().to(torch.float64, copy=True)
