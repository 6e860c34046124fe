"""Private parts of the DataLoader."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, SequentialSampler, get_worker_info
from torch.utils.data._utils import worker as loader_worker

from trueloop.torch_private.dataloader import (
    LoaderIterator,
    PendingBatch,
    batches_yielded,
    become_worker,
    forget_workers,
    index_sampler,
    iterated_dataset,
    pending_batch,
    shut_down_workers,
    stacks_samples,
)


class _Samples(Dataset[int]):
    def __init__(self) -> None:
        self.pending: list[PendingBatch | None] = []

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        frame: Any = sys._getframe(1)
        found = None
        while frame is not None and found is None:
            found = pending_batch(frame)
            frame = frame.f_back
        self.pending.append(found)
        return index


def test_the_iterator_knows_its_dataset_sampler_and_position() -> None:
    samples = _Samples()
    iterator = iter(DataLoader(samples, batch_size=2))
    assert isinstance(iterator, LoaderIterator)
    assert iterated_dataset(iterator) is samples
    assert isinstance(index_sampler(iterator).sampler, SequentialSampler)
    assert batches_yielded(iterator) == 0
    next(iterator)
    assert batches_yielded(iterator) == 1


def test_pending_batch_is_found_in_the_frame_of_next() -> None:
    samples = _Samples()
    iterator = iter(DataLoader(samples, batch_size=2))
    list(iterator)
    assert samples.pending[0] == PendingBatch(id(iterator), 0, samples, ())
    assert samples.pending[2] == PendingBatch(id(iterator), 1, samples, ())
    assert pending_batch(sys._getframe()) is None


def test_stacks_samples_with_the_default_collate_only() -> None:
    assert stacks_samples(iter(DataLoader(_Samples(), batch_size=2)))
    assert not stacks_samples(iter(DataLoader(_Samples(), batch_size=None)))
    assert not stacks_samples(iter(DataLoader(_Samples(), batch_size=2, collate_fn=torch.tensor)))


def test_shut_down_workers_ends_the_processes() -> None:
    loader = DataLoader(_Samples(), batch_size=2, num_workers=1, persistent_workers=True)
    shut_down_workers(loader)  # no iterator yet
    iterator: Any = iter(loader)
    next(iterator)
    (worker,) = iterator._workers
    assert worker.is_alive()
    shut_down_workers(loader)
    worker.join(timeout=30)
    assert not worker.is_alive()
    iterator = iter(DataLoader(_Samples(), batch_size=2, num_workers=1))
    (worker,) = iterator._workers
    shut_down_workers(iterator)
    worker.join(timeout=30)
    assert not worker.is_alive()


def test_after_forget_workers_the_next_epoch_starts_new_ones() -> None:
    loader = DataLoader(_Samples(), batch_size=2, num_workers=1, persistent_workers=True)
    first: Any = iter(loader)
    list(first)
    (before,) = first._workers
    forget_workers(loader)
    second: Any = iter(loader)
    assert second is not first
    assert second._workers[0].pid != before.pid
    before.join(timeout=30)
    assert not before.is_alive()
    shut_down_workers(second)


def test_become_worker_sets_what_get_worker_info_returns() -> None:
    samples = _Samples()
    try:
        become_worker(1, 3, 7, samples)
        info: Any = get_worker_info()
        assert (info.id, info.num_workers, info.seed, info.dataset) == (1, 3, 7, samples)
    finally:
        loader_worker._worker_info = None
