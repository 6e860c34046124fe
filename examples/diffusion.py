"""Denoising diffusion of points on a spiral: a loss that draws, an average of the weights, and samples as the score.

trueloop train examples/diffusion.py
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trueloop import Loop, Recipe, Splits, Tensors

STEPS = 60
BETAS = torch.linspace(1e-3, 0.12, STEPS)
KEPT = (1 - BETAS).cumprod(0)  # How much of the point is left after each step of noise


def spiral(samples: int, seed: int) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    angle = 3 * torch.pi * torch.rand(samples, generator=draw).sqrt()
    points = torch.stack([angle.cos(), angle.sin()], 1) * angle[:, None] / (3 * torch.pi)
    return 2 * points + 0.02 * torch.randn(samples, 2, generator=draw)


def read(request: Any) -> Splits:
    train, valid = spiral(8192, 0), spiral(1024, 1)
    return Splits(Tensors(train), Tensors(valid))


class Denoiser(nn.Module):
    """The noise in a point, given the step."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Embedding(STEPS, 128)
        self.first = nn.Linear(2, 128)
        self.rest = nn.Sequential(nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(),
                                  nn.Linear(128, 2))  # fmt: skip

    def forward(self, points: Tensor, time: Tensor) -> Tensor:
        answer: Tensor = self.rest(self.first(points) + self.time(time))
        return answer


def step(loop: Loop, batch: Any) -> Tensor:
    points = batch.inputs
    time = torch.randint(STEPS, (len(points),), device=loop.device)
    noise, kept = torch.randn_like(points), KEPT.to(loop.device)[time][:, None]
    loss = F.mse_loss(loop.model(kept.sqrt() * points + (1 - kept).sqrt() * noise, time), noise)
    loop.update(loss)
    return loss


def sample(model: Any, count: int, device: torch.device) -> Tensor:
    points = torch.randn(count, 2, device=device)
    for time in reversed(range(STEPS)):
        noise = model(points, torch.full((count,), time, device=device))
        points = (points - BETAS[time] / (1 - KEPT[time]).sqrt() * noise) / (1 - BETAS[time]).sqrt()
        points += BETAS[time].sqrt() * torch.randn_like(points) * (time > 0)
    return points


def evaluate(model: Any, batch: Any) -> dict[str, Tensor]:
    """Mean distance of samples to the data, and of the data to samples: both are small if all is covered."""
    distance = torch.cdist(sample(model, len(batch.inputs), batch.inputs.device), batch.inputs)
    return {"distance": (distance.min(1).values.mean() + distance.min(0).values.mean()) / 2}


recipe = Recipe(
    name="diffusion", model=Denoiser, data=read, step=step, evaluate=evaluate, metric="distance",
    lower_is_better=("distance",), epochs=60, batch=256, lr=2e-3, schedule="cosine", warmup=0.05, ema=0.995,
    evaluation_batch=1024, evaluate_every=320, trackers=(),
)  # fmt: skip
