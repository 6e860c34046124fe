"""large-batch-equals-accumulated: a batch in several micro-batches gives the gradient of the complete batch.

Gradient accumulation and several processes rely on it. It breaks where a loss sums instead of averaging, divides by
something else than its number of targets, or depends on several samples of its micro-batch. Batch norms do that by
design: they are in eval mode here, and the change that they alone would cause is reported too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar, Final, final

import torch
from torch import Tensor

from trueloop.claims.claim import Claim
from trueloop.claims.subject import RecipeSubject
from trueloop.claims.training_step import backward, select_samples, without_dropout
from trueloop.data.source import Batch, size_of
from trueloop.engine.parts import Parts
from trueloop.measure.randomness import fence
from trueloop.measure.tensors import dense
from trueloop.results.proof import Cause, Proof
from trueloop.torch_private.modules import BatchNorm

__all__ = ["LargeBatchEqualsAccumulated"]

PARTS: Final = (2, 4)
TOLERANCE: Final = 1e-4  # of the gradient norm: float32 rounding gives about 1e-6, a wrong divisor percents
ROUNDINGS: Final = 10.0  # times the effect of the same batch in reverse order, where a deep model rounds more
SUM_TOLERANCE: Final = 0.2  # how near the norm must be to that of a sum divided by the number of parts

SUMS = Cause("the loss is a sum over the batch", "return one loss per sample (reduction='none'), or their mean")
DIVISOR = Cause(
    "the loss is not divided by its number of samples, but by valid tokens, pairs, or a fixed batch size",
    "return one loss per sample, or count the targets that matter: `Facts(ignore=...)`",
)
MIXED = Cause(
    "a layer or the loss depends on several samples",
    "the claim batch-independence names the layer; with a contrastive loss, accumulation changes the training",
)
WEIGHTED = Cause("the loss is a mean with class weights", "their sum differs by micro-batch: use reduction='none'")


@final
class LargeBatchEqualsAccumulated(Claim):
    name = "large-batch-equals-accumulated"
    healthy = f"the gradient in {PARTS[0]} and {PARTS[1]} micro-batches is the batch's, to {TOLERANCE:g} of its norm"
    causes: ClassVar[tuple[Cause, ...]] = (SUMS, DIVISOR, WEIGHTED, MIXED)

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        # Always in float32: the test is about sums and divisors, not about rounding.
        parts = subject.parts(accumulate=1, precision="fp32", compile="off", activation_checkpointing=False)
        batch = subject.batch(parts)
        if size_of(batch.inputs) < 2:
            return self.unproved("a batch of one sample cannot be split: add `--set batch=8`")
        norms = {name: module for name, module in parts.model.named_modules() if isinstance(module, BatchNorm)}
        shown = [f"{name} ({type(module).__name__})" for name, module in norms.items()]
        for words, module in zip(shown, norms.values(), strict=True):
            if module.running_mean is None:
                return self.unproved(f"{words} uses the statistics of its micro-batch in every mode")
        result = _compare(parts, batch)
        if result is None:
            return self.unproved("the forward draws random numbers even in eval mode, so no two gradients are equal")
        if not result.norm:
            said = "the gradient of the first batch is zero or not finite"
            return self.unproved(f"{said}: see the claim gradients-reach-every-layer first")
        # Of the user's loss. A sum over the batch, averaged over parts, is smaller by their number.
        sums = all(abs(result.norms[n] * n / result.norm - 1) < SUM_TOLERANCE for n in result.differences)
        causes = self.causes if sums else (*self.causes[1:], SUMS)
        causes = causes if subject.recipe.loss is not None else (MIXED,)
        return self._result(size_of(batch.inputs), result, causes, shown)

    def _result(self, samples: int, result: _Comparison, causes: tuple[Cause, ...], norms: list[str]) -> Proof:
        limit = max(TOLERANCE, ROUNDINGS * result.rounding)
        differences = result.differences
        facts: dict[str, object] = {"samples": samples, "differences": differences}
        facts |= {"rounding": result.rounding, "mode": result.mode}
        said = f"compared with the gradient of {samples} samples in one batch, it differs"
        if max(differences.values()) > limit:
            shares_text = ", ".join(f"in {count} parts by {share:.1%}" for count, share in differences.items())
            facts |= {"norm": result.norm, "norms": result.norms}
            return self.fails(f"{said} {shares_text}", facts, causes)
        shares_text = ", ".join(f"in {count} parts by {share:.1g}" for count, share in differences.items())
        said += f" {shares_text} of its norm"
        if norms:
            facts |= {"batch_norms": norms, "differences_with_batch_norm": result.with_norms}
            shares = ", ".join(f"{share:.1%}" for share in result.with_norms.values())
            said += f", with batch norm in eval mode ({norms[0]} would see smaller parts, which changes it by {shares})"
        return self.holds(said, facts)


@final
class _Comparison:
    """Gradients of one batch, complete and in parts."""

    def __init__(self, mode: str, gradient: Tensor, reordered: Tensor) -> None:
        self.mode = mode  # train without dropout; eval where train mode still draws random numbers
        self.gradient = gradient
        self.norm = float(gradient.norm()) if bool(torch.isfinite(gradient).all()) else 0.0
        self.rounding = self.share(reordered)  # difference to the same samples in reverse order
        self.differences: dict[int, float] = {}  # number of parts -> difference over the norm
        self.norms: dict[int, float] = {}
        self.with_norms: dict[int, float] = {}  # differences with batch norms in train mode

    def share(self, other: Tensor) -> float:
        return float((other - self.gradient).norm()) / self.norm if self.norm else 0.0


def _compare(parts: Parts, batch: Batch) -> _Comparison | None:
    """None: the model draws random numbers in both modes."""
    samples = size_of(batch.inputs)
    reordered = Batch(*select_samples(tuple(batch), range(samples - 1, -1, -1), samples))
    for mode in ("train", "eval"):
        parts.model.train(mode == "train")
        with _batch_norms_in_eval(parts), without_dropout(parts.model):
            gradient, again = (_gradient(parts, [batch], seed) for seed in (1, 2))
            if float((gradient - again).norm()) > TOLERANCE * float(gradient.norm()):
                continue
            result = _Comparison(mode, gradient, _gradient(parts, [reordered]))
            for count in PARTS:
                accumulated = _gradient(parts, _split(parts, batch, count))
                result.differences[count], result.norms[count] = result.share(accumulated), float(accumulated.norm())
        with without_dropout(parts.model):
            moving = _Comparison(mode, _gradient(parts, [batch]), gradient)
            result.with_norms = {count: moving.share(_gradient(parts, _split(parts, batch, count))) for count in PARTS}
        return result
    return None


def _split(parts: Parts, batch: Batch, count: int) -> Sequence[Batch]:
    """As the engine does it."""
    parts.batches.recipe = replace(parts.batches.recipe, accumulate=count, batch=size_of(batch.inputs))
    return parts.batches.micros(batch)


@contextmanager
def _batch_norms_in_eval(parts: Parts) -> Iterator[None]:
    norms = [(module, module.training) for module in parts.model.modules() if isinstance(module, BatchNorm)]
    for module, _ in norms:
        module.eval()
    yield
    for module, mode in norms:
        module.train(mode)


def _gradient(parts: Parts, micros: Sequence[Batch], seed: int = 1) -> Tensor:
    """As one float64 vector."""
    # cuDNN has no backward of a recurrent layer in eval mode.
    with fence(seed), torch.backends.cudnn.flags(enabled=parts.model.training):
        backward(parts, micros)
    gradients = (torch.zeros_like(each) if each.grad is None else each.grad for each in parts.parameters)
    return torch.cat([dense(gradient).double().flatten() for gradient in gradients])
