"""Where a thread stands, seen from another one: what counts as moving, and what as fetching data."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.utils.data import DataLoader, Dataset, Subset

from trueloop.data.dataset import Dataset as Source
from trueloop.doctor.thread_sampler import ThreadSampler

FAR = 1000.0
"""No pause in a test is as long."""


class Gated(Dataset[torch.Tensor]):
    """Hands out a sample when somebody opens its gate."""

    def __init__(self) -> None:
        self.gate = threading.Semaphore(0)
        self.asked = threading.Semaphore(0)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        for wait in (self.asked.release, self.gate.acquire):
            wait()  # one line for both: a look in between sees the same place
        return torch.ones(1)


@contextmanager
def _under_way(work: Callable[[], object], dataset: Gated) -> Iterator[ThreadSampler]:
    """Somebody who looks at a thread that does this work, and stands in its first sample."""
    made: list[ThreadSampler] = []

    def run() -> None:
        made.append(ThreadSampler())
        work()

    thread = threading.Thread(target=run)
    thread.start()
    dataset.asked.acquire()
    try:
        yield made[0]
    finally:
        for _ in range(4):
            dataset.gate.release()
        thread.join()


def test_a_thread_in_a_dataset_is_loading_at_the_users_line() -> None:
    dataset = Gated()
    with _under_way(lambda: list(DataLoader(Subset(dataset, range(4)), batch_size=4)), dataset) as onlooker:
        stand = onlooker.sample(0, FAR)
    assert (stand.doing, stand.fetching) == ("loading", "Gated")
    assert stand.places[0].function == "Gated.__getitem__"


def test_it_stands_until_it_comes_to_another_sample_of_the_same_batch() -> None:
    dataset = Gated()
    with _under_way(lambda: list(DataLoader(dataset, batch_size=4)), dataset) as onlooker:
        first = onlooker.sample(0, FAR)
        again = onlooker.sample(0, FAR)
        assert again.since == first.since
        assert again.seconds() > 0
        dataset.gate.release()
        dataset.asked.acquire()
        moved = onlooker.sample(0, FAR)
        assert moved.since > first.since, "the same line, another index"


def test_a_source_of_ours_fetches_too() -> None:
    dataset = Gated()
    with _under_way(
        lambda: Source(dataset, collate=lambda items: (items, items)).fetch(torch.arange(4)), dataset
    ) as onlooker:
        stand = onlooker.sample(0, FAR)
    assert (stand.doing, stand.fetching) == ("loading", "Gated")


def test_anywhere_else_it_is_elsewhere() -> None:
    dataset = Gated()
    with _under_way(lambda: dataset[0], dataset) as onlooker:
        stand = onlooker.sample(0, FAR)
    assert (stand.doing, stand.fetching) == ("elsewhere", "")


def test_a_collective_more_is_a_move_and_so_is_a_long_pause_between_two_looks() -> None:
    """After Ctrl-Z and fg nobody has stood still: everybody was stopped."""
    dataset = Gated()
    with _under_way(lambda: dataset[0], dataset) as onlooker:
        first = onlooker.sample(0, FAR)
        assert onlooker.sample(0, FAR).since == first.since
        called = onlooker.sample(1, FAR)
        assert called.since > first.since
        time.sleep(0.02)
        assert onlooker.sample(1, 0.01).since > called.since
