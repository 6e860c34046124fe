"""Several ranks on this machine: processes that meet over a file, for labs about more than one process."""

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

__all__ = ["on_ranks"]

PATIENCE: Final = timedelta(seconds=60)  # a rank that waits longer for another one fails


def on_ranks(work: Callable[..., Any], *arguments: Any, world: int = 2, backend: str = "gloo") -> list[Any]:
    """What `work(rank, *arguments)` returns on each rank. The ranks are forked from a clean process, which has imported
    torch and done nothing else: a process that has used threads or a GPU must not be forked."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.nn.parallel", "torch.distributed.fsdp"])
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(world, mp_context=context) as pool:
        where = str(Path(folder, "meeting"))
        ranks = [pool.submit(_as_rank, rank, world, backend, where, work, arguments) for rank in range(world)]
        return [rank.result() for rank in ranks]


def _as_rank(rank: int, world: int, backend: str, where: str, work: Callable[..., Any], arguments: Any) -> Any:
    if backend == "gloo":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the processors of this machine are enough
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group(backend, init_method=f"file://{where}", rank=rank, world_size=world, timeout=PATIENCE)
    try:
        result = work(rank, *arguments)
        dist.barrier()  # nobody leaves while another one still talks to it
        return result
    finally:
        dist.destroy_process_group()
