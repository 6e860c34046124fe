"""ddp: every process has the full model and a share of each batch. Gradients are all-reduced during the backward
(torch's DistributedDataParallel), summed and not averaged, once per optimizer step.

A step without samples for some process (a small last batch) is summed afterwards in one message, to which that process
contributes zeros: nobody waits for its backward.
"""

import inspect
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar, final

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from trueloop.parallel.peers import Group
from trueloop.parallel.strategy import Strategy

__all__ = ["Replicated"]

T = TypeVar("T")

# Are running statistics sent before each forward? The option has another name since torch 2.13.
_WORDS = inspect.signature(DistributedDataParallel).parameters
_SYNC_BUFFERS: Final = "forward_sync_buffers" if "forward_sync_buffers" in _WORDS else "broadcast_buffers"


@final
class Replicated(Strategy):
    """`after`: gradients are sent after the backward, in one message: for programs with a backward of their own."""

    name = "ddp"
    copies = True

    def __init__(self, peers: Group, *, after: bool = False, note: str = "") -> None:
        self.peers = self.sharers = self._group = peers
        self.note = note
        self._after = after
        self._wrapped: DistributedDataParallel | None = None
        self._sent = False

    def entrance(self, forward: Any, model: nn.Module) -> Any:
        if self._after:
            return forward
        _say_nothing_of_unused(self._wrap(nn.PReLU().to(self._group.device)), self._group.device)
        self._wrapped = self._wrap(forward)
        # A lambda: torch reads the annotations of a hook, and here they are texts.
        self._wrapped.register_comm_hook(self._group.group, lambda group, bucket: _sum(group, bucket))
        return self._wrapped

    def _wrap(self, forward: Any) -> DistributedDataParallel:
        # Parameters that no sample of a process reaches are looked for in each step: they may change.
        options: dict[str, Any] = {_SYNC_BUFFERS: False, "init_sync": False, "find_unused_parameters": True}
        return DistributedDataParallel(forward, process_group=self._group.group, **options)

    def micros(self, micros: Sequence[T], samples: int) -> Iterator[T]:
        everybody = samples >= self.sharers.world
        self._sent = everybody and self._wrapped is not None
        for number, micro in enumerate(micros):
            if self._wrapped is not None:
                self._wrapped.require_backward_grad_sync = everybody and number == len(micros) - 1
            yield micro

    def add_up(self, losses: Sequence[Tensor], parameters: Sequence[Tensor]) -> Tensor:
        return self.peers.add_up(losses, () if self._sent else parameters)


def _say_nothing_of_unused(small: DistributedDataParallel, device: torch.device) -> None:
    """torch says once per process, past Python's warnings, that it looked for unused parameters and found none. Here it
    says so of a layer that nobody needs, into nothing: for most models it is as it should be."""
    sys.stderr.flush()
    with open(os.devnull, "wb") as nothing:
        kept = os.dup(2)
        os.dup2(nothing.fileno(), 2)
        try:
            small(torch.zeros(1, device=device))
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _sum(group: dist.ProcessGroup | None, bucket: Any) -> Any:
    """The sum: torch's own would divide it by the number of processes."""
    sent = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
    assert sent is not None
    return sent.get_future().then(lambda future: future.value()[0])
