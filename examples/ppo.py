"""PPO on CartPole: the data are made by the model, from a `Stream` whose state every checkpoint holds.

trueloop train examples/ppo.py
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from trueloop import Loop, Recipe, Splits, Stream

ENVIRONMENTS, LENGTH, LIMIT = 32, 64, 500
DISCOUNT, TRACE = 0.99, 0.95


def moved(state: Tensor, action: Tensor) -> Tensor:
    """One step of the cart and its pole: position, speed, angle, angular speed of each environment."""
    x, dx, angle, turn = state.unbind(1)
    force = torch.where(action == 1, 10.0, -10.0)
    push = (force + 0.05 * turn**2 * angle.sin()) / 1.1
    bend = (9.8 * angle.sin() - angle.cos() * push) / (0.5 * (4 / 3 - 0.1 * angle.cos() ** 2 / 1.1))
    speed = push - 0.05 * bend * angle.cos() / 1.1
    return torch.stack([x + 0.02 * dx, dx + 0.02 * speed, angle + 0.02 * turn, turn + 0.02 * bend], 1)


def fallen(state: Tensor) -> Tensor:
    return (state[:, 0].abs() > 2.4) | (state[:, 2].abs() > 12 * math.pi / 180)


class Agent(nn.Module):
    """The policy's logits and the value of a state."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
        self.value = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, state: Tensor) -> tuple[Tensor, Tensor]:
        return self.policy(state), self.value(state).squeeze(1)


class Rollouts(Stream):
    """The present policy plays `LENGTH` steps in each environment."""

    steps_per_epoch = 10
    samples_per_batch = ENVIRONMENTS * LENGTH

    def __init__(self) -> None:
        self.state = torch.rand(ENVIRONMENTS, 4) * 0.1 - 0.05
        self.age = torch.zeros(ENVIRONMENTS)

    @torch.no_grad()
    def next(self, loop: Loop) -> dict[str, Tensor]:
        steps: list[dict[str, Tensor]] = []
        for _ in range(LENGTH):
            logits, value = loop.model(self.state)
            choice = torch.distributions.Categorical(logits=logits)
            action = choice.sample()
            after, self.age = moved(self.state, action), self.age + 1
            fell, late = fallen(after), self.age >= LIMIT
            # An episode that is cut off for its length goes on in the value of its last state.
            reward = 1.0 + DISCOUNT * loop.model(after)[1] * (late & ~fell)
            steps.append({"state": self.state, "action": action, "log_prob": choice.log_prob(action), "value": value,
                          "reward": reward, "end": (fell | late).float()})  # fmt: skip
            self.age = torch.where(fell | late, 0.0, self.age)
            self.state = torch.where((fell | late)[:, None], torch.rand(ENVIRONMENTS, 4) * 0.1 - 0.05, after)
        batch = {name: torch.stack([step[name] for step in steps]) for name in steps[0]}
        batch["advantage"] = advantages(batch, loop.model(self.state)[1])
        batch["return"] = batch["advantage"] + batch["value"]
        return {name: value.flatten(0, 1) for name, value in batch.items()}

    def state_dict(self) -> dict[str, Any]:
        return {"state": self.state, "age": self.age}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.state, self.age = state["state"], state["age"]


def advantages(batch: dict[str, Tensor], last: Tensor) -> Tensor:
    """Generalized advantage estimation, backwards in time."""
    found, trace, following = [], torch.zeros_like(last), last
    for reward, value, end in reversed(list(zip(batch["reward"], batch["value"], batch["end"], strict=True))):
        error = reward + DISCOUNT * following * (1 - end) - value
        trace, following = error + DISCOUNT * TRACE * (1 - end) * trace, value
        found.append(trace)
    return torch.stack(found[::-1])


def step(loop: Loop, rows: dict[str, Tensor]) -> dict[str, Tensor]:
    for _ in range(4):
        for chosen in torch.randperm(len(rows["state"])).split(512):
            part = {name: value[chosen] for name, value in rows.items()}
            logits, value = loop.model(part["state"])
            policy = torch.distributions.Categorical(logits=logits)
            ratio = (policy.log_prob(part["action"]) - part["log_prob"]).exp()
            advantage = (part["advantage"] - part["advantage"].mean()) / (part["advantage"].std() + 1e-8)
            gain = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
            error = (value - part["return"]).square().mean()
            loss = -gain + 0.5 * error - 0.01 * policy.entropy().mean()
            loop.update(loss)
    return {"loss": loss, "value_error": error, "entropy": policy.entropy().mean()}


def evaluate(model: Any) -> dict[str, float]:
    """The mean length of 32 episodes in which the better action is always taken."""
    state, steps = torch.rand(32, 4) * 0.1 - 0.05, torch.zeros(32)
    alive = torch.ones(32, dtype=torch.bool)
    for _ in range(LIMIT):
        state = moved(state, model(state)[0].argmax(1))
        alive &= ~fallen(state)
        steps += alive
    return {"reward": float(steps.mean())}


def read(request: Any) -> Splits:
    return Splits(train=Rollouts())


recipe = Recipe(
    name="ppo", model=Agent, data=read, step=step, evaluate=evaluate,
    metric="reward", optimizer="adam", lr=1e-3, clip=0.5, epochs=6, log_every=5, device="cpu", trackers=(),
)  # fmt: skip
