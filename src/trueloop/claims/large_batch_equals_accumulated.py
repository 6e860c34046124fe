"""large-batch-equals-accumulated: a batch in several parts gives the gradient of the batch as a whole.

That is what `accumulate` and several processes promise. It breaks where a loss adds up what it should average, divides
by another number than that of its targets, or looks at the samples of its part together. Batch norms do that by design:
they are held still here, and how much they alone would change is told besides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar, Final, final

import torch
from torch import Tensor

from trueloop.claims.claim import Claim
from trueloop.claims.steps import backward, some, without_dropout
from trueloop.claims.subject import RecipeSubject
from trueloop.data.source import Batch, size_of
from trueloop.engine.parts import Parts
from trueloop.measure.randomness import fence
from trueloop.measure.tensors import dense
from trueloop.results.proof import Cause, Proof
from trueloop.torch_private.modules import BatchNorm

__all__ = ["LargeBatchEqualsAccumulated"]

PARTS: Final = (2, 4)
TOLERANCE: Final = 1e-4
"""Of the whole gradient's length: sums in another order differ by 1e-6 or so in single precision, a wrong divisor by
percents;"""
ROUNDINGS: Final = 10.0
"""or so many times what the same batch with its samples in another order makes, where a deep model rounds more."""
SHORTER: Final = 0.2
"""How near the parts' length must be to the whole's over their number, to think of a sum first: an offset is allowed
for."""

SUMS: Final = Cause("the loss adds up over the batch", "return one loss per sample (reduction='none'), or their mean")
OTHER_DIVISOR: Final = Cause(
    "the loss divides by another number than that of its samples: of valid tokens, of pairs, a fixed batch size",
    "return one loss per sample, or count the targets that matter: Facts(ignore=...)",
)
TOGETHER: Final = Cause(
    "a layer, or the loss, looks at samples together",
    "the claim batch-independence names the layer; with a contrastive loss, accumulate changes the training",
)
WEIGHTED: Final = Cause(
    "the loss is a mean with weights of classes", "its weights add up to another number in each part: reduction='none'"
)


@final
class LargeBatchEqualsAccumulated(Claim):
    name = "large-batch-equals-accumulated"
    healthy = f"the gradient of a batch in {PARTS[0]} and {PARTS[1]} parts is that of the whole, within {TOLERANCE:g} of its length"
    causes: ClassVar[tuple[Cause, ...]] = (SUMS, OTHER_DIVISOR, WEIGHTED, TOGETHER)

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        # In single precision, whatever the recipe asks for: it is about what is added up, and not about how it is
        # rounded.
        parts = subject.parts(accumulate=1, precision="fp32", compile="off", activation_checkpointing=False)
        batch = subject.batch(parts)
        samples = size_of(batch.inputs)
        if samples < 2:
            return self.unproved("a batch of one sample has no parts: try --set batch=8")
        norms = {name: module for name, module in parts.model.named_modules() if isinstance(module, BatchNorm)}
        bound = [name for name, module in norms.items() if module.running_mean is None]
        if bound:
            return self.unproved(
                f"{bound[0]} ({type(norms[bound[0]]).__name__}) uses the statistics of its part in every mode"
            )
        found = _compared(parts, batch)
        if found is None:
            return self.unproved(
                "the forward draws random numbers even in eval mode, so that no two gradients are equal"
            )
        if not found.length:
            return self.unproved(
                "the gradient of the first batch is zero, or no number: the claim gradients-reach-every-layer comes first"
            )
        likely = _ordered(found, self.causes) if subject.recipe.loss is not None else (TOGETHER,)
        return self._judged(
            samples, found, likely, [f"{name} ({type(module).__name__})" for name, module in norms.items()]
        )

    def _judged(self, samples: int, found: _Compared, likely: tuple[Cause, ...], norms: list[str]) -> Proof:
        limit = max(TOLERANCE, ROUNDINGS * found.rounding)
        worst = max(found.apart.values())
        facts: dict[str, object] = {
            "samples": samples,
            "apart": found.apart,
            "rounding": found.rounding,
            "mode": found.mode,
        }
        if worst > limit:
            told = ", ".join(f"in {parts} parts by {share:.1%}" for parts, share in found.apart.items())
            facts |= {"length": found.length, "lengths": found.lengths}
            return self.fails(
                f"the gradient of {samples} samples differs from that of the whole batch {told}", facts, likely
            )
        told = ", ".join(f"in {parts} parts by {share:.1g}" for parts, share in found.apart.items())
        said = f"the gradient of {samples} samples differs from that of the whole batch {told} of its length"
        if norms:
            facts |= {"batch_norms": norms, "apart_with_batch_norm": found.with_norms}
            shares = ", ".join(f"{share:.1%}" for share in found.with_norms.values())
            said += (
                f", with batch norm held still ({norms[0]} would see smaller parts, which alone changes it by {shares})"
            )
        return self.holds(said, facts)


@final
class _Compared:
    """Gradients of one batch, whole and in parts."""

    def __init__(self, mode: str, whole: Tensor, reordered: Tensor) -> None:
        self.mode = mode
        """train: as in training, without dropout; eval: that was not enough to keep chance out."""
        self.whole = whole
        self.length = float(whole.norm()) if bool(torch.isfinite(whole).all()) else 0.0
        self.rounding = self.share(reordered)
        """How far the whole, with its samples in another order, is from itself."""
        self.apart: dict[int, float] = {}
        """Parts -> how far their gradient is from the whole's, as a share of its length."""
        self.lengths: dict[int, float] = {}
        self.with_norms: dict[int, float] = {}
        """The same with batch norms that follow their parts."""

    def share(self, other: Tensor) -> float:
        return float((other - self.whole).norm()) / self.length if self.length else 0.0


def _compared(parts: Parts, batch: Batch) -> _Compared | None:
    """None: chance cannot be kept out."""
    samples = size_of(batch.inputs)
    reordered = Batch(*some(tuple(batch), range(samples - 1, -1, -1), samples))
    for mode in ("train", "eval"):
        parts.model.train(mode == "train")
        with _still(parts), without_dropout(parts.model):
            whole, again = (_gradient(parts, [batch], seed) for seed in (1, 2))
            if float((whole - again).norm()) > TOLERANCE * float(whole.norm()):
                continue
            found = _Compared(mode, whole, _gradient(parts, [reordered]))
            for count in PARTS:
                gradient = _gradient(parts, _parted(parts, batch, count))
                found.apart[count], found.lengths[count] = found.share(gradient), float(gradient.norm())
        with without_dropout(parts.model):
            moving = _Compared(mode, _gradient(parts, [batch]), whole)
            found.with_norms = {n: moving.share(_gradient(parts, _parted(parts, batch, n))) for n in PARTS}
        return found
    return None


def _ordered(found: _Compared, causes: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """Of a loss of the user's own. A sum over the batch, averaged over parts, is shorter by their number."""
    sums = all(abs(found.lengths[parts] * parts / found.length - 1) < SHORTER for parts in found.apart)
    return causes if sums else (*causes[1:], SUMS)


def _parted(parts: Parts, batch: Batch, count: int) -> Sequence[Batch]:
    """As the engine does it, for a batch that is full."""
    parts.batches.recipe = replace(parts.batches.recipe, accumulate=count, batch=size_of(batch.inputs))
    return parts.batches.micros(batch)


@contextmanager
def _still(parts: Parts) -> Iterator[None]:
    """Batch norms use, and do not change, the statistics that they have."""
    norms = [(module, module.training) for module in parts.model.modules() if isinstance(module, BatchNorm)]
    for module, _ in norms:
        module.eval()
    yield
    for module, mode in norms:
        module.train(mode)


def _gradient(parts: Parts, micros: Sequence[Batch], seed: int = 1) -> Tensor:
    """All of it as one vector, in double precision."""
    with (
        fence(seed),
        torch.backends.cudnn.flags(enabled=parts.model.training),
    ):  # cuDNN has no backward of a recurrent layer in eval mode
        backward(parts, micros)
    zero = (torch.zeros_like(parameter) for parameter in parts.parameters)
    found = (
        parameter.grad if parameter.grad is not None else other
        for parameter, other in zip(parts.parameters, zero, strict=True)
    )
    return torch.cat([dense(gradient).double().flatten() for gradient in found])
