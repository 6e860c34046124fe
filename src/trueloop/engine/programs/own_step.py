"""A recipe's own training step, `step(loop, batch)`: any number of models, optimizers and losses.

    def step(loop, batch):
        generator, discriminator = loop.models["generator"], loop.models["discriminator"]
        ...
        loop.update(loss_d, "discriminator")            # backward, clipping, guard, optimizer step
        loop.update(loss_g, "generator", clip=1.0)
        return {"discriminator": loss_d, "generator": loss_g}      # logged as means

`update` is `backward` and `apply`; to accumulate, call `backward` for each part and `apply` once. A backward reaches
only the parameters of its optimizer: the generator's loss leaves no gradient in the discriminator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from trueloop.data.cut import batch_size, cut
from trueloop.data.source import Batch
from trueloop.engine.batches import Window
from trueloop.engine.fused_adam import FusedStep
from trueloop.engine.nonfinite_guard import Position, clear_gradients
from trueloop.engine.nonfinite_origin import RepeatedStep
from trueloop.engine.parts import Parts
from trueloop.engine.programs.program import Program
from trueloop.engine.sample_order import micro_batch_sizes
from trueloop.engine.state import State
from trueloop.engine.stream_batches import StreamBatches
from trueloop.errors import BadRecipe, did_you_mean
from trueloop.measure.randomness import fence
from trueloop.recipe.call import call_own

if TYPE_CHECKING:
    from trueloop.engine.loop import Loop

__all__ = ["OwnStep"]


@final
class OwnStep(Program):
    """Calls the recipe's step, and does what it asks for."""

    def __init__(self, parts: Parts, state: State) -> None:
        assert parts.named_optimizers is not None
        self.parts, self.state, self.optimizers = parts, state, parts.named_optimizers
        self._fused = {name: FusedStep(each) for name, each in self.optimizers.members.items()}
        self._parameters = {
            name: [parameter for group in each.param_groups for parameter in group["params"]]
            for name, each in self.optimizers.members.items()
        }
        self._loop: Loop | None = None
        self._losses: dict[str, Tensor] = {}  # Of backwards whose update has not been applied
        self._counted: set[str] = set()  # Of those: whose loss is counted with that of another optimizer
        self._updates: list[bool] = []  # Of this step: was each taken?
        self._overflow = False
        self._norm = torch.full((), math.nan, device=parts.device)  # NaN: the step has updated its weights itself
        self._loss = torch.zeros((), device=parts.device)
        self._share = 1.0  # This process's share of the step's samples
        self._applying = False
        self._repeated: RepeatedStep | None = None  # While a step is computed once more: no update is applied
        self.skipped: tuple[Position, Any] | None = None  # The last batch that is known to be non-finite
        self._watched: list[RemovableHandle] = []

    # -- called by the loop --

    def attach(self, loop: Loop) -> None:
        self._loop = loop
        if self.parts.peers.world > 1:
            for name, optimizer in self.optimizers.members.items():
                hook = optimizer.register_step_pre_hook(partial(self._refuse_step, name))
                self._watched.append(hook)  # Only at first: with a hook the fused kernel is not used

    def steps_itself(self, window: Window) -> bool:
        return True

    def take(self, window: Window) -> tuple[Tensor, bool, bool]:
        parts, state, position = self.parts, self.state, (self.state.epoch, self.state.batch)
        assert parts.recipe.step is not None
        assert self._loop is not None
        if position in parts.guard.avoided:
            parts.guard.buffers.restore()
            return self._norm, False, False
        self._set_rates()
        batch = window.micros[0]
        world = parts.strategy.sharers.world
        self._share = 1.0 if world == 1 else 0.0 if window.idle else self._share_of(batch, window.samples)
        for schedule in parts.schedules.values():
            while schedule.last_epoch < state.clock:  # before a step, not after it: rows have the rate that was used
                schedule.step()
        self._updates, self._overflow, self._losses, self._counted = [], False, {}, set()
        self._loss = torch.zeros((), device=parts.device)  # The sum of all losses of the step
        with parts.precision.autocast():
            values = call_own("step", "def step(loop, batch)", parts.recipe.step, self._loop, batch)
        self._refuse_unapplied()
        if not self._overflow:
            logged = _logged(values)
            if self._updates and "loss" not in logged:
                self._loop.log.means.add({"loss": self._loss})
            self._loop.log.means.add(logged, weight=self._share)
        if self._updates:
            parts.precision.learn()
        taken = all(self._updates)
        if not taken:
            self.skipped = position, batch
        parts.guard.keep_buffers(taken=taken)
        if parts.ema is not None and taken:
            parts.ema.follow(state.step)
        if world > 1:
            self._end_together()
            while self._watched:
                self._watched.pop().remove()
        return self._norm, taken, self._overflow

    def _end_together(self) -> None:
        """`loop.end_training` of one process, or of its stream, ends all after the same step."""
        peers, state = self.parts.peers, self.state
        if peers.any(state.over) and self._loop is not None:
            self._loop.end_training(next(filter(None, peers.gather(state.ended_by)), ""))

    def repeat(self, batch: Any, position: Position, watched: RepeatedStep) -> str:
        """Compute a step of this run once more, without updates, because the run ends here: what else the user's code
        changes stays changed. Empty, or why it could not be computed."""
        parts, state, loop = self.parts, self.state, self._loop
        assert parts.recipe.step is not None
        assert loop is not None
        memory, self._share, self._repeated, self._losses = dict(loop.memory), 1.0, watched, {}
        now, last = (state.step, state.epoch, state.batch), self.skipped is not None and self.skipped[0] == position
        state.epoch, state.batch = position
        state.step = state.step - 1 if last else watched.step  # what `loop.step` was then
        try:
            with parts.guard.buffers.preserved(), fence(), watched.watched(), parts.precision.autocast():
                parts.recipe.step(loop, batch)
        except Exception as error:  # noqa: BLE001 - of the user's code: the non-finite loss must be reported anyway
            return f"it raised {type(error).__name__} when it was computed once more"
        finally:
            self._repeated, self._losses = None, {}
            state.step, state.epoch, state.batch = now
            loop.memory.clear()
            loop.memory.update(memory)
            for parameters in self._parameters.values():
                clear_gradients(parameters)
        return ""

    def _refuse_step(self, name: str, *_: Any) -> None:
        if not self._applying:
            raise BadRecipe(
                f"The recipe's step calls loop.optimizers[{name!r}].step() itself, and there are "
                f"{self.parts.peers.world} processes: each would train on its own gradients. Nothing was updated: call "
                f"loop.update(loss, {name!r}), which adds the gradients up, or train in one process."
            )

    def _share_of(self, batch: Any, samples: int) -> float:
        """This process's share of the step; the streams of several processes give equal ones."""
        if isinstance(self.parts.batches, StreamBatches) and not self.parts.batches.cut:
            return 1 / self.parts.strategy.sharers.world
        return batch_size(batch, self.parts.splits.shared) / samples

    def backward(self, micro: Batch, divisor: int | float | Tensor, *, observed: bool = False) -> Tensor:
        # Of the interface of programs; the loop asks `steps_itself` first and never comes here.
        raise NotImplementedError("A recipe's own step computes its backwards itself.")

    def _set_rates(self) -> None:
        parts, state = self.parts, self.state
        if not parts.schedules:
            self.optimizers.scale_rates(parts.schedule(state.clock) / parts.schedule.lr * state.plateau_factor)

    # -- called by the recipe's step, through the loop --

    def add_gradients(self, loss: Any, optimizers: Sequence[str], retain_graph: bool) -> None:
        names = self._names_of(optimizers)
        if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise BadRecipe(_bad_loss(loss, names[0]))
        learning = [each for name in names for each in self._parameters[name] if each.requires_grad]
        if self.parts.peers.world > 1:
            self._refuse_foreign_gradients(names)
        share = loss.reshape(()) if self._share == 1.0 else loss.reshape(()) * self._share
        with torch.autocast(self.parts.device.type, enabled=False):
            scaled = share if self._repeated is not None else self.parts.precision.scaled(share)
            scaled.backward(retain_graph=retain_graph, inputs=learning)  # type: ignore[no-untyped-call]
        if self.state.step == 0 and all(parameter.grad is None for parameter in learning):
            raise BadRecipe(
                f"The loss for {names[0]!r} reaches none of the {len(learning)} parameters of that optimizer. Nothing "
                "was updated: compute it from the models that this optimizer trains, without `.detach()` on the way."
            )
        for name in names:
            self._losses[name] = self._losses[name] + share.detach() if name in self._losses else share.detach()
        self._counted |= set(names[1:])

    def _refuse_foreign_gradients(self, names: Sequence[str]) -> None:
        """They would be added up over processes without their share."""
        for name in names:
            if name not in self._losses and any(each.grad is not None for each in self._parameters[name]):
                raise BadRecipe(
                    f"The parameters of {name!r} have gradients that loop.backward has not computed, and there are "
                    f"{self.parts.peers.world} processes, which could not weight them. Nothing was updated: write "
                    f"loop.backward(loss, {name!r}) instead of loss.backward()."
                )

    def apply(self, optimizers: Sequence[str], clip: float | None) -> bool:
        taken = [self._apply(name, clip) for name in self._names_of(optimizers)]
        return all(taken)

    def _apply(self, name: str, clip: float | None) -> bool:
        if name not in self._losses:
            raise BadRecipe(f"apply({name!r}) has no gradients: call loop.backward(loss, {name!r}) before it.")
        parts, parameters = self.parts, self._parameters[name]
        if self._repeated is not None:
            finite = self._repeated.update(self._losses.pop(name), parameters)
            clear_gradients(parameters)
            return finite
        parts.precision.unscale(self.optimizers.members[name])
        loss = parts.strategy.add_up([self._losses.pop(name)], parameters)
        self._norm = parts.strategy.norm(parameters)
        if len(self.optimizers.members) > 1 and self._loop is not None:
            self._loop.log.means.add({f"gradient_norm/{name}": self._norm})
        limit = parts.recipe.clip if clip is None else clip
        if limit is not None:
            parts.strategy.clip(parameters, self._norm, limit)
        position = self.state.epoch, self.state.batch
        self._applying = True
        taken = parts.guard.step(loss, self._norm, position, self._fused[name])
        self._applying = False
        self._loss = self._loss if name in self._counted else self._loss + loss.detach()
        self._overflow = self._overflow or (not taken and parts.precision.is_overflow(loss))
        self._updates.append(taken)
        clear_gradients(parameters)
        return taken

    def micros(self, batch: Any) -> Iterator[tuple[Any, float]]:
        recipe, world = self.parts.recipe, self.parts.strategy.sharers.world
        samples, low = batch_size(batch, self.parts.splits.shared), 0
        for size in micro_batch_sizes(samples, world, recipe.accumulate, recipe.batch):
            yield cut(batch, low, low + size, self.parts.splits.shared), size / samples
            low += size

    def _names_of(self, optimizers: Sequence[str]) -> Sequence[str]:
        known = list(self.optimizers.members)
        if not optimizers and len(known) == 1:
            return known
        wrong = next((name for name in optimizers if name not in known), None)
        if wrong is not None or not optimizers:
            which = f"there is no optimizer {wrong!r}.{did_you_mean(str(wrong), known)}" if optimizers else "which?"
            raise BadRecipe(
                f"loop.update(loss, optimizer): {which} The recipe has: {', '.join(known)}. A loss for several: "
                f"loop.update(loss, {', '.join(map(repr, known))})."
            )
        return optimizers

    def _refuse_unapplied(self) -> None:
        if self._losses:
            name = next(iter(self._losses))
            raise BadRecipe(
                f"The recipe's step called loop.backward(loss, {name!r}) and never loop.apply({name!r}): these "
                "gradients would be lost. Call loop.apply after the last backward, or loop.update for both."
            )


def _logged(values: Any) -> Mapping[str, Any]:
    """What the step returned, as named values."""
    if values is None or isinstance(values, bool):  # of `return loop.update(loss)`
        return {}
    if isinstance(values, (Tensor, int, float)):
        values = {"loss": values}
    numbers = isinstance(values, Mapping) and all(
        isinstance(each, (int, float)) or (isinstance(each, Tensor) and each.numel() == 1) for each in values.values()
    )
    if not numbers:
        raise BadRecipe(
            f"The recipe's step returned a {type(values).__name__}: return the loss, or numbers to log by name, "
            'as in {"generator": loss_g, "discriminator": loss_d}.'
        )
    return {name: each.reshape(()) if isinstance(each, Tensor) else each for name, each in values.items()}


def _bad_loss(loss: Any, name: str) -> str:
    if not isinstance(loss, Tensor):
        what = f"a {type(loss).__name__}: pass the tensor itself, not `.item()`"
    elif loss.numel() != 1:
        what = f"a tensor of shape {list(loss.shape)}: take its mean"
    else:
        what = "a tensor without a graph: compute it from a model's output, without `.detach()` or `torch.no_grad()`"
    return f"The loss for {name!r} is {what}. Nothing was updated."
