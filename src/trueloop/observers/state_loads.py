"""What `load_state_dict` brings to a model: which keys match, and whether the weights are alive."""

import weakref
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from trueloop.event import Place, StateMatched
from trueloop.measure.parameters import parameters_of
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import FileRead, StateLoad, StateSave, StateTaken, StepCall
from trueloop.taps.checkpoint_contents import weights_in
from trueloop.torch_private.tensors import tensor_version

__all__ = ["StateLoadsObserver"]

LOADS: Final = 32  # of a run
MATRICES: Final = 64  # of one load
NUMBERS: Final = 4096  # elements of a weight that are read
REMEMBERED: Final = 4096  # tensors of one file
SMALLEST: Final = 16  # elements
TAKES: Final = 8  # of each line that takes a state
KEYS: Final = 64  # of a state of a trained model


class _Source(NamedTuple):
    """The state of a trained model, until something of it is used."""

    tensor: weakref.ref[Tensor]  # its first, which lives as long as the state
    model: str
    shapes: dict[str, tuple[int, ...]]


class StateLoadsObserver(Observer):
    emits = (StateMatched,)

    def prepare(self) -> None:
        self._loads = 0
        self._read = False
        self._unused: dict[int, weakref.ref[Tensor]] = {}
        """Tensors of the latest file, until one of them is loaded."""
        self._stepped: dict[int, weakref.ref[Tensor]] = {}
        self._takes: Counter[Place | None] = Counter()
        self._sources: dict[int, _Source] = {}
        self._versions: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
        """Of the tensors of a model, added up, when its state was taken."""

    def state_taken(self, taken: StateTaken) -> None:
        self._takes[taken.place] += 1
        if self._takes[taken.place] > TAKES:
            return
        module, tensors = taken.module, {k: v for k, v in taken.state.items() if is_plain(v)}
        self._versions[module] = sum(map(tensor_version, tensors.values()))
        if tensors and self._has_steps(module):
            first, known = next(iter(tensors.values())), self._sources
            key = id(first)
            ref = weakref.ref(first, lambda _: known.pop(key, None))
            shapes = {name: tuple(tensor.shape) for name, tensor in islice(tensors.items(), KEYS)}
            known[key] = _Source(ref, type(module).__name__, shapes)

    def step_started(self, call: StepCall) -> None:
        if call.index == 0:
            for parameter in parameters_of(call.optimizer):
                if (known := self._stepped.get(id(parameter))) is None or known() is not parameter:
                    self._stepped[id(parameter)] = weakref.ref(parameter)

    def _has_steps(self, module: nn.Module) -> bool:
        """One of its parameters is or was in an optimizer that has stepped, which may be gone."""
        known = ((self._stepped.get(id(parameter)), parameter) for parameter in module.parameters())
        return any(ref is not None and ref() is parameter for ref, parameter in known)

    def state_saving(self, save: StateSave) -> None:
        self._sources.clear()  # it may have been meant for the file

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
        # `own[key].copy_(value)` before the load has brought the value
        untouched = self._versions.get(module) == sum(tensor_version(t) for t in given.values() if is_plain(t))
        source, source_key = "", ""
        if not given or (itself and untouched):
            source, source_key = self._unused_source(module, own)
        else:
            self._sources.clear()
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
            unused and itself and untouched and self.bus.step == 0,
            itself and not self._is_trained(module),
            source,
            source_key,
        )

    def _unused_source(self, module: nn.Module, own: Mapping[str, Tensor]) -> tuple[str, str]:
        """A trained model, whose state the script still holds, and of which a weight fits into this untrained one."""
        fitting = {tuple(tensor.shape) for tensor in own.values() if tensor.ndim >= 2}
        for source in tuple(self._sources.values()):
            fits = any(shape in fitting for shape in source.shapes.values())
            if source.tensor() is not None and fits and not self._has_steps(module):
                return source.model, next((key for key in source.shapes if key not in own), "")
        return "", ""

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
