"""Small subjects for claims: a recipe over blobs that takes a second, planted faults by `model=`, `data=` and fields,
and scripts."""

from __future__ import annotations

from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from trueloop.claims.catalogue import claims_named
from trueloop.claims.subject import CheckedRun, RecipeSubject, ScriptSubject
from trueloop.data.source import Facts, Splits
from trueloop.data.tensors import Tensors
from trueloop.event import Event
from trueloop.experiment.folder_copy import Snapshot, snapshot
from trueloop.recipe.recipe import DataRequest, Recipe
from trueloop.results.proof import Proof

__all__ = ["Blind", "blobs", "net", "recipe", "recorded_script", "try_recipe", "try_script"]

CLASSES, WIDTH = 3, 6


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, CLASSES))


class Blind(nn.Module):
    """Does not look at its input."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x * 0)  # type: ignore[no-any-return]


def blobs(request: DataRequest) -> Splits:
    """96 samples of three classes that can be told apart, 48 to validate."""
    draw = torch.Generator().manual_seed(1)
    labels = torch.arange(144) % CLASSES
    inputs = torch.randn(144, WIDTH, generator=draw) + 2 * torch.eye(CLASSES, WIDTH)[labels]
    return Splits(
        train=Tensors(inputs[:96], labels[:96]),
        valid=Tensors(inputs[96:], labels[96:]),
        facts=Facts(inputs=(WIDTH,), classes=("a", "b", "c")),
    )


def recipe(**changes: Any) -> Recipe:
    made = Recipe(
        name="blobs", model=net, data=blobs, task="multiclass", epochs=2, batch=16, lr=1e-2, device="cpu", trackers=()
    )
    return replace(made, **changes)


def try_recipe(name: str, scratch: Path, **changes: Any) -> Proof:
    """The claim, tried on the recipe with these changes."""
    made = recipe(**changes)
    (claim,) = claims_named([name])
    return claim.try_recipe(RecipeSubject(made, DataRequest(seed=made.seed), (), scratch))


def try_script(name: str, scratch: Path, text: str, *arguments: str, steps: int | None = None) -> Proof:
    """The claim, tried on a script with this text."""
    (scratch / "train.py").write_text(text, encoding="utf-8")
    (claim,) = claims_named([name])
    with chdir(scratch), snapshot(scratch / "train.py") as folder, TemporaryDirectory() as results:
        return claim.try_script(ScriptSubject(("train.py", *arguments), steps, Path(results), folder))


def recorded_script(scratch: Path, *events: Event) -> ScriptSubject:
    """A script of which this was recorded."""
    folder = Snapshot(scratch, (), scratch, scratch / "train.py", {}, ())
    subject = ScriptSubject(("train.py",), None, scratch, folder)
    subject.checked = CheckedRun(events, {"findings": [], "script": {}}, 0, "")
    return subject
