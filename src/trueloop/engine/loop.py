"""A loop, assembled: every part of a run, and what is done with them at intervals. `train.py` is what is done in each
step."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from trueloop.checkpoint.form import Form, InOne, Reading
from trueloop.checkpoint.newest import newest_by
from trueloop.checkpoint.saver import Saver
from trueloop.checkpoint.store import Store
from trueloop.data.source import Batch, Source, Splits
from trueloop.engine.batches import Batches, EvaluationBatches, Window
from trueloop.engine.collapse import CollapseCheck
from trueloop.engine.ema import Ema
from trueloop.engine.evaluate import evaluate
from trueloop.engine.nonfinite_guard import Guard, LossSummary, Position
from trueloop.engine.nonfinite_origin import describe_origin, find_origin, find_origin_in_shards
from trueloop.engine.precision import Precision
from trueloop.engine.programs.compiled_step import CompiledStep
from trueloop.engine.programs.cuda_graphs import Graphs
from trueloop.engine.schedule import Schedule
from trueloop.engine.state import State
from trueloop.engine.stop import Stop
from trueloop.engine.task import Task
from trueloop.errors import BadCheckpoint
from trueloop.hook import Ending, Hook, Row
from trueloop.measure.randomness import restore_states, take_states
from trueloop.parallel.digest import drift
from trueloop.parallel.peers import Peers
from trueloop.parallel.strategy import Single, Strategy
from trueloop.recipe.recipe import DataRequest, Recipe, describe
from trueloop.recipe.validate import validate

__all__ = ["Loop"]


class _Heading(NamedTuple):
    """Where a line of metrics stands."""

    step: int = 0
    epoch: float = 0.0
    lr: float = 0.0
    samples: int = 0


@dataclass
class Loop:
    """All parts of a run. `assemble(recipe)` makes one; each part is usable alone."""

    recipe: Recipe
    model: nn.Module
    """As the recipe built it: what is saved and evaluated."""
    forward: Any
    """What the training calls: the model, compiled if asked for; as it is where steps are played, which are compiled by
    themselves."""
    splits: Splits
    task: Task
    optimizer: torch.optim.Optimizer
    schedule: Schedule
    batches: Batches
    precision: Precision
    guard: Guard
    peers: Peers
    """All processes of the run; those that share a batch are the strategy's `sharers`."""
    device: torch.device
    hooks: Hook
    saver: Saver
    total_steps: int
    strategy: Strategy = field(default_factory=Single)
    form: Form = field(default_factory=InOne)
    """How its checkpoints are written and read."""
    ema: Ema | None = None
    state: State = field(default_factory=State)
    stop: Stop = field(default_factory=Stop)
    ending: Ending | None = None
    """Why the run ends before its time."""
    bar: CollapseCheck | None = None
    """What its validation must reach (`--baseline`); None: nothing."""
    whole: CompiledStep | None = None
    """program=compiled_step: what computes loss and gradients as one compiled function."""
    graphs: Graphs | None = None
    """program=cuda_graphs: what plays several steps at once."""
    parameters: Sequence[Tensor] = ()
    clock: float = field(default_factory=time.perf_counter)
    _rows: list[tuple[int, float, dict[str, float]]] = field(default_factory=list, repr=False)
    """Lines of metrics that nobody has been told of yet."""
    _heading: _Heading = field(default_factory=_Heading, repr=False)
    """Of the line of metrics that is being written, or that the device has been asked for."""
    _in_order: dict[Source, EvaluationBatches] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, recipe: Recipe, request: DataRequest | None = None, store: Store | None = None, hooks: Hook | None = None
    ) -> Loop:
        """A recipe's loop, with every part at hand; nothing is trained yet, and no folder is made."""
        from trueloop.engine.assemble import assemble  # it needs this class

        return assemble(validate(recipe), request, store, hooks)

    def train(self) -> Ending:
        """`engine/train.py`, from wherever the loop stands."""
        from trueloop.engine.train import train  # it needs this class

        return train(self)

    # -- the steps --

    def windows(self, next_look: Callable[[], int] = int) -> Generator[Window, None, None]:
        """One for each optimizer step, or for several that are played at once, from where the run stands until it is
        enough.

        `next_look`: the step that somebody wants to look into, which is then not played; as it is: every step.
        """
        ahead = self.batches.windows(self.state) if self.graphs is None else self.graphs.windows(next_look)
        try:
            if self.whole is not None:
                self.whole.build()
            for window in () if self.finished() else ahead:
                yield window
                if self.finished():
                    break
        finally:
            self.hand_on_rows()
            self.batches.close()

    def play(self, window: Window) -> Tensor:
        """The steps of a window that says which samples they take; the gradient's length in the last of them."""
        assert self.graphs is not None
        norm = self.graphs.play(window)
        self.hand_on_rows()  # now that the device is at work
        return norm

    def into_training_mode(self) -> None:
        """Parts that the recipe has put into eval mode (a frozen backbone) stay so: only a model that is there as a
        whole is changed."""
        if not self.model.training:
            self.model.train()

    def count_targets(self, window: Window) -> int | Tensor:
        """Of the whole step, over all micro-batches and processes; at least one: a step of nothing but padding is none,
        not NaN."""
        own = window.micros[: len(window.micros) - window.idle]
        counted = self.strategy.sharers.sum(sum(self.task.count(micro.targets) for micro in own))
        return counted.clamp(min=1) if isinstance(counted, Tensor) else max(1, counted)

    def shared_out(self, window: Window, targets: int | Tensor) -> Iterator[tuple[Batch, Any]]:
        """This process's micro-batches, each with what its losses are divided by: nothing is left of one that only
        keeps step."""
        own = len(window.micros) - window.idle
        for number, micro in enumerate(self.strategy.micros(window.micros, window.samples)):
            yield micro, targets if number < own else math.inf

    # -- is it time? --

    def finished(self) -> bool:
        return self.state.step >= self.total_steps or self.state.over or self.ending is not None

    def time_to_log(self) -> bool:
        return self.state.step % self.recipe.log_every == 0 or self.state.step >= self.total_steps or self.guard.full

    def time_to_evaluate(self, ends_epoch: bool) -> bool:
        every = self.recipe.evaluate_every
        return (ends_epoch if every is None else self.state.step % every == 0) or self.state.step >= self.total_steps

    def time_to_save(self, evaluated: bool) -> bool:
        every = self.recipe.save_every
        if self.ending is not None and self.ending.reason in ("nonfinite", "failed"):
            return False  # a resume must meet that batch again, and must not begin with weights that have drifted apart
        return (evaluated if every is None else self.state.step % every == 0) or self.finished()

    def time_to_look(self, ends_epoch: bool) -> bool:
        """For what the device has held back by itself: when the host waits for it anyway, and before the running
        statistics are used."""
        return self.guard.waiting or (
            self.guard.on_device and (self.time_to_log() or self.time_to_evaluate(ends_epoch))
        )

    def must_know(self) -> bool:
        """How all steps went: always, but where they are played, and nothing is about to be made of them."""
        saves = self.recipe.save_every is not None and self.state.step % self.recipe.save_every == 0
        ends = self.finished() or bool(self.stop.signal)
        return self.graphs is None or saves or ends or self.time_to_evaluate(ends_epoch=self.state.batch == 0)

    def asked_to_stop(self) -> bool:
        """Agreed with the other processes, which costs a message: not in each step where there are any."""
        if self.finished() or (self.peers.world > 1 and self.state.step % AGREE_EVERY):
            return False
        return self.peers.any(bool(self.stop.signal))

    # -- at intervals --

    def log(self, norm: Tensor, samples: int) -> None:
        """One line of metrics. The host waits for the device; where steps are played, not until the next ones are on
        their way."""
        self._heading = _Heading(self.state.step, self.epoch(), float(self.optimizer.param_groups[0]["lr"]), samples)
        if self.must_know():
            total, learned = self.guard.losses()
            self.guard.told()
            self._write(LossSummary(total, learned, norm.item()))
        else:
            self.guard.ask(norm)

    def _write(self, line: LossSummary) -> None:
        step, epoch, lr, samples = self._heading
        now = time.perf_counter()
        seconds, self.clock = now - self.clock, now
        waited, self.batches.waited = self.batches.waited, 0.0
        values = {
            "loss": line.losses / line.learned if line.learned else math.nan,
            "lr": lr,
            "gradient_norm": line.norm,
            "samples_per_second": samples / seconds if seconds else 0.0,
            "data_wait": waited / seconds if seconds else 0.0,
        }
        if self.state.skipped:
            values["skipped"] = float(self.state.skipped)
        self.saver.check()
        self._rows.append((step, epoch, values))
        if self.graphs is None:
            self.hand_on_rows()

    def hand_on_rows(self) -> None:
        """To those who write them down. Where steps are played, a device that waits for the next ones would wait for
        that too."""
        rows, self._rows = self._rows, []
        for step, epoch, values in rows:
            self.hooks.logged(Row("train", step, epoch, values | {"memory_mb": memory_mb(self.device)}))

    def evaluate(self) -> bool:
        """On the validation data; is it the best so far? Plateau and early stopping follow it."""
        self.hand_on_rows()
        if self.splits.valid is None:
            return False
        state, model = self.state, self.ema.model if self.ema else self.model
        begun = time.perf_counter()
        values = self.measure(model, self.splits.valid)
        self.clock += time.perf_counter() - begun  # the rate in the log is the training's
        value = values[self.metric]
        sign = 1 if self.higher_is_better else -1
        better = math.isfinite(value) and (state.best is None or sign * value > sign * state.best)
        best = not self._collapsed(value, better) and better and (self.bar is None or self.bar.promotes(value))
        if best:
            state.best, state.best_step, state.worse, state.plateau_worse = value, state.step, 0, 0
        else:
            state.worse, state.plateau_worse = state.worse + 1, state.plateau_worse + 1
        if self.recipe.schedule == "plateau" and state.plateau_worse >= self.recipe.plateau:
            state.plateau_factor, state.plateau_worse = state.plateau_factor * self.recipe.gamma, 0
        state.over = self.recipe.patience is not None and state.worse >= self.recipe.patience
        self.hooks.logged(Row("valid", state.step, self.epoch(), values, best=best))
        return best

    def _collapsed(self, value: float, better: bool) -> bool:
        """Below its baseline, or as good as a constant answer: then it is not the best, and the run ends, or is marked,
        as asked."""
        if self.bar is None:
            return False
        state, patience = self.state, self.recipe.patience
        last = state.step >= self.total_steps or (patience is not None and not better and state.worse + 1 >= patience)
        found = self.bar.judge(step=state.step, epoch=self.epoch(), value=value, best=state.best, last=last)
        if found is None:
            return False
        self.hooks.collapsed(found)
        if self.recipe.on_collapse == "stop":
            self.ending = Ending("collapsed", state.step, found.sentence)
        return True

    def measure(self, model: nn.Module, source: Source) -> dict[str, float]:
        """Loss and metrics of a model on a split. Its samples are brought to the device once."""
        if source not in self._in_order:
            self._in_order[source] = EvaluationBatches(
                source, self.splits, self.recipe, self.device, self.strategy.sharers
            )
        self._share_statistics(model)
        batches = self._in_order[source]
        idle = batches.idle() if self.strategy.in_step else ()
        values = evaluate(model, batches, self.task, self.device, self.precision, self.strategy.sharers, idle)
        self.strategy.settle(model)
        return values

    def copies_differ(self, evaluated: bool) -> bool:
        """Have processes that should hold the same weights drifted apart? Then the run ends: no number of it would mean
        anything."""
        every = self.recipe.digest_every
        if not self.strategy.copies or not (evaluated if every is None else every and self.state.step % every == 0):
            return False
        found = drift(self.model, self.strategy)
        if found is not None:
            self.ending = Ending(
                "failed", self.state.step, f"{found.sentence(self.state.step)} No checkpoint was written after that."
            )
        return found is not None

    def save(self) -> None:
        """A snapshot now; the disk has it later. No device is waited for."""
        self.hand_on_rows()  # what is resumed from here has all lines of before
        self._share_statistics(self.model)
        randoms = self.peers.gather(take_states())
        models = {"model": self.model} | ({"ema": self.ema.model} if self.ema else {})
        taken = self.form.taken(self._about(), models, self.optimizer, self._counters(randoms))
        if taken is not None:
            self.saver.save(taken)

    def _share_statistics(self, model: nn.Module) -> None:
        """Each process has running statistics of its own; those of the first are what is saved, and so what counts."""
        if self.peers.world > 1:
            self.peers.share(model.buffers())
            if not self.guard.on_device:
                self.guard.statistics.keep()

    def _about(self) -> dict[str, Any]:
        """For the manifest."""
        from trueloop import __version__

        state = self.state
        return {
            "trueloop": __version__,
            "torch": torch.__version__,
            "step": state.step,
            "epoch": state.epoch,
            "batch": state.batch,
            "best": state.best,
            "best_step": state.best_step,
            "metric": self.metric,
            "recipe": describe(self.recipe),
        }

    def _counters(self, randoms: list[Any]) -> dict[str, Any]:
        """What is neither the models' nor the optimizer's."""
        return {
            "state": self.state.to_dict(),
            "precision": self.precision.state(),
            "guard": self.guard.state(),
            "random": randoms,
        }

    # -- coming back --

    def restore(self, reading: Reading) -> None:
        """Everything as it was; bit for bit."""
        reading.fill_model("model", self.model)
        if self.ema is not None:
            reading.fill_model("ema", self.ema.model)
        training = reading.training
        reading.fill_optimizer(self.optimizer)
        self.precision.restore(training["precision"])
        self.state.restore(training["state"])
        self.guard.restore(training["guard"])
        self.guard.avoided = set(self.state.avoided)
        randoms = training["random"]
        if len(randoms) == self.peers.world:
            restore_states(randoms[self.peers.rank])
        else:
            self.hooks.noted(
                f"{len(randoms)} processes saved this and {self.peers.world} go on: dropout will draw other numbers."
            )

    def go_back(self) -> bool:
        """To the newest whole checkpoint of this run; False: there is none."""
        self.saver.finish()
        self.peers.wait()  # the first process writes, and all read what it has written
        if len(set(self.peers.gather(tuple(self.saver.store.names())))) > 1:
            raise BadCheckpoint(
                "The processes do not see the same checkpoints: they need one folder that all can read. Nothing was run."
            )
        name, reading, troubles = newest_by(self.saver.store, self.form.read)
        for trouble in troubles:
            self.hooks.noted(f"{trouble} It was passed over.")
        if reading is None:
            if name is None and troubles:
                raise BadCheckpoint(f"{troubles[0]} No checkpoint of this run is whole. Nothing was run.")
            return False
        self.restore(reading)
        return True

    def face_nonfinite(self, *, overflow: bool = False) -> bool:
        """Batches with a loss or a gradient that is no number: no weight has seen them. Stop or go back (True), or skip
        them, as asked."""
        held = self.guard.held() if self.must_know() else self.guard.answered()
        line = self.guard.line()
        for epoch, batch in () if overflow else held:
            said = self._autopsy(epoch, batch)
            self.state.skipped += 1
            if self.recipe.on_nonfinite == "stop" or self.state.skipped > self.recipe.max_nonfinite:
                limit = (
                    ""
                    if self.recipe.on_nonfinite == "stop"
                    else f" That is more than max_nonfinite={self.recipe.max_nonfinite}."
                )
                self.ending = Ending("nonfinite", self.state.step, f"{said}{limit} No weight has seen it.")
                return True
            if self.recipe.on_nonfinite == "rollback" and self._roll_back((epoch, batch), said):
                return True
            self.hooks.noted(
                f"{said} The step was skipped ({self.state.skipped} of at most {self.recipe.max_nonfinite})."
            )
        if held and self.ema is not None:
            self.ema.copy_buffers()  # the model's running statistics have been put back
        if line is not None:
            self._write(line)
        return False

    def _autopsy(self, epoch: int, batch: int) -> str:
        """The sentence that names the first thing that is no number, on whichever process it is."""
        step = epoch * self.batches.steps_per_epoch + batch
        again = self.batches.batch_at(epoch, batch)
        micros = self.batches.micros(again) if again else [None]
        if self.strategy.in_parts:
            found = [
                find_origin_in_shards(self.model, micro, step, self._rates(), self.strategy.mine) for micro in micros
            ]
        else:
            found = [
                find_origin(self.model, self.task, micro, step, self._rates(), self.precision.autocast)
                for micro in micros
            ]
        events = [event for events in self.peers.gather(found) for event in events]
        event = next((each for each in events if each.origin != "unknown"), events[0])
        self.hooks.heard(replace(event, skipped=self.recipe.on_nonfinite != "stop"))
        return describe_origin(event, epoch, batch)

    def _roll_back(self, at: Position, said: str) -> bool:
        """To the last checkpoint, remembering which batch to skip when it comes again."""
        skipped, avoided, rollbacks = self.state.skipped, [*self.state.avoided, at], self.state.rollbacks + 1
        if not self.go_back():
            self.hooks.noted("There is no checkpoint to go back to yet.")
            return False
        self.state.skipped, self.state.avoided, self.state.rollbacks = skipped, avoided, rollbacks
        self.guard.avoided = set(avoided)
        self.hooks.noted(f"{said} Back to the checkpoint of step {self.state.step:,}; that batch will be left out.")
        return True

    def leave(self, *, saved: bool) -> None:
        """Asked to stop: save, if this step is not saved yet, and end."""
        if not saved and not self.face_nonfinite():
            self.save()
        signal = max(self.peers.gather(self.stop.signal))
        self.ending = self.ending or Ending("signal", self.state.step, signal=signal)

    # -- words --

    @property
    def metric(self) -> str:
        return self.recipe.metric or self.task.metric

    @property
    def higher_is_better(self) -> bool:
        return self.task.higher_is_better if self.metric == self.task.metric else self.metric not in ("loss", "mae")

    def epoch(self) -> float:
        return self.state.step / self.batches.steps_per_epoch

    def _rates(self) -> tuple[float, ...]:
        return tuple(float(group["lr"]) for group in self.optimizer.param_groups)


AGREE_EVERY = 10
"""Steps between two agreements of several processes on whether to stop."""


def memory_mb(device: torch.device) -> float:
    """The most that was in use: of the device, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
