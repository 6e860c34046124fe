"""Evidence to compare a trial with the reference: its loss curve, its gradients at the same weights, and its metric
after a short training for several seeds. `agreement.py` compares.

For the curve and the gradients dropout is off: compiled and eager programs draw different random numbers. The
reference's own distance, measured with other seeds, covers models that draw anyway.
"""

import gc
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, final

import torch
from torch import Tensor, nn

from trueloop.data.source import Batch
from trueloop.engine.batches import Window
from trueloop.engine.compile_model import compile_model
from trueloop.engine.loop import Loop
from trueloop.engine.nonfinite_guard import clear_gradients
from trueloop.engine.programs.eager import Eager
from trueloop.engine.sample_order import mix_seed
from trueloop.engine.torch_settings import torch_settings
from trueloop.hook import Hook, Row
from trueloop.measure.model import restored_buffers
from trueloop.measure.randomness import fence, seed_all
from trueloop.recipe.recipe import Recipe
from trueloop.torch_private.modules import DropoutNd
from trueloop.tune.timing import Enough, TrialRecipe

__all__ = ["MOVED", "Order", "collect_evidence", "disable_dropout"]

MOVED: Final = 2.0**-8
"""Relative perturbation of the weights: one rounding to bf16, which has eight bits. A recipe does not choose between
these initial weights, so the distance of their trainings is noise."""
TRIES: Final = 24  # For the fp16 GradScaler to find a scale: it starts at 2^16 and halves


@dataclass(frozen=True, slots=True)
class Order:
    steps: int
    seeds: int
    moved: int = 0  # Loss curves from perturbed weights, of the reference only
    gradients: bool = True
    curve: bool = True  # Not for another batch size, whose steps are different


def collect_evidence(subject: TrialRecipe, reference: Recipe, order: Order) -> dict[str, Any]:
    made: dict[str, Any] = {"steps": order.steps, "curve": [], "moved": [], "gradients": [], "metrics": [], "ended": ""}
    if order.curve:
        loop = _short(subject, order.steps, curve := _Curve())
        disable_dropout(loop.parts.model)
        other = subject.of(reference).loop(epochs=None, steps=order.steps) if order.gradients else None
        if other is not None:
            disable_dropout(other.parts.model)
            made["gradients"].append(_compared(loop, other, 0))
        made["ended"] = _trained(loop)
        made["curve"] = curve.rows
        if other is not None and not made["ended"]:
            other.parts.model.load_state_dict(loop.parts.model.state_dict())
            made["gradients"].append(_compared(loop, other, 1))
        del loop, other
        gc.collect()  # reference cycles hold memory
    for number in range(order.moved):
        loop = _short(subject, order.steps, curve := _Curve())
        disable_dropout(loop.parts.model)
        seed_all(number + 1)
        _perturb(loop.parts.model, number + 1)
        _trained(loop)
        made["moved"].append(curve.rows)
        del loop
        gc.collect()
    made |= _metrics(subject, order)
    return made


# -- the loss curve --


@final
class _Curve(Hook):
    """(step before, step after, mean loss)"""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, float]] = []
        self.end = math.inf

    def logged(self, row: Row) -> None:
        if row.kind == "train":
            self.rows.append((self.rows[-1][1] if self.rows else 0, row.step, row.values["loss"]))
            if row.step >= self.end:
                raise Enough  # before it evaluates or saves


def _short(subject: TrialRecipe, steps: int, curve: _Curve) -> Loop:
    """A short training: its schedule compressed into a few steps."""
    recipe = subject.recipe
    curve.end = steps
    every = recipe.steps_per_replay if recipe.program == "cuda_graphs" else 1  # only full replays
    return subject.loop(curve, epochs=None, steps=steps, log_every=every)


def _trained(loop: Loop) -> str:
    """Why it ended early; empty: it did not."""
    try:
        ending = loop.train()
    except Enough:
        return ""
    return ending.message if ending.reason != "finished" else ""


def disable_dropout(model: nn.Module) -> None:
    """Dropout off, as a layer and as an attribute under its usual names."""
    for module in model.modules():
        if isinstance(module, DropoutNd):
            module.p = 0.0
        for name in ("dropout", "dropout_p", "drop", "attn_dropout", "resid_dropout"):
            if isinstance(vars(module).get(name), float):
                setattr(module, name, 0.0)


@torch.no_grad()
def _perturb(model: nn.Module, seed: int) -> None:
    """Perturbs every weight by about one rounding."""
    for number, parameter in enumerate(model.parameters()):
        # Drawn on the device: a hundred million draws on a CPU are slow.
        draws = torch.Generator(parameter.device).manual_seed(mix_seed(seed, number))
        noise = torch.randn(parameter.shape, generator=draws, device=parameter.device).to(parameter.dtype)
        parameter.mul_(1 + MOVED * noise)


# -- gradients --


def _compared(loop: Loop, reference: Loop, number: int) -> dict[str, Any]:
    """Per layer: cosines with the reference, and of it with itself at perturbed weights; ratios of gradient norms."""
    first = loop.parts.batches.again(0, number % loop.parts.batches.steps_per_epoch)
    ours, theirs = _gradients(loop, first, 0), _gradients(reference, first, 0)
    _perturb(reference.parts.model, number + 1)
    beside = _gradients(reference, first, 1)
    layers = {name: (_cosine(theirs[name], ours.get(name)), _cosine(theirs[name], beside.get(name))) for name in theirs}
    return {"layers": layers, "length": _length(ours) / max(_length(theirs), 1e-30)}


def _gradients(loop: Loop, batch: Batch, seed: int) -> dict[str, Tensor]:
    """Of one batch, computed by the loop's own program; the loop is restored."""
    micros = loop.parts.batches.micros(batch)
    state = loop.parts.precision.state()
    loop.parts.into_training_mode()
    try:
        with fence(seed), restored_buffers(loop.parts.model), torch_settings(loop.parts.precision, loop.parts.recipe):
            return _scaled_gradients(loop, Window(micros, 0, False))
    finally:
        clear_gradients(loop.parts.parameters)
        loop.parts.precision.restore(state)


def _scaled_gradients(loop: Loop, window: Window) -> dict[str, Tensor]:
    """With a loss scale that does not overflow."""
    parts, program, found = loop.parts, loop.program, {}
    if program.replays:
        # The closest equivalent of a recorded graph.
        program = Eager(replace(parts, forward=compile_model(parts.recipe, parts.model)), loop.state)
    program.prepare()
    for _ in range(TRIES):
        clear_gradients(parts.parameters)
        targets = parts.count_targets(window)
        for micro in window.micros:
            program.backward(micro, targets)
        parts.precision.unscale(parts.optimizer)
        named = parts.model.named_parameters()
        found = {name: parameter.grad.detach().clone() for name, parameter in named if parameter.grad is not None}
        parts.precision.learn()
        if parts.precision.scaler is None or all(bool(each.isfinite().all()) for each in found.values()):
            break
    return found


def _cosine(one: Tensor, two: Tensor | None) -> float:
    """0 if there is nothing to compare, or it is not finite."""
    if two is None or one.is_sparse or two.is_sparse:
        return 1.0 if two is not None else 0.0
    wide = torch.float32 if one.device.type == "mps" else torch.float64
    one, two = one.to(wide).flatten(), two.to(wide).flatten()
    length = float(torch.linalg.vector_norm(one) * torch.linalg.vector_norm(two))
    cosine = float(one @ two) / length if length > 0 else 0.0
    return cosine if math.isfinite(cosine) else 0.0


def _length(gradients: Mapping[str, Tensor]) -> float:
    return math.sqrt(
        sum(
            float(torch.linalg.vector_norm(each.double() if each.device.type != "mps" else each)) ** 2
            for each in gradients.values()
        )
    )


# -- the metric --


@final
class _Valid(Hook):
    def __init__(self) -> None:
        self.values: Mapping[str, float] = {}

    def logged(self, row: Row) -> None:
        if row.kind == "valid":
            self.values = row.values


def _metrics(subject: TrialRecipe, order: Order) -> dict[str, Any]:
    """After a short training per seed, with dropout."""
    if subject.splits.valid is None:
        return {"metric": "", "higher": True}
    loop, values = None, []
    for number in range(order.seeds):
        kept = _Valid()
        seed, steps = subject.recipe.seed + number, order.steps
        loop = subject.loop(kept, seed=seed, epochs=None, steps=steps, log_every=steps)
        ended = _trained(loop)
        gc.collect()
        values.append(kept.values.get(loop.parts.metric, math.nan) if not ended else math.nan)
    if loop is None:
        return {"metric": "", "higher": True}
    return {"metric": loop.parts.metric, "higher": loop.parts.higher_is_better, "metrics": values}
