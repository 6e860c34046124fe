"""The model against the optimizer, over the first steps: who gets a gradient, who is held, which units are copies of
one another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, final

import torch
from torch import Tensor, nn

from trueloop.data.source import tensors_in
from trueloop.event import IdenticalUnits, ParameterAccount, ParametersAccounted
from trueloop.torch_private.modules import ConvNd, ConvTransposeNd
from trueloop.torch_private.tensors import tensor_version
from trueloop.usercode.ownership import attributes_read, birthplace, cuts_in_forwards, users_classes

__all__ = ["Accounts", "Units", "is_an_expert"]

LOOKED_AT: Final = 1024
"""Values of a parameter that are summed to see whether somebody writes to it by hand."""
FARTHEST: Final = 20_000
"""Nodes of a graph that are walked."""
TOLERANCE: Final = 1e-4
"""Relative to the largest value: rows of a matrix product may differ in their last bits though they are the same
sums."""
_LEAVES: Final = ("detach", "item", "tolist", "numpy", "argmax", "argmin", "round", "sign", "one_hot")
"""Calls whose result has no graph."""


@final
class Accounts:
    """What is known of a model's parameters. Names only: no tensor is kept."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, *, compiled: bool) -> None:
        self.model, self.optimizer, self.compiled = model, optimizer, compiled
        self._had: set[str] = set()
        """Have had a gradient."""
        self._prints: dict[str, tuple[int, float]] = {}
        """Of those that had none at the first look."""
        self._ran: dict[str, bool] = {}
        """Modules that ran, and whether one of their calls recorded a graph."""
        self._behind: set[str] | None = None
        """Parameters behind the model's outputs; None: nobody has looked."""
        self._others: dict[int, bool] = {}
        """Tensors of the optimizer that are not the model's, by their identity, and whether they have had a
        gradient."""

    # -- looks --

    def saw(self, name: str, output: Any) -> None:
        """A module ran. Of a compiled model only the outside is seen."""
        self._ran[name] = self._ran.get(name, False) or any(tensor.grad_fn is not None for tensor in tensors_in(output))

    def saw_output(self, output: Any) -> None:
        """What the whole model gave: walked only if some parameter has been without a gradient so far."""
        if self._behind is None and self._prints:
            ids = _leaves_behind(output)
            self._behind = {name for name, parameter in self.model.named_parameters() if id(parameter) in ids}

    def look(self) -> None:
        """Where gradients exist: after the backward."""
        first = not self._had
        for name, parameter in self.model.named_parameters():
            if parameter.grad is not None:
                self._had.add(name)
            elif first and parameter.requires_grad:
                self._prints[name] = _print_of(parameter)
        mine = {id(parameter) for parameter in self.model.parameters()}
        for tensor in self._held():
            if id(tensor) not in mine:
                self._others[id(tensor)] = self._others.get(id(tensor), False) or tensor.grad is not None

    def _held(self) -> Iterator[Tensor]:
        return (parameter for group in self.optimizer.param_groups for parameter in group["params"])

    # -- the account --

    def told(self, step: int, steps: int) -> ParametersAccounted:
        """After so many steps."""
        orphans = [tensor for tensor in self._held() if self._others.get(id(tensor)) is False]
        accounts, in_order = self._accounts({id(parameter) for parameter in self._held()})
        sizes = tuple(parameter.numel() for parameter in orphans[:16])
        return ParametersAccounted(
            step, None, 0, type(self.model).__name__, steps, accounts, in_order, len(orphans), sizes, None, ()
        )

    def _accounts(self, held: set[int]) -> tuple[tuple[ParameterAccount, ...], int]:
        found: list[ParameterAccount] = []
        in_order = 0
        for name, parameter in self.model.named_parameters():
            has, is_held = name in self._had, id(parameter) in held
            if not parameter.requires_grad or not (has or is_held):
                continue
            if (has and is_held) or self._excused(name, parameter):
                in_order += 1
            elif has or not self.compiled:
                found.append(self.account(name, parameter, is_held))
        return tuple(found), in_order

    def _excused(self, name: str, parameter: Tensor) -> bool:
        """Written to by hand, kept in eval mode on purpose, or an expert whose turn has not come."""
        if name in self._had:
            return self.model.training and not self.model.get_submodule(name.rpartition(".")[0]).training
        return self._prints.get(name) != _print_of(parameter) or is_an_expert(self.model, name, self._had)

    def account(self, name: str, parameter: Tensor, held: bool) -> ParameterAccount:
        ran, graphed = self._how_it_ran(name)
        behind = name in (self._behind or ())
        return ParameterAccount(
            name=name,
            size=parameter.numel(),
            trainable=True,
            held=held,
            has_gradient=name in self._had,
            ran=ran,
            ran_with_graph=graphed,
            defined=birthplace(self.model, name),
            cuts=tuple(dict.fromkeys(cuts_in_forwards(self.model, name, _LEAVES))) if graphed and not behind else (),
        )

    def _how_it_ran(self, name: str) -> tuple[bool, bool]:
        """(did what owns the parameter run, did it record a graph with the parameter in it)"""
        path, _, attribute = name.rpartition(".")
        behind = name in (self._behind or ())
        owner = self.model.get_submodule(path)
        if any(True for _ in users_classes(owner)):  # its forward may or may not use what it owns
            return behind or (path in self._ran and attribute in attributes_read(type(owner))), behind
        while path and path not in self._ran and _is_torchs(self.model.get_submodule(path.rpartition(".")[0])):
            path = path.rpartition(".")[0]  # attention never calls its output layer: it reads the weight
        return path in self._ran, behind or self._ran.get(path, False)


def _leaves_behind(output: Any) -> set[int]:
    """Identities of the leaves of the output's graph."""
    waiting: list[Any] = [tensor.grad_fn for tensor in tensors_in(output) if tensor.grad_fn is not None]
    seen, leaves = set(waiting), set()
    while waiting and len(seen) < FARTHEST:
        node = waiting.pop()
        if not node.next_functions and hasattr(node, "variable"):
            leaves.add(id(node.variable))
        fresh = [following for following, _ in node.next_functions if following is not None and following not in seen]
        seen.update(fresh)
        waiting += fresh
    return leaves


@torch.no_grad()
def _print_of(parameter: Tensor) -> tuple[int, float]:
    """Cheap, and different as soon as somebody writes to it, through `.data` too."""
    return tensor_version(parameter), float(parameter.detach().reshape(-1)[:LOOKED_AT].double().sum())


def _is_torchs(module: nn.Module) -> bool:
    """A layer of torch's that reads the weights of its own parts; containers call them."""
    return type(module).__module__.startswith("torch.") and not isinstance(
        module, (nn.ModuleList, nn.ModuleDict, nn.Sequential)
    )


def is_an_expert(model: nn.Module, name: str, had: set[str]) -> bool:
    """A sibling of the same class, in the same ModuleList or ModuleDict, has had gradients."""
    parts = name.split(".")
    for depth in range(len(parts) - 1):
        above = ".".join(parts[:depth])
        container = model.get_submodule(above)
        if isinstance(container, (nn.ModuleList, nn.ModuleDict)):
            kind = type(model.get_submodule(".".join(parts[: depth + 1])))
            siblings = [key for key, child in container.named_children() if type(child) is kind and key != parts[depth]]
            prefix = above + "." if above else ""
            if any(other.startswith(f"{prefix}{key}.") for key in siblings for other in had):
                return True
    return False


# -- units --


class _Suspect(NamedTuple):
    """A weight whose units were equal at every look so far, under gradients that were equal too."""

    layer: str
    dim: int
    """The dimension that counts the units."""
    unmoved: bool
    """Its gradient has been zero at every look."""


@final
class Units:
    """Units that are one unit: looked at in the first, third and sixth step, between backward and update.

    Zero weights alone mean nothing (last layers of residual branches start so, and part at the first step); that
    gradients are zero means nothing either (a gate that is still shut), unless zeros are also all that some such layer
    is fed: then nothing can ever move it.
    """

    FIRST: Final = 0
    SECOND: Final = 2
    LAST: Final = 5

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._suspects: dict[str, _Suspect] = {}
        self._starved = False

    def saw(self, name: str, given: Any) -> None:
        """What a layer is fed, in the last of the looks."""
        stuck = any(suspect.unmoved and suspect.layer == name for suspect in self._suspects.values())
        if stuck and not self._starved:
            fed = next(tensors_in(given), None)
            self._starved = fed is not None and not bool(fed.any())

    @torch.no_grad()
    def look(self, step: int) -> Iterator[IdenticalUnits]:
        if step == self.FIRST:
            self._suspects = {
                name: suspect
                for name, weight in self.model.named_parameters()
                if (suspect := self._suspect(name, weight))
            }
            return
        for name, weight in self.model.named_parameters():
            suspect = self._suspects.get(name)
            if suspect is None:
                continue
            moved = weight.grad is not None and bool(weight.grad.any())
            same = (
                weight.grad is not None
                and _equal(weight, suspect.dim, TOLERANCE)
                and _equal(weight.grad, suspect.dim, TOLERANCE)
            )
            late = moved and suspect.unmoved and step == self.LAST  # it has only just begun to move
            if same and ((moved and not late) or (step == self.LAST and not moved and self._starved)):
                yield self._compared(name, weight, suspect, step)
            if not same or moved:
                del self._suspects[name]

    def _suspect(self, name: str, weight: Tensor) -> _Suspect | None:
        path = name.rpartition(".")[0]
        owner = self.model.get_submodule(path)
        if not isinstance(owner, (nn.Linear, ConvNd)) or weight.dim() < 2 or weight.grad is None:
            return None
        dim = 1 if isinstance(owner, ConvTransposeNd) else 0
        if weight.shape[dim] < 2 or not torch.equal(weight.select(dim, 0), weight.select(dim, -1)):
            return None  # the first and the last unit: nearly always enough to say no
        if not _equal(weight, dim, 0.0) or not _equal(weight.grad, dim, TOLERANCE):
            return None
        return _Suspect(path, dim, unmoved=not bool(weight.grad.any()))

    def _compared(self, name: str, weight: Tensor, suspect: _Suspect, step: int) -> IdenticalUnits:
        return IdenticalUnits(
            step=step,
            place=None,
            model=0,
            name=type(self.model).__name__,
            parameter=name,
            units=weight.shape[suspect.dim],
            value=float(weight.reshape(-1)[0]),
            gradient_norm=0.0 if weight.grad is None else float(weight.grad.norm()),
            steps=step + 1,
            defined=birthplace(self.model, suspect.layer or name),
        )


def _equal(values: Tensor, dim: int, tolerance: float) -> bool:
    """Is every unit the first one?"""
    if values.is_sparse:
        return False
    largest = values.abs().max()
    apart = (values - values.narrow(dim, 0, 1)).abs().max()
    return bool(torch.isfinite(largest) & (apart <= tolerance * largest))
