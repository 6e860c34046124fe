"""ddp-on-two: What makes two processes with DistributedDataParallel train as one?

Each rank computes the gradient of its share of the batch. Before the optimizer sees them, DDP averages the gradients
of all ranks. So every rank takes the same step, and nothing else is ever exchanged.

You will learn what is sent, when it is not sent (`no_sync`), and that seeds of the ranks do not matter for weights.
"""

from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from trueloop.labs.lab import Lab, Page
from trueloop.labs.on_ranks import on_ranks

__all__ = ["LAB"]

STEPS, BATCH = 5, 32


def small_model(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))


def batch(step: int) -> tuple[Tensor, Tensor]:
    """The same on every rank, which then takes its own share."""
    draws = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 16, generator=draws)
    return x, x[:, :1].sin()


def train(model: nn.Module, share: slice, *, sync: bool = True) -> Tensor:
    """The weights after a few steps on a share of each batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        x, y = batch(step)
        with nullcontext() if sync else model.no_sync():  # type: ignore[operator]
            loss = nn.functional.mse_loss(model(x[share]), y[share])
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
    return nn.utils.parameters_to_vector(model.parameters()).detach()


def on_a_rank(rank: int) -> dict[str, Any]:
    """Ranks begin with different seeds, on purpose."""
    model = DistributedDataParallel(small_model(seed=rank))
    begin = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    sent: list[int] = []

    def count(_: None, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:  # type: ignore[name-defined]
        sent.append(bucket.buffer().nbytes)
        return allreduce_hook(dist.group.WORLD, bucket)  # type: ignore[arg-type]

    model.register_comm_hook(None, count)
    share = slice(rank * BATCH // 2, (rank + 1) * BATCH // 2)
    weights, sent_in_training = train(model, share), sum(sent)
    sent.clear()
    apart = train(model, share, sync=False)
    return {"begin": begin, "weights": weights, "apart": apart, "sent": sent_in_training, "sent_apart": sum(sent)}


def measure() -> dict[str, Any]:
    first, second = on_ranks(on_a_rank)
    alone = small_model(seed=0)
    weights = train(alone, slice(None))
    return {
        "parameters": weights.numel(),
        "begin_alike": torch.equal(first["begin"], second["begin"]),
        "end_alike": torch.equal(first["weights"], second["weights"]),
        "moved": (weights - first["begin"]).abs().max().item(),
        "from_one_process": (weights - first["weights"]).abs().max().item(),
        "bytes_a_step": first["sent"] / STEPS,
        "bytes_in_no_sync": first["sent_apart"],
        "apart_in_no_sync": (first["apart"] - second["apart"]).abs().max().item(),
    }


def answer(page: Page, measured: dict[str, Any]) -> None:
    page.table(
        f"{STEPS} steps with batches of {BATCH}: one process, and two with half a batch each",
        ("quantity", "value"),
        [
            ("parameters", measured["parameters"]),
            ("largest change of a weight by training", measured["moved"]),
            ("largest difference to one process", measured["from_one_process"]),
            ("bytes that a rank sends in a step", measured["bytes_a_step"]),
            ("largest difference between ranks after steps in no_sync()", measured["apart_in_no_sync"]),
        ],
    )
    page.says("DDP begins with the weights of rank 0 everywhere: seeds do not matter.", measured["begin_alike"])
    page.says("After training, both ranks have bit-identical weights.", measured["end_alike"])
    as_one = measured["from_one_process"] < 1e-5 < measured["moved"]
    page.says("They are the weights of one process with the complete batches, up to rounding.", as_one)
    gradients = measured["bytes_a_step"] == 4 * measured["parameters"]
    page.says("A step sends all gradients once, 4 bytes a parameter, and no weights.", gradients)
    alone = measured["bytes_in_no_sync"] == 0 and measured["apart_in_no_sync"] > 1e-4
    page.says("Within `no_sync()` nothing is sent: a step taken there drives the ranks apart.", alone)


LAB = Lab(code=(train, on_a_rank), measure=measure, answer=answer)
