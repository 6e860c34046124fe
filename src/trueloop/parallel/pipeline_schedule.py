"""The micro-batches of a step through the stages of a pipeline: torch's 1F1B schedule, which computes the backward of
one micro-batch as soon as it can, and the forward of another while it waits.

torch prepares a schedule for tensors of one shape, by a forward and a backward whose results it throws away; so each
shape has a schedule of its own. With fewer micro-batches than stages there is nothing to alternate: GPipe's schedule
computes all forwards, then all backwards.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, final

import torch
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from trueloop.measure.randomness import fence
from trueloop.parallel.peers import Group

__all__ = ["PipelineSchedule"]

KEPT: Final = 4  # schedules that are kept, each with room for what it receives: whole batches, and the last one

Forward = Callable[[int, Tensor | None], Tensor]
"""(number of a micro-batch, what the stage before sent) -> what the next stage is sent; the last stage: the loss."""


@final
class PipelineSchedule:
    """One process's side of it. All processes call `run` together."""

    def __init__(self, peers: Group, device: torch.device) -> None:
        self.peers, self.device = peers, device
        self._schedules: OrderedDict[Hashable, tuple[Any, _Stage]] = OrderedDict()

    def run(self, forward: Forward, count: int, shape: Hashable) -> list[Tensor]:
        """Adds up gradients. The losses of the micro-batches, on the last stage. `shape`: of a micro-batch."""
        schedule, stage = self._schedule(count, shape)
        stage.compute = forward
        numbers, losses = torch.arange(count), list[Tensor]()
        last = self.peers.rank == self.peers.world - 1
        given = (numbers,) if self.peers.first else ()
        try:
            schedule.step(
                *given,
                target=numbers if last else None,
                losses=losses if last else None,
                number=numbers,
                return_outputs=False,
            )
        finally:
            stage.compute = None
        return [loss.detach() for loss in losses]

    def _schedule(self, count: int, shape: Hashable) -> "tuple[Any, _Stage]":
        key = (count, shape)
        if key not in self._schedules:
            module = _Stage(first=self.peers.first)
            stage = PipelineStage(module, self.peers.rank, self.peers.world, self.device, group=self.peers.group)
            kind = Schedule1F1B if count >= self.peers.world else ScheduleGPipe
            # The last stage returns the loss itself; our losses are divided by all targets: nothing is averaged.
            self._schedules[key] = kind(stage, count, loss_fn=lambda loss, _: loss, scale_grads=False), module
        self._schedules.move_to_end(key)
        while len(self._schedules) > KEPT:
            self._schedules.popitem(last=False)
        return self._schedules[key]


@final
class _Stage(nn.Module):
    """What torch takes for the model of a stage."""

    def __init__(self, *, first: bool) -> None:
        super().__init__()
        self.first = first
        self.compute: Forward | None = None
        self._prepared = False

    def forward(self, *received: Tensor, number: Tensor) -> Tensor:
        assert self.compute is not None
        hidden = None if self.first else received[0]
        if self._prepared:
            return self.compute(int(number), hidden)
        self._prepared = True
        with fence():  # torch only looks at the shapes
            return self.compute(int(number), hidden)
