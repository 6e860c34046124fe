"""precision-agrees: in half precision, the model computes the same loss and a gradient of the same direction.

After some steps in fp32, so that activations are those of a training, one batch is computed in fp32 and with autocast
in bf16 and in fp16 (with a scaled loss; and in tf32 on a CUDA device). Compared with fp32: the loss, the direction of
the gradient, and the metric on some validation samples.

The verdict is about the recipe's precision. A recipe in fp32 is checked with bf16, which has the range of fp32: a model
that fails in bf16 depends on the last bits (a small difference of large numbers), in fp32 too. fp16 overflows above
65,504, which is not a fault of a recipe in fp32: its result is reported, and does not fail the claim.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final, final

import torch
from torch import Tensor

from trueloop.claims.batch_result import (
    SMALL,
    BatchResult,
    compute_result,
    disable_randomness,
    first_differing_layer,
    largest_value,
)
from trueloop.claims.claim import Claim
from trueloop.claims.subject import RecipeSubject
from trueloop.claims.training_step import batch_at, first_samples
from trueloop.data.source import Batch, size_of
from trueloop.engine.batches import EvaluationBatches
from trueloop.engine.call_model import call_model
from trueloop.engine.evaluate import evaluate
from trueloop.engine.parts import Parts
from trueloop.engine.precision import Precision
from trueloop.results.proof import Cause, Proof
from trueloop.usercode.ownership import layer_place

__all__ = ["PrecisionAgrees"]

SAMPLES: Final = 32
STEPS: Final = 10  # in fp32 before the measurement: initial weights give small activations
VALID: Final = 256  # validation samples for the metric
LOSS: Final = 0.05  # relative: bf16 has 8 bits, 0.4 % per product; 1 to 2 % are usual in a deep model
COSINE: Final = 0.95  # between gradients, 18 degrees: a different batch of this size turns the gradient further
METRIC: Final = 0.05  # accuracy points, or relative: some samples are at the decision boundary
LOST: Final = 0.1  # relative error of a layer's output: more than the rounding of 8 bits explains
SCALES: Final = (65536.0, 1024.0, 16.0, 1.0)  # loss scales in fp16, until the gradients are finite

OVERFLOW = Cause("values above 65,504 overflow in fp16", "use bf16, with the range of fp32; or normalize before it")
CANCELS = Cause(
    "a small difference of large numbers",
    "center values first, or keep it in fp32: `torch.autocast(..., enabled=False)`",
)
LONG_SUM = Cause("a long sum or product is in half precision", "use fp32: `x.float().sum()`, or logarithms")
SHARP = Cause("an argmax, a sort, a comparison or a division by nearly zero decides", "look into the named layer")


@final
class PrecisionAgrees(Claim):
    name = "precision-agrees"
    healthy = f"loss within {LOSS:.0%}, cosine of the gradients above {COSINE}, metric within {METRIC:.0%} of fp32"
    causes: ClassVar[tuple[Cause, ...]] = (CANCELS, LONG_SUM, OVERFLOW, SHARP)

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        wanted = subject.recipe.precision
        parts = subject.parts(precision="fp32", compile="off", accumulate=1)
        parts.model.train()
        for number in range(STEPS):
            _step(parts, first_samples(batch_at(parts, number % parts.batches.steps_per_epoch), SAMPLES))
        batch = first_samples(batch_at(parts, 0), SAMPLES)
        mode = disable_randomness(parts.model, parts.task, batch)
        full = _compute(parts, batch, "fp32")
        if not math.isfinite(full.loss):
            return self.unproved("the loss is NaN or Inf in fp32: see the claim first-nonfinite")
        tried: dict[str, _Comparison] = {}
        missing: dict[str, str] = {}
        for name in ("bf16", "fp16", *(["tf32"] if parts.device.type == "cuda" else [])):
            try:
                tried[name] = _Comparison.of(parts, batch, full, name)
            except RuntimeError as error:  # this device has no kernel for it
                missing[name] = str(error).partition("\n")[0]
        name = "bf16" if wanted == "fp32" else wanted
        facts: dict[str, object] = {"precision": wanted, "mode": mode, "device": str(parts.device)}
        facts |= {each.name: each.facts() for each in tried.values()}
        cannot = f"cannot be computed on this {parts.device.type}"
        if name not in tried:
            return self.unproved(f"{name} {cannot}: {missing.get(name, 'it needs a CUDA device')}", facts)
        result = tried.pop(name)
        others = [f"{each.name} {'agrees too' if each.safe else each.trouble()}" for each in tried.values()]
        others += [f"{each} {cannot}" for each in missing]
        by = f"({'the recipe is in fp32, checked with bf16; ' * (wanted == 'fp32')}{'; '.join(others)})"
        if result.safe:
            return self.holds(f"{result.agreement()} {by}", facts)
        place = layer_place(parts.model, result.layer) if result.layer else None
        causes = self.likely_first(OVERFLOW if result.overflows and name == "fp16" else CANCELS)
        return self.fails(f"{name}: {result.trouble()}{result.where()} {by}", facts, causes, place)


@dataclass(frozen=True)
class _Comparison:
    """One precision, compared with fp32."""

    name: str
    loss: float
    full_loss: float
    cosine: float
    worst: str  # the parameter whose gradient turns the most
    worst_cosine: float
    metric: tuple[str, float, float] | None  # name, in fp32, in this precision
    layer: str | None  # the first whose output lost too much, or overflowed
    overflows: bool

    @classmethod
    def of(cls, parts: Parts, batch: Batch, full: BatchResult, name: str) -> _Comparison:
        half = _compute(parts, batch, name)
        least = SMALL * largest_value(full.gradients)
        gradients = {key: each for key, each in full.gradients.items() if each.numel()}
        large = {key: each for key, each in gradients.items() if float(each.abs().max()) > least}  # not noise
        cosines = {key: _cosine(each, half.gradients.get(key)) for key, each in large.items()}
        worst = min(cosines, key=lambda key: cosines[key], default="")
        both = (torch.cat([torch.zeros(1), *map(torch.flatten, each.gradients.values())]) for each in (full, half))
        overflows = any(not bool(value.isfinite().all()) for value in half.layers.values())
        inner = {key: value for key, value in full.layers.items() if not any(parts.model.get_submodule(key).children())}
        layer, metric = first_differing_layer(inner, half.layers, LOST, _lost), _metric(parts, name)
        turned = cosines.get(worst, 1.0)
        return cls(name, half.loss, full.loss, _cosine(*both), worst, turned, metric, layer, overflows)

    @property
    def safe(self) -> bool:
        return self._loss_difference <= LOSS and self.cosine >= COSINE and self._metric_difference <= METRIC

    @property
    def _loss_difference(self) -> float:
        return abs(self.loss - self.full_loss) / abs(self.full_loss) if self.full_loss else abs(self.loss)

    @property
    def _metric_difference(self) -> float:
        if self.metric is None:
            return 0.0
        name, full, half = self.metric
        return abs(half - full) / (1.0 if name in ("accuracy", "f1", "r2") else abs(full) or 1.0)

    def agreement(self) -> str:
        said = f"{self.name}: loss {self.loss:.4g} and {self.full_loss:.4g} in fp32, gradient cosine {self.cosine:.4f}"
        said += f" (worst: {self.worst}, {self.worst_cosine:.3f})" if self.worst else ""
        return said + (f", {self.metric[0]} {self.metric[2]:.4g} and {self.metric[1]:.4g}" if self.metric else "")

    def trouble(self) -> str:
        """The first value out of bounds."""
        if not self._loss_difference <= LOSS:
            return f"the loss is {self.loss:.4g}, and {self.full_loss:.4g} in fp32"
        if not self.cosine >= COSINE:
            worst = f"; the gradient of {self.worst} turns the most ({self.worst_cosine:.2f})" if self.worst else ""
            return f"the gradient has a different direction than in fp32 (cosine {self.cosine:.3f}){worst}"
        name, full, half = self.metric or ("", 0.0, 0.0)
        return f"{name} is {half:.4g}, and {full:.4g} in fp32"

    def where(self) -> str:
        if self.layer is None:
            return "; all layer outputs are close: it begins in the loss or in the backward"
        loses = "overflows" if self.overflows else f"loses more than {LOST:.0%}"
        return f"; the layer {self.layer} is the first whose output {loses}"

    def facts(self) -> dict[str, object]:
        return {
            "loss": self.loss,
            "loss_in_fp32": self.full_loss,
            "cosine": self.cosine,
            "worst_gradient": self.worst,
            "worst_cosine": self.worst_cosine,
            "metric": list(self.metric or ()),
            "first_layer": self.layer or "",
            "safe": self.safe,
        }


def _step(parts: Parts, batch: Batch) -> None:
    parts.optimizer.zero_grad(set_to_none=True)
    loss = parts.task.mean_loss(call_model(parts.model, batch.inputs), batch)
    loss.backward()  # type: ignore[no-untyped-call]
    if parts.recipe.clip is not None:
        torch.nn.utils.clip_grad_norm_(parts.parameters, parts.recipe.clip)
    parts.optimizer.step()


def _compute(parts: Parts, batch: Batch, name: str) -> BatchResult:
    precision = Precision(name, parts.device)
    with precision.matmul_precision(), _no_slow_matmul_warning():
        for scale in SCALES if name == "fp16" else (1.0,):
            around = precision.autocast()
            result = compute_result(parts.model, parts.task, batch, around=around, scale=scale, layers=True)
            finite = all(bool(each.isfinite().all()) for each in result.gradients.values())
            if finite or not math.isfinite(result.loss):
                break
    return result


@contextmanager
def _no_slow_matmul_warning() -> Iterator[None]:
    """torch warns on CPUs without half-precision instructions; it is only slower."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "mkldnn_matmul failed", UserWarning)
        yield


def _metric(parts: Parts, name: str) -> tuple[str, float, float] | None:
    """On the first validation samples."""
    if parts.splits.valid is None:
        return None
    batches: list[Batch] = []
    for batch in EvaluationBatches(parts.splits.valid, parts.splits, parts.recipe, parts.device, parts.peers):
        batches.append(batch)
        if sum(size_of(each.inputs) for each in batches) >= VALID:
            break
    values: list[float] = []
    for precision in (Precision("fp32", parts.device), Precision(name, parts.device)):
        with precision.matmul_precision(), _no_slow_matmul_warning():
            own = parts.recipe.metrics
            found = evaluate(parts.model, batches, parts.task, parts.device, precision, parts.peers, metrics=own)
            values.append(found[parts.metric])
    return parts.metric, values[0], values[1]


def _cosine(one: Tensor, two: Tensor | None) -> float:
    """-1 where there is nothing to compare, or NaN."""
    if two is None or one.shape != two.shape:
        return -1.0
    one, two = one.double().flatten(), two.double().flatten()
    norms = float(one.norm() * two.norm())
    cosine = float(one @ two) / norms if norms else 0.0
    return cosine if math.isfinite(cosine) else -1.0


def _lost(one: Tensor, two: Tensor) -> float:
    """Norm of the difference over the norm of the output."""
    if one.shape != two.shape or not one.is_floating_point() or not float(one.double().norm()):
        return 0.0
    lost = float((one.double() - two.double()).norm() / one.double().norm())
    return math.inf if math.isnan(lost) else lost
