"""MOD108 batch-norm-cannot-follow: the momentum of batch norm is too small for the length of the run.

What it sees
------------
Batch norm layers with a momentum below 0.02, whose running statistics still hold more than 5 % of their initial values
(mean 0, variance 1) at the last evaluation, and therefore differ from the statistics of the batches: the mean by
0.2 standard deviations or more, or the variance by 25 % or more.

Why it hurts
------------
Training uses the statistics of the batch, evaluation the running ones. If those have not arrived, the model is
evaluated with wrong statistics, and its scores are far worse than in training. In PyTorch the momentum is the weight of
the new batch: 0.1 is the default, where other libraries write 0.9.

Evidence
--------
The momentum, the number of updates, the share of the initial statistics that is left, and the differences.

Use instead
-----------
    nn.BatchNorm2d(64)                  # momentum=0.1

When it is fine
---------------
Not reported: long runs, models that are never evaluated, layers that start with pretrained statistics, layers whose
batches have mean 0 and variance 1 anyway, cumulative averages (`momentum=None`), and layers without running statistics.
"""

from trueloop.event import BatchNormSettings
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["BatchNormCannotFollow"]


class BatchNormCannotFollow(Rule, code="MOD108", severity=Severity.WARNING):
    not_applicable = "no batch norm with a small momentum was trained"

    def on_batch_norm_settings(self, event: BatchNormSettings) -> Findings:
        yield self.finding(
            event,
            f"Batch norm with `momentum={event.momentum:g}` had {event.updates} updates: {event.left:.0%} of the "
            "initial statistics is left in the running ones, which evaluation uses. The running mean is "
            f"{event.shift:.2g} standard deviations from that of the batches; the variance is {event.ratio:.2g} times "
            "theirs.",
            fix="Use `momentum=0.1`, the default: it is the weight of the new batch.",
            evidence={"momentum": event.momentum, "updates": event.updates, "layers": event.layers,
                      "left": round(event.left, 3), "mean_shift": round(event.shift, 3),
                      "variance_ratio": round(event.ratio, 3)},
        )  # fmt: skip
