"""What a recorded training step does with the padded ends of its sequences: do they count in the loss, is the last step
of a layer, which is one of them, all that is read?"""

import weakref
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from trueloop.event import LastStepRead, PaddedTargetsAveraged, Place
from trueloop.event.operation_names import RECURRENT
from trueloop.measure.tensors import is_plain, is_readable, tensors_in
from trueloop.measure.wrong_lengths import SHORTEST, padded_rows
from trueloop.observers.observer import Observer
from trueloop.taps.calls import OperationCall, ProgramStart

__all__ = ["PaddedPositionsObserver"]

MOST: Final = 2**20  # elements that are read
LEAST_ROWS: Final = 8
LENGTHS: Final = 3  # different ones: rows that all end alike are a format, not padding
RARELY: Final = 0.001  # of the content looks like padding
_LOSS: Final = ("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction")
_IGNORED: Final = -100  # PyTorch's default


class _Ends(NamedTuple):
    value: float  # of the padding; 0 for vectors
    rows: int
    padded: int  # of the rows: they end in padding
    positions: int  # of a row
    share: float  # of all positions: padding, but for the first of each row, which may mark its end


class _Found(NamedTuple):
    place: Place | None
    state: bool  # of a recurrent layer; else the last of its steps
    ends: _Ends
    source: int  # the address of the tensor whose last step it is


class PaddedPositionsObserver(Observer):
    emits = (LastStepRead, PaddedTargetsAveraged)
    rarely = ("operation_ended",)

    def prepare(self) -> None:
        self._forget(on=False)

    def _forget(self, *, on: bool) -> None:
        self._on = on
        self._call = -1  # of the model whose inputs were read
        self._samples = 0
        self._input: _Ends | None = None
        self._states: dict[int, weakref.ref[Tensor]] = {}
        """By address: last states of recurrent layers that ran through the padding, and what was computed from them."""
        self._steps: dict[int, weakref.ref[Tensor]] = {}  # all steps of these layers
        self._found: _Found | None = None
        self._all_read = False  # all steps are read too, or another layer begins with the state
        self._walked: set[int] = set()  # addresses of tensors of which other steps are read too: a loop over time

    def program_started(self, start: ProgramStart) -> None:
        self._forget(on=start.phase == "training")

    def program_ended(self, _: ProgramStart) -> None:
        self._report()
        self._forget(on=False)

    def _report(self) -> None:
        found, self._found = self._found, None
        if found is not None and not (self._all_read if found.state else found.source in self._walked):
            how = "the last state" if found.state else "the last step"
            self.emit(LastStepRead, found.place, how, *found.ends[1:])

    def operation_ended(self, call: OperationCall) -> None:
        if not self._on:
            return
        if call.name in ("cross_entropy", "nll_loss"):
            self._scored(call)
        elif self.bus.call is not None and self.bus.grad:
            self._read_input(self.bus.call.number, self.bus.call.args, self.bus.call.kwargs)
            if self._input is not None:
                self._computed(call, self._input)

    # -- inputs and the step of a layer that is read --

    def _read_input(self, number: int, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if number == self._call:
            return
        self._report()
        self._call, self._input, self._all_read, self._states, self._steps = number, None, False, {}, {}
        self._walked = set()
        tensors = [tensor for tensor in tensors_in((args, dict(kwargs)), 16) if tensor.ndim]
        self._samples = tensors[0].shape[0] if tensors else 0
        for tensor in tensors:
            ids = tensor.ndim == 2 and not tensor.is_floating_point() and tensor.dtype is not torch.bool
            if (ids or (tensor.ndim == 3 and tensor.is_floating_point())) and (ends := _ends(tensor)) is not None:
                self._input = ends
                return

    def _computed(self, call: OperationCall, ends: _Ends) -> None:
        first = call.args[0] if call.args else None
        if not isinstance(first, Tensor):
            return
        given = list(tensors_in((call.args, dict(call.kwargs)), 16))
        state = any(_is_known(tensor, self._states) for tensor in given)
        if call.name in RECURRENT:
            self._all_read = self._all_read or state
            batch_first = bool(call.args[-1]) if isinstance(call.args[-1], bool) else False
            sizes = first.shape[:2] if batch_first else first.shape[1::-1] if first.ndim == 3 else ()
            if tuple(sizes) == (ends.rows, ends.positions):  # a packed sequence has two dimensions
                steps, *states = tensors_in(call.output)
                self._steps[id(steps)] = weakref.ref(steps)
                self._states |= {id(each): weakref.ref(each) for each in states}
            return
        step = _step_read(first, call.args[1], ends) if call.name == "__getitem__" else None
        step = _step_gathered(first, call, ends) if call.name == "gather" else step
        last = step == ends.positions - 1
        if step is not None and not last:
            self._walked.add(id(first))
        self._all_read = self._all_read or (not last and any(_is_known(each, self._steps) for each in given))
        if self._found is None and (state or last):
            self._found = _Found(call.place, state, ends, id(first))
        if state:
            self._states |= {id(each): weakref.ref(each) for each in tensors_in(call.output, 16)}

    # -- the loss --

    def _scored(self, call: OperationCall) -> None:
        given = dict(zip(_LOSS, call.args, strict=False)) | dict(call.kwargs)
        scores, target, weight = given.get("input"), given.get("target"), given.get("weight")
        if not isinstance(scores, Tensor) or not scores.requires_grad or given.get("reduction", "mean") == "none":
            return
        if not isinstance(target, Tensor) or target.is_floating_point() or (ends := self._target_ends(target)) is None:
            return
        token = int(ends.value)
        ignored = given.get("ignore_index", _IGNORED)
        unweighted = is_plain(weight) and 0 <= token < len(weight) and not float(weight.detach()[token])
        if ignored != token and not unweighted:
            self.emit(PaddedTargetsAveraged, call.place, call.name, token, ends.rows, ends.padded, ends.positions,
                      ends.share)  # fmt: skip

    def _target_ends(self, target: Tensor) -> _Ends | None:
        """Of targets [rows, positions], or of all of them in one row, as a loss of a model's flattened output."""
        if target.ndim == 2:
            return _ends(target)
        rows = self._samples
        if target.ndim != 1 or not rows or target.numel() % rows or not is_plain(target):
            return None
        return _ends(target.detach().reshape(rows, -1)) or _ends(target.detach().reshape(-1, rows).T)


def _is_known(tensor: Tensor, known: Mapping[int, weakref.ref[Tensor]]) -> bool:
    found = known.get(id(tensor))
    return found is not None and found() is tensor


def _step_read(tensor: Tensor, index: Any, ends: _Ends) -> int | None:
    """The number of the one step that `output[:, i]` reads, or `output[i]` where time comes first."""
    whole = slice(None)
    chosen = index if isinstance(index, tuple) else (index,)
    if tensor.ndim < 3 or any(isinstance(part, Tensor) for part in chosen):
        return None
    if tuple(tensor.shape[:2]) == (ends.rows, ends.positions) and len(chosen) > 1 and chosen[0] == whole:
        step, rest = chosen[1], chosen[2:]
    elif _is_channels_first(tensor, ends) and len(chosen) > 1:
        step, rest = chosen[-1], chosen[:-1]
        if len(chosen) < 3 and chosen[0] is not ...:
            return None
    elif tuple(tensor.shape[:2]) == (ends.positions, ends.rows):
        step, rest = chosen[0], chosen[1:]
    else:
        return None
    if not isinstance(step, int) or any(part not in (whole, ...) for part in rest):
        return None
    return step % ends.positions


def _is_channels_first(tensor: Tensor, ends: _Ends) -> bool:
    """[rows, channels, positions] of a convolution."""
    rows, channels, positions = tensor.shape if tensor.ndim == 3 else (0, 0, 0)
    return (rows, positions) == (ends.rows, ends.positions) and channels != positions


def _step_gathered(tensor: Tensor, call: OperationCall, ends: _Ends) -> int | None:
    """The number of the one step that `output.gather(1, index)` reads of all rows."""
    given = dict(zip(("input", "dim", "index"), call.args, strict=False)) | dict(call.kwargs)
    dim, index = given.get("dim"), given.get("index")
    if not isinstance(dim, int) or not is_plain(index) or not is_readable(index) or not 0 < index.numel() <= MOST:
        return None
    if tensor.ndim != 3 or len(tensor) != ends.rows or not dim % 3 or tensor.shape[dim] != ends.positions:
        return None
    low, high = index.detach().aminmax()
    return int(high) if index.shape[dim] == 1 and int(low) == int(high) else None


def _ends(tensor: Tensor) -> _Ends | None:
    """None if the rows are not padded at their ends."""
    if not is_plain(tensor) or not is_readable(tensor) or tensor.numel() > MOST:
        return None
    if len(tensor) < LEAST_ROWS or tensor.shape[1] < SHORTEST:
        return None
    values = tensor.detach().cpu()
    found = padded_rows((values.float() if values.is_floating_point() else values).numpy())
    ends = torch.from_numpy(found.ends)
    if found.alike > RARELY or int(ends.min()) < 1 or len(set(found.ends.tolist())) < LENGTHS:
        return None
    positions = values.shape[1]
    beyond = (positions - ends - 1).clamp(min=0).sum().item() / (len(ends) * positions)
    padded = int((ends < positions).sum())
    shortest = int(ends.argmin())
    value = 0.0 if values.ndim > 2 else float(values[shortest, -1])
    return _Ends(value, len(ends), padded, positions, beyond)
