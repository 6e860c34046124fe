"""The iterator of a DataLoader."""

from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Final

from torch.utils.data import DataLoader, default_collate
from torch.utils.data._utils import worker as loader_worker
from torch.utils.data.dataloader import _BaseDataLoaderIter as LoaderIterator

__all__ = ["LoaderIterator", "PendingBatch", "batches_yielded", "become_worker", "index_sampler", "iterated_dataset"]
__all__ += ["forget_workers", "pending_batch", "shut_down_workers", "stacks_samples"]

# LoaderIterator: base of both iterators of a loader, with and without workers. 2.11+

_NEXT: Final[CodeType] = LoaderIterator.__next__.__code__


@dataclass(frozen=True, slots=True)
class PendingBatch:
    """A batch that the loop has asked a loader for and not received yet. 2.11+"""

    loader: int
    number: int  # Its position in the epoch, from 0
    dataset: Any
    workers: tuple[int, ...]  # The processes that fetch it; empty if this process does


def pending_batch(frame: FrameType) -> PendingBatch | None:
    """The batch that a frame waits for; None if it is not a loader's `__next__`. 2.11+"""
    iterator = frame.f_locals.get("self") if frame.f_code is _NEXT else None
    if iterator is None:
        return None
    workers = tuple(worker.pid for worker in getattr(iterator, "_workers", ()))
    number, dataset = getattr(iterator, "_num_yielded", 0), getattr(iterator, "_dataset", None)
    return PendingBatch(id(iterator), number, dataset, workers)


def stacks_samples(iterator: Any) -> bool:
    """Does the loader stack single samples with PyTorch's own collate function? 2.11+"""
    own = getattr(iterator, "_collate_fn", None) is default_collate
    return own and bool(getattr(iterator, "_auto_collation", False))


def batches_yielded(iterator: Any) -> int:
    """The batches that it has handed out in this epoch. 2.11+"""
    return int(iterator._num_yielded)


def iterated_dataset(iterator: Any) -> Any:
    """The dataset behind an iterator. 2.11+"""
    return iterator._dataset


def index_sampler(iterator: Any) -> Any:
    """The sampler or batch sampler that an iterator draws indices from. 2.11+"""
    return iterator._index_sampler


def shut_down_workers(source: Any) -> None:
    """Ends the worker processes of a loader with persistent workers, or of an iterator. 2.11+"""
    iterator = source._iterator if isinstance(source, DataLoader) else source
    if iterator is not None and hasattr(iterator, "_shutdown_workers"):
        iterator._shutdown_workers()


def forget_workers(loader: Any) -> None:
    """A loader with persistent workers starts new ones at its next epoch. 2.11+"""
    shut_down_workers(loader)
    loader._iterator = None


def become_worker(number: int, workers: int, seed: int, dataset: Any) -> None:
    """Makes `get_worker_info` answer as in a worker process; only for a forked copy of the process. 2.11+"""
    loader_worker._worker_info = loader_worker.WorkerInfo(id=number, num_workers=workers, seed=seed, dataset=dataset)
