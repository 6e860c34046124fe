"""Masks of zeros and ones that are added to the scores of attention, or multiplied with them: they hide nothing.

Read in recorded training steps, from the masks that PyTorch's own attention is given, and from what a softmax over
positions is computed from.
"""

import weakref
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from trueloop.event import AddedMask, Place
from trueloop.event.operation_names import ANY_ADDITION, ANY_PRODUCT
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import OperationCall, ProgramStart

__all__ = ["AddedMasksObserver"]

LENGTHS: Final = (4, 1024)  # shortest and longest sequence
BIGGEST: Final = 1_000_000  # numbers of one mask that are read
ROWS: Final = 2  # fewest rows of a mask with zeros and ones, and fewest different numbers of ones
_FILLS: Final = ("masked_fill", "masked_fill_", "where")
_FUSED: Final = "scaled_dot_product_attention"
_LAYER: Final = "multi_head_attention_forward"


@dataclass(slots=True)
class _Weights:
    """A softmax of scores that such a mask was put on."""

    weights: weakref.ref[Tensor]
    place: Place | None
    how: str
    causal: bool
    length: int


class AddedMasksObserver(Observer):
    emits = (AddedMask,)
    rarely = ("operation_ended",)

    def prepare(self) -> None:
        self._on = False
        self._scores: dict[int, tuple[weakref.ref[Tensor], Tensor, str, Place | None]] = {}
        self._found: list[_Weights] = []

    def program_started(self, start: ProgramStart) -> None:
        self._on = start.phase == "training"
        self._scores, self._found = {}, []

    def program_ended(self, _: ProgramStart) -> None:
        for found in self._found if self._on else ():
            self.emit(AddedMask, found.place, "softmax", found.how, found.causal, found.length)
        self._on = False
        self._scores, self._found = {}, []

    def operation_ended(self, call: OperationCall) -> None:
        if not self._on:
            return
        if call.name in (_FUSED, _LAYER):
            self._given(call)
        elif call.name == "softmax":
            self._softmax(call)
        elif call.name in ANY_ADDITION or call.name in ANY_PRODUCT:
            self._combine(call)
        elif call.name in _FILLS and self._found:
            self._forget(call)

    def _given(self, call: OperationCall) -> None:
        """The masks of PyTorch's functions: floating point ones are added."""
        fused = call.name == _FUSED
        causal = call.kwargs.get("is_causal", call.args[5] if fused and len(call.args) > 5 else False)
        masks = [call.kwargs.get("attn_mask", call.args[3] if fused and len(call.args) > 3 else None)]
        masks += [] if fused else [call.kwargs.get("key_padding_mask")]
        for mask in masks if not causal else ():
            if _is_step_mask(mask) and not mask.requires_grad:
                self.emit(AddedMask, call.place, call.name, "added", _is_causal(mask), mask.shape[-1])

    # -- attention that is written out --

    def _combine(self, call: OperationCall) -> None:
        self._forget(call)
        how = "added" if call.name in ANY_ADDITION else "multiplied"
        values = [value for value in call.args[:2] if is_plain(value)]
        if len(values) < 2 or not is_plain(call.output) or call.output.ndim < 3:
            return
        scores, mask = values if values[0].requires_grad else values[::-1]
        if scores.requires_grad and not mask.requires_grad and _is_step_mask(mask):
            self._scores[id(call.output)] = (weakref.ref(call.output), mask, how, call.place)

    def _softmax(self, call: OperationCall) -> None:
        scores, weights = call.args[0] if call.args else None, call.output
        dim = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else None)
        ref, mask, how, place = self._scores.get(id(scores), (None, None, "", None))
        if ref is None or ref() is not scores or not is_plain(weights) or mask is None:
            return
        if dim not in (-1, weights.ndim - 1) or weights.shape[-1] != mask.shape[-1]:
            return
        if bool((weights.detach() > 0).all()):  # nothing else hides anything
            self._found.append(_Weights(weakref.ref(weights), place, how, _is_causal(mask), mask.shape[-1]))

    def _forget(self, call: OperationCall) -> None:
        """Weights that are masked after the softmax."""
        if self._found and isinstance(call.output, Tensor):
            given = [value for value in (*call.args, *call.kwargs.values()) if isinstance(value, Tensor)]
            self._found = [found for found in self._found if not _holds(given, found.weights())]


def _holds(tensors: list[Tensor], tensor: Tensor | None) -> bool:
    return tensor is None or any(other is tensor for other in tensors)


@torch.no_grad()
def _is_step_mask(mask: Any) -> bool:
    """Floating point, zeros and ones, and each row is ones and then zeros (or all are the other way round): a causal
    mask, a padding mask, or both in one. Rows have different numbers of ones."""
    if not is_plain(mask) or not mask.is_floating_point() or mask.ndim < 2 or not is_readable(mask):
        return False
    if not LENGTHS[0] <= mask.shape[-1] <= LENGTHS[1] or mask.numel() > BIGGEST:
        return False
    rows = mask.detach().reshape(-1, mask.shape[-1])
    if not bool(((rows == 0) | (rows == 1)).all()):
        return False
    counts = rows.sum(1)
    mixed = rows[(counts > 0) & (counts < rows.shape[1])]
    steps = mixed.diff(dim=1)
    one_way = bool((steps <= 0).all()) or bool((steps >= 0).all())
    return len(mixed) >= ROWS and one_way and len(set(counts.tolist())) >= ROWS


def _is_causal(mask: Tensor) -> bool:
    """The last two dimensions are a triangle in each sample, but for padding."""
    if mask.ndim < 2 or mask.shape[-1] != mask.shape[-2]:
        return False
    square = mask.detach().reshape(-1, *mask.shape[-2:])[0].sum(1)
    steps = square.diff()
    return bool((steps >= 0).all() or (steps <= 0).all()) and len(set(square.tolist())) > ROWS
