"""Some samples of a split, spread over all of it: a hash of each one's inputs, and the targets. The split itself is
left as it was.

A split that is read as needed is somebody's dataset, which may count, cache or draw as it is read: that one is read in
a process of its own, as a loader's worker does, so that the training meets it untouched, however many samples the time
was enough for.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple, final

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from trueloop.data.source import Batch, Source, size_of, tensors_in
from trueloop.engine.stop import ignore_signals
from trueloop.measure.randomness import seed_all
from trueloop.torch_private.dataloader import shut_down_workers

__all__ = ["Samples", "read_samples"]

AT_ONCE: Final = 1024  # samples fetched at once of a split in memory: quick, and not visible in the run's memory
TOGETHER: Final = 10  # samples sent together from another process: one by one, that costs more than the reading


@dataclass(frozen=True)
class Samples:
    """What was read."""

    hashes: tuple[bytes, ...]
    targets: Tensor  # One row per sample; those of different lengths, one after another

    @property
    def count(self) -> int:
        return len(self.hashes)

    @property
    def digest(self) -> str:
        """Of all that was read: other data have a different one."""
        return blake2b(b"".join(self.hashes), digest_size=16).hexdigest()

    @property
    def full_digest(self) -> str:
        """With the targets."""
        targets = self.targets.contiguous().view(torch.uint8).numpy().tobytes() if self.targets.numel() else b""
        return blake2b(b"".join(self.hashes) + targets, digest_size=16).hexdigest()


def read_samples(source: Source, seed: int, *, in_memory: int, elsewhere: int, nbytes: int, seconds: float) -> Samples:
    """At most so many, so large together, and for so long. Random states are the caller's to fence off."""
    lazy = source.nbytes() is None
    numbers = _spread(len(source), min(len(source), elsewhere if lazy else in_memory))
    some = torch.split(numbers, TOGETHER if lazy else AT_ONCE)
    hashes: list[bytes] = []
    targets: list[Tensor] = []
    until = time.perf_counter() + seconds
    for read in _read_elsewhere(source, some, seed) if lazy else (_read([source.fetch(each)]) for each in some):
        hashes += read.hashes
        targets += map(torch.from_numpy, read.targets)
        nbytes -= read.nbytes
        if nbytes <= 0 or time.perf_counter() > until:
            break
    return Samples(tuple(hashes), _joined(targets))


class Unreadable(Exception):
    """What a split raised when it was read in another process, in words."""


class _Read(NamedTuple):
    """Of some samples. Arrays: tensors would travel between processes as files in shared memory."""

    hashes: list[bytes]
    targets: list[Any]
    nbytes: int
    failure: str = ""


def _read(batches: Sequence[Batch]) -> _Read:
    hashes = [each for batch in batches for each in _hashes(batch)]
    targets = [each.detach().cpu().numpy() for batch in batches for each in list(tensors_in(batch.targets))[:1]]
    return _Read(hashes, targets, sum(each.nbytes for batch in batches for each in tensors_in(tuple(batch))))


@final
class _Fetched(Dataset[_Read]):
    """A few samples, fetched one at a time: padded in a batch, the same sample would have other bytes."""

    def __init__(self, source: Source, seed: int) -> None:
        self.source, self.seed = source, seed

    def __getitem__(self, numbers: list[int]) -> _Read:
        """A failure is returned as text: a DataLoader would wrap it in a long traceback."""
        try:
            return _read([self._one(number) for number in numbers])
        except Exception as error:  # noqa: BLE001 - user code may raise anything; the reader raises it again
            return _Read([], [], 0, f"{type(error).__name__}: {error}")

    def _one(self, number: int) -> Batch:
        seed_all(self.seed)
        return self.source.fetch(torch.tensor([number]))


def _read_elsewhere(source: Source, some: Sequence[Tensor], seed: int) -> Iterator[_Read]:
    loader: DataLoader[_Read] = DataLoader(
        _Fetched(source, seed),
        batch_size=None,
        sampler=[numbers.tolist() for numbers in some],
        num_workers=1,
        collate_fn=_as_it_is,
        worker_init_fn=ignore_signals,
        generator=torch.Generator(),  # the loader draws a base seed: not from the training's random state
    )
    iterator = iter(loader)
    try:
        for read in iterator:
            if read.failure:
                raise Unreadable(read.failure)
            yield read
    finally:
        shut_down_workers(iterator)


def _as_it_is(read: Any) -> Any:
    """torch's own would make tensors of the arrays."""
    return read


def _spread(length: int, count: int) -> Tensor:
    """So many numbers below `length`, evenly spaced; any beginning of their order is spread over all of it: halves,
    quarters, eighths (the bits of their places, read backwards). Draws no random number."""
    places = torch.arange(count)
    bits = max(1, (count - 1).bit_length())
    backwards = sum(((places >> bit) & 1) << (bits - 1 - bit) for bit in range(bits))
    return (places * length // count)[torch.argsort(torch.as_tensor(backwards))]


def _hashes(batch: Batch) -> Iterator[bytes]:
    count = size_of(batch.inputs)
    flat = (each.detach().cpu().reshape(count, -1).contiguous() for each in tensors_in(batch.inputs))
    rows = [each.view(torch.uint8).numpy() for each in flat]
    for number in range(count):
        made = blake2b(digest_size=16)
        for row in rows:
            made.update(row[number])
        yield made.digest()


def _joined(targets: list[Tensor]) -> Tensor:
    alike = len({each.shape[1:] for each in targets}) == 1
    return torch.cat(targets if alike else [each.flatten() for each in targets])
