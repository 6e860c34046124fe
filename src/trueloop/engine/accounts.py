"""The parameters of a run's first steps: which get a gradient, which the optimizer holds, which units are equal."""

from collections.abc import Iterator
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from trueloop.event import IdenticalUnits, ParameterAccount, ParametersAccounted
from trueloop.measure.parameters import Gradients, ModuleRuns, held_ids, parameters_of
from trueloop.measure.units import LOOKS, EqualUnits, equal_units, is_fed

__all__ = ["Accounts", "Units"]

# Calls whose result has no graph
_LEAVES: Final = ("detach", "item", "tolist", "numpy", "argmax", "argmin", "round", "sign", "one_hot")


@final
class Accounts:
    """What is known of a model's parameters. No tensor is kept."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, *, compiled: bool) -> None:
        self.model, self.optimizer = model, optimizer
        self.runs, self.gradients = ModuleRuns(_LEAVES), Gradients()
        self.gradients.compiled = compiled
        self._others: dict[int, bool] = {}  # tensors that only the optimizer holds, by id: had they a gradient?

    def saw(self, module: nn.Module, output: Any) -> None:
        """A module ran. Of a compiled model only the outermost call is seen."""
        self.runs.saw(module, output)

    def saw_output(self, output: Any) -> None:
        """The output of the model: its graph is walked only if some parameter has had no gradient so far."""
        if not self.gradients.connected and self.gradients.first:
            self.gradients.walk(output)

    def look(self) -> None:
        """After the backward, where gradients exist."""
        self.gradients.look(self.model, held_ids(self.optimizer))
        own = {id(parameter) for parameter in self.model.parameters()}
        for tensor in parameters_of(self.optimizer):
            if id(tensor) not in own:
                self._others[id(tensor)] = self._others.get(id(tensor), False) or tensor.grad is not None

    def parameters_accounted(self, step: int, steps: int) -> ParametersAccounted:
        """The event after this number of steps."""
        orphans = [tensor for tensor in parameters_of(self.optimizer) if self._others.get(id(tensor)) is False]
        name, held = type(self.model).__name__, held_ids(self.optimizer)
        accounts, in_order = self.gradients.accounts(self.model, held, self.runs, lambda _: True)
        sizes = tuple(parameter.numel() for parameter in orphans[:16])
        return ParametersAccounted(step, None, 0, name, steps, accounts, in_order, len(orphans), sizes, None, ())

    def account(self, name: str, parameter: Tensor, held: bool) -> ParameterAccount:
        return self.gradients.account(self.model, name, parameter, held, self.runs)


@final
class Units:
    """Looks for equal units in the steps `LOOKS`, between backward and update."""

    FIRST, SECOND, LAST = LOOKS

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._candidates: list[EqualUnits] = []
        self._starved = False

    def saw(self, name: str, given: Any) -> None:
        """The input of a layer, in the step of the last look."""
        if not self._starved and any(candidate.layer == name for candidate in self._candidates):
            self._starved = is_fed(given) is False

    @torch.no_grad()
    def look(self, step: int) -> Iterator[IdenticalUnits]:
        if step == self.FIRST:
            self._candidates = list(equal_units(self.model, {id(each) for each in self.model.parameters()}))
            return
        verdicts = [(candidate, candidate.look(step)) for candidate in self._candidates]
        self._candidates = [candidate for candidate, verdict in verdicts if verdict == "keep"]
        for candidate, verdict in verdicts:
            stuck = verdict == "keep" and step == self.LAST and self._starved
            weight = candidate.ref()
            if weight is not None and (verdict == "report" or stuck):
                yield candidate.compared(self.model, weight, step=step, place=None, number=0, look=step, built=None)
