"""fashion-cnn: Fashion-MNIST by a small residual network; a minute on a GPU"""

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
    return ResidualNet(average_mirrored=True)


def read(request: DataRequest) -> Splits:
    return replace(fashion_mlp.read(request), augment=moved)


def moved(images: Tensor, draws: torch.Generator) -> Tensor:
    """Mirror and shift: clothes stay the same class."""
    return shifted(mirrored(images, draws), draws, by=2)


@final
class ResidualNet(nn.Module):
    """Three stages at 28x28, 14x14 and 7x7, each with a residual block; 482,154 parameters."""

    def __init__(self, *, average_mirrored: bool = False) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *_convolution(1, 32),
            _Residual(32),
            *_convolution(32, 64),
            nn.MaxPool2d(2),
            _Residual(64),
            *_convolution(64, 128),
            nn.MaxPool2d(2),
            _Residual(128),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(128, 10),
        )
        self.average_mirrored = average_mirrored  # In eval mode, average the logits of the image and its mirror image

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layers(images)
        if self.average_mirrored and not self.training:
            logits = (logits + self.layers(images.flip(-1))) / 2
        return logits


@final
class _Residual(nn.Module):
    """Two convolutions, added to their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.added = nn.Sequential(*_convolution(width, width), *_convolution(width, width))

    def forward(self, images: Tensor) -> Tensor:
        out: Tensor = images + self.added(images)
        return out


def _convolution(before: int, after: int) -> tuple[nn.Module, ...]:
    """3x3, without a bias: the batch norm has one."""
    return nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()
