"""MOD109 copy-without-batch-norm-statistics: an averaged copy of the model is evaluated with untrained batch norms.

What it sees
------------
A model that is only evaluated, never called in train mode, while its weights change during the run: an exponential
moving average, a teacher, a target network. Its batch norm layers still have a running mean of 0 and a variance of 1.

Why it hurts
------------
The update copies parameters and forgets buffers: `parameters()` does not contain the running statistics. In eval mode
the copy normalizes with statistics that belong to no data, and its scores are far below those of the model.

Evidence
--------
The number of batch norm layers with initial statistics, and of evaluations.

Use instead
-----------
    for mine, theirs in zip(ema.buffers(), model.buffers()):
        mine.copy_(theirs)

`torch.optim.swa_utils.AveragedModel(model, use_buffers=True)` does it too.

When it is fine
---------------
Not reported: models that were never trained or copied, copies whose statistics were copied or recomputed
(`update_bn`), and models without batch norm.
"""

from trueloop.event import CopyNormsInitial
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["CopyWithoutBatchNormStatistics"]


class CopyWithoutBatchNormStatistics(Rule, code="MOD109", severity=Severity.ERROR):
    not_applicable = "no copy with batch norm was evaluated"

    def on_copy_norms_initial(self, event: CopyNormsInitial) -> Findings:
        yield self.finding(
            event,
            f"The weights of this `{event.model}` follow the training, but its {event.layers} batch norm layers still "
            "have their initial statistics (mean 0, variance 1).",
            fix="Copy the buffers too: `for mine, theirs in zip(ema.buffers(), model.buffers()): mine.copy_(theirs)`.",
            evidence={"layers": event.layers, "evaluations": event.calls},
        )
