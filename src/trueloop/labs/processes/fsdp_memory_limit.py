"""fsdp-memory-limit: How does a model train that does not fit into the memory of one rank?

A training step keeps weights, gradients and, for AdamW, two numbers more for each weight: 16 bytes a parameter, on
every rank, however many ranks there are. `fully_shard` keeps a part of each of them on each rank, and gathers the
weights of one layer only while that layer computes.

A limit is set here: 60 % of what plain training needs. You will measure what each rank holds, and compare the weights
after training.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from trueloop.labs.lab import Lab, Page
from trueloop.labs.on_ranks import on_ranks
from trueloop.results.document import Code

__all__ = ["LAB"]

LAYERS, WIDTH, STEPS = 8, 192, 3
LIMIT = 0.6


def deep_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(LAYERS)))


def shard(model: nn.Sequential) -> None:
    """Each layer is a unit that is gathered and freed by itself."""
    mesh = init_device_mesh("cpu", (2,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


def held_bytes(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """What this rank holds between backward and step, when everything exists."""

    def local(tensor: Any) -> int:
        part = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        return int(part.nbytes) if isinstance(part, Tensor) else 0

    parameters = list(model.parameters())
    states = [value for state in optimizer.state.values() for value in state.values()]
    return {
        "weights": sum(map(local, parameters)),
        "gradients": sum(local(each.grad) for each in parameters),
        "optimizer": sum(map(local, states)),
    }


def train(model: nn.Module, inputs: list[Tensor]) -> dict[str, int]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    held: dict[str, int] = {}
    for x in inputs:
        optimizer.zero_grad()
        (model(x) - x.roll(1, dims=1)).square().mean().backward()
        optimizer.step()
        held = held_bytes(model, optimizer)
    return held


def _batches() -> list[Tensor]:
    return list(torch.randn(STEPS, 16, WIDTH, generator=torch.Generator().manual_seed(1)))


def _on_a_rank(rank: int) -> tuple[dict[str, int], list[Tensor]]:
    model = deep_model()
    shard(model)
    held = train(model, [x.chunk(2)[rank] for x in _batches()])
    whole = [each.full_tensor() if isinstance(each, DTensor) else each for each in model.parameters()]
    return held, [each.detach() for each in whole]


def measure() -> dict[str, Any]:
    model = deep_model()
    before = [each.detach().clone() for each in model.parameters()]
    plain = train(model, _batches())
    ranks = on_ranks(_on_a_rank)

    def far(one: list[Tensor], other: list[Tensor]) -> float:
        return max((a - b).abs().max().item() for a, b in zip(one, other, strict=True))

    after = [each.detach() for each in model.parameters()]
    return {
        "parameters": sum(each.numel() for each in after),
        "plain": plain,
        "sharded": [held for held, _ in ranks],
        "layer": sum(each.nbytes for each in model[0].parameters()),
        "moved": far(before, after),
        "difference": far(after, ranks[0][1]),
    }


def answer(page: Page, measured: dict[str, Any]) -> None:
    plain: dict[str, int] = measured["plain"]
    first, second = measured["sharded"]
    needed, sharded = sum(plain.values()), max(sum(first.values()), sum(second.values()))
    limit, peak = LIMIT * needed, sharded + measured["layer"]
    rows = [(name, plain[name], first[name], second[name]) for name in plain]
    rows += [("sum", needed, sum(first.values()), sum(second.values()))]
    title = f"Bytes, {measured['parameters']:,} parameters; the limit is {limit:,.0f}"
    page.table(title, ("what", "plain, every rank", "sharded, rank 0", "sharded, rank 1"), rows)
    each = needed / measured["parameters"]
    page.says("Plain training with AdamW keeps 16 bytes a parameter.", 15.9 < each < 16.1)
    page.says(f"Plain training does not fit the limit: it needs {needed / limit:.2f} times as much.", needed > limit)
    fits = f"Sharded over two ranks it fits, with one layer gathered: {peak / limit:.2f} of the limit."
    page.says(fits, peak <= limit and sharded < 0.52 * needed)
    same = measured["difference"] < 1e-4 < measured["moved"]
    page.says("The weights after training are those of plain training, up to rounding.", same)
    page.show(Code("trueloop train digits --nproc 2 --set parallel=fsdp", title="The same for a recipe"))


LAB = Lab(code=(shard, held_bytes, train), measure=measure, answer=answer)
