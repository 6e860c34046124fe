"""DAT163 outputs-of-other-samples: stored outputs of a model are used as targets of samples that they do not belong to.

What it sees
------------
Targets of recorded steps are rows that a model computed earlier (scores of a teacher, embeddings), possibly divided by
a temperature or passed through a softmax. For nearly every sample the stored row is the one that was computed from a
different sample.

Why it hurts
------------
The student learns the answers to other samples. Its loss still falls to the mean answer, so nothing looks broken.

Evidence
--------
The number of samples whose own stored output is known, and how many of them meet the output of a different sample.

Use instead
-----------
    bank = torch.cat([teacher(part) for part in x.split(256)])     # in the order of the dataset
    for index, images in loader:                                   # the dataset returns its index, too
        target = bank[index]                                       # not bank[start : start + batch_size]

When it is fine
---------------
Not reported: outputs that are computed in the step itself (a second view, a next state), samples that were augmented
since, rows whose targets are all shifted by the same number of rows (outputs for the next state), and losses that also
compare each sample with its own output.
"""

from typing import Final

from trueloop.event import StoredOutputsCompared
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["OutputsOfOtherSamples"]

ROWS: Final = 24
MOST: Final = 0.8  # share of the rows with the output of a different sample


class OutputsOfOtherSamples(Rule, code="DAT163", severity=Severity.ERROR):
    not_applicable = "no target of a recorded step is an output that a model computed earlier"

    def __init__(self) -> None:
        self._own = False  # somewhere samples meet their own outputs: other rows are negatives, on purpose

    def on_stored_outputs_compared(self, event: StoredOutputsCompared) -> Findings:
        self._own = self._own or (event.rows > 0 and event.of_others <= (1 - MOST) * event.rows)
        if self._own or event.rows < ROWS or event.of_others < MOST * event.rows:
            return
        yield self.finding(
            event,
            f"{event.of_others} of {event.rows} samples are compared with the stored output for a different sample.",
            fix="Look up stored outputs by the number of the sample, in the order in which they were computed.",
            evidence={"rows": event.rows, "of_others": event.of_others},
        )
