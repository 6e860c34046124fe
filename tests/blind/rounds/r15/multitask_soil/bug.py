"""Two soil targets (moisture class, clay share) from one shared trunk, micro-batches per task."""
from __future__ import annotations
from dataclasses import dataclass, field
from typing import Callable, Iterator
import torch
from torch import Tensor, nn
import torch.nn.functional as F


@dataclass
class Task:
    name: str
    x: Tensor
    y: Tensor
    loss: Callable[[Tensor, Tensor], Tensor]
    weight: float = 1.0

    def draw(self, gen: torch.Generator, k: int) -> tuple[Tensor, Tensor]:
        i = torch.randint(0, len(self.x), (k,), generator=gen)
        return self.x[i], self.y[i]


class SharedTrunk(nn.Module):
    def __init__(self, d_in: int, heads: dict[str, int]):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(d_in, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU())
        self.heads = nn.ModuleDict({k: nn.Linear(48, n) for k, n in heads.items()})

    def forward(self, x: Tensor, name: str) -> Tensor:
        return self.heads[name](self.trunk(x))


@dataclass
class Accumulator:
    model: SharedTrunk
    tasks: list[Task]
    micro: int = 32
    rounds: int = 2
    lr: float = 3e-3
    history: list[float] = field(default_factory=list)

    def __post_init__(self):
        self.opt = torch.optim.Adam(self.model.parameters(), lr=self.lr)
        self.gen = torch.Generator().manual_seed(99)

    def micro_batches(self) -> Iterator[tuple[Task, Tensor, Tensor]]:
        for task in self.tasks:
            for _ in range(self.rounds):
                yield (task, *task.draw(self.gen, self.micro))

    def step(self) -> None:
        total = 0.0
        for task, x, y in self.micro_batches():
            self.opt.zero_grad()
            part = task.weight * task.loss(self.model(x, task.name), y) / self.rounds
            part.backward()
            total += part.item()
        self.opt.step()
        self.history.append(total)


def measure(n: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 8, generator=g)
    wet = x[:, 0] * x[:, 1] + x[:, 2]
    moisture = torch.bucketize(wet, torch.tensor([-0.6, 0.6]))
    clay = torch.sin(x[:, 3]) + 0.5 * x[:, 4] ** 2 + 0.05 * torch.randn(n, generator=g)
    return x, moisture, clay[:, None]


def main() -> None:
    torch.manual_seed(2)
    x, moisture, clay = measure(1500, 1)
    xt, mt, ct = measure(1000, 2)
    model = SharedTrunk(8, {"moisture": 3, "clay": 1})
    runner = Accumulator(model, [Task("moisture", x, moisture, F.cross_entropy),
                                 Task("clay", x, clay, F.mse_loss)])
    for i in range(600):
        runner.step()
        if i % 150 == 149:
            print(f"step {i + 1}: objective {sum(runner.history[-50:]) / 50:.4f}")
    model.eval()
    with torch.no_grad():
        acc = (model(xt, "moisture").argmax(1) == mt).float().mean().item()
        mse = F.mse_loss(model(xt, "clay"), ct).item()
    print(f"moisture accuracy {acc:.3f}")
    print(f"clay mse {mse:.4f}")


if __name__ == "__main__":
    main()
