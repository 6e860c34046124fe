"""LOS108 loss-at-chance: after hundreds of steps the loss is no better than that of one and the same answer to every
sample.

What it sees
------------
The last quarter of the losses, on some of the calls, against what the very same targets would have cost if each had
been answered by the frequencies of the classes (cross entropy, NLL, BCE) or by the mean of all targets (MSE); and the
quarter before it: the loss no longer falls.

Why it hurts
------------
The model has learnt how often each class comes, or what the mean is, and nothing of the inputs: they do not reach it,
do not belong to their labels, or the weights cannot follow. A number that goes down from a random start to this level
looks like learning.

Evidence
--------
The losses of the first, third and last quarter, the loss of chance on the same targets, the number of classes, steps
and passes.

Use instead
-----------
Look for what cuts inputs from labels: overfit one batch first.

    x, y = next(iter(loader))       # the same batch in each step: the loss must go to nearly zero

When it is fine
---------------
Before 300 steps and three passes over the data (a thousand steps where no DataLoader is used) nothing is said; nor of a
loss that still falls, of losses with class weights, label smoothing or soft targets, of sums of several losses, of
adversarial and bootstrapped training, of contrastive losses. Where the labels are drawn at random (a benchmark) or
carry next to no signal, it is true and no fault of the loop: allow it."""

from __future__ import annotations

from collections import Counter
from typing import Final, final

from trueloop.event import EpochStarted, LossAgainstChance, LossCurve, RunEnded
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["LossAtChance"]

STEPS: Final = 300
"""Steps before one says that nothing is learnt,"""
PASSES: Final = 3
"""which must have seen the data so often,"""
STEPS_WITHOUT_LOADER: Final = 1000
"""or, where passes cannot be counted, so many steps."""
LOOKS: Final = 16
"""Calls looked at: four in each quarter."""
TARGETS: Final = 50
"""Targets per class, on average: fewer make the frequencies fit the sample, and chance look better than it is."""
BETTER: Final = 0.99
"""A loss below this share of chance has learnt something."""
FALLS: Final = 0.99
"""A last quarter below this share of the third, each measured by the chance of its own targets, is on its way."""
LEAST: Final = 0.01
"""A chance below this (rare classes, targets that hardly differ) is too good to be missed by much."""


@final
class LossAtChance(Rule):
    code = "LOS108"
    name = "loss-at-chance"
    severity = Severity.WARNING
    not_applicable = "no loss function of PyTorch's was called"
    explained_by = (
        # nothing reaches the weights
        "loss-detached-from-parameters", "parameters-never-trained", "parameter-in-no-group", "optimizer-holds-old-parameters", "steps-skipped",
        "step-without-gradient", "gradients-cleared-before-step", "optimizer-never-stepped", "optimizer-built-each-step",
        "vanishing-gradients", "weights-in-half", "layers-in-a-plain-list",
        # it reaches them wrongly
        "learning-rate-too-low", "learning-rate-too-high", "gradients-never-cleared", "exploding-gradients", "loss-diverges", "nan-or-inf",
        "schedule-out-of-time", "plateau-watches-wrong-way", "trained-in-eval-mode",
        # the model cannot tell samples apart
        "units-start-equal", "units-dead", "activations-saturated", "output-ignores-input", "samples-mixed",
        # the loss is another one than was meant
        "softmax-before-cross-entropy", "sigmoid-before-bce-with-logits", "logits-passed-as-probabilities", "wrong-target-format",
        "regression-loss-on-class-labels", "shapes-broadcast-in-loss",
        # the data
        "labels-misaligned-with-inputs", "inputs-not-normalized", "nan-or-inf-in-inputs", "single-class-batches", "not-shuffled", "dataset-modified-in-place",
    )  # fmt: skip

    def __init__(self) -> None:
        self._compared: list[LossAgainstChance] = []
        self._followed: LossCurve | None = None
        self._passes: Counter[int] = Counter()

    def on_epoch_started(self, event: EpochStarted) -> None:
        self._passes[event.loader] += 1

    def on_loss_against_chance(self, event: LossAgainstChance) -> None:
        self._compared.append(event)

    def on_loss_curve(self, event: LossCurve) -> None:
        self._followed = event

    def on_run_ended(self, event: RunEnded) -> Findings:
        loss = self._followed
        if len(self._compared) != 1 or loss is None or not self._is_long(event.step):
            return
        if loss.optimizers != 1 or loss.closures or 2 * loss.bootstrapped > event.step:
            return
        seen = self._compared[0]
        if not _is_at_chance(seen):
            return
        answer = f"the frequencies of the {seen.classes} classes" if seen.classes else "the mean of the targets"
        yield self.finding(
            seen,
            f"After {event.step} steps the loss is {seen.last:.4g}, and answering every sample with {answer} costs {seen.chance:.4g}: "
            "nothing has been learnt from the inputs.",
            fix="Train on one batch until its loss is nearly zero; if that fails, inputs, labels or gradients are cut off from each other.",
            evidence={
                "function": seen.function,
                "first_quarter": float(f"{seen.first:.6g}"),
                "third_quarter": float(f"{seen.third:.6g}"),
                "last_quarter": float(f"{seen.last:.6g}"),
                "chance": float(f"{seen.chance:.6g}"),
                "classes": seen.classes,
                "targets_looked_at": seen.targets,
                "steps": event.step,
                "passes": max(self._passes.values(), default=0),
            },
        )

    def why_not_checked(self) -> str:
        long = self._followed is not None and self._is_long(self._followed.step)
        return "" if long else "the run was too short to tell chance from a beginning"

    def _is_long(self, steps: int) -> bool:
        if not self._passes:
            return steps >= STEPS_WITHOUT_LOADER
        return steps >= STEPS and max(self._passes.values()) >= PASSES


def _is_at_chance(seen: LossAgainstChance) -> bool:
    judged = (
        seen.sampled_calls >= LOOKS
        and 2 * seen.one_sided < seen.sampled_calls
        and seen.targets >= TARGETS * max(1, seen.classes)
    )
    if not judged or seen.classes == 1 or seen.chance < LEAST:
        return False
    return seen.last >= BETTER * seen.chance and seen.last / seen.chance >= FALLS * seen.third / max(
        seen.third_chance, LEAST
    )
