"""What a run is built from, as one frozen value: `assemble.py` builds it, `loop.py` trains with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from trueloop.checkpoint.layout import Layout
from trueloop.checkpoint.saver import Saver
from trueloop.data.source import Splits
from trueloop.engine.batches import Batches, Window
from trueloop.engine.ema import Ema
from trueloop.engine.loss_terms import LossTerms
from trueloop.engine.metrics import is_higher_better
from trueloop.engine.named_optimizers import NamedOptimizers
from trueloop.engine.nonfinite_guard import Guard
from trueloop.engine.precision import Precision
from trueloop.engine.schedule import Schedule
from trueloop.engine.stream_batches import StreamBatches
from trueloop.engine.task import Task
from trueloop.hook import Hook
from trueloop.parallel.peers import Peers
from trueloop.parallel.strategy import Strategy
from trueloop.recipe.recipe import Recipe
from trueloop.recipe.validate import METRICS

__all__ = ["Parts"]


@dataclass(frozen=True, eq=False)
class Parts:
    """Everything that a recipe describes, built."""

    recipe: Recipe  # With every value that follows from the length of the run filled in
    splits: Splits
    model: nn.Module  # As the recipe built it: this one is saved and evaluated
    forward: Any  # What training calls: the model, compiled or wrapped if the recipe says so
    task: Task
    optimizer: torch.optim.Optimizer  # `named_optimizers` in the form of one, where there are some
    parameters: Sequence[Tensor]  # Those of the optimizer
    schedule: Schedule
    batches: Batches | StreamBatches
    precision: Precision
    guard: Guard
    terms: LossTerms  # What a loss of the user's own returns besides its value
    strategy: Strategy
    device: torch.device
    hooks: Hook
    saver: Saver
    layout: Layout  # How checkpoints are written and read
    total_steps: int
    ema: Ema | None = None
    named_optimizers: NamedOptimizers | None = None  # With a step of one's own
    schedules: Mapping[str, LRScheduler] = field(default_factory=dict)  # torch's own, for the named optimizers

    @property
    def peers(self) -> Peers:
        """All processes of the run. Those that share a batch are `strategy.sharers`."""
        return self.strategy.peers

    @property
    def metric(self) -> str:
        return self.recipe.metric or self.task.metric

    @property
    def higher_is_better(self) -> bool:
        if self.metric == self.task.metric:
            return self.task.higher_is_better
        recipe, own = self.recipe, self.metric not in (*METRICS.get(self.recipe.task, ()), "loss")
        if own:
            return is_higher_better(recipe.metrics, self.metric, recipe.lower_is_better)
        return self.metric not in ("loss", "mae")

    @property
    def learning_rates(self) -> tuple[float, ...]:
        return tuple(float(group["lr"]) for group in self.optimizer.param_groups)

    def into_training_mode(self) -> None:
        """Modules that the recipe put into eval mode (a frozen backbone) stay there, unless the whole model is."""
        if not self.model.training:
            self.model.train()

    def count_targets(self, window: Window) -> int | Tensor:
        """Targets of a step, over all micro-batches and processes. At least 1: a step of padding has loss 0."""
        own = window.micros[: len(window.micros) - window.idle]
        counted = self.strategy.sharers.sum(sum(self.task.count_of(micro) for micro in own))
        return counted.clamp(min=1) if isinstance(counted, Tensor) else max(1, counted)

    def share_buffers(self, model: nn.Module) -> None:
        """Each process has its own running statistics; those of rank 0 are evaluated and saved."""
        if self.peers.world > 1:
            self.peers.share(model.buffers())
            if not self.guard.on_device:
                self.guard.buffers.take()
