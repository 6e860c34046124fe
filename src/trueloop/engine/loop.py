"""A run that can be trained: its parts, where it stands, and how its steps are executed. `train.py` is the loop itself.

loop = trueloop.Loop.of(recipe)
loop.train()
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, cast, final

import torch
from torch import Tensor, nn

from trueloop.checkpoint.store import Folder, Store
from trueloop.data.source import moved
from trueloop.engine.assemble import assemble
from trueloop.engine.batches import Window
from trueloop.engine.cadence import Cadence
from trueloop.engine.carry import carry_of
from trueloop.engine.hook_calls import HookCalls
from trueloop.engine.parts import Parts
from trueloop.engine.programs.choose import choose_program
from trueloop.engine.programs.own_step import OwnStep
from trueloop.engine.programs.program import Program
from trueloop.engine.recovery import Recovery
from trueloop.engine.row_schedule import metrics_schedule
from trueloop.engine.state import State
from trueloop.engine.stop import Stop, StopTogether
from trueloop.engine.stream_batches import StreamBatches
from trueloop.engine.train import train as train_loop
from trueloop.engine.training_log import TrainingLog
from trueloop.engine.validation import Validation
from trueloop.errors import Misuse
from trueloop.hook import Ending, Hook
from trueloop.measure.randomness import take_states
from trueloop.parallel.digest import drift
from trueloop.recipe.recipe import DataRequest, Recipe, describe

__all__ = ["Loop"]


@final
class Loop:
    """One run, at its beginning or restored from a checkpoint."""

    def __init__(
        self, parts: Parts, program: Callable[[Parts, State], Program] = choose_program, state: State | None = None
    ) -> None:
        self.parts = parts
        self.state = state or State()
        self.about: dict[str, Any] = {}  # What else a checkpoint states about its run
        self.memory: dict[str, Any] = {}  # The user's own values: tensors and plain values, saved with each checkpoint
        self.stop = Stop()
        self.stop_together = StopTogether(self.stop, parts.peers, parts.device)
        parts.task.follow(self.state, parts.total_steps)
        self.program = program(parts, self.state)
        self.program.attach(self)
        if isinstance(parts.batches, StreamBatches):
            parts.batches.loop = self  # its batches may be made by the model as it is then
        replays = self.program.replays
        rows = metrics_schedule(parts.recipe.log_every, replays=replays)
        self.cadence = Cadence(parts.recipe, parts.total_steps, self.state, self.stop, parts.guard, rows, replays)
        self.log = TrainingLog(parts, self.state, self.cadence)
        self.validation = Validation(parts, self.state, self.stop, self.log)
        self.hooks = HookCalls(self)
        self.recovery = Recovery(parts, self.state, self.stop, self.cadence, self.log, self.memory, self.hooks)
        self.recovery.own_step = self.program if isinstance(self.program, OwnStep) else None

    @classmethod
    def of(
        cls, recipe: Recipe, request: DataRequest | None = None, store: Store | None = None, hooks: Hook | None = None
    ) -> Loop:
        """Builds a recipe's parts. Trains nothing and creates no folder."""
        return cls(assemble(recipe, request, store, hooks))

    train = train_loop  # Until the run is finished, from wherever it stands: `engine/train.py`

    # -- for a recipe's own step and for hooks --

    @property
    def recipe(self) -> Recipe:
        return self.parts.recipe

    @property
    def model(self) -> nn.Module:
        """As the recipe built it. One that returns a dict of models: all of them, as an nn.ModuleDict."""
        return self.parts.model

    @property
    def models(self) -> Mapping[str, nn.Module]:
        """By the names that the recipe gave them; a single one is called `model`."""
        model = self.parts.model
        return cast(Mapping[str, nn.Module], model) if isinstance(model, nn.ModuleDict) else {"model": model}

    @property
    def optimizers(self) -> Mapping[str, torch.optim.Optimizer]:
        """By the names that the recipe gave them; a single one is called `optimizer`."""
        named = self.parts.named_optimizers
        return {"optimizer": self.parts.optimizer} if named is None else named.members

    @property
    def device(self) -> torch.device:
        return self.parts.device

    @property
    def folder(self) -> Path | None:
        """Of the run; None for a loop without one."""
        store = self.parts.saver.store
        return store.folder.parent if isinstance(store, Folder) else None

    @property
    def first_process(self) -> bool:
        """The one of several that writes files and prints."""
        return self.parts.peers.first

    @property
    def step(self) -> int:
        """Optimizer steps taken so far."""
        return self.state.step

    @property
    def epoch(self) -> int:
        """The current epoch; the first is 0."""
        return self.state.epoch

    def update(self, loss: Tensor, *optimizers: str, clip: float | None = None, retain_graph: bool = False) -> bool:
        """For a step of your own: backward, clipping and a step of these optimizers. False: a non-finite loss or
        gradient was kept away from the weights. `clip`: largest gradient norm of each; None: the recipe's."""
        self.backward(loss, *optimizers, retain_graph=retain_graph)
        return self.apply(*optimizers, clip=clip)

    def backward(self, loss: Tensor, *optimizers: str, retain_graph: bool = False) -> None:
        """Add the gradients of a loss to the parameters of these optimizers. Then call `apply`."""
        self._own_step.add_gradients(loss, optimizers, retain_graph)

    def apply(self, *optimizers: str, clip: float | None = None) -> bool:
        """Clip, and step the optimizers, unless the loss or a gradient is non-finite. The gradients are cleared."""
        return self._own_step.apply(optimizers, clip)

    def micros(self, batch: Any) -> Iterator[tuple[Any, float]]:
        """The batch in `accumulate` parts, each with its share of the samples: multiply its mean loss by that."""
        return self._own_step.micros(batch)

    @property
    def _own_step(self) -> OwnStep:
        if not isinstance(self.program, OwnStep):
            raise Misuse("loop.update, backward, apply and micros are for a recipe's own step: Recipe(step=...).")
        return self.program

    def end_training(self, why: str) -> None:
        """The run ends after this step, with a checkpoint, a test of the best weights, and this sentence."""
        self.state.ended_by = why
        self.state.over = True

    def windows(self, next_look: Callable[[], int] = int) -> Generator[Window, None, None]:
        """One per optimizer step, or per replay of several, until the run is finished. `next_look`: the next step that
        an observer wants to see, which is not replayed; the default: every step."""
        try:
            if self.state.evaluation_due:  # the run was stopped in the middle of it
                best = self.validation.evaluate()
                self.hooks.after_step(evaluated=True, ends_epoch=self.state.batch == 0)
                if best or self.cadence.time_to_save(evaluated=True):
                    self.save()
            if self.cadence.finished():
                return
            self.program.prepare()
            for window in self.program.windows(next_look):
                yield window
                if self.cadence.finished():
                    break
        finally:
            self.log.flush()
            self.parts.batches.close()

    def copies_differ(self, evaluated: bool) -> bool:
        """Do processes that should hold the same weights hold different ones? Then the run ends: it is meaningless."""
        if not self.parts.strategy.copies or not self.cadence.time_to_compare_copies(evaluated):
            return False
        found, step = drift(self.parts.model, self.parts.strategy), self.state.step
        if found is not None:
            self.stop.ending = Ending("failed", step, f"{found.sentence(step)} No checkpoint was written after that.")
        return found is not None

    def save(self) -> None:
        """Take a snapshot now; it is written in the background. Does not wait for the device."""
        from trueloop import __version__

        parts, state = self.parts, self.state
        self.log.flush()  # the metrics of a run that is resumed here are complete
        parts.share_buffers(parts.model)
        counts = {name: getattr(state, name) for name in ("step", "epoch", "batch", "best", "best_step")}
        versions = {"trueloop": __version__, "torch": torch.__version__}
        about = {**versions, **counts, "metric": parts.metric, "recipe": describe(parts.recipe), **self.about}
        counters: dict[str, Any] = {
            "state": state.to_dict(),
            "precision": parts.precision.state(),
            "guard": parts.guard.state(),
            "random": parts.peers.gather(take_states()),
            "own": parts.peers.gather(self._own_state()),
            "schedules": {name: each.state_dict() for name, each in parts.schedules.items()},
        }
        if isinstance(parts.batches, StreamBatches):
            counters["stream"] = parts.batches.state_dict()
        models = {"model": parts.model} | ({"ema": parts.ema.model} if parts.ema else {})
        snapshot = parts.layout.snapshot(about, models, parts.optimizer, counters)
        if snapshot is not None:
            parts.saver.save(snapshot)

    def _own_state(self) -> dict[str, Any]:
        """What may differ between processes."""
        carry = carry_of(self.model)
        own: dict[str, Any] = {"memory": self.memory, "hooks": self.hooks.state(), "means": self.log.means.state()}
        own["carry"] = None if carry is None else carry.state
        return own if self.parts.peers.world == 1 else moved(own, torch.device("cpu"))

    def asked_to_stop(self, *, evaluated: bool = False) -> bool:
        """Agreed among all processes."""
        return not self.cadence.finished() and self.stop_together.asked(now=evaluated)

    def leave(self, *, saved: bool) -> None:
        """Asked to stop: save this step unless it is saved already, and end."""
        if not saved and not self.recovery.handle_nonfinite():
            self.save()
        self.stop.ending = self.stop.ending or Ending("signal", self.state.step, signal=self.stop.agreed)
