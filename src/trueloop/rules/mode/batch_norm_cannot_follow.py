"""MOD108 batch-norm-cannot-follow: the momentum of batch norm is too small for the length of the run.

What it sees
------------
Batch norm layers whose momentum, times the number of training calls, is so small that the running statistics are
still near their initial values (mean 0, variance 1) at the end.

Why it hurts
------------
Training uses the statistics of the batch, evaluation the running ones. If those have not arrived, the model is
evaluated with wrong statistics, and its scores are far worse than in training. In PyTorch the momentum is the weight of
the new batch: 0.1 is the default, where other libraries write 0.9.

Evidence
--------
The momentum, the number of updates, and the share of the initial statistics that is left.

Use instead
-----------
    nn.BatchNorm2d(64)                  # momentum=0.1

When it is fine
---------------
Not reported: long runs, cumulative averages (`momentum=None`), and layers without running statistics.
"""

import math

from trueloop.event import BatchNormSettings
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["BatchNormCannotFollow"]


class BatchNormCannotFollow(Rule, code="MOD108", severity=Severity.WARNING):
    not_applicable = "no batch norm with a small momentum was trained"

    def on_batch_norm_settings(self, event: BatchNormSettings) -> Findings:
        left = math.exp(-event.momentum * event.updates)
        yield self.finding(
            event,
            f"Batch norm with `momentum={event.momentum:g}` had {event.updates} updates: {left:.0%} of the initial "
            "statistics is left in the running ones, which evaluation uses.",
            fix="Use `momentum=0.1`, the default: it is the weight of the new batch.",
            evidence={"momentum": event.momentum, "updates": event.updates, "layers": event.layers, "left": left},
        )
