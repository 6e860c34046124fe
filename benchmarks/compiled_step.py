"""Where program=compiled_step and eager could differ: products, masks of dropout, and a training without dropout.

python benchmarks/compiled_step.py --data DIR [--steps 100]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody writes it
from torch import Tensor, nn

from trueloop.engine.loop import Loop
from trueloop.engine.programs.hashed_dropout import draw_seeds, keep_mask
from trueloop.recipe.recipe import DataRequest
from trueloop.recipes import fashion_mlp

SHARE, ROWS, UNITS, DRAWS = 0.8, 64, 256, 2000


def network() -> nn.Module:
    """That of fashion-mlp, without dropout."""
    return nn.Sequential(
        *(layer for layer in fashion_mlp.network() if not isinstance(layer, nn.Dropout))  # type: ignore[attr-defined]
    )


def weights(program: Literal["eager", "compiled_step"], data: Path, steps: int) -> list[Tensor]:
    recipe = replace(
        fashion_mlp.recipe(), model=network, steps=steps, epochs=None, device="cpu", program=program, trackers=()
    )
    loop = Loop.of(recipe, DataRequest(data, False, recipe.seed))
    loop.train()
    return [each.detach().clone() for each in loop.parts.parameters]


def products() -> None:
    torch.manual_seed(0)
    inputs, matrix = torch.randn(ROWS, 784), torch.randn(UNITS, 784) * 0.05
    exact = F.linear(inputs.double(), matrix.double())
    for enabled, named in ((True, "eager: oneDNN"), (False, "compiled_step on ARM: without oneDNN")):
        torch.backends.mkldnn.enabled = enabled  # type: ignore[assignment]
        error = ((F.linear(inputs, matrix) - exact).norm() / exact.norm()).item()
        print(f"product, {named}: {error:.2g} from float64")
    torch.backends.mkldnn.enabled = True  # type: ignore[assignment]


def masks(named: str, draw: Callable[[], tuple[Tensor, Tensor]]) -> None:
    """Each number is 1 for independent draws."""
    variance, found, last = SHARE * (1 - SHARE), [], None
    for _ in range(DRAWS):
        first, second = (each.float() - SHARE for each in draw())
        products = [first[:-1] * first[1:], first[:, :-1] * first[:, 1:], first * second]
        products.append(first * (first if last is None else last))
        squares = [each.mean().square() * each.numel() / variance**2 for each in products]
        rows, columns = (first.sum(dim).var(correction=0) / (first.shape[dim] * variance) for dim in (1, 0))
        found.append(torch.stack([rows, columns, *squares]))
        last = first
    shown = ("rows", "columns", "next sample", "next unit", "next layer", "next step")
    means = torch.stack(found[1:]).mean(0).tolist()
    print(f"masks, {named}: " + ", ".join(f"{name} {value:.3f}" for name, value in zip(shown, means, strict=True)))


def hashed() -> tuple[Tensor, Tensor]:
    seeds = draw_seeds()
    return keep_mask((ROWS, UNITS), SHARE, seeds, 0), keep_mask((ROWS, UNITS), SHARE, seeds, 1)


def drawn() -> tuple[Tensor, Tensor]:
    return torch.rand(ROWS, UNITS) < SHARE, torch.rand(ROWS, UNITS) < SHARE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    products()
    masks("torch", drawn)
    masks("hashed", hashed)
    one, two = (weights(program, options.data, options.steps) for program in ("eager", "compiled_step"))
    apart = max(((a - b).norm() / a.norm()).item() for a, b in zip(one, two, strict=True))
    print(f"without dropout the weights are at most {apart:.2g} apart after {options.steps} steps")


if __name__ == "__main__":
    main()
