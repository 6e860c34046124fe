"""A small model that is trained in a second, with its data: what labs about shipping start from."""

from pathlib import Path
from typing import Final

import torch
from torch import Tensor, nn

from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.engine.task import build_task
from trueloop.errors import TrueloopError
from trueloop.export.catalogue import find_exporter
from trueloop.export.export_model import export_model
from trueloop.export.trained_model import Origin, TrainedModel
from trueloop.labs.lab import NotHere
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.results.artifact import Artifact

__all__ = ["export_here", "trained_here", "trained_on_images"]

STEPS: Final = 80


def trained_here(model: nn.Module, splits: Splits, name: str, task: str = "multiclass") -> TrainedModel:
    """As `trueloop export` would find it in a run."""
    recipe = Recipe(name=name, model=lambda: model, data=lambda _: splits, epochs=1, task=task)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    draws = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        batch = splits.train.fetch(torch.randint(len(splits.train), (64,), generator=draws))
        inputs = batch.inputs if splits.prepare is None else splits.prepare(batch.inputs)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs).flatten(0, -2), batch.targets.flatten()).backward()
        optimizer.step()
    about = {"id": name, "step": STEPS, "checkpoint": "", "weights": "model", "recipe": {"name": name}}
    model.eval().requires_grad_(False)
    origin = Origin(Path(name), recipe, DataRequest())
    return TrainedModel(origin, model, splits, build_task(recipe, splits.facts), about)


class Quadrants(nn.Module):
    """Which quarter of an 8 x 8 picture is the brightest?"""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Conv2d(1, 8, 3, padding=1)
        self.first, self.last = nn.Linear(8 * 16, 32), nn.Linear(32, 4)

    def forward(self, images: Tensor) -> Tensor:
        seen = nn.functional.avg_pool2d(self.look(images).relu(), 2)
        scores: Tensor = self.last(self.first(seen.flatten(1)).relu())
        return scores


def scaled(images: Tensor) -> Tensor:
    return images.float() / 127.5 - 1


def trained_on_images() -> TrainedModel:
    draws = torch.Generator().manual_seed(0)
    images = torch.randint(0, 128, (768, 1, 8, 8), generator=draws, dtype=torch.uint8)
    labels = torch.randint(0, 4, (768,), generator=draws)
    for image, label in zip(images, labels.tolist(), strict=True):
        image[:, 4 * (label // 2) :, 4 * (label % 2) :][:, :4, :4] += 100
    parts = [Tensors(images[part], labels[part]) for part in (slice(0, 512), slice(512, None))]
    facts = Facts(inputs=(1, 8, 8), classes=("top left", "top right", "bottom left", "bottom right"))
    torch.manual_seed(0)
    return trained_here(Quadrants(), Splits(parts[0], parts[1], facts=facts, prepare=scaled), "quadrants")


def export_here(trained: TrainedModel, target: str, folder: Path) -> Artifact:
    """Written, and verified in a process of its own. Raises NotHere if a package is missing."""
    exporter = find_exporter(target)
    try:
        exporter.require("cpu")
    except TrueloopError as error:
        raise NotHere(str(error).partition(". ")[0] + ".") from None
    return export_model(trained, exporter, folder / target)
