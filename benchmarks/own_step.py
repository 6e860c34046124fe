"""What a step of one's own costs: the GAN of examples/ by hand, by the loop, and in a session with all its rules.

python benchmarks/own_step.py [--device cuda] [--rounds 5]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import gan

import trueloop
from trueloop.recipe.recipe import Recipe

EPOCHS, BATCHES = 63, 32


def by_hand(recipe: Recipe) -> int:
    """Takes as many steps as the recipe."""
    device = torch.device(recipe.device)
    models = {name: each.to(device) for name, each in gan.networks().items()}
    optimizers, points = gan.optimizers(models), gan.ring(8192, 0).to(device)
    discriminator, steps = models["discriminator"], EPOCHS * BATCHES
    for step in range(steps):
        real = points[torch.randint(len(points), (recipe.batch,), device=device)]
        fake = models["generator"](torch.randn(len(real), gan.NOISE, device=device))
        loss = F.softplus(-discriminator(real)).mean() + F.softplus(discriminator(fake.detach())).mean()
        for name, each in (("discriminator", loss), ("generator", None)):
            loss = F.softplus(-discriminator(fake)).mean() if each is None else each
            optimizers[name].zero_grad()
            loss.backward()
            optimizers[name].step()
        if step % recipe.log_every == 0:
            loss.item()
    return steps


def in_loop(recipe: Recipe) -> int:
    loop = trueloop.Loop.of(recipe)
    loop.train()
    return loop.step


def in_session(recipe: Recipe) -> int:
    with tempfile.TemporaryDirectory() as folder:
        return trueloop.train(recipe, runs=folder, hooks=()).ending.step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    recipe = replace(
        gan.recipe,
        epochs=EPOCHS,
        ema=None,
        evaluate_every=10**6,
        save_every=10**6,
        log_every=200,
        device=options.device,
    )
    ways: dict[str, Callable[[Recipe], int]] = {"by hand": by_hand, "loop": in_loop, "session": in_session}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds + 1):  # the first round warms up
        for name, way in ways.items():
            began = time.perf_counter()
            steps = way(recipe)
            times[name].append((time.perf_counter() - began) / steps * 1e3)
    for name, each in times.items():
        ratio = median(one / plain for one, plain in zip(each[1:], times["by hand"][1:], strict=True))
        print(f"{name:8} {median(each[1:]):6.2f} ms per step, {ratio:.2f} of the loop by hand")


if __name__ == "__main__":
    main()
