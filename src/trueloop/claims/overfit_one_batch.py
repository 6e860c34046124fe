"""overfit-one-batch: the model can learn a few samples by heart.

The first thing to try of any training: the same few samples again and again, without dropout, decay and augmentation. A
loss that does not go to about zero there says that some part of the contract is broken: inputs, labels, model, loss,
gradients or optimizer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Final, final

import torch

from trueloop.claims.claim import Claim
from trueloop.claims.steps import backward, few, update, without_dropout
from trueloop.claims.subject import RecipeSubject
from trueloop.data.source import Batch, size_of, tensors_in
from trueloop.engine.parts import Parts
from trueloop.engine.torch_settings import torch_settings
from trueloop.results.proof import Cause, Proof

__all__ = ["OverfitOneBatch"]

SAMPLES: Final = 8
"""Few, so that a model of any size can hold them, and that the proof takes seconds."""
STEPS: Final = 300
LEARNED: Final = 0.02
"""The share of the first loss that counts as about zero."""
RATES: Final = (1.0, 0.1, 10.0)
"""Times the recipe's own learning rate, in this order: a rate that is wrong by ten is a cause of its own."""

WRONG_RATE: Final = Cause(
    "the learning rate is wrong by a factor of ten or so", "try it: --set lr=..., or the claim learning-rate-range"
)
NO_GRADIENT: Final = Cause(
    "the loss is not connected to some weights", "the claim gradients-reach-every-layer names them"
)
SAME_ANSWER: Final = Cause(
    "the model gives every sample the same answer",
    "look for an input that is not used, a dead ReLU, a softmax over one score",
)
SAME_INPUTS: Final = Cause(
    "samples with the same input have different labels", "look at the batch: `trueloop inspect batch RECIPE`"
)
FLOOR: Final = Cause(
    "the loss cannot go lower", "a softmax or sigmoid before a loss that takes raw scores: `trueloop explain LOS101`"
)
SMALL: Final = Cause(
    "the model is too small for these samples, or a layer shuts off what they differ in", "try a wider model"
)


@final
class OverfitOneBatch(Claim):
    name = "overfit-one-batch"
    healthy = (
        f"the loss falls below {LEARNED:.0%} of where it began, within {STEPS} steps on the same {SAMPLES} samples"
    )
    causes: ClassVar[tuple[Cause, ...]] = (NO_GRADIENT, SAME_ANSWER, FLOOR, WRONG_RATE, SAME_INPUTS, SMALL)

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        tries = [_try(subject, RATES[0])]
        for rate in RATES[1:]:
            if not tries[0].learned:
                tries.append(_try(subject, rate))
        first = tries[0]
        if first.first <= 0:
            return self.unproved(
                f"the loss begins at {first.first:.3g}: it is not known how low it can go", {"first_loss": first.first}
            )
        facts: dict[str, object] = {
            "first_loss": first.first,
            "last_loss": first.last,
            "steps": first.steps,
            "samples": first.samples,
        }
        if first.learned:
            said = f"the loss falls from {first.first:.3g} to {first.last:.2g} in {first.steps} steps on {first.samples} samples"
            return self.holds(said, facts)
        said = f"the loss falls only from {first.first:.3g} to {first.last:.3g} in {first.steps} steps on the same {first.samples} samples"
        other = next((each for each in tries[1:] if each.learned), None)
        if other is not None:
            said += f"; with {other.times:g} times the learning rate it reaches {other.last:.2g}"
        return self.fails(said, facts | first.contract, _ordered(first, other, self.causes))


@dataclass(frozen=True)
class _Try:
    times: float
    """The recipe's learning rate."""
    samples: int
    steps: int
    first: float
    last: float
    contract: dict[str, Any]
    """Which parts of it hold."""

    @property
    def learned(self) -> bool:
        return math.isfinite(self.last) and self.last <= max(LEARNED * self.first, 1e-6)


def _try(subject: RecipeSubject, times: float) -> _Try:
    recipe = subject.recipe
    plain: dict[str, Any] = {
        "weight_decay": 0.0,
        "label_smoothing": 0.0,
        "schedule": "constant",
        "warmup": 0,
        "ema": None,
        "accumulate": 1,
        "compile": "off",
        "program": "eager",
        "lr": recipe.lr * times,
    }
    parts = subject.parts(**plain)
    batch = few(subject.batch(parts), SAMPLES)
    parts.into_training_mode()
    losses: list[float] = []
    with torch_settings(parts.precision, parts.recipe), without_dropout(parts.model):
        for _ in range(STEPS):
            losses.append(float(backward(parts, [batch])))
            if not math.isfinite(losses[-1]) or losses[-1] <= max(LEARNED * losses[0], 1e-6):
                break
            update(parts, parts.recipe.lr)
    return _Try(times, size_of(batch.inputs), len(losses), losses[0], losses[-1], _contract(parts, batch))


def _contract(parts: Parts, batch: Batch) -> dict[str, Any]:
    """Which parts of the contract hold, as they stand after the last step."""
    missing = [
        name for name, parameter in parts.model.named_parameters() if parameter.requires_grad and parameter.grad is None
    ]
    parts.model.eval()
    with torch.no_grad():
        answers = next(tensors_in(parts.model(batch.inputs)), None)
    same = answers is not None and len(answers) > 1 and bool((answers == answers[:1]).all())
    alike = _different(tuple(batch)) - _different(batch.inputs)
    return {"without_gradient": missing, "same_answer_for_all": same, "samples_with_equal_inputs": alike}


def _different(value: Any) -> int:
    """How many samples are left when equal ones count once."""
    size = size_of(value)
    rows = [tensor for tensor in tensors_in(value) if tensor.dim() and len(tensor) == size]
    return len(torch.unique(torch.cat([row.reshape(size, -1).double().cpu() for row in rows], 1), dim=0))


def _ordered(first: _Try, other: _Try | None, every: tuple[Cause, ...]) -> tuple[Cause, ...]:
    """What was seen, before what is only likely."""
    seen = [
        *([WRONG_RATE] if other is not None else []),
        *([NO_GRADIENT] if first.contract["without_gradient"] else []),
        *([SAME_ANSWER] if first.contract["same_answer_for_all"] else []),
        *([SAME_INPUTS] if first.contract["samples_with_equal_inputs"] else []),
    ]
    return (*seen, *(cause for cause in every if cause not in seen))
