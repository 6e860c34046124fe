"""The seam to other processes: `Alone` is the fake that ships with it, and what nearly every run uses."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, final

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["Alone", "Group", "Peers", "find_peers"]


class Peers(ABC):
    """The processes of one run, this one included."""

    rank: int
    world: int

    @property
    def first(self) -> bool:
        """Does this process speak for all (prints, writes)?"""
        return self.rank == 0

    @abstractmethod
    def sum(self, value: Any) -> Any:
        """An int (of Python, or an int64 on the device), or a tensor (which may be changed), added up over all."""

    @abstractmethod
    def any(self, asked: bool) -> bool:
        """Does any process say so?"""

    @abstractmethod
    def add_up(self, losses: Sequence[Tensor], parameters: Sequence[Tensor]) -> Tensor:
        """One step's losses, and each parameter's gradient, become their sum over all micro-batches and processes.
        A gradient that is missing here counts as zero; one that is missing everywhere stays missing."""

    @abstractmethod
    def gather(self, value: Any) -> list[Any]:
        """What each process says, in the order of their ranks."""

    @abstractmethod
    def share(self, tensors: Iterable[Tensor]) -> None:
        """Everybody's become those of the first process."""

    @abstractmethod
    def wait(self) -> None:
        """For all to arrive here."""


def _added(losses: Sequence[Tensor]) -> Tensor:
    return losses[0] if len(losses) == 1 else torch.stack(tuple(losses)).sum()


@final
class Alone(Peers):
    """One process: everything is itself, and costs nothing."""

    rank = 0
    world = 1

    def sum(self, value: Any) -> Any:
        return value

    def any(self, asked: bool) -> bool:
        return asked

    def add_up(self, losses: Sequence[Tensor], parameters: Sequence[Tensor]) -> Tensor:
        return _added(losses)

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def share(self, tensors: Iterable[Tensor]) -> None:
        return

    def wait(self) -> None:
        return


@final
class Group(Peers):
    """A process group of torch.distributed: the default one, in which all are, or some of them."""

    def __init__(self, device: torch.device, group: dist.ProcessGroup | None = None) -> None:
        self.rank, self.world, self.device, self.group = dist.get_rank(group), dist.get_world_size(group), device, group

    def sum(self, value: Any) -> Any:
        """A tensor even for a whole number of Python: nobody waits for the device to have it."""
        if isinstance(value, int):
            value = torch.tensor(value, device=self.device)
        dist.all_reduce(value, group=self.group)
        return value

    def any(self, asked: bool) -> bool:
        return bool(self.sum(int(asked)).item() > 0)

    def add_up(self, losses: Sequence[Tensor], parameters: Sequence[Tensor]) -> Tensor:
        # A rank without samples in a small last batch sends zeros, so that nobody waits for it.
        loss = _added(losses).float() if losses else torch.zeros((), device=self.device)
        for kind in sorted({parameter.dtype for parameter in parameters}, key=str):
            self._add_gradients([parameter for parameter in parameters if parameter.dtype == kind])
        dist.all_reduce(loss, group=self.group)
        return loss

    def _add_gradients(self, parameters: Sequence[Tensor]) -> None:
        """One flat message for all, with a word per parameter: how many processes have a gradient of it."""
        present = [parameter.grad is not None for parameter in parameters]
        gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
        words = torch.tensor(present, dtype=gradients[0].dtype, device=gradients[0].device)
        flat = torch.cat([*(gradient.reshape(-1) for gradient in gradients), words])
        dist.all_reduce(flat, group=self.group)
        *parts, words = torch.split(flat, [*(gradient.numel() for gradient in gradients), len(words)])
        # Only who misses some must ask whether others have them, and wait for the device's answer.
        somewhere = present if all(present) else words.tolist()
        for parameter, gradient, part, exists in zip(parameters, gradients, parts, somewhere, strict=True):
            parameter.grad = gradient.copy_(part.view_as(gradient)) if exists else None

    def gather(self, value: Any) -> list[Any]:
        everybody: list[Any] = [None] * self.world
        dist.all_gather_object(everybody, value, group=self.group)
        return everybody

    def share(self, tensors: Iterable[Tensor]) -> None:
        for tensor in tensors:
            whole = tensor.detach().contiguous()
            dist.broadcast(whole, group=self.group, group_src=0)
            if whole.data_ptr() != tensor.data_ptr():
                tensor.detach().copy_(whole)

    def wait(self) -> None:
        dist.barrier(self.group)


def find_peers(device: torch.device) -> Peers:
    """The group that is there (torchrun and `init_process_group` have been at work), or Alone."""
    return Group(device) if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1 else Alone()
