"""all-reduce-manually: Which two calls replace DistributedDataParallel?

DDP is a broadcast of the weights before training, and an average of the gradients after each backward. Everything
else that it does (buckets, overlap with the backward) is speed.

You will see what the collectives do, and why the average of the ranks' gradients is the gradient of the complete
batch only if every rank has equally many samples.

Exercise: write both calls yourself. The weights of two ranks are then compared with the weights of DDP.
"""

import runpy
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from trueloop.labs.attempt import Attempt
from trueloop.labs.lab import Exercise, Lab, Page
from trueloop.labs.on_ranks import on_ranks

__all__ = ["LAB"]

STEPS, BATCH = 4, 16


def collectives(rank: int) -> dict[str, list[float]]:
    """Rank 0 holds [1, 2], rank 1 holds [10, 20]."""
    mine = torch.tensor([1.0, 2.0]) * 10**rank
    summed, of_zero, all_of_them = mine.clone(), mine.clone(), [torch.empty(2), torch.empty(2)]
    dist.all_reduce(summed)  # in place, on every rank
    dist.broadcast(of_zero, src=0)
    dist.all_gather(all_of_them, mine)
    return {
        "all_reduce": summed.tolist(),
        "broadcast from 0": of_zero.tolist(),
        "all_gather": torch.cat(all_of_them).tolist(),
    }


def mean_gradient(x: Tensor, shares: list[int]) -> Tensor:
    """The average over shares of the gradient of each share's mean loss."""
    weight = torch.zeros(4, requires_grad=True)
    means = [(part @ weight - part.sum(1)).square().mean() for part in x.split(shares)]
    return torch.stack([torch.autograd.grad(mean, weight)[0] for mean in means]).mean(0)


def measure() -> dict[str, Any]:
    x = torch.randn(BATCH, 4)
    whole = mean_gradient(x, [BATCH])
    equal, unequal = mean_gradient(x, [8, 8]), mean_gradient(x, [4, 12])
    return {
        "ranks": on_ranks(collectives),
        "equal shares": ((equal - whole).norm() / whole.norm()).item(),
        "unequal shares": ((unequal - whole).norm() / whole.norm()).item(),
    }


def answer(page: Page, measured: dict[str, Any]) -> None:
    first, second = measured["ranks"]
    page.table("Afterwards", ("collective", "rank 0", "rank 1"), [(n, str(first[n]), str(second[n])) for n in first])
    rows = [(name, measured[name]) for name in ("equal shares", "unequal shares")]
    page.table("Average of the ranks' gradients, against the batch's", ("samples a rank", "relative difference"), rows)
    summed = first["all_reduce"] == second["all_reduce"] == [11.0, 22.0]
    page.says("`all_reduce` sums, in place, on every rank. It does not average: divide by the world size.", summed)
    page.says("`broadcast` overwrites every rank's tensor by that of one.", second["broadcast from 0"] == [1.0, 2.0])
    page.says("With equal shares, the average of gradients is that of the batch.", measured["equal shares"] < 1e-5)
    uneven = "With unequal shares it is not: each rank must then be weighted by its number of samples."
    page.says(uneven, measured["unequal shares"] > 1e-2)


SKELETON = '''"""Write what DistributedDataParallel does, for any model, with torch.distributed.

    same_weights(model)        once, before training: every rank gets the weights and buffers of rank 0
    average_gradients(model)   after each backward: every rank gets the average of the ranks' gradients

The ranks begin with different weights. A parameter may be frozen, or have no gradient. The ranks have
equally many samples. `dist.get_world_size()` is their number; DistributedDataParallel is not allowed.

    trueloop lab all-reduce-manually THIS_FILE.py
"""

import torch
import torch.distributed as dist


def same_weights(model):
    raise NotImplementedError("write same_weights")


def average_gradients(model):
    raise NotImplementedError("write average_gradients")
'''


def _model(seed: int) -> nn.Module:
    """A frozen layer, and one that has no part in the result."""
    torch.manual_seed(seed)
    model = nn.ModuleDict({"first": nn.Linear(4, 8), "last": nn.Linear(8, 1), "unused": nn.Linear(2, 2)})
    model["first"].bias.requires_grad_(False)
    model.register_buffer("scale", torch.full((), 1.0 + seed))
    model.forward = lambda x: model["last"](model["first"](x * model.scale).tanh())
    return model


def _weights(model: nn.Module) -> list[Tensor]:
    return [each.detach().clone() for each in model.state_dict().values()]


def _attempted(rank: int, file: str) -> list[list[Tensor]]:
    """Weights before and after training, by the reader's functions and by DDP."""
    theirs = runpy.run_path(file)
    model, ddp = _model(rank), _model(rank)
    theirs["same_weights"](model)
    wrapped = DistributedDataParallel(ddp, find_unused_parameters=True)
    made = [_weights(model), _weights(ddp)]
    optimizers = [torch.optim.SGD((p for p in each.parameters() if p.requires_grad), lr=0.5) for each in (model, ddp)]
    for step in range(STEPS):
        x = torch.randn(BATCH, 4, generator=torch.Generator().manual_seed(2 * step + rank))
        for each, optimizer in zip((model, wrapped), optimizers, strict=True):
            optimizer.zero_grad()
            (each(x) - x.sum(1, keepdim=True)).square().mean().backward()
            if each is model:
                theirs["average_gradients"](model)
            optimizer.step()
    return [*made, _weights(model), _weights(ddp)]


def check(attempt: Attempt) -> None:
    for name in ("same_weights", "average_gradients"):
        attempt.get(name)
    first, second = on_ranks(_attempted, attempt.module.__file__)
    begun = all(map(torch.equal, first[0], second[0])) and all(map(torch.equal, first[0], first[1]))
    everything = "parameters and buffers, of rank 0, on every rank: which call overwrites a tensor by that of one rank?"
    attempt.require("after same_weights, both ranks have the weights of rank 0", begun, everything)
    together = all(map(torch.equal, first[2], second[2]))
    attempt.expect("after training, both ranks have equal weights", together, "is every gradient exchanged?")
    far = max((a - b).abs().max().item() for a, b in zip(first[2], first[3], strict=True))
    sums = "all_reduce gives the sum of the ranks: what is the average?"
    attempt.expect("the weights are those of DDP", far < 1e-5, sums, f"largest difference {far:.2g}")


LAB = Lab(code=(collectives, mean_gradient), measure=measure, answer=answer, exercise=Exercise(SKELETON, check))
