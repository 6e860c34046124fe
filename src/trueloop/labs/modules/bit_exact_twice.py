"""bit-exact-twice: What must be fixed so that a training ends with bit-identical weights twice?

A seed fixes the initial weights and the random numbers that follow, in their order. So anything that draws between two
steps, or draws in a different order, moves everything behind it: a validation with random augmentation, a print of a
random sample, another batch order. And sums depend on the order in which they are computed.

You will train five times and compare the weights, each time with one thing changed.
"""

from hashlib import sha256

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]


def trained(seed: int | None, draw_between: bool = False) -> str:
    """A digest of the weights after three epochs."""
    draws = torch.Generator().manual_seed(1)
    data = TensorDataset(torch.randn(64, 8, generator=draws), torch.randint(0, 3, (64,), generator=draws))
    if seed is not None:
        torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        for x, y in DataLoader(data, batch_size=16, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        if draw_between:
            torch.rand(1)  # somebody logs a random sample after the epoch
    return sha256(b"".join(weight.detach().numpy().tobytes() for weight in model.parameters())).hexdigest()[:8]


def measure() -> dict[str, str | float]:
    torch.set_num_threads(1)
    large, small = torch.tensor(1e8), torch.tensor(1.0)
    torch.seed()  # as in a new process
    return {
        "seed 0": trained(0),
        "seed 0 again": trained(0),
        "seed 1": trained(1),
        "no seed": trained(None),
        "no seed again": trained(None),
        "seed 0, one draw after each epoch": trained(0, draw_between=True),
        "(1e8 - 1e8) + 1": ((large - large) + small).item(),
        "1e8 + (1 - 1e8)": (large + (small - large)).item(),
    }


def answer(page: Page, measured: dict[str, str | float]) -> None:
    page.table(
        "Digest of the final weights",
        ("training", "digest"),
        [each for each in measured.items() if isinstance(each[1], str)],
    )
    page.says("With one seed, both trainings end bit-identical.", measured["seed 0"] == measured["seed 0 again"])
    page.says("Another seed is another training.", measured["seed 0"] != measured["seed 1"])
    page.says(
        "Without a seed, no training repeats (`trueloop explain seed`).",
        measured["no seed"] != measured["no seed again"],
    )
    moved = measured["seed 0"] != measured["seed 0, one draw after each epoch"]
    page.says("One number drawn between epochs changes everything behind it.", moved)
    one, other = measured["(1e8 - 1e8) + 1"], measured["1e8 + (1 - 1e8)"]
    order = f"Sums depend on their order: (1e8 - 1e8) + 1 is {one:g}, 1e8 + (1 - 1e8) is {other:g}."
    page.says(f"{order} So do results of other kernels, or of another number of threads.", one != other)


LAB = Lab(code=(trained,), measure=measure, answer=answer)
