"""A GAN on a ring of eight Gaussians: two models, two optimizers, a step of one's own.

trueloop train examples/gan.py
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trueloop import Loop, Recipe, Splits, Tensors

NOISE = 8


def ring(samples: int, seed: int) -> Tensor:
    """Points around eight centres on the unit circle."""
    draw = torch.Generator().manual_seed(seed)
    angle = torch.randint(8, (samples,), generator=draw) * torch.pi / 4
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(samples, 2, generator=draw)


def read(request: Any) -> Splits:
    train, valid = ring(8192, 0), ring(1024, 1)
    return Splits(Tensors(train), Tensors(valid))


def networks() -> dict[str, nn.Module]:
    generator = nn.Sequential(nn.Linear(NOISE, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
    discriminator = nn.Sequential(
        nn.Linear(2, 128), nn.LeakyReLU(0.2), nn.Linear(128, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1)
    )
    return {"generator": generator, "discriminator": discriminator}


def optimizers(models: Any) -> dict[str, torch.optim.Optimizer]:
    return {name: torch.optim.Adam(models[name].parameters(), lr=1e-3, betas=(0.5, 0.9)) for name in models}


def step(loop: Loop, batch: Any) -> dict[str, Tensor]:
    generator, discriminator, real = loop.models["generator"], loop.models["discriminator"], batch.inputs
    fake = generator(torch.randn(len(real), NOISE, device=loop.device))
    on_real, on_fake = discriminator(real), discriminator(fake.detach())
    loss_d = F.softplus(-on_real).mean() + F.softplus(on_fake).mean()
    loop.update(loss_d, "discriminator")
    loss_g = F.softplus(-discriminator(fake)).mean()
    loop.update(loss_g, "generator")
    return {"discriminator": loss_d, "generator": loss_g}


def evaluate(models: Any, batch: Any) -> dict[str, Tensor]:
    """The share of points near a centre, and how many of the centres they reach."""
    fake = models["generator"](torch.randn(len(batch.inputs), NOISE, device=batch.inputs.device))
    angle = torch.arange(8, device=fake.device) * torch.pi / 4
    distance, nearest = torch.cdist(fake, torch.stack([angle.cos(), angle.sin()], 1)).min(1)
    near = distance < 0.2
    modes = (torch.bincount(nearest[near], minlength=8) > 0.03 * len(fake)).sum()
    return {"near": near.float().mean(), "modes": modes, "covered": near.float().mean() * modes / 8}


recipe = Recipe(
    name="gan", model=networks, data=read, step=step, optimizers=optimizers, evaluate=evaluate,
    metric="covered", epochs=100, batch=256, ema=0.99, evaluation_batch=1024, trackers=(),
)  # fmt: skip
