"""fashion-cnn: Fashion-MNIST by a small residual network, mirrored and shifted as it learns; a minute on a GPU, an hour
on a CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import final

import torch
from torch import Tensor, nn

from trueloop.data.augment import mirrored, shifted
from trueloop.data.source import Splits
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.recipes import fashion_mlp

__all__ = ["ResidualNet", "network", "read", "recipe"]


def recipe() -> Recipe:
    return Recipe(
        name="fashion-cnn",
        model=network,
        data=read,
        task="multiclass",
        label_smoothing=0.1,
        optimizer="momentum",
        optimizer_options={"nesterov": True},
        lr=0.1,
        weight_decay=5e-4,
        schedule="one-cycle",
        epochs=10,
        batch=128,
        ema=0.998,
    )


def network() -> nn.Module:
    return ResidualNet(both_ways=True)


def read(request: DataRequest) -> Splits:
    return replace(fashion_mlp.read(request), augment=moved)


def moved(images: Tensor, draws: torch.Generator) -> Tensor:
    """Clothes stay what they are when mirrored, or moved a little."""
    return shifted(mirrored(images, draws), draws, by=2)


@final
class ResidualNet(nn.Module):
    """Three stages at 28, 14 and 7 points, each twice as wide as the one before and ending in a residual block; 482,154
    parameters."""

    def __init__(self, *, both_ways: bool = False) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *_convolved(1, 32),
            _Residual(32),
            *_convolved(32, 64),
            nn.MaxPool2d(2),
            _Residual(64),
            *_convolved(64, 128),
            nn.MaxPool2d(2),
            _Residual(128),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(128, 10),
        )
        self.both_ways = both_ways
        """When it answers, and does not learn: the mean over the image and its mirror image."""

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.layers(images)
        if self.both_ways and not self.training:
            scores = (scores + self.layers(images.flip(-1))) / 2
        return scores


@final
class _Residual(nn.Module):
    """What two convolutions add to what comes in."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.added = nn.Sequential(*_convolved(width, width), *_convolved(width, width))

    def forward(self, images: Tensor) -> Tensor:
        added: Tensor = self.added(images)
        return images + added


def _convolved(before: int, after: int) -> tuple[nn.Module, ...]:
    """3x3, without a bias: the norm brings one."""
    return nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()
