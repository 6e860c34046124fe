"""program=cuda_graphs: several optimizer steps at once, recorded as CUDA graphs before the first step, then replayed
without Python in between.

The steps are those of `train.py`, in the same order, with the same dropout. What differs from step to step is in
tensors with fixed addresses: the sample numbers, the learning rate, and the results (loss, norm, whether the step was
skipped). The host fills them for a stretch of steps, replays it, and reads the results for the next row of metrics.
Data that are not on the device come from a loader: the batches of the next stretch are copied to the device on a stream
of their own while this one is replayed.

Steps that an observer looks at (the first ones, those of the layer statistics) are taken one by one.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, final

import torch
from torch import Tensor

from trueloop.data.source import Batch
from trueloop.engine.batches import Batches, Window
from trueloop.engine.call_model import call_model
from trueloop.engine.compile_model import compile_model
from trueloop.engine.nonfinite_guard import clear_gradients
from trueloop.engine.parts import Parts
from trueloop.engine.programs.device_update import DeviceUpdate
from trueloop.engine.programs.eager import Eager, refuse_own_form
from trueloop.engine.programs.graph_recorder import CudaGraphRecorder, GraphRecorder, Work
from trueloop.engine.programs.program import Program
from trueloop.engine.row_schedule import row_interval
from trueloop.engine.schedule import set_rate
from trueloop.engine.state import State
from trueloop.errors import BadRecipe
from trueloop.measure.randomness import fence
from trueloop.parallel.gradient import clip, norm_of
from trueloop.torch_private.dispatch import pytree

__all__ = ["CudaGraphs", "DeviceOrders", "replay_lengths"]

ROUNDING: Final = 1e-4  # largest relative difference of a replayed loss: kernels may differ while recording
_FIX: Final = "Nothing was trained: set program=eager."


@dataclass(slots=True)
class _Slots:
    """What a stretch of steps reads and writes: one row, or one number, per step."""

    numbers: Tensor
    inputs: Any  # Prepared batches, where they are not gathered inside the graph
    targets: Any
    rates: Tensor
    ema_weights: Tensor  # The share of the weights in their moving average
    hold: Tensor  # 1: no step changes the weights
    losses: Tensor
    norms: Tensor
    skipped: Tensor
    replay: Work


@final
class CudaGraphs(Program):
    """Replays the steps of a run."""

    replays = True

    def __init__(self, parts: Parts, state: State, recorder: GraphRecorder | None = None) -> None:
        self.parts, self.state = parts, state
        self.recorder = recorder or CudaGraphRecorder(parts.device)
        if parts.peers.world > 1:
            raise BadRecipe(f"program=cuda_graphs needs one process, and there are {parts.peers.world}. {_FIX}")
        if not isinstance(parts.batches, Batches):
            raise BadRecipe(
                f"program=cuda_graphs needs samples that are fetched by number ({parts.batches.note}). {_FIX}"
            )
        self.batches = parts.batches
        self.loads = parts.batches.resident is None
        # not with augmentation, which seeds each batch
        self.gathers_inside = not self.loads and parts.splits.augment is None
        self.update = DeviceUpdate(parts.optimizer, parts.guard.fused_step, compiled=parts.recipe.compile != "off")
        # steps of the recordings, rising from 1
        self.lengths = replay_lengths(parts.recipe.steps_per_replay, row_interval(parts.recipe.log_every))
        self._rates = torch.zeros(0)
        self._recorded: dict[tuple[int, int], _Slots] = {}
        self._rows: dict[int, Batch] = {}  # by samples of a batch: batches of the longest replay
        self._optimizer_state: Any = None
        self._orders = DeviceOrders(self._order, parts.device)
        self._loss: Callable[..., Tensor] = self._compiled(self._loss_of)
        self._forward = self._compiled(parts.model)
        self._eager = Eager(parts, state)

    def backward(self, micro: Batch, divisor: int | float | Tensor, *, observed: bool = False) -> Tensor:
        """Of a step that is not replayed."""
        return self._eager.backward(micro, divisor)

    # -- what is recorded --

    def _loss_of(self, numbers: Tensor | None, batch: Batch | None, samples: int) -> Tensor:
        """The loss of a step without micro-batches, from the numbers of its samples or from the batch."""
        batch = batch or self._gathered(numbers)
        counted = self.parts.count_targets(Window((batch,), samples, False))
        return self.parts.task.loss_sum(call_model(self.parts.model, batch.inputs), batch.targets) / counted

    def _gathered(self, numbers: Tensor | None) -> Batch:
        resident, prepare = self.parts.batches.resident, self.parts.splits.prepare
        assert resident is not None
        assert numbers is not None
        batch = resident.fetch(numbers)
        return batch if prepare is None else Batch(prepare(batch.inputs), batch.targets)

    def _compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Separately for each size, unless the recipe says otherwise: the batch, and the rest of an epoch."""
        recipe = self.parts.recipe
        dynamic = False if recipe.compile_dynamic is None else recipe.compile_dynamic
        called: Callable[..., Any] = compile_model(replace(recipe, compile_dynamic=dynamic), function)
        return called

    def _backward(self, slots: _Slots, step: int, samples: int) -> Tensor:
        parts = self.parts
        batch = None if self.gathers_inside else Batch(_row(slots.inputs, step), _row(slots.targets, step))
        numbers = slots.numbers[step] if self.gathers_inside else None
        if parts.recipe.accumulate == 1:
            with parts.precision.autocast():
                loss: Tensor = self._loss(numbers, batch, samples)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss.detach()
        micros = parts.batches.micros(batch or self._gathered(numbers))
        targets, losses = parts.count_targets(Window(micros, samples, False)), []
        for micro in micros:
            with parts.precision.autocast():
                output = call_model(self._forward, micro.inputs, parts.model)
                loss = parts.task.loss_sum(output, micro.targets) / targets
            loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
        return torch.stack(losses).sum()

    def _step(self, slots: _Slots, step: int, samples: int) -> None:
        """One optimizer step: that of `train.py`, with everything that changes in tensors."""
        parts = self.parts
        clear_gradients(parts.parameters)
        loss = self._backward(slots, step, samples)
        norm = norm_of(parts.parameters)
        if parts.recipe.clip is not None:
            clip(parts.parameters, norm, parts.recipe.clip)
        nonfinite = ~torch.isfinite(loss + norm)
        skipped = torch.maximum(nonfinite.to(slots.hold.dtype), slots.hold)
        slots.losses[step].copy_(loss.masked_fill(nonfinite, 0.0))
        slots.norms[step].copy_(norm)
        slots.skipped[step].copy_(skipped)
        self.update.step(slots.rates[step], skipped)
        if parts.ema is not None:
            parts.ema.follow_by(slots.ema_weights[step])

    # -- recording --

    def prepare(self) -> None:
        parts, recipe = self.parts, self.parts.recipe
        self._rates = torch.tensor([parts.schedule(step) for step in range(parts.total_steps)], device=parts.device)
        self._recorded.clear()
        self._rows.clear()
        refuse_own_form(parts, self._batch(0, 0, self._numbers(0, 0, 1)[0]))
        self.update.create_state(torch.ones((), device=parts.device))
        parts.guard.buffers.ignore_versions()
        sizes: dict[int, tuple[int, ...]] = {recipe.batch: self.lengths}
        rest = parts.batches.samples % recipe.batch
        if rest and not recipe.drop_last:
            sizes[rest] = (1,)
        if parts.batches.samples < recipe.batch:
            del sizes[recipe.batch]
        for samples, lengths in sizes.items():
            for steps in lengths:
                self._recorded[steps, samples] = self._record(steps, samples)
        self._optimizer_state = parts.optimizer.state

    def _record(self, steps: int, samples: int) -> _Slots:
        slots = self._slots(steps, self._numbers(0, 0, samples).repeat(steps, 1))

        def work() -> None:
            for step in range(steps):
                self._step(slots, step, samples)

        try:
            with fence(), self._buffers_preserved():
                if steps == 1:
                    self.recorder.warm_up(work)
                slots.replay = self.recorder.record(work)
            self._check(slots, lambda: self._step(slots, 0, samples))
        except RuntimeError as error:
            raise BadRecipe(_refusal(error)) from error
        finally:
            clear_gradients(self.parts.parameters)
        slots.hold.zero_()
        return slots

    def _slots(self, steps: int, numbers: Tensor) -> _Slots:
        rates, weights, losses, norms, skipped = (torch.zeros(steps, device=self.parts.device) for _ in range(5))
        inputs, targets = (None, None) if self.gathers_inside else self._first_rows(steps, numbers[0])
        hold = torch.ones((), device=self.parts.device)
        return _Slots(numbers.clone(), inputs, targets, rates, weights, hold, losses, norms, skipped, _nothing)

    def _first_rows(self, steps: int, numbers: Tensor) -> Batch:
        """All recordings of one batch size read the same memory."""
        samples = len(numbers)
        if samples not in self._rows:
            batch, longest = self._batch(0, 0, numbers), self.lengths[-1] if samples == self.parts.recipe.batch else 1
            if not all(isinstance(each, Tensor) for each in pytree.tree_leaves(tuple(batch))):
                raise BadRecipe(f"program=cuda_graphs needs batches of tensors only. {_FIX}")
            self._rows[samples] = Batch(
                *(pytree.tree_map(lambda each: torch.stack([each] * longest), part) for part in batch)
            )
        return Batch(*(pytree.tree_map(lambda each: each[:steps], part) for part in self._rows[samples]))

    @contextmanager
    def _buffers_preserved(self) -> Iterator[None]:
        with self.parts.guard.buffers.preserved():
            yield
        if self.parts.ema is not None:
            self.parts.ema.copy_buffers()

    def _check(self, slots: _Slots, compute: Work) -> None:
        """The first step of the slots, replayed and computed, must agree; both are held back from the weights."""
        found: list[tuple[float, float]] = []
        for work in (slots.replay, compute):
            with fence(), self._buffers_preserved():
                work()
                found.append((slots.losses[0].item(), slots.norms[0].item()))
        replayed, plain = found
        if any(abs(a - b) > ROUNDING * max(abs(a), abs(b)) for a, b in zip(replayed, plain, strict=True)):
            raise BadRecipe(
                f"program=cuda_graphs: replayed as a CUDA graph, the first batch has loss {replayed[0]:.6g} and "
                f"gradient norm {replayed[1]:.6g}; computed, {plain[0]:.6g} and {plain[1]:.6g}. The model does "
                f"something that a CUDA graph cannot record (its own random numbers, a counter in Python). {_FIX}"
            )

    # -- replaying --

    def windows(self, next_look: Callable[[], int]) -> Iterator[Window]:
        """Windows that can be replayed are stretches of several steps, given by the numbers of their samples."""
        parts, state, stream, expected = self.parts, self.state, iter(()), None
        while True:
            epoch, batch = place = state.epoch, state.batch
            if self.loads and place != expected:
                stream = self.batches.stream(state)  # an epoch begins, or the run went back to a checkpoint
            samples = min(parts.recipe.batch, parts.batches.samples - batch * parts.recipe.batch)
            steps = self.steps_to_replay(samples, next_look())
            numbers = self._numbers(epoch, batch, samples, max(steps, 1))
            loaded = [self._next(stream, epoch, batch + step) for step in range(len(numbers))] if self.loads else []
            expected = (epoch, batch + len(numbers))
            if steps == 0:
                taken = loaded[0] if loaded else self._batch(epoch, batch, numbers[0])
                yield self.batches.window(taken, batch, samples)
                continue
            ends_epoch = batch + steps == parts.batches.steps_per_epoch
            yield Window((), steps * samples, ends_epoch, numbers, loaded)

    def _next(self, stream: Iterator[Any], epoch: int, number: int) -> Batch:
        batch = self.batches.next_of(stream, epoch, number)
        assert batch is not None  # one process has a part in every batch
        return batch

    def steps_to_replay(self, samples: int, next_look: int) -> int:
        """How many steps can be replayed with nothing to do in between; 0: an observer looks at the next one."""
        parts, state, recipe, guard = self.parts, self.state, self.parts.recipe, self.parts.guard
        if state.step >= next_look or (state.epoch, state.batch) in guard.avoided:
            return 0
        if samples < recipe.batch:
            return 1
        avoided = [batch for epoch, batch in guard.avoided if epoch == state.epoch and batch > state.batch]
        intervals = (row_interval(recipe.log_every), recipe.evaluate_every, recipe.save_every)
        ends = [next_look - state.step, parts.total_steps - state.step, guard.room]
        ends += [batch - state.batch for batch in (parts.batches.samples // recipe.batch, *avoided)]
        ends += [every - state.step % every for every in intervals if every]
        return max(steps for steps in self.lengths if steps <= min(ends))

    def take(self, window: Window) -> tuple[Tensor, bool, bool]:
        """The loop advances the counters; the guard gets the outcome here."""
        parts, state = self.parts, self.state
        assert window.numbers is not None
        if self._optimizer_state is not parts.optimizer.state:
            self.prepare()  # the run went back to a checkpoint, so the optimizer has new tensors
        steps, samples = window.numbers.shape
        slots = self._recorded[steps, samples]
        if self.gathers_inside:
            slots.numbers.copy_(window.numbers)
        else:
            for step in range(steps):
                number = state.batch + step
                batch = window.loaded[step] if self.loads else self._batch(state.epoch, number, window.numbers[step])
                _fill(Batch(_row(slots.inputs, step), _row(slots.targets, step)), batch, (state.epoch, number))
        rates = self._rates[state.clock : state.clock + steps]
        slots.rates.copy_(rates if state.plateau_factor == 1.0 else rates * state.plateau_factor)
        if parts.ema is not None:
            slots.ema_weights.copy_(torch.tensor([1 - parts.ema.decay_at(state.step + step) for step in range(steps)]))
        slots.replay()
        if not self.loads:
            self._orders.prepare(state.epoch + 1)
        positions = [(state.epoch, state.batch + step) for step in range(steps)]
        parts.guard.add_replayed(slots.losses, slots.skipped, positions)
        set_rate(parts.optimizer, parts.schedule(state.clock + steps - 1) * state.plateau_factor)
        return slots.norms[-1], True, False

    def _batch(self, epoch: int, number: int, numbers: Tensor) -> Batch:
        """Of these samples, as the model gets it."""
        batch = self.batches.prepare(self.batches.fetch(numbers, epoch, number), epoch, number)
        assert batch is not None
        return batch

    def _numbers(self, epoch: int, first: int, samples: int, steps: int = 1) -> Tensor:
        """The samples of these steps, [steps, samples]: on the device if the data are."""
        start, order = first * self.parts.recipe.batch, self._order(epoch) if self.loads else self._orders.of(epoch)
        return order[start : start + steps * samples].view(steps, samples)

    def _order(self, epoch: int) -> Tensor:
        return self.batches.order(epoch).numbers


def replay_lengths(most: int, log_every: int) -> tuple[int, ...]:
    """Steps recorded at once: `most`, or fewer if that fills the interval of two metrics rows; and its halves to 1."""
    filling = max(steps for steps in range(1, most + 1) if log_every % steps == 0)
    longest = filling if 2 * filling > most else most
    halves = [longest >> times for times in range(longest.bit_length())]
    return tuple(reversed(halves))


def _refusal(error: BaseException) -> str:
    first: BaseException = error
    while isinstance(first.__context__, RuntimeError):
        first = first.__context__  # what broke the recording, not the error from ending it
    reason = next((line.strip() for line in str(first).splitlines() if line.strip()), type(first).__name__)
    return (
        f"program=cuda_graphs: these steps cannot be recorded as a CUDA graph: {reason.rstrip('.')}. A CUDA graph "
        "holds device work only: no .item(), no `if` on a tensor, no copy to or from the host in the model, the loss "
        f"or the data. {_FIX}"
    )


def _nothing() -> None:
    """Before anything is recorded."""


def _row(values: Any, number: int) -> Any:
    """The same row of every tensor inside."""
    return pytree.tree_map(lambda each: each[number], values)


def _fill(rows: Batch, batch: Batch, place: tuple[int, int]) -> None:
    """Copy a batch to where a recording reads it."""
    into, values = (pytree.tree_leaves(tuple(each)) for each in (rows, batch))
    shapes = [[tuple(getattr(each, "shape", ())) for each in leaves] for leaves in (into, values)]
    if shapes[0] != shapes[1]:
        raise BadRecipe(
            f"program=cuda_graphs replays batches of one shape: the first one has tensors of {shapes[0]}, batch "
            f"{place[1]} of epoch {place[0]} of {shapes[1]}. It was not trained on: pad all batches to one length, or "
            "set program=eager."
        )
    for row, value in zip(into, values, strict=True):
        row.copy_(value, non_blocking=True)


@final
class DeviceOrders:
    """The order of the samples on the device, of one epoch and the next. A thread computes the next epoch's order while
    this one is trained; earlier ones are dropped, and computed again if the run goes back."""

    def __init__(self, order_of: Callable[[int], Tensor], device: torch.device) -> None:
        self._order_of, self.device = order_of, device
        self._ready: dict[int, Tensor] = {}
        self._coming: dict[int, Future[Tensor]] = {}

    def of(self, epoch: int) -> Tensor:
        """Waits for the thread if it is still computing this one; not for the device."""
        if epoch not in self._ready:
            coming = self._coming.pop(epoch, None)
            order = self._computed(epoch) if coming is None else coming.result()
            self._ready = {known: kept for known, kept in self._ready.items() if known == epoch - 1}
            self._ready[epoch] = order.to(self.device, non_blocking=True)
        return self._ready[epoch]

    def prepare(self, epoch: int) -> None:
        """Start computing it."""
        if epoch in self._ready or epoch in self._coming:
            return
        thread = ThreadPoolExecutor(1, thread_name_prefix="trueloop-order")
        self._coming = {epoch: thread.submit(self._computed, epoch)}
        thread.shutdown(wait=False)  # it ends when the order is computed

    def _computed(self, epoch: int) -> Tensor:
        order = self._order_of(epoch)
        return order.pin_memory() if self.device.type == "cuda" else order  # so that its copy does not block the host
