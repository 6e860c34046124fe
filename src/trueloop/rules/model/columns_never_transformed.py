"""MDL122 columns-never-transformed: a density is scored on columns that no layer has changed.

What it sees
------------
In recorded training steps a value is squared, as in the log-density of a normal distribution. Some of its columns were
computed by the model; the others equal columns of the data, in every sample. In a flow with three or more layers of
one learned factor per column, the others are columns of the data times a constant, plus a constant.

Why it hurts
------------
A coupling layer of a flow leaves one part of the columns as it is, and the next layer has to take the other part. If
all layers keep the same part, that part is never learned: its density stays that of a standard normal distribution,
whatever the data are. The loss falls all the same, by the other columns.

Evidence
--------
The number of columns, how many of them are data, and the number of recorded steps that show it.

Use instead
-----------
    for layer in range(layers):
        blocks.append(Coupling(mask))
        mask = 1 - mask                # inside the loop: each layer keeps the other part

When it is fine
---------------
Not reported: flows in which every column is changed by some layer, layers that start as the identity, values of another
shape than the data, differences to a target, and a single autoregressive layer between learned factors.
"""

from typing import Final

from trueloop.event import ColumnsScored, Place, RunEnded
from trueloop.rules.rule import Findings, Rule, Severity

__all__ = ["ColumnsNeverTransformed"]

SAMPLED: Final = 2  # recorded steps that must show it, after layers that start as the identity have moved


class ColumnsNeverTransformed(Rule, code="MDL122", severity=Severity.WARNING):
    not_applicable = "no value with columns of the data was squared in a recorded training step"

    def __init__(self) -> None:
        self._seen: dict[Place | None, list[ColumnsScored]] = {}

    def on_columns_scored(self, event: ColumnsScored) -> None:
        self._seen.setdefault(event.place, []).append(event)

    def on_run_ended(self, _: RunEnded) -> Findings:
        for steps in self._seen.values():
            event = steps[-1]
            moved = [seen for seen in steps if seen.unchanged < seen.columns]
            if len(moved) < SAMPLED or not event.unchanged or {seen.unchanged for seen in moved} != {event.unchanged}:
                continue
            still = "are columns of the data times a constant" if event.constants else "equal columns of the data"
            yield self.finding(
                event,
                f"{event.unchanged} of the {event.columns} columns that are scored here {still} in "
                f"{len(moved)} recorded steps: no {'coupling' if event.constants else 'layer'} transforms them.",
                fix="Let each coupling layer keep the part that the layer before has transformed: "
                "`mask = 1 - mask` in the loop.",
                evidence={"columns": event.columns, "unchanged": event.unchanged, "rows": event.rows,
                          "sampled_steps": len(moved), "layers_of_constants": event.constants},
            )  # fmt: skip
