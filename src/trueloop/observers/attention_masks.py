"""What attention may see, in recorded training steps: only padding, or the tokens that are to be predicted.

Token ids are read where they are embedded, and targets where they meet a loss. What is visible is read from the masks
that PyTorch's own attention is given, and from the weights of a softmax over positions, however its mask was written.
"""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from trueloop.event import FutureAttended, PaddingAttended, Place
from trueloop.event.operation_names import CLASS_LOSSES
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import OperationCall, ProgramStart

__all__ = ["AttentionMasksObserver"]

LENGTHS: Final = (4, 1024)  # shortest and longest sequence
BIGGEST: Final = 4_000_000  # numbers of one table of weights
_SOFTMAX: Final = "softmax"
_FUSED: Final = "scaled_dot_product_attention"
_LAYER: Final = "multi_head_attention_forward"


class _Padding(NamedTuple):
    token: float
    where: Tensor  # [samples, positions]: True at padding


@dataclass(slots=True)
class _Visible:
    place: Place | None
    function: str
    outside: bool  # of any model
    keys: Tensor | None  # [samples, positions]: some query gives weight to this position
    next_seen: bool | None  # every position gives weight to the next one; None: no square table
    blind: tuple[int, int] | None = None
    """Rows and different lengths of a step that hides all that differs between samples; None: it shows some of it."""


class AttentionMasksObserver(Observer):
    emits = (FutureAttended, PaddingAttended)
    rarely = ("operation_ended",)

    def prepare(self) -> None:
        self._on = False
        self._forget()

    def _forget(self) -> None:
        self._ids: list[Tensor] = []
        self._paddings: list[_Padding] = []
        self._targets: list[Tensor] = []
        self._visible: list[_Visible] = []
        self._call = -1  # of the model whose inputs were read

    def program_started(self, start: ProgramStart) -> None:
        self._on = start.phase == "training"
        self._forget()

    def operation_ended(self, call: OperationCall) -> None:
        if not self._on:
            return
        if call.name == "embedding" or (call.name == "__getitem__" and len(call.args) == 2):
            self._embedded(call)
        elif call.name in CLASS_LOSSES:
            target = call.args[1] if len(call.args) > 1 else call.kwargs.get("target")
            if is_plain(target) and is_readable(target) and not target.is_floating_point():
                self._targets.append(target.detach().cpu().clone())
        elif call.name in (_SOFTMAX, _FUSED, _LAYER):
            self._read_inputs()
            seen = _by_softmax(call) if call.name == _SOFTMAX else _by_masks(call)
            if seen is not None:
                blind = None if call.name == _SOFTMAX or seen[0] is None else _blind(call.args[1], seen[0])
                self._visible.append(_Visible(call.place, call.name, self.bus.call is None, *seen, blind))

    def _embedded(self, call: OperationCall) -> None:
        weight, ids = (call.args[0], call.args[1]) if call.name == "__getitem__" else (None, call.args[0])
        if call.name == "__getitem__" and not (is_plain(weight) and weight.ndim == 2 and weight.requires_grad):
            return
        if not (is_plain(ids) and is_readable(ids)) or ids.ndim != 2 or ids.dtype is torch.bool:
            return
        if ids.is_floating_point() or not LENGTHS[0] <= ids.shape[1] <= LENGTHS[1] or ids.numel() > BIGGEST:
            return
        ids = ids.detach().cpu().clone()
        if bool((ids == ids[:1]).all()) or any(torch.equal(ids, known) for known in self._ids):
            return  # positions, or tied embeddings
        self._ids.append(ids)
        given = call.kwargs.get("padding_idx", call.args[2] if len(call.args) > 2 else None)
        padding = _padding(ids, given if isinstance(given, int) and given >= 0 else None)
        if padding is not None:
            self._paddings.append(padding)

    def _read_inputs(self) -> None:
        """Padding of the running model's inputs [samples, positions, features]: rows of zeros."""
        if self.bus.call is None or self.bus.call.number == self._call:
            return
        self._call = self.bus.call.number
        for given in self.bus.call.args:
            if is_plain(given) and is_readable(given) and given.is_floating_point() and given.ndim == 3:
                zeros = (given.detach() == 0).all(2).cpu()
                padding = _padding(zeros.long(), 1)
                self._paddings += [] if padding is None else [padding._replace(token=0)]

    def program_ended(self, _: ProgramStart) -> None:
        if self._on and self._visible:
            self._padding_attended()
            self._future_attended()
        self._on = False
        self._forget()

    def _padding_attended(self) -> None:
        for seen in self._visible:
            if seen.blind is not None and seen.keys is not None:
                rows, lengths = seen.blind
                self.emit(PaddingAttended, seen.place, seen.function, None, rows, rows, lengths, seen.keys.shape[1])
            for padding in self._paddings:
                keys, where = seen.keys, padding.where
                if keys is None or keys.shape[1] != where.shape[1] or len(keys) % len(where):
                    continue
                keys = keys.reshape(len(where), -1, keys.shape[1]).any(1)  # heads may be folded into the samples
                mixed = where.any(1) & ~where.all(1)
                only = (keys == where).all(1)[mixed]
                if bool(only.any()):
                    self.emit(PaddingAttended, seen.place, seen.function, padding.token, int(mixed.sum()),
                              int(only.sum()), len(set(where.sum(1)[mixed].tolist())), where.shape[1])  # fmt: skip

    def _future_attended(self) -> None:
        if len(self._ids) != 1:
            return
        length = self._ids[0].shape[1]
        tables = [seen for seen in self._visible if seen.next_seen is not None]
        own = [seen for seen in tables if seen.outside]
        if not own or len(own) < len(tables) or not any(_is_next(self._ids[0], target) for target in self._targets):
            return
        self.emit(FutureAttended, own[0].place, own[0].function, length, len(own), sum(bool(s.next_seen) for s in own))


@torch.no_grad()
def _blind(key: Tensor, visible: Tensor) -> tuple[int, int] | None:
    """What may be seen is the end of each row, and at each position it is the same in all samples; what is hidden is
    not. `key`: [positions, samples, features] of `nn.MultiheadAttention`, [samples, heads, positions, features]."""
    if key.ndim == 3:
        key = key.transpose(0, 1)
    elif key.ndim == 4:
        key = key.transpose(1, 2).flatten(2)
    if not is_readable(key) or key.shape[:2] != visible.shape or key.numel() > BIGGEST:
        return None
    key, counts = key.detach().cpu(), visible.sum(1)
    mixed = (counts > 0) & (counts < visible.shape[1])
    if not bool(mixed.all()) or len(set(counts.tolist())) < 2:
        return None
    positions = torch.arange(visible.shape[1])
    ends = [positions >= (visible.shape[1] - counts)[:, None], positions < counts[:, None]]
    if not any(torch.equal(visible, end) for end in ends):
        return None
    shown = [key[visible[:, at], at] for at in positions.tolist()]
    hidden = [key[~visible[:, at], at] for at in positions.tolist()]
    shown, hidden = [rows for rows in shown if len(rows) > 1], [rows for rows in hidden if len(rows) > 1]
    same = bool(shown) and all(bool((rows == rows[:1]).all()) for rows in shown)
    vary = sum(bool((rows != rows[:1]).any()) for rows in hidden)  # a first token may be the same in all samples
    return (len(visible), len(set(counts.tolist()))) if same and 2 * vary > len(hidden) else None


def _is_next(ids: Tensor, target: Tensor) -> bool:
    """The target of each position is the id at the next one."""
    if target.numel() < ids.numel() or target.numel() % ids.shape[1]:
        return False
    rows = target.reshape(-1, ids.shape[1])[: len(ids)]
    return torch.equal(rows[:, :-1], ids[:, 1:].to(rows.dtype))


def _padding(ids: Tensor, given: int | None) -> _Padding | None:
    """The id that ends the rows (or begins them), more often in some rows than in others, and is nowhere else."""
    candidates = [given] if given is not None else [int(ids[:, at].mode().values) for at in (-1, 0)]
    for token in candidates:
        where = ids == token
        counts = where.sum(1)
        if not bool(counts.any()) or bool((counts == counts[0]).all()):
            continue
        positions = torch.arange(ids.shape[1])
        at_end = torch.equal(where, positions >= (ids.shape[1] - counts)[:, None])
        if at_end or torch.equal(where, positions < counts[:, None]):
            return _Padding(token, where)
    return None


def _by_softmax(call: OperationCall) -> tuple[Tensor | None, bool | None] | None:
    """Of weights [samples, .., positions]; [samples, positions, 1] pools."""
    weights = call.output
    dim = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else None)
    if is_plain(weights) and weights.ndim == 3 and weights.shape[2] == 1 and dim in (1, -2):
        weights, dim = weights[:, :, 0], -1  # attention pooling
    if not (is_plain(weights) and is_readable(weights)) or weights.ndim < 2 or weights.numel() > BIGGEST:
        return None
    if dim not in (-1, weights.ndim - 1) or not LENGTHS[0] <= weights.shape[-1] <= LENGTHS[1]:
        return None
    positive = weights.detach() > 0
    square = weights.ndim > 2 and weights.shape[-1] == weights.shape[-2]
    return _keys(positive), _next_seen(positive) if square else None


def _keys(positive: Tensor) -> Tensor:
    return positive.flatten(1, -2).any(1).cpu() if positive.ndim > 2 else positive.cpu()


def _next_seen(positive: Tensor) -> bool:
    """By some head of some sample."""
    return bool(positive.flatten(0, -3).any(0).diagonal(1).all())


def _by_masks(call: OperationCall) -> tuple[Tensor | None, bool | None] | None:
    query, key = call.args[:2] if len(call.args) > 1 else (None, None)
    if not is_plain(query) or not is_plain(key):
        return None
    if call.name == _LAYER:
        mask = call.kwargs.get("key_padding_mask")
        visible = None if mask is None else _not_hidden(mask)
        return None if visible is None or visible.ndim != 2 else (visible.cpu(), None)
    mask = call.kwargs.get("attn_mask", call.args[3] if len(call.args) > 3 else None)
    causal = call.kwargs.get("is_causal", call.args[5] if len(call.args) > 5 else False)
    square = query.ndim > 2 and query.shape[-2] == key.shape[-2] and LENGTHS[0] <= key.shape[-2] <= LENGTHS[1]
    if mask is None:
        return (None, not causal) if square else None
    if not (is_plain(mask) and is_readable(mask)) or mask.numel() > BIGGEST or mask.ndim < 2:
        return None
    visible = mask.detach() if mask.dtype is torch.bool else ~_hides(mask)
    by_sample = visible.ndim == 4 and len(visible) == len(query)
    next_seen = _next_seen(visible) if square and visible.ndim > 2 and visible.shape[-2] > 1 else None
    if square and visible.ndim == 2:
        next_seen = bool(visible.diagonal(1).all())
    return (_keys(visible) if by_sample else None), next_seen


def _hides(mask: Tensor) -> Tensor:
    """An added mask hides what it sets to a large negative number."""
    return mask.detach() < -1000.0


def _not_hidden(mask: Any) -> Tensor | None:
    if not (is_plain(mask) and is_readable(mask)):
        return None
    return ~mask.detach() if mask.dtype is torch.bool else ~_hides(mask)
