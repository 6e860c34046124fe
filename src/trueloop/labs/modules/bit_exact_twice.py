<<<<<<< HEAD
"""bit-exact-twice: What must be fixed so that a training ends with bit-identical weights twice?

A seed fixes the initial weights and the random numbers that follow, in their order. So anything that draws between two
steps, or draws in a different order, moves everything behind it: a validation with random augmentation, a print of a
random sample, another batch order. And sums depend on the order in which they are computed.

You will train five times and compare the weights, each time with one thing changed.
=======
"""bit-exact-twice: What must be fixed so that a training, repeated or resumed, ends with bit-identical weights?

Random numbers come from generators, and a generator is a state: initialization, dropout and shuffling draw from it in
turn. One more draw anywhere moves all later ones. To resume, every state is needed: weights, optimizer, generators,
and the position in the data.

You will train twice, change one thing at a time, and resume from half of it.
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)
"""

from __future__ import annotations

<<<<<<< HEAD
from hashlib import sha256

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
=======
import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)

from trueloop.labs.lab import Lab, Page

__all__ = ["LAB"]

<<<<<<< HEAD

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
=======
STEPS = 20


class Training:
    """Everything that has a state."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.step = 0

    def train(self, until: int) -> Training:
        while self.step < until:
            x = torch.randn(16, 8)
            loss = (self.model(x) - x.sum(1, keepdim=True)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step += 1
        return self

    def state(self) -> dict[str, Any]:
        return {
            "model": {name: value.clone() for name, value in self.model.state_dict().items()},
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "step": self.step,
        }


def resumed(state: dict[str, Any], without: str = "") -> Training:
    training = Training(seed=99)  # another process: its own initial values
    training.model.load_state_dict(state["model"])
    training.step = state["step"]
    if without != "optimizer":
        training.optimizer.load_state_dict(state["optimizer"])
    if without != "random":
        torch.set_rng_state(state["random"])
    return training.train(STEPS)


def weights(training: Training) -> Tensor:
    return torch.cat([each.detach().flatten() for each in training.model.parameters()])


def one_more_draw() -> Training:
    training = Training(seed=0)
    torch.rand(1)  # a debug print of a random sample, say
    return training.train(STEPS)


def half() -> dict[str, Any]:
    return copy.deepcopy(Training(seed=0).train(STEPS // 2).state())


CASES: dict[str, Callable[[], Training]] = {
    "the same seed": lambda: Training(seed=0).train(STEPS),
    "another seed": lambda: Training(seed=1).train(STEPS),
    "one more random number drawn": one_more_draw,
    "resumed, all states": lambda: resumed(half()),
    "resumed, without the optimizer's state": lambda: resumed(half(), without="optimizer"),
    "resumed, without the generator's state": lambda: resumed(half(), without="random"),
}


def measure() -> dict[str, float]:
    torch.set_num_threads(1)
    reference = weights(Training(seed=0).train(STEPS))
    return {name: (weights(run()) - reference).abs().max().item() for name, run in CASES.items()}


def answer(page: Page, measured: dict[str, float]) -> None:
    rows = [(name, "bit-identical" if apart == 0 else "different", apart) for name, apart in measured.items()]
    page.table(
        f"Weights after {STEPS} steps, beside the first training", ("case", "result", "largest difference"), rows
    )
    page.says("A seed makes a training repeatable on one machine.", measured["the same seed"] == 0)
    page.says("A different seed is a different training.", measured["another seed"] > 1e-3)
    page.says("One additional draw changes everything after it.", measured["one more random number drawn"] > 1e-3)
    page.says("With all states restored, a resumed training is bit-identical.", measured["resumed, all states"] == 0)
    parts = [measured[f"resumed, without the {part}'s state"] for part in ("optimizer", "generator")]
    page.says("Without the optimizer's or the generator's state it is a different training.", min(parts) > 1e-4)


LAB = Lab(code=(Training, resumed, one_more_draw), measure=measure, answer=answer)
>>>>>>> 3549f31a (Labs of modules and optimizers: a model walked, hooks, SGD and AdamW as exercises, weights moved, bit-exact twice, initializations)
