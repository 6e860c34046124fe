"""Windows of micro-batches: each window is one optimizer step, from wherever the run stands.

A batch is a pure function of (seed, epoch, number of the batch): so is the order, and everything that a dataset or an
augmentation draws is drawn after seeding from those three. Neither the number of workers nor a resume changes what the
model sees.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, final

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from trueloop.data.cut import batch_size, cut
from trueloop.data.source import Batch, Source, Splits, moved, tensors_in
from trueloop.data.stream import as_batch
from trueloop.engine.carry import rows_at_once
from trueloop.engine.loader_stream import LoaderStream
from trueloop.engine.own_order import EpochOrder, plan_epoch
from trueloop.engine.sample_order import micro_batch_sizes, mix_seed
from trueloop.engine.state import State
from trueloop.engine.stop import ignore_signals
from trueloop.engine.stream_shares import check_same_batch, share_of
from trueloop.errors import BadRecipe, NotByIndex, TrueloopError
from trueloop.measure.randomness import fence, seed_all
from trueloop.parallel.peers import Peers
from trueloop.parallel.strategy import Strategy
from trueloop.recipe.recipe import Recipe
from trueloop.torch_private.dataloader import shut_down_workers

__all__ = ["Batches", "EvaluationBatches", "Window", "place_data", "prepared"]

EVALUATED_AT_ONCE: Final = 2  # micro-batches evaluated at once: without a backward, twice as much fits
MANY_AT_ONCE: Final = 16  # the same with program=cuda_graphs, whose steps are small; not for language models
FEW_NUMBERS: Final = 1 << 22  # largest input evaluated at once then: activations may be a hundred times as large
IDLE: Final = 2  # samples of a batch computed only because other ranks need this one; BatchNorm needs two
SHARE: Final = 0.4  # share of the device's free memory for resident data: the rest is for the model


class Window(NamedTuple):
    """This process's micro-batches of one optimizer step: none if a small last batch has no sample for it."""

    micros: Sequence[Batch]
    samples: int  # Of all processes together
    ends_epoch: bool
    numbers: Tensor | None = None  # [steps, samples]: samples of steps replayed at once, without micro-batches
    loaded: Sequence[Batch] = ()  # their batches, where a loader fetches them
    idle: int = 0  # how many of the last micro-batches count for nothing: other processes need them computed

    @property
    def is_replay(self) -> bool:
        return self.numbers is not None

    @property
    def steps(self) -> int:
        return 1 if self.numbers is None else len(self.numbers)

    def divided(self, strategy: Strategy, targets: int | Tensor) -> Iterator[tuple[Batch, int | float | Tensor]]:
        """Each micro-batch with the divisor of its losses: infinity for idle micro-batches."""
        own = len(self.micros) - self.idle
        for number, micro in enumerate(strategy.micros(self.micros, self.samples)):
            yield micro, targets if number < own else math.inf


class _Key(NamedTuple):
    """What a worker fetches: these samples, under this seed."""

    seed: int
    numbers: Any  # A tensor; an array on its way to a worker


@final
class _KeyedDataset(torch.utils.data.Dataset[Any]):
    """A source as the loader's dataset: one key, one batch."""

    def __init__(self, source: Source, in_training_process: bool) -> None:
        self.source = source
        self.in_training_process = in_training_process  # then the random states are the training's, and are preserved

    def __getitem__(self, key: _Key) -> Batch | TrueloopError | None:
        """None: nothing to fetch. An error is returned, not raised: a loader would bury it in a traceback."""
        numbers = torch.as_tensor(key.numbers)
        if not len(numbers):
            return None
        if self.in_training_process:
            with fence(key.seed):
                return self.source.fetch(numbers)
        seed_all(key.seed)
        try:
            return self.source.fetch(numbers)
        except TrueloopError as error:
            return error


@final
class _KeySampler:
    """The loader's sampler: called for each epoch, or for the rest of one."""

    def __init__(self, keys: Callable[[], Iterator[_Key]]) -> None:
        self.keys = keys

    def __iter__(self) -> Iterator[_Key]:
        # As arrays: a tensor would travel to a worker as shared memory, a file handle for each batch.
        return (_Key(key.seed, key.numbers.numpy()) for key in self.keys())


def place_data(source: Source, recipe: Recipe, device: torch.device) -> tuple[Source | None, str]:
    """The source with all samples on the device if they fit there, and a note on what was decided."""
    size = source.nbytes()
    if recipe.where == "loader" or size is None:
        why = "where=loader" if recipe.where == "loader" else "fetched one by one"
        return None, f"data: {len(source):,} samples from a loader with {recipe.workers} workers ({why})"
    if device.type == "cuda" and recipe.where == "auto":
        free = torch.cuda.mem_get_info(device)[0]
        if size > free * SHARE:
            too_large = f"{size / 1e9:.1f} GB is too much for {free / 1e9:.1f} GB free on {device}"
            return None, f"data: from a loader ({too_large})"
    return source.resident(device), f"data: {len(source):,} samples resident on {device} ({size / 1e6:.1f} MB)"


@final
class Batches:
    """The training batches of a run."""

    def __init__(
        self, splits: Splits, recipe: Recipe, device: torch.device, peers: Peers, in_step: bool = False
    ) -> None:
        self.splits, self.recipe, self.device, self.peers = splits, recipe, device, peers
        self.in_step = in_step  # Must all processes compute the same number of micro-batches?
        self.samples = len(splits.train)
        self.resident, self.note = place_data(splits.train, recipe, device)
        self.waited = 0.0  # Seconds spent waiting for data; its reader resets it
        self.labels = splits.train.labels() if recipe.balanced else None
        self._planned: dict[int, EpochOrder] = {}  # The last epoch
        self.steps_per_epoch = len(self.order(0))
        self._augment_generator = torch.Generator(device)
        self._loader: DataLoader[Batch] | None = None

    def windows(self, state: State) -> Iterator[Window]:
        """Without end, from where the state stands; the loop advances the state and decides when to stop."""
        if not self.steps_per_epoch or (self.recipe.balanced and self.labels is None):
            raise BadRecipe("There are no batches to train on: drop_last leaves none, or balanced=True has no labels.")
        while True:
            epoch, first = state.epoch, state.batch
            stream = self.stream(state)
            for number in range(first, self.steps_per_epoch):
                yield self.window(self.next_of(stream, epoch, number), number, self.order(epoch).size(number))
                if (state.epoch, state.batch) != (epoch, number + 1):
                    break  # the epoch is over, or the run went back to a checkpoint

    def stream(self, state: State) -> Iterator[Any]:
        """The batches from where the state stands to the end of the epoch, as they were fetched."""
        return self._gathered(state.epoch, state.batch) if self.resident is not None else self._loaded(state)

    def next_of(self, stream: Iterator[Any], epoch: int, number: int) -> Batch | None:
        """As the model gets it; the time of waiting for it is kept."""
        started = time.perf_counter()
        batch = self.prepare(next(stream), epoch, number)
        self.waited += time.perf_counter() - started
        return batch

    def order(self, epoch: int) -> EpochOrder:
        """The samples of each batch of an epoch."""
        plan = self._planned.get(epoch)
        if plan is None:
            plan = plan_epoch(self.recipe, self.splits.train, epoch, self.labels)
            if epoch and len(plan) != self.steps_per_epoch:
                raise BadRecipe(
                    f"The recipe's order returned {len(plan)} batches for epoch {epoch}, and {self.steps_per_epoch} "
                    "for epoch 0: return as many for each epoch, so that the length of the run is known."
                )
            self._planned = {epoch: plan}
        return plan

    def window(self, batch: Batch | None, number: int, samples: int) -> Window:
        """Of one optimizer step, from its batch as the model gets it."""
        micros = self.micros(batch) if batch else ()
        window = Window(micros, samples, ends_epoch=number == self.steps_per_epoch - 1)
        return self._with_idle(window) if self.in_step else window

    def _with_idle(self, window: Window) -> Window:
        """With as many micro-batches as rank 0 has, which has the most."""
        world, rank = self.peers.world, self.peers.rank
        most = len(self._sizes(-(-window.samples // world)))
        own = len(window.micros) if window.samples // world + (rank < window.samples % world) else 0
        filling = cut(window.micros[0], 0, IDLE, self.splits.shared)
        return window._replace(micros=[*window.micros[:own], *[filling] * (most - own)], idle=most - own)

    def close(self) -> None:
        """Shut the workers down: the garbage collector would take the queues before the workers, which would hang."""
        loader, self._loader = self._loader, None
        if loader is not None and loader.num_workers:
            shut_down_workers(loader)

    def keys(self, epoch: int, first: int) -> Iterator[_Key]:
        """This process's share of each batch from `first` to the end of the epoch."""
        order = self.order(epoch)
        for number in range(first, self.steps_per_epoch):
            yield _Key(mix_seed(self.recipe.seed, epoch, number, self.peers.rank), self._share(order, number))

    def _share(self, order: EpochOrder, number: int) -> Tensor:
        """This process's samples of a batch."""
        batch = order[number]
        share = batch.tensor_split(self.peers.world)[self.peers.rank] if self.peers.world > 1 else batch
        return share if len(share) or not self.in_step else batch[:IDLE]

    def batch_at(self, epoch: int, number: int) -> Batch | None:
        """Any batch of the run, bit-identical to the one that is trained on. None: this process has no sample of it."""
        return self.prepare(self.fetch(self._share(self.order(epoch), number), epoch, number), epoch, number)

    def fetch(self, numbers: Tensor, epoch: int, number: int) -> Any:
        """These samples on the device, as a loader would fetch them for this place of the run; None: there are none."""
        if self.resident is not None and len(numbers):
            return self.resident.fetch(numbers.to(self.device))
        key = _Key(mix_seed(self.recipe.seed, epoch, number, self.peers.rank), numbers)
        return moved(_KeyedDataset(self.splits.train, in_training_process=True)[key], self.device)

    def again(self, epoch: int, number: int) -> Batch:
        """A batch of a run in one process, which has a part in every batch."""
        if self.recipe.carry:
            raise NotByIndex("With carry=True a batch continues the one before it, so none can be tried alone.")
        batch = self.batch_at(epoch, number)
        assert batch is not None
        return batch

    def _gathered(self, epoch: int, first: int) -> Iterator[Batch | None]:
        assert self.resident is not None
        order = self.order(epoch).to(self.device)
        for number in range(first, self.steps_per_epoch):
            share = self._share(order, number)
            yield self.resident.fetch(share) if len(share) else None

    def _loaded(self, state: State) -> Iterator[Any]:
        if self._loader is None:
            sampler = _KeySampler(lambda: self.keys(state.epoch, state.batch))
            self._loader = _loader(self.splits.train, sampler, self.recipe, self.device, persistent=True)
        return _prefetched(self._loader, self.device) if self.device.type == "cuda" else iter(self._loader)

    def prepare(self, batch: Batch | TrueloopError | None, epoch: int, number: int) -> Batch | None:
        """Prepared and augmented, as the model gets it."""
        if batch is None:
            return None
        if isinstance(batch, TrueloopError):
            raise batch
        return prepared(batch, self.splits, self._augment_generator, (self.recipe.seed, epoch, number, self.peers.rank))

    def micros(self, batch: Batch) -> Sequence[Batch]:
        """As the recipe splits it."""
        if self.recipe.accumulate == 1:
            return (batch,)
        sizes = self._sizes(batch_size(batch, self.splits.shared))
        bounds = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
        return [cut(batch, low, high, self.splits.shared) for low, high in pairwise(bounds)]

    def _sizes(self, samples: int) -> list[int]:
        recipe = self.recipe
        if recipe.accumulate == 1:
            return [samples]
        return micro_batch_sizes(samples, self.peers.world, recipe.accumulate, recipe.batch)


def prepared(batch: Batch, splits: Splits, generator: torch.Generator, place: tuple[int, ...]) -> Batch:
    """As the model gets it: prepared, and augmented with draws that depend on its place in the run only."""
    inputs, targets = batch
    if splits.prepare is not None:
        inputs = splits.prepare(inputs)
    if splits.augment is not None:
        generator.manual_seed(mix_seed(*place, 1))
        if splits.augments_targets:
            inputs, targets = splits.augment(inputs, targets, generator)
        else:
            inputs = splits.augment(inputs, generator)
    return Batch(inputs, targets)


def _loader(
    source: Source, keys: Iterable[_Key], recipe: Recipe, device: torch.device, persistent: bool = False
) -> Any:
    workers = recipe.workers
    return DataLoader(
        _KeyedDataset(source, in_training_process=workers == 0),
        sampler=keys,
        batch_size=None,
        num_workers=workers,
        prefetch_factor=recipe.prefetch if workers else None,
        persistent_workers=persistent and workers > 0,
        collate_fn=_unchanged,
        pin_memory=recipe.pin and device.type == "cuda",
        worker_init_fn=ignore_signals if workers else None,
        generator=torch.Generator(),  # the loader draws a base seed: not from the training's random state
    )


def _unchanged(batch: Any) -> Any:
    """torch's own collate function would turn tuples into lists."""
    return batch


def _prefetched(batches: Iterable[Any], device: torch.device) -> Iterator[Any]:
    """On the device one batch early: copied on their own stream while the model computes."""
    copies = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    waiting: list[Any] = []
    for batch in batches:
        with torch.cuda.stream(copies):
            coming = moved(batch, device, non_blocking=True)
        if waiting:
            yield waiting.pop()
        torch.cuda.current_stream(device).wait_stream(copies)
        for tensor in tensors_in(coming):
            # Allocated on one stream and used on another: its memory must not be reused before that use has ended.
            tensor.record_stream(torch.cuda.current_stream(device))
        waiting.append(coming)
    yield from waiting


@final
class EvaluationBatches:
    """All samples of a split once, in their own order; each process has its share. Can be iterated repeatedly.
    The samples are moved to the device once; a loader's workers start and stop with each evaluation."""

    def __init__(self, source: Source, splits: Splits, recipe: Recipe, device: torch.device, peers: Peers) -> None:
        self.source, self.splits, self.recipe, self.device, self.peers = source, splits, recipe, device, peers
        self.resident = place_data(source, recipe, device)[0] if source.by_index else None
        micro = -(-recipe.batch // (peers.world * recipe.accumulate))
        numbers = MANY_AT_ONCE * micro * math.prod(splits.facts.inputs or (FEW_NUMBERS,))
        many = recipe.program == "cuda_graphs" and recipe.task != "language" and numbers <= FEW_NUMBERS
        at_once = 1 if recipe.loss is not None else MANY_AT_ONCE if many else EVALUATED_AT_ONCE
        # A loss of the user's own may depend on the size of the batch: in-batch negatives.
        self.batch = at_once * micro if recipe.evaluation_batch is None else -(-recipe.evaluation_batch // peers.world)
        self._own = torch.arange(len(source) if source.by_index else 0)
        if recipe.carry:  # a row continues that row of the batch before, so a process has the same rows of all batches
            low, high = share_of(rows_at_once(source, recipe), peers)
            self._own, self.batch = (
                self._own.view(-1, rows_at_once(source, recipe))[:, low:high].reshape(-1),
                high - low,
            )
        else:
            self._own = self._own.tensor_split(peers.world)[peers.rank]
        if isinstance(source, LoaderStream) and peers.world > 1 and source.per_process:
            raise BadRecipe(
                "The loader of the evaluation data has a DistributedSampler, which repeats samples so that all "
                "processes have equally many: metrics would count them twice. Nothing was trained: leave the sampler "
                "out, each process evaluates its share of the batches."
            )
        self._checked = False

    def keys(self) -> Iterator[_Key]:
        own = self._own
        for number, numbers in enumerate(torch.split(own, self.batch) if len(own) else ()):
            yield _Key(mix_seed(self.recipe.seed, number, self.peers.rank, 3), numbers)

    def __iter__(self) -> Iterator[Batch]:
        for fetched in self._fetched() if self.source.by_index else self._read():
            yield self._prepared(fetched)

    def _read(self) -> Iterator[Batch]:
        """From a loader: each process takes every n-th batch."""
        assert isinstance(self.source, LoaderStream)
        for number, given in enumerate(self.source.evaluation_pass()):
            if self.peers.world > 1 and not self._checked:
                check_same_batch(given, f"the {self.source.name} of the evaluation data", self.peers)
                self._checked = True
            if number % self.peers.world == self.peers.rank:
                yield moved(as_batch(given, "The loader of the evaluation data"), self.device)

    def idle(self) -> Iterator[Batch]:
        """As many batches as this process has fewer than the process with the most."""
        if not self.source.by_index:
            raise BadRecipe("A loader as evaluation data cannot be shared by sharded processes: return its dataset.")
        samples, world, rank = len(self.source), self.peers.world, self.peers.rank
        own, most = samples // world + (rank < samples % world), math.ceil(samples / world)
        key = _Key(mix_seed(self.recipe.seed, rank, 4), torch.arange(min(IDLE, samples)))
        for _ in range(math.ceil(most / self.batch) - math.ceil(own / self.batch)):
            fetched = _KeyedDataset(self.source, in_training_process=True)[key]
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
        loader = _loader(self.source, _KeySampler(self.keys), self.recipe, self.device)
        for batch in _prefetched(loader, self.device) if self.device.type == "cuda" else loader:
            if isinstance(batch, TrueloopError):
                raise batch
            yield moved(batch, self.device)
