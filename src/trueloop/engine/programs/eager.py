"""program=eager: forward and backward, operation by operation (or compiled by torch.compile)."""

from typing import final

from torch import Tensor

from trueloop.data.source import Batch
from trueloop.engine.parts import Parts
from trueloop.engine.programs.program import Program
from trueloop.engine.state import State

__all__ = ["Eager"]


@final
class Eager(Program):
    """What nearly every run uses."""

    def __init__(self, parts: Parts, state: State) -> None:
        self.parts, self.state = parts, state
        self._model, self._task, self._precision = parts.forward, parts.task, parts.precision

    def backward(self, micro: Batch, divisor: int | float | Tensor, *, observed: bool = False) -> Tensor:
        with self._precision.autocast():
            loss = self._task.loss_sum(self._model(micro.inputs), micro.targets) / divisor
        self._precision.scaled(loss).backward()  # type: ignore[no-untyped-call]
        return loss.detach()
