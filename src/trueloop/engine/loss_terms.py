"""What a loss of the user's own returned besides its value, in the micro-batches of one step: its divisor, its parts.

The divisor of a step is the sum of those of its micro-batches, over all processes, and is known only after the last of
them. So gradients are computed with a preliminary divisor, the number of samples, and corrected once before the update.
"""

from collections.abc import Sequence
from typing import Final, final

import torch
from torch import Tensor, nn

from trueloop.data.source import Batch, Splits, moved
from trueloop.engine.call_model import call_model
from trueloop.engine.evaluate import evaluating
from trueloop.engine.nonfinite_guard import Guard
from trueloop.engine.task_kind import LossSum, Task
from trueloop.errors import BadRecipe
from trueloop.measure.model import restored_buffers
from trueloop.parallel.strategy import Strategy
from trueloop.torch_private.foreach import foreach_mul_

__all__ = ["LossTerms", "form_of"]

_NONE: Final = (False, ())  # No divisor of its own, no parts

Form = tuple[bool, tuple[str, ...]]


@final
class LossTerms:
    """Added up during a step. Costs nothing where a loss returns its value only."""

    def __init__(self, strategy: Strategy, guard: Guard, device: torch.device, form: Form | None = None) -> None:
        """`form`: what the loss returns, where a process must know it without a batch; None: what it returns first."""
        self.strategy, self.guard, self.form = strategy, guard, form
        self.zeros = torch.zeros((), dtype=torch.float32 if device.type == "mps" else torch.float64, device=device)
        self._sums: Tensor | None = None  # the divisor, then the parts

    @property
    def names(self) -> tuple[str, ...]:
        """Of the parts."""
        return (self.form or _NONE)[1]

    def add(self, found: LossSum) -> None:
        """The loss of a micro-batch that counts."""
        form = (found.count is not None, tuple(found.parts))
        if self.form is None:
            self.form = form
        if form != self.form:
            said = f"The recipe's loss returned {_form_text(self.form)}, and now {_form_text(form)}"
            raise BadRecipe(f"{said}: it must return the same in every step.")
        if form == _NONE:
            return
        terms = [self.zeros if found.count is None else found.count, *found.parts.values()]
        device, dtype = self.zeros.device, self.zeros.dtype
        sums = torch.stack([torch.as_tensor(each, dtype=dtype, device=device).detach() for each in terms])
        self._sums = sums if self._sums is None else self._sums + sums

    def settle(self, loss: Tensor, divisor: int | Tensor, parameters: Sequence[Tensor]) -> Tensor:
        """The loss of the step by its own divisor: gradients, which were divided by `divisor`, are corrected."""
        if self.form is None or self.form == _NONE:
            return loss
        sums, self._sums = self._sums, None
        if sums is None:  # this process has no sample of a small last batch
            sums = self.zeros.repeat(1 + len(self.names))
        sums = self.strategy.sharers.sum(sums)
        if not self.form[0]:
            self.guard.parts = sums[1:] / divisor
            return loss
        count = torch.where(sums[0] == 0, 1.0, sums[0])  # a step of padding has loss 0
        self.guard.parts = sums[1:] / count
        factor = (divisor / count).to(loss.dtype)
        gradients = self.strategy.mine(each.grad for each in parameters if each.grad is not None)
        if gradients:
            foreach_mul_(gradients, factor)
        return loss * factor


def form_of(task: Task, model: nn.Module, splits: Splits, device: torch.device, strategy: Strategy) -> Form | None:
    """What the loss returns, tried on a few samples: of several processes, one may get no sample of a batch, and must
    know it too. None: each learns it from its own first batch."""
    if not task.own_form:
        return _NONE
    if strategy.sharers.world == 1 or not splits.train.by_index:
        return None
    batch = moved(splits.train.fetch(torch.arange(min(2, len(splits.train)))), device)
    batch = batch if splits.prepare is None else Batch(splits.prepare(batch.inputs), batch.targets)
    with evaluating(model), restored_buffers(model):
        found = task.loss(call_model(model, batch.inputs), batch)
    return found.count is not None, tuple(found.parts)


def _form_text(form: Form) -> str:
    parts = f"the parts {', '.join(form[1])}" if form[1] else "no parts"
    return f"{parts} and {'a' if form[0] else 'no'} count"
