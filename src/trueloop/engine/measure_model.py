"""Loss and metrics of a model on evaluation batches, by its recipe: in a run, and after it."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from trueloop.data.source import Batch
from trueloop.engine.evaluate import evaluate
from trueloop.engine.own_evaluation import evaluate_own
from trueloop.engine.precision import Precision
from trueloop.engine.task import Task
from trueloop.parallel.peers import Peers
from trueloop.recipe.recipe import Recipe

__all__ = ["measure_model"]


def measure_model(
    model: nn.Module,
    batches: Iterable[Batch] | None,
    recipe: Recipe,
    task: Task,
    device: torch.device,
    precision: Precision,
    peers: Peers,
    idle: Iterable[Batch] = (),
    seen: Callable[[Any, Batch], None] | None = None,
) -> dict[str, float]:
    """`batches`: None where the recipe's own evaluation needs no data. `seen`: called with the outputs for
    each batch, except by an evaluation of the recipe's own."""
    if batches is None or recipe.evaluate is not None:
        return evaluate_own(recipe, model, batches or (), device, precision, peers)
    return evaluate(model, batches, task, device, precision, peers, idle, recipe.metrics, seen)
