"""MDL108 samples-mixed: what comes out for one sample depends on the other samples of the batch.

What it sees
------------
A copy of the model is run again in eval mode, with one sample of the batch kept and all others replaced. The output for
the kept sample changes, though it does not when nothing is replaced. The operation in which samples first meet is
looked up.

Why it hurts
------------
Samples are meant to be independent: a softmax over dimension 0, a `view` where a `transpose` was meant, or a recurrent
layer that takes the batch for time hands information from one sample to another. Shapes fit, the loss falls, and the
result depends on what happens to lie in the same batch; with a batch of one it is another model.

Evidence
--------
The batch size, how much the output changed relative to its spread, and the layer and line where samples meet.

Use instead
-----------
    torch.softmax(scores, dim=-1)          # not dim=0
    out.transpose(0, 1).reshape(batch, -1) # not view(batch, -1) of [time, batch, ...]
    nn.LSTM(8, 16, batch_first=True)       # for inputs of [batch, time, features]

When it is fine
---------------
It is only judged where the first dimension is known to count samples: the batch was stacked by a DataLoader, or each
sample has an inside and one target. Batch statistics (BatchNorm, mean and variance over the batch), losses outside the
model, graphs and full-batch training, sequences that are not batched, and scores of each sample against each (CLIP) are
not reported. A model of sets, in which samples are meant to meet, says so in a comment: `# trueloop:
allow[samples-mixed]`.
"""

from __future__ import annotations

from typing import final

from trueloop.event import BatchIndependenceTested
from trueloop.event.thresholds import BATCH_CHANGE, BATCH_REPEAT
from trueloop.finding import Severity
from trueloop.rules.rule import Findings, Rule

__all__ = ["SamplesMixed"]


@final
class SamplesMixed(Rule):
    code = "MDL108"
    name = "samples-mixed"
    severity = Severity.ERROR
    not_applicable = (
        "no model was trained whose first dimension is known to count samples and whose forward could be repeated"
    )
    explained_by = ("future-visible",)

    def on_batch_independence_tested(self, event: BatchIndependenceTested) -> Findings:
        if event.change <= BATCH_CHANGE or event.repeat > BATCH_REPEAT:
            return
        where = f", in {event.layer}" if event.layer else ""
        yield self.finding(
            event,
            f"With the other {event.batch - 1} samples of a batch replaced, {event.name} gives another output for the one that was kept "
            f"({event.change:.0%} of the outputs' spread){where}.",
            fix="Keep samples apart: softmax over the last dimension, transpose before view, batch_first=True for [batch, time, ...].",
            evidence={
                "model": event.name,
                "batch": event.batch,
                "change": event.change,
                "repeat": event.repeat,
                "layer": event.layer,
            },
            place=event.defined,
        )
