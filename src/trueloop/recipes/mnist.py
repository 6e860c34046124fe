"""mnist: MNIST by the network of fashion-cnn; half a minute on a GPU"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from trueloop.data.augment import shifted
from trueloop.data.find import find_data
from trueloop.data.homes import MNIST
from trueloop.data.idx import Normalized, image_splits
from trueloop.data.source import Splits
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.recipes import fashion_cnn

__all__ = ["network", "read", "recipe"]


def recipe() -> Recipe:
    return replace(fashion_cnn.recipe(), name="mnist", model=network, data=read, epochs=6)


def network() -> nn.Module:
    return fashion_cnn.ResidualNet()


def read(request: DataRequest) -> Splits:
    splits = image_splits(find_data(MNIST, request), tuple(map(str, range(10))), Normalized(mean=0.1307, spread=0.3081))
    return replace(splits, augment=moved)


def moved(images: Tensor, draws: torch.Generator) -> Tensor:
    """Shift, but do not mirror: a mirrored digit is not a digit."""
    return shifted(images, draws, by=2)
