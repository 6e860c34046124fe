"""overfit-one-batch: the model can memorize a few samples.

The first test of any training: the same few samples in every step, without dropout, weight decay and augmentation. If
the loss does not go to about zero, something basic is broken: inputs, labels, model, loss, gradients or optimizer.
Of a script, the loader hands out the first samples of the first batch again and again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Final, final

import torch

from trueloop.claims.claim import Claim
from trueloop.claims.same_batch import LEARNED, SameBatch, read_same_batch
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.claims.training_step import apply_update, backward, first_samples, select_samples, without_dropout
from trueloop.data.source import Batch, size_of, tensors_in
from trueloop.engine.call_model import call_model
from trueloop.engine.parts import Parts
from trueloop.engine.torch_settings import torch_settings
from trueloop.results.proof import Cause, Proof

__all__ = ["OverfitOneBatch"]

SAMPLES: Final = 8  # few: a model of any size can memorize them, within seconds
STEPS: Final = 300
FELL: Final = 0.01  # share of the first loss by which a loss without a known floor must fall
MEMORIZED: Final = 0.2  # share of that fall by which other samples' targets must be worse
NOISE: Final = 10  # last steps of a forward that draws, of which the lowest loss counts
HIGH: Final = 0.5  # share of the first loss above which a script fails: a line through noise has a floor too
KNOWN: Final = 4  # times the last loss, with the targets exchanged: the model knew the samples before (fine-tuning)
ENOUGH: Final = 100  # steps of a script that say something
RATES: Final = (1.0, 0.1, 10.0)  # factors on the recipe's learning rate, in this order

WRONG_RATE = Cause("the learning rate is off by about ten times", "try `--set lr=...`, or test learning-rate-range")
NO_GRADIENT = Cause("the loss is not connected to some weights", "the claim gradients-reach-every-layer names them")
SAME_OUTPUT = Cause("every sample gets the same output", "an unused input, dead ReLUs, a softmax over one logit?")
SAME_INPUTS = Cause("samples with equal inputs have different labels", "look at it: `trueloop inspect batch RECIPE`")
FLOOR = Cause("the loss cannot go lower", "a softmax before a loss that takes logits: `trueloop explain LOS101`")
SMALL = Cause("the model is too small, or a layer removes what distinguishes the samples", "try a wider model")


@final
class OverfitOneBatch(Claim):
    name = "overfit-one-batch"
    healthy = f"the loss falls below {LEARNED:.0%} of the first loss within {STEPS} steps on the same {SAMPLES} samples"
    causes: ClassVar[tuple[Cause, ...]] = (NO_GRADIENT, SAME_OUTPUT, FLOOR, WRONG_RATE, SAME_INPUTS, SMALL)

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        first = _try(subject, RATES[0])
        others = [] if first.learned else [_try(subject, factor) for factor in RATES[1:]]
        if first.first <= 0:
            evidence = {"first_loss": first.first}
            return self.unproved(f"the first loss is {first.first:.3g}: its lower limit is unknown", evidence)
        facts: dict[str, object] = {"first_loss": first.first, "last_loss": first.last}
        facts |= {"steps": first.steps, "samples": first.samples}
        where = f"in {first.steps} steps on the same {first.samples} samples"
        if first.learned:
            return self.holds(f"the loss falls from {first.first:.3g} to {first.last:.2g} {where}", facts)
        if first.exchanged is not None:
            return self._without_known_floor(first, facts, where)
        said = f"the loss falls only from {first.first:.3g} to {first.last:.3g} {where}"
        other = next((each for each in others if each.learned), None)
        if other is not None:
            said += f"; with {other.factor:g} times the learning rate it reaches {other.last:.2g}"
        names = {"without_gradient": NO_GRADIENT, "same_output_for_all": SAME_OUTPUT}
        names |= {"samples_with_equal_inputs": SAME_INPUTS}
        seen = [cause for name, cause in names.items() if first.state[name]]
        likely = self.likely_first(*([WRONG_RATE] if other is not None else []), *seen)
        return self.fails(said, facts | first.state, likely)

    def try_script(self, subject: ScriptSubject) -> Proof:
        tries: list[tuple[float, SameBatch]] = []
        for factor in RATES:
            done = _script_on_one_batch(subject, factor)
            if done.problem or not done.losses:
                return self.unproved(done.problem or f"the script took no step on the same samples ({done.error})")
            tries.append((factor, done))
            if done.learned:
                break
        factor, best = min(tries, key=lambda each: each[1].last if math.isfinite(each[1].last) else math.inf)
        own = tries[0][1]
        facts: dict[str, object] = {"first_loss": own.losses[0], "last_loss": own.last, "steps": own.steps}
        facts |= {"samples": own.samples, "loss_with_targets_exchanged": own.exchanged}
        said = f"the loss falls from {own.losses[0]:.3g} to {own.last:.2g} in {own.steps} steps"
        said += f" on the same {own.samples} samples" if own.samples else " on the same batch"
        if factor != 1 and best.last < own.last:
            said += f"; with {factor:g} times the learning rate it reaches {best.last:.2g}"
        if best.learned and best.losses[0] > 0:
            return self.holds(said, facts)
        return self._script_that_did_not_learn(best, said, facts)

    def _script_that_did_not_learn(self, best: SameBatch, said: str, facts: dict[str, object]) -> Proof:
        """A loss that stays high fails only if it could be zero, has stopped falling, and the targets matter to it."""
        first, fall, exchanged = best.losses[0], best.losses[0] - best.last, best.exchanged
        if first <= 0 or not math.isfinite(best.last):
            return self.unproved(f"{said}: the lower limit of this loss is unknown", facts)
        if best.steps < ENOUGH:
            return self.unproved(f"{said}: too few steps ({best.error or 'the script ended'})", facts)
        knows = exchanged is not None and exchanged - best.last >= max(MEMORIZED * fall, FELL * first)
        if best.reaches_zero and best.last >= HIGH * first and not best.falls and not best.ignores_targets:
            if exchanged is None or exchanged < KNOWN * best.last:
                return self.fails(said, facts, self.likely_first(*([NO_GRADIENT] if fall < FELL * first else [])))
        elif not best.reaches_zero and knows and fall >= FELL * first:
            return self.holds(f"{said} (its floor is unknown; with the targets exchanged it is {exchanged:.3g})", facts)
        elif not best.draws and fall < FELL * first and not knows and not best.ignores_targets:
            return self.fails(said, facts, self.likely_first(NO_GRADIENT))
        return self.unproved(
            f"{said}: the lower limit of this loss, or the number of steps it needs, is unknown", facts
        )

    def _without_known_floor(self, first: _Try, facts: dict[str, object], where: str) -> Proof:
        """An ELBO, smoothed labels, a contrastive loss: zero is out of reach. A model that has memorized the samples
        is far worse with the targets of other samples; one that gives a constant answer is not."""
        fall, exchanged = first.first - first.last, first.exchanged or 0.0
        facts |= {"loss_with_targets_exchanged": exchanged}
        said = f"the loss falls from {first.first:.3g} to {first.last:.3g} {where}"
        if fall < FELL * abs(first.first):
            return self.fails(said, facts | first.state, self.likely_first(NO_GRADIENT))
        if exchanged - first.last >= MEMORIZED * fall:
            more = f"the floor of a loss of your own is unknown; with the targets exchanged it is {exchanged:.3g}"
            return self.holds(f"{said} ({more})", facts)
        return self.unproved(
            f"{said}: the lower limit of a loss of your own is unknown, and other targets fit as well", facts
        )


@dataclass(frozen=True)
class _Try:
    factor: float  # on the recipe's learning rate
    samples: int
    steps: int
    first: float
    last: float
    exchanged: float | None  # the last loss with the targets of other samples; None: its floor is known, and zero
    state: dict[str, Any]  # after the last step

    @property
    def learned(self) -> bool:
        return math.isfinite(self.last) and self.last <= max(LEARNED * self.first, 1e-6)


def _script_on_one_batch(subject: ScriptSubject, factor: float) -> SameBatch:
    """With few samples; with the complete batch where the script needs its size."""
    seen = SameBatch(error="the process ended without a result")
    for samples in (SAMPLES, 0):
        out = subject.scratch / f"same-batch-{factor}-{samples}.json"
        subject.run(out, "trueloop.claims.same_batch", str(out), str(STEPS), str(factor), str(samples))
        if out.is_file():
            seen = read_same_batch(out)
        if seen.problem or seen.steps >= ENOUGH or seen.learned or not seen.error:
            break
    return seen


def _try(subject: RecipeSubject, factor: float) -> _Try:
    plain: dict[str, Any] = {"weight_decay": 0.0, "label_smoothing": 0.0, "schedule": "constant", "warmup": 0}
    plain |= {"ema": None, "accumulate": 1, "compile": "off", "lr": subject.recipe.lr * factor}
    parts = subject.parts(**plain)
    batch = first_samples(subject.batch(parts), SAMPLES)
    parts.into_training_mode()
    losses: list[float] = []
    with torch_settings(parts.precision, parts.recipe), without_dropout(parts.model):
        for _ in range(STEPS):
            losses.append(float(backward(parts, [batch])))
            if not math.isfinite(losses[-1]) or losses[-1] <= max(LEARNED * losses[0], 1e-6):
                break
            apply_update(parts, parts.recipe.lr)
        exchanged = _exchanged_loss(parts, batch) if _floor_is_unknown(parts, batch) else None
    counts = (size_of(batch.inputs), len(losses), losses[0])
    return _Try(factor, *counts, min(losses[-NOISE:]) if exchanged else losses[-1], exchanged, _state(parts, batch))


def _floor_is_unknown(parts: Parts, batch: Batch) -> bool:
    """A loss of the user's own, or targets that are probabilities: the loss is at least their entropy."""
    soft = parts.task.metric == "accuracy" and any(each.is_floating_point() for each in tensors_in(batch.targets))
    return parts.recipe.loss is not None or (soft and parts.recipe.task != "binary")


def _exchanged_loss(parts: Parts, batch: Batch) -> float:
    size = size_of(batch.inputs)
    others = select_samples(batch.targets, [*range(1, size), 0], size)
    return float(backward(parts, [batch._replace(targets=others)]))


def _state(parts: Parts, batch: Batch) -> dict[str, Any]:
    parameters = {name: each for name, each in parts.model.named_parameters() if each.requires_grad}
    parts.model.eval()
    with torch.no_grad():
        output = next(tensors_in(call_model(parts.model, batch.inputs)), None)
    return {
        "without_gradient": [name for name, parameter in parameters.items() if parameter.grad is None],
        "same_output_for_all": output is not None and len(output) > 1 and bool((output == output[:1]).all()),
        "samples_with_equal_inputs": _distinct(tuple(batch)) - _distinct(batch.inputs),
    }


def _distinct(value: Any) -> int:
    """Number of distinct samples."""
    size = size_of(value)
    rows = [tensor for tensor in tensors_in(value) if tensor.dim() and len(tensor) == size]
    return len(torch.unique(torch.cat([row.reshape(size, -1).double().cpu() for row in rows], 1), dim=0))
