"""A deep Q network on CartPole: a replay buffer as a `Stream`, and a target network that follows.

trueloop train examples/dqn.py
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from ppo import fallen, moved
from torch import Tensor, nn

from trueloop import Loop, Recipe, Splits, Stream

ENVIRONMENTS, KEPT, LIMIT, DISCOUNT = 16, 20_000, 500, 0.99


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))


def networks() -> dict[str, nn.Module]:
    online, target = network(), network()
    target.load_state_dict(online.state_dict())
    return {"online": online, "target": target.requires_grad_(False)}


class Replay(Stream):
    """Each batch: one step in every environment, then 128 of the steps that were kept."""

    steps_per_epoch = 500
    samples_per_batch = 128

    def __init__(self) -> None:
        self.state, self.age = torch.rand(ENVIRONMENTS, 4) * 0.1 - 0.05, torch.zeros(ENVIRONMENTS)
        self.buffer = torch.zeros(KEPT, 10)  # state, action, state after it, did it fall?
        self.played = 0

    @torch.no_grad()
    def next(self, loop: Loop) -> Tensor:
        self.play(loop.models["online"], explore=max(0.02, 1 - loop.step / 1500))
        filled = min(self.played, KEPT)
        return self.buffer[torch.randint(filled, (128,))]

    def play(self, model: nn.Module, explore: float) -> None:
        action = model(self.state).argmax(1)
        action = torch.where(torch.rand(ENVIRONMENTS) < explore, torch.randint(2, (ENVIRONMENTS,)), action)
        after, self.age = moved(self.state, action), self.age + 1
        fell, over = fallen(after), fallen(after) | (self.age >= LIMIT)
        rows = torch.cat([self.state, action[:, None].float(), after, fell[:, None].float()], 1)
        self.buffer[torch.arange(self.played, self.played + ENVIRONMENTS) % KEPT] = rows
        self.played += ENVIRONMENTS
        self.age = torch.where(over, 0.0, self.age)
        self.state = torch.where(over[:, None], torch.rand(ENVIRONMENTS, 4) * 0.1 - 0.05, after)

    def state_dict(self) -> dict[str, Any]:
        return {"state": self.state, "age": self.age, "buffer": self.buffer, "played": self.played}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state, self.age = state["state"], state["age"]
        self.buffer, self.played = state["buffer"], state["played"]


def step(loop: Loop, rows: Tensor) -> Tensor:
    state, action, after, fell = rows[:, :4], rows[:, 4].long(), rows[:, 5:9], rows[:, 9]
    online, target = loop.models["online"], loop.models["target"]
    with torch.no_grad():
        best = online(after).argmax(1, keepdim=True)
        goal = 1 + DISCOUNT * (1 - fell) * target(after).gather(1, best).squeeze(1)
    loss = F.smooth_l1_loss(online(state).gather(1, action[:, None]).squeeze(1), goal)
    loop.update(loss, clip=10.0)
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
            slow.lerp_(fast, 0.01)
    return loss


def evaluate(models: Any) -> dict[str, float]:
    """The mean length of 32 episodes in which the better action is always taken."""
    state, steps = torch.rand(32, 4) * 0.1 - 0.05, torch.zeros(32)
    alive = torch.ones(32, dtype=torch.bool)
    for _ in range(LIMIT):
        state = moved(state, models["online"](state).argmax(1))
        alive &= ~fallen(state)
        steps += alive
    return {"reward": float(steps.mean())}


def read(request: Any) -> Splits:
    return Splits(train=Replay())


recipe = Recipe(
    name="dqn", model=networks, data=read, step=step, evaluate=evaluate,
    metric="reward", optimizer="adam", lr=1e-3, epochs=4, device="cpu", trackers=(),
)  # fmt: skip
