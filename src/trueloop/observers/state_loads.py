"""What `load_state_dict` brings to a model: which keys match, and whether the weights are alive."""

import weakref
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import torch
from torch import Tensor, nn

from trueloop.event import StateMatched
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import FileRead, StateLoad
from trueloop.taps.checkpoint_contents import weights_in

__all__ = ["StateLoadsObserver"]

LOADS: Final = 32  # of a run
MATRICES: Final = 64  # of one load
NUMBERS: Final = 4096  # elements of a weight that are read
REMEMBERED: Final = 4096  # tensors of one file
SMALLEST: Final = 16  # elements


class StateLoadsObserver(Observer):
    emits = (StateMatched,)

    def prepare(self) -> None:
        self._loads = 0
        self._read = False
        self._unused: dict[int, weakref.ref[Tensor]] = {}
        """Tensors of the latest file, until one of them is loaded."""

    def file_read(self, read: FileRead) -> None:
        tensors = list(islice(weights_in(read.value), REMEMBERED))
        if len(tensors) >= 2:
            self._read = True
            self._unused = {id(tensor): weakref.ref(tensor) for tensor in tensors}

    def state_loading(self, load: StateLoad) -> None:
        given = {key: value for key, value in load.state.items() if isinstance(value, Tensor)}
        if not load.direct or self._loads >= LOADS:
            return
        self._loads += 1
        module = load.module
        own: dict[str, Tensor] = dict(module.named_parameters(remove_duplicate=False))
        own |= dict(module.named_buffers(remove_duplicate=False))
        if not own:
            return
        unused = bool(self._unused)
        if any((ref := self._unused.get(id(t))) is not None and ref() is t for t in given.values()):
            self._unused = {}
        matched = [key for key in given if key in own]
        prefix, better = _prefix(given, own, len(matched))
        itself = bool(given) and all(key in own and _same(given[key], own[key]) for key in given)
        matrices = [given[key] for key in matched if _is_matrix(given[key])][:MATRICES]
        constant, nonfinite = _dead(matrices)
        self.emit(
            StateMatched,
            load.place,
            type(module).__name__,
            load.strict,
            len(given),
            len(own),
            len(matched),
            next((key for key in given if key not in own), ""),
            next((key for key in own if key not in given), ""),
            prefix,
            better,
            len(matrices),
            constant,
            nonfinite,
            self._read,
            unused and itself and self.bus.step == 0,
            itself and not self._is_trained(module),
        )

    def _is_trained(self, module: nn.Module) -> bool:
        ids = {id(parameter) for parameter in module.parameters()}
        return any(ids & known.ids for known, _ in self.objects.living_optimizers())


def _same(one: Tensor, other: Tensor) -> bool:
    return one.data_ptr() == other.data_ptr() and one.numel() == other.numel()


def _prefix(given: Mapping[str, Any], own: Mapping[str, Any], matched: int) -> tuple[str, int]:
    """The first part of the keys, of the state or of the model, without which most of them match."""
    best, most = "", matched
    for start in {key.partition(".")[0] + "." for key in given if "." in key}:
        count = sum(key.removeprefix(start) in own for key in given if key.startswith(start))
        if count > most:
            best, most = start, count
    for start in {key.partition(".")[0] + "." for key in own if "." in key}:
        count = sum(start + key in own for key in given)
        if count > most:
            best, most = f"+{start}", count
    return best, most


def _is_matrix(tensor: Tensor) -> bool:
    fits = is_plain(tensor) and is_readable(tensor) and tensor.is_floating_point()
    return fits and tensor.ndim >= 2 and tensor.numel() >= SMALLEST and tensor.is_cpu


@torch.no_grad()
def _dead(matrices: list[Tensor]) -> tuple[int, int]:
    constant = nonfinite = 0
    for matrix in matrices:
        numbers = evenly_spaced(matrix.detach().reshape(-1), NUMBERS).float()
        finite = bool(torch.isfinite(numbers).all())
        nonfinite += not finite
        constant += finite and bool(numbers.min() == numbers.max())
    return constant, nonfinite
