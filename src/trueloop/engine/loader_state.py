"""What a loader's own `state_dict` restores, and what it leaves out: measured with torchdata 0.11 and datasets 5.2.

- torchdata's StatefulDataLoader does not save the random numbers of its workers, and an iterable dataset without a
  state it only reads again, under other random numbers.
- A worker of it whose data ended begins them once more after a resume.
- A Hugging Face dataset with a shuffle buffer loses the samples in the buffer.

In these cases the epoch is read again from its start instead, which is exact (`loader_stream.py`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from torch.utils.data import DataLoader, IterableDataset

from trueloop.engine.checkpoints import Stateful
from trueloop.measure.randomness import GlobalRandomStates, fence
from trueloop.torch_private.dataloader import forget_workers

__all__ = [
    "gives_ready_batches",
    "gives_samples",
    "is_torchdata",
    "restart_torchdata",
    "some_worker_ended",
    "trusted_state",
]

WITHOUT: Final = "without state_dict"
DRAWS: Final = "whose workers draw random numbers, which its state_dict does not hold"
BUFFER: Final = "with a shuffle buffer, which its state_dict does not hold"


def gives_samples(given: Any) -> bool:
    """An iterable dataset gives samples; any other iterable gives batches."""
    if hasattr(given, "__getitem__") and hasattr(given, "__len__"):
        return False
    return isinstance(given, IterableDataset) or type(given).__module__.partition(".")[0] == "datasets"


def gives_ready_batches(dataset: Any) -> bool:
    """A stream of Hugging Face after `.batch(n)`, which is a `map` with a function of that library."""
    for each in _operations(dataset):
        if getattr(each, "batched", False):
            function = getattr(each, "function", None)
            module, name = getattr(function, "__module__", ""), getattr(function, "__name__", "")
            return module.startswith("datasets.") and name.startswith("_batch")
    return False


def is_torchdata(loader: Any) -> bool:
    return any(each.__module__.partition(".")[0] == "torchdata" for each in type(loader).__mro__)


def trusted_state(loader: Any) -> tuple[Stateful | None, str]:
    """What restores the position in the data: the loader, or the dataset that it reads in this process. None: the
    epoch must be read again, and why, as in 'a DataLoader without state_dict'."""
    dataset = getattr(loader, "dataset", None)
    iterable = isinstance(loader, DataLoader) and gives_samples(dataset)
    if iterable and isinstance(dataset, Stateful) and _has_shuffle_buffer(dataset):
        return None, BUFFER
    if is_torchdata(loader):
        if iterable and not isinstance(dataset, Stateful):
            return None, WITHOUT
        return (None, DRAWS) if loader.num_workers and not iterable and _draws(loader) else (loader, "")
    if isinstance(loader, Stateful):
        return loader, ""
    here = iterable and loader.num_workers == 0 and isinstance(dataset, Stateful)
    return (dataset, "") if here else (None, WITHOUT)


def _draws(loader: Any) -> bool:
    """Does a sample of it take random numbers? One is read here to see."""
    with fence(0):
        before = GlobalRandomStates()
        try:
            loader.collate_fn([loader.dataset[0]])
        except Exception:  # noqa: BLE001 - only a sampler of the user's own knows its keys; reading again is exact
            return True
        after = GlobalRandomStates()
    return (
        before.python != after.python
        or not bool((before.torch == after.torch).all())
        or before.numpy[2:] != after.numpy[2:]
        or bool((before.numpy[1] != after.numpy[1]).any())
    )


def _has_shuffle_buffer(dataset: Any) -> bool:
    return any(getattr(each, "buffer_size", None) is not None for each in _operations(dataset))


def _operations(dataset: Any) -> Iterator[Any]:
    """Of a Hugging Face dataset that streams: `map`, `shuffle` and so on, the last one first."""
    waiting = [getattr(dataset, "_ex_iterable", None)]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += [inner for inner in (getattr(each, "ex_iterable", None),) if inner is not None]
        waiting += list(getattr(each, "ex_iterables", None) or ())


def restart_torchdata(loader: Any) -> None:
    """Its next pass begins at the start, with new workers: persistent ones would continue their random numbers."""
    forget_workers(loader)
    loader.load_state_dict({})
    loader.next_iter_state = None


def some_worker_ended(state: Any) -> bool:
    """In the state of a StatefulDataLoader with workers: has one of them no more data?"""
    return any(_found(state, "fetcher_ended"))


def _found(value: Any, name: str) -> Iterator[Any]:
    for key, item in value.items() if isinstance(value, Mapping) else ():
        if key == name:
            yield item
        yield from _found(item, name)
