"""Any loader as a stream: a DataLoader, an IterableDataset, a Hugging Face dataset, a StatefulDataLoader.

A loader with `state_dict` and `load_state_dict` is resumed by them where they are exact (`loader_state.py`). Any other
is read again from the start of its epoch: each epoch begins under a seed of (seed, epoch), and each batch is drawn
under a seed of (seed, epoch, batch), so what is read again is the same. Neither changes the training's random states.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, final

import torch
from torch import Tensor
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, default_collate

from trueloop.data.dataset import Dataset, collate_stream, convert_batch
from trueloop.data.source import Batch
from trueloop.data.stream import Stream
from trueloop.engine.checkpoints import Stateful
from trueloop.engine.loader_state import (
    gives_ready_batches,
    gives_samples,
    is_torchdata,
    restart_torchdata,
    some_worker_ended,
    trusted_state,
)
from trueloop.engine.sample_order import mix_seed
from trueloop.engine.stop import ignore_signals
from trueloop.errors import BadData
from trueloop.measure.randomness import fence
from trueloop.recipe.recipe import Recipe
from trueloop.torch_private.dataloader import forget_workers, shut_down_workers

__all__ = ["LoaderStream", "as_stream"]

_END: Final = object()
EVALUATION: Final = 5  # Keeps the seeds of evaluations apart from those of epochs


def as_stream(given: Any, recipe: Recipe, *, train: bool) -> Stream | None:
    """Of a loader of batches, or of an iterable dataset, whose samples become batches of the recipe's size; None: it is
    not read by iterating."""
    by_index = hasattr(given, "__getitem__") and hasattr(given, "__len__")
    if not isinstance(given, (DataLoader, IterableDataset)) and (by_index or not hasattr(given, "__iter__")):
        return None
    if hasattr(given, "__next__"):
        raise BadData(
            f"The recipe's data returned a {type(given).__name__}, which can be read only once. Nothing was trained: "
            "give an object whose __iter__ starts again (a DataLoader, an IterableDataset), or a trueloop.Stream."
        )
    if gives_samples(given):
        micro, ready = -(-recipe.batch // recipe.accumulate), gives_ready_batches(given)
        size = recipe.batch if train else recipe.evaluation_batch or micro
        given = DataLoader(
            given,
            batch_size=None if ready else size,
            drop_last=train and recipe.drop_last and not ready,
            num_workers=recipe.workers,
            prefetch_factor=recipe.prefetch if recipe.workers else None,
            collate_fn=convert_batch if ready else collate_stream,
        )
    return LoaderStream(given, recipe.seed)


@final
class LoaderStream(Stream):
    """The passes over a loader, one after another."""

    def __init__(self, loader: Any, seed: int) -> None:
        self.loader, self.seed = loader, seed
        self.passes = 0  # That are over
        self.read = 0  # Batches of this pass that were given
        self._iterator: Iterator[Any] | None = None
        self._stateful, self._why = trusted_state(loader)
        self._restored = False  # Does the loader begin its next pass at a place that it was given?
        self._samples: Dataset | None = None  # What the loader's dataset holds, for exports and checks
        if isinstance(loader, DataLoader) and not gives_samples(loader.dataset) and hasattr(loader.dataset, "__len__"):
            self._samples = Dataset(loader.dataset, collate=_collate_of(loader))
        if isinstance(loader, DataLoader) and loader.num_workers:
            loader.worker_init_fn = _Worker(loader.worker_init_fn)

    def __len__(self) -> int:
        return self.refuse() if self._samples is None else len(self._samples)

    def fetch(self, numbers: Tensor) -> Batch:
        return self.refuse() if self._samples is None else self._samples.fetch(numbers)

    @property
    def steps_per_epoch(self) -> int | None:
        try:
            return len(self.loader)
        except TypeError:
            return None  # an iterable without a length

    @property
    def samples_per_batch(self) -> int | None:
        size = getattr(self.loader, "batch_size", None)
        return size if isinstance(size, int) else None

    @property
    def per_process(self) -> bool:
        return any(isinstance(each, DistributedSampler) for each in _samplers(self.loader))

    @property
    def name(self) -> str:
        dataset = getattr(self.loader, "dataset", None)
        return type(dataset if gives_samples(dataset) else self.loader).__name__

    @property
    def note(self) -> str:
        said = f"data: batches from {'an' if self.name[0] in 'AEIOU' else 'a'} {self.name}"
        if self._stateful is None:
            return (
                f"{said} {self._why}: a resume reads the epoch again up to its place. That is exact if the loader "
                "draws only from torch's, NumPy's or Python's random numbers, and not for data that arrive over a "
                "network"
            )
        said = f"{said}; its state_dict is in every checkpoint"
        if self._workers and gives_samples(self.loader.dataset):
            return f"{said}. Random numbers that its workers draw are not: a resume is exact if the dataset draws none"
        return said

    @property
    def _workers(self) -> int:
        return self.loader.num_workers if isinstance(self.loader, DataLoader) else 0

    def next(self, loop: Any = None) -> Any:
        while True:
            if self._iterator is None:
                self._iterator = self._open()
            with fence(mix_seed(self.seed, self.passes, self.read)):
                batch = next(self._iterator, _END)
            if batch is not _END:
                self.read += 1
                return batch
            if not self.read:
                raise BadData(f"The training data's {self.name} gave no batch: check its dataset.")
            self.passes, self.read, self._iterator = self.passes + 1, 0, None

    def _open(self) -> Iterator[Any]:
        """This pass, at its place."""
        with fence(mix_seed(self.seed, self.passes)):
            self._seed_pass(self.passes)
            iterator: Iterator[Any] = iter(self.loader)
        restored, self._restored = self._restored, False
        for number in range(0 if restored else self.read):
            with fence(mix_seed(self.seed, self.passes, number)):
                if next(iterator, _END) is _END:
                    raise BadData(
                        f"The {self.name} of the training data has {number:,} batches now, and gave "
                        f"{self.read:,} before: the run cannot be resumed on data that changed."
                    )
        return iterator

    def _seed_pass(self, number: int) -> None:
        """Everything that a pass draws from, as in a process that begins with it."""
        if is_torchdata(self.loader):
            if not self._restored:
                restart_torchdata(self.loader)
        elif isinstance(self.loader, DataLoader) and not isinstance(self.loader, Stateful):
            forget_workers(self.loader)  # persistent ones would continue their random numbers from the pass before
        for each in (self.loader, *_samplers(self.loader)):
            generator = getattr(each, "generator", None)
            if isinstance(generator, torch.Generator):
                generator.manual_seed(mix_seed(self.seed, number))
        for each in (*_samplers(self.loader), getattr(self.loader, "dataset", None), self.loader):
            if callable(set_epoch := getattr(each, "set_epoch", None)):
                set_epoch(number)

    def evaluation_pass(self) -> Generator[Any, None, None]:
        """All batches once, the same each time."""
        with fence(mix_seed(self.seed, EVALUATION)):
            self._seed_pass(0)
            iterator = iter(self.loader)
        try:
            number = 0
            while True:
                with fence(mix_seed(self.seed, EVALUATION, number)):
                    batch = next(iterator, _END)
                if batch is _END:
                    break
                yield batch
                number += 1
        finally:
            shut_down_workers(iterator)

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"passes": self.passes, "read": self.read, "workers": self._workers}
        if self._stateful is not None:
            if is_torchdata(self.loader) and self._iterator is None:
                self._iterator = self._open()  # it would begin the pass here itself, without its seeds and epoch
            with fence(mix_seed(self.seed, self.passes)):  # one that has not begun may begin here
                state["loader"] = self._stateful.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.close()
        self.passes, self.read = int(state["passes"]), int(state["read"])
        workers = state.get("workers", self._workers)
        if workers != self._workers and (is_torchdata(self.loader) or gives_samples(self.loader.dataset)):
            raise BadData(
                f"The {self.name} of the training data is read by {self._workers} workers now, and was by {workers} "
                "when the checkpoint was saved: its order depends on their number. Nothing was run: use "
                f"{workers} again."
            )
        self._restored = False
        if self._stateful is None or "loader" not in state:
            return  # the epoch is read again
        if is_torchdata(self.loader) and self._workers and some_worker_ended(state["loader"]):
            return  # as above: restored, such a worker would begin its data once more
        self._stateful.load_state_dict(state["loader"])
        self._restored = True

    def close(self) -> None:
        iterator, self._iterator = self._iterator, None
        if iterator is not None:
            shut_down_workers(iterator)


def _collate_of(loader: DataLoader[Any]) -> Callable[[list[Any]], Any]:
    return loader.collate_fn if loader.batch_size is not None or loader.batch_sampler is not None else default_collate


def _samplers(loader: Any) -> list[Any]:
    outer = getattr(loader, "batch_sampler", None)
    found = (getattr(loader, "sampler", None), outer, getattr(outer, "sampler", None))
    return [each for each in found if each is not None]


@final
class _Worker:
    """The user's worker_init_fn, in a worker that leaves Ctrl-C to the training process."""

    def __init__(self, own: Callable[[int], None] | None) -> None:
        self.own = own

    def __call__(self, number: int) -> None:
        ignore_signals(number)
        if self.own is not None:
            self.own(number)
