"""The windows of a run whose batches come from a stream, one after another (`data/stream.py`).

No batch can be made twice: `batch_at` is None, and what needs samples by index raises NotByIndex.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

import torch

from trueloop.checkpoint.snapshot import Snapshot
from trueloop.data.cut import batch_size, cut
from trueloop.data.source import Batch, Source, Splits, moved, tensors_in
from trueloop.data.stream import Stream, as_batch
from trueloop.engine.batches import IDLE, Window, prepared
from trueloop.engine.sample_order import micro_batch_sizes
from trueloop.engine.state import State
from trueloop.engine.stream_shares import OwnBatches, check_same_batch, share_of
from trueloop.errors import BadData, BadRecipe, CannotSave, NotByIndex
from trueloop.parallel.peers import Peers
from trueloop.recipe.recipe import Recipe, defaults

if TYPE_CHECKING:
    from trueloop.engine.loop import Loop

__all__ = ["StreamBatches", "with_batch_of"]

CHECK_EVERY: Final = 100  # Steps between two checks that all processes have read the same batch


def with_batch_of(stream: Source, recipe: Recipe, world: int) -> Recipe:
    """The recipe with the batch size of a loader, which has its own."""
    size = stream.samples_per_batch if isinstance(stream, Stream) else None
    world = world if isinstance(stream, Stream) and stream.per_process else 1
    if size is None or size * world == recipe.batch:
        return recipe
    if recipe.batch != defaults()["batch"]:
        each = "" if world == 1 else f" on each of {world} processes, {size * world} in all"
        raise BadRecipe(
            f"The recipe has batch={recipe.batch}, and its loader gives batches of {size}{each}. Nothing was trained: "
            f"leave batch out, or set batch={size * world}."
        )
    if recipe.accumulate > size:
        raise BadRecipe(f"A batch of {size} cannot be split into accumulate={recipe.accumulate} micro-batches.")
    return replace(recipe, batch=size * world)


@final
class StreamBatches:
    """The training batches of a run, from a stream. Each process has one: see `stream_shares.py`."""

    def __init__(
        self, stream: Stream, splits: Splits, recipe: Recipe, device: torch.device, peers: Peers, in_step: bool = False
    ) -> None:
        self.stream, self.splits, self.recipe, self.device, self.peers = stream, splits, recipe, device, peers
        self.in_step = in_step
        self.loop: Loop | None = None  # What the stream is given; the loop sets it
        self.resident: Source | None = None
        self.samples = 0  # How many there are is not known
        self.waited = 0.0  # Seconds spent waiting for data; its reader resets it
        self.note = stream.note
        self._augment_generator = torch.Generator(device)
        self.steps_per_epoch = self._steps_per_epoch()
        if recipe.order != "shuffled" or recipe.balanced:
            which = "balanced" if recipe.balanced else "order"
            raise BadRecipe(
                f"The recipe sets {which}, and {stream.name} gives its batches in an order of its own. Nothing was "
                f"trained: leave {which} out, or return a dataset of samples by index."
            )
        self.cut = peers.world > 1 and not stream.per_process  # Do all read each batch, and take a share of it?
        self._own = OwnBatches(stream.name, peers)
        self._checked = False
        if self.cut:
            self.note += f"; each of {peers.world} processes reads every batch and takes its share of it"

    def _steps_per_epoch(self) -> int:
        given = self.stream.steps_per_epoch
        if given is None and self.recipe.steps is None:
            raise BadRecipe(
                f"How many batches {self.stream.name} gives in an epoch is unknown. Nothing was trained: "
                "set steps, as in Recipe(steps=10_000, epochs=None), or give the stream `steps_per_epoch`."
            )
        if given is not None and (not isinstance(given, int) or given < 1):
            raise BadRecipe(f"{self.stream.name}.steps_per_epoch is {given!r}: it is a number of batches, at least 1.")
        return given or self.recipe.steps or 1

    def windows(self, state: State) -> Iterator[Window]:
        """Without end, from where the stream stands; the loop advances the state and decides when to stop."""
        if self.loop is None:
            self._refuse()
        self._check_state()
        while True:
            started = time.perf_counter()
            given = self.stream.next(self.loop)
            self._check(given, state)
            batch, samples, idle = self._batch(given, state.epoch, state.batch)
            self.waited += time.perf_counter() - started
            ends_epoch = state.batch >= self.steps_per_epoch - 1
            yield Window(() if batch is None else self.micros(batch), samples, ends_epoch, idle=idle)

    def _check(self, given: Any, state: State) -> None:
        # By the counters of the run, which are the same in all processes: they must call this together.
        if not self.cut:
            self._own.check(given)
        elif not self._checked or state.batch == 0 or state.step % CHECK_EVERY == 0:
            check_same_batch(given, f"the {self.stream.name} of the training data", self.peers)
            self._checked = True

    def _size(self, batch: Any) -> int:
        held = isinstance(batch, Batch) or any(each.dim() for each in tensors_in(batch))
        return batch_size(batch, self.splits.shared) if held else self.recipe.batch

    def _batch(self, given: Any, epoch: int, number: int) -> tuple[Any, int, int]:
        """This process's batch (None: it has no sample), the samples of all processes, and 1 if this one's only keep it
        busy. A step of one's own gets what the stream gave; a pair is a `Batch`, which is a pair too."""
        is_pair = isinstance(given, Batch) or (type(given) in (tuple, list) and len(given) == 2)
        if self.recipe.step is not None and not is_pair:
            if self.splits.prepare is not None or self.splits.augment is not None:
                said = f"prepare and augment change the inputs of (inputs, targets), and {self.stream.name} gave a"
                raise BadData(f"{said} {type(given).__name__}: call them in next(), and leave them out of Splits.")
            batch = given
        else:
            batch = as_batch(given, f"The {self.stream.name} of the training data")
        batch, samples, idle = self._shared(batch) if self.cut else (batch, self._size(batch) * self.peers.world, 0)
        batch = moved(batch, self.device, non_blocking=self.recipe.pin)
        if isinstance(batch, Batch):
            place = (self.recipe.seed, epoch, number, self.peers.rank)
            batch = prepared(batch, self.splits, self._augment_generator, place)
        return batch, samples, idle

    def _shared(self, batch: Any) -> tuple[Any, int, int]:
        """The same for a batch of which each process takes its share."""
        shared = self.splits.shared
        samples = batch_size(batch, shared)
        low, high = share_of(samples, self.peers)
        if low < high:
            return cut(batch, low, high, shared), samples, 0
        return (cut(batch, 0, IDLE, shared), samples, 1) if self.in_step else (None, samples, 0)

    def _check_state(self) -> None:
        """Before the first step, not at the first checkpoint."""
        try:
            Snapshot().of(self.stream.state_dict(), f"{self.stream.name}.state_dict()")
        except CannotSave as error:
            raise BadData(f"{error} Nothing was trained.") from None

    def micros(self, batch: Batch) -> Sequence[Batch]:
        """As the recipe splits it."""
        count, shared = self.recipe.accumulate, self.splits.shared
        if count == 1:
            return (batch,)
        samples = batch_size(batch, shared)
        sizes = micro_batch_sizes(samples, 1, count, max(samples, self.recipe.batch // self.peers.world))
        if self.in_step and len(sizes) != count:
            raise BadData(f"A batch of {samples} cannot be split into accumulate={count} on every process.")
        bounds = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
        return [cut(batch, low, high, shared) for low, high in pairwise(bounds)]

    def state_dict(self) -> list[Any]:
        """Of all processes. They call this together."""
        return self.peers.gather(self.stream.state_dict())

    def load_state_dict(self, states: list[Any]) -> None:
        if len(states) != self.peers.world:
            raise BadRecipe(
                f"{len(states)} processes saved the states of their streams, and {self.peers.world} resume them. "
                f"Nothing was run: resume with {len(states)}."
            )
        self.stream.load_state_dict(states[self.peers.rank])

    def close(self) -> None:
        self.stream.close()

    def batch_at(self, epoch: int, number: int) -> Batch | None:
        """None: a batch that was given cannot be made again."""
        return None

    def again(self, epoch: int, number: int) -> NoReturn:
        self._refuse()

    def keys(self, epoch: int, first: int) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise NotByIndex(
            f"The training data come from {self.stream.name}, one batch after another: none can be made twice."
        )
