"""precision-agrees: in half the bits, the model computes the same loss and learns in the same direction.

After some steps in fp32, so that the activations are those of a training, one batch is computed in fp32 and by autocast
in bf16 and in fp16 (the latter with a scaled loss, as a scaler does; and in tf32 on a CUDA device). Held against fp32:
the loss, the direction of the gradient, and the metric on some samples of the validation data.

What is judged is the precision that the recipe asks for. A recipe in fp32 is judged by bf16: it has the range of fp32,
so that a model that cannot be computed in it hangs on the last bits (a small difference of large numbers), in fp32 too.
fp16 overflows above 65,504, which is no fault of a recipe that does not ask for it: what it would do is said, and does
not fail the claim.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor

from trueloop.claims.claim import Claim
from trueloop.claims.numbers import SMALL, Numbers, first_apart, numbers_of, quieted
from trueloop.claims.steps import few
from trueloop.claims.subject import RecipeSubject
from trueloop.data.source import Batch, size_of
from trueloop.engine.batches import EvaluationBatches
from trueloop.engine.evaluate import evaluate
from trueloop.engine.parts import Parts
from trueloop.engine.precision import Precision
from trueloop.results.proof import Cause, Proof
from trueloop.usercode.ownership import birthplace

__all__ = ["PrecisionAgrees"]

SAMPLES: Final = 32
STEPS: Final = 10
"""In fp32, before it is measured: fresh weights give small activations."""
VALID: Final = 256
"""Samples of the validation data that the metric is taken on."""
LOSS: Final = 0.05
"""Of the loss: bf16 has 8 bits, 0.4 % in each product; over a deep model, 1 to 2 % is usual."""
COSINE: Final = 0.95
"""Between the gradients: 18 degrees. Another batch of the same size turns the gradient further than that."""
METRIC: Final = 0.05
"""Points of an accuracy (or share of a metric that is no share): some samples lie on the border, and go to either
side."""
LOST: Final = 0.1
"""Of a layer's output, as a length: a layer that has lost so much hands on more error than numbers of 8 bits bring by
themselves."""
SCALES: Final = (65536.0, 1024.0, 16.0, 1.0)
"""Of the loss in fp16: a scaler begins with the first, and comes down until the gradients are numbers."""

OVERFLOW: Final = Cause(
    "values above 65,504 overflow in fp16",
    "use bf16, whose range is that of fp32; or scale the inputs, or normalise before that layer",
)
CANCELS: Final = Cause(
    "a small difference of large numbers is taken",
    "centre the values first, or keep that part in fp32: torch.autocast(..., enabled=False)",
)
LONG_SUM: Final = Cause(
    "a long sum or a product of many factors is taken in half the bits", "take it in fp32: x.float().sum(), log and add"
)
SHARP: Final = Cause(
    "an argmax, a sort, a comparison or a division by nearly zero decides", "look at what the named layer divides by"
)


@final
class PrecisionAgrees(Claim):
    name = "precision-agrees"
    healthy = f"the loss within {LOSS:.0%}, the gradients' cosine above {COSINE}, the metric within {METRIC:.0%} of those in fp32"
    causes: ClassVar[tuple[Cause, ...]] = (CANCELS, LONG_SUM, OVERFLOW, SHARP)

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        asked = subject.recipe.precision
        parts = subject.parts(precision="fp32", compile="off", accumulate=1)
        parts.model.train()
        for number in range(STEPS):
            _step(parts, few(_batch(parts, number), SAMPLES))
        batch = few(_batch(parts, 0), SAMPLES)
        mode = quieted(parts.model, parts.task, batch)
        whole = _numbers(parts, batch, "fp32")
        if not math.isfinite(whole.loss):
            return self.unproved("the loss is no number in fp32: the claim first-nonfinite says where that begins")
        tried: dict[str, _Tried] = {}
        missing: dict[str, str] = {}
        for name in ("bf16", "fp16", *(["tf32"] if parts.device.type == "cuda" else [])):
            try:
                tried[name] = _Tried.of(parts, batch, whole, name)
            except RuntimeError as error:  # a kernel that this device does not have in these bits
                missing[name] = str(error).partition("\n")[0]
        judging = "bf16" if asked == "fp32" else asked
        judged = tried.get(judging)
        facts: dict[str, object] = {
            "asked": asked,
            "mode": mode,
            "device": str(parts.device),
            **{n: t.facts() for n, t in tried.items()},
        }
        others = "; ".join(
            [
                *(
                    f"{each.name} {'agrees too' if each.safe else each.trouble()}"
                    for each in tried.values()
                    if each is not judged
                ),
                *(f"{name} cannot be computed on this {parts.device.type}" for name in missing if name != judging),
            ]
        )
        if judged is None:
            why = missing.get(judging, "it is for CUDA devices, and there is none here")
            return self.unproved(f"{judging} cannot be computed on this {parts.device.type}: {why}", facts)
        by = f"(the recipe is in fp32, judged by bf16; {others})" if asked == "fp32" else f"({others})"
        if judged.safe:
            return self.holds(f"{judged.agreement()} {by}", facts)
        said = f"{judged.name}: {judged.trouble()}{judged.where()} {by}"
        place = birthplace(parts.model, judged.layer) if judged.layer else None
        first = OVERFLOW if judged.overflows and judged.name == "fp16" else CANCELS
        return self.fails(said, facts, (first, *(cause for cause in self.causes if cause is not first)), place)


@dataclass(frozen=True)
class _Tried:
    """One precision, held against fp32."""

    name: str
    loss: float
    of_whole: float
    cosine: float
    worst: str
    """The parameter whose gradient turns the most, and by how much."""
    worst_cosine: float
    metric: tuple[str, float, float] | None
    """Its name; in fp32; in this precision."""
    layer: str | None
    """The first whose output lost too much, or overflowed."""
    overflows: bool

    @classmethod
    def of(cls, parts: Parts, batch: Batch, whole: Numbers, name: str) -> _Tried:
        half = _numbers(parts, batch, name)
        most = SMALL * max((float(each.abs().max()) for each in whole.gradients.values() if each.numel()), default=0.0)
        large = {
            key: each for key, each in whole.gradients.items() if each.numel() and float(each.abs().max()) > most
        }  # not noise
        cosines = {key: _cosine(each, half.gradients.get(key)) for key, each in large.items()}
        worst = min(cosines, key=lambda key: cosines[key], default="")
        both = (
            torch.cat([torch.zeros(1), *(each.flatten() for each in made.gradients.values())]) for made in (whole, half)
        )
        overflows = any(not bool(value.isfinite().all()) for value in half.layers.values())
        inner = {
            key: value for key, value in whole.layers.items() if not any(parts.model.get_submodule(key).children())
        }
        layer = first_apart(inner, half.layers, LOST, _lost)
        metric = _metric(parts, name)
        return cls(
            name, half.loss, whole.loss, _cosine(*both), worst, cosines.get(worst, 1.0), metric, layer, overflows
        )

    @property
    def loss_apart(self) -> float:
        return abs(self.loss - self.of_whole) / abs(self.of_whole) if self.of_whole else abs(self.loss)

    @property
    def metric_apart(self) -> float:
        if self.metric is None:
            return 0.0
        name, whole, half = self.metric
        return abs(half - whole) / (1.0 if name in ("accuracy", "f1", "r2") else abs(whole) or 1.0)

    @property
    def safe(self) -> bool:
        return self.loss_apart <= LOSS and self.cosine >= COSINE and self.metric_apart <= METRIC

    def agreement(self) -> str:
        said = f"{self.name}: the loss is {self.loss:.4g} against {self.of_whole:.4g} in fp32, the gradients' cosine {self.cosine:.4f}"
        said += f" (worst: {self.worst}, {self.worst_cosine:.3f})" if self.worst else ""
        return said + (f", {self.metric[0]} {self.metric[2]:.4g} against {self.metric[1]:.4g}" if self.metric else "")

    def trouble(self) -> str:
        """The first that is out of its bounds."""
        if not self.loss_apart <= LOSS:
            return f"the loss is {self.loss:.4g}, and {self.of_whole:.4g} in fp32"
        if not self.cosine >= COSINE:
            worst = f"; the gradient of {self.worst} turns the most ({self.worst_cosine:.2f})" if self.worst else ""
            return f"the gradient points elsewhere than in fp32 (cosine {self.cosine:.3f}){worst}"
        name, whole, half = self.metric or ("", 0.0, 0.0)
        return f"{name} is {half:.4g}, and {whole:.4g} in fp32"

    def where(self) -> str:
        if self.layer is None:
            return "; every layer's output is close: it begins in the loss, or in the backward"
        return f"; the layer {self.layer} is the first whose output {'overflows' if self.overflows else f'loses more than {LOST:.0%}'}"

    def facts(self) -> dict[str, object]:
        return {
            "loss": self.loss,
            "loss_in_fp32": self.of_whole,
            "cosine": self.cosine,
            "worst_gradient": self.worst,
            "worst_cosine": self.worst_cosine,
            "metric": list(self.metric or ()),
            "first_layer": self.layer or "",
            "safe": self.safe,
        }


def _batch(parts: Parts, number: int) -> Batch:
    batch = parts.batches.batch_at(0, number % parts.batches.steps_per_epoch)
    assert batch is not None, "a single process has a part in every batch"
    return batch


def _step(parts: Parts, batch: Batch) -> None:
    parts.optimizer.zero_grad(set_to_none=True)
    loss = parts.task.loss_sum(parts.model(batch.inputs), batch.targets) / parts.task.count(batch.targets)
    loss.backward()  # type: ignore[no-untyped-call]
    if parts.recipe.clip is not None:
        torch.nn.utils.clip_grad_norm_(parts.parameters, parts.recipe.clip)
    parts.optimizer.step()


def _numbers(parts: Parts, batch: Batch, name: str) -> Numbers:
    precision = Precision(name, parts.device)
    with precision.matmul_precision(), _slowly():
        for scale in SCALES if name == "fp16" else (1.0,):
            made = numbers_of(parts.model, parts.task, batch, around=precision.autocast(), scale=scale, layers=True)
            if not math.isfinite(made.loss) or all(bool(each.isfinite().all()) for each in made.gradients.values()):
                break
    return made


@contextmanager
def _slowly() -> Iterator[None]:
    """A CPU without instructions for half the bits computes in other ways, and torch warns of it with a page: it is
    only slower."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "mkldnn_matmul failed", UserWarning)
        yield


def _metric(parts: Parts, name: str) -> tuple[str, float, float] | None:
    """On the first samples of the validation data."""
    if parts.splits.valid is None:
        return None
    some: list[Batch] = []
    for batch in EvaluationBatches(parts.splits.valid, parts.splits, parts.recipe, parts.device, parts.peers):
        some.append(batch)
        if sum(size_of(each.inputs) for each in some) >= VALID:
            break
    values: list[float] = []
    for precision in (Precision("fp32", parts.device), Precision(name, parts.device)):
        with precision.matmul_precision(), _slowly():
            values.append(evaluate(parts.model, some, parts.task, parts.device, precision, parts.peers)[parts.metric])
    return parts.metric, values[0], values[1]


def _cosine(one: Tensor, two: Tensor | None) -> float:
    """-1 where there is nothing to compare, or no number."""
    if two is None or one.shape != two.shape:
        return -1.0
    one, two = one.double().flatten(), two.double().flatten()
    length = float(one.norm() * two.norm())
    cosine = float(one @ two) / length if length else 0.0
    return cosine if math.isfinite(cosine) else -1.0


def _lost(one: Tensor, two: Tensor) -> float:
    """The length of the difference, as a share of the output's own."""
    if one.shape != two.shape or not one.is_floating_point() or not float(one.double().norm()):
        return 0.0
    lost: Any = float((one.double() - two.double()).norm() / one.double().norm())
    return math.inf if math.isnan(lost) else float(lost)
