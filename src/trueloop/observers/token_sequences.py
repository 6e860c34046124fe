"""Sequences of symbols that enter a model, as ids or one-hot: how many symbols are unknown, and whether every sequence
fills its row. What the script calls unknown or padding is read from its variables, once."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from trueloop.event import Place, SequencesCounted, UnknownSymbols
from trueloop.measure.tensors import evenly_spaced, is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import ModuleCall, RunEnd, tensors_in
from trueloop.taps.vocabulary import Vocabulary, vocabulary_here

__all__ = ["TokenSequencesObserver"]

Phase = Literal["training", "evaluation"]

CALLS: Final = 32  # of a model in a phase
ON_DEVICE: Final = 4
ROWS: Final = 128  # of a call
SHORTEST: Final = 4  # symbols
SYMBOLS: Final = 64  # of a one-hot alphabet
LARGEST: Final = 2**20  # numbers in the rows of a call
_IDS: Final = (torch.int64, torch.int32, torch.int16, torch.uint8)


@dataclass(slots=True)
class _Seen:
    place: Place | None
    name: str
    one_hot: bool
    padding: frozenset[int]
    rows: int = 0
    full: int = 0  # rows without padding
    empty: int = 0  # of one-hot symbols: positions without one, before the end of the sequence
    symbols: int = 0
    counts: Counter[int] = field(default_factory=Counter)
    widths: set[int] = field(default_factory=set)


class TokenSequencesObserver(Observer):
    emits = (SequencesCounted,)

    def prepare(self) -> None:
        self._seen: dict[tuple[int, Phase], _Seen] = {}
        self._calls: Counter[tuple[int, Phase]] = Counter()
        self._vocabulary: Vocabulary | None = None

    def module_call_started(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is None or call.recalibration:
            return
        phase: Phase = "training" if call.grad and call.training else "evaluation"
        key = (known.number, phase)
        self._calls[key] += 1
        if self._calls[key] > CALLS:
            return
        given = [*tensors_in(call.args), *tensors_in(call.kwargs)]
        sequences = next((t for t in given if _is_sequences(t)), None)
        if sequences is None or (not sequences.is_cpu and self._calls[key] > ON_DEVICE):
            return
        rows = evenly_spaced(sequences.detach(), ROWS).cpu()
        along = _alphabet(rows) if rows.is_floating_point() else None
        if rows.is_floating_point() and along is None:
            return
        if self._vocabulary is None:
            self._vocabulary = vocabulary_here()
        seen = self._seen.get(key)
        if seen is None:
            padding = _padding(call.module) | set(self._vocabulary.padding)
            seen = self._seen[key] = _Seen(call.place, known.name, along is not None, frozenset(padding or {0}))
        if seen.one_hot == (along is not None):
            _count(seen, rows if along is None else rows.movedim(along, 2), _lengths(given, sequences))

    def run_ended(self, end: RunEnd) -> None:
        for (model, phase), seen in self._seen.items():
            words = self._vocabulary
            if not seen.symbols or words is None:
                continue
            width = max(seen.widths)
            limit = words.limits.get(width, "") if len(seen.widths) == 1 else ""
            expected = words.pads or bool(words.padding)
            self.emit(SequencesCounted, seen.place, model, seen.name, phase, seen.rows, width, len(seen.counts),
                      self._unknown(seen, words), seen.full / seen.rows if expected else 0.0, limit)  # fmt: skip

    def _unknown(self, seen: _Seen, words: Vocabulary) -> UnknownSymbols | None:
        if seen.one_hot:
            few = seen.counts.total() < 2 * seen.rows  # a place on a board
            return None if few else UnknownSymbols(None, seen.empty / seen.symbols, "", "")
        token, count = seen.counts.most_common(1)[0]
        called, fallback = words.unknown.get(token, ""), words.fallback.get(token, "")
        return UnknownSymbols(token, count / seen.symbols, called, fallback) if called or fallback else None


def _is_sequences(tensor: Any) -> bool:
    if not is_plain(tensor) or not is_readable(tensor) or tensor.requires_grad or tensor.ndim not in (2, 3):
        return False
    symbols = tensor.dtype in _IDS or (tensor.is_floating_point() and tensor.ndim == 3)
    return symbols and tensor.shape[1] >= SHORTEST and len(tensor) > 0


def _padding(model: nn.Module) -> set[int]:
    layers = [m for m in model.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))]
    return {layer.padding_idx for layer in layers if layer.padding_idx is not None}


def _alphabet(rows: Tensor) -> int | None:
    """The dimension along which each position has one 1 at most, and 0 otherwise."""
    if rows.numel() > LARGEST or not bool(((rows == 0) | (rows == 1)).all()):
        return None
    for dimension in (1, 2):
        sums = rows.sum(dimension)
        if 3 <= rows.shape[dimension] <= SYMBOLS and bool((sums <= 1).all()) and bool(sums.any(1).any()):
            return dimension if sums.shape[1] >= SHORTEST else None
    return None


def _lengths(given: list[Any], sequences: Tensor) -> Tensor | None:
    """A further argument that has the length of each sequence."""
    for other in given:
        whole = is_plain(other) and is_readable(other) and other.dtype in _IDS and other.shape == sequences.shape[:1]
        if whole and int(other.min()) >= 1 and int(other.max()) <= sequences.shape[1]:
            return evenly_spaced(other.detach(), ROWS).cpu()
    return None


def _count(seen: _Seen, rows: Tensor, lengths: Tensor | None) -> None:
    if seen.one_hot:
        some = rows.sum(2) > 0
        inside = some.flip(1).cumsum(1).flip(1) > 0
        seen.empty += int((inside & ~some).sum())
        seen.full += int((some[:, 0] & some[:, -1]).sum())
        ids = rows.argmax(2)[some]
        seen.symbols += int((inside & ~some).sum())
    else:
        rows = rows.flatten(0, rows.ndim - 2).long()
        padding = torch.tensor(sorted(seen.padding))
        padded = torch.isin(rows, padding)
        ends = (padded & (rows == rows[:, -1:])).flip(1).cumprod(1).flip(1).bool()
        starts = (padded & (rows == rows[:, :1])).cumprod(1).bool()
        ids = rows[~(ends | starts)]
        full = ~(ends[:, -1] | starts[:, 0])
        seen.full += int((full if lengths is None else lengths == rows.shape[1]).sum())
    seen.rows += len(rows)
    seen.symbols += ids.numel()
    seen.widths.add(rows.shape[1])
    values, counts = torch.unique(ids, return_counts=True)
    seen.counts.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
