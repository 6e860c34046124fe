"""MDL108 samples-mixed-in-batch: the output for one sample depends on the other samples of the batch.

What it sees
------------
A copy of the model runs again in eval mode with one sample of the batch kept and all others replaced. The output for
the kept sample changes, although it is stable when nothing is replaced. The operation that first mixes the samples is
located. A softmax is recognized by its values, which sum to 1 over the samples, whether it is a `softmax(dim=0)`, a
`logsumexp(0)` that is subtracted, or a division by `sum(0)`; also beside a mask and other inputs of each sample.

Why it hurts
------------
Samples must be independent. A softmax over dimension 0, a `view` where a `transpose` was meant, or a recurrent layer
without `batch_first=True` mixes them: shapes fit and the loss falls, but each prediction depends on the rest of the
batch, and differs with batch size 1.

Evidence
--------
The batch size, how much the output changed relative to its spread, and the layer and line that mix the samples.

Use instead
-----------
    torch.softmax(scores, dim=-1)          # not dim=0
    out.transpose(0, 1).reshape(batch, -1) # not view(batch, -1) of [time, batch, ...]
    nn.LSTM(8, 16, batch_first=True)       # for inputs of [batch, time, features]

When it is fine
---------------
Checked only where the first dimension is known to be the batch: a DataLoader stacked it, or each sample has more
dimensions and one target. Not reported: batch statistics (BatchNorm, mean and variance over the batch), losses outside
the model, graphs and full-batch training, unbatched sequences, and scores of all pairs of samples (CLIP). A model of
sets can allow it: `# trueloop: allow[samples-mixed-in-batch]`.
"""

from trueloop.event import BatchIndependenceTested
from trueloop.event.thresholds import BATCH_CHANGE, BATCH_CHANGE_NORMALIZED, BATCH_REPEAT
from trueloop.rules.rule import Findings, Rule, Severity, facts

__all__ = ["SamplesMixedInBatch"]


class SamplesMixedInBatch(Rule, code="MDL108", severity=Severity.ERROR):
    not_applicable = "no trained model had a known batch dimension and a repeatable forward"
    explained_by = ("future-leakage",)

    def on_batch_independence_tested(self, event: BatchIndependenceTested) -> Findings:
        least = BATCH_CHANGE_NORMALIZED if event.normalized else BATCH_CHANGE
        if event.change <= least or event.repeat > BATCH_REPEAT:
            return
        change = f"{event.change:.{0 if event.change >= 0.01 else 2}%}"
        where = f", in {event.layer}" if event.layer else ""
        yield self.finding(
            event,
            f"{event.name} mixes samples{where}: replacing the other {event.batch - 1} samples of the batch changes "
            f"the output of the kept one by {change} of the spread.",
            fix="Use `softmax(..., dim=-1)`, transpose before `view`, and `batch_first=True` for [batch, time, ...].",
            evidence=facts(event, "model=name batch change repeat layer"),
            place=event.defined,
        )
