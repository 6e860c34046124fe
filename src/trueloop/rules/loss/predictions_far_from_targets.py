"""LOS140 predictions-far-from-targets: at the end of the training, predictions are nowhere near their targets.

What it sees
------------
Predictions that are compared with targets of the same shape, by a regression loss or by a difference that the script
squares. In the last examined batches their mean is more than a standard deviation of the targets away from the targets'
mean, and the error is larger than that of a constant answer. At the pace of this run they would need at least as many
steps again. Targets are data: they come again in later epochs.

Why it hurts
------------
The first thing that a regression learns is the mean of its targets. Targets in single euros, Kelvin or bytes are
thousands of update steps away from an output that starts near 0: the run ends on the way there. The loss falls all the
time, which looks like learning.

Evidence
--------
Mean and standard deviation of predictions and targets, the mean prediction at the start, and the steps still needed.

Use instead
-----------
    mean, std = y_train.mean(), y_train.std()
    loss = loss_fn(model(x), (y - mean) / std)          # and model(x) * std + mean to predict

When it is fine
---------------
Not reported: fewer than 100 steps; targets that change (returns, other models' outputs); targets that hardly vary;
quantiles, whose predictions lie on one side; runs with several optimizers.
"""

import math
from typing import Final

from trueloop.event import FittedColumn, LossCurve, OptimizerSettings, PredictionsFitted, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["PredictionsFarFromTargets"]

STEPS: Final = 100
ROWS: Final = 24
FAR: Final = 1.2  # standard deviations of the targets
LONGER: Final = 2  # times the steps of this run, to reach the mean
DIFFERENCE: Final = "difference"
FAR_BY_DIFFERENCE: Final = 3.0  # of a difference that the script computes: it may be part of a quantile loss
LONGER_BY_DIFFERENCE: Final = 6  # it is not examined up to the end of the run
WORSE: Final = 1.2  # than a constant answer
RECURRING: Final = 0.02
DRIFT: Final = 1.0  # standard deviations between the first targets and the last ones


class PredictionsFarFromTargets(Rule, code="LOS140", severity=Severity.WARNING):
    not_applicable = "no regression loss was computed"
    explained_by = (
        "learning-rate-too-low", "learning-rate-too-high", "loss-diverges", "nan-or-inf", "exploding-gradients",
        "learning-rate-collapsed", "targets-out-of-reach", "shapes-broadcast-in-loss", "loss-detached-from-parameters",
        "optimizer-never-stepped", "step-without-gradient", "gradients-cleared-before-step", "gradients-never-cleared",
        "parameters-not-in-optimizer", "module-not-in-optimizer", "optimizer-holds-old-parameters",
        "gradients-clipped-away", "scheduler-epoch-batch-mismatch", "optimizer-recreated-every-step",
        "weights-overwritten-every-step", "weights-decayed-away", "grad-scaler-skips-steps", "only-norms-trained",
        "regression-loss-on-class-labels", "plateau-wrong-mode-or-metric", "weights-in-half-precision",
        "dead-relu-units", "loss-term-dominates",
    )  # fmt: skip

    def __init__(self) -> None:
        self._fitted: list[PredictionsFitted] = []
        self._curve: LossCurve | None = None
        self._rates: list[float] = []

    def on_predictions_fitted(self, event: PredictionsFitted) -> None:
        self._fitted.append(event)

    def on_loss_curve(self, event: LossCurve) -> None:
        self._curve = event

    def on_optimizer_settings(self, event: OptimizerSettings) -> None:
        self._rates.append(event.highest_rate)

    def on_run_ended(self, event: RunEnded) -> Findings:
        if self._curve is None or self._curve.optimizers != 1:
            return
        for fitted in self._fitted:
            steps = event.step if fitted.function == DIFFERENCE else fitted.calls
            far = [column for column in fitted.columns if _is_far(fitted, column, steps)]
            if fitted.last_call < STEPS or fitted.rows < ROWS or fitted.recurring < RECURRING or not far:
                continue
            worst = max(far, key=_distance)
            which = f" (column {worst.index})" if len(fitted.columns) > 1 else ""
            needed = _needed(fitted, worst)
            pace = "they do not move towards it" if needed is None else f"at this pace it takes {needed:,} more steps"
            rate = f" with a learning rate of {max(self._rates):.3g}" if self._rates else ""
            yield self.finding(
                fitted,
                f"After {fitted.last_call:,} steps{rate} the predictions{which} have mean {worst.mean:.4g}, the "
                f"targets {worst.target_mean:.4g} with standard deviation {worst.target_deviation:.3g}: {pace}.",
                fix="Standardize the targets with the mean and standard deviation of the training set; check the unit "
                "or scale that the settings give for the targets and the output.",
                evidence={"mean_prediction": worst.mean, "first_mean_prediction": worst.first_mean,
                          "mean_target": worst.target_mean, "target_deviation": worst.target_deviation,
                          "mean_error": worst.error, "error_of_a_constant": worst.constant_error},
            )  # fmt: skip


def _distance(column: FittedColumn) -> float:
    spread = column.target_deviation
    return abs(column.mean - column.target_mean) / spread if spread > 0 else 0.0


def _is_far(fitted: PredictionsFitted, column: FittedColumn, steps: int) -> bool:
    least, longer = (FAR, LONGER) if fitted.function != DIFFERENCE else (FAR_BY_DIFFERENCE, LONGER_BY_DIFFERENCE)
    widest = max(other.target_deviation for other in fitted.columns)
    varies = column.target_deviation > max(0.02 * widest, 1e-4 * abs(column.target_mean))
    drift = abs(column.first_target_mean - column.target_mean) / max(column.target_deviation, 1e-30)
    if not varies or drift > DRIFT or column.error < WORSE * column.constant_error or _distance(column) < least:
        return False
    needed = _needed(fitted, column)
    return needed is None or fitted.last_call + needed >= longer * steps


def _needed(fitted: PredictionsFitted, column: FittedColumn) -> int | None:
    """Steps to the mean of the targets at the pace so far; None: they do not come nearer."""
    gone = abs(column.first_mean - column.target_mean) - abs(column.mean - column.target_mean)
    if gone <= 0:
        return None
    return math.ceil(abs(column.mean - column.target_mean) / gone * fitted.last_call)
