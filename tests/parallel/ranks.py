"""Several processes that are one run: forked from this warm process, met over a file, in milliseconds."""

from __future__ import annotations

import os
import pickle
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore


def on_ranks(work: Callable[[int], Any], world: int = 2) -> list[Any]:
    """What `work(rank)` returns on each."""
    with tempfile.TemporaryDirectory() as folder:
        pipes = [os.pipe() for _ in range(world)]
        children = []
        for rank in range(world):
            child = os.fork()
            if child == 0:
                _be(rank, world, Path(folder) / "store", work, pipes[rank][1])
            children.append(child)
        for _, writing in pipes:
            os.close(writing)
        answers = []
        for reading, _ in pipes:
            with os.fdopen(reading, "rb") as pipe:
                answers.append(pipe.read())
        for child in children:
            os.waitpid(child, 0)
    said = [pickle.loads(answer) if answer else (False, "the process died") for answer in answers]
    for rank, (good, value) in enumerate(said):
        if not good:
            pytest.fail(f"process {rank}: {value}")
    return [value for _, value in said]


def _be(rank: int, world: int, store: Path, work: Callable[[int], Any], writing: int) -> None:
    try:
        dist.init_process_group(
            "gloo", store=FileStore(str(store), world), rank=rank, world_size=world, timeout=timedelta(seconds=60)
        )
        answer = pickle.dumps((True, work(rank)))
        dist.barrier()
    except BaseException:
        answer = pickle.dumps((False, traceback.format_exc()))
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(answer)
    os._exit(0)
