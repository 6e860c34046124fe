"""LOS108 loss-at-chance: after hundreds of steps the loss is no better than a constant prediction.

What it sees
------------
The last quarter of the losses, on a sample of calls, compared with the loss of a constant prediction on the same
targets: the class frequencies (cross entropy, NLL, BCE) or the mean of all targets (MSE). The loss no longer falls
compared with the third quarter.

Why it hurts
------------
The model has learned the class frequencies or the mean, and nothing from the inputs: the inputs do not reach it, do not
belong to their labels, or the weights cannot follow. A loss that falls from a random start to this level looks like
learning.

Evidence
--------
The loss in the first, third and last quarter, the chance-level loss on the same targets, and the number of classes,
steps and epochs.

Use instead
-----------
Look for what disconnects inputs and labels. First overfit one batch:

    x, y = next(iter(loader))       # the same batch in each step: the loss must go to nearly zero

When it is fine
---------------
Not reported: fewer than 300 steps or three epochs (1,000 steps without a DataLoader); a loss that still falls; class
weights, label smoothing or soft targets; sums of several losses; adversarial, bootstrapped and contrastive training. If
the labels are random (a benchmark) or carry almost no signal, the finding is correct but not a bug: allow it.
"""

from collections import Counter
from typing import Final

from trueloop.event import EpochStarted, LossAgainstChance, LossCurve, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["LossAtChance"]

STEPS: Final = 300  # Steps before the rule reports that nothing is learned,
PASSES: Final = 3  # and the number of epochs they must cover,
STEPS_WITHOUT_LOADER: Final = 1000  # or the number of steps, if epochs cannot be counted
LOOKS: Final = 16  # Sampled calls: four in each quarter
TARGETS: Final = 50  # Average targets per class: with fewer, frequencies overfit and the chance level looks too good
BETTER: Final = 0.99  # A loss below this share of chance level has learned something
FALLS: Final = 0.99  # A last quarter below this share of the third, each relative to its own chance level, still falls
LEAST: Final = 0.01  # A chance level below this (rare classes, nearly equal targets) cannot be missed by much


class LossAtChance(Rule, code="LOS108", severity=Severity.WARNING):
    not_applicable = "no PyTorch loss function was called"
    explained_by = (
        # no update reaches the weights
        "loss-detached-from-parameters", "unused-parameters", "parameters-not-in-optimizer",
        "weights-overwritten-every-step", "module-not-in-optimizer", "only-norms-trained",
        "checkpoint-weights-dead", "weights-decayed-away", "gradients-clipped-away",
        "optimizer-holds-old-parameters", "grad-scaler-skips-steps", "step-without-gradient",
        "gradients-cleared-before-step", "optimizer-never-stepped", "optimizer-recreated-every-step",
        "vanishing-gradients", "weights-in-half-precision", "layers-in-a-plain-list",
        # wrong updates
        "learning-rate-too-low", "learning-rate-too-high", "gradients-never-cleared", "exploding-gradients",
        "loss-diverges", "nan-or-inf", "scheduler-epoch-batch-mismatch", "plateau-wrong-mode-or-metric",
        "trained-in-eval-mode",
        # the model cannot distinguish samples
        "symmetric-initialization", "dead-relu-units", "saturated-activations", "output-ignores-input",
        "samples-mixed-in-batch",
        # a wrong loss
        "softmax-before-cross-entropy", "sigmoid-before-bce-with-logits", "logits-passed-as-probabilities",
        "wrong-target-format", "regression-loss-on-class-labels", "shapes-broadcast-in-loss",
        # the data
        "labels-misaligned-with-inputs", "inputs-not-normalized", "nan-or-inf-in-inputs", "single-class-batches",
        "not-shuffled", "dataset-modified-in-place",
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
        answer = f"the frequencies of {seen.classes} classes" if seen.classes else "the mean of the targets"
        yield self.finding(
            seen,
            f"After {event.step} steps the loss is {seen.last:.4g}, no better than always predicting {answer} "
            f"({seen.chance:.4g}): the model learned nothing from the inputs.",
            fix="Overfit a single batch first: its loss must go to nearly zero. If not, check that inputs, labels and "
            "gradients are connected.",
            evidence=facts(
                seen,
                "function first_quarter third_quarter last_quarter chance classes sampled_targets=targets",
                first_quarter=float(f"{seen.first:.6g}"),
                third_quarter=float(f"{seen.third:.6g}"),
                last_quarter=float(f"{seen.last:.6g}"),
                chance=float(f"{seen.chance:.6g}"),
                steps=event.step,
                epochs=max(self._passes.values(), default=0),
            ),
        )

    def why_not_checked(self) -> str:
        long = self._followed is not None and self._is_long(self._followed.step)
        return "" if long else "the run was too short to compare the loss with chance level"

    def _is_long(self, steps: int) -> bool:
        if not self._passes:
            return steps >= STEPS_WITHOUT_LOADER
        return steps >= STEPS and max(self._passes.values()) >= PASSES


def _is_at_chance(seen: LossAgainstChance) -> bool:
    enough = (
        seen.sampled_calls >= LOOKS
        and 2 * seen.one_sided < seen.sampled_calls
        and seen.targets >= TARGETS * max(1, seen.classes)
    )
    if not enough or seen.classes == 1 or seen.chance < LEAST:
        return False
    third = seen.third / max(seen.third_chance, LEAST)
    return seen.last >= BETTER * seen.chance and seen.last / seen.chance >= FALLS * third
