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
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()
