"""Several optimizer steps at once: recorded as CUDA graphs before the first step, then played with no Python in
between.

The same steps as in `train.py`, in the same order, with the same draws of dropout. What differs from step to step is in
tensors that stay where they are: the numbers of the samples, the rate, and what comes out (loss, norm, whether the step
was held back). The host puts a stretch of steps in, plays it, and asks for what came out at the next line of metrics.

Steps that somebody wants to look into (the first ones, those of the statistics of layers) are taken one by one, as
ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, final

import torch
from torch import Tensor

from trueloop.data.source import Batch
from trueloop.engine.batches import Window
from trueloop.engine.compile_model import compile_model
from trueloop.engine.nonfinite_guard import clear_gradients, clip, norm_of
from trueloop.engine.programs.device_order import DeviceOrders
from trueloop.engine.programs.device_update import DeviceUpdate
from trueloop.engine.programs.graph_recorder import CudaGraphRecorder, GraphRecorder, Work
from trueloop.engine.sample_order import epoch_order
from trueloop.engine.schedule import set_rate
from trueloop.errors import BadRecipe
from trueloop.measure.randomness import fence

if TYPE_CHECKING:
    from trueloop.engine.loop import Loop

__all__ = ["Graphs", "lengths_of"]

ROUNDING: Final = 1e-4
"""How far the played loss may lie from the computed one, as a share: kernels may be chosen anew while they are
recorded; what is wrong is wrong by more."""


@dataclass(slots=True)
class _Slots:
    """What a stretch of steps reads and writes: one row, or one number, for each step."""

    numbers: Tensor
    inputs: Any
    """Prepared batches, where they are not gathered inside."""
    targets: Any
    rates: Tensor
    shares: Tensor
    """Of the weights in their moving average."""
    hold: Tensor
    """1: the weights stay as they are, whatever comes."""
    losses: Tensor
    norms: Tensor
    held: Tensor
    play: Work


@final
class Graphs:
    """Plays the steps of a loop."""

    def __init__(self, loop: Loop, recorder: GraphRecorder | None = None) -> None:
        self.loop = loop
        self.recorder = recorder or CudaGraphRecorder(loop.device)
        self.inside = loop.splits.augment is None
        """Are batches gathered inside? Not where each is changed by draws of its own seed."""
        if loop.peers.world > 1:
            raise BadRecipe(
                "program=cuda_graphs trains in one process, and there are several. Nothing was trained: give program=eager."
            )
        if loop.batches.resident is None:
            raise BadRecipe(
                f"program=cuda_graphs gathers its batches on the device, and they are not there ({loop.batches.note}). Nothing was trained: "
                "give program=eager."
            )
        self.update = DeviceUpdate(loop.optimizer, loop.guard.direct, compiled=loop.recipe.compile != "off")
        self.lengths = lengths_of(loop.recipe.steps_per_replay, loop.recipe.log_every)
        """Steps of the recordings, rising from 1."""
        self._rates = torch.zeros(0)
        self._recorded: dict[tuple[int, int], _Slots] = {}
        self._state: Any = None
        self._orders = DeviceOrders(self._order, loop.device)
        self._loss: Callable[..., Tensor] = self._compiled(self._loss_of)
        self._forward = self._compiled(loop.model)

    # -- what is played --

    def _loss_of(self, numbers: Tensor | None, batch: Batch | None, samples: int) -> Tensor:
        """The loss of a whole step in one piece, from the numbers of its samples or from the batch."""
        batch = batch or self._gathered(numbers)
        counted = self.loop.count_targets(Window((batch,), samples, False))
        return self.loop.task.loss_sum(self.loop.model(batch.inputs), batch.targets) / counted

    def _gathered(self, numbers: Tensor | None) -> Batch:
        home, prepare = self.loop.batches.resident, self.loop.splits.prepare
        assert home is not None
        assert numbers is not None
        batch = home.fetch(numbers)
        return batch if prepare is None else Batch(prepare(batch.inputs), batch.targets)

    def _compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """For each size anew, unless the recipe wants it otherwise: there are two, the batch and what is left of an
        epoch."""
        recipe = self.loop.recipe
        dynamic = False if recipe.compile_dynamic is None else recipe.compile_dynamic
        called: Callable[..., Any] = compile_model(replace(recipe, compile_dynamic=dynamic), function)
        return called

    def _backward(self, slots: _Slots, number: int, samples: int) -> Tensor:
        loop = self.loop
        given = None if self.inside else Batch(_row(slots.inputs, number), _row(slots.targets, number))
        numbers = slots.numbers[number] if self.inside else None
        if loop.recipe.accumulate == 1:
            with loop.precision.autocast():
                loss: Tensor = self._loss(numbers, given, samples)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss.detach()
        micros = loop.batches.micros(given or self._gathered(numbers))
        targets, losses = loop.count_targets(Window(micros, samples, False)), []
        for micro in micros:
            with loop.precision.autocast():
                loss = loop.task.loss_sum(self._forward(micro.inputs), micro.targets) / targets
            loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
        return torch.stack(losses).sum()

    def _step(self, slots: _Slots, number: int, samples: int) -> None:
        """One optimizer step: `train.py`'s, with everything that changes in tensors."""
        loop = self.loop
        clear_gradients(loop.parameters)
        loss = self._backward(slots, number, samples)
        norm = norm_of(loop.parameters)
        if loop.recipe.clip is not None:
            clip(loop.parameters, norm, loop.recipe.clip)
        bad = ~torch.isfinite(loss + norm)
        held = torch.maximum(bad.to(slots.hold.dtype), slots.hold)
        slots.losses[number].copy_(loss.masked_fill(bad, 0.0))
        slots.norms[number].copy_(norm)
        slots.held[number].copy_(held)
        self.update.step(slots.rates[number], held)
        if loop.ema is not None:
            loop.ema.follow_by(slots.shares[number])

    # -- recording --

    def record(self) -> None:
        """Before the first step. Raises BadRecipe, with the reason, if these steps cannot be recorded. No number of the
        run is changed."""
        loop, recipe = self.loop, self.loop.recipe
        self._rates = torch.tensor([loop.schedule(step) for step in range(loop.total_steps)], device=loop.device)
        self._recorded.clear()
        self.update.prime(torch.ones((), device=loop.device))
        loop.guard.statistics.all_change()
        sizes: dict[int, tuple[int, ...]] = {recipe.batch: self.lengths}
        rest = loop.batches.samples % recipe.batch
        if rest and not recipe.drop_last:
            sizes[rest] = (1,)
        if loop.batches.samples < recipe.batch:
            del sizes[recipe.batch]
        for samples, lengths in sizes.items():
            for steps in lengths:
                self._recorded[steps, samples] = self._record(steps, samples)
        self._state = loop.optimizer.state

    def _record(self, steps: int, samples: int) -> _Slots:
        loop = self.loop
        numbers = self._numbers(0, 0, samples).repeat(steps, 1)
        slots = self._slots(steps, numbers)

        def work() -> None:
            for number in range(steps):
                self._step(slots, number, samples)

        try:
            with fence(), self._buffers_kept():
                if steps == 1:
                    self.recorder.warm_up(work)
                slots.play = self.recorder.record(work)
            self._prove(slots, lambda: self._step(slots, 0, samples))
        except RuntimeError as error:
            raise BadRecipe(self._refusal(error)) from error
        finally:
            clear_gradients(loop.parameters)
        slots.hold.zero_()
        return slots

    def _slots(self, steps: int, numbers: Tensor) -> _Slots:
        device = self.loop.device
        inputs = targets = None
        if not self.inside:
            ready = [self._ready(0, 0, numbers[0]) for _ in range(steps)]
            inputs, targets = _stacked([batch.inputs for batch in ready]), _stacked([batch.targets for batch in ready])
        return _Slots(
            numbers=numbers.clone(), inputs=inputs, targets=targets,
            rates=torch.zeros(steps, device=device), shares=torch.zeros(steps, device=device), hold=torch.ones((), device=device),
            losses=torch.zeros(steps, device=device), norms=torch.zeros(steps, device=device), held=torch.zeros(steps, device=device),
            play=_nothing,
        )  # fmt: skip

    @contextmanager
    def _buffers_kept(self) -> Iterator[None]:
        with self.loop.guard.statistics.kept():
            yield
        if self.loop.ema is not None:
            self.loop.ema.copy_buffers()

    def _prove(self, slots: _Slots, computed: Work) -> None:
        """What is played must be what is computed: the first step of the slots, held back, both ways."""
        with fence(), self._buffers_kept():
            slots.play()
            played = slots.losses[0].item(), slots.norms[0].item()
        with fence(), self._buffers_kept():
            computed()
            plain = slots.losses[0].item(), slots.norms[0].item()
        if any(abs(a - b) > ROUNDING * max(abs(a), abs(b)) for a, b in zip(played, plain, strict=True)):
            raise BadRecipe(
                f"program=cuda_graphs: played as a CUDA graph, the first batch has loss {played[0]:.6g} and gradient {played[1]:.6g}; "
                f"computed, {plain[0]:.6g} and {plain[1]:.6g}. The model does something that a graph cannot record (draws of its own, a "
                "counter in Python). Nothing was trained: give program=eager."
            )

    def _refusal(self, error: BaseException) -> str:
        first: BaseException = error
        while isinstance(first.__context__, RuntimeError):
            first = first.__context__  # what broke the recording, not what ending it said
        said = next((line.strip() for line in str(first).splitlines() if line.strip()), type(first).__name__)
        return (
            f"program=cuda_graphs: these steps cannot be recorded as a CUDA graph: {said.rstrip('.')}. A graph holds work of the device "
            "only: no .item(), no `if` on a tensor, no copy to or from the host in the model, the loss or the data. Nothing was trained: "
            "give program=eager."
        )

    # -- playing --

    def windows(self, next_look: Callable[[], int]) -> Iterator[Window]:
        """As `Batches.windows`, but those that can be played are stretches of several steps, named by the numbers of
        their samples."""
        loop, state = self.loop, self.loop.state
        self.record()
        while True:
            epoch, number = state.epoch, state.batch
            samples = min(loop.recipe.batch, loop.batches.samples - number * loop.recipe.batch)
            steps = self.length(samples, next_look())
            if steps == 0:
                yield loop.batches.window(self._numbers(epoch, number, samples)[0], epoch, number)
                continue
            yield Window(
                (),
                steps * samples,
                number + steps == loop.batches.steps_per_epoch,
                self._numbers(epoch, number, samples, steps),
            )

    def length(self, samples: int, next_look: int) -> int:
        """Steps that can be played from here with nothing to be done in between; 0: the next one is somebody's to look
        into."""
        loop, state, recipe = self.loop, self.loop.state, self.loop.recipe
        if state.step >= next_look or (state.epoch, state.batch) in loop.guard.avoided:
            return 0
        if samples < recipe.batch:
            return 1
        whole = loop.batches.samples // recipe.batch
        avoided = [batch for epoch, batch in loop.guard.avoided if epoch == state.epoch and batch > state.batch]
        intervals = (recipe.log_every, recipe.evaluate_every, recipe.save_every)
        ends = (
            next_look - state.step, loop.total_steps - state.step, whole - state.batch, loop.guard.room,
            *(batch - state.batch for batch in avoided), *(every - state.step % every for every in intervals if every),
        )  # fmt: skip
        return max(steps for steps in self.lengths if steps <= min(ends))

    def play(self, window: Window) -> Tensor:
        """The gradient's norm in the last of these steps. The counters are left to the loop, but for what the guard is
        told."""
        loop, state = self.loop, self.loop.state
        assert window.numbers is not None
        if self._state is not loop.optimizer.state:
            self.record()  # the run went back to a checkpoint: its optimizer has other tensors now
        steps, samples = window.numbers.shape
        slots = self._recorded[steps, samples]
        if self.inside:
            slots.numbers.copy_(window.numbers)
        else:
            for number in range(steps):
                batch = self._ready(state.epoch, state.batch + number, window.numbers[number])
                _fill(_row(slots.inputs, number), batch.inputs)
                _fill(_row(slots.targets, number), batch.targets)
        rates = self._rates[state.clock : state.clock + steps]
        slots.rates.copy_(rates if state.plateau_factor == 1.0 else rates * state.plateau_factor)
        if loop.ema is not None:
            slots.shares.copy_(torch.tensor([1 - loop.ema.decay_at(state.step + number) for number in range(steps)]))
        slots.play()
        self._orders.prepare(state.epoch + 1)
        loop.guard.played(slots.losses, slots.held, [(state.epoch, state.batch + number) for number in range(steps)])
        set_rate(loop.optimizer, loop.schedule(state.clock + steps - 1) * state.plateau_factor)
        return slots.norms[-1]

    def _ready(self, epoch: int, number: int, numbers: Tensor) -> Batch:
        home = self.loop.batches.resident
        assert home is not None
        ready = self.loop.batches.ready(home.fetch(numbers), epoch, number)
        assert ready is not None
        return ready

    def _numbers(self, epoch: int, first: int, samples: int, steps: int = 1) -> Tensor:
        """The samples of these steps, [steps, samples], on the device."""
        begin = first * self.loop.recipe.batch
        return self._orders.of(epoch)[begin : begin + steps * samples].view(steps, samples)

    def _order(self, epoch: int) -> Tensor:
        batches, seed = self.loop.batches, self.loop.recipe.seed
        return epoch_order(batches.samples, seed, epoch, batches.labels)


def lengths_of(most: int, log_every: int) -> tuple[int, ...]:
    """How many steps are recorded at once: as many as are wanted, or fewer if stretches of that length fill the time
    between two lines of metrics; and halves of that down to one, for what is left before an interval's end."""
    filling = max(steps for steps in range(1, most + 1) if log_every % steps == 0)
    longest = filling if 2 * filling > most else most
    halves = [longest >> times for times in range(longest.bit_length())]
    return tuple(reversed(halves))


def _nothing() -> None:
    """Before anything is recorded."""


def _row(value: Any, number: int) -> Any:
    """The same row of every tensor inside."""
    if isinstance(value, dict):
        return {key: _row(item, number) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_row(item, number) for item in value)
    return value[number]


def _stacked(values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, dict):
        return {key: _stacked([value[key] for value in values]) for key in first}
    if isinstance(first, (list, tuple)):
        return tuple(_stacked([value[place] for value in values]) for place in range(len(first)))
    return torch.stack(values)


def _fill(into: Any, value: Any) -> None:
    if isinstance(into, dict):
        for key, item in into.items():
            _fill(item, value[key])
    elif isinstance(into, tuple):
        for place, item in enumerate(into):
            _fill(item, value[place])
    else:
        into.copy_(value)
