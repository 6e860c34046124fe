"""batch-independence: in eval mode the answer for a sample does not depend on what else is in the batch.

A softmax over the wrong dimension, a `view` where a `transpose` was meant, an LSTM that takes the batch for time, a
norm that uses the statistics of the batch in evaluation too: shapes fit and the loss falls, and the result is another
one as soon as the batch is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, final

import torch
from torch import Tensor, nn

from trueloop.claims.claim import Claim
from trueloop.claims.steps import some
from trueloop.claims.subject import RecipeSubject, ScriptSubject
from trueloop.data.source import size_of, tensors_in
from trueloop.engine.evaluate import evaluating
from trueloop.engine.parts import Parts
from trueloop.event import BatchIndependenceTested, Place
from trueloop.results.proof import Cause, Proof
from trueloop.taps.mixing import MixingPoint, find_sample_mixing
from trueloop.taps.replay_copy import CannotReplay, ReplayCopy
from trueloop.usercode.ownership import birthplace, class_place

__all__ = ["BatchIndependence"]

SIZES: Final = (7, 5, 8, 6, 4, 3)
"""Samples that are run: few, and a number that no other dimension has, so that the dimension can be followed."""
TOLERANCE: Final = 1e-4
"""Of the outputs' scale. A batch of another size is added up in another order, which moves single precision by 1e-6 or
so."""
SCRIPT_CHANGE: Final = 1e-3
"""What rule MDL108 takes for a change, at half precision too;"""
SCRIPT_REPEAT: Final = 1e-6
"""and for a forward that does not give the same twice."""

OVER_BATCH: Final = Cause(
    "an operation runs over dimension 0", "give the dimension from the end: softmax(x, dim=-1), mean(dim=-1)"
)
RESHAPED: Final = Cause(
    "values are moved between samples by a view or reshape", "transpose first: x.transpose(0, 1).reshape(batch, -1)"
)
BATCH_FIRST: Final = Cause(
    "a recurrent or attention layer takes the batch for time", "batch_first=True for inputs of [batch, time, ...]"
)
STATISTICS: Final = Cause(
    "a norm uses the statistics of the batch in eval mode",
    "track_running_stats=True, or a norm of each sample: LayerNorm, GroupNorm",
)
SQUEEZED: Final = Cause("squeeze() without a dimension also takes away the batch of one", "squeeze(1), or squeeze(-1)")


@final
class BatchIndependence(Claim):
    name = "batch-independence"
    healthy = (
        f"a sample alone, and among other samples, gets the same answer within {TOLERANCE:g} of the outputs' scale"
    )
    causes: ClassVar[tuple[Cause, ...]] = (OVER_BATCH, RESHAPED, BATCH_FIRST, STATISTICS, SQUEEZED)

    def of_recipe(self, subject: RecipeSubject) -> Proof:
        parts = subject.parts(compile="off", precision="fp32", activation_checkpointing=False)
        batch = subject.batch(parts)
        whole = size_of(batch.inputs)
        if whole < min(SIZES):
            return self.unproved(
                f"a batch holds {whole} of the {min(SIZES)} samples that are needed: try --set batch={min(SIZES)}"
            )
        with evaluating(parts.model):
            trial = next(
                (
                    found
                    for size in SIZES
                    if size <= whole and (found := _tried(parts, some(batch.inputs, range(size), whole)))
                ),
                None,
            )
        if trial is None:
            return self.unproved("no output of the model has just one row for each sample")
        return self._judged(parts, trial)

    def _judged(self, parts: Parts, trial: _Trial) -> Proof:
        facts = trial.facts()
        if trial.repeat > TOLERANCE:
            return self.unproved(
                f"the same batch gets another answer each time, in eval mode ({trial.repeat:.2g} of the outputs' scale): "
                "the claim evaluation-repeats comes first",
                facts,
            )
        if trial.most <= TOLERANCE and not trial.reshaped:
            return self.holds(
                f"each of {trial.size} samples gets the same answer alone and among others (largest difference {trial.most:.1g} "
                f"of the outputs' scale)",
                facts,
            )
        if trial.most <= TOLERANCE:
            return self.fails(
                f"the model does not take a single sample as it takes more: {trial.reshaped}",
                facts,
                (SQUEEZED,),
                _of_class(parts.model),
            )
        meeting = _meeting(parts.model, trial)
        layer = f"; they meet in {meeting.layer}, in {meeting.operation}" if meeting else ""
        said = f"with other samples in the batch a sample gets another answer ({trial.most:.0%} of the outputs' scale){layer}"
        facts |= {"layer": meeting.layer, "operation": meeting.operation} if meeting else {}
        return self.fails(said, facts, self._ordered(meeting), _place(parts.model, meeting))

    def of_script(self, subject: ScriptSubject) -> Proof:
        compared = subject.checked.of(BatchIndependenceTested)
        if not compared:
            return self.unproved(
                "no model was trained whose first dimension is known to count samples and whose forward could be repeated"
            )
        worst = max(compared, key=lambda event: event.change)
        facts: dict[str, object] = {
            "model": worst.name,
            "batch": worst.batch,
            "change": worst.change,
            "repeat": worst.repeat,
        }
        if worst.repeat > SCRIPT_REPEAT:
            return self.unproved(f"{worst.name} gives another output each time for the same batch, in eval mode", facts)
        if worst.change <= SCRIPT_CHANGE:
            return self.holds(
                f"with the other {worst.batch - 1} samples of a batch replaced, {worst.name} gives the same output for the one that was "
                f"kept (largest difference {worst.change:.1g} of the outputs' spread)",
                facts,
            )
        if not subject.checked.findings("MDL108"):
            return self.unproved(
                "samples meet, and the script says that they should, or another finding explains it", facts
            )
        where = f"; they meet in {worst.layer}" if worst.layer else ""
        said = f"with the other samples of a batch replaced, {worst.name} gives another output ({worst.change:.0%} of their spread){where}"
        return self.fails(said, facts | {"layer": worst.layer}, place=worst.defined)

    def _ordered(self, meeting: MixingPoint | None) -> tuple[Cause, ...]:
        """The kind of the operation says which is the likeliest."""
        operation = meeting.operation if meeting else ""
        first = next((cause for words, cause in _KINDS.items() if any(word in operation for word in words)), OVER_BATCH)
        return (first, *(cause for cause in self.causes if cause is not first))


_KINDS: Final = {
    ("view", "reshape", "flatten", "transpose", "permute"): RESHAPED,
    ("lstm", "gru", "rnn", "attention"): BATCH_FIRST,
    ("norm", "var", "std"): STATISTICS,
}
"""Words in the name of an operation -> what it mostly means."""


@dataclass(frozen=True)
class _Trial:
    """What a few samples were answered, together, alone, and with others."""

    size: int
    inputs: Any
    repeat: float
    """How far two answers to the same batch are apart; this and the following as a share of the outputs' scale."""
    alone: float | None
    """How far the answer to a sample alone is from that among others, at most; None: one sample alone is not taken."""
    others: float
    """The same with all other samples replaced."""
    gradient: float | None
    """The slope of a sample's answer along the other samples' inputs, against that along its own; None: there is none
    to be had."""
    reshaped: str = ""
    """What comes of a sample alone, if not an answer of the same shape: 'its answer is [3], not [1, 3]'."""

    @property
    def most(self) -> float:
        return max(self.alone or 0.0, self.others, self.gradient or 0.0)

    def facts(self) -> dict[str, object]:
        names = ("alone", "others", "gradient", "repeat")
        return {"samples": self.size} | {name: value for name in names if (value := getattr(self, name)) is not None}


def _tried(parts: Parts, inputs: Any) -> _Trial | None:
    """None: the outputs do not tell their samples apart."""
    size, model = size_of(inputs), parts.model
    before, again, among_others = (
        _rows(model(some(inputs, rows, size)), size)
        for rows in (range(size), range(size), _replaced(size))  # copies: it may write to them
    )
    if not before:
        return None
    trial = _Trial(size, inputs, _apart(before, again), None, 0.0, None)
    if trial.repeat > TOLERANCE:
        return trial
    alone, reshaped = _alone(model, inputs, before)
    others = _apart([output[-1] for output in before], [output[-1] for output in among_others], scales=before)
    return replace(trial, alone=alone, reshaped=reshaped, others=others, gradient=_slope(model, inputs))


def _replaced(size: int) -> list[int]:
    """The last sample stays: where the batch was taken for time, it has seen all others. Those become the first, and
    the first the second: other samples, and not only the same ones in another order, to which a sum over the batch is
    blind."""
    return [1, *[0] * (size - 2), size - 1]


def _rows(output: Any, size: int) -> list[Tensor]:
    """Outputs with a row for each sample; scores of each sample against each (CLIP) are meant to depend on all."""
    found = (
        tensor
        for tensor in tensors_in(output)
        if tensor.is_floating_point() and tensor.dim() and tensor.shape[0] == size
    )
    return [tensor for tensor in found if size not in tensor.shape[1:]]


def _apart(one: Sequence[Tensor], other: Sequence[Tensor], scales: Sequence[Tensor] | None = None) -> float:
    """The largest difference, as a share of the largest value."""
    pairs = zip(one, other, scales or one, strict=True)
    return max((_share((a - b).abs(), scale) for a, b, scale in pairs), default=0.0)


def _share(differences: Tensor, of: Tensor) -> float:
    """What is no number on both sides says nothing: the claim first-nonfinite does."""
    scale, most = (
        of[torch.isfinite(of)].abs().max() if bool(torch.isfinite(of).any()) else 1.0,
        differences.nan_to_num(0.0).max(),
    )
    return float(most) / max(float(scale), torch.finfo(torch.float32).tiny)


def _alone(model: nn.Module, inputs: Any, before: Sequence[Tensor]) -> tuple[float | None, str]:
    """Each sample by itself: how far its answer is from that among others, or what comes instead of one."""
    size, largest = size_of(inputs), 0.0
    for row in range(size):
        try:
            answers = [
                tensor
                for tensor in tensors_in(model(some(inputs, [row], size)))
                if tensor.is_floating_point() and tensor.dim()
            ]
        except (ValueError, RuntimeError, IndexError) as error:
            return None, f"it raises {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        fitting = [[each for each in answers if each.shape == output[:1].shape] for output in before]
        if not all(fitting):
            shapes = [list(each.shape) for each in tensors_in(model(some(inputs, [row], size)))]
            return None, f"its answer is {shapes[0] if len(shapes) == 1 else shapes}, not {list(before[0][:1].shape)}"
        pairs = [(found[0][0], output[row]) for found, output in zip(fitting, before, strict=True)]
        largest = max(largest, _apart([a for a, _ in pairs], [b for _, b in pairs], scales=before))
    return largest, ""


def _slope(model: nn.Module, inputs: Any) -> float | None:
    """Along the inputs of the other samples, against its own, of the last sample's answer. Numbers of tokens have no
    slope."""
    size = size_of(inputs)
    leaves: list[Tensor] = []

    def leaf(tensor: Tensor) -> Tensor:
        if not (tensor.is_floating_point() and tensor.dim() and tensor.shape[0] == size):
            return tensor
        leaves.append(tensor.detach().clone().requires_grad_())
        return leaves[-1].clone()  # a leaf may not be written to; a forward may write to its input

    with (
        torch.enable_grad(),
        torch.backends.cudnn.flags(enabled=False),
    ):  # cuDNN has no backward of a recurrent layer in eval mode
        outputs = [output[-1].flatten() for output in _rows(model(_each(inputs, leaf)), size) if output.requires_grad]
        # Weighted: what adds up to one, as a softmax does, has no slope as a plain sum.
        told = [(output * torch.linspace(1.0, 2.0, len(output), device=output.device)).sum() for output in outputs]
        if not leaves or not told:
            return None
        found = torch.autograd.grad(torch.stack(told).sum(), leaves, allow_unused=True)
    slopes = [slope.nan_to_num(0.0).abs() for slope in found if slope is not None]
    own = max((float(slope[-1:].max()) for slope in slopes), default=0.0)
    return max(float(slope[:-1].max()) for slope in slopes) / own if own else None


def _each(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: _each(item, change) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_each(item, change) for item in value))
    return type(value)(_each(item, change) for item in value) if isinstance(value, (list, tuple)) else value


# -- where they meet --


def _meeting(model: nn.Module, trial: _Trial) -> MixingPoint | None:
    """The operation in which samples first meet: None, if the forward cannot be followed."""
    size = trial.size
    own = [*range(size - 1), 0]
    plain, others, changed = (some(trial.inputs, rows, size) for rows in (range(size), _replaced(size), own))
    try:
        return find_sample_mixing(
            ReplayCopy(model), ((plain,), {}), ((others,), {}), ((changed,), {}), kept=size - 1, samples=size
        )
    except CannotReplay:
        return None


def _place(model: nn.Module, meeting: MixingPoint | None) -> Place | None:
    if meeting is None:
        return _of_class(model)
    return meeting.place or birthplace(model, meeting.layer.partition(" (")[0]) or _of_class(model)


def _of_class(model: nn.Module) -> Place | None:
    return class_place(type(model))
