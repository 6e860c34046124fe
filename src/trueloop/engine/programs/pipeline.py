"""parallel=pp: the micro-batches of a step pass through the stages of the model, forward and backward in turns."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, final

import torch
from torch import Tensor

from trueloop.data.source import Batch, tensors_in
from trueloop.engine.call_model import call_model
from trueloop.engine.parts import Parts
from trueloop.engine.programs.program import Program
from trueloop.engine.state import State
from trueloop.engine.task_kind import LossSum
from trueloop.parallel.pipeline_schedule import PipelineSchedule
from trueloop.parallel.pipelined import Pipelined

__all__ = ["Pipeline"]


@final
class Pipeline(Program):
    """One stage of it."""

    def __init__(self, parts: Parts, state: State) -> None:
        assert isinstance(parts.strategy, Pipelined)
        self.parts, self.state, self._strategy = parts, state, parts.strategy
        self._stages = self._strategy.split[parts.model]
        self._schedule = PipelineSchedule(self._strategy.group, parts.device)

    def backward(self, micro: Batch, divisor: int | float | Tensor, *, observed: bool = False) -> Tensor:
        """`micro`: all micro-batches of the step, as lists. The loss is 0 on all stages but the last."""
        micros = list(map(Batch, micro.inputs, micro.targets))
        total = torch.zeros((), device=self.parts.device)
        for shape, alike in groupby(micros, key=_shape):
            for loss in self._pass(list(alike), shape, divisor):
                total = total + loss
        return total

    def _pass(self, micros: Sequence[Batch], shape: Any, divisor: int | float | Tensor) -> Iterator[Tensor]:
        found: dict[int, LossSum] = {}
        last = self._strategy.stage == self._strategy.stages - 1

        def forward(number: int, hidden: Tensor | None) -> Tensor:
            batch, task = micros[number], self.parts.task
            with self.parts.precision.autocast():
                result = self._stages.run(lambda: call_model(self.parts.model, batch.inputs), hidden)
                if not last:
                    sent: Tensor = result
                    return sent
                found[number] = task.loss(result, batch)
                return found[number].total / divisor

        yield from self._schedule.run(forward, len(micros), shape)
        if self.parts.task.own_form:
            self._add_terms([found[number] for number in sorted(found)])

    def _add_terms(self, found: Sequence[LossSum]) -> None:
        """Only the last stage has seen what the loss returned besides its value."""
        own = [(each.count if each.count is None else float(each.count), _floats(each.parts)) for each in found]
        for count, parts in self._strategy.peers.gather(own)[-1]:
            sums = {name: torch.tensor(value) for name, value in parts.items()}
            self.parts.terms.add(LossSum(torch.zeros(()), count, sums))


def _floats(parts: Any) -> dict[str, float]:
    return {name: float(value) for name, value in parts.items()}


def _shape(micro: Batch) -> tuple[Any, ...]:
    """Micro-batches of one shape can share a schedule."""
    return tuple((tuple(each.shape), each.dtype) for each in tensors_in((micro.inputs, micro.targets)))
