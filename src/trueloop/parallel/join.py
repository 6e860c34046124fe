"""Under torchrun: join the process group that its variables describe, and leave it again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

__all__ = ["joined"]


@contextmanager
def joined() -> Iterator[None]:
    """A group that is there already stays as it is: whoever made it ends it."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1 or not dist.is_available() or dist.is_initialized():
        yield
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    _meet("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


def _meet(backend: str) -> None:
    """After an elastic restart torchrun's store still holds the addresses of the dead: each attempt meets under its own name."""
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if attempt == "0":
        dist.init_process_group(backend)
        return
    from torch._C._distributed_c10d import PrefixStore  # not there in a torch without torch.distributed
    from torch.distributed.rendezvous import rendezvous

    store, rank, world = next(rendezvous("env://"))
    dist.init_process_group(backend, store=PrefixStore(f"attempt-{attempt}", store), rank=rank, world_size=world)
