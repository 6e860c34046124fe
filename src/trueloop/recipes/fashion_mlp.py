"""fashion-mlp: Fashion-MNIST by an MLP of 0.3 M parameters; a minute on a CPU"""

from typing import Final

from torch import nn

from trueloop.data.find import find_data
from trueloop.data.homes import FASHION_MNIST
from trueloop.data.idx import Normalized, image_splits
from trueloop.data.source import Splits
from trueloop.recipe.recipe import DataRequest, Recipe

__all__ = ["network", "read", "recipe"]

CLASSES: Final = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
"""By label."""


def recipe() -> Recipe:
    return Recipe(
        name="fashion-mlp",
        model=network,
        data=read,
        task="multiclass",
        optimizer="adamw",
        lr=2e-3,
        weight_decay=0.02,
        schedule="one-cycle",
        epochs=10,
        batch=64,
    )


def network() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 256),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(256, 10),
    )


def read(request: DataRequest) -> Splits:
    return image_splits(find_data(FASHION_MNIST, request), CLASSES, Normalized(mean=0.286, spread=0.353))
