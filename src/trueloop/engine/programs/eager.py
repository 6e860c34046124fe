"""program=eager: forward and backward, operation by operation (or compiled by torch.compile)."""

import math
from typing import Final, final

from torch import Tensor

from trueloop.data.source import Batch
from trueloop.engine.call_model import call_model, inputs_by_name
from trueloop.engine.carry import carry_of
from trueloop.engine.evaluate import evaluating
from trueloop.engine.parts import Parts
from trueloop.engine.programs.program import Program
from trueloop.engine.state import State
from trueloop.errors import BadRecipe
from trueloop.measure.model import restored_buffers

__all__ = ["Eager", "refuse_own_form"]

TWICE: Final = (
    "compile={} cannot train a model or loss that computes a derivative itself (autograd.grad with create_graph=True): "
    "torch.compile has no second derivative. No step was taken: set compile=off."
)


@final
class Eager(Program):
    """What nearly every run uses."""

    def __init__(self, parts: Parts, state: State) -> None:
        self.parts, self.state = parts, state
        self._model, self._task, self._precision = parts.forward, parts.task, parts.precision
        self._carry = carry_of(parts.model)

    def backward(self, micro: Batch, divisor: int | float | Tensor, *, observed: bool = False) -> Tensor:
        if self._carry is not None and self.state.batch == 0:
            self._carry.state = None  # an epoch begins
        with self._precision.autocast():
            named = inputs_by_name(self.parts.model, micro.inputs)
            output = self._model(micro.inputs) if named is None else self._model(**named)
            found = self._task.loss(output, micro)
            loss = found.total / divisor
        try:
            self._precision.scaled(loss).backward()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            if "does not currently support double backward" in str(error):
                raise BadRecipe(TWICE.format(self.parts.recipe.compile)) from None
            raise
        if self._task.own_form and divisor is not math.inf:  # by identity: to compare a tensor, the host would wait
            self.parts.terms.add(found)
        return loss.detach()


def refuse_own_form(parts: Parts, batch: Batch) -> None:
    """For programs that record or compile a step: they take a loss of one tensor, which sees no counters."""
    if not parts.task.own_form:
        return
    with evaluating(parts.model), parts.precision.autocast(), restored_buffers(parts.model):
        found = parts.task.loss(call_model(parts.model, batch.inputs), batch)
    named = {"a count": found.count is not None, "parts": bool(found.parts), "the state": parts.task.takes_state}
    if any(named.values()):
        what = " and ".join(name for name, has in named.items() if has)
        verb = "takes" if what == "the state" else "has"
        raise BadRecipe(
            f"program={parts.recipe.program} repeats one recorded step, and the recipe's loss {verb} {what}. Nothing "
            "was trained: set program=eager, or return one loss per sample from loss(output, targets)."
        )
