"""Windows of micro-batches: each window is one optimizer step, from wherever the run stands.

A batch is a pure function of (seed, epoch, number of the batch): the order is, and whatever a dataset or an
augmentation draws is drawn after seeding from those three. So neither the number of workers nor a resume can change
what the model sees.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, final

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from trueloop.data.source import Batch, Source, Splits, moved, size_of, tensors_in
from trueloop.engine.sample_order import (
    epoch_order,
    micro_batch_sizes,
    mix_seed,
    steps_per_epoch,
)
from trueloop.engine.state import State
from trueloop.engine.stop import ignore_signals
from trueloop.errors import BadRecipe, TrueloopError
from trueloop.measure.randomness import fence, seed_all
from trueloop.parallel.peers import Peers
from trueloop.recipe.recipe import Recipe
from trueloop.torch_private.dataloader import shut_down_workers

__all__ = ["Batches", "EvaluationBatches", "Window", "place_data"]

AT_ONCE: Final = 2
"""Micro-batches that are evaluated at once: nothing is kept for a backward, so that twice as much fits where a training
step fits."""
MANY_AT_ONCE: Final = 16
"""The same where steps are so small that they are played several at once: not of a language model, whose scores are
large."""
FEW_NUMBERS: Final = 1 << 22
"""In the inputs that are evaluated at once then: what a model makes of them in between may be a hundred times as
many."""
IDLE: Final = 2
"""Samples of a batch that is computed only because others need this process to take part: BatchNorm cannot do with
one."""
SHARE: Final = 0.4
"""Of the device's free memory that a resident data set may take: the rest is the model's and its activations'."""


class Window(NamedTuple):
    """This process's micro-batches of one optimizer step: none, if a small last batch has no sample for it."""

    micros: Sequence[Batch]
    samples: int
    """Of all processes together."""
    ends_epoch: bool
    numbers: Tensor | None = None
    """[steps, samples]: several steps at once, whose batches `Graphs` gathers by these numbers; there are no
    micro-batches then."""
    idle: int = 0
    """So many of the last micro-batches count for nothing: they are computed because other processes need this one for
    theirs."""

    @property
    def steps(self) -> int:
        return 1 if self.numbers is None else len(self.numbers)


class _Key(NamedTuple):
    """What a worker is asked for: these samples, drawn under this seed."""

    seed: int
    numbers: Any
    """A tensor; an array on its way to a worker."""


@final
class _Keyed(torch.utils.data.Dataset[Any]):
    """A source as the loader's dataset: one key, one batch."""

    def __init__(self, source: Source, here: bool) -> None:
        self.source = source
        self.here = here
        """In the training process itself, whose random states belong to the training."""

    def __getitem__(self, key: _Key) -> Batch | TrueloopError | None:
        """None: there is nothing to fetch. A fault of the data is handed over, not raised: a loader would bury its
        sentence in a trace."""
        numbers = torch.as_tensor(key.numbers)
        if not len(numbers):
            return None
        if self.here:
            with fence(key.seed):
                return self.source.fetch(numbers)
        seed_all(key.seed)
        try:
            return self.source.fetch(numbers)
        except TrueloopError as error:
            return error


@final
class _Keys:
    """What makes keys, as the loader's sampler: asked anew for each epoch, or what is left of it."""

    def __init__(self, make: Callable[[], Iterator[_Key]]) -> None:
        self.make = make

    def __iter__(self) -> Iterator[_Key]:
        # As arrays: a tensor would travel to a worker as shared memory, a file handle for each batch.
        return (_Key(key.seed, key.numbers.numpy()) for key in self.make())


def place_data(source: Source, recipe: Recipe, device: torch.device) -> tuple[Source | None, str]:
    """The source with all samples on the device if they may live there, and the sentence that says what was decided."""
    size = source.nbytes()
    if recipe.where == "loader" or size is None:
        why = "as asked" if recipe.where == "loader" else "read as needed"
        return None, f"data: {len(source):,} samples from a loader with {recipe.workers} workers, {why}"
    if device.type == "cuda" and recipe.where == "auto":
        free = torch.cuda.mem_get_info(device)[0]
        if size > free * SHARE:
            return (
                None,
                f"data: from a loader ({size / 1e9:.1f} GB would not leave room in {free / 1e9:.1f} GB free on {device})",
            )
    return source.resident(device), f"data: {len(source):,} samples resident on {device} ({size / 1e6:.1f} MB)"


@final
class Batches:
    """The training batches of a run."""

    def __init__(
        self, splits: Splits, recipe: Recipe, device: torch.device, peers: Peers, *, in_step: bool = False
    ) -> None:
        self.splits, self.recipe, self.device, self.peers = splits, recipe, device, peers
        self.in_step = in_step
        """Must all processes compute equally many micro-batches?"""
        self.samples = len(splits.train)
        self.steps_per_epoch = steps_per_epoch(self.samples, recipe.batch, recipe.drop_last)
        self.resident, self.note = place_data(splits.train, recipe, device)
        self.waited = 0.0
        """Seconds spent waiting for data; whoever reads it sets it back to zero."""
        self.labels = splits.train.labels() if recipe.balanced else None
        self._augment_draws = torch.Generator(device)
        self._loader: DataLoader[Batch] | None = None

    def windows(self, state: State) -> Iterator[Window]:
        """Without end, from where the state stands; the loop advances the state and decides when it is enough."""
        if not self.steps_per_epoch or (self.recipe.balanced and self.labels is None):
            raise BadRecipe(
                "There are no batches to train on: drop_last leaves none, or balanced knows no classes. `rehearse` says which."
            )
        while True:
            epoch, first = state.epoch, state.batch
            stream = self._gathered(epoch, first) if self.resident is not None else self._loaded(state)
            for number in range(first, self.steps_per_epoch):
                begun = time.perf_counter()
                batch = self.ready(next(stream), epoch, number)
                self.waited += time.perf_counter() - begun
                yield self._window(batch, number)
                if (state.epoch, state.batch) != (epoch, number + 1):
                    break  # the epoch is over, or the run went back to a checkpoint

    def window(self, numbers: Tensor, epoch: int, number: int) -> Window:
        """One alone, of these samples, which are on the device."""
        assert self.resident is not None
        return self._window(self.ready(self.resident.fetch(numbers), epoch, number), number)

    def _window(self, batch: Batch | None, number: int) -> Window:
        samples = min(self.recipe.batch, self.samples - number * self.recipe.batch)
        micros = self.micros(batch) if batch else ()
        window = Window(micros, samples, ends_epoch=number == self.steps_per_epoch - 1)
        return self._in_step(window) if self.in_step else window

    def _in_step(self, window: Window) -> Window:
        """With as many micro-batches as the first process has, which has the most."""
        world, rank = self.peers.world, self.peers.rank
        most = len(self._pieces(-(-window.samples // world)))
        own = len(window.micros) if window.samples // world + (rank < window.samples % world) else 0
        filling = Batch(*_cut(tuple(window.micros[0]), 0, IDLE))
        return window._replace(micros=[*window.micros[:own], *[filling] * (most - own)], idle=most - own)

    def close(self) -> None:
        """Let the workers go. Not left to the garbage collector: it takes a loader's queues before its workers, who
        then wait in vain."""
        loader, self._loader = self._loader, None
        if loader is not None and loader.num_workers:
            shut_down_workers(loader)

    def keys(self, epoch: int, first: int) -> Iterator[_Key]:
        """This process's share of each batch from `first` to the end of the epoch."""
        order = epoch_order(self.samples, self.recipe.seed, epoch, self.labels)
        for number in range(first, self.steps_per_epoch):
            yield _Key(mix_seed(self.recipe.seed, epoch, number, self.peers.rank), self._share(order, number))

    def _share(self, order: Tensor, number: int) -> Tensor:
        """This process's samples of a batch."""
        batch = order[number * self.recipe.batch : (number + 1) * self.recipe.batch]
        share = batch.tensor_split(self.peers.world)[self.peers.rank] if self.peers.world > 1 else batch
        return share if len(share) or not self.in_step else batch[:IDLE]

    def batch_at(self, epoch: int, number: int) -> Batch | None:
        """A batch that was seen before, the same bits: for the autopsy of a loss that is no number. None: this process
        had no part."""
        batch = _Keyed(self.splits.train, here=True)[next(self.keys(epoch, number))]
        return self.ready(moved(batch, self.device), epoch, number)

    def _gathered(self, epoch: int, first: int) -> Iterator[Batch | None]:
        assert self.resident is not None
        order = epoch_order(self.samples, self.recipe.seed, epoch, self.labels).to(self.device)
        for number in range(first, self.steps_per_epoch):
            share = self._share(order, number)
            yield self.resident.fetch(share) if len(share) else None

    def _loaded(self, state: State) -> Iterator[Any]:
        if self._loader is None:
            keys = _Keys(lambda: self.keys(state.epoch, state.batch))
            self._loader = _loader(self.splits.train, keys, self.recipe, self.device, stay=True)
        return _ahead(self._loader, self.device) if self.device.type == "cuda" else iter(self._loader)

    def ready(self, batch: Batch | TrueloopError | None, epoch: int, number: int) -> Batch | None:
        if batch is None:
            return None
        if isinstance(batch, TrueloopError):
            raise batch
        inputs = batch.inputs
        if self.splits.prepare is not None:
            inputs = self.splits.prepare(inputs)
        if self.splits.augment is not None:
            self._augment_draws.manual_seed(mix_seed(self.recipe.seed, epoch, number, self.peers.rank, 1))
            inputs = self.splits.augment(inputs, self._augment_draws)
        return Batch(inputs, batch.targets)

    def micros(self, batch: Batch) -> Sequence[Batch]:
        """As the recipe splits it."""
        if self.recipe.accumulate == 1:
            return (batch,)
        sizes = self._pieces(size_of(batch.inputs))
        bounds = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
        return [Batch(*_cut(tuple(batch), low, high)) for low, high in pairwise(bounds)]

    def _pieces(self, samples: int) -> list[int]:
        recipe = self.recipe
        return (
            [samples]
            if recipe.accumulate == 1
            else micro_batch_sizes(samples, self.peers.world, recipe.accumulate, recipe.batch)
        )


def _cut(value: Any, low: int, high: int) -> Any:
    """The same rows of every tensor inside."""
    if isinstance(value, dict):
        return {key: _cut(item, low, high) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_cut(item, low, high) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_cut(item, low, high) for item in value)
    return value[low:high]


def _loader(
    source: Source, keys: Iterable[_Key], recipe: Recipe, device: torch.device, *, stay: bool = False
) -> DataLoader[Any]:
    """`stay`: its workers live from one pass to the next."""
    workers = recipe.workers
    return DataLoader(
        _Keyed(source, here=workers == 0),
        sampler=keys,
        batch_size=None,
        num_workers=workers,
        prefetch_factor=recipe.prefetch if workers else None,
        persistent_workers=stay and workers > 0,
        collate_fn=_as_it_is,
        pin_memory=recipe.pin and device.type == "cuda",
        worker_init_fn=ignore_signals if workers else None,
        generator=torch.Generator(),  # the loader draws a base seed: not from the training's random state
    )


def _as_it_is(batch: Any) -> Any:
    """torch's own would make lists of tuples."""
    return batch


def _ahead(batches: Iterable[Any], device: torch.device) -> Iterator[Any]:
    """On the device one batch early: copied on a stream of their own while the model computes."""
    copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    waiting: list[Any] = []
    for batch in batches:
        with torch.cuda.stream(copies):
            coming = moved(batch, device, non_blocking=True)
        if waiting:
            yield waiting.pop()
        torch.cuda.current_stream(device).wait_stream(copies)
        for tensor in tensors_in(coming):
            # Made on one stream and used on another: its memory must not be given away before the use has ended.
            tensor.record_stream(torch.cuda.current_stream(device))
        waiting.append(coming)
    yield from waiting


@final
class EvaluationBatches:
    """All samples of a split once, in their own order, for evaluation, as often as asked; each process has its share.

    The samples are brought to the device once; a loader's workers come and go with each evaluation.
    """

    def __init__(self, source: Source, splits: Splits, recipe: Recipe, device: torch.device, peers: Peers) -> None:
        self.source, self.splits, self.recipe, self.device, self.peers = source, splits, recipe, device, peers
        self.resident, _ = place_data(source, recipe, device)
        micro = -(-recipe.batch // (peers.world * recipe.accumulate))
        numbers = MANY_AT_ONCE * micro * math.prod(splits.facts.inputs or (FEW_NUMBERS,))
        many = recipe.program == "cuda_graphs" and recipe.task != "language" and numbers <= FEW_NUMBERS
        self.batch = (MANY_AT_ONCE if many else AT_ONCE) * micro

    def keys(self) -> Iterator[_Key]:
        mine = torch.arange(len(self.source)).tensor_split(self.peers.world)[self.peers.rank]
        for number, numbers in enumerate(torch.split(mine, self.batch) if len(mine) else ()):
            yield _Key(mix_seed(self.recipe.seed, number, self.peers.rank, 3), numbers)

    def __iter__(self) -> Iterator[Batch]:
        for fetched in self._fetched():
            yield self._prepared(fetched)

    def idle(self) -> Iterator[Batch]:
        """As many batches as this process has less than the one that has the most."""
        samples, world, rank = len(self.source), self.peers.world, self.peers.rank
        own, most = samples // world + (rank < samples % world), math.ceil(samples / world)
        for _ in range(math.ceil(most / self.batch) - math.ceil(own / self.batch)):
            fetched = _Keyed(self.source, here=True)[
                _Key(mix_seed(self.recipe.seed, rank, 4), torch.arange(min(IDLE, samples)))
            ]
            assert isinstance(fetched, Batch)
            yield self._prepared(moved(fetched, self.device))

    def _prepared(self, batch: Batch) -> Batch:
        prepare = self.splits.prepare
        return batch if prepare is None else Batch(prepare(batch.inputs), batch.targets)

    def _fetched(self) -> Iterator[Batch]:
        if self.resident is not None:
            for key in self.keys():
                yield self.resident.fetch(key.numbers.to(self.device))
            return
        loader = _loader(self.source, _Keys(self.keys), self.recipe, self.device)
        for batch in _ahead(loader, self.device) if self.device.type == "cuda" else loader:
            if isinstance(batch, TrueloopError):
                raise batch
            yield moved(batch, self.device)
