"""fsdp-cpu-offload: How does one GPU train a billion parameters that do not fit into its memory?

Training in float32 with AdamW keeps 16 bytes a parameter: 16 GB for a billion. `fully_shard` with `CPUOffloadPolicy`
keeps weights, gradients and optimizer state in the memory of the host, also with a single rank. The GPU gets the
weights of one layer while that layer computes, and gives its gradient back.

A limit is set here: 6 GB of the GPU. You will train with and without offloading below that limit.
"""

import os
import time
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

from trueloop.labs.lab import Lab, Page
from trueloop.labs.on_ranks import on_ranks

__all__ = ["LAB"]

LAYERS, WIDTH, STEPS, BATCH = 8, 11_264, 3, 64
LIMIT = 6.0  # GB


def large_model() -> nn.Sequential:
    """On the CPU; 127 million parameters a layer."""
    torch.manual_seed(0)
    layers = [nn.Linear(WIDTH, WIDTH, bias=False, device="meta").to_empty(device="cpu") for _ in range(LAYERS)]
    for layer in layers:
        nn.init.normal_(layer.weight, std=WIDTH**-0.5)
    return nn.Sequential(*(nn.Sequential(layer, nn.GELU()) for layer in layers))


def offload(model: nn.Sequential) -> None:
    """Each layer is a unit that comes to the GPU and leaves it by itself."""
    mesh = init_device_mesh("cuda", (1,))
    for layer in model:
        fully_shard(layer, mesh=mesh, offload_policy=CPUOffloadPolicy())
    fully_shard(model, mesh=mesh, offload_policy=CPUOffloadPolicy())


def train(model: nn.Module, x: Tensor) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = (model(x) - x.roll(1, dims=1)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _on_the_gpu(rank: int) -> dict[str, Any]:
    torch.set_num_threads(os.cpu_count() or 1)
    torch.cuda.set_device(rank)
    total = torch.cuda.get_device_properties(rank).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, LIMIT * 1e9 / total))
    x = torch.randn(BATCH, WIDTH, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    model = large_model()
    parameters = sum(each.numel() for each in model.parameters())
    offload(model)
    begun = time.perf_counter()
    losses = train(model, x)
    seconds = (time.perf_counter() - begun) / STEPS
    peak = torch.cuda.max_memory_allocated() / 1e9
    where = {each.device.type for each in model.parameters()}
    del model
    torch.cuda.empty_cache()
    try:
        train(large_model().cuda(), x)
        plain = ""
    except torch.OutOfMemoryError as error:
        plain = str(error).partition(".")[0]
    return {
        "parameters": parameters, "losses": losses, "peak": peak, "seconds": seconds, "plain": plain,
        "on_host": where == {"cpu"},
    }  # fmt: skip


def measure() -> dict[str, Any]:
    return dict(on_ranks(_on_the_gpu, world=1, backend="nccl")[0])


def answer(page: Page, measured: dict[str, Any]) -> None:
    parameters, losses = measured["parameters"], measured["losses"]
    needed = 16 * parameters / 1e9
    rows = [
        ("plain", needed, "out of memory" if measured["plain"] else "trains"),
        ("offloaded", measured["peak"], f"{measured['seconds']:.1f} s a step"),
    ]
    page.table(f"GB on the GPU, {parameters:,} parameters; the limit is {LIMIT:g}", ("training", "GB", "result"), rows)
    page.says(f"Plain training needs {needed:.1f} GB and runs out of memory below the limit.", bool(measured["plain"]))
    fits = f"Offloaded it trains, with at most {measured['peak']:.1f} GB on the GPU."
    page.says(fits, measured["peak"] < LIMIT and len(losses) == STEPS)
    page.says(f"The loss falls from {losses[0]:.3f} to {losses[-1]:.3f}.", losses[-1] < losses[0])
    page.says("Weights and optimizer state stay in the memory of the host between steps.", measured["on_host"])


LAB = Lab(code=(large_model, offload, train), measure=measure, answer=answer, needs="gpu", seconds=120)
