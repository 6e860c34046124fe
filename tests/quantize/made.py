"""Small models whose layers are quantized, and data that they answer well on without any training."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tests.export.made import subject
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.export.trained_model import TrainedModel
from trueloop.quantize.catalogue import find_scheme
from trueloop.quantize.scheme import Calibration, Scheme

WIDTH = 40
"""Of the inputs: more than a group of 4-bit numbers."""


def usable_scheme(name: str) -> Scheme:
    """With what it needs installed."""
    made = find_scheme(name)
    made.require()
    return made


def rows(count: int = 200, *, dead: bool = False) -> Tensor:
    """`dead`: the first number of each row is always 0."""
    made = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(1))
    return made * torch.tensor([0.0] + [1.0] * (WIDTH - 1)) if dead else made


class Sides(nn.Module):
    """Says on which side of a plane a row lies; by construction it is always right."""

    def __init__(self, outlier: float = 0.0) -> None:
        super().__init__()
        plane = torch.randn(WIDTH, generator=torch.Generator().manual_seed(2))
        plane[0] = 0.0
        self.first = nn.Linear(WIDTH, 2)
        self.last = nn.Linear(2, 2)
        with torch.no_grad():
            self.first.weight.copy_(torch.stack((-plane, plane)))
            self.first.weight[:, 0] = (
                outlier  # of an input that is always 0: it changes nothing but the steps of the others
            )
            self.first.bias.zero_()
            self.last.weight.copy_(torch.eye(2))
            self.last.bias.zero_()

    def forward(self, given: Tensor) -> Tensor:
        scores: Tensor = self.last(self.first(given))
        return scores


def sides(outlier: float = 0.0, **fields: Any) -> TrainedModel:
    given = rows(dead=True)
    with torch.no_grad():
        labels = Sides()(given).argmax(1)
    splits = Splits(
        Tensors(given, labels), Tensors(given, labels), facts=Facts(inputs=(WIDTH,), classes=("left", "right"))
    )
    return subject(lambda: Sides(outlier), splits, name="sides", **fields)


class Shifted(nn.Module):
    """On which side of a plane a row of numbers about 1 lies. A large weight, of an input that is always 0, makes steps
    so long that many small weights are rounded to nothing: what they add up to on the average is then missing, and the
    plane lies elsewhere."""

    def __init__(self, outlier: float = 200.0) -> None:
        super().__init__()
        step = outlier / 127
        self.first = nn.Linear(WIDTH, 2)
        self.last = nn.Linear(2, 2)
        plane = torch.tensor([0.0] + [2 * step] * 10 + [step / 3] * (WIDTH - 11))
        with torch.no_grad():
            self.first.weight.copy_(torch.stack((-plane, plane)))
            self.first.weight[:, 0] = outlier
            self.first.bias.copy_(torch.stack((plane.sum(), -plane.sum())))
            self.last.weight.copy_(torch.eye(2) / 10)
            self.last.bias.zero_()

    def forward(self, given: Tensor) -> Tensor:
        scores: Tensor = self.last(self.first(given))
        return scores


def shifted(count: int = 1000) -> TrainedModel:
    """Other samples to learn from than to be judged by."""
    given = rows(2 * count) + 1
    given[:, 0] = 0
    with torch.no_grad():
        labels = Shifted()(given).argmax(1)
    train, valid = Tensors(given[:count], labels[:count]), Tensors(given[count:], labels[count:])
    return subject(
        Shifted, Splits(train, valid, facts=Facts(inputs=(WIDTH,), classes=("left", "right"))), name="shifted"
    )


def spoiled() -> TrainedModel:
    """One weight of the first layer is so large that all others are rounded to nothing."""
    return sides(outlier=1e6)


class Pictured(nn.Module):
    """Convolutions, a norm, a residual, a layer that is called twice; and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.again = nn.Conv2d(16, 16, 3, padding=1)
        self.last = nn.Linear(16 * 12, 3)

    def forward(self, images: Tensor) -> Tensor:
        seen = self.norm(self.first(images)).relu()
        seen = seen + self.again(seen).relu()
        scores: Tensor = self.last(self.again(seen).relu().flatten(1))
        return scores


class Tied(nn.Module):
    """A head that reads the embedding's own vectors, and places that are read without a call."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(200, 32)
        self.places = nn.Embedding(10, 32)
        self.mix = nn.Linear(32, 32)
        self.scores = nn.Linear(32, 200, bias=False)
        self.scores.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        stream = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        scores: Tensor = self.scores(stream + self.mix(stream).tanh())
        return scores


def tied() -> TrainedModel:
    tokens = torch.randint(0, 200, (60, 10), generator=torch.Generator().manual_seed(3))
    return subject(
        Tied,
        Splits(Tensors(tokens, tokens), Tensors(tokens, tokens), facts=Facts(vocabulary=200)),
        name="tied",
        task="language",
    )


class Bagged(nn.Module):
    """Words added up."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = nn.EmbeddingBag(100, 16, mode="sum")
        self.head = nn.Linear(16, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        scores: Tensor = self.head(self.vectors(tokens, per_sample_weights=(tokens != 0).float()))
        return scores


def bagged() -> TrainedModel:
    tokens = torch.randint(0, 100, (60, 8), generator=torch.Generator().manual_seed(4))
    labels = (tokens.sum(1) % 2).float()
    return subject(
        Bagged,
        Splits(Tensors(tokens, labels), Tensors(tokens, labels), facts=Facts(vocabulary=100)),
        name="bagged",
        task="binary",
    )


def calibration(of: TrainedModel) -> Calibration:
    return Calibration(of, min(48, len(of.splits.train)), batch=16)
