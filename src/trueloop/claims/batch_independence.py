"""batch-independence: in eval mode the output for a sample does not depend on the other samples of the batch.

A softmax over the wrong dimension, a `view` instead of a `transpose`, an LSTM that takes the batch for time, a norm
that uses batch statistics in eval mode: shapes fit and the loss falls, but the output changes with the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor, nn

from trueloop.claims.claim import Claim
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.claims.training_step import select_samples
from trueloop.data.source import map_tensors, size_of, tensors_in
from trueloop.engine.evaluate import evaluating
from trueloop.engine.parts import Parts
from trueloop.event import BatchIndependenceTested
from trueloop.event.thresholds import BATCH_CHANGE, BATCH_REPEAT
from trueloop.results.proof import Cause, Proof
from trueloop.taps.mixing import MixingPoint, find_sample_mixing
from trueloop.taps.replay_copy import CannotReplay, ReplayCopy
from trueloop.usercode.ownership import class_place, layer_place

__all__ = ["BatchIndependence"]

SIZES: Final = (7, 5, 8, 6, 4, 3)  # batch sizes to try: small, and different from all other dimensions
TOLERANCE: Final = 1e-4  # of the output scale; a batch of a different size changes float32 sums by about 1e-6

OVER_BATCH = Cause("an operation runs over dimension 0", "count from the end: `softmax(x, dim=-1)`, `mean(dim=-1)`")
RESHAPED = Cause("a view or reshape mixes samples", "first `x.transpose(0, 1)`, then `.reshape(batch, -1)`")
BATCH_FIRST = Cause("an RNN or attention layer takes the batch for time", "`batch_first=True` for [batch, time, ...]")
STATISTICS = Cause("a norm uses batch statistics in eval mode", "`track_running_stats=True`, or LayerNorm or GroupNorm")
SQUEEZED = Cause("squeeze() also removes a batch dimension of size 1", "`squeeze(1)` or `squeeze(-1)`")
# Words in the name of an operation -> the likely cause
OPERATIONS: Final = {
    ("view", "reshape", "flatten", "transpose", "permute"): RESHAPED,
    ("lstm", "gru", "rnn", "attention"): BATCH_FIRST,
    ("norm", "var", "std"): STATISTICS,
}


@final
class BatchIndependence(Claim):
    name = "batch-independence"
    healthy = f"a sample gets the same output alone and with others, within {TOLERANCE:g} of the output scale"
    causes: ClassVar[tuple[Cause, ...]] = (OVER_BATCH, RESHAPED, BATCH_FIRST, STATISTICS, SQUEEZED)

    def try_recipe(self, subject: RecipeSubject) -> Proof:
        parts = subject.parts(compile="off", precision="fp32", activation_checkpointing=False)
        inputs = subject.batch(parts).inputs
        size, least = size_of(inputs), min(SIZES)
        if size < least:
            return self.unproved(f"a batch has {size} samples and {least} are needed: add `--set batch={least}`")
        with evaluating(parts.model):
            fitting = (select_samples(inputs, range(few), size) for few in SIZES if few <= size)
            trial = next((trial for some in fitting if (trial := _try(parts, some))), None)
        if trial is None:
            return self.unproved("no output of the model has exactly one row per sample")
        return self._result(parts, trial)

    def _result(self, parts: Parts, trial: _Trial) -> Proof:
        facts = trial.facts()
        if trial.repeat > TOLERANCE:
            said = f"in eval mode the same batch gives different outputs ({trial.repeat:.2g} of their scale)"
            return self.unproved(f"{said}: see the claim evaluation-repeats first", facts)
        if trial.largest <= TOLERANCE and not trial.wrong_shape:
            said = f"each of {trial.size} samples gets the same output alone and with others"
            return self.holds(f"{said} (largest difference {trial.largest:.1g} of the output scale)", facts)
        if trial.largest <= TOLERANCE:
            said = f"a single sample is not handled like a batch: {trial.wrong_shape}"
            return self.fails(said, facts, (SQUEEZED,), class_place(type(parts.model)))
        mixing = _mixing(parts.model, trial)
        where = f"; samples mix in {mixing.layer}, in {mixing.operation}" if mixing else ""
        said = f"the output for a sample changes with the rest of the batch ({trial.largest:.0%} of the output scale)"
        facts |= {"layer": mixing.layer, "operation": mixing.operation} if mixing else {}
        operation = mixing.operation if mixing else ""
        likely = (cause for words, cause in OPERATIONS.items() if any(word in operation for word in words))
        place = mixing and (mixing.place or layer_place(parts.model, mixing.layer.partition(" (")[0]))
        causes = self.likely_first(next(likely, OVER_BATCH))
        return self.fails(f"{said}{where}", facts, causes, place or class_place(type(parts.model)))

    def try_script(self, subject: ScriptSubject) -> Proof:
        tested = subject.checked.of(BatchIndependenceTested)
        if not tested:
            return self.unproved("no trained model had a known batch dimension and a repeatable forward")
        worst = max(tested, key=lambda event: event.change)
        facts: dict[str, object] = {"model": worst.name, "batch": worst.batch}
        facts |= {"change": worst.change, "repeat": worst.repeat}
        if worst.repeat > BATCH_REPEAT:
            return self.unproved(f"in eval mode {worst.name} gives different outputs for the same batch", facts)
        if worst.change <= BATCH_CHANGE:
            said = f"{worst.name} gives a sample the same output with the other {worst.batch - 1} samples replaced"
            return self.holds(f"{said} (largest difference {worst.change:.1g} of the output spread)", facts)
        if not subject.checked.findings("MDL108"):
            return self.unproved("samples mix, and the script allows that, or a different finding explains it", facts)
        where = f"; samples mix in {worst.layer}" if worst.layer else ""
        said = f"{worst.name} gives a sample a different output with the other samples replaced"
        said += f" ({worst.change:.0%} of the output spread){where}"
        return self.fails(said, facts | {"layer": worst.layer}, place=worst.defined)


@dataclass(frozen=True)
class _Trial:
    """Outputs of a few samples: together, alone, and with others. Differences are shares of the output scale."""

    size: int
    inputs: Any
    repeat: float  # difference of two outputs for the same batch
    alone: float | None = None  # largest difference of a sample alone; None: the model does not take one sample
    others: float = 0.0  # difference with all other samples replaced
    gradient: float | None = None  # of a sample's output by the other inputs over that by its own; None: none
    wrong_shape: str = ""  # what a sample alone gives: 'its output is [3], not [1, 3]'

    @property
    def largest(self) -> float:
        return max(self.alone or 0.0, self.others, self.gradient or 0.0)

    def facts(self) -> dict[str, object]:
        names = ("alone", "others", "gradient", "repeat")
        return {"samples": self.size} | {name: value for name in names if (value := getattr(self, name)) is not None}


def _try(parts: Parts, inputs: Any) -> _Trial | None:
    """None: no output has one row per sample."""
    size, model = size_of(inputs), parts.model
    orders = (range(size), range(size), _replaced(size))  # copies: the model may write to its inputs
    before, again, with_others = (_rows(model(select_samples(inputs, rows, size)), size) for rows in orders)
    if not before:
        return None
    trial = _Trial(size, inputs, _difference(before, again))
    if trial.repeat > TOLERANCE:
        return trial
    alone, wrong_shape = _alone(model, inputs, before)
    others = _difference([output[-1] for output in before], [output[-1] for output in with_others], before)
    return replace(trial, alone=alone, wrong_shape=wrong_shape, others=others, gradient=_gradient_ratio(model, inputs))


def _replaced(size: int) -> list[int]:
    """The last sample stays: it may have seen all others, as time. The others become the first, the first the second:
    a mere permutation would not change a sum over the batch."""
    return [1, *[0] * (size - 2), size - 1]


def _rows(output: Any, size: int) -> list[Tensor]:
    """Outputs with one row per sample; a similarity matrix (CLIP) is meant to depend on all."""
    tensors = (tensor for tensor in tensors_in(output) if tensor.is_floating_point() and tensor.dim())
    return [tensor for tensor in tensors if tensor.shape[0] == size and size not in tensor.shape[1:]]


def _difference(one: Sequence[Tensor], other: Sequence[Tensor], scales: Sequence[Tensor] | None = None) -> float:
    """The largest difference over the largest value. NaN is the matter of the claim first-nonfinite."""
    shares = []
    for a, b, scale in zip(one, other, scales or one, strict=True):
        finite = scale[torch.isfinite(scale)]
        most = float(finite.abs().max()) if len(finite) else 1.0
        largest = float((a - b).abs().nan_to_num(0.0).max())
        shares.append(largest / max(most, torch.finfo(torch.float32).tiny))
    return max(shares, default=0.0)


def _alone(model: nn.Module, inputs: Any, before: Sequence[Tensor]) -> tuple[float | None, str]:
    """Each sample alone: the largest difference to its output in the batch, or what comes instead."""
    size, largest = size_of(inputs), 0.0
    for row in range(size):
        try:
            outputs = list(tensors_in(model(select_samples(inputs, [row], size))))
        except (ValueError, RuntimeError, IndexError) as error:
            return None, f"it raises {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        found = [each for each in outputs if each.is_floating_point() and each.dim()]
        fitting = [[each for each in found if each.shape == output[:1].shape] for output in before]
        if not all(fitting):
            shapes = [list(each.shape) for each in outputs]
            return None, f"its output is {shapes[0] if len(shapes) == 1 else shapes}, not {list(before[0][:1].shape)}"
        change = _difference([each[0][0] for each in fitting], [output[row] for output in before], before)
        largest = max(largest, change)
    return largest, ""


def _gradient_ratio(model: nn.Module, inputs: Any) -> float | None:
    """Gradient of the last sample's output by the other inputs, over that by its own. Token ids have no gradient."""
    size = size_of(inputs)
    leaves: list[Tensor] = []

    def leaf(tensor: Tensor) -> Tensor:
        if not (tensor.is_floating_point() and tensor.dim() and tensor.shape[0] == size):
            return tensor
        leaves.append(tensor.detach().clone().requires_grad_())
        return leaves[-1].clone()  # a forward may write to its input, but not to a leaf

    # cuDNN has no backward of a recurrent layer in eval mode.
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        rows = _rows(model(map_tensors(inputs, leaf)), size)
        outputs = [output[-1].flatten() for output in rows if output.requires_grad]
        # Weighted: outputs that add up to one, like a softmax, have no gradient of their plain sum.
        sums = [(output * torch.linspace(1.0, 2.0, len(output), device=output.device)).sum() for output in outputs]
        if not leaves or not sums:
            return None
        gradients = torch.autograd.grad(torch.stack(sums).sum(), leaves, allow_unused=True)
    sizes = [gradient.nan_to_num(0.0).abs() for gradient in gradients if gradient is not None]
    own = max((float(each[-1:].max()) for each in sizes), default=0.0)
    return max(float(each[:-1].max()) for each in sizes) / own if own else None


def _mixing(model: nn.Module, trial: _Trial) -> MixingPoint | None:
    """The first operation that mixes samples; None: the forward cannot be replayed."""
    size = trial.size
    orders = (range(size), _replaced(size), [*range(size - 1), 0])
    inputs = [select_samples(trial.inputs, rows, size) for rows in orders]
    plain, others, changed = (((each,), dict[str, Any]()) for each in inputs)
    try:
        return find_sample_mixing(ReplayCopy(model), plain, others, changed, kept=size - 1, samples=size)
    except CannotReplay:
        return None
