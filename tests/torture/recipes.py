"""Small recipes that together use everything a resume could get wrong. Each takes about a second."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from tests.torture.beacon import Beacon, Phase
from trueloop.data.dataset import Dataset
from trueloop.data.source import Batch, Facts, Source, Splits
from trueloop.data.stream import Stream
from trueloop.data.tensors import Tensors
from trueloop.data.tracks import Tracks
from trueloop.recipe.recipe import DataRequest, Recipe

__all__ = ["SCENARIOS", "Scenario", "network", "noisy", "splits_of"]

FEATURES, CLASSES, SAMPLES = 12, 4, 200


def samples(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Four noisy classes, of unequal size."""
    draws = torch.Generator().manual_seed(seed)
    labels = torch.multinomial(torch.tensor([0.5, 0.3, 0.15, 0.05]), count, replacement=True, generator=draws)
    centres = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(7))
    return centres[labels] + 1.5 * torch.randn(count, FEATURES, generator=draws), labels


class Drawing:
    """A dataset that draws from all three libraries, as people's augmentations do."""

    def __init__(self, inputs: Tensor, labels: Tensor) -> None:
        self.inputs, self.targets = inputs, labels

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        row = self.inputs[number] * random.uniform(0.8, 1.2)
        row = row + torch.from_numpy(np.random.normal(0, 0.1, FEATURES)).float()
        return row + 0.1 * torch.randn(FEATURES), int(self.targets[number])


@final
class Watched(Source):
    """A source that lights the beacon while it is evaluated."""

    def __init__(self, source: Source, beacon: Beacon) -> None:
        self.source, self.beacon = source, beacon

    def __len__(self) -> int:
        return len(self.source)

    def fetch(self, numbers: Tensor) -> Batch:
        self.beacon.show(Phase.EVALUATING)
        batch = self.source.fetch(numbers)
        if int(numbers[-1]) == len(self.source) - 1:
            self.beacon.show(Phase.TRAINING)
        return batch


def noisy(inputs: Any, draws: torch.Generator) -> Any:
    """An augmentation on the device."""
    return inputs + 0.1 * torch.randn(inputs.shape, generator=draws, device=inputs.device)


def network() -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, CLASSES)
    )


def pair() -> dict[str, nn.Module]:
    return {"classifier": network(), "critic": nn.Linear(CLASSES, 1)}


def adams(models: Any) -> dict[str, torch.optim.Optimizer]:
    return {name: torch.optim.Adam(models[name].parameters(), lr=0.01) for name in models}


def halving(optimizers: Any) -> dict[str, Any]:
    return {name: torch.optim.lr_scheduler.StepLR(optimizers[name], 15, 0.8) for name in optimizers}


def two_updates(loop: Any, batch: Batch) -> dict[str, Tensor]:
    """A step of the user's own: two models, two optimizers, draws, and a value that it keeps."""
    inputs = batch.inputs + 0.1 * torch.randn_like(batch.inputs)
    scores = loop.models["classifier"](inputs)
    loop.memory["mean"] = 0.9 * loop.memory.get("mean", torch.zeros(CLASSES)) + 0.1 * scores.detach().mean(0)
    critic = loop.models["critic"](scores.detach() - loop.memory["mean"]).square().mean()
    loop.update(critic, "critic")
    loss = nn.functional.cross_entropy(scores, batch.targets) + 0.1 * loop.models["critic"](scores).mean()
    loop.update(loss, "classifier", clip=1.0)
    return {"loss": loss, "critic": critic}


def accuracy(models: Any, batch: Batch) -> dict[str, Tensor]:
    return {"accuracy": (models["classifier"](batch.inputs).argmax(1) == batch.targets).float().mean()}


@final
class Walk(Stream):
    """Batches that depend on those before them, on the model, and on random numbers of all three libraries."""

    def __init__(self) -> None:
        self.place = torch.zeros(FEATURES)

    def next(self, loop: Any) -> Any:
        self.place = 0.9 * self.place + 0.1 * torch.randn(FEATURES) + random.uniform(-0.1, 0.1)
        middle = self.place + 0.01 * next(loop.parts.model.parameters()).detach().mean()
        inputs = middle + torch.randn(17, FEATURES) + float(np.random.normal(0, 0.1))
        return inputs, inputs[:, :CLASSES].argmax(1)

    def state_dict(self) -> dict[str, Any]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.place = state["place"]


class Recurrent(nn.Module):
    """Guesses the next token, with a state that goes from batch to batch."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.inner, self.score = nn.Embedding(9, 8), nn.GRU(8, 12, batch_first=True), nn.Linear(12, 9)
        self.drop = nn.Dropout(0.2)

    def forward(self, tokens: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        output, state = self.inner(self.embed(tokens), state)
        return self.score(self.drop(output)), state


def recurrent() -> nn.Module:
    return Recurrent()


def tracks(request: DataRequest) -> Splits:
    tokens = torch.randint(0, 9, (900,), generator=torch.Generator().manual_seed(1)).cumsum(0) % 9
    facts = Facts(vocabulary=9)
    return Splits(Tracks(tokens[:700], batch=5, length=6), Tracks(tokens[700:], batch=2, length=8), facts=facts)


def a_loader() -> DataLoader[Any]:
    """Somebody's own: shuffled, two workers that stay, draws from all three libraries."""
    dataset: Any = Drawing(*samples(SAMPLES, 1))
    return DataLoader(dataset, batch_size=17, shuffle=True, num_workers=2, persistent_workers=True)


def splits_of(
    beacon: Beacon, *, drawing: bool, augment: bool, train: Callable[[], Any] | None = None
) -> Callable[[DataRequest], Splits]:
    def read(request: DataRequest) -> Splits:
        inputs, labels = samples(SAMPLES, 1)
        valid, test = (Tensors(*samples(160, seed)) for seed in (2, 3))
        return Splits(
            train=train() if train else Dataset(Drawing(inputs, labels)) if drawing else Tensors(inputs, labels),
            valid=Watched(valid, beacon),
            test=test,
            facts=Facts(inputs=(FEATURES,), classes=tuple("abcd")),
            augment=noisy if augment else None,
        )

    return read


@dataclass(frozen=True)
class Scenario:
    """A recipe to kill, and what it is there for."""

    name: str
    covers: str
    drawing: bool
    augment: bool
    settings: dict[str, Any]
    train: Callable[[], Any] | None = None  # Other training data

    def recipe(self, beacon: Beacon) -> Recipe:
        basic: dict[str, Any] = {
            "epochs": 20,
            "batch": 17,
            "log_every": 5,
            "lr": 0.02,
            "trackers": (),
            "statistics_every": 0,
            "device": "cpu",
        }
        data = splits_of(beacon, drawing=self.drawing, augment=self.augment, train=self.train)
        return Recipe(name=self.name, **{"model": network, "data": data, **basic, **self.settings})


SCENARIOS: Final = (
    Scenario(
        "resident",
        "dropout, cosine with warm-up, clip, augmentation on the device",
        drawing=False,
        augment=True,
        settings={"schedule": "cosine", "warmup": 9, "clip": 1.0, "save_every": 7, "evaluate_every": 20},
    ),
    Scenario(
        "workers",
        "2 workers, python+numpy+torch draws, accumulation, EMA, step schedule",
        drawing=True,
        augment=False,
        settings={"workers": 2, "accumulate": 3, "ema": 0.98, "optimizer": "momentum", "schedule": "step", "save_every": 11, "epochs": 14},  # noqa: E501
    ),
    Scenario(
        "here",
        "no workers, python+numpy+torch draws, one-cycle, weight decay, saves after evaluations",
        drawing=True,
        augment=True,
        settings={"schedule": "one-cycle", "weight_decay": 0.1, "evaluate_every": 9, "epochs": 8},
    ),
    Scenario(
        "plateau",
        "balanced sampling, plateau, early stopping, EMA, RAdam",
        drawing=False,
        augment=True,
        settings={
            "balanced": True, "schedule": "plateau", "gamma": 0.5, "plateau": 1, "patience": 12, "ema": 0.9, "optimizer": "RAdam",  # noqa: E501
            "evaluate_every": 8, "save_every": 5,
        },
    ),
    Scenario(
        "save-each",
        "a checkpoint each step, one kept, bf16, accumulation",
        drawing=False,
        augment=False,
        settings={"save_every": 1, "keep": 1, "precision": "bf16", "accumulate": 2, "evaluate_every": 6, "epochs": 6, "schedule": "linear"},  # noqa: E501
    ),
    Scenario(
        "own-step",
        "a step of the user's own: two models, optimizers and schedules, memory, EMA",
        drawing=True,
        augment=True,
        settings={
            "model": pair, "step": two_updates, "optimizers": adams, "schedules": halving, "evaluate": accuracy,
            "metric": "accuracy", "ema": 0.95, "save_every": 6, "evaluate_every": 15,
        },
    ),
    Scenario(
        "stream",
        "batches made by an object with a state, from the model and from random numbers",
        drawing=False,
        augment=True,
        settings={"epochs": None, "steps": 60, "save_every": 4, "evaluate_every": 15, "ema": 0.9},
        train=Walk,
    ),
    Scenario(
        "loader",
        "the user's DataLoader: shuffled, persistent workers that draw, no state of its own",
        drawing=False,
        augment=False,
        settings={"epochs": 4, "save_every": 5, "evaluate_every": 12},
        train=a_loader,
    ),
    Scenario(
        "carry",
        "a recurrent model whose state goes from batch to batch, with an evaluation in between",
        drawing=False,
        augment=False,
        settings={
            "model": recurrent, "data": tracks, "task": "language", "carry": True, "order": "sequential", "batch": 5, "epochs": 3,  # noqa: E501
            "save_every": 4, "evaluate_every": 9, "ema": 0.9,
        },
    ),
)  # fmt: skip
