"""digits: 1,797 digits, 8x8 pixels, from scikit-learn; seconds on a CPU"""

import torch
from torch import nn

from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.errors import MissingExtra
from trueloop.recipe.recipe import DataRequest, Recipe

__all__ = ["recipe"]


def recipe() -> Recipe:
    return Recipe(
        name="digits",
        model=network,
        data=read,
        task="multiclass",
        epochs=15,
        batch=64,
        lr=3e-3,
        weight_decay=0.05,
        schedule="cosine",
        warmup=0.071,
    )


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3),
        nn.Linear(64 * 4 * 4, 10),
    )


def read(request: DataRequest) -> Splits:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingExtra(
            "The digits data need scikit-learn. Nothing was run: pip install 'trueloop[digits]'"
        ) from None
    digits = load_digits()
    images = torch.from_numpy(digits.images).to(torch.uint8).unsqueeze(1)
    labels = torch.from_numpy(digits.target).long()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    train, valid, test = order[:1197], order[1197:1397], order[1397:]
    return Splits(
        train=Tensors(images[train], labels[train]),
        valid=Tensors(images[valid], labels[valid]),
        test=Tensors(images[test], labels[test]),
        facts=Facts(inputs=(1, 8, 8), classes=tuple(map(str, range(10)))),
        prepare=scaled,
        notes=("1,197 training, 200 validation and 400 test images; the split is fixed",),
    )


def scaled(images: torch.Tensor) -> torch.Tensor:
    """0 .. 16 becomes about -1 .. 2: mean 0, standard deviation 1."""
    return (images.float() - 4.88) / 6.02
