"""Token ids that enter a model without padding: one flat tensor with offsets or lengths, a list of sequences, or one
sequence per call. Ids in a table are the business of `model_data`."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from trueloop.event import Place, TokensCounted
from trueloop.measure.tensors import is_plain, is_readable
from trueloop.observers.observer import Observer
from trueloop.taps.calls import ModuleCall, RunEnd, tensors_in

__all__ = ["RaggedTokensObserver"]

Phase = Literal["training", "evaluation"]

FIRST_CALLS: Final = 256  # of a model in a phase
MOST_TOKENS: Final = 50_000  # of a phase
LARGEST: Final = 2**20  # ids in a call
ON_DEVICE: Final = 6  # calls on a device that are read: each makes the host wait
SHORTEST: Final = 4  # ids in a sequence that is a call of its own
LENGTHS: Final = 3  # different ones among such sequences


@dataclass(slots=True)
class _Seen:
    place: Place | None
    name: str
    table: int
    calls: int = 0
    sequences: int = 0
    counts: Counter[int] = field(default_factory=Counter)
    lengths: set[int] = field(default_factory=set)
    alone: bool = True  # every call had one sequence


class RaggedTokensObserver(Observer):
    emits = (TokensCounted,)

    def prepare(self) -> None:
        self._tables: dict[int, tuple[int, bool]] = {}
        """By model: the rows of its largest embedding, and whether that sums or averages bags."""
        self._seen: dict[tuple[int, Phase], _Seen] = {}

    def module_call_started(self, call: ModuleCall) -> None:
        known = self.objects.model(call.module)
        if known is None or call.recalibration:
            return
        if known.number not in self._tables:
            self._tables[known.number] = _table(call.module)
        table, bags = self._tables[known.number]
        phase: Phase = "training" if call.grad and call.training else "evaluation"
        seen = self._seen.get((known.number, phase))
        if not table or (seen is not None and (seen.calls >= FIRST_CALLS or seen.counts.total() >= MOST_TOKENS)):
            return
        given = [*tensors_in(call.args), *tensors_in(call.kwargs)]
        if not given or not all(_is_flat(tensor) for tensor in given):
            return
        if not given[0].is_cpu and seen is not None and seen.calls >= ON_DEVICE:
            return
        sequences = _sequences(given, bags)
        if not sequences:
            return
        if seen is None:
            seen = self._seen[known.number, phase] = _Seen(call.place, known.name, table)
        _count(seen, given, sequences)

    def run_ended(self, end: RunEnd) -> None:
        for (model, phase), seen in self._seen.items():
            if seen.counts and (not seen.alone or len(seen.lengths) >= LENGTHS):
                token, count = seen.counts.most_common(1)[0]
                share = count / seen.counts.total()
                self.emit(TokensCounted, seen.place, model, seen.name, phase, seen.sequences, (token, share),
                          len(seen.counts), seen.table)  # fmt: skip


def _table(model: nn.Module) -> tuple[int, bool]:
    layers = [m for m in model.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))]
    largest = max(layers, key=lambda layer: layer.num_embeddings, default=None)
    return (0, False) if largest is None else (largest.num_embeddings, isinstance(largest, nn.EmbeddingBag))


def _is_flat(tensor: Any) -> bool:
    usable = is_plain(tensor) and is_readable(tensor) and tensor.dtype in (torch.int64, torch.int32)
    return usable and tensor.ndim == 1 and tensor.numel() <= LARGEST


def _sequences(given: list[Tensor], bags: bool) -> int:
    """How many sequences the first tensor, or all of them, hold; 0: something else, such as one category per row."""
    sizes = {tensor.numel() for tensor in given}
    if len(given) == 1:
        return 1 if given[0].numel() >= SHORTEST and not bags else 0
    if len(given) == 2 and bags and 1 <= given[1].numel() < given[0].numel():
        ids, other = given[0].numel(), given[1]
        first, last = int(other[0]), int(other[-1])
        offsets = first == 0 and last <= ids and bool((other.diff() >= 0).all())
        return other.numel() if offsets or int(other.sum()) == ids else 0
    return len(given) if len(given) > 2 and len(sizes) > 2 else 0


def _count(seen: _Seen, given: list[Tensor], sequences: int) -> None:
    ids = [given[0]] if len(given) == 2 else given
    seen.calls += 1
    seen.sequences += sequences
    seen.alone = seen.alone and sequences == 1
    seen.lengths.add(given[0].numel())
    values, counts = torch.unique(torch.cat([part.detach().cpu() for part in ids]), return_counts=True)
    seen.counts.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
