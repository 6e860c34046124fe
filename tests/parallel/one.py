"""A process group of this process alone: for code that wants a mesh, where it does not matter how large that is."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch.distributed as dist
from torch._C._distributed_c10d import FileStore

__all__ = ["world_of_one"]


@contextmanager
def world_of_one() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", store=FileStore(str(Path(folder, "store")), 1), rank=0, world_size=1)
        try:
            yield
        finally:
            dist.destroy_process_group()
