"""Small models with real data, as `trueloop export` would find them in a run: nothing is trained for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.task import build_task
from trueloop.export.catalogue import runner_of
from trueloop.export.exporter import Array
from trueloop.export.folder import read_artifact
from trueloop.export.trained_model import Origin, TrainedModel
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.results.artifact import Artifact, Port, Verification

RECIPE = """
import torch
from torch import nn
from trueloop import Recipe
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(12, 8)
        self.second = nn.Linear(8, 3)

    def forward(self, images):
        return self.second(self.first(images.flatten(1)).relu())


def read(request):
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (120, 1, 3, 4), generator=draws, dtype=torch.uint8)
    labels = images.flatten(1).float().mean(1).sub(100).div(20).long().clamp(0, 2)
    parts = {name: Tensors(images[part], labels[part]) for name, part in (("train", slice(0, 60)), ("valid", slice(60, None)))}
    return Splits(**parts, facts=Facts(inputs=(1, 3, 4), classes=("dark", "grey", "light")), prepare=scaled)


def scaled(images):
    return images.float() / 127.5 - 1


recipe = Recipe(name="shades", model=Net, data=read, epochs=1, batch=20, trackers=(), log_every=1)
"""  # noqa: E501
"""A recipe of the user's: three shades of small pictures."""


def scaled(images: Tensor) -> Tensor:
    """What the program does to raw images."""
    return images.float() / 127.5 - 1


class Shades(nn.Module):
    """Two layers; the same as in RECIPE."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(12, 8)
        self.second = nn.Linear(8, 3)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.second(self.first(images.flatten(1)).relu())
        return scores


def shades(count: int = 50) -> Splits:
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (count, 1, 3, 4), generator=draws, dtype=torch.uint8)
    labels = images.flatten(1).float().mean(1).sub(100).div(20).long().clamp(0, 2)
    return Splits(
        Tensors(images, labels),
        Tensors(images, labels),
        facts=Facts(inputs=(1, 3, 4), classes=("dark", "grey", "light")),
        prepare=scaled,
    )


def subject(model: Callable[[], nn.Module] = Shades, splits: Splits | None = None, **fields: Any) -> TrainedModel:
    """A model with random weights, in evaluation mode."""
    splits = splits or shades()
    read = splits

    def data(request: DataRequest) -> Splits:
        return read

    recipe = Recipe(**{"name": "shades", "model": model, "data": data, "epochs": 1, **fields})
    torch.manual_seed(0)
    run = {"id": "shades", "step": 3, "checkpoint": "step-00000003", "weights": "model", "recipe": {"name": "shades"}}
    return TrainedModel(
        Origin(Path("shades"), recipe, DataRequest()),
        model().eval().requires_grad_(False),
        splits,
        build_task(recipe, splits.facts),
        run,
    )


def artifact(**fields: Any) -> Artifact:
    """A description, without files."""
    return Artifact(
        **{
            "folder": Path("nowhere"),
            "name": "shades",
            "target": "onnx",
            "files": {"model.onnx": {"bytes": 3, "sha256": "00"}},
            "versions": {"trueloop": "0", "python": "3", "torch": "2.13.0"},
            "runtime": {"package": "no-such-runtime", "version": "1.2.3", "match": "major", "machine": ""},
            "inputs": (Port("input", "uint8", (None, 1, 3, 4)),),
            "outputs": (Port("output", "float32", (None, 3)),),
            "task": "multiclass",
            "classes": ("dark", "grey", "light"),
            "preprocessing": {
                "kind": "image",
                "size": [3, 4],
                "channels": 1,
                "dtype": "uint8",
                "range": [0, 255],
                "inside": True,
            },
            "run": {"id": "shades", "step": 3, "weights": "model"},
            **fields,
        }
    )


def verification(**fields: Any) -> Verification:
    """One that is passed."""
    return Verification(
        **{
            "split": "valid",
            "samples": 50,
            "batches": (1, 2, 7),
            "lengths": (),
            "tolerance": 1e-4,
            "max_error": 2e-6,
            "scale": 1.0,
            "disagreements": 0,
            "ties": 0,
            "metrics": {"accuracy": (0.5, 0.5)},
            "runtime": "no-such-runtime 1.2.3",
            **fields,
        }
    )


def run_here(folder: Path, batches: Sequence[Sequence[Array]], device: str = "cpu") -> list[list[Array]]:
    """In place of `run_in_subprocess`, for tests that are about something else: the same runner, without a process of its
    own."""  # noqa: E501
    runner = runner_of(read_artifact(folder), device)
    return [runner.run(batch) for batch in batches]
