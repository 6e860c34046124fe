"""Sources that read as they go, in a real run: workers change nothing, and what is wrong is one sentence."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from tests.conftest import in_child
from trueloop.data.dataset import Dataset
from trueloop.data.images import image_folder, scaled
from trueloop.data.padding import padded
from trueloop.data.shards import Shards
from trueloop.data.source import Facts, Splits
from trueloop.engine.loop import Loop
from trueloop.engine.train import train
from trueloop.errors import BadData
from trueloop.recipe.recipe import Recipe


def shade(number: int) -> Image.Image:
    """Bright for odd numbers, dark for even ones, each with a pattern of its own."""
    pattern = np.random.default_rng(number).integers(0, 120, (5, 5, 3))
    return Image.fromarray((pattern + 120 * (number % 2)).astype(np.uint8))


def as_folder(root: Path) -> Splits:
    for number in range(24):
        path = root / ("dark", "bright")[number % 2] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        shade(number).save(path)
    return image_folder(root, in_memory=0)


def as_shards(root: Path) -> Splits:
    for shard in range(2):
        with tarfile.open(root / f"{shard}.tar", "w") as file:
            for number in range(12 * shard, 12 * shard + 12):
                held = io.BytesIO()
                shade(number).save(held, "PNG")
                for name, data in ((f"{number}.png", held.getvalue()), (f"{number}.cls", str(number % 2).encode())):
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    file.addfile(info, io.BytesIO(data))
    return Splits(
        train=Shards(root / "{0..1}.tar"), facts=Facts(inputs=(3, 5, 5), classes=("dark", "bright")), prepare=scaled
    )


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(75, 2))


def weights(recipe: Recipe) -> tuple[list[float], float]:
    """What a run ends with: all weights, and its accuracy on what it learned from."""
    loop = Loop.of(recipe)
    train(loop)
    source = loop.parts.splits.train
    batch = source.fetch(torch.arange(len(source)))
    assert loop.parts.splits.prepare is not None
    right = loop.parts.model(loop.parts.splits.prepare(batch.inputs)).argmax(1) == batch.targets
    return torch.cat(
        [each.detach().flatten() for each in loop.parts.model.parameters()]
    ).tolist(), right.float().mean().item()


@pytest.mark.parametrize("made", [as_folder, as_shards])
def test_workers_do_not_change_a_bit(tmp_path: Path, made: Any) -> None:
    splits = made(tmp_path)
    recipe = Recipe(name="t", model=network, data=lambda _: splits, epochs=8, batch=7, lr=0.02, balanced=True)
    alone, accuracy = in_child(lambda: weights(recipe))
    helped, _ = in_child(lambda: weights(replace(recipe, workers=2)))
    assert alone == helped
    assert accuracy == 1.0


class Mean(nn.Module):
    """Of the embeddings of all tokens but the padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 2, padding_idx=0)

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.embedding(tokens)
        return found.sum(1) / (tokens != 0).sum(1, keepdim=True)


def test_texts_of_different_lengths_are_learned(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    samples = [((draw.integers(1, 10, draw.integers(1, 9)) + 10 * label).tolist(), label) for label in [0, 1] * 20]
    splits = Splits(train=Dataset(samples, collate=padded))

    def work() -> Any:
        loop = Loop.of(Recipe(name="t", model=Mean, data=lambda _: splits, epochs=10, batch=8, lr=0.2, workers=1))
        train(loop)
        batch = splits.train.fetch(torch.arange(40))
        return (loop.parts.model(batch.inputs).argmax(1) == batch.targets).float().mean().item()

    assert in_child(work) == 1.0


@pytest.mark.parametrize("workers", [0, 1])
def test_a_sample_that_is_wrong_is_one_sentence_from_a_worker_too(workers: int) -> None:
    splits = Splits(train=Dataset([(torch.zeros(75), 0), (torch.zeros(75), "cat")]))
    recipe = Recipe(name="t", model=network, data=lambda _: splits, epochs=1, batch=2, workers=workers)

    def work() -> str:
        with pytest.raises(BadData) as raised:
            train(Loop.of(recipe))
        return str(raised.value)

    said = in_child(work)
    assert said.startswith("The target of sample 1 is the text 'cat'")
    assert "\n" not in said
