"""How good the model is, without changing anything: random states fenced, modes put back, sums weighted by counts."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from trueloop.data.source import Batch
from trueloop.engine.call_model import call_model
from trueloop.engine.carry import without_carried_state
from trueloop.engine.metrics import start_meters
from trueloop.engine.precision import Precision
from trueloop.engine.task_kind import Task
from trueloop.errors import BadData
from trueloop.measure.randomness import fence
from trueloop.parallel.peers import Peers

__all__ = ["evaluate", "evaluating"]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode and no graphs inside; afterwards every module is in the mode it was in, frozen parts too."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        # Not inference_mode: tables that a model makes and keeps (positions, masks) must be of use to the training.
        with fence(), torch.no_grad(), without_carried_state(model):
            yield
    finally:
        for module, training in modes:
            module.training = training


def evaluate(
    model: nn.Module,
    batches: Iterable[Batch],
    task: Task,
    device: torch.device,
    precision: Precision,
    peers: Peers,
    idle: Iterable[Batch] = (),
    metrics: Mapping[str, Any] = MappingProxyType({}),
    seen: Callable[[Any, Batch], None] | None = None,
) -> dict[str, float]:
    """Loss and metrics over all samples of a split and all processes. `idle`: computed for other ranks, not counted.
    `metrics`: the recipe's own. `seen`: called with the outputs for each batch."""
    wide = torch.float32 if device.type == "mps" else torch.float64  # a mean of many losses; mps has nothing wider
    with evaluating(model):
        sums = {name: torch.zeros((), dtype=wide, device=device) for name in ("loss", "count", *task.sums)}
        parts: dict[str, Any] = {}
        meters = start_meters(metrics, device)
        for micro in batches:
            with precision.autocast():
                output = call_model(model, micro.inputs)
                found, count = task.loss_and_count(output, micro)
            sums["loss"] += found.total
            sums["count"] += count
            for name, part in found.parts.items():
                parts[name] = parts.get(name, 0.0) + part.to(wide)
            for name, value in task.measures(output, micro.targets).items():
                sums[name] += value
            for meter in meters:
                meter.add(output, micro)
            if seen is not None:
                seen(output, micro)
        for micro in idle:
            with precision.autocast():
                call_model(model, micro.inputs)
        totals = {name: peers.sum(total.clone()).item() for name, total in sums.items()}
        if task.own_form:  # a process without a batch does not know the names of the parts
            for named in peers.gather({name: float(part) for name, part in parts.items()}):
                totals |= {name: totals.get(name, 0.0) + part for name, part in named.items()}
        if not totals["count"]:
            raise BadData("All targets of the evaluation data are ignored. Give data with targets, or valid=None.")
        own = [meter.results(peers) for meter in meters]
    return task.metrics(totals) | {name: value for values in own for name, value in values.items()}
