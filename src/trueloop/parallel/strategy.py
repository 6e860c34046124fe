"""How the processes of a run share its work. `Single` is what nearly every run uses, and the fake for tests.

    none      one process
    ddp       every process has the model and a share of each batch (replicated.py)
    fsdp      every process has a part of each weight, and a share of each batch (sharded.py)
    hsdp      groups of processes are fsdp each, and every group has the model (sharded.py)
    tp        every process has a part of some layers, and all of each batch (sharded.py, tensor.py)
    fsdp+tp   groups of processes split layers; the groups share each batch and the weights (sharded.py, tensor.py)
    pp        every process has some of the blocks, and all of each batch, in micro-batches (pipelined.py, stages.py)

The numbers are those of one process, to float rounding: a batch is the whole run's, and a loss is divided by all its
targets, so that gradients are added up, not averaged.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, final

import torch
from torch import Tensor, nn

from trueloop.parallel.gradient import clip, norm_of
from trueloop.parallel.peers import Alone, Peers

__all__ = ["Single", "Strategy"]

T = TypeVar("T")  # A micro-batch, of whatever kind


class Strategy(ABC):
    """One way to share the work."""

    name: str
    peers: Peers  # All processes of the run
    sharers: Peers  # those among whom a batch is split; with tp, the processes of a group stand for one
    note: str = ""  # What was decided, for the start of the run; empty: nothing had to be
    in_parts: bool = False  # Does a process hold only a part of some weights?
    copies: bool = False  # Do several processes hold the same weights, which must stay the same?
    in_step: bool = False  # must all sharers compute equally many micro-batches, needing one another for each?
    stages: int = 1  # pp: into how many the model is cut
    stage: int = 0  # pp: the one that this process has

    def spread(self, model: nn.Module, blocks: Sequence[nn.Module]) -> None:
        """The model (the same on all processes), in place, as this strategy holds it. Before its optimizer is made."""

    def groups(self, groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """An optimizer's groups, as its kernels can take them."""
        return groups

    def entrance(self, forward: Any, model: nn.Module) -> Any:
        """What the training calls in place of `forward`, which is the model, compiled or not."""
        return forward

    def settle(self, model: nn.Module) -> None:
        """After a forward without a backward: each process holds its part again, and nothing else."""

    @abstractmethod
    def micros(self, micros: Sequence[T], samples: int) -> Iterable[T]:
        """The micro-batches of a step of `samples` samples over all processes."""

    @abstractmethod
    def add_up(self, losses: Sequence[Tensor], parameters: Sequence[Tensor]) -> Tensor:
        """The loss of the whole step. Afterwards gradients are the whole step's too."""

    def norm(self, parameters: Sequence[Tensor]) -> Tensor:
        """The length of the whole gradient, on the device: the same number on all processes."""
        return norm_of(parameters)

    def clip(self, parameters: Sequence[Tensor], norm: Tensor, limit: float) -> None:
        clip(parameters, norm, limit)

    def keeps(self, parameter: Tensor) -> bool:
        """Does this process update it, or a part of it?"""
        return True

    def mine(self, tensors: Iterable[Tensor]) -> list[Tensor]:
        """What this process holds of each, as plain tensors in the same memory."""
        return list(tensors)

    def where(self, tensor: Tensor) -> tuple[tuple[str, int], ...]:
        """Which part this process holds: (dimension of the mesh, coordinate) for each split; empty: all of it."""
        return ()

    # -- states: whole, so that a checkpoint fits every strategy. All processes call these together. --

    def kind(self, model: nn.Module) -> type[nn.Module]:
        """The class that the recipe's model has: one that is sharded has another, made of it."""
        return type(model)

    def model_state(self, model: nn.Module) -> dict[str, Any]:
        return dict(model.state_dict())

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        return dict(optimizer.state_dict())

    def load_model(self, model: nn.Module, state: Mapping[str, Any]) -> None:
        model.load_state_dict(state)

    def load_optimizer(self, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
        optimizer.load_state_dict(dict(state))


@final
class Single(Strategy):
    """One process: nothing is shared, and it costs nothing."""

    name = "none"

    def __init__(self, note: str = "") -> None:
        self.peers = self.sharers = Alone()
        self.note = note

    def micros(self, micros: Sequence[T], samples: int) -> Iterable[T]:
        return micros

    def add_up(self, losses: Sequence[Tensor], parameters: Sequence[Tensor]) -> Tensor:
        return self.peers.add_up(losses, parameters)
