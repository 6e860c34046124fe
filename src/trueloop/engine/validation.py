"""Evaluation in the middle of a run: the best checkpoint, the plateau schedule, early stopping and collapse."""

import math
import time
from dataclasses import replace
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from trueloop.data.source import Source
from trueloop.engine.batches import EvaluationBatches
from trueloop.engine.collapse import CollapseCheck
from trueloop.engine.measure_model import measure_model
from trueloop.engine.own_evaluation import evaluates_without_data
from trueloop.engine.parts import Parts
from trueloop.engine.state import State
from trueloop.engine.stop import Abandoned, Interrupted, Stop, StopTogether
from trueloop.engine.training_log import TrainingLog
from trueloop.hook import Ending, Row
from trueloop.recipe.recipe import Recipe

__all__ = ["Validation"]

KEPT_TWICE: Final = 1 << 26  # elements of a model that are copied before an evaluation which a signal may end anywhere


@final
class Validation:
    """Evaluates the model of a run, and decides what follows from the result."""

    def __init__(self, parts: Parts, state: State, stop: Stop, log: TrainingLog) -> None:
        self.parts, self.state, self.stop, self.log = parts, state, stop, log
        self.collapse_check: CollapseCheck | None = None  # What the metric must reach (`--baseline`)
        self.values: dict[str, float] = {}  # Of the last evaluation
        self._batches: dict[Source, EvaluationBatches] = {}

    def evaluate(self) -> bool:
        """On the validation data. Is it the best so far?"""
        self.log.flush()
        parts, state, recipe = self.parts, self.state, self.parts.recipe
        if parts.splits.valid is None and not evaluates_without_data(recipe):
            return False
        started = time.perf_counter()
        try:
            values = self.measure(parts.ema.model if parts.ema else parts.model, parts.splits.valid)
        except Interrupted:
            state.evaluation_due = True
            self.stop.ending = Ending("signal", state.step, signal=self.stop.agreed)
            return False
        state.evaluation_due = False
        self.log.clock += time.perf_counter() - started  # samples per second count training only
        self.values, value = values, values[parts.metric]
        sign = 1 if parts.higher_is_better else -1
        better = math.isfinite(value) and (state.best is None or sign * value > sign * state.best)
        check = self.collapse_check
        best = not self._collapsed(value, better) and better and (check is None or check.may_be_best(value))
        if best:
            state.best, state.best_step, state.worse, state.plateau_worse = value, state.step, 0, 0
        else:
            state.worse, state.plateau_worse = state.worse + 1, state.plateau_worse + 1
        if recipe.schedule == "plateau" and state.plateau_worse >= recipe.plateau:
            state.plateau_factor, state.plateau_worse = state.plateau_factor * recipe.gamma, 0
        state.over = state.over or (recipe.patience is not None and state.worse >= recipe.patience)
        parts.hooks.logged(Row("valid", state.step, self.log.epoch(), values, best=best))
        return best

    def _collapsed(self, value: float, better: bool) -> bool:
        """Is it below its baseline, or no better than a constant? Then the run ends, or is marked, by on_collapse."""
        if self.collapse_check is None:
            return False
        state, recipe = self.state, self.parts.recipe
        stops = recipe.patience is not None and not better and state.worse + 1 >= recipe.patience
        last = state.step >= self.parts.total_steps or stops
        epoch = self.log.epoch()
        collapse = self.collapse_check.check(step=state.step, epoch=epoch, value=value, best=state.best, last=last)
        if collapse is None:
            return False
        self.parts.hooks.collapsed(collapse)
        if recipe.on_collapse == "stop":
            self.stop.ending = Ending("collapsed", state.step, collapse.sentence)
        return True

    def measure(self, model: nn.Module, source: Source | None) -> dict[str, float]:
        """Loss and metrics of a model on a split. Its samples are moved to the device once. None: the recipe's own
        evaluation needs no data. Raises Interrupted, in all processes alike."""
        parts, sharers = self.parts, self.parts.strategy.sharers
        how = (parts.recipe, parts.task, parts.device, parts.precision, sharers)
        together = StopTogether(self.stop, parts.peers, parts.device)
        if source is None or evaluates_without_data(parts.recipe):
            if together.asked():
                raise Interrupted
            parts.share_buffers(model)
            return self._measure_without_data(model, *how)
        if source not in self._batches:
            self._batches[source] = EvaluationBatches(source, parts.splits, parts.recipe, parts.device, sharers)
        parts.share_buffers(model)
        batches = self._batches[source]
        in_step = parts.strategy.in_step and parts.recipe.evaluate is None
        watched = together.interruptible(batches, equally_many=in_step)
        idle = together.interruptible(batches.idle(), equally_many=True) if in_step else ()
        try:
            return measure_model(model, watched, *how, idle)
        finally:
            parts.strategy.settle(model)

    def _measure_without_data(self, model: nn.Module, recipe: Recipe, *how: Any) -> dict[str, float]:
        """By the user's own code alone, which may take minutes: a signal ends it at once, and what it has changed in
        the models until then is undone. Several processes wait for its end, because others may wait for this one in
        it; so does a model that is too large to be kept twice."""
        models = dict.fromkeys((model, self.parts.model))
        held: list[Tensor] = [each for one in models for each in (*one.parameters(), *one.buffers())]
        if self.parts.peers.world > 1 or sum(each.numel() for each in held) > KEPT_TWICE or recipe.evaluate is None:
            return measure_model(model, None, recipe, *how)
        evaluate, before = recipe.evaluate, [each.clone() for each in held]

        def stoppable(models: Any) -> Any:
            with self.stop.raising():
                return evaluate(models)

        try:
            return measure_model(model, None, replace(recipe, evaluate=stoppable), *how)
        except Abandoned:
            with torch.no_grad():
                for each, value in zip(held, before, strict=True):
                    each.copy_(value)
            self.stop.agreed = self.stop.signal
            raise Interrupted from None
