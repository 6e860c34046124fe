"""What each rank trains on: digests of the inputs of its models in the first training calls."""

from collections import Counter
from hashlib import blake2b
from typing import Final

import torch
from torch import Tensor

from trueloop.event import BatchDigested, Place
from trueloop.observers.observer import Observer
from trueloop.taps.calls import Joined, LoaderStart, ModuleCall, tensors_in

__all__ = ["BatchDigestObserver"]

CALLS: Final = 8  # calls of each model whose inputs are digested
ALL_CALLS: Final = 64  # calls of all models together, for a run that builds models again and again
SAMPLE: Final = 1 << 14  # elements of a tensor in a digest, evenly spaced: the corner of an image may always be white


class BatchDigestObserver(Observer):
    emits = (BatchDigested,)
    safe_on_shards = True

    def prepare(self) -> None:
        self._rank: int | None = None
        self._left = ALL_CALLS
        self._seen: Counter[int] = Counter()
        self._loader_place: Place | None = None

    def group_joined(self, joined: Joined) -> None:
        self._rank = joined.rank

    def loader_started(self, start: LoaderStart) -> None:
        self._loader_place = start.place

    def module_call_started(self, call: ModuleCall) -> None:
        if self._rank is None or not self._left or not (call.grad and call.training):
            return
        known = self.objects.model(call.module)
        if known is None or self._seen[known.number] >= CALLS:
            return
        digest = _digest(call)
        if digest:
            index = self._seen[known.number]
            self._seen[known.number] += 1
            self._left -= 1
            self.emit(BatchDigested, call.place, self._rank, known.number, index, digest, self._loader_place)


def _digest(call: ModuleCall) -> str:
    """A digest of the input tensors; empty if none can be read."""
    tensors = tensors_in((call.args, dict(call.kwargs)), limit=8)
    given = [t for t in tensors if type(t) is Tensor and t.layout is torch.strided and t.numel()]
    if not given or any(tensor.is_meta or tensor.is_quantized for tensor in given):
        return ""
    made = blake2b(digest_size=8)
    with torch.no_grad():
        for tensor in given:
            flat = tensor.detach().reshape(-1)
            some = flat[:: max(1, flat.numel() // SAMPLE)][:SAMPLE].cpu().contiguous()
            made.update(str(tuple(tensor.shape)).encode())
            made.update(some.resolve_conj().resolve_neg().view(torch.uint8).numpy().tobytes())
    return made.hexdigest()
