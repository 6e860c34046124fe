"""Pixels of discs and squares: a small U-Net, cross entropy for each pixel, intersection over union as the score.

trueloop train examples/segmentation.py
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trueloop import Recipe, Splits, Tensors

SIZE, CLASSES = 32, 3  # background, disc, square


def pictures(samples: int, seed: int) -> Tensors:
    """A disc and a square of random brightness, the later one in front, under noise."""
    draw = torch.Generator().manual_seed(seed)
    grid = torch.stack(torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij"), -1).float()
    images, masks = torch.zeros(samples, 1, SIZE, SIZE), torch.zeros(samples, SIZE, SIZE, dtype=torch.long)
    for image, mask in zip(images, masks, strict=True):
        for kind in (torch.randperm(2, generator=draw) + 1).tolist():
            centre, radius = 6 + 20 * torch.rand(2, generator=draw), 4 + 4 * torch.rand(1, generator=draw)
            offset = (grid - centre).abs()
            inside = offset.norm(dim=-1) < radius if kind == 1 else offset.amax(-1) < radius * 0.85
            mask[inside] = kind
            image[0, inside] = 0.4 + 0.6 * torch.rand(1, generator=draw)
    return Tensors(images + 0.2 * torch.randn(images.shape, generator=draw), masks)


def block(given: int, made: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(given, made, 3, padding=1, bias=False), nn.BatchNorm2d(made), nn.ReLU())


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([block(1, 12), block(12, 24), block(24, 48)])
        self.up = nn.ModuleList([block(48 + 24, 24), block(24 + 12, 12)])
        self.head = nn.Conv2d(12, CLASSES, 1)

    def forward(self, images: Tensor) -> Tensor:
        first = self.down[0](images)
        second = self.down[1](F.max_pool2d(first, 2))
        deep = self.down[2](F.max_pool2d(second, 2))
        deep = self.up[0](torch.cat([F.interpolate(deep, scale_factor=2), second], 1))
        deep = self.up[1](torch.cat([F.interpolate(deep, scale_factor=2), first], 1))
        scores: Tensor = self.head(deep)
        return scores


def iou(output: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Two sums for each class: their quotient over all images, then the mean over classes."""
    said, are = F.one_hot(output.argmax(1), CLASSES).bool(), F.one_hot(targets, CLASSES).bool()
    return (said & are).sum((0, 1, 2)), (said | are).sum((0, 1, 2))


def read(request: Any) -> Splits:
    return Splits(pictures(600, 0), pictures(150, 1))


recipe = Recipe(
    name="segmentation", model=UNet, data=read, task="multiclass", metrics={"iou": iou}, metric="iou", epochs=10,
    batch=32, lr=1e-2, schedule="one-cycle", weight_decay=0.01, trackers=(),
)  # fmt: skip
