"""One optimizer step from several batches, with one divisor for all of them. Usable alone, around anybody's loader:

    for window in accumulate(loader, 4, count=lambda batch: (batch[1] != -100).sum()):
        for inputs, targets in window:
            loss_sum = F.cross_entropy(model(inputs), targets, reduction="sum", ignore_index=-100)
            (loss_sum / window.targets).backward()
        optimizer.step()
        optimizer.zero_grad()

The gradient is that of the one big batch, however the targets are spread over its parts; and the last window of an
epoch holds what is left, instead of leaving gradients over for the next one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar, final

import torch
from torch import Tensor

from trueloop.data.source import size_of
from trueloop.errors import Misuse
from trueloop.parallel.peers import find_peers

__all__ = ["Accumulated", "accumulate"]

B = TypeVar("B")  # A batch, of whatever kind the loader gives


@final
@dataclass(frozen=True, slots=True)
class Accumulated(Generic[B]):
    """The batches of one optimizer step."""

    batches: Sequence[B]
    targets: int | float | Tensor
    """What the sum of each batch's losses is divided by: all their targets. With several processes, all targets over
    the number of processes: DistributedDataParallel takes the mean of their gradients."""

    def __iter__(self) -> Iterator[B]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


def accumulate(
    loader: Iterable[B], every: int, count: Callable[[B], int | Tensor] | None = None
) -> Iterator[Accumulated[B]]:
    """Windows of `every` batches. `count`: how many targets of a batch the loss is summed over; None: one per sample.
    No batch is taken before its window begins: a loader's position, saved after a step, is that of the step."""
    if every < 1:
        raise Misuse(f"accumulate takes batches in windows of 1 or more, not {every}. Nothing was trained.")
    return _windows(iter(loader), every, count or size_of)


def _windows(stream: Iterator[B], every: int, count: Callable[[B], int | Tensor]) -> Iterator[Accumulated[B]]:
    while batches := tuple(islice(stream, every)):
        yield Accumulated(batches, _over_processes([count(batch) for batch in batches]))


def _over_processes(counts: Sequence[int | Tensor]) -> int | float | Tensor:
    total: Any = sum(counts)
    device = total.device if isinstance(total, Tensor) else torch.device("cpu")
    peers = find_peers(device)
    divisor: int | float | Tensor = total if peers.world == 1 else peers.sum(total) / peers.world
    return divisor
