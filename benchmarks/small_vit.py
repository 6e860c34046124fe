"""A small vision transformer that no recipe here was tuned for: what does `tune` find by itself?

trueloop tune benchmarks/small_vit.py --data DIR --minutes 3
"""

import torch
from torch import Tensor, nn

from trueloop.recipe.recipe import Recipe
from trueloop.recipes import fashion_mlp

PATCH, WIDTH, DEPTH, HEADS = 7, 64, 4, 4


class Vit(nn.Module):
    """28 x 28 images in patches of 7 x 7."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, WIDTH, PATCH, PATCH)
        self.positions = nn.Parameter(0.02 * torch.randn(1, (28 // PATCH) ** 2, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.1, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, DEPTH, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 10)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patches(images.reshape(-1, 1, 28, 28)).flatten(2).transpose(1, 2) + self.positions
        scores: Tensor = self.head(self.norm(self.blocks(tokens)).mean(1))
        return scores


def recipe() -> Recipe:
    return Recipe(name="small-vit", model=Vit, data=fashion_mlp.read, task="multiclass", lr=1e-3, epochs=3, batch=64)
