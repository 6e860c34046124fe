"""A small student learns from a large teacher: two models, two optimizers, two phases. Handwritten digits.

trueloop train examples/distillation.py
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trueloop import Loop, Recipe
from trueloop.recipes.digits import read

TAUGHT = 12  # Epochs of the teacher
WARMTH = 3.0


def networks() -> dict[str, nn.Module]:
    teacher = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    return {"teacher": teacher, "student": nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))}


def optimizers(models: Any) -> dict[str, torch.optim.Optimizer]:
    rates = {"teacher": 1e-3, "student": 5e-3}
    return {name: torch.optim.AdamW(models[name].parameters(), lr=rates[name]) for name in models}


def step(loop: Loop, batch: Any) -> dict[str, Tensor]:
    teacher, student = loop.models["teacher"], loop.models["student"]
    if loop.epoch < TAUGHT:
        loss = F.cross_entropy(teacher(batch.inputs), batch.targets)
        loop.update(loss, "teacher")
        return {"teacher": loss}
    teacher.eval()
    with torch.no_grad():
        soft = (teacher(batch.inputs) / WARMTH).softmax(1)
    loss = F.cross_entropy(student(batch.inputs) / WARMTH, soft)  # the student never sees a label
    loop.update(loss, "student")
    return {"student": loss}


def evaluate(models: Any, batch: Any) -> dict[str, Tensor]:
    return {name: (models[name](batch.inputs).argmax(1) == batch.targets).float().mean() for name in models}


recipe = Recipe(
    name="distillation", model=networks, data=read, step=step,
    optimizers=optimizers, evaluate=evaluate, metric="student", epochs=40, batch=64, trackers=(),
)  # fmt: skip
