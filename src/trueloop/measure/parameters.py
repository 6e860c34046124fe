"""Parameters against optimizers: which ones get a gradient, which ones an optimizer holds, how their modules ran."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, final
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from trueloop.event import ParameterAccount, Place
from trueloop.measure.graph import leaves_behind
from trueloop.measure.tensors import evenly_spaced, is_plain, tensors_in
from trueloop.torch_private.tensors import tensor_version
from trueloop.usercode.ownership import attributes_read, detaching_lines, layer_place, users_classes

__all__ = ["Fingerprint", "Gradients", "ModuleRuns", "fingerprint", "held_ids", "is_idle_expert"]
__all__ += ["is_initial", "parameters_of"]

SUMMED: Final = 1024  # Values of a parameter that are summed to see whether the user writes to it
FEW_VALUES: Final = 2  # zeros, ones, an identity
FEWEST: Final = 16  # numbers that say something about their distribution
SPREAD: Final = 1.37  # three standard deviations of the root mean square of n uniform numbers, relative, times sqrt(n)
OUTPUTS: Final = 16  # Tensors of a model's output whose graph is walked


def parameters_of(optimizer: Optimizer) -> Iterator[Tensor]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def held_ids(optimizer: Optimizer) -> set[int]:
    return set(map(id, parameters_of(optimizer)))


class Fingerprint(NamedTuple):
    """Changes as soon as somebody writes to a parameter, through `.data` too."""

    version: int
    total: float


@torch.no_grad()
def fingerprint(parameter: Tensor) -> Fingerprint:
    if not is_plain(parameter) or parameter.is_meta or not parameter.is_floating_point():
        return Fingerprint(tensor_version(parameter), 0.0)  # reading a shard would make other processes wait
    return Fingerprint(tensor_version(parameter), float(parameter.detach().reshape(-1)[:SUMMED].double().sum()))


@torch.no_grad()
def is_initial(parameter: Tensor) -> bool:
    """Constant or uniformly distributed numbers, as PyTorch's layers begin: training gives a weight longer tails."""
    numbers = evenly_spaced(parameter.detach().reshape(-1), SUMMED).double()
    if len(torch.unique(numbers)) <= FEW_VALUES or len(numbers) < FEWEST:
        return True
    largest: float = 3**0.5 * (1 + SPREAD / len(numbers) ** 0.5)  # over the root mean square, if uniform
    return float(numbers.abs().max()) <= largest * float(numbers.square().mean().sqrt())


def is_idle_expert(model: nn.Module, name: str, had: set[str]) -> bool:
    """A sibling of the same class, in the same ModuleList or ModuleDict, has had gradients (`had`: names)."""
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


@final
class ModuleRuns:
    """Which modules ran, which recorded a graph, and the lines that took a result out of the graph."""

    def __init__(self, unseen_cuts: tuple[str, ...]) -> None:
        self.unseen_cuts = unseen_cuts
        """Calls whose result has no graph, and that nobody reports to `cut`: they are looked for in the source."""
        self._ran: WeakSet[nn.Module] = WeakSet()
        self._graphed: WeakSet[nn.Module] = WeakSet()
        self._cuts: dict[tuple[Place, str], set[int]] = {}  # By line and function: identities of the parameters behind
        self._reads: WeakKeyDictionary[type, frozenset[str]] = WeakKeyDictionary()

    def saw(self, module: nn.Module, output: Any) -> None:
        """A module ran."""
        self._ran.add(module)
        if module not in self._graphed and any(tensor.grad_fn is not None for tensor in tensors_in(output, 4)):
            self._graphed.add(module)

    def cut(self, place: Place, function: str, tensor: Tensor) -> None:
        """A line took a tensor out of the graph."""
        self._cuts.setdefault((place, function), set()).update(leaves_behind([tensor]))

    def cuts_behind(self, parameters: set[int]) -> tuple[Place, ...]:
        """Lines that took something computed with these out of the graph; `item()`, mostly a log, only if alone."""
        found = [key for key, behind in self._cuts.items() if behind & parameters]
        strong = [place for place, function in found if function != "item"]
        return tuple(dict.fromkeys(strong or [place for place, _ in found]))

    def cuts_of(self, model: nn.Module, name: str, parameter: Tensor) -> tuple[Place, ...]:
        """The same for one parameter; where none was seen, the lines in its forwards that may have done it."""
        seen = self.cuts_behind({id(parameter)})
        return seen or tuple(dict.fromkeys(detaching_lines(model, name, self.unseen_cuts)))

    def how_it_ran(self, model: nn.Module, name: str, parameter: Tensor, connected: set[int]) -> tuple[bool, bool]:
        """(did the owner of the parameter run, did it record a graph with the parameter in it)"""
        path, _, attribute = name.rpartition(".")
        owner = model.get_submodule(path)
        behind = id(parameter) in connected or any(id(parameter) in ids for ids in self._cuts.values())
        if next(users_classes(owner), None) is not None:  # its forward may or may not use what it owns
            return behind or (owner in self._ran and attribute in self._read_in(type(owner))), behind
        while path and owner not in self._ran and _reads_its_parts(model.get_submodule(path.rpartition(".")[0])):
            path = path.rpartition(".")[0]
            owner = model.get_submodule(path)
        return owner in self._ran, behind or owner in self._graphed

    def _read_in(self, cls: type) -> frozenset[str]:
        if cls not in self._reads:
            self._reads[cls] = attributes_read(cls)
        return self._reads[cls]


def _reads_its_parts(module: nn.Module) -> bool:
    """A layer of torch that reads the weights of its parts (attention never calls its output layer)."""
    container = isinstance(module, (nn.ModuleList, nn.ModuleDict, nn.Sequential))
    return type(module).__module__.startswith("torch.") and not container


@final
class Gradients:
    """Which parameters of one model have had a gradient. Names and identities only: no tensor is kept."""

    def __init__(self) -> None:
        self.had: set[str] = set()  # Names of parameters that had a gradient when an optimizer stepped
        self.reached: set[str] = set()
        """Names of parameters that a backward reached; the user may have removed the gradient before the step."""
        self.first: dict[str, Fingerprint] = {}  # Of parameters without a gradient or optimizer at the first look
        self.connected: set[int] = set()  # Identities of the parameters behind the model's outputs
        self.compiled = False

    def look(self, model: nn.Module, held: set[int]) -> None:
        """Where gradients exist: between backward and step."""
        first = not self.had and not self.first
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                self.had.add(name)
            if first and parameter.requires_grad and (parameter.grad is None or id(parameter) not in held):
                self.first[name] = fingerprint(parameter)

    def walk(self, output: Any) -> None:
        """Find the parameters behind an output of the model."""
        self.connected |= leaves_behind(tensors_in(output, OUTPUTS))

    def accounts(
        self, model: nn.Module, held: set[int], runs: ModuleRuns, counts: Callable[[Tensor], bool]
    ) -> tuple[tuple[ParameterAccount, ...], int]:
        """Those not in order, and the number of those in order. `counts`: has a held parameter without a gradient been
        watched for long enough?"""
        found: list[ParameterAccount] = []
        in_order = 0
        for name, parameter in model.named_parameters():
            has, is_held = name in self.had, id(parameter) in held
            if not parameter.requires_grad or not (has or is_held) or is_lazy(parameter):
                continue
            if (has and is_held) or self._excused(model, name, parameter):
                in_order += 1
            elif has or (counts(parameter) and not self.compiled):
                found.append(self.account(model, name, parameter, is_held, runs))
        return tuple(found), in_order

    def _excused(self, model: nn.Module, name: str, parameter: Tensor) -> bool:
        """Written to by the user, kept in eval mode on purpose, without its gradient on purpose, or an idle expert."""
        if self.first.setdefault(name, now := fingerprint(parameter)) != now:
            return True
        if name in self.had:
            return model.training and not model.get_submodule(name.rpartition(".")[0]).training
        return name in self.reached or is_idle_expert(model, name, self.had)

    def account(self, model: nn.Module, name: str, parameter: Tensor, held: bool, runs: ModuleRuns) -> ParameterAccount:
        ran, graphed = runs.how_it_ran(model, name, parameter, self.connected)
        is_cut = graphed and id(parameter) not in self.connected
        return ParameterAccount(
            name=name,
            size=parameter.numel(),
            trainable=True,
            held=held,
            has_gradient=name in self.had,
            ran=ran,
            ran_with_graph=graphed,
            defined=layer_place(model, name),
            cuts=runs.cuts_of(model, name, parameter) if is_cut else runs.cuts_behind({id(parameter)}),
        )
